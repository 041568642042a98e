"""Stock layers without a counterpart in Keras 3, as programs of `keras.ops`.

LocallyConnected1D and 2D become an EinsumDense on what each output is computed from.
Source: keras/layers/locally_connected of Keras 2.15, and `local_conv` of its backend.

    implementation=1    (batch, outputs, window): the window of each output
    implementation=2    (batch, *outputs, *inputs): zeros outside of it

Resizing and UpSampling2D become calls of `tf.image.resize` if the backends of Keras
lack their kernel or have another one of that name.
Source: keras/layers/preprocessing/image_preprocessing.py of Keras 2.15.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config, PolicyLike, Tensor
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.programs import (
    Argument,
    FunctionStep,
    Given,
    Program,
    StepOutput,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import policies
from keras_policies.legacy.values.evaluator import ops


def locally_connected(written: Config, converted: Config) -> Program:
    """Return the program of a layer; `converted` is its config as an EinsumDense."""
    is_first = written.get("data_format") == "channels_first"
    if is_first and "softmax" in str(written.get("activation")):
        raise LegacyModelError(
            "it has the activation softmax over an axis of the image, since it is made "
            "with data_format='channels_first'.",
            "Build the model in code, and call load_weights.",
        )
    called = functools.partial(_called, written, converted, is_first)
    return _program((Given(called), ()))


def _called(written: Config, converted: Config, is_first: bool, x: Tensor) -> Tensor:
    last, filters = len(x.shape) - 1, written["filters"]
    x = ops.moveaxis(x, 1, last) if is_first else x
    axes = zip(x.shape[1:-1], written["kernel_size"], written["strides"], strict=True)
    is_same = written.get("padding") == "same"
    places = [_places(*axis, is_same) for axis in axes]
    outputs = [*map(len, places)]
    budget.spend(math.prod([*outputs, *x.shape[1:-1]]))
    if written.get("implementation") == 2:
        o, i, shape = "rs"[: last - 1], "uv"[: last - 1], outputs
        x = _masked(x, places)
        kernel = f"c{i}f{o}" if is_first else f"{i}c{o}f"
        equation = f"b{o}{i}c,{kernel}"
    else:
        o, equation, shape = "p", "bpk,pkf", [math.prod(outputs)]
        x = _windows(x, places, is_first)
    end = f"f{o}" if is_first else f"{o}f"
    layer = keras.layers.EinsumDense.from_config(
        {
            **converted,
            "equation": f"{equation}->b{end}",
            "output_shape": [filters, *shape] if is_first else [*shape, filters],
            "bias_axes": end if written.get("use_bias") else None,
        }
    )
    sizes = (filters, *outputs) if is_first else (*outputs, filters)
    return ops.reshape(layer(x), (-1, *sizes))


def _places(size: int, window: int, stride: int, is_same: bool) -> Array:
    """Return `(outputs, window)`, where each output looks along an axis."""
    starts = np.arange(0, size if is_same else size - window + 1, stride)
    before = window // 2 if is_same else 0
    return starts[:, np.newaxis] - before + np.arange(window)


def _masked(x: Tensor, places: Sequence[Array]) -> Tensor:
    """Return the image for each output, with zeros outside of its window."""
    sizes = x.shape[1:-1]
    masks = [
        (at[..., np.newaxis] == np.arange(size)).any(1)
        for at, size in zip(places, sizes, strict=True)
    ]
    mask = masks[0] if len(masks) == 1 else np.einsum("ru,sv->rsuv", *masks)
    x = ops.expand_dims(x, tuple(range(1, len(masks) + 1)))
    return ops.multiply(x, mask[..., np.newaxis].astype(x.dtype))


def _windows(x: Tensor, places: Sequence[Array], is_first: bool) -> Tensor:
    """Return the window of each output, in a row."""
    end, channels = 2 * len(places) + 1, x.shape[-1]
    for axis, at in enumerate(places):
        x = ops.take(x, at, axis=2 * axis + 1)
    outputs, window = [*range(1, end, 2)], [*range(2, end, 2)]
    window = [end, *window] if is_first else [*window, end]
    count, size = (math.prod(at.shape[i] for at in places) for i in (0, 1))
    return ops.reshape(
        ops.transpose(x, (0, *outputs, *window)), (-1, count, size * channels)
    )


# The kernels on which all backends agree with TensorFlow.
SHARED_KERNELS = "bilinear", "nearest"


def resizing(name: str, config: Config, policy: PolicyLike | None) -> Program | None:
    """Return what Resizing or UpSampling2D does; None where Keras 3 does the same."""
    method = config.get("interpolation", "nearest")
    dtype = policies.compute_dtype(policy, str(config.get("name")))
    # Whole numbers were truncated; Keras 3 rounds them.
    is_whole = name == "Resizing" and "int" in (dtype or "")
    if method in SHARED_KERNELS and not is_whole:
        return None
    if name == "UpSampling2D":
        layout = config.get("data_format") or "channels_last"
        sizes = np.broadcast_to(config["size"], 2).tolist()
        return _program(("tf.keras.backend.resize_images", (*sizes, layout, method)))
    size = config.get("height"), config.get("width")
    crop = ("tf.image._with_aspect_ratio_of", (size,))
    return _program(
        *[crop] * bool(config.get("crop_to_aspect_ratio")),
        ("tf.image.resize", (size, method)),  # in float32
        ("tf.cast", (dtype or "float32",)),
    )


def _program(*functions: tuple[str | Given, tuple[Any, ...]]) -> Program:
    """Return a program of functions, each of the result of the last one."""
    value: Argument | StepOutput = Argument(0)
    steps = []
    for number, (function, others) in enumerate(functions):
        steps.append(FunctionStep(function, (value, *others)))
        value = StepOutput(number)
    return Program((*steps,), value)
