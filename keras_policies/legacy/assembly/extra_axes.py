"""Convolutions with several batch axes: a Conv1D of images convolves each row.

tf.keras accepted such inputs from 2.3 on; Keras 3 needs TimeDistributed. Configs do not
record the rank of a layer's input, so the model is built once to find it out.
"""

import functools
from typing import Any

import keras

from keras_policies._common.types import Config
from keras_policies.legacy.assembly.makers import Make
from keras_policies.legacy.base.configs import keras_object

OF_WRAPPER = "name", "dtype", "activity_regularizer"
KINDS = "Conv1D", "Conv2D", "Conv3D"
# The id of a layer's config -> the number of extra axes of its input.
Axes = dict[int, int]


def _made(
    cls: type[keras.Layer], key: int, extra_axes: Axes, config: Config
) -> keras.Layer:
    """Return a convolution that records the extra axes of its input in `extra_axes`.

    With extra axes, it can be built but not run.
    """
    layer = cls.from_config(config)
    build, output_shape = layer.build, layer.compute_output_shape

    def build_without(input_shape: Any) -> None:
        extra = len(input_shape) - layer.rank - 2
        if extra <= 0:
            layer.build = build
            build(input_shape)
            return
        extra_axes[key] = extra
        end = extra + 1
        build((None, *input_shape[end:]))
        layer.compute_output_shape = lambda shape: (
            *shape[:end],
            *output_shape((None, *shape[end:]))[1:],
        )

    layer.build = build_without
    return layer


def maker(config: Config, extra_axes: Axes) -> Make | None:
    """Return the maker of a convolution by its config, or None for other layers."""
    name = config.get("class_name")
    if config.get("module") != "keras.layers" or name not in KINDS:
        return None
    cls = getattr(keras.layers, str(name))
    return functools.partial(_made, cls, id(config), extra_axes)


def with_wrappers(value: Any, extra_axes: Axes) -> Any:
    """Return a config with a TimeDistributed for each extra axis of a layer.

    The wrapper has the name of the layer, so that the graph calls it.
    """
    if isinstance(value, list | tuple):
        return [with_wrappers(item, extra_axes) for item in value]
    if not isinstance(value, dict):
        return value
    layer = {key: with_wrappers(item, extra_axes) for key, item in value.items()}
    for _ in range(extra_axes.get(id(value), 0)):
        wrapper_config = {name: layer["config"].get(name) for name in OF_WRAPPER}
        layer["config"].pop("activity_regularizer", None)  # the wrapper has it
        inner = {key: layer[key] for key in keras_object(None, "", {})}
        wrapper = keras_object(
            "keras.layers", "TimeDistributed", {**wrapper_config, "layer": inner}
        )
        layer = {**layer, **wrapper}
    return layer
