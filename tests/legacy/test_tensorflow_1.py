"""SavedModels of TensorFlow 1 open by their signatures; see write_tensorflow_1.py."""

import importlib.util
import shutil

import keras
import legacy_files
import numpy as np
import pytest
from graphs import change_graph
from models import assert_close, assert_moved, called_by_name, layers_in

from keras_policies import LegacyModelError, inspect_model, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy import loading
from keras_policies.legacy.options import checked_options
from keras_policies.legacy.plan.reconstruction import concrete_functions
from keras_policies.legacy.plan.reconstruction.reference import Interpreter
from keras_policies.legacy.readers import readers
from keras_policies.legacy.readers.checkpoint import protos

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*classes of these layers"),
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype"),  # of jax
]
ARCHIVE = legacy_files.FOLDER / "tensorflow_1.tar.xz"
TABLES = ["table", "table_of_file"]
PLAIN = [
    *("condition", "dense", "dense_of_resources", "frozen", "function", "image"),
    *("keras", "loop", "partitioned", "rnn", "two"),
]
ESTIMATORS = ["estimator_parsed", "estimator_raw"]
RELEASES = "1.4.1", "1.15.5"
LABELS = ["low", "middle", "high"]
NAMES = [f"{release}/{name}" for release in RELEASES for name in PLAIN + ESTIMATORS]
NAMES.append("1.15.5/keras_exported")
WITH_TABLES = [
    pytest.param(
        f"{release}/{name}",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("tensorflow") is None,
            reason="the lookup layers of Keras 3 cannot be made without TensorFlow",
        ),
    )
    for release in RELEASES
    for name in TABLES
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tensorflow_1")
    return legacy_files.unpacked(made, [ARCHIVE]) / "tensorflow_1"


def stored(case, prefix):
    """Return the recorded arrays of a prefix, texts as objects."""
    found = {}
    with np.load(case / "expected.npz") as file:
        for key in file:
            if key.startswith(f"{prefix}/"):
                value = file[key]
                is_text = value.dtype.kind == "U"
                value = np.char.encode(value).astype(object) if is_text else value
                found[key.removeprefix(f"{prefix}/")] = value
    return found


def signatures(case):
    """Return the signatures of which outputs were recorded, the model's own first."""
    found = {key.split("/")[0] for key in stored(case, "x")}
    return sorted(found, reverse=True)


def opened(case, signature=None):
    """Return the model of a signature, as it was recorded."""
    if case.name == "estimator_parsed":
        signature = "predict/features"
    lost = "numbers" if case.name in ESTIMATORS else "rebuild"
    return load_model(case / "model", signature=signature, lost=lost)


@pytest.mark.parametrize("name", [*NAMES, *WITH_TABLES])
def test_it_predicts_what_tensorflow_did(name, folder):
    case = folder / name
    for number, signature in enumerate(signatures(case)):
        model = opened(case, signature if number else None)
        for batch in "01":
            x = stored(case, f"x/{signature}/{batch}")
            expected = stored(case, f"y/{signature}/{batch}")
            found = called_by_name(model, x)
            if len(expected) == 1:  # a signature's only output has no name in a model
                found = dict.fromkeys(expected, *found.values())
            assert sorted(found) == sorted(expected)
            for key, value in expected.items():
                if value.dtype != object:
                    assert_close(found[key], value, 1e-5)
                elif case.name == "estimator_raw":
                    words = np.array(LABELS)[found[key]].tolist()
                    assert words == np.char.decode(value.astype("S")).tolist()
                else:
                    assert found[key].tolist() == value.astype(int).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_moves_each_weight_as_it_did(name, folder):
    case = folder / name
    model, x = opened(case), stored(case, "t")
    before, after = (joined(stored(case, kind)) for kind in "wa")
    variables = model.trainable_variables
    if case.name == "frozen":  # its weights were constants
        before, after = ([v.numpy() for v in variables] for _ in range(2))
    assert len(variables) == len(before) > 0
    loss = loss_of(model, next(iter(x.values())))
    gradients = backend.gradients(loss, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        own = variable.numpy()
        (number,) = (
            i for i, w in enumerate(before) if np.array_equal(w.ravel(), own.ravel())
        )
        moved = float(np.max(np.abs(after[number] - before[number])))
        if case.name == "frozen":
            assert np.any(np.abs(gradient) > 1e-4)
            continue
        expected = after[number].reshape(own.shape)
        assert_moved(own - 0.1 * gradient, expected, 1e-4 * max(moved, 1e-3))


def joined(weights):
    """Return weights, of which those that are parts of a kernel are joined."""
    parts = [name for name in weights if name.startswith("kernel/part_")]
    others = [value for name, value in weights.items() if name not in parts]
    whole = [np.concatenate([weights[name] for name in parts], 1)] if parts else []
    return [*whole, *others]


def loss_of(model, x):
    """Return the loss that TensorFlow took, as a function of the trained values."""
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(values):
        found, _ = model.stateless_call(values, others, x, training=True)
        floats = [y for y in keras.tree.flatten(found) if "float" in str(y.dtype)]
        return sum(keras.ops.mean(keras.ops.square(y)) for y in floats)

    return loss


@pytest.mark.parametrize("name", [f"{r}/{name}" for r in RELEASES for name in PLAIN])
def test_what_is_saved_opens_in_stock_keras(name, folder, tmp_path, plain_keras):
    case = folder / name
    model = opened(case)
    model.save(tmp_path / "model.keras")
    (x,) = stored(case, "x/serving_default/1").values()
    found, _ = plain_keras(tmp_path / "model.keras", x)
    found = keras.tree.pack_sequence_as(model.output, found)
    expected = stored(case, "y/serving_default/1")
    if len(expected) == 1:  # a signature's only output has no name in a model
        found = dict.fromkeys(expected, *keras.tree.flatten(found))
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert_close(found[key], value, 1e-5)


@pytest.mark.parametrize("name", [*NAMES, *WITH_TABLES])
def test_its_own_graph_is_interpreted_and_agrees(name, folder):
    case = folder / name
    lost = "numbers" if case.name in ESTIMATORS else "rebuild"
    signature = "predict/features" if case.name == "estimator_parsed" else None
    chosen = checked_options(lost, signature)
    built = loading.rebuild(case / "model", None, chosen, verify=True)
    assert built.check.difference < 1e-5


@pytest.mark.once("readers and the interpreter use numpy")
@pytest.mark.parametrize("name", [*NAMES, *WITH_TABLES])
def test_the_interpreter_computes_what_tensorflow_did(name, folder):
    case = folder / name
    with readers.read(case / "model") as legacy:
        for signature in signatures(case):
            is_parsed = case.name == "estimator_parsed"
            key = f"{signature}/features" if is_parsed else signature
            trace = legacy.traced.signatures[key]
            x = stored(case, f"x/{signature}/1")
            found = Interpreter(legacy.traced).run(trace, [*x.values()])
            names = [spec.name for spec in concrete_functions.specs(trace.outputs)]
            expected = stored(case, f"y/{signature}/1")
            assert names == sorted(expected)
            for one, own in zip(names, found, strict=True):
                own = np.asarray(own)
                assert own.dtype == expected[one].dtype
                if own.dtype == object:
                    np.testing.assert_array_equal(own, expected[one])
                else:
                    assert_close(own, expected[one], 1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("condition", {"Dense", "PReLU"}),
        ("dense", {"Dense", "Dropout"}),
        ("dense_of_resources", {"Dense"}),
        ("frozen", {"Dense"}),
        ("function", {"Dense"}),
        ("loop", {"Dense", "Embedding"}),
        ("partitioned", {"Dense"}),
        ("two", {"Dense"}),
    ],
)
def test_ops_with_weights_are_stock_layers(name, expected, folder):
    for release in RELEASES:
        assert layers_in(opened(folder / release / name)) == expected


def test_a_dropout_whose_rate_had_a_default_can_be_set(folder):
    for release in RELEASES:
        model = opened(folder / release / "dense")
        (dropout,) = (x for x in model.layers if isinstance(x, keras.layers.Dropout))
        assert dropout.rate == 0


def test_moving_statistics_are_not_trained(folder):
    model = opened(folder / "1.15.5" / "image")
    shapes = [tuple(v.shape) for v in model.non_trainable_variables]
    assert sorted(shapes) == [(3,), (3,), (4,), (4,)]


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="it has texts")
def test_numbers_written_as_texts_are_refused_with_what_to_do(folder):
    path = folder / "1.15.5" / "estimator_parsed" / "model"
    with pytest.raises(
        LegacyModelError, match="AsString writes numbers as texts. Pass lost='numbers'"
    ):
        load_model(path, signature="predict/features")


@pytest.mark.once("readers and the interpreter use numpy")
def test_serialized_examples_are_refused_with_what_comes_after(folder):
    path = folder / "1.15.5" / "estimator_parsed" / "model"
    message = (
        "signature 'serving_default' takes serialized examples, .*The tensors after it "
        "are 'ParseExample/ParseExample:0'. Pass signature='serving_default/features'"
    )
    for opens in load_model, inspect_model:
        with pytest.raises(LegacyModelError, match=message):
            opens(path)


def of_version_2(meta_graph, graph):
    parser = node(graph, "ParseExample/ParseExample")
    serialized, names, key, default = parser.input
    parser.op = "ParseExampleV2"
    parser.input[:] = [serialized, names, names, key, names, default]
    (count,) = (attr for attr in parser.attr if attr.key == "Nsparse")
    count.key = "num_sparse"


def sparse(meta_graph, graph):
    attributes = node(graph, "ParseExample/ParseExample").attr
    (count,) = (attr for attr in attributes if attr.key == "Nsparse")
    count.value.i = 1


@pytest.mark.once("readers and the interpreter use numpy")
def test_what_comes_after_the_other_parser_opens_and_sparse_features_do_not(
    folder, tmp_path
):
    opens = {"signature": "predict/features", "lost": "numbers"}
    path = changed(folder, tmp_path, "estimator_parsed", of_version_2)
    assert load_model(path, **opens).input_shape == (None, 4)
    shutil.rmtree(path)
    path = changed(folder, tmp_path, "estimator_parsed", sparse)
    with pytest.raises(LegacyModelError, match="gives a sparse or ragged feature"):
        load_model(path, **opens)


@pytest.mark.once("readers and the interpreter use numpy")
def test_inspect_describes_a_signature(folder):
    found = inspect_model(folder / "1.4.1" / "dense" / "model")
    assert found.written_by == "TensorFlow 1.4.1"
    classes = [layer.class_name for layer in found.layers]
    assert classes == ["InputLayer", "Dense", "Dense"]
    assert found.parameters == 4 * 5 + 5 + 5 * 3 + 3


def changed(folder, tmp_path, name, change):
    """Return the path of a model of TensorFlow 1.15, with another graph."""
    path = tmp_path / "model"
    shutil.copytree(folder / "1.15.5" / name / "model", path)
    change_graph(path, change)
    return path


def node(graph, name):
    (found,) = (one for one in graph.node if one.name == name)
    return found


def without_default(meta_graph, graph):
    default = node(graph, "keep_prob")
    default.op = "Placeholder"
    del default.input[:]


def without_name(meta_graph, graph):
    meta_graph.signature_def[0].value.inputs[0].value.name = ""


def other_name(meta_graph, graph):
    node(graph, "hidden/kernel").name = "hidden/other"
    node(graph, "hidden/kernel/read").input[0] = "hidden/other"


def without_inputs(meta_graph, graph):
    del meta_graph.signature_def[0].value.inputs[:]


def without_signatures(meta_graph, graph):
    del meta_graph.signature_def[:]


def one_branch(meta_graph, graph):
    merge = node(graph, "cond_1/Merge")
    merge.input[0] = merge.input[1]


def cycle(meta_graph, graph):
    node(graph, "cond/Sum").input[0] = "cond/Merge_1"


def of_data(meta_graph, graph):
    """Give the loop as many rounds as the first id says."""
    node(graph, "while/Less/y").op = "Placeholder"


def without_switch(meta_graph, graph):
    node(graph, "while/Exit_1").input[0] = "ids"


def out_of_branch(meta_graph, graph):
    node(graph, "mul").input[1] = "cond/MatMul/Switch:1"


def which_branch(meta_graph, graph):
    node(graph, "mul").input[1] = "cond_1/Merge:1"


def no_position(meta_graph, graph):
    node(graph, "mul").input[1] = "cond/Merge:x"


def of_no_node(meta_graph, graph):
    node(graph, "mul").input[1] = "nothing"


def some_items(meta_graph, graph):
    node(graph, "rnn/TensorArrayStack/range").op = "Identity"


REFUSED = {
    without_default: ("dense", r"'keep_prob' \(Placeholder\) is not fed by the signa"),
    without_name: ("dense", "signature 'serving_default' has a sparse tensor"),
    without_inputs: ("dense", "signature 'serving_default' takes no tensor, so it is"),
    other_name: ("dense", "the variable 'hidden/other' is not in its checkpoint"),
    without_signatures: ("dense", "as TensorFlow 1 wrote it, and without signatures"),
    one_branch: ("condition", r"'cond_1/Merge' \(Merge\) is not part of a tf.cond"),
    cycle: ("condition", "corrupt: the graph has a cycle at"),
    out_of_branch: ("condition", r"Switch' \(Switch\) is not part of a tf.cond or a"),
    which_branch: ("condition", r"'cond_1/Merge' \(Merge\) is asked which branch it t"),
    no_position: ("condition", "corrupt: 'cond/Merge:x' is not a tensor"),
    of_no_node: ("condition", "corrupt: the graph has no node 'nothing'"),
    of_data: ("loop", r"'while/Less/y' \(Placeholder\) is not fed"),
    without_switch: ("loop", r"'while/Exit_1' \(Exit\) is not part of a tf.while_loop"),
    some_items: ("rnn", r"GatherV3' \(TensorArrayGatherV3\) takes some items of an"),
}


@pytest.mark.once("readers and the interpreter use numpy")
@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_what_is_no_function_is_refused_by_name(change, folder, tmp_path):
    name, message = REFUSED[change]
    path = changed(folder, tmp_path, name, change)
    with pytest.raises(LegacyModelError, match=message):
        load_model(path)


@pytest.mark.once("readers and the interpreter use numpy")
def test_a_signature_that_is_refused_leaves_the_others(folder, tmp_path):
    def unfed(meta_graph, graph):
        node(graph, "x").name = "other"
        for one in graph.node:
            if "x" in one.input:
                one.input[[*one.input].index("x")] = "other"

    path = changed(folder, tmp_path, "two", unfed)
    with pytest.raises(LegacyModelError, match="'other' .Placeholder. is not fed"):
        load_model(path)
    assert load_model(path, signature="head").input_shape == (None, 5)


@pytest.mark.once("readers and the interpreter use numpy")
def test_the_graph_for_serving_is_taken(folder, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(folder / "1.15.5" / "dense" / "model", path)
    file = path / "saved_model.pb"
    parsed = protos.parse("SavedModel", file.read_bytes())
    trained = parsed.meta_graphs.add()
    trained.CopyFrom(parsed.meta_graphs[0])
    trained.meta_info_def.tags[:] = ["serve"]
    parsed.meta_graphs[0].meta_info_def.tags[:] = ["train"]
    del parsed.meta_graphs[0].signature_def[:]
    file.write_bytes(parsed.SerializeToString())
    assert load_model(path).output_shape == (None, 3)


@pytest.mark.once("readers and the interpreter use numpy")
def test_a_condition_and_a_loop_are_functions(folder):
    with readers.read(folder / "1.15.5" / "condition" / "model") as legacy:
        trace = legacy.traced.signatures["serving_default"]
        function = legacy.traced.functions[trace.function]
        (both, number) = (n for n in function.nodes.values() if n.op == "If")
    assert (both.name, number.name) == ("cond/Merge", "cond_1/Merge")
    assert both.attributes["then_branch"] == "cond/Merge/then"
    assert both.inputs[0].node == "Greater"
    with readers.read(folder / "1.15.5" / "loop" / "model") as legacy:
        trace = legacy.traced.signatures["serving_default"]
        function = legacy.traced.functions[trace.function]
        body = legacy.traced.functions["while/LoopCond/body"]
    assert function.nodes["while/LoopCond"].op == "While"
    assert len(body.arguments) == len(body.outputs) == 3  # with the kernel


@pytest.mark.once("readers and the interpreter use numpy")
def test_parts_of_a_variable_are_read_together(folder):
    with readers.read(folder / "1.15.5" / "partitioned" / "model") as legacy:
        found = {w.name: w.read() for w in legacy.traced.variables.values()}
    expected = stored(folder / "1.15.5" / "partitioned", "w")
    whole = found.pop("kernel/ConcatPartitions/concat")
    np.testing.assert_array_equal(whole, joined(expected)[0])
    assert sorted(found) == sorted(expected)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name])
