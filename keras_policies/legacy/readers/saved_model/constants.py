"""Reads the tensors inside a graph: its constants, and attributes of its nodes.

Source: tensorflow/core/framework/tensor.cc, `Tensor::FromProto`.
"""

import math
from typing import Any

import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.readers.checkpoint.checkpoint import DTYPES, STRING
from keras_policies.legacy.readers.checkpoint.protos import Message

LISTED_BYTES = 32  # of memory that each string or number in a list takes
# Field of a message `Tensor` -> the dtypes whose values are in it, one for each element
# but for complex numbers.
FIELDS = {
    "bool_val": "bool",
    "dcomplex_val": "complex128",
    "double_val": "float64",
    "float_val": "float32",
    "half_val": "float16 bfloat16",
    "int64_val": "int64",
    "int_val": "int8 int16 int32 uint8 uint16",
    "scomplex_val": "complex64",
    "string_val": "object",
    "uint32_val": "uint32",
    "uint64_val": "uint64",
}
FIELD_OF = {name: field for field, names in FIELDS.items() for name in names.split()}


def read(name: str, tensor: Message) -> Array:
    """Return the constant `name` as an array, strings as objects; it may be read-only.

    If the message `Tensor` has no raw bytes, those of the array are charged.
    """
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        reason = f"{name}: corrupt: a constant of the unknown type {tensor.dtype}."
        raise LegacyModelError(reason)
    found, count = _stored(tensor, dtype), math.prod(shape)
    if min(shape, default=0) >= 0 and len(shape) <= limits.CONSTANT_AXES:
        if len(found) == count:
            return found.reshape(shape)
        is_scalar = len(found) <= 1
        repeats = not tensor.tensor_content and (is_scalar or tensor.dtype != STRING)
        if repeats and len(found) < count:
            budget.spend(count, dtype.itemsize)
            if not len(found):  # TensorFlow takes the default of the type
                found = np.array([b""] if tensor.dtype == STRING else [0]).astype(dtype)
            return np.pad(found, (0, count - len(found)), "edge").reshape(shape)
    reason = (
        f"corrupt: {len(found)} values for the shape {shape[: limits.CONSTANT_AXES]}."
    )
    raise LegacyModelError(f"{name}: {reason}")


def _stored(tensor: Message, dtype: np.dtype[Any]) -> Array:
    """Return the values that a message holds, as a flat array."""
    if tensor.tensor_content and tensor.dtype != STRING:
        data = tensor.tensor_content
        if len(data) % dtype.itemsize:
            return np.empty(0, dtype)
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    values = getattr(tensor, FIELD_OF[dtype.name])
    budget.spend(len(values), LISTED_BYTES)
    if tensor.dtype == STRING:
        strings = np.empty(len(values), object)
        strings[:] = list(values)
        return strings
    if dtype.name in FIELDS["half_val"]:
        return np.array(values, "int64").astype("uint16").view(dtype)
    if dtype.kind == "c":
        pairs = np.array(values[: len(values) // 2 * 2], f"f{dtype.itemsize // 2}")
        return pairs.view(dtype)
    wide = "int64" if dtype.kind in "iu" and dtype.itemsize < 8 else dtype
    return np.array(values, wide).astype(dtype)
