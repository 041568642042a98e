"""Lets layers over time hand on the mask of their input, as they did in tf.keras.

From Keras 3.16 on they end it (keras#23235), so the next layer computes with padding.
"""

from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies.annotations import Config

KINDS = keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed


class Maker(NamedTuple):
    """Takes the place of a stock class while Keras makes a layer from a config."""

    cls: type[keras.Layer]

    def from_config(self, config: Config) -> keras.Layer:
        """Return the layer; Keras calls this before it calls the layer."""
        made = self.cls.from_config(config)
        for layer in keras_internals.sublayers(made):
            if isinstance(layer, KINDS):
                layer.supports_masking = True
        return made


def maker(config: Config) -> Maker | None:
    """Return the maker of a layer over time by its config, None for any other."""
    if config.get("module") != "keras.layers":
        return None
    cls = getattr(keras.layers, str(config.get("class_name")), None)
    return Maker(cls) if isinstance(cls, type) and issubclass(cls, KINDS) else None
