"""`preprocess_input` of the networks in `tf.keras.applications`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_policies.legacy.ops.converters import Layout, Value
from keras_policies.legacy.ops.registry import op
from keras_policies.legacy.values.evaluator import dtype_of, ops

LAST = "channels_last"
# `mode` -> the mean and the scale of the channels, and the networks that have it.
# Source: keras/applications/imagenet_utils.py of 2.15, `_preprocess_symbolic_input`.
MODES: dict[str, tuple[list[float], list[float], str]] = {
    "tf": (
        [127.5],
        [127.5],
        "inception_resnet_v2 inception_v3 mobilenet mobilenet_v2 nasnet resnet_v2 "
        "xception",
    ),
    "caffe": ([103.939, 116.779, 123.68], [1.0], "resnet resnet50 vgg16 vgg19"),
    "torch": ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375], "densenet"),
    "": ([], [], "convnext efficientnet efficientnet_v2 mobilenet_v3 regnet"),
}


@op("keras.applications.imagenet_utils.preprocess_input")
def preprocess_input(
    x: Value, data_format: Layout = LAST, mode: str = "caffe"
) -> Value:
    """Scale images as the weights of a network need them."""
    if data_format != LAST:
        raise ValueError(f"data_format: expected {LAST!r}")
    if not mode:
        return x
    if "float" not in dtype_of(x):
        raise ValueError(f"x: {dtype_of(x)}, expected floating-point numbers")
    mean, scale, _ = MODES[mode]
    x = ops.flip(x, -1) if mode == "caffe" else x  # from RGB to BGR
    mean, scale = (ops.cast(np.array(each), dtype_of(x)) for each in (mean, scale))
    return ops.divide(ops.subtract(x, mean), scale)


def _preprocessing(mode: str) -> Callable[..., Any]:
    def preprocess(x: Value, data_format: Layout = LAST) -> Value:
        return preprocess_input(x, data_format, mode)

    return preprocess


for _mode, (_, _, _networks) in MODES.items():
    for _name in _networks.split():
        op(f"keras.applications.{_name}.preprocess_input")(_preprocessing(_mode))
