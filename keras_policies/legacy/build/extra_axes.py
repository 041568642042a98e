"""Convolutions with several batch axes: a Conv1D of images takes each row by itself.

tf.keras took such inputs from 2.3 on; Keras 3 refuses them, and has TimeDistributed. A
config does not say the rank of a layer's input, so the model is built once to see it.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import keras_object
from keras_policies.legacy.build.makers import Maker

OF_WRAPPER = "name", "dtype", "activity_regularizer"
KINDS = "Conv1D", "Conv2D", "Conv3D"
# The id of a layer's config -> how many axes its input has too many.
Axes = dict[int, int]


def _made(
    cls: type[keras.Layer], key: int, extra_axes: Axes, config: Config
) -> keras.Layer:
    """Return a convolution that notes the extra axes of its input in `extra_axes`.

    With extra axes it can be built, but not be run.
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
        build((None, *input_shape[extra + 1 :]))
        layer.compute_output_shape = _around(output_shape, extra)

    layer.build = build_without
    return layer


def _around(output_shape: Callable[..., Any], extra: int) -> Callable[..., Any]:
    """Return `compute_output_shape` of a layer for inputs with extra axes."""

    def compute_output_shape(input_shape: Any) -> Any:
        end = extra + 1
        return (*input_shape[:end], *output_shape((None, *input_shape[end:]))[1:])

    return compute_output_shape


def maker(config: Config, extra_axes: Axes) -> Maker | None:
    """Return the maker of a convolution by its config, None for any other."""
    name = config.get("class_name")
    if config.get("module") != "keras.layers" or name not in KINDS:
        return None
    cls = getattr(keras.layers, str(name))
    return Maker(cls, functools.partial(_made, cls, id(config), extra_axes))


def with_wrappers(value: Any, extra_axes: Axes) -> Any:
    """Return a config with a TimeDistributed for each extra axis of a layer.

    It takes the name of the layer, and the graph calls it in place of the layer.
    """
    if isinstance(value, list | tuple):
        return [with_wrappers(item, extra_axes) for item in value]
    if not isinstance(value, dict):
        return value
    layer = {key: with_wrappers(item, extra_axes) for key, item in value.items()}
    for _ in range(extra_axes.get(id(value), 0)):
        wrapper_config = {name: layer["config"].get(name) for name in OF_WRAPPER}
        layer["config"].pop("activity_regularizer", None)  # the wrapper adds its loss
        inner = {key: layer[key] for key in keras_object(None, "", {})}
        wrapper = keras_object(
            "keras.layers", "TimeDistributed", {**wrapper_config, "layer": inner}
        )
        layer = {**layer, **wrapper}
    return layer
