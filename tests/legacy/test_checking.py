"""A model is compared with the graph in its own file: what that finds, and what not."""

import contextlib
import dataclasses
import gc
import types
import warnings
import weakref

import keras
import legacy_files
import lost_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, convert_model, load_model
from keras_policies._common import comparing
from keras_policies._common.comparing import Recipe
from keras_policies.cli.main import main
from keras_policies.legacy.assembly import (
    build,
    checking,
    comparison,
    examples,
    judging,
    serving,
)
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Function,
    Node,
    Output,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan import plan
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    idioms,
    reference,
)
from keras_policies.legacy.plan.reconstruction.ir import Constant
from keras_policies.legacy.plan.reconstruction.reference import Interpreter
from keras_policies.legacy.readers import readers

RELEASES = [
    release
    for release in lost_files.RELEASES
    if legacy_files.IS_THOROUGH or release == legacy_files.NEWEST
]
NEWEST = legacy_files.NEWEST


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for name in RELEASES for path in lost_files.archives(name)]
    return legacy_files.unpacked(tmp_path_factory.mktemp("checked"), archives)


# Cases without inputs of their own: those of their signatures are in other tests.
SIGNATURES = "export_", "keras_attention", "keras_image", "module_"
# What the interpreter does not run, with the reason that it gives.
NOT_RUN = {
    "sequential_of_features": "the op 'SparseToDense' has no counterpart",
    "name_of_a_second_call": "the op 'ImageProjectiveTransformV3' has no counterpart",
}
# Only the signature that tf.keras traced has the masks, not the functions of layers.
MASKS = "mask_read_from_a_tensor", "masks_of_"


@pytest.mark.once("the interpreter computes with NumPy")
@pytest.mark.parametrize(
    "name",
    legacy_files.by_release(
        f"{release}/{name}"
        for release in RELEASES
        for name in lost_files.names(release)
        if not name.startswith(SIGNATURES) and name not in NOT_RUN
    ),
)
def test_the_interpreter_computes_what_tensorflow_did(folder, name):
    case = lost_files.of(folder, name)
    with readers.read(case.model) as legacy:
        recorded = legacy.traced
        root = recorded.layers[0]
        trace = concrete_functions.for_inference(root.traces)[0]
        if case.folder.name.startswith(MASKS):
            trace = root.served
        interpreter, specs = (
            Interpreter(recorded),
            concrete_functions.specs(trace.outputs),
        )
        for inputs, expected in case.batches():
            given = [np.asarray(x) for x in keras.tree.flatten(inputs)]
            found = interpreter.run(trace, given, len(specs))
            if interpreter.dropouts or case.about.get("random_outputs"):
                return  # no single draw can be compared
            for one, other in zip(found, expected, strict=True):
                half = other.dtype.itemsize == 2 or "float16" in name
                share = 2e-2 if half else 1e-5
                atol = share * max(1, float(np.max(np.abs(other), initial=0)))
                one = np.asarray(one, "float64")
                np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def edited(config, change):
    """Return a config, each dict in it replaced by what `change` makes of it."""
    if isinstance(config, dict):
        return change({key: edited(value, change) for key, value in config.items()})
    if isinstance(config, list):
        return [edited(value, change) for value in config]
    return config


def settings(**changes):
    def edit(name):
        def change(config):
            is_layer = config.get("name") == name and "program" not in config
            return config | changes if is_layer else config

        return change

    return edit


def in_program(change_of_program):
    def edit(name):
        def change(config):
            if "program" not in config:
                return config
            return config | {"program": change_of_program(config["program"], name)}

        return change

    return edit


def step(change_of_step):
    def change(program, name):
        every = (change_of_step(s) if s.name == name else s for s in program.steps)
        return dataclasses.replace(program, steps=tuple(every))

    return in_program(change)


def op(name):
    return step(lambda step: dataclasses.replace(step, op=name))


def attribute(**changes):
    return step(
        lambda step: dataclasses.replace(
            step, attributes={**step.attributes, **changes}
        )
    )


def constant(position, change):
    def with_other(step):
        inputs = [*step.inputs]
        inputs[position] = Constant(change(np.array(inputs[position].value)))
        return dataclasses.replace(step, inputs=tuple(inputs))

    return step(with_other)


swapped = step(
    lambda step: dataclasses.replace(
        step, inputs=(step.inputs[1], step.inputs[0], *step.inputs[2:])
    )
)


def _outputs_swapped(program, name):
    is_it = program.name == name
    return dataclasses.replace(program, ends=program.ends[::-1]) if is_it else program


outputs_swapped = in_program(_outputs_swapped)


FAULTS = {
    "an activation": ("gated", "dense", settings(activation="tanh")),
    "an axis": ("instance_norm", "moments_mean", constant(1, lambda axes: axes[:1])),
    "a bound": (
        "split_concat",
        "strided_slice",
        constant(1, lambda b: np.add(b, [0, 1])),
    ),
    "a comparison": ("where_gather_one_hot", "Greater", op("Less")),
    "a constant": ("own_attention", "truediv", constant(1, lambda x: x * 1.1)),
    "an epsilon": ("layer_norm_inside", "layer_normalization", settings(epsilon=0.1)),
    "an equation": (
        *("einsum", "einsum_2_Einsum"),
        attribute(equation="bhst,bshk->bthk"),
    ),
    "an index": ("where_gather_one_hot", "GatherV2", constant(1, lambda x: x[::-1])),
    "an op": ("instance_norm", "Rsqrt", op("Sqrt")),
    "the order of outputs": ("siamese_of_keywords", "distance_layer", outputs_swapped),
    "a padding": ("own_depthwise", "k", settings(padding="valid")),
    "swapped arguments": ("gated", "concat", swapped),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(folder, fault):
    name, layer, edit = FAULTS[fault]
    with readers.read(folder / NEWEST / name / "model") as legacy:
        planned = plan.make(legacy)
        right = checking.check(build.build(planned).model, planned, None)
        assert right.difference < 1e-5
        config = edited(planned.config, edit(layer))
        wrong = dataclasses.replace(planned, config=config)
        model = build.build(wrong).model
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, wrong, None)


def test_a_transposed_kernel_is_found(folder):
    with readers.read(folder / NEWEST / "own_attention" / "model") as legacy:
        planned = plan.make(legacy)
        model = build.build(planned).model
        kernel = next(w for w in model.weights if w.path.endswith("dense/kernel"))
        kernel.assign(np.transpose(keras.ops.convert_to_numpy(kernel)))
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, planned, None)


def test_the_first_layer_that_differs_is_named(folder):
    with readers.read(folder / NEWEST / "siamese_of_keywords" / "model") as legacy:
        planned = plan.make(legacy)
        model = build.build(planned).model
        kernel = model.get_layer("embedding").get_layer("dense").kernel
        kernel.assign(2 * keras.ops.convert_to_numpy(kernel))
        with pytest.raises(LegacyModelError, match="differs is 'embedding/dense'"):
            checking.check(model, planned, None)


def test_a_model_differs_also_if_no_layer_is_found_that_does(folder, monkeypatch):
    monkeypatch.setattr(comparison.Comparison, "_first_difference", refuse)
    path = folder / NEWEST / "own_rms_normalization" / "model"
    assert "graph computes something else than the configs" in opened(path)


def test_a_machine_that_rounds_products_may_differ_more(folder, monkeypatch):
    with readers.read(folder / NEWEST / "gated" / "model") as legacy:
        planned = plan.make(legacy)
        model = build.build(planned).model
        kernel = next(w for w in model.weights if w.path.endswith("kernel"))
        kernel.assign(1.001 * keras.ops.convert_to_numpy(kernel))
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, planned, None)
        monkeypatch.setattr(comparing, "rounding_of_products", lambda: 5e-4)
        assert 1e-4 < checking.check(model, planned, None).difference < 2e-3


def test_stock_float16_may_differ_by_its_rounding(folder):
    path = folder / NEWEST / "subclassed-mixed_float16" / "model"
    with readers.read(path) as legacy:
        planned = plan.make(legacy)
        model = build.build(planned).model
        assert checking.check(model, planned, None).difference < 2e-2
        kernel = next(w for w in model.weights if w.path.endswith("kernel"))
        kernel.assign(1.2 * keras.ops.convert_to_numpy(kernel))
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, planned, None)


def opened(path, **options):
    """Return the texts of the warnings of opening a model."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_model(path, **options)
    return "\n".join(str(one.message) for one in caught)


def test_a_graph_that_costs_too_much_is_not_checked(folder, monkeypatch):
    monkeypatch.setattr(budget, "NODE", 1e6)
    path = folder / NEWEST / "gated" / "model"
    assert "not checked against its own graph: its graph is too large" in opened(path)


def test_a_model_that_computes_more_than_its_graph_is_not_called(folder):
    with readers.read(folder / NEWEST / "scale" / "model") as legacy:
        planned = plan.make(legacy)
        x = build.build(planned).model.inputs[0]
        huge = keras.ops.repeat(keras.ops.repeat(x, 10**5, 1), 10**5, 1)
        model = keras.Model(x, keras.Model(x, keras.ops.sum(huge, 1))(x))
        found = checking.check(model, planned, None)
    assert found == comparison.Check(None, "its graph is too large")


def test_a_loop_that_never_ends_costs_too_much():
    loop = Node("loop", "While", (Output("x"),), {"cond": "yes", "body": "same"})
    true = Node("true", "Const", (), {"value": np.array(True)})
    functions = {
        "main": Function("main", ("x",), {"loop": loop}, (Output("loop", "output"),)),
        "yes": Function("yes", ("x",), {"true": true}, (Output("true", "output"),)),
        "same": Function("same", ("x",), {}, (Output("x"),)),
    }
    interpreter = Interpreter(TracedFunctions({}, {}, {}, functions, {}))
    trace = ConcreteFunction("main", ((TensorSpec((), "float32", "x"),), {}), (), ())
    with budget.anew(0), pytest.raises(LimitError, match="more work"):
        interpreter.run(trace, [np.float32(1)])


@pytest.mark.parametrize(("op", "is_other"), [("Relu", False), ("Mul", True)])
def test_functions_that_call_each_other_twice_take_linear_time(op, is_other):
    """One that is looked at each time that it is called takes 2^60 steps."""
    x = (Output("x"),)

    def function(name, *nodes):
        end = (Output(nodes[-1].name),)
        return Function(name, ("x",), {node.name: node for node in nodes}, end)

    functions = {"served": function("served", Node("last", op, x, {}))}
    for n in range(60):
        calls = (Node(i, "PartitionedCall", x, {"f": f"f{n + 1}"}) for i in "ab")
        functions[f"f{n}"] = function(f"f{n}", *calls)
    functions["f60"] = function("f60", Node("last", "Relu", x, {}))
    traced = TracedFunctions({}, {}, {}, functions, {})
    inputs = ((TensorSpec((), "float32", "x"),), {})
    served, trace = (ConcreteFunction(f, inputs, (), ()) for f in ("served", "f0"))
    with budget.anew(0):
        assert serving.Served(traced, served, trace, 0).is_other == is_other


def test_what_is_no_longer_held_is_given_back():
    double = {
        f"x{n + 1}": Node(f"x{n + 1}", "AddV2", (Output(f"x{n}"), Output(f"x{n}")), {})
        for n in range(100)
    }
    function = Function("main", ("x0",), double, (Output("x100"),))
    interpreter = Interpreter(TracedFunctions({}, {}, {}, {"main": function}, {}))
    trace = ConcreteFunction("main", ((TensorSpec((), "float32", "x0"),), {}), (), ())
    with budget.anew(0):
        before = budget.memory_left()
        interpreter.run(trace, [np.zeros(1_000_000, "float32")])
        assert before - budget.memory_left() == 4_000_000


def test_an_op_without_a_counterpart_is_named(folder, monkeypatch):
    monkeypatch.setattr(Interpreter, "op", refuse)
    path = folder / NEWEST / "gated" / "model"
    assert "its own graph: the op 'Odd' has no counterpart" in opened(path)


def refuse(*args):
    raise comparison.NotInterpretedError("the op 'Odd' has no counterpart")


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="an option of jax")
@pytest.mark.parametrize("options", [{}, {"xla_of_tomorrow": True}])
def test_a_jax_without_the_options_of_the_check_compiles_as_usual(options, monkeypatch):
    import jax

    from keras_policies.backends import jax as ours

    monkeypatch.setattr(ours, "ONCE", ours.ONCE | options)
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    assert ours._compiled_quickly(lowered)(1.0) == 2.0


def test_models_of_stock_classes_are_checked_if_that_costs_little(monkeypatch):
    checks, stock = [], checking.check

    def check(*args, is_due, **texts):
        checks.append((is_due, stock(*args, is_due=is_due, **texts)))
        return checks[-1][1]

    monkeypatch.setattr(checking, "check", check)
    path = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "saved_model"
    for verify, expected in ((None, False), (True, True)):
        assert "not checked" not in opened(path, verify=verify)
        is_due, found = checks.pop()
        assert is_due == expected
        # The older runtime of jax 0.4.38 rounds a convolution in float16 otherwise if
        # it is called alone.
        is_lowest = keras.__version__.startswith("3.8.")
        assert found.difference < (2**-11 if is_lowest else 1e-5)
    load_model(path, verify=False)
    assert not checks
    monkeypatch.setattr(limits, "SMALL_WORK", 1)
    assert "not checked" not in opened(path)
    assert checks.pop()[1].reason == "its graph is too large"


def test_convert_says_how_it_was_checked(folder, tmp_path, capsys):
    path, new = folder / NEWEST / "gated" / "model", tmp_path / "new.keras"
    assert 0 <= convert_model(path, new).graph_difference < 1e-5
    assert main(["convert", str(path), str(new), "--overwrite"]) == 0
    assert "checked against its own graph: largest diff" in capsys.readouterr().out
    h5 = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "model.h5"
    assert main(["convert", str(h5), str(new), "--overwrite"]) == 0
    text = "not checked against its own graph: only a SavedModel has one"
    assert text in capsys.readouterr().out


def test_an_unexpected_error_of_the_graph_is_no_error_of_the_model(folder, monkeypatch):
    monkeypatch.setattr(Interpreter, "op", lambda *args: {}["missing"])
    path = folder / NEWEST / "gated" / "model"
    assert "its own graph: KeyError: 'missing'" in opened(path)


def test_a_draw_that_is_scaled_by_itself_ends():
    nodes = {
        "draw": Node("draw", "Mul", (Output("draw"), Output("draw")), {}),
        "RandomUniform": Node("RandomUniform", "RandomUniform", (), {}),
        "rate": Node("rate", "Const", (), {"value": np.array(0.5)}),
        "kept": Node("kept", "GreaterEqual", (Output("draw"), Output("rate")), {}),
        "cast": Node("cast", "Cast", (Output("kept"),), {}),
        "two": Node("two", "Const", (), {"value": np.array(2.0)}),
        "scaled": Node("scaled", "Mul", (Output("x"), Output("two")), {}),
        "end": Node("end", "Mul", (Output("scaled"), Output("cast")), {}),
    }
    function = Function("f", ("x",), nodes, (Output("end"),))
    recorded = TracedFunctions({}, {}, {}, {"f": function}, {})
    assert idioms.function(recorded, "f").nodes["end"].op == "Mul"


@pytest.mark.parametrize("name", ["lstm_inside", "own_attention"])
def test_a_graph_in_float16_is_known_by_its_rounding(folder, monkeypatch, name):
    """A file without Keras metadata does not say where it computes in float16."""
    monkeypatch.setattr(plan.Plan, "compute_dtypes", {"float32"})
    case = lost_files.of(folder, f"2.15.1/{name}-mixed_float16")
    with pytest.warns(UserWarning, match="rebuilt from the functions"):
        load_model(case.model, verify=True)


def test_no_sum_of_the_drawn_numbers_is_negative_in_all_examples():
    """A ReLU behind weights of one sign would give zeros, which hide what follows."""
    for size in range(1, 40):
        for batch in (None, 3):
            spec = TensorSpec((batch, size), "float32")
            (drawn,) = comparing.draw([spec], Recipe(lengths=(5,), keys={}))
            assert drawn.sum(1).min() < 0 < drawn.sum(1).max()


def test_inputs_end_with_vectors_that_may_be_padding():
    (found,) = comparing.draw(
        [TensorSpec((None, 5, 3), "float32")], Recipe(lengths=(5,))
    )
    np.testing.assert_array_equal(found[-1, -2:], [[-1.0] * 3, [0.0] * 3])
    assert np.all(found[0] != 0)


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        (TensorSpec((None, None), "int64"), None),
        (TensorSpec((None, 5), "float32"), 9),  # an Embedding casts it
    ],
)
def test_words_have_padding_at_either_end_or_nothing_else(spec, bound):
    (found,) = comparing.draw([spec], Recipe(4, (5,), bound, {}))
    assert found.shape == (4, 5)
    assert found[3, -2:].tolist() == found[1, :2].tolist() == [0, 0]
    assert found[2].tolist() == [0] * 5
    assert found[1, 2:].tolist() == [found[1, 2]] * 3
    assert np.any(found[0] != 0)


def test_texts_have_padding_also_if_there_is_a_table():
    keys = {"string": [b"a"], "int64": []}
    (found,) = comparing.draw([TensorSpec((None, 1), "string")], Recipe(4, keys=keys))
    assert found[2].tolist() == [b""]
    assert found[0, 0] != b""


def test_the_only_row_of_a_fixed_batch_ends_with_padding():
    (found,) = comparing.draw([TensorSpec((1, 6), "int32")], Recipe(keys={}))
    assert found[0, -2:].tolist() == [0, 0]
    assert np.any(found[0, :-2] != 0)


def test_complex_numbers_in_the_place_of_real_ones_differ():
    one = np.ones(3, "float32")
    assert comparing.relative_difference(one.astype("complex64"), one) == np.inf


def test_a_suspicious_class_stays_missing_where_the_function_is_followed(monkeypatch):
    tried = []

    def make(legacy, policy, options, compile=True):
        tried.append((options.by_function, {*options.namesakes}))
        if len(tried) == 2:
            return types.SimpleNamespace(loses_masks=True)
        raise LegacyModelError("its weights differ.", suspects={"Dense"})

    monkeypatch.setattr(plan, "make", make)
    with pytest.raises(LegacyModelError, match="its weights differ"):
        load_model(legacy_files.CORPUS / "2.4.4/func_conv_fixed/saved_model")
    attempts, about_serving = tried[:3], tried[3:]
    assert attempts == [(False, set()), (False, {"Dense"}), (True, {"Dense"})]
    assert about_serving == [(False, set())]


def test_errors_of_the_comparison_have_its_code(monkeypatch):
    def check(*_, **__):
        raise LegacyModelError("it cannot be called.")

    monkeypatch.setattr(checking, "check", check)
    with pytest.raises(LegacyModelError, match="it cannot be called") as raised:
        load_model(legacy_files.CORPUS / "2.4.4/func_conv_fixed/saved_model")
    assert raised.value.code == "KP501"


ROWS = np.arange(6.0).reshape(3, 2)
# Op -> what it reads rows by: the last row, and the one after it.
READ = {
    "GatherV2": lambda number: [ROWS, np.array([0, number]), np.array(0)],
    "GatherNd": lambda number: [ROWS, np.array([[number, 1]])],
}


@pytest.mark.once("the interpreter uses numpy")
@pytest.mark.parametrize("op", READ)
def test_an_index_that_is_the_number_of_rows_is_out_of_range(op):
    node = Node("read", op, (), {})
    (last,) = reference._evaluated(node, READ[op](2))
    assert np.ravel(last)[-1] == 5
    with pytest.raises(reference.OutOfRangeError) as caught:
        reference._evaluated(node, READ[op](3))
    assert caught.value.length == {"GatherV2": 3, "GatherNd": 2}[op]


def test_an_interpreter_is_freed_with_its_last_reference():
    function = Function("main", ("x",), {}, (Output("x"),))
    interpreter = Interpreter(TracedFunctions({}, {}, {}, {"main": function}, {}))
    trace = ConcreteFunction("main", ((TensorSpec((), "float32", "x"),), {}), (), ())
    with budget.anew(0):
        interpreter.run(trace, [np.float32(1)])
    freed = weakref.ref(interpreter)
    gc.disable()
    try:
        del interpreter
        assert freed() is None  # it holds each variable that it has read
    finally:
        gc.enable()


# Models that bend where small random numbers do not lead.


@pytest.fixture(scope="module")
def bends(tmp_path_factory):
    archives = lost_files.archives(NEWEST, ("-bends",))
    folder = legacy_files.unpacked(tmp_path_factory.mktemp("bends"), archives)
    return folder / NEWEST


@contextlib.contextmanager
def planned(path):
    with readers.read(path / "model") as legacy:
        yield plan.make(legacy)


# Case -> a wrong function that is the right one on two examples of small numbers.
WRONG = {
    "limit_of_20": lambda x: 2.0 * x,
    "limit_of_100000": lambda x: keras.ops.clip(2.0 * x, -2e5, 2e5),
    "nothing_below_a_thousandth": lambda x: keras.ops.abs(2.0 * x),
    "step_at_a_half": lambda x: keras.ops.where(x >= 0.5, 1.0, 0.0),
    "times_the_batch": lambda x: 2.0 * x,
    "times_the_length": lambda x: 5.0 * x,
}


@pytest.mark.once("the examples are the same on each backend")
@pytest.mark.parametrize("name", WRONG)
def test_examples_are_where_a_graph_bends(bends, name, monkeypatch):
    with planned(bends / name) as right:
        x = keras.Input((None, 4) if name == "times_the_length" else (4,))
        model = keras.Model(x, WRONG[name](x))
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, right, None)
        monkeypatch.setattr(examples, "more", lambda *_: ())
        assert checking.check(model, right, None).difference < 1e-6


@pytest.mark.once("the examples are the same on each backend")
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("limit_of_20", "3 scales, batches of 2 and 5"),
        ("limit_of_100000", "5 scales, batches of 2 and 5"),
        ("table_of_40", "1 scale, batches of 2 and 5"),
        ("chosen_by_a_flag", "3 scales, batches of 2 and 5"),
    ],
)
def test_a_report_says_what_was_checked(bends, name, where):
    with planned(bends / name) as right:
        found = checking.check(build.build(right).model, right, None)
    assert found.difference < 1e-5
    assert str(found).endswith(f" of the largest output, on {where}")


@pytest.mark.once("the examples are the same on each backend")
def test_nothing_is_compared_where_rounding_changes_all_digits(bends):
    x = keras.Input((4,))
    rounded = keras.ops.exp(x / 4.0) * (1 + 2**-22)  # of inputs of 1000: by 3 or 4
    model = keras.Model(x, keras.ops.sin(rounded))
    with planned(bends / "exponents") as right:
        found = checking.check(model, right, None)
    assert found.difference < 1e-4
    assert found.where == "2 scales, batches of 2 and 5"


@pytest.mark.once("the examples are the same on each backend")
def test_a_large_number_that_masks_is_the_same_for_all_small_scores(bends):
    with planned(bends / "attention_of_a_mask") as right:
        model, match = build.build(right).model, "rebuilt wrongly"
        with pytest.raises(comparison.EqualForMasksError, match=match) as raised:
            checking.check(model, right, None)
    assert raised.value.check.difference < 1e-5
    assert raised.value.check.where == "3 scales, batches of 2 and 5"


@pytest.mark.once("the examples are the same on each backend")
def test_the_last_row_of_a_table_is_an_example(bends):
    with planned(bends / "table_of_40") as right:
        model = build.build(right).model
        table = np.array(keras.ops.convert_to_numpy(model.weights[0]))
        table[39] += 1
        model.weights[0].assign(table)
        with pytest.raises(LegacyModelError, match="rebuilt wrongly"):
            checking.check(model, right, None)


@pytest.mark.once("no backend differs")
def test_a_namesake_is_found_where_the_whole_graph_costs_too_much(bends):
    case = lost_files.of(bends.parent, f"{NEWEST}/behind_large_convolutions")
    with pytest.warns(UserWarning, match="dense"):
        model = load_model(case.model)
    (found,) = legacy_files.called(model, case.inputs())
    # TensorFlow adds 4,000 numbers of a kernel in another order.
    difference = comparing.relative_difference(found, case.arrays("y_")[0])
    assert difference < 1e-4


def numbers_for_flags():
    """Return a model that is right for flags of 0 and 1."""
    x, flags = keras.Input((5, 4)), keras.Input((5,), dtype="int32")
    y = x * 2.0 + keras.ops.cast(flags, "float32")[:, :, None]
    return keras.Model([x, flags], y)


@pytest.mark.once("the examples are the same on each backend")
def test_a_model_may_differ_for_integers_that_are_no_mask(bends):
    with planned(bends / "chosen_by_a_flag") as right:
        model, match = numbers_for_flags(), "rebuilt wrongly"
        with pytest.raises(comparison.EqualForMasksError, match=match) as raised:
            checking.check(model, right, None)
    assert len(raised.value.check.masks) == 1
    assert raised.value.check.difference == 0.0


@pytest.mark.once("no backend differs")
def test_a_model_that_is_equal_for_masks_opens_with_a_warning(bends, monkeypatch):
    def check(*_, **__):
        error = comparison.EqualForMasksError("it differs.", suspects={"Dense"})
        error.check = comparison.Check(0.0, masks=("flags",))
        raise error

    monkeypatch.setattr(checking, "check", check)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_model(bends / "chosen_by_a_flag" / "model")
    told = [str(warning.message) for warning in caught]
    end = "0 or 1: flags. For other integers, it differs."
    assert sum(text.endswith(end) for text in told) == 1


@pytest.mark.parametrize(
    ("share", "noise", "equal", "wrong"),
    [
        pytest.param(1e-5, 0.0, 1, 0, id="within the tolerance"),
        pytest.param(1e-3, 1e-5, 0, 1, id="more than rounding"),
        pytest.param(1e-3, 5e-4, 1, 0, id="rounding"),
        pytest.param(1e-3, 0.1, 1, 0, id="less than the most, of much rounding"),
        pytest.param(0.02, 0.1, 0, 0, id="more than the most, of much rounding"),
        pytest.param(np.nan, 1e-5, 0, 1, id="not a number"),
    ],
)
def test_what_rounding_explains_has_an_upper_end(share, noise, equal, wrong):
    part = judging.Part(0, 1.0, ..., 1.0, share)
    tolerance = comparing.TOLERANCES["float32"]
    found = judging.verdict([part], tolerance, lambda _: noise)
    assert [*map(len, found)] == [equal, wrong]
