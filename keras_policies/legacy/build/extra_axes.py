"""Convolutions with several batch axes: a Conv1D of images takes each row by itself.

tf.keras took such inputs from 2.3 on; Keras 3 refuses them, and has TimeDistributed. A
config does not say the rank of a layer's input, so the model is built once to see it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_policies.annotations import Config
from keras_policies.legacy.base.configs import keras_object

KINDS = "Conv1D", "Conv2D", "Conv3D"
# The id of a layer's config -> how many axes its input has too many.
Found = dict[int, int]


class Maker(NamedTuple):
    """Makes a convolution that notes the extra axes of its input in `found`."""

    cls: type[keras.Layer]
    key: int
    found: Found

    def from_config(self, config: Config) -> keras.Layer:
        """Return the layer; with extra axes it can be built, but not be run."""
        made = self.cls.from_config(config)
        build, output_shape = made.build, made.compute_output_shape

        def build_without(input_shape: Any) -> None:
            extra = len(input_shape) - made.rank - 2
            if extra <= 0:
                made.build = build
                build(input_shape)
                return
            self.found[self.key] = extra
            build((None, *input_shape[extra + 1 :]))
            made.compute_output_shape = _around(output_shape, extra)

        made.build = build_without
        return made


def _around(output_shape: Callable[..., Any], extra: int) -> Callable[..., Any]:
    """Return `compute_output_shape` of a layer for inputs with extra axes."""

    def compute_output_shape(input_shape: Any) -> Any:
        end = extra + 1
        return (*input_shape[:end], *output_shape((None, *input_shape[end:]))[1:])

    return compute_output_shape


def maker(config: Config, found: Found) -> Maker | None:
    """Return the maker of a convolution by its config, None for any other."""
    name = config.get("class_name")
    if config.get("module") != "keras.layers" or name not in KINDS:
        return None
    return Maker(getattr(keras.layers, str(name)), id(config), found)


def with_wrappers(value: Any, found: Found) -> Any:
    """Return a config with a TimeDistributed for each extra axis of a layer.

    It takes the name of the layer, and the graph calls it in place of the layer.
    """
    if isinstance(value, list | tuple):
        return [with_wrappers(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    layer = {key: with_wrappers(item, found) for key, item in value.items()}
    for _ in range(found.get(id(value), 0)):
        own = {name: layer["config"].get(name) for name in ("name", "dtype")}
        inner = {key: layer[key] for key in keras_object(None, "", {})}
        wrapper = keras_object(
            "keras.layers", "TimeDistributed", {**own, "layer": inner}
        )
        layer = {**layer, **wrapper}
    return layer
