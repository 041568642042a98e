"""Reads the arguments and results of a function: nests of tensors and plain values.

Source: tensorflow/core/protobuf/struct.proto.
"""

from typing import Any

from keras_policies.legacy.base.recorded import Composite, Nest, Spec
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.functions import dtype_name, shape


class StructureReader:
    """Reads nests; `values` counts what is in them."""

    def __init__(self, values: Limit) -> None:
        self._values = values

    def read(self, data: bytes) -> Nest:
        """Return the nest in an encoded `StructuredValue`."""
        return self._value(protos.parse("StructuredValue", data))

    def _value(self, value: Message) -> Nest:
        self._values.spend()
        for field, held in value.ListFields():
            return self._held(field.name, held)
        return None

    def _held(self, kind: str, held: Any) -> Nest:
        """Return the value in the field `kind` of a `StructuredValue`."""
        match kind:
            case "list_value":
                return [self._value(item) for item in held.values]
            case "tuple_value":
                return tuple(self._value(item) for item in held.values)
            case "named_tuple_value":
                return tuple(self._value(item.value) for item in held.values)
            case "dict_value":
                return {item.key: self._value(item.value) for item in held.fields}
            case "tensor_spec_value" | "bounded_tensor_spec_value":
                return Spec(shape(held.shape), dtype_name(held.dtype), held.name)
            case "type_spec_value":
                return Composite(held.type_spec_class_name)
            case "tensor_shape_value":
                return shape(held)
            case "tensor_dtype_value":
                return dtype_name(held)
            case "none_value":
                return None
        return held
