"""HDF5 files whose names of layers contradict each other are refused.

tf.keras pairs layers and weights by their order, this package by their names: where two
names are exchanged, one of both would silently be wrong.
"""

import json

import h5py
import keras
import numpy as np
import pytest

from keras_policies import LegacyModelError, load_model, load_weights

pytestmark = pytest.mark.once("refused before a model is built")
KERNELS = {"a": np.eye(3, dtype="f"), "b": np.full((3, 3), 2, "f")}


def dense(name, taken):
    """Return the entry of a Dense in a Functional."""
    config = {"name": name, "units": 3, "activation": "tanh", "use_bias": False}
    nodes = [[[taken, 0, 0, {}]]]
    return {"class_name": "Dense", "name": name, "config": config} | {
        "inbound_nodes": nodes
    }


def functional():
    """Return the config of a Functional: an input, then the layers a and b."""
    shape = {"name": "x", "batch_input_shape": [None, 3], "dtype": "float32"}
    entry = {"class_name": "InputLayer", "name": "x", "config": shape}
    layers = [{**entry, "inbound_nodes": []}, dense("a", "x"), dense("b", "a")]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["b", 0, 0]]}
    return {
        "class_name": "Functional",
        "config": {"name": "m", "layers": layers, **ends},
    }


def sequential():
    """Return the config of a Sequential of the same layers."""
    layers = [
        {"class_name": x["class_name"], "config": x["config"]}
        for x in functional()["config"]["layers"]
    ]
    return {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}


def inside_another():
    """Return the config of a Functional in which that model is called."""
    inner = {**functional(), "name": "m", "inbound_nodes": [[["y", 0, 0, {}]]]}
    entry = functional()["config"]["layers"][0]
    entry = {**entry, "name": "y", "config": {**entry["config"], "name": "y"}}
    ends = {"input_layers": [["y", 0, 0]], "output_layers": [["m", 1, 0]]}
    layers = {"name": "outer", "layers": [entry, inner]}
    return {"class_name": "Functional", "config": layers | ends}


def write(path, config, change=lambda file: None):
    """Write the model of a config, and change the file."""
    listed = [layer["config"]["name"] for layer in config["config"]["layers"]]
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = "2.15.0", "tensorflow"
        file.attrs["model_config"] = json.dumps(config)
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in listed]
        for layer in listed:
            weights = {"m": "ab"}.get(layer, layer if layer in KERNELS else "")
            inner = group.create_group(layer)
            inner.attrs["weight_names"] = [f"{x}/kernel:0".encode() for x in weights]
            for name in weights:
                inner[f"{name}/kernel:0"] = KERNELS[name]
        change(file)
    return path


def exchanged(value):
    """Return a config in which the names in the configs of a and b are exchanged."""
    names = {"a": "b", "b": "a"}
    if isinstance(value, list):
        return [exchanged(item) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: exchanged(item) for key, item in value.items()}
    if copy.get("name") in names and "units" in copy:
        copy["name"] = names[copy["name"]]
    return copy


def of_layers(file):
    file["model_weights"].attrs["layer_names"] = [b"x", b"b", b"a"]


def of_groups(file):
    group = file["model_weights"]
    group.move("a", "c"), group.move("b", "a"), group.move("c", "b")


def twice(file):
    file["model_weights"].attrs["layer_names"] = [b"x", b"a", b"a"]


def a_weight_twice(file):
    names = [b"a/kernel:0", b"a/kernel:0"]
    file["model_weights/a"].attrs["weight_names"] = names


def unchanged(file):
    pass


IN_ORDER = "the config has 'a' where layer_names has 'b'"
OF_CONFIG = "the config of the layer 'a' has the name 'b'"


@pytest.mark.parametrize(
    ("config", "change", "problem"),
    [
        pytest.param(functional(), of_layers, IN_ORDER, id="layer_names"),
        pytest.param(sequential(), of_layers, IN_ORDER, id="layer_names-sequential"),
        pytest.param(
            functional(), of_groups, "the group 'a' has weights of 'b'", id="groups"
        ),
        pytest.param(exchanged(functional()), unchanged, OF_CONFIG, id="configs"),
        pytest.param(
            exchanged(sequential()),
            lambda file: file["model_weights"].attrs.__setitem__(
                "layer_names", [b"x", b"a", b"b"]
            ),
            "the config has 'b' where layer_names has 'a'",
            id="configs-sequential",
        ),
        pytest.param(exchanged(inside_another()), unchanged, OF_CONFIG, id="inside"),
        pytest.param(functional(), twice, "'layer_names' has 'a' twice", id="twice"),
        pytest.param(
            functional(),
            a_weight_twice,
            "'weight_names' has 'a/kernel:0' twice",
            id="w",
        ),
    ],
)
def test_names_that_contradict_each_other_are_refused(
    tmp_path, config, change, problem
):
    path = write(tmp_path / "model.h5", config, change)
    with pytest.raises(LegacyModelError, match=problem):
        load_model(path)


@pytest.mark.parametrize("config", [functional(), sequential(), inside_another()])
def test_names_that_agree_open(tmp_path, config):
    model = load_model(write(tmp_path / "model.h5", config))
    for weight, name in zip(model.get_weights(), "ab", strict=True):
        np.testing.assert_array_equal(weight, KERNELS[name])


def test_the_hint_for_exchanged_names_works(tmp_path):
    path = write(tmp_path / "model.h5", functional(), of_layers)
    with pytest.raises(
        LegacyModelError, match=r"load_weights\(model, .*, by_name=True\)"
    ):
        load_model(path)
    layers = [keras.layers.Dense(3, "tanh", use_bias=False, name=name) for name in "ab"]
    model = keras.Sequential([keras.Input((3,)), *layers])
    load_weights(model, path, by_name=True)
    for weight, name in zip(model.get_weights(), "ab", strict=True):
        np.testing.assert_array_equal(weight, KERNELS[name])
