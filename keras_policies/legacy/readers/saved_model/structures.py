"""Reads the arguments and results of a function: nests of tensors and plain values.

Source: tensorflow/core/protobuf/struct.proto.
"""

from collections.abc import Callable
from typing import Any

from keras_policies.legacy.base.recorded import Composite, Nest, Spec
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.functions import dtype_name, shape


def read(data: bytes) -> Nest:
    """Return the nest in an encoded `StructuredValue`."""
    return _value(protos.parse("StructuredValue", data))


def _value(value: Message) -> Nest:
    fields = value.ListFields()
    if not fields:
        return None
    field, held = fields[0]
    return READERS.get(field.name, lambda plain: plain)(held)


def _spec(held: Message) -> Spec:
    return Spec(shape(held.shape), dtype_name(held.dtype), held.name)


# Field of a `StructuredValue` -> what reads it; others hold plain values.
READERS: dict[str, Callable[[Any], Nest]] = {
    "none_value": lambda _: None,
    "tensor_shape_value": shape,
    "tensor_dtype_value": dtype_name,
    "tensor_spec_value": _spec,
    "bounded_tensor_spec_value": _spec,
    "type_spec_value": lambda held: Composite(held.type_spec_class_name),
    "list_value": lambda held: [_value(item) for item in held.values],
    "tuple_value": lambda held: tuple(_value(item) for item in held.values),
    "dict_value": lambda held: {item.key: _value(item.value) for item in held.fields},
    "named_tuple_value": lambda held: tuple(_value(item.value) for item in held.values),
}
