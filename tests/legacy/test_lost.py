"""Models whose classes are missing are rebuilt from their traced functions."""

import dataclasses

import keras
import legacy_files
import lost_files
import numpy as np
import pytest
from models import assert_close, assert_moved, layers_in

import keras_policies
from keras_policies import inspect_model, keras_internals, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly import build
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import (
    Composite,
    ConcreteFunction,
    Function,
    Node,
    Output,
    TensorSpec,
)
from keras_policies.legacy.plan import layers, plan
from keras_policies.legacy.plan.report import Report
from keras_policies.legacy.readers import readers

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*((classes|configs) of these layers|were left out|makes no difference"
    "|a mask attached|inputs are masks, 0 or 1)"
)
RELEASES = [
    release
    for release in lost_files.RELEASES
    if legacy_files.IS_THOROUGH or release in ("2.15.1", "keras-3.15.1")
]
NAMES = [
    f"{release}/{name}{ending}"
    for release in RELEASES
    for ending, file in (("", "about.json"), (".h5", "model.h5"))
    for name in lost_files.names(release, file, ("", "-idioms", "-examples", "-loops"))
]
NOT_MAPPED = "In place of tf.map_fn over the batch, use tf.vectorized_map"
REFUSED = {
    "graph_sorted": "Segment",
    "attention_by_the_largest": "no shape depends on the numbers in a tensor",
    "mapped_condition": NOT_MAPPED,
    "mapped_in_reverse": NOT_MAPPED,
    "mapped_with_a_total": NOT_MAPPED,
    "running_sums": "how many rounds a While has",
    # A sequence and its padded self are not known to be one item apart.
    "skewed_any": "needs a divisor that is known",
}
if not legacy_files.TRANSPOSES:
    OTHER = "it was rebuilt wrongly: it gives other numbers"
    REFUSED |= {"own_conv2d_transpose": OTHER, "transposed_inside": OTHER}
TOLERANCE = {"float32": 1e-5, "mixed_float16": 1e-2, "mixed_bfloat16": 2e-2}
# The assignment that moved the statistics came before their use.
OTHER_STEP = ("moving_mean",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for name in RELEASES for path in lost_files.archives(name)]
    return legacy_files.unpacked(tmp_path_factory.mktemp("lost"), archives)


@pytest.fixture
def of(folder):
    """A function that returns the case of a name."""
    return lambda name: lost_files.of(folder, name)


def opened(case):
    """Return `[(model, [(x, outputs as recorded)])]`, one for each signature."""
    if "signatures" not in case.about:
        return [(load_model(case.model), case.batches())]
    found = []
    for name, signature in case.about["signatures"].items():
        x = {key: case.stored[f"x_{n}"] for key, n in signature["inputs"].items()}
        x = x if len(x) > 1 else next(iter(x.values()))
        y = [
            case.stored[f"y_{signature['outputs'][key]}"]
            for key in sorted(signature["outputs"])
        ]
        found.append((load_model(case.model, signature=name), [(x, y)]))
    return found


def outputs(model, x, training=False):
    if not training:
        return [y.astype("float32") for y in legacy_files.called(model, x)]
    found = keras.tree.flatten(model(x, training=True))
    found = [keras.ops.stop_gradient(keras.ops.cast(y, "float32")) for y in found]
    return [keras.ops.convert_to_numpy(y) for y in found]


@pytest.mark.parametrize("name", legacy_files.by_release(NAMES))
def test_a_model_without_its_code_does_what_tensorflow_did(
    of, name, plain_keras, tmp_path
):
    case = of(name)
    if case.folder.name in REFUSED:
        with pytest.raises(LegacyModelError, match=REFUSED[case.folder.name]) as caught:
            load_model(case.model)
        assert caught.value.hint
        return
    for model, batches in opened(case):  # once: to open takes longer than to compare
        for x, expected in batches:
            assert_outputs(case, outputs(model, x), expected)
        is_whole = legacy_files.is_asserted_whole(NAMES, name)
        if "signatures" not in case.about and is_whole:
            assert_a_training_step_moves_each_weight_as_it_did(case, model)
            assert_plain_keras_predicts_the_same(case, model, plain_keras, tmp_path)


def assert_outputs(case, found, expected):
    tolerance = TOLERANCE[case.about.get("policy", "float32")]
    for number, (own, other) in enumerate(zip(found, expected, strict=True)):
        if number not in case.about.get("random_outputs", ()):
            assert_close(own, other.astype("float32"), tolerance)


def loss_of(model, x, targets):
    """Return a function of the trainable values: the loss that TensorFlow took."""
    targets = [keras.ops.convert_to_tensor(target) for target in targets]
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(values):
        found, _ = model.stateless_call(values, others, x, training=True)
        found = [keras.ops.cast(y, "float32") for y in keras.tree.flatten(found)]
        pairs = zip(found, targets, strict=True)
        return sum(keras.ops.mean(keras.ops.square(y - t)) for y, t in pairs)

    return loss


def assert_a_training_step_moves_each_weight_as_it_did(case, model):
    if not case.about.get("trains") or case.folder.name in OTHER_STEP:
        return
    x, trained = case.inputs(), len(case.about["trainable"])
    if not trained:
        return
    before, after = case.arrays("w_")[:trained], case.arrays("a_")[:trained]
    variables = model.trainable_variables
    assert len(variables) == trained
    values = [variable.value for variable in variables]
    gradients = backend.gradients(loss_of(model, x, case.arrays("t_")), values)
    tolerance = 10 * TOLERANCE[case.about["policy"]]
    for variable, gradient in zip(variables, gradients, strict=True):
        own = variable.numpy()
        (number,) = (
            i for i, w in enumerate(before) if np.array_equal(w.ravel(), own.ravel())
        )
        expected = after[number].reshape(own.shape)
        moved = float(np.max(np.abs(after[number] - before[number])))
        assert_moved(own - 0.1 * gradient, expected, tolerance * max(moved, 1e-3))


def assert_plain_keras_predicts_the_same(case, model, plain_keras, folder):
    model.save(folder / "model.keras")
    for x, y in case.batches():
        found, _ = plain_keras(folder / "model.keras", x)
        assert_outputs(case, [output.astype("float32") for output in found], y)


@pytest.mark.parametrize("name", ["compiled_adam", "subclassed_compiled"])
def test_the_slots_of_the_optimizer_belong_to_the_same_weights(of, name):
    case = of(f"2.15.1/{name}")
    model = load_model(case.model)
    weights = case.arrays("w_")[: len(case.about["trainable"])]
    slots = {"m": case.arrays("m_"), "v": case.arrays("v_")}
    optimizer = model.optimizer
    assert int(optimizer.iterations) > 0
    for variable in model.trainable_variables:
        own = variable.numpy().ravel()
        (number,) = (i for i, w in enumerate(weights) if np.array_equal(w.ravel(), own))
        for key, expected in slots.items():
            slot = keras_internals.slots(optimizer, key)[id(variable)]
            found = keras.ops.convert_to_numpy(slot.value).ravel()
            np.testing.assert_allclose(found, expected[number].ravel(), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("affine", {"Dense"}),
        ("affine_with_config", {"Dense"}),
        ("attention_pool", {"Dense", "PReLU"}),
        ("bidirectional_inside", {"Bidirectional", "LSTM", "LSTMCell"}),
        ("conv_inside", {"BatchNormalization", "Conv2D", "GlobalAveragePooling2D"}),
        ("embedding_inside", {"Embedding"}),
        ("gru_inside", {"GRU", "GRUCell"}),
        ("lstm_inside", {"LSTM", "LSTMCell"}),
        ("own_conv1d", {"Conv1D"}),
        ("own_conv2d", {"Conv2D"}),
        ("own_conv3d", {"Conv3D"}),
        ("own_depthwise", {"DepthwiseConv2D"}),
        pytest.param(
            *("own_conv2d_transpose", {"Conv2DTranspose"}),
            marks=legacy_files.needs_transposes,
        ),
        ("own_lookup", {"Embedding"}),
        ("projected", {"Dense"}),
        ("separable_inside", {"SeparableConv2D"}),
        ("subclassed", {"Dense", "BatchNormalization"}),
        ("while_loop", {"Dense"}),
    ],
)
def test_layers_whose_classes_are_known_come_back_as_they_are(of, name, expected):
    assert layers_in(load_model(of(f"2.15.1/{name}").model)) == expected


def test_dropout_in_a_lost_layer_drops_out_in_training(of):
    case = of("2.15.1/dropout_inside")
    model = load_model(case.model)
    x = case.inputs()
    assert not np.array_equal(outputs(model, x, True)[0], outputs(model, x, True)[0])
    np.testing.assert_array_equal(outputs(model, x)[0], outputs(model, x)[0])


@pytest.mark.parametrize("name", ["dropout_over_batch", "dropout_over_steps"])
def test_dropout_in_a_loop_drops_the_recorded_share_in_training(of, name):
    case = of(f"2.15.1/{name}")
    model = load_model(case.model)
    loop = keras.Model(model.input, model.layers[-1].input)
    x = np.tile(case.inputs(), (200, 1, 1))
    kept = outputs(loop, x)[0] != 0
    dropped = outputs(loop, x, True)[0][kept] == 0
    assert np.mean(dropped) == pytest.approx(0.4, abs=0.02)


def test_what_a_loop_did_in_training_and_is_left_out_is_named(of):
    with pytest.warns(UserWarning, match="in training was not all recognized"):
        load_model(of("2.15.1/noise_over_batch").model)


def test_a_lost_layer_in_a_lost_model_keeps_its_name(of):
    model = load_model(of("2.15.1/subclassed_nested").model)
    assert model.name == "seq2_seq"
    encoder = model.get_layer("encoder_part")
    assert [layer.name for layer in encoder.layers] == ["input_1", "gru"]


def test_the_casts_of_a_lost_layer_follow_a_given_policy(of):
    case = of("2.15.1/own_attention-mixed_float16")
    model = load_model(case.model, dtype_policy="float32")
    for layer in keras_internals.sublayers(model):
        assert layer.compute_dtype == "float32"
        assert "float16" not in str(getattr(layer, "output", ""))
    assert_close(outputs(model, case.inputs())[0], case.arrays("y_")[0], 1e-2)


def test_one_warning_lists_what_was_rebuilt(of):
    with pytest.warns(UserWarning, match="classes of these layers") as caught:
        load_model(of("2.15.1/in_sequential").model)
    (warning,) = (
        one for one in caught if one.category is keras_policies.OutcomeWarning
    )  # not numpy's
    assert "'scale' (Scale), 'affine' (Affine)" in str(warning.message)


def test_a_class_that_is_given_wins(of):
    class Scale(keras.layers.Layer):
        def build(self, shape):
            self.gamma = self.add_weight(name="gamma", shape=(shape[-1],))
            self.beta = self.add_weight(name="beta", shape=(shape[-1],))

        def call(self, x):
            return x * self.gamma + self.beta

    case = of("2.15.1/in_sequential")
    model = load_model(case.model, custom_objects={"Scale": Scale})
    assert type(model.get_layer("scale")) is Scale
    assert_close(outputs(model, case.inputs())[0], case.arrays("y_")[0], 1e-5)


def test_lost_layers_can_be_refused(of):
    with pytest.raises(LegacyModelError, match="does not have:\n  Scale"):
        load_model(of("2.15.1/scale").model, lost="refuse")


def test_lost_takes_three_values(of):
    with pytest.raises(
        ValueError, match="one of .'rebuild', 'numbers', 'refuse'., received 'x'"
    ):
        load_model(of("2.15.1/scale").model, lost="x")


def test_a_signature_that_is_not_there_is_refused(of):
    path = of("2.15.1/module_signatures").model
    with pytest.raises(LegacyModelError, match="no signature 'x' in it; there are"):
        load_model(path, signature="x")


@pytest.mark.once("errors and plans, before a model is built")
def test_a_signature_is_refused_where_no_function_is_read(of):
    with pytest.raises(LegacyModelError, match="'x' was asked for.*only a SavedModel"):
        load_model(legacy_files.CORPUS / "2.4.4/rnn_dynamic/model.h5", signature="x")
    path = of("2.15.1/module_signatures").model
    with pytest.raises(LegacyModelError, match="lost='refuse' leaves its functions"):
        load_model(path, signature="serving_default", lost="refuse")


@pytest.mark.once("errors and plans, before a model is built")
def test_the_error_of_a_loop_says_what_to_do(of):
    found = Report(missing_ops=(("While", "rnn/while"),))
    with pytest.raises(LegacyModelError, match="how many rounds a While has") as caught:
        found.raise_if_missing("model", has_missing=True)
    told = "lost='refuse', the error names each"
    assert told in str(caught.value)
    with pytest.raises(LegacyModelError, match="does not have:\n  Cell"):
        load_model(of("2.15.1/own_cell").model, lost="refuse")


@pytest.mark.once("errors and plans, before a model is built")
def test_a_layer_that_two_lost_layers_share_is_named_as_copied(of):
    with readers.read(of("2.15.1/subclassed_blocks").model) as legacy:
        assert plan.make(legacy).reconstruction.copied == ()
        layers = {**legacy.traced.layers}
        one, other = (n for n in layers if layers[n].class_name == "ConvBlock")
        shared = layers[one].traces
        layers[other] = dataclasses.replace(layers[other], traces=shared)
        recorded = dataclasses.replace(legacy.traced, layers=layers)
        lost = plan.make(dataclasses.replace(legacy, traced=recorded)).reconstruction
    copied = {name.rpartition("/")[2] for name in lost.copied}
    moving = {"moving_mean", "moving_variance"}
    assert copied == {"kernel", "bias", "gamma", "beta", *moving}
    told = " ".join(lost.parts(is_disproved=False))
    assert "several of these layers shared these weights, and each copy" in told


@pytest.mark.once("errors and plans, before a model is built")
def test_inspect_names_what_is_rebuilt(of):
    found = inspect_model(of("2.15.1/nested").model)
    described = {
        layer.path: (layer.class_name, layer.becomes) for layer in found.layers
    }
    assert described["outer"] == ("Outer", "rebuilt from its traced function")
    assert described["outer/dense"] == ("Dense", "Dense")
    assert "keras.ops" not in {becomes for _, becomes in described.values()}


@pytest.mark.once("errors and plans, before a model is built")
def test_convert_lists_what_is_rebuilt(of, tmp_path):
    path = of("2.15.1/nested").model
    converted = keras_policies.convert_model(path, tmp_path / "new.keras")
    assert "'outer' (Outer)" in "; ".join(converted.parts)


def node(name, op, *inputs, **attributes):
    return Node(name, op, tuple(Output(taken) for taken in inputs), attributes)


def function(name, nodes, output):
    found = {one.name: one for one in nodes}
    return Function(name, ("x", "w", "b"), found, (Output(output),))


DOUBLING = [
    function(
        f"f{i}",
        [
            node("a", "PartitionedCall", "x", "w", "b", f=f"f{i + 1}"),
            node("c", "PartitionedCall", "a", "w", "b", f=f"f{i + 1}"),
        ],
        "c",
    )
    for i in range(40)
]
HOSTILE = {
    "cycle": (
        [function("f0", [node("a", "Add", "c", "x"), node("c", "Neg", "a")], "a")],
        "f0 has a cycle at 'a'",
    ),
    "recursion": (
        [function("f0", [node("a", "PartitionedCall", "x", "w", "b", f="f0")], "a")],
        "call each other more than 60 times deep",
    ),
    "doubling": ([*DOUBLING, function("f40", [], "x")], "more than 30000 nodes"),
    "loop": (
        [
            function(
                "f0", [node("a", "While", "x", "w", "b", cond="yes", body="same")], "a"
            ),
            function("yes", [node("a", "Const", value=np.array(True))], "a"),
            Function("same", ("x", "w", "b"), {}, tuple(map(Output, "xwb"))),
        ],
        "the loop 'a' has more than 200 rounds",
    ),
    "many_inputs": (
        [function("f0", [node("a", "AddN", *["x"] * 40_000)], "a")],
        "more than 30000 nodes",
    ),
    "chain": (
        [
            function(
                "f0",
                [
                    node(f"n{i}", "Neg", f"n{i - 1}" if i else "x")
                    for i in range(20_000)
                ],
                "n19999",
            )
        ],
        "more than 12000 ops",
    ),
    "no_node": ([function("f0", [], "nothing")], "f0 has no node 'nothing'"),
    "no_function": ([], "there is no function 'f0'"),
    "arguments": (
        [Function("f0", ("x",), {}, (Output("x"),))],
        "f0 takes 1 arguments, it is called with 3",
    ),
    "attribute": ([function("f0", [node("a", "Const")], "a")], "KeyError: 'value'"),
    "constant": (
        [
            function(
                "f0",
                [
                    node("d", "Const", value=np.array([10**6, 10**6])),
                    node("v", "Const", value=np.float32(1)),
                    node("a", "Fill", "d", "v"),
                    node("y", "Add", "x", "a"),
                ],
                "y",
            )
        ],
        "asks for an array of",
    ),
}


def build_with(path, functions, **changed):
    """Build a model whose traces are changed, and whose functions are replaced."""
    with readers.read(path) as legacy:
        recorded = legacy.traced
        layers = {
            number: dataclasses.replace(
                layer,
                traces=tuple(dataclasses.replace(t, **changed) for t in layer.traces),
            )
            for number, layer in recorded.layers.items()
        }
        recorded = dataclasses.replace(
            recorded, layers=layers, functions={f.name: f for f in functions}
        )
        legacy = dataclasses.replace(legacy, traced=recorded)
        return build.build(plan.make(legacy)).model


@pytest.mark.once("errors and plans, before a model is built")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_function_is_one_error(of, name):
    functions, match = HOSTILE[name]
    with pytest.raises(LegacyModelError, match=match):
        build_with(of("2.15.1/affine_with_config").model, functions, function="f0")


@pytest.mark.once("errors and plans, before a model is built")
def test_noise_of_a_known_size_is_drawn_in_training_alone(of):
    nodes = [
        node("product", "MatMul", "x", "w"),
        node("shape", "Const", value=np.array([3])),
        node("noise", "RandomStandardNormal", "shape", dtype="float32"),
        node("sum", "AddV2", "product", "noise"),
    ]
    functions = [function("f0", nodes, "sum")]
    model = build_with(of("2.15.1/affine_with_config").model, functions, function="f0")
    (layer,) = (one for one in model.layers if isinstance(one, keras.Model))
    x = keras.ops.zeros((2, 4))
    still, drawn = (
        keras.ops.convert_to_numpy(layer(x, training=training))
        for training in (False, True)
    )
    np.testing.assert_array_equal(still, np.zeros((2, 3)))
    assert np.all(drawn != 0)


@pytest.mark.once("errors and plans, before a model is built")
def test_lost_layers_that_call_each_other_twice_are_one_error(of):
    with readers.read(of("2.15.1/affine_with_config").model) as legacy:
        recorded = legacy.traced
        layers, functions = {**recorded.layers}, {}
        for i in range(40):
            number = 100 + i if i else 2  # in the file, 2 is the lost layer
            name, below = f"lost_{i}", f"lost_{i + 1}"
            spec = TensorSpec((None, None), "float32")
            layers[number] = dataclasses.replace(
                recorded.layers[2],
                name=name if i else recorded.layers[2].name,
                traces=(ConcreteFunction(name, ((spec,), {}), spec, ()),),
                variables=(),
                has_config=False,
            )
            calls = [
                node(f"{below}/a", "PartitionedCall", "x", f=below),
                node(f"{below}/b", "PartitionedCall", f"{below}/a", f=below),
            ]
            nodes = {one.name: one for one in calls}
            functions[name] = Function(name, ("x",), nodes, (Output(f"{below}/b"),))
        functions["lost_40"] = Function("lost_40", ("x",), {}, (Output("x"),))
        recorded = dataclasses.replace(recorded, layers=layers, functions=functions)
        with pytest.raises(LegacyModelError, match="more than 60000 runs of layers"):
            plan.make(dataclasses.replace(legacy, traced=recorded))


@pytest.mark.once("errors and plans, before a model is built")
def test_a_function_of_sparse_tensors_is_refused(of):
    sparse = ((Composite("SparseTensorSpec"),), {})
    with pytest.raises(LegacyModelError, match="takes a SparseTensorSpec, and Keras 3"):
        build_with(of("2.15.1/subclassed_dict").model, [], inputs=sparse)


def test_statistics_of_its_own_that_a_layer_moves_are_named(of):
    with pytest.warns(
        UserWarning, match="it assigned moving_mean/mean, which only an optim"
    ):
        load_model(of("2.15.1/moving_mean").model)


@pytest.mark.parametrize("dtype_policy", [None, "mixed_bfloat16"])
def test_a_model_is_converted_twice_and_the_layers_in_a_lost_one_once(
    of, monkeypatch, dtype_policy
):
    classes = []
    convert = layers._keras_layer

    def noted(written, *args, **kwargs):
        classes.append(written["class_name"])
        return convert(written, *args, **kwargs)

    monkeypatch.setattr(layers, "_keras_layer", noted)
    with readers.read(of("2.15.1/gated").model) as legacy:
        planned = plan.make(legacy, dtype_policy)
    assert planned.reconstruction.layers == {"gated": "Gated"}
    assert planned.policy == (dtype_policy or "float32")
    without = ["Functional", "InputLayer", "InputLayer", "Gated"]  # nothing known yet
    assert classes == [*without, *without, "Dense"]
