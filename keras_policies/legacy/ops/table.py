"""All TensorFlow functions that have a counterpart, under all of their names."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies.legacy.ops import (  # noqa: F401 (each registers its functions)
    array_indexing,
    array_shapes,
    array_values,
    gradients,
    helper_ops,
    image,
    image_boxes,
    image_resize,
    keras_applications,
    keras_backend,
    linalg,
    math_elementwise,
    math_reductions,
    nn,
    nn_convolutions,
    random,
    signal,
)
from keras_policies.legacy.ops.registry import FUNCTIONS as FUNCTIONS
from keras_policies.legacy.ops.registry import NODES as NODES


def call(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """Call a TensorFlow function by name; see `Op.call`."""
    if name not in FUNCTIONS:
        raise ValueError(f"tf.{name} has no counterpart in keras.ops")
    return FUNCTIONS[name].call(args, kwargs)
