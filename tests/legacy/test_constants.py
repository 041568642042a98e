"""What ops make of constants and of sizes, in the numbers that TensorFlow gives."""

import keras
import numpy as np
import pytest

from keras_policies.legacy.assembly import build
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.plan import plan
from keras_policies.legacy.values.dims import Dim

FLOATS = np.array([[1, 2], [3, 4]], "float32")


def node(op, *values, **attributes):
    """Return what a node gives, some of whose inputs are constants."""
    constants = {
        i: np.asarray(value)
        for i, value in enumerate(values)
        if not isinstance(value, keras.KerasTensor | Dim)
    }
    rest = [value for i, value in enumerate(values) if i not in constants]
    return node_def.call({"op": op, "attr": attributes}, rest, constants)


def call(name, *args, **kwargs):
    return table.call(name, args, kwargs)


def int32(*numbers):
    return np.array(numbers, "int32")


def float32(*numbers):
    return np.array(numbers, "float32")


MASK = float32([1, 0, 0], [1, 1, 0])
CONSTANTS = {
    "stack": (node("Pack", float32(0, 0), float32(1, 1), axis=1), [[0, 1], [0, 1]]),
    "concat": (node("ConcatV2", FLOATS, FLOATS, 1), [[1, 2, 1, 2], [3, 4, 3, 4]]),
    "unstack": (node("Unpack", FLOATS, num=2, axis=1), [[1, 3], [2, 4]]),
    "split": (node("Split", 1, FLOATS, num_split=2), [[[1], [3]], [[2], [4]]]),
    "causal-mask": (
        node("GreaterEqual", int32([0], [1], [2]), int32(0, 1, 2)),
        [[True, False, False], [True, True, False], [True, True, True]],
    ),
    "mask-of-gpt-2": (
        node(
            "Sub",
            node("Mul", float32([5], [6]), MASK),
            node("Mul", float32(1e10), node("Sub", float32(1), MASK)),
        ),
        [[5, -1e10, -1e10], [6, 6, -1e10]],
    ),
    "squeeze": (
        node("Squeeze", np.ones((2, 1, 3), "float32"), squeeze_dims=[1]),
        [[1, 1, 1], [1, 1, 1]],
    ),
    "zeros-like": (node("ZerosLike", np.ones((2, 3), "int32")), [[0] * 3] * 2),
    "ones-like": (node("OnesLike", np.zeros((2, 3), "int32")), [[1] * 3] * 2),
    "int32-wraps-around": (node("Mul", int32(2**30), int32(4)), [0]),
    "int32-turns-negative": (node("AddV2", int32(2**31 - 1), int32(1)), [-(2**31)]),
    "sum-wraps-around": (node("Sum", int32(*[2**30] * 4), int32(0)), 0),
    "float32-has-24-bits": (node("Add", float32(2**24), float32(1)), [16777216.0]),
    "float16-has-11-bits": (node("Add", np.float16([2048]), np.float16([1])), [2048.0]),
    "mean-of-integers": (node("Mean", int32([1, 2], [-1, -2]), 1), [1, -1]),
    "floor-of-quotient": (node("FloorDiv", int32(-7), int32(2)), [-4]),
    "remainder": (node("FloorMod", int32(-7), int32(2)), [1]),
    "truncated-quotient": (node("TruncateDiv", int32(-7), int32(2)), [-3]),
    "truncated-remainder": (node("TruncateMod", int32(-7), int32(2)), [-1]),
    "cast": (node("Cast", float32(2.7, -2.7), DstT="DT_INT32"), [2, -2]),
    "known-condition": (node("SelectV2", False, FLOATS, FLOATS * 2), [[2, 4], [6, 8]]),
    "product-of-no-axes": (node("Prod", np.zeros(0, "int32"), int32(0)), 1),
    "clip": (
        node("ClipByValue", FLOATS, np.float32(2), np.float32(3)),
        [[2, 2], [3, 3]],
    ),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_computed_as_tensorflow_does(name):
    found, wanted = CONSTANTS[name]
    np.testing.assert_array_equal(found, wanted)
    assert not isinstance(found, keras.KerasTensor)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("int32-wraps-around", "int32"), ("sum-wraps-around", "int32")),
        *(("float32-has-24-bits", "float32"), ("float16-has-11-bits", "float16")),
        *(("mean-of-integers", "int32"), ("causal-mask", "bool"), ("cast", "int32")),
        *(("mask-of-gpt-2", "float32"), ("truncated-quotient", "int32")),
    ],
)
def test_constants_keep_the_dtype_of_tensorflow(name, dtype):
    assert CONSTANTS[name][0].dtype.name == dtype


def test_a_batch_normalization_of_constants_is_a_constant():
    images = np.arange(6, dtype="float32").reshape(1, 1, 3, 2)
    ones, zeros = float32(1, 1), float32(0, 1)
    settings = {"epsilon": 0.0, "is_training": False}
    found = node("FusedBatchNormV3", images, ones, zeros, zeros, ones * 4, **settings)
    wanted = [[[[0, 1], [1, 2], [2, 3]]]]
    np.testing.assert_allclose(found[0], wanted, 1e-6)


def shape(x):
    return call("shape", x)


# name -> (function of a tensor (batch, length, 4), the same of an array of numpy)
NODES = {
    "fill": (
        lambda x: call("fill", [shape(x)[1], shape(x)[1]], 2.5),
        lambda a: np.full((a.shape[1], a.shape[1]), 2.5),
    ),
    "where": (
        lambda x: call("where", int32([1], [0], [1], [0]).T > 0, x, -x),
        lambda a: np.where([True, False, True, False], a, -a),
    ),
    "slice": (
        lambda x: node("Slice", x, int32(0, 0, 1), [shape(x)[0] // 2, -1, 2]),
        lambda a: a[: len(a) // 2, :, 1:3],
    ),
    "slice-all-but-one": (
        lambda x: node("Slice", x, int32(0, 0, 0), [shape(x)[0] - 1, -1, -1]),
        lambda a: a[:-1],
    ),
    "boolean-mask": (
        lambda x: call("boolean_mask", x, [True, False, True, True], axis=2),
        lambda a: a[:, :, [0, 2, 3]],
    ),
    "boolean-mask-as-tensorflow-2-records-it": (
        lambda x: call("compat.v1.boolean_mask", x[0, 0], [True] * 3 + [False], "n", 0),
        lambda a: a[0, 0, :3],
    ),
    "tensordot": (
        lambda x: call("linalg.tensordot", x, FLOATS[[0, 1, 1, 0]], [[2], [0]]),
        lambda a: a @ FLOATS[[0, 1, 1, 0]],
    ),
    "tensordot-of-two-axes": (
        lambda x: call("linalg.tensordot", x, x, [[1, 2], [1, 2]]),
        lambda a: np.tensordot(a, a, [[1, 2], [1, 2]]),
    ),
    "reshape": (
        lambda x: call("reshape", x, [shape(x)[1], shape(x)[0] * 2, 2]),
        lambda a: a.reshape(a.shape[1], -1, 2),
    ),
    "repeat": (
        lambda x: call("repeat", x, shape(x)[1], axis=0),
        lambda a: np.repeat(a, a.shape[1], axis=0),
    ),
    "scatter": (
        lambda x: call("scatter_nd", int32([1], [0]), FLOATS, [shape(x)[1], 2]),
        lambda a: np.concatenate([FLOATS[::-1], np.zeros((a.shape[1] - 2, 2))]),
    ),
    "segments-of-a-constant": (
        lambda x: call("math.unsorted_segment_sum", FLOATS, int32(1, 1), shape(x)[1]),
        lambda a: np.pad([FLOATS.sum(0)], ((1, a.shape[1] - 2), (0, 0))),
    ),
    "resize": (
        lambda x: call("image.resize", x[..., None], shape(x)[1:] * 2, "nearest"),
        lambda a: a.repeat(2, 1).repeat(2, 2)[..., None],
    ),
    "gather": (
        lambda x: call(
            "gather", x[:, 0], call("math.argmax", x[:, 1], 1), batch_dims=1
        ),
        lambda a: a[range(len(a)), 0, a[:, 1].argmax(-1)],
    ),
    "half-of-a-shape": (
        lambda x: x * call("cast", call("cast", shape(x), "float32")[2] / 2.5, "int32"),
        lambda a: a * 1,
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_sizes_of_the_input_make_nodes(name):
    function, wanted = NODES[name]
    x = keras.Input((None, 4))
    model = keras.Function(x, function(x))
    for batch, length in ((6, 5), (3, 2)):
        array = np.random.default_rng(0).normal(size=(batch, length, 4))
        found = keras.ops.convert_to_numpy(model(array.astype("float32")))
        assert found.shape == wanted(array).shape
        np.testing.assert_allclose(found, wanted(array), 1e-5, 1e-5)


def op_layer(class_name, function, *call):
    config = {"name": function, "dtype": "float32", "function": function}
    return {"class_name": class_name, "config": config, "inbound_nodes": [[*call]]}


def test_a_shape_that_is_known_can_be_an_output():
    # `[tf.shape(x)[1:], tf.reduce_sum(x)]` of TensorFlow 2.15.1, which gives [3, 5].
    shape, item = "compat.v1.shape", "__operators__.getitem"
    rest = {"slice_spec": {"start": 1, "stop": None, "step": None}}
    layers = [
        {
            "class_name": "InputLayer",
            "config": {"name": "x", "batch_input_shape": [None, 3, 5]},
            "inbound_nodes": [],
        },
        op_layer("TFOpLambda", shape, "x", 0, 0, {"out_type": "int32"}),
        op_layer("SlicingOpLambda", item, shape, 0, 0, rest),
        op_layer("TFOpLambda", "math.reduce_sum", "x", 0, 0, {}),
    ]
    config = {
        "name": "m",
        "layers": layers,
        "input_layers": [["x", 0, 0]],
        "output_layers": [[item, 0, 0], ["math.reduce_sum", 0, 0]],
    }
    legacy = LegacyModel(
        path="model",
        format="H5",
        written_by="Keras 2.15.0",
        config={"class_name": "Functional", "config": config},
        records_policies=True,
        weights={},
        training_config=None,
        optimizer=LegacyOptimizerState(),
    )
    model = build.build(plan.make(legacy)).model
    sizes, total = model(np.full((2, 3, 5), [1, 2, 3, np.nan, 4], "float32"))
    assert keras.ops.convert_to_numpy(sizes).tolist() == [3, 5]
    assert np.isnan(keras.ops.convert_to_numpy(total))
