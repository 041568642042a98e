"""What a SavedModel recorded of its layers, as the reader gives it."""

import shutil

import legacy_files
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.base.traced_functions import Composite, Output, TensorSpec
from keras_policies.legacy.guards import budget
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers import readers
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.saved_model import functions

pytestmark = pytest.mark.once("readers use numpy")
LOST = legacy_files.FOLDER / "lost"


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """The folder of the unpacked archives."""
    folder = tmp_path_factory.mktemp("lost")
    return legacy_files.unpacked(folder, sorted(LOST.glob("*.tar.xz")))


def test_a_lost_layer_has_its_function_and_its_weight(lost):
    with readers.read(lost / "2.0.0" / "own_lookup" / "model") as legacy:
        recorded = legacy.traced
        (number,) = (n for n, one in recorded.layers.items() if one.name == "lookup")
        layer = recorded.layers[number]
        assert (layer.class_name, number) == ("Lookup", 2)
        assert layer.config == {"name": "lookup", "trainable": True, "dtype": "float32"}
        assert layer.children == {"table": 12}
        assert layer.variables == layer.trainable == (12,)
        (trace,) = layer.traces
        assert trace.inputs == ((TensorSpec((None, 5), "int32", "x"),), {})
        assert trace.outputs == TensorSpec((None, 5, 3), "float32")
        assert trace.captures == (12,)
        assert recorded.variables[12] in legacy.weights["lookup"]
        function = recorded.functions[trace.function]
    assert function.arguments == ("x", "statefulpartitionedcall_args_1")
    assert [node.op for node in function.nodes.values()] == [
        "StatefulPartitionedCall",
        "Identity",
    ]
    call = function.nodes["StatefulPartitionedCall"]
    assert call.inputs == (Output("x"), Output("statefulpartitionedcall_args_1"))
    assert function.outputs == (Output("Identity", "output", 0),)
    inner = recorded.functions[call.attributes["f"]]
    assert [node.op for node in inner.nodes.values()] == [
        "ResourceGather",
        "Identity",
        "Identity",
    ]


def test_attributes_are_plain_values(lost):
    with readers.read(lost / "2.15.1" / "own_conv2d" / "model") as legacy:
        every = legacy.traced.functions.values()
        nodes = [node for function in every for node in function.nodes.values()]
    conv = next(node for node in nodes if node.op == "Conv2D")
    assert conv.attributes == {
        "T": "float32",
        "padding": "SAME",
        "strides": (1, 2, 2, 1),
    }
    assert not [name for node in nodes for name in node.attributes if name[0] == "_"]


def test_nests_of_inputs_and_outputs_have_their_names(lost):
    with readers.read(lost / "2.15.1" / "subclassed_dict" / "model") as legacy:
        model = legacy.traced.layers[0]
        serving = legacy.traced.signatures["serving_default"]
    (trace,) = model.traces
    features = TensorSpec((None, 4), "float32", "features")
    assert trace.inputs == (
        ({"features": features, "id": TensorSpec((None, 1), "int32", "id")},),
        {},
    )
    assert sorted(trace.outputs) == ["score", "total"]
    assert model.children == {"embedding": 8, "dense": 9}
    assert serving.inputs[1]["features"] == features
    assert serving.captures == (11, 12, 13)


def test_traces_are_of_the_call_for_training_and_for_inference(lost):
    with readers.read(lost / "2.4.4" / "dropout_inside" / "model") as legacy:
        layer = legacy.traced.layers[2]
        x = TensorSpec((None, 6, 6, 3), "float32", "x")
    assert layer.name == "conv_block"
    assert [trace.inputs for trace in layer.traces] == [
        ((x, False), {}),
        ((x, True), {}),
    ]


def test_objects_in_lists_go_by_their_position(lost):
    with readers.read(lost / "2.4.4" / "nested" / "model") as legacy:
        layers = legacy.traced.layers
        assert layers[2].children == {"inner": 8, "scale": 9, "w": 10}
        assert layers[8].children == {"steps/0": 40, "steps/1": 41}
        assert (layers[40].class_name, layers[40].name) == ("Dense", "dense")


def test_a_module_has_its_signatures_and_what_they_use(lost):
    with readers.read(lost / "2.15.1" / "module_signatures" / "model") as legacy:
        recorded = legacy.traced
        assert legacy.config == {"class_name": "Signature", "config": None}
        assert sorted(recorded.signatures) == ["compare", "serving_default"]
        assert list(recorded.layers) == [0]
        model = recorded.layers[0]
        paths = [weight.path for weight in legacy.weights[""]]
    assert paths == ["hidden/w", "hidden/b", "head/w", "head/b", "scale", "shift"]
    assert model.variables == (8, 9, 11, 12, 3, 4)
    assert model.trainable == (8, 9, 11, 12, 3)
    assert [trace.outputs for trace in model.traces] == [
        {"scores": TensorSpec((None, 2), "float32", "scores")}
    ]


def test_an_export_of_keras_3_has_each_weight_once(lost):
    with readers.read(lost / "keras-3.15.1" / "export_text" / "model") as legacy:
        weights = [(weight.name, weight.shape) for weight in legacy.weights[""]]
    assert weights == [
        ("embedding/embeddings", (6, 3)),
        ("lstm/lstm_cell/kernel", (3, 12)),
        ("lstm/lstm_cell/recurrent_kernel", (3, 12)),
        ("lstm/lstm_cell/bias", (12,)),
        ("dense/kernel", (3, 1)),
        ("dense/bias", (1,)),
    ]
    assert legacy.inputs == {"keras_tensor": ((None, 5), "int32")}


def test_a_stale_keras_metadata_is_not_believed(lost, tmp_path):
    with readers.read(lost / "2.4.4" / "stale_metadata" / "model") as legacy:
        layers = legacy.traced.layers
        assert {n: one.name for n, one in layers.items()} == {
            0: "model",
            1: "input_1",
            2: "scale",
            3: "dense",
        }
    export = tmp_path / "export"
    shutil.copytree(lost / "keras-3.15.1" / "export_image" / "model", export)
    shutil.copy(lost / "2.15.1" / "nested" / "model" / "keras_metadata.pb", export)
    with readers.read(export) as legacy:
        assert legacy.config["class_name"] == "Signature"


def tensor(number, shape, **values):
    """Return a message `Tensor` of the data type with a number."""
    message = protos.parse("Tensor", b"")
    message.dtype = number
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    for name, value in values.items():
        if isinstance(value, bytes):
            setattr(message, name, value)
        else:
            getattr(message, name).extend(value)
    return message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(tensor(1, (2, 2), float_val=[0.5]), [[0.5] * 2] * 2, id="fills"),
        pytest.param(tensor(1, (3,), float_val=[1, 2]), [1, 2, 2], id="repeats-last"),
        pytest.param(tensor(3, (2,)), [0, 0], id="zeros"),
        pytest.param(tensor(3, (0,)), [], id="empty"),
        pytest.param(tensor(9, (), int64_val=[-5]), -5, id="scalar"),
        pytest.param(tensor(6, (2,), int_val=[-1, 7]), [-1, 7], id="int8"),
        pytest.param(tensor(19, (2,), half_val=[15360, 49152]), [1, -2], id="float16"),
        pytest.param(tensor(14, (1,), half_val=[16256]), [1], id="bfloat16"),
        pytest.param(tensor(8, (1,), scomplex_val=[1, -2]), [1 - 2j], id="complex"),
        pytest.param(tensor(10, (2,), bool_val=[True]), [True, True], id="bool"),
        pytest.param(tensor(7, (2,), string_val=[b"a", b""]), [b"a", b""], id="text"),
        pytest.param(tensor(7, (2,)), [b"", b""], id="no-text"),
        pytest.param(
            tensor(1, (1,), tensor_content=b"\0\0\x20\x41"), [10.0], id="bytes"
        ),
    ],
)
def test_a_constant_is_what_tensorflow_makes_of_it(message, expected):
    found = functions.constant("Const", message)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("message", "match"),
    [
        pytest.param(tensor(1, (2,), tensor_content=b"abc"), "0 values", id="bytes"),
        pytest.param(tensor(1, (1,), float_val=[1, 2]), "2 values", id="too-many"),
        pytest.param(tensor(7, (3,), string_val=[b"", b""]), "2 values", id="text"),
        pytest.param(tensor(1, (-1,), float_val=[1]), "1 values", id="negative"),
        pytest.param(tensor(99, ()), "unknown type 99", id="type"),
        pytest.param(tensor(1, (10**6, 10**6)), "4000000000000 bytes", id="terabytes"),
        pytest.param(tensor(1, (1,) * 33), "0 values", id="dimensions"),
    ],
)
def test_a_constant_that_lies_is_refused(message, match):
    with budget.of(0), pytest.raises(LegacyModelError, match=match):
        functions.constant("Const", message)


def structure(**value):
    """Return an encoded `StructuredValue`."""
    message = protos.parse("StructuredValue", b"")
    for name, held in value.items():
        setattr(message, name, held)
    return message


def test_plain_values_are_told_from_nothing():
    def read(message):
        return functions.FunctionReader(Limit(99, "values")).structure(
            message.SerializeToString()
        )

    assert read(structure(bool_value=False)) is False
    assert read(structure(int64_value=-3)) == -3
    assert read(structure(string_value="")) == ""
    assert read(structure(tensor_dtype_value=19)) == "float16"
    assert read(structure()) is None
    ragged = structure()
    ragged.type_spec_value.type_spec_class_name = "RaggedTensorSpec"
    pair = structure()
    pair.tuple_value.values.add().CopyFrom(ragged)
    pair.tuple_value.values.add().tensor_spec_value.shape.unknown_rank = True
    assert read(pair) == (Composite("RaggedTensorSpec"), TensorSpec(None, "type 0"))


def changed(path, folder, change):
    """Return a copy of a SavedModel after `change(meta_graph, functions)`."""
    shutil.copytree(path, folder)
    file = folder / "saved_model.pb"
    parsed = protos.parse("SavedModel", file.read_bytes())
    graph = protos.parse("Graph", parsed.meta_graphs[0].graph_def)
    functions = [protos.parse("FunctionDef", data) for data in graph.library.function]
    change(parsed.meta_graphs[0], functions)
    del graph.library.function[:]
    graph.library.function.extend(one.SerializeToString() for one in functions)
    parsed.meta_graphs[0].graph_def = graph.SerializeToString()
    file.write_bytes(parsed.SerializeToString())
    return folder


def no_such_input(meta_graph, functions):
    for function in functions:
        for node in function.node_def:
            if node.input:
                node.input[0] = "nowhere:output:0"


def a_number_that_is_none(meta_graph, functions):
    for function in functions:
        function.ret[0].value = f"{function.node_def[0].name}:output:²"


def two_nodes_of_one_name(meta_graph, functions):
    for function in functions:
        function.node_def.add().CopyFrom(function.node_def[0])


def very_many_nodes(meta_graph, functions):
    for number in range(600_000):
        functions[0].node_def.add(name=str(number))
    functions[1:] = []


def each_function(legacy):
    return list(legacy.traced.functions.values())


def captures_beyond_the_file(meta_graph, functions):
    stored = meta_graph.object_graph_def.concrete_functions
    for number, data in enumerate(stored):
        function = protos.parse("NamedConcreteFunction", data)
        function.value.bound_inputs.append(10**6)
        stored[number] = function.SerializeToString()


def no_arguments(meta_graph, functions):
    stored = meta_graph.object_graph_def.concrete_functions
    for number, data in enumerate(stored):
        function = protos.parse("NamedConcreteFunction", data)
        function.value.canonicalized_input_signature = b""
        stored[number] = function.SerializeToString()


def no_functions(meta_graph, functions):
    del meta_graph.object_graph_def.concrete_functions[:]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (no_such_input, "the input 'nowhere:output:0' of a function's node is not"),
        (a_number_that_is_none, "the input '.*:²' of a function's node is not there"),
        (two_nodes_of_one_name, "two nodes of one name"),
        (very_many_nodes, "more than 500000 nodes and values in its functions"),
        (captures_beyond_the_file, "captures missing objects"),
        (no_arguments, "does not record its arguments"),
        (no_functions, "there is no function '__inference_signature_wrapper_"),
    ],
)
def test_a_broken_function_is_refused(lost, tmp_path, change, match):
    path = lost / "2.15.1" / "module_signatures" / "model"
    path = changed(path, tmp_path / "model", change)
    with (
        pytest.raises(LegacyModelError, match=f"model.*: .*{match}"),
        readers.read(path) as legacy,
    ):
        each_function(legacy)


def test_functions_are_parsed_when_they_are_looked_up(lost, tmp_path):
    path = lost / "2.4.4" / "nested" / "model"
    path = changed(path, tmp_path / "model", no_such_input)
    with readers.read(path) as legacy:
        assert legacy.weights["outer"][0].read().shape == (4,)
        name = next(iter(legacy.traced.functions))
        with pytest.raises(LegacyModelError, match="nowhere"):
            legacy.traced.functions[name]
        with pytest.raises(KeyError, match="no function of it"):
            legacy.traced.functions["no function of it"]
