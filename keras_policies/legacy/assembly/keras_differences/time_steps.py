"""Divides the activity regularizers in TimeDistributed by the number of steps.

tf.keras made one batch of all steps, and divided the loss by its size. Keras 3 calls
the wrapped layer for each step: layers inside of it add a loss each time, and the
regularizer of the wrapped layer itself is ignored. In docs/keras-faults.md, this is the
row "activity regularizers".
"""

import functools
from collections.abc import Iterator

import keras

from keras_policies import keras_internals

SCALED = "L1", "L2", "L1L2"
# TensorFlow 2.0 and 2.1 added the losses in a wrapped model once, later releases twice.
IN_MODEL = 2.0


def restore(model: keras.Model, release: tuple[float, float]) -> Iterator[str]:
    """Give layers over time the losses of tf.keras; yield those that get none."""
    for wrapper in reversed(keras_internals.sublayers(model)):  # the innermost first
        if not isinstance(wrapper, keras.layers.TimeDistributed):
            continue
        for layer in keras_internals.sublayers(wrapper)[1:]:
            if layer.activity_regularizer is None:
                continue
            steps = (wrapper.get_build_config() or {}).get("input_shape", (None, None))
            is_in_model = isinstance(wrapper.layer, keras.Model)
            factor = IN_MODEL if is_in_model and release > (2, 1) else 1.0
            regularizer = _scaled(layer.activity_regularizer, factor, steps[1])
            if regularizer is None or not _divides_by_batch():
                yield f"the activity regularizer of {layer.name!r} in {wrapper.name!r}"
                continue
            target = wrapper if layer is wrapper.layer else layer
            target.activity_regularizer = regularizer
            if isinstance(target, keras.layers.ActivityRegularization):
                target.l1, target.l2 = float(regularizer.l1), float(regularizer.l2)


@functools.cache
def _divides_by_batch() -> bool:
    """Return whether Keras divides such losses by the batch size; 3.8 does not."""
    layer = keras.layers.Activation("linear", activity_regularizer="l2")
    layer(keras.ops.ones((2, 1)))
    return float(layer.losses[0]) < float(layer.activity_regularizer.l2) * 1.5


def _scaled(
    regularizer: keras.Regularizer, factor: float, steps: int | None
) -> keras.Regularizer | None:
    """Return a regularizer with a share of the loss, or None if there is none."""
    if type(regularizer).__name__ not in SCALED or not steps:
        return None
    factors = regularizer.get_config().items()
    return type(regularizer).from_config({k: v * factor / steps for k, v in factors})
