"""Fine-tuned models of keras.applications, by write_frozen_applications.py."""

import json

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "frozen_applications.tar.xz"
MODELS = [
    "2.15.1/MobileNetV2",
    "2.15.1/EfficientNetB0",
    "2.15.1/ResNet50",
    "2.4.4/MobileNetV2",
    "2.4.4/EfficientNetB0",
]
OLD_NAMES = {"depthwise_kernel": "kernel"}
pytestmark = [
    pytest.mark.once("no backend matters here"),
    pytest.mark.slow("up to 270 layers"),
    pytest.mark.filterwarnings("ignore:.*it trains differently"),  # weights alone
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    unpacked = tmp_path_factory.mktemp("frozen_applications")
    return legacy_files.unpacked(unpacked, [ARCHIVE])


def wrong(model, expected):
    """Return the weights that do not have their values in all places."""
    base = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    layers = {layer.name: layer for layer in (*base.layers, model.layers[-1])}
    found = {
        f"{name}/{variable.name}": keras.ops.convert_to_numpy(variable)
        for name, layer in layers.items()
        for variable in layer.variables
    }
    names = {old: old for old in expected} | {
        f"{layer}/{kind}": f"{layer}/{OLD_NAMES[kind]}"
        for layer, _, kind in (old.rpartition("/") for old in expected)
        if kind in OLD_NAMES
    }
    return [
        old
        for old, value in expected.items()
        if names[old] not in found or not np.all(found[names[old]] == value)
    ]


def opened(case):
    expected = json.loads((case / "expected.json").read_text("utf8"))
    return keras_policies.load_model(case / "model.h5", compile=False), expected


@pytest.mark.parametrize("name", MODELS)
def test_each_weight_of_a_fine_tuned_application_is_where_it_was(name, folder):
    assert wrong(*opened(folder / name)) == []


@pytest.mark.parametrize("release", ["2.15.1", "2.4.4"])
def test_its_names_say_which_layers_were_frozen(release, folder):
    case = folder / release / "MobileNetV2"
    model, expected = opened(case)
    for variable in model.variables:
        variable.assign(keras.ops.zeros_like(variable.value))
    # On TensorFlow, Keras ignores a flag that is equal to the model's own.
    model.trainable = False
    model.trainable = True
    keras_policies.load_weights(model, case / "weights.h5")
    assert wrong(model, expected) == []
