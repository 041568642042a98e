"""How a layer is built for its inputs, and the dtype that those have."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import backend, ops, tree
from keras.src.layers import layer as layer_module

from keras_policies.keras_internals.places import INFER, needs


def first_dtype(structure: Any) -> str | None:
    """Return the dtype name of the first tensor in a nested structure, or None.

    Any object with `__array__` counts, with the dtype that Keras converts it to.
    """
    for x in tree.flatten(structure):
        if ops.is_tensor(x) or backend.is_keras_tensor(x):
            return str(backend.standardize_dtype(x.dtype))
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSTU":
            return "string"
        if hasattr(x, "__array__"):
            return str(backend.standardize_dtype(ops.convert_to_tensor(x).dtype))
    return None


@needs(INFER)
def build_for(
    layer: keras.Layer, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Build `layer` for a call on `args` and `kwargs`, as the call itself would.

    Keras: src/layers/layer.py, `Layer.__call__`, steps 1 to 4.
    """

    def convert(x: Any) -> Any:
        return layer.dtype_policy.convert_input(x, False, None)

    kwargs = dict(kwargs)
    if layer._convert_input_args:
        args, kwargs = tree.map_structure(convert, (args, kwargs))
    context = [layer._call_context_args] if hasattr(layer, "_call_context_args") else []
    spec = layer_module.CallSpec(layer._call_signature, *context, args, kwargs)
    with layer._open_name_scope():
        layer._maybe_build(spec)
