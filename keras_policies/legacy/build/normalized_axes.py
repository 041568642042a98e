"""Refuses a LayerNormalization whose axes Keras mistakes for others.

On torch, Keras 3.15 normalizes the last axes in place of `axis=1`, without a word where
the sizes are equal: `ops.layer_normalization` tells torch the sizes alone.
"""

import functools
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies.annotations import Config
from keras_policies.legacy.base.errors import LegacyModelError, located

MOST_AXES = 8


class Maker(NamedTuple):
    """Takes the place of LayerNormalization while Keras makes one from a config."""

    cls: type[keras.Layer]

    def from_config(self, config: Config) -> keras.Layer:
        """Return the layer, which looks at its axes when it is built."""
        made = self.cls.from_config(config)
        stock = made.build

        def build(input_shape: Any) -> None:
            made.build = stock
            stock(input_shape)
            _check(made, len(input_shape))

        made.build = build
        return made


def maker(config: Config) -> Maker | None:
    """Return the maker of a layer normalization by its config, None for any other."""
    name = "LayerNormalization"
    is_stock = config.get("module") == "keras.layers"
    is_one = is_stock and config.get("class_name") == name
    return Maker(keras.layers.LayerNormalization) if is_one else None


def _check(layer: keras.Layer, rank: int) -> None:
    axes = sorted(axis % rank for axis in np.atleast_1d(layer.axis).tolist())
    if axes == [*range(rank - len(axes), rank)] or _is_right(tuple(axes), rank):
        return
    with located(layer=layer.name):
        raise LegacyModelError(
            f"it normalizes the axes {axes} of {rank}; with {keras.backend.backend()}, "
            f"Keras {keras.__version__} would normalize the last instead.",
            "Set KERAS_BACKEND=jax or tensorflow.",
        )


@functools.cache
def _is_right(axes: tuple[int, ...], rank: int) -> bool:
    """Return whether Keras normalizes the axes that it is told."""
    x = np.random.default_rng(0).standard_normal((2,) * min(rank, MOST_AXES))
    if x.ndim < rank:
        return False
    layer = keras.layers.LayerNormalization(axis=[*axes], epsilon=1e-3, dtype="float32")
    found = keras.ops.convert_to_numpy(layer(x.astype("float32")))
    centered = x - x.mean(axes, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-3)
    return np.allclose(found, wanted, atol=1e-3)
