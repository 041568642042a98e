"""Casts whole numbers before layers that tf.keras called on floating-point numbers.

Keras 3 computes with the whole numbers: normalizations give 0 and 1, and Resizing
rounds. The cast is a node of the model's graph, so a converted file has it.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.plan.arguments import OF_FLOATS


class Maker(NamedTuple):
    """Makes a layer that is called on floating-point numbers."""

    cls: type[keras.Layer]

    def from_config(self, config: Config) -> keras.Operation:
        """Return what calls the layer; Keras calls this."""
        return _Call(self.cls.from_config(config))


class _Call(keras_internals.LayerCall):
    """Calls a layer in a graph, on whole numbers as on floating-point numbers."""

    def __init__(self, layer: keras.Layer) -> None:
        super().__init__(name=layer.name)
        self.layer = layer

    def __call__(self, inputs: Tensor, **kwargs: Any) -> Any:
        """Call the layer."""
        if not keras.backend.is_float_dtype(inputs.dtype):
            inputs = ops.cast(inputs, self.layer.compute_dtype)
        return self.noted(self.layer(inputs, **kwargs))


def maker(config: Config) -> Maker | None:
    """Return the maker of a layer by its config, None if it needs none."""
    name, is_in_graph = config.get("class_name"), "inbound_nodes" in config
    is_stock = config.get("module") == "keras.layers" and name in OF_FLOATS
    return Maker(getattr(keras.layers, str(name))) if is_stock and is_in_graph else None
