"""Rows of plan/classes.py and plan/arguments.py, each on the config of one layer.

The configs are written here by hand; those that tf.keras wrote are in test_layers.
"""

import keras
import numpy as np
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.assembly import build
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.plan import plan


def opened(class_name, config):
    """Return the layer that a layer of tf.keras on four numbers becomes."""
    x = {"name": "x", "batch_input_shape": [None, 4]}
    layers = [
        {"class_name": "InputLayer", "config": x},
        {"class_name": class_name, "config": {"name": "one", **config}},
    ]
    legacy = LegacyModel(
        path="model",
        format="H5",
        written_by="Keras 2.4.0",
        config={"class_name": "Sequential", "config": {"name": "m", "layers": layers}},
        records_policies=True,
        weights={},
        training_config=None,
        optimizer=LegacyOptimizerState(),
    )
    return build.build(plan.make(legacy)).model.layers[-1]


X = [-1.0, 0.25, 0.75, 2.0]
# What tf.keras wrote -> the class in Keras 3, and what it did with X.
BECOMES = [
    ("Layer", {}, "Identity", X),
    ("LeakyReLU", {"alpha": 0.5}, "LeakyReLU", [-0.5, 0.25, 0.75, 2.0]),
    ("ThresholdedReLU", {"theta": 0.5}, "ReLU", [0.0, 0.0, 0.75, 2.0]),
    (
        "Reshape",
        {"target_shape": [2, 2], "dynamic": False, "expects_training_arg": True},
        "Reshape",
        [[-1.0, 0.25], [0.75, 2.0]],
    ),
]
# What tf.keras wrote -> what the error says.
REFUSED = [
    (
        "BatchNormalizationV1",
        {"virtual_batch_size": 2},
        "its class is BatchNormalizationV1, made with virtual_batch_size=2, which "
        "Keras 3 cannot do",
    ),
    (
        "SeparableConv1D",
        {"filters": 2, "kernel_size": [2], "padding": "causal"},
        "its class is SeparableConv1D, made with padding='causal'",
    ),
    ("Flatten", {"dynamic": True}, "its class is Flatten, made with dynamic=True"),
    ("RandomHeight", {"factor": 0.5}, "Keras 3 has no random stretching"),
]


@pytest.mark.parametrize(("written", "config", "class_name", "expected"), BECOMES)
def test_a_layer_does_what_it_did(written, config, class_name, expected):
    layer = opened(written, config)
    assert type(layer) is getattr(keras.layers, class_name)
    found = keras.ops.convert_to_numpy(layer(np.array([X], "float32")))
    np.testing.assert_allclose(found, [expected], 1e-6)


@pytest.mark.parametrize(("written", "config", "match"), REFUSED)
def test_a_layer_that_keras_3_does_not_have_is_refused(written, config, match):
    with pytest.raises(LegacyModelError, match=match):
        opened(written, config)


def test_the_class_that_an_error_asks_for_takes_the_place_of_a_layer():
    class Virtual(keras.layers.Layer):
        def __init__(self, virtual_batch_size, **kwargs):
            super().__init__(**kwargs)
            self.virtual_batch_size = virtual_batch_size

    config = {"virtual_batch_size": 2}
    asked_for = r"custom_objects=\{'BatchNormalizationV1': ...\}"
    with pytest.raises(LegacyModelError, match=asked_for):
        opened("BatchNormalizationV1", config)
    with keras.saving.custom_object_scope({"BatchNormalizationV1": Virtual}):
        layer = opened("BatchNormalizationV1", config)
    assert type(layer) is Virtual
    assert layer.virtual_batch_size == 2
