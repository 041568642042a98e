"""Each rule that recognises a layer in a traced function, on a small function.

The functions are written here by hand; those that TensorFlow recorded are in test_lost.
Each model is also compared with what the interpreter computes from the same nodes.
"""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.assembly import build, checking
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Function,
    Node,
    Output,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import plan
from keras_policies.legacy.plan.reconstruction import (
    ir,
    layer_calls,
    loops,
    matched_calls,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*classes of these layers")
# Attributes that TensorFlow writes into each node of these ops.
CONVOLUTION = {
    "strides": [1, 1, 1, 1],
    "padding": "SAME",
    "data_format": "NHWC",
    "dilations": [1, 1, 1, 1],
}
PRODUCT = {"transpose_a": False, "transpose_b": False}


def node(name, op, *inputs, **attributes):
    return Node(name, op, tuple(map(Output, inputs)), attributes)


def constant(name, value):
    return node(name, "Const", value=np.array(value))


class Rule(NamedTuple):
    """A function of an input `x` and variables, and the stock layers it becomes.

    Args:
        shape: of `x`.
        variables: name -> shape; a node of this name reads the variable.
        nodes: the others, in any order; the last one is the result.
        expected: the class of each layer, with some of its settings.
    """

    shape: tuple[int | None, ...]
    variables: dict[str, tuple[int, ...]]
    nodes: list[Node]
    expected: list[tuple[str, dict[str, Any]]]
    dtype: str = "float32"
    others: tuple[str, ...] = ()  # further inputs of this shape
    frozen: tuple[str, ...] = ()  # variables that the layer does not train


RULES = {
    # The example in CONTRIBUTING.md.
    "a product with a weight and a bias is a Dense": Rule(
        (None, 4),
        {"w": (4, 3), "b": (3,)},
        [
            node("MatMul", "MatMul", "x", "w", **PRODUCT),
            node("add", "AddV2", "MatMul", "b"),
            node("Relu", "Relu", "add"),
        ],
        [("Dense", {"name": "w", "units": 3, "use_bias": True})],
    ),
    "a product with a weight alone is a Dense without a bias": Rule(
        (None, 4),
        {"w": (4, 3)},
        [node("product", "MatMul", "x", "w", **PRODUCT)],
        [("Dense", {"units": 3, "use_bias": False})],
    ),
    "a product of matrices in batches is a Dense": Rule(
        (None, 5, 4),
        {"w": (4, 3), "b": (3,)},
        [
            node("product", "BatchMatMulV2", "x", "w", adj_x=False, adj_y=False),
            node("sum", "BiasAdd", "product", "b", data_format="NHWC"),
        ],
        [("Dense", {"units": 3, "use_bias": True})],
    ),
    "tf.tensordot reshapes, multiplies and reshapes back: a Dense does all of it": Rule(
        (None, 5, 4),
        {"w": (4, 3)},
        [
            constant("matrix", [-1, 4]),
            node("rows", "Reshape", "x", "matrix"),
            node("product", "MatMul", "rows", "w", **PRODUCT),
            node("shape", "Shape", "x", out_type="int32"),
            *(constant("zero", [0]), constant("two", [2]), constant("one", [1])),
            node("sizes", "StridedSlice", "shape", "zero", "two", "one", begin_mask=0),
            *(constant("units", [3]), constant("axis", 0)),
            node("back", "ConcatV2", "sizes", "units", "axis"),
            node("end", "Reshape", "product", "back"),
        ],
        [("Dense", {"units": 3, "use_bias": False})],
    ),
    "a product with a transposed weight is no Dense": Rule(
        (None, 4),
        {"w": (3, 4)},
        [node("product", "MatMul", "x", "w", transpose_a=False, transpose_b=True)],
        [("PReLU", {})],
    ),
    "a vector that is used twice is no bias": Rule(
        (None, 4),
        {"w": (4, 3), "b": (3,)},
        [
            node("product", "MatMul", "x", "w", **PRODUCT),
            node("sum", "AddV2", "product", "b"),
            node("end", "Mul", "sum", "b"),
        ],
        [("PReLU", {}), ("Dense", {"use_bias": False})],
    ),
    "a vector that does not train is no bias of a product that does": Rule(
        (None, 4),
        {"w": (4, 3), "b": (3,)},
        [
            node("product", "MatMul", "x", "w", **PRODUCT),
            node("sum", "AddV2", "product", "b"),
        ],
        [
            ("PReLU", {"trainable": False}),
            ("Dense", {"use_bias": False, "trainable": True}),
        ],
        frozen=("b",),
    ),
    "a vector that trains is no bias of a product that does not": Rule(
        (None, 4),
        {"w": (4, 3), "b": (3,)},
        [
            node("product", "MatMul", "x", "w", **PRODUCT),
            node("sum", "AddV2", "product", "b"),
        ],
        [
            ("PReLU", {"trainable": True}),
            ("Dense", {"use_bias": False, "trainable": False}),
        ],
        frozen=("w",),
    ),
    "a convolution of images is a Conv2D": Rule(
        (None, 6, 6, 3),
        {"w": (3, 2, 3, 4), "b": (4,)},
        [
            node("convolved", "Conv2D", "x", "w", **CONVOLUTION),
            node("sum", "BiasAdd", "convolved", "b", data_format="NHWC"),
        ],
        [("Conv2D", {"filters": 4, "kernel_size": (3, 2), "padding": "same"})],
    ),
    "a Conv2D of images with one row is a Conv1D": Rule(
        (None, 6, 3),
        {"w": (1, 2, 3, 4)},
        [
            constant("row", 1),
            node("image", "ExpandDims", "x", "row"),
            node("convolved", "Conv2D", "image", "w", **CONVOLUTION),
            node("end", "Squeeze", "convolved", squeeze_dims=[1]),
        ],
        [("Conv1D", {"filters": 4, "kernel_size": (2,), "use_bias": False})],
    ),
    "a convolution of volumes is a Conv3D": Rule(
        (None, 4, 4, 4, 2),
        {"w": (2, 2, 2, 2, 3)},
        [
            node(
                "convolved",
                "Conv3D",
                *("x", "w"),
                strides=[1, 2, 2, 2, 1],
                padding="VALID",
                data_format="NDHWC",
                dilations=[1, 1, 1, 1, 1],
            )
        ],
        [("Conv3D", {"filters": 3, "strides": (2, 2, 2), "padding": "valid"})],
    ),
    "a convolution of each channel is a DepthwiseConv2D": Rule(
        (None, 6, 6, 3),
        {"w": (3, 3, 3, 2), "b": (6,)},
        [
            node("convolved", "DepthwiseConv2dNative", "x", "w", **CONVOLUTION),
            node("sum", "BiasAdd", "convolved", "b", data_format="NHWC"),
        ],
        [("DepthwiseConv2D", {"depth_multiplier": 2, "use_bias": True})],
    ),
    "the gradient of a convolution is a Conv2DTranspose": Rule(
        (None, 6, 6, 3),
        {"w": (3, 3, 4, 3)},
        [
            constant("sizes", [2, 6, 6, 4]),
            node("convolved", "Conv2DBackpropInput", "sizes", "w", "x", **CONVOLUTION),
        ],
        [("Conv2DTranspose", {"filters": 4, "kernel_size": (3, 3)})],
    ),
    "rows taken from a weight are an Embedding": Rule(
        (None, 5),
        {"w": (7, 3)},
        [constant("axis", 0), node("rows", "GatherV2", "w", "x", "axis", batch_dims=0)],
        [("Embedding", {"input_dim": 7, "output_dim": 3})],
        dtype="int32",
    ),
    "an input is told from a variable, whatever the numbers of both are": Rule(
        (None, 3),
        {"w": (3,)},
        [node("sum", "AddV2", "y", "w"), node("end", "Mul", "sum", "x")],
        [("PReLU", {})],
        others=("y",),
    ),
    "any other weight is the slopes of a PReLU": Rule(
        (None, 4),
        {"w": (4,)},
        [node("product", "Mul", "x", "w")],
        [("PReLU", {})],
    ),
}


def variable(name, shape, number):
    array = np.sin(np.arange(math.prod(shape), dtype="float32") + 1).reshape(shape)
    return LegacyWeight(name, name, shape, array.dtype, lambda: array, number)


def legacy(rule):
    """Return a file that holds a subclassed model with a function alone."""
    variables = {
        number: variable(name, shape, number)
        for number, (name, shape) in enumerate(rule.variables.items(), 1)
    }
    reads = [node(n, "ReadVariableOp", f"at_{n}") for n in rule.variables]
    function = Function(
        "call",
        ("x", *rule.others, *(f"at_{n}" for n in rule.variables)),
        {one.name: one for one in (*reads, *rule.nodes)},
        (Output(rule.nodes[-1].name),),
    )
    names = "x", *rule.others
    inputs = (tuple(TensorSpec(rule.shape, rule.dtype, name) for name in names), {})
    trace = ConcreteFunction("call", inputs, TensorSpec(None, "float32"), (*variables,))
    layer = TracedLayer(
        class_name="Lost",
        config={"name": "lost", "dtype": "float32"},
        has_config=False,
        name="lost",
        children={name: n for n, name in enumerate(rule.variables, 1)},
        variables=(*variables,),
        trainable=tuple(n for n, w in variables.items() if w.name not in rule.frozen),
        traces=(trace,),
    )
    return LegacyModel(
        path="model",
        format="SavedModel",
        written_by="TensorFlow 2.15.1",
        config={"class_name": "Lost", "config": None},
        records_policies=True,
        weights={"": (*variables.values(),)},
        training_config=None,
        optimizer=LegacyOptimizerState(),
        traced=TracedFunctions({0: layer}, variables, {}, {"call": function}, {}),
    )


@pytest.mark.parametrize("name", RULES)
def test_a_function_becomes_the_layers_it_was(name):
    rule = RULES[name]
    planned = plan.make(legacy(rule))
    model = build.build(planned).model
    layers = [layer for layer in model.layers if not is_input(layer)]
    assert [type(layer).__name__ for layer in layers] == [n for n, _ in rule.expected]
    for layer, (_, settings) in zip(layers, rule.expected, strict=True):
        assert {key: getattr(layer, key) for key in settings} == settings
    assert checking.check(model, planned, None).difference < 1e-5


def is_input(layer):
    return isinstance(layer, keras.layers.InputLayer)


def test_a_weight_that_only_lends_its_shape_is_left_out():
    nodes = [
        node("product", "MatMul", "x", "w", **PRODUCT),
        node("shape", "Shape", "product", out_type="int32"),
        *(constant("one", [1]), constant("two", [2])),
        node(
            *("columns", "StridedSlice", "shape", "one", "two", "one"),
            shrink_axis_mask=1,
        ),
        node("number", "Cast", "columns", SrcT="int32", DstT="float32"),
        node("end", "Mul", "x", "number"),
    ]
    built = build.build(plan.make(legacy(Rule((None, 4), {"w": (4, 4)}, nodes, []))))
    assert built.parts[-1] == "'w', whose result is used by its shape alone"
    assert built.parts[-1].outcome.value == "complete"
    assert built.model.weights == []


def test_an_input_of_any_rank_is_refused_with_what_to_do():
    match = r"any rank, .*\. Pass its shape, such as input_shapes="
    with pytest.raises(LegacyModelError, match=match):
        plan.make(legacy(Rule(None, {}, [node("end", "Tanh", "x")], [])))


def test_known_sizes_of_an_unknown_batch_bound_a_loop():
    nodes = [
        node("shape", "Shape", "x", out_type="int32"),
        *(constant("one", [1]), constant("three", [3]), constant("axis", [0])),
        node("sizes", "StridedSlice", "shape", "one", "three", "one"),
        node("count", "Prod", "sizes", "axis"),
        constant("start", 0),
        node("loop", "While", "start", "count", "x", cond="goes_on", body="body"),
        Node("end", "Identity", (Output("loop", "output", 2),), {}),
    ]
    file = legacy(Rule((None, 2, 3), {}, nodes, []))
    names = "i", "n", "rows"
    more = [constant("step", 1), node("next", "AddV2", "i", "step")]
    twice = node("twice", "AddV2", "rows", "rows")
    for name, body, ends in (
        ("goes_on", [node("less", "Less", "i", "n")], ["less"]),
        ("body", [*more, twice], ["next", "n", "twice"]),
    ):
        held = {one.name: one for one in body}
        outputs = tuple(map(Output, ends))
        file.traced.functions[name] = Function(name, names, held, outputs)
    model = build.build(plan.make(file)).model
    found = keras.ops.convert_to_numpy(model(np.ones((1, 2, 3), "float32")))
    np.testing.assert_array_equal(found, np.full((1, 2, 3), 64))  # 6 rounds


def test_an_output_that_is_an_input_has_no_position_in_the_results_of_a_layer():
    name = "gru/Identity"
    nodes = {name: node(name, "Identity", "x")}
    function = Function("f", ("x",), nodes, (Output(name),))
    graph = matched_calls.reachable(function, [ir.Argument(0)])
    layer = TracedLayer("GRU", {"return_state": True}, True, "gru", {}, (), (), ())
    spec = ir.LayerSpec("gru", "GRU", {})
    inputs, outputs = (Output("x"),), (Output(name),)
    matched = matched_calls.MatchedCall(spec, layer, "gru", (name,), inputs, outputs)
    assert layer_calls._positions(matched, graph) == {}


def test_a_round_of_a_loop_has_a_limited_number_of_axes():
    shape = (1,) * 100_000
    node = Node("map/while/add", "AddV2", (), {}, shape=shape)
    value = ir.Mapped(ir.Argument(0), ())
    with pytest.raises(LegacyModelError, match="a tensor of 100000 axes, expected at"):
        loops.emitted(node, [value, value], ir.Steps())
