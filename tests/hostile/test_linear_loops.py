"""Loops over what a file says take linear time, at sizes that a megabyte can have.

Each of these once took from ten seconds to minutes.
"""

import time

import numpy as np
import pytest

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import graph, input_sizes, policies
from keras_policies.legacy.readers import premade, vocabularies

pytestmark = pytest.mark.once("no Keras", for_all_keras=True)
SECONDS = 3.0
SLASHES = "a/" * 30_000


def weight(path="", name="", shape=(1,)):
    """Return a weight that is never read."""
    return LegacyWeight(path, name, shape, np.dtype("float32"), lambda: np.zeros(shape))


def classes_in_an_archive():
    layers = [{"class_name": f"C{n}", "config": {}} for n in range(10_000)]
    found = configs.stored([f"c{n}_1" for n in range(10_000)], layers)
    assert found["c7_1"] is layers[7]


def dtypes_by_path():
    paths = {f"{SLASHES}{n}": "float16" for n in range(100)}
    assert policies.by_model(paths, ["a", "b"]) == {"a": ["float16"] * 100, "b": []}


def vocabularies_by_path():
    paths = {f"{SLASHES}{n}": {} for n in range(100)}
    weights = {"a": (weight("b"),), "": ()}
    learned, left = vocabularies.take({}, weights, paths)
    assert len(learned) == 100
    assert left == weights


def kernels_of_a_linear_model():
    shapes = {f"x{n}": [None, 1] for n in range(5_000)}
    config = {"name": "m", "units": 1, "use_bias": True}
    model = {"class_name": "LinearModel", "module": "keras.premade_models"}
    model |= {"config": config, "build_config": {"input_shape": shapes}}
    weights = [weight(f"layers/dense_{n}/vars/0") for n in range(1, 5_000)]
    written = {"": (weight("vars/0"), weight("layers/dense/vars/0"), *weights)}
    _, by_layer = premade.listed(model, written)
    assert [each.path for each in by_layer["dense_4999"]] == ["vars/1", "vars/0"]


def constants_in_calls():
    constants = [["_CONSTANT_VALUE", -1, 1.0, {}] for _ in range(3_900)]
    nodes = [[["x", 0, 0, {}], *constants] for _ in range(2)]
    first = {"class_name": "InputLayer", "name": "x", "config": {"name": "x"}}
    second = {"class_name": "Add", "name": "y", "config": {"name": "y"}}
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["y", 0, 0]]}
    layers = [{**first, "inbound_nodes": []}, {**second, "inbound_nodes": nodes}]
    found = graph.functional_graph({"layers": layers, **ends}, [first, second])
    names = {layer["name"] for layer in found["layers"]}
    assert len(names) == 2 + 2 * 3_900


def normalizations_of_inputs():
    layers, weights = [], {}
    for n in range(3_000):
        shape = {"name": f"x{n}", "batch_input_shape": [None, None]}
        layers.append({"class_name": "InputLayer", "name": f"x{n}", "config": shape})
        own = {"name": f"n{n}", "axis": [-1], "batch_input_shape": [None, None]}
        node = {"inbound_nodes": [[[f"x{n}", 0, 0, {}]]]}
        named = {"class_name": "Normalization", "name": f"n{n}", "config": own}
        layers.append({**named, **node})
        weights[f"n{n}"] = (weight(name=f"n{n}/mean", shape=(7,)),)
    outputs = [[f"n{n}", 0, 0] for n in range(3_000)]
    config = {"layers": layers, "input_layers": [], "output_layers": outputs}
    sized = input_sizes.with_sizes({"class_name": "Model", "config": config}, weights)
    last = sized["config"]["layers"][-2]
    assert last["config"]["batch_input_shape"] == [None, 7]


@pytest.mark.parametrize(
    "loop",
    [
        *(classes_in_an_archive, dtypes_by_path, vocabularies_by_path),
        *(kernels_of_a_linear_model, constants_in_calls, normalizations_of_inputs),
    ],
)
def test_a_loop_over_what_a_file_says_is_linear(loop):
    start = time.process_time()
    loop()
    assert time.process_time() - start < SECONDS
