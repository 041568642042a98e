"""Loops over what a file says take linear time, at sizes that a megabyte can have.

Each of these once took from ten seconds to minutes: eight times the work took more than
eight times as long.
"""

import costs
import numpy as np
import pytest

from keras_policies.legacy import inspection
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import graph, input_sizes, plan, policies
from keras_policies.legacy.readers import premade, vocabularies

pytestmark = pytest.mark.once("no Keras", for_all_keras=True)


def weight(path="", name="", shape=(1,)):
    """Return a weight that is never read."""
    return LegacyWeight(path, name, shape, np.dtype("float32"), lambda: np.zeros(shape))


def classes_in_an_archive(size):
    layers = [{"class_name": f"C{n}", "config": {}} for n in range(size)]
    found = configs.stored([f"c{n}_1" for n in range(size)], layers)
    assert found["c7_1"] is layers[7]


def dtypes_by_path(size):
    paths = {f"{'a/' * size}{n}": "float16" for n in range(100)}
    assert policies.by_model(paths, ["a", "b"]) == {"a": ["float16"] * 100, "b": []}


def vocabularies_by_path(size):
    paths = {f"{'a/' * size}{n}": {} for n in range(100)}
    weights = {"a": (weight("b"),), "": ()}
    learned, left = vocabularies.take({}, weights, paths)
    assert len(learned) == 100
    assert left == weights


def kernels_of_a_linear_model(size):
    shapes = {f"x{n}": [None, 1] for n in range(size)}
    config = {"name": "m", "units": 1, "use_bias": True}
    model = {"class_name": "LinearModel", "module": "keras.premade_models"}
    model |= {"config": config, "build_config": {"input_shape": shapes}}
    weights = [weight(f"layers/dense_{n}/vars/0") for n in range(1, size)]
    written = {"": (weight("vars/0"), weight("layers/dense/vars/0"), *weights)}
    _, by_layer = premade.listed(model, written)
    assert [each.path for each in by_layer[f"dense_{size - 1}"]] == ["vars/1", "vars/0"]


def constants_in_calls(size):
    constants = [["_CONSTANT_VALUE", -1, 1.0, {}] for _ in range(size)]
    nodes = [[["x", 0, 0, {}], *constants] for _ in range(2)]
    first = {"class_name": "InputLayer", "name": "x", "config": {"name": "x"}}
    second = {"class_name": "Add", "name": "y", "config": {"name": "y"}}
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["y", 0, 0]]}
    layers = [{**first, "inbound_nodes": []}, {**second, "inbound_nodes": nodes}]
    found = graph.functional_graph({"layers": layers, **ends}, [first, second])
    names = {layer["name"] for layer in found["layers"]}
    assert len(names) == 2 + 2 * size


def normalizations_of_inputs(size):
    layers, weights = [], {}
    for n in range(size):
        shape = {"name": f"x{n}", "batch_input_shape": [None, None]}
        layers.append({"class_name": "InputLayer", "name": f"x{n}", "config": shape})
        own = {"name": f"n{n}", "axis": [-1], "batch_input_shape": [None, None]}
        node = {"inbound_nodes": [[[f"x{n}", 0, 0, {}]]]}
        named = {"class_name": "Normalization", "name": f"n{n}", "config": own}
        layers.append({**named, **node})
        weights[f"n{n}"] = (weight(name=f"n{n}/mean", shape=(7,)),)
    outputs = [[f"n{n}", 0, 0] for n in range(size)]
    config = {"layers": layers, "input_layers": [], "output_layers": outputs}
    sized = input_sizes.with_sizes({"class_name": "Model", "config": config}, weights)
    last = sized["config"]["layers"][-2]
    assert last["config"]["batch_input_shape"] == [None, 7]


def layers_to_describe(size):
    shape = {"name": "x", "batch_input_shape": [None, 1]}
    layers = [{"class_name": "InputLayer", "name": "x", "config": shape}]
    layers[0]["inbound_nodes"] = []
    for n in range(size):
        named = {"class_name": f"C{n}", "name": f"c{n}", "config": {"name": f"c{n}"}}
        before = layers[-1]["name"]
        layers.append({**named, "inbound_nodes": [[[before, 0, 0, {}]]]})
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [[f"c{size - 1}", 0, 0]]}
    legacy = LegacyModel(
        path="m.h5",
        format="H5",
        written_by="Keras 2.15.0",
        config={"class_name": "Functional", "config": {"layers": layers, **ends}},
        records_policies=True,
        weights={f"c{n}": (weight(),) for n in range(size)},
        training_config=None,
        optimizer=LegacyOptimizerState(),
    )
    described = inspection.describe(plan.make(legacy)).layers
    assert [layer.becomes for layer in described] == ["InputLayer", *[None] * size]


@pytest.mark.parametrize(
    ("loop", "size"),
    [
        (layers_to_describe, 3_000),
        (classes_in_an_archive, 10_000),
        (dtypes_by_path, 30_000),
        (vocabularies_by_path, 30_000),
        (kernels_of_a_linear_model, 5_000),
        (constants_in_calls, 3_900),
        (normalizations_of_inputs, 3_000),
    ],
)
def test_a_loop_over_what_a_file_says_is_linear(loop, size):
    assert costs.is_linear(loop, size)


def test_a_loop_that_is_quadratic_is_noticed():
    def pairs(size):
        return sum(1 for _ in range(size * size))

    assert not costs.is_linear(pairs, 400, unnoticed=0)
