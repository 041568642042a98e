"""The loops of recurrent layers become the layers; see write_recurrent.py."""

import keras
import legacy_files
import numpy as np
import pytest
from models import assert_close

from keras_policies import LegacyModelError, keras_internals, load_model
from keras_policies.legacy.base.traced_functions import (
    Function,
    Node,
    Output,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan.reconstruction import recurrent
from keras_policies.legacy.plan.reconstruction.ir import (
    Argument,
    Constant,
    OpStep,
    StepOutput,
    Steps,
    UnstackedTensor,
    VariableRef,
)
from keras_policies.legacy.plan.reconstruction.recurrent_probes import Loop

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(classes of these layers|with a mask attached|op 'CudnnRNN' has no count)"
)
ARCHIVES = [legacy_files.FOLDER / f"{name}.tar.xz" for name in ("recurrent", "cudnn")]
OLD = "2.0.0", "2.4.4"  # torch alone opens these
# No stock layer does what the loop does.
REFUSED = "own_cell"
TOLERANCE = {"mixed": 1e-2}
COPIES = {"tied": 2}  # of weights that go forward and backwards; a warning tells
# What its loops become, in order, with some of their settings.
EXPECTED = {
    "bidirectional_words": [
        ("LSTM", {"go_backwards": False, "return_sequences": True}),
        ("LSTM", {"go_backwards": True, "return_sequences": True}),
        ("GRU", {"go_backwards": False, "units": 2}),
        ("GRU", {"go_backwards": True, "return_sequences": False}),
    ],
    "cudnn": [
        ("LSTM", {"name": "lstm", "return_sequences": True}),
        ("GRU", {"go_backwards": True, "reset_after": True, "return_sequences": True}),
    ],
    "cudnn_last": [("GRU", {"units": 4}), ("LSTM", {"return_sequences": False})],
    "encoder_decoder": [
        ("LSTM", {"return_state": True, "return_sequences": False}),
        ("LSTM", {"return_state": False, "return_sequences": True}),
    ],
    "gru_before": [("GRU", {"reset_after": False, "use_bias": True})],
    "gru_words": [
        ("GRU", {"reset_after": True, "return_sequences": True, "units": 3}),
        ("GRU", {"reset_after": True, "return_sequences": False, "units": 2}),
    ],
    "known_length": [("GRU", {"return_sequences": True})],
    "lstm": [("LSTM", {"units": 3, "name": "lstm", "return_sequences": False})],
    "lstm_activations": [("LSTM", {"activation": "relu"})],
    "lstm_backwards": [("LSTM", {"go_backwards": True, "return_sequences": True})],
    "lstm_everything": [("LSTM", {"return_state": True, "return_sequences": True})],
    "lstm_no_bias": [("LSTM", {"use_bias": False})],
    "lstm_state": [("LSTM", {"return_state": True, "return_sequences": False})],
    "rare_activations": [
        ("LSTM", {"activation": "elu", "recurrent_activation": "softsign"}),
        ("GRU", {"activation": "softplus", "reset_after": True}),
        ("GRU", {"activation": "selu", "recurrent_activation": "relu"}),
        ("SimpleRNN", {"activation": "silu"}),
    ],
    "shared": [("LSTM", {"units": 3})],
    "simple_relu": [("SimpleRNN", {"activation": "relu", "use_bias": False})],
    "tied": [("GRU", {"go_backwards": False}), ("GRU", {"go_backwards": True})],
    "stacked": [("LSTM", {"units": 5}), ("GRU", {"units": 4}), ("SimpleRNN", {})],
}


def names():
    """Return the cases as `release/name`, those of old releases on torch alone."""
    found = []
    for path in ARCHIVES:
        parts = legacy_files.parts_of(path)
        found += [f"{p[1]}/{p[2]}" for p in parts if p[-1] == "expected.npz"]
    is_old = [name.startswith(OLD) and not legacy_files.IS_THOROUGH for name in found]
    return sorted(name for name, old in zip(found, is_old, strict=True) if not old)


NAMES = names()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("recurrent")
    return legacy_files.unpacked(made, ARCHIVES) / "recurrent"


def recurrent_layers(model):
    return [
        (type(layer).__name__, layer.get_config())
        for layer in keras_internals.sublayers(model)
        if isinstance(layer, keras.layers.RNN)
    ]


@pytest.mark.parametrize(
    "name", legacy_files.by_release(n for n in NAMES if not n.endswith(REFUSED))
)
def test_it_predicts_what_tensorflow_did_at_any_size_and_length(name, folder):
    case = name.partition("/")[2]
    model = load_model(folder / name / "model")
    with np.load(folder / name / "expected.npz") as file:
        # TensorFlow 2.0 recorded its weights, w_*, as objects, which are not read.
        weights = sum(key.startswith("w_") for key in file.files)
        stored = {key: file[key] for key in file.files if not key.startswith("w_")}
    for batch in "01":
        found = legacy_files.called(model, stored[f"x_{batch}"])
        expected = [stored[key] for key in stored if key.startswith(f"y_{batch}_")]
        for own, other in zip(found, expected, strict=True):
            own = own.astype("float32")
            assert_close(own, other.astype("float32"), TOLERANCE.get(case, 1e-5))
    assert len(model.trainable_variables) == weights * COPIES.get(case, 1)
    found = recurrent_layers(model)
    assert bool(found) == (case != "unrolled")
    if case in EXPECTED:
        expected = EXPECTED[case]
        assert sorted(one for one, _ in found) == sorted(one for one, _ in expected)
        for class_name, settings in expected:
            assert any(
                own == class_name and config.items() >= settings.items()
                for own, config in found
            ), (class_name, settings)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(REFUSED)])
def test_a_loop_of_another_cell_is_refused_with_what_to_do(name, folder):
    told = (
        r"While \(layers '\w+_while'\)\nThe file does not say how many rounds a While "
        "has, and it is not the loop of an LSTM, GRU or SimpleRNN of Keras. If it goes "
        "over an input of any length, pass input_shapes=.* with its length"
    )
    with pytest.raises(LegacyModelError, match=told):
        load_model(folder / name / "model")


def test_bidirectional_masks_with_zeros(folder):
    model = load_model(folder / "2.15.1" / "bidirectional_words" / "model")
    found = {
        config["name"]: config["zero_output_for_mask"]
        for _, config in recurrent_layers(model)
    }
    assert found == {
        "bidirectional_forward_lstm": True,
        "bidirectional_backward_lstm": True,
        "bidirectional_1_forward_gru": False,
        "bidirectional_1_backward_gru": False,
    }


def test_a_model_of_loops_trains_all_its_weights(folder):
    case = folder / "2.15.1" / "stacked"
    model = load_model(case / "model")
    model.compile("adam", "mse")
    stored = dict(np.load(case / "expected.npz"))
    before = [weight.numpy() for weight in model.trainable_variables]
    model.fit(stored["x_0"], stored["y_0_0"] + 1, verbose=0)
    after = [weight.numpy() for weight in model.trainable_variables]
    moved = [bool(np.any(a != b)) for a, b in zip(after, before, strict=True)]
    assert moved == [True] * 11


@pytest.mark.parametrize("name", ["lstm_sequences", "bidirectional_words", "gru"])
def test_keras_alone_opens_what_was_converted(name, folder, tmp_path, plain_keras):
    case = folder / "2.15.1" / name
    load_model(case / "model").save(tmp_path / "model.keras")
    stored = dict(np.load(case / "expected.npz"))
    (found,), _ = plain_keras(tmp_path / "model.keras", stored["x_1"])
    np.testing.assert_allclose(found, stored["y_1_0"], atol=1e-5)


# A While as TensorFlow records it, around tanh(x @ kernel + h @ recurrent + bias).


def node(name, op, *inputs, **attributes):
    return Node(name, op, tuple(map(Output, inputs)), attributes)


NAMES_OF_VALUES = "counter", "time", "ys", "h", "length", "xs", "w", "u", "b"
CHANGED = {"counter": "counter+1", "time": "time+1", "ys": "written", "h": "h+"}
CELL = (
    node("x", "TensorListGetItem", "xs", "time", "shape"),
    node("xw", "MatMul", "x", "w", transpose_a=False, transpose_b=False),
    node("hu", "MatMul", "h", "u", transpose_a=False, transpose_b=False),
    node("both", "AddV2", "xw", "hu"),
    node("inner", "BiasAdd", "both", "b", data_format="NHWC"),
    node("h+", "Tanh", "inner"),
)
LENGTH = node("goes on", "Less", "time", "length")


def constant(name, value):
    return node(name, "Const", value=np.asarray(value))


def found(*others, cond=(LENGTH,), start=0, zero=0.0, rows=None, length=None):
    """Return what a loop leaves, and its steps; `others` replace nodes of CELL."""
    body = [
        *(constant("one", np.int32(1)), constant("shape", np.int32([-1, 3]))),
        node("counter+1", "AddV2", "counter", "one"),
        node("time+1", "AddV2", "time", "one"),
        node("written", "TensorListSetItem", "ys", "time", "h+"),
    ]
    nodes = {one.name: one for one in (*CELL, *body, *others)}
    outputs = tuple(Output(CHANGED.get(name, name)) for name in NAMES_OF_VALUES)
    functions = {
        "body": Function("body", NAMES_OF_VALUES, nodes, outputs),
        "cond": Function(
            "cond", NAMES_OF_VALUES, {n.name: n for n in cond}, (Output("goes on"),)
        ),
    }
    shapes = {1: (3, 4), 2: (4, 4), 3: (4,)}
    variables = {
        n: LegacyWeight("", f"rnn/weight_{n}", shape, np.dtype("float32"), None)
        for n, shape in shapes.items()
    }
    recorded = TracedFunctions({}, variables, {}, functions, {})
    bounds = Constant([0]), Constant([1]), Constant([1])
    steps = [
        OpStep("major", "Transpose", {}, (Argument(0), Constant(np.array([1, 0, 2])))),
        OpStep("shape", "Shape", {}, (StepOutput(0),)),
        OpStep(
            "length", "StridedSlice", {"shrink_axis_mask": 1}, (StepOutput(1), *bounds)
        ),
        OpStep("ys", "TensorListReserve", {}, (Constant(-1), StepOutput(2))),
        OpStep("h", "Fill", {}, (Argument(1), Constant(np.float32(zero)))),
    ]
    values = [
        *(
            Constant(np.int32(0)),
            Constant(np.int32(start)),
            StepOutput(3),
            StepOutput(4),
            StepOutput(2),
        ),
        *(
            UnstackedTensor(StepOutput(0)),
            VariableRef(1),
            VariableRef(2),
            VariableRef(3),
        ),
    ]
    if length is not None:
        values[4] = Constant(np.int32(length))
    specs = [TensorSpec((None, rows, 3), "float32"), TensorSpec((2,), "int32")]
    loop = node("while", "While", *NAMES_OF_VALUES, body="body", cond="cond")
    steps = Steps(steps)
    return recurrent.results(Loop(loop, values, recorded, steps, specs)), steps


@pytest.mark.once("steps of a function, without a model")
def test_a_loop_is_the_layer_whose_formula_its_body_computes():
    left, steps = found()
    step = steps[5]
    assert step.attributes["class_name"] == "SimpleRNN"
    assert step.attributes["config"] == {
        "units": 4,
        "use_bias": True,
        "activation": "tanh",
        "go_backwards": False,
    }
    assert step.inputs == (Argument(0), VariableRef(1), VariableRef(2), VariableRef(3))
    assert left[3] == StepOutput(5, 1)
    assert left[2].tensor == StepOutput(6)
    assert steps[6].op == "Transpose"


@pytest.mark.once("steps of a function, without a model")
def test_a_loop_over_a_known_number_of_rows_is_the_layer():
    left, _ = found(length=5, rows=5)
    assert left[3] == StepOutput(5, 1)


@pytest.mark.once("steps of a function, without a model")
def test_a_state_that_is_not_zero_is_passed():
    _, steps = found(zero=0.5)
    assert steps[5].inputs == (
        Argument(0),
        VariableRef(1),
        VariableRef(2),
        VariableRef(3),
        StepOutput(4),
    )


@pytest.mark.once("steps of a function, without a model")
@pytest.mark.parametrize(
    ("others", "options"),
    [
        pytest.param([node("h+", "Sin", "inner")], {}, id="another-activation"),
        pytest.param([node("both", "Sub", "xw", "hu")], {}, id="another-formula"),
        pytest.param([node("inner", "Identity", "both")], {}, id="no-bias"),
        pytest.param([], {"length": 3, "rows": 5}, id="three-rows-of-five"),
        pytest.param([], {"length": 3}, id="three-rows-of-any-number"),
        pytest.param([], {"start": 1}, id="not-from-the-first-row"),
        pytest.param(
            [node("written", "TensorListSetItem", "ys", "time", "h")], {}, id="late"
        ),
        pytest.param(
            [],
            {
                "cond": (
                    constant("one", np.int32(1)),
                    node("before", "Sub", "length", "one"),
                    node("goes on", "Less", "time", "before"),
                )
            },
            id="not-to-the-last-row",
        ),
        pytest.param(
            [
                constant("zero", np.int32(0)),
                node("x", "TensorListGetItem", "xs", "zero", "shape"),
            ],
            {},
            id="always-the-first-row",
        ),
    ],
)
def test_a_loop_that_does_otherwise_is_no_layer(others, options):
    left, steps = found(*others, **options)
    assert left is None
    assert len(steps) == 5


def test_parameters_in_another_order_are_no_layer(folder, monkeypatch):
    gru = ("GRU", 1, [0, 1, 2], {"reset_after": True})
    monkeypatch.setitem(recurrent.CUDNN_MODES, "gru", gru)
    with pytest.raises(LegacyModelError, match="without a counterpart.*\\n.*CudnnRNN"):
        load_model(folder / "2.15.1/cudnn/model")
