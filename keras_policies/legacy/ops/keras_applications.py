"""`preprocess_input` of the networks in `tf.keras.applications`.

Source: keras/applications/imagenet_utils.py of 2.15, `_preprocess_symbolic_input`; 2.4
computes the same.
"""

from collections.abc import Sequence

import numpy as np

from keras_policies.legacy.ops.converters import LAST, Layout, Value
from keras_policies.legacy.ops.registry import op
from keras_policies.legacy.values.evaluator import dtype_of, ops

MEAN_OF_RGB = 123.675, 116.28, 103.53
DEVIATION_OF_RGB = 58.395, 57.12, 57.375
MEAN_OF_BGR = 103.939, 116.779, 123.68


def _of(*networks: str) -> str:
    """Return the names of a function that some networks have."""
    return " ".join(f"keras.applications.{x}.preprocess_input" for x in networks)


def _checked(x: Value, data_format: str) -> Value:
    """Return images; raise ValueError if TensorFlow would scale them otherwise."""
    if data_format != LAST:
        raise ValueError(f"data_format: {data_format!r}, expected {LAST!r}")
    if "float" not in dtype_of(x):
        raise ValueError(f"x: {dtype_of(x)}, expected floating-point numbers")
    return x


def _scaled(x: Value, mean: Sequence[float], deviation: Sequence[float]) -> Value:
    center, scale = (ops.cast(np.array(y), dtype_of(x)) for y in (mean, deviation))
    return ops.divide(ops.subtract(x, center), scale)


@op(
    _of(
        *("inception_resnet_v2", "inception_v3", "mobilenet", "mobilenet_v2"),
        *("nasnet", "resnet_v2", "xception"),
    )
)
def from_minus_one_to_one(x: Value, data_format: Layout = LAST) -> Value:
    """Scale numbers from 0 to 255 to -1 to 1."""
    return _scaled(_checked(x, data_format), [127.5], [127.5])


@op(_of("resnet", "resnet50", "vgg16", "vgg19"))
def centered_bgr(x: Value, data_format: Layout = LAST) -> Value:
    """Turn RGB into BGR, and subtract ImageNet's mean."""
    return _scaled(ops.flip(_checked(x, data_format), -1), MEAN_OF_BGR, [1.0])


@op(_of("densenet"))
def standardized(x: Value, data_format: Layout = LAST) -> Value:
    """Subtract ImageNet's mean, and divide by its standard deviation."""
    return _scaled(_checked(x, data_format), MEAN_OF_RGB, DEVIATION_OF_RGB)


@op(_of("convnext", "efficientnet", "efficientnet_v2", "mobilenet_v3", "regnet"))
def unchanged(x: Value, data_format: Layout = LAST) -> Value:
    """Return images as they are: these networks scale them inside."""
    return x


MODES = {"caffe": centered_bgr, "tf": from_minus_one_to_one, "torch": standardized}


@op("keras.applications.imagenet_utils.preprocess_input")
def preprocess_input(
    x: Value, data_format: Layout = LAST, mode: str = "caffe"
) -> Value:
    """Scale images as the weights of a network need them."""
    if mode not in MODES:
        raise ValueError(f"mode: {mode!r}, expected one of {[*MODES]}")
    return MODES[mode](x, data_format)
