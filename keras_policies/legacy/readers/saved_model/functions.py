"""Reads the functions of a graph: their nodes, arguments, results and constants.

Sources: tensorflow/core/framework/{function, node_def, attr_value}.proto,
tensorflow/core/framework/tensor.cc, `Tensor::FromProto`,
tensorflow/core/protobuf/struct.proto.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import (
    Composite,
    Function,
    Nest,
    Node,
    Output,
    TensorSpec,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.checkpoint import DTYPES, STRING
from keras_policies.legacy.readers.checkpoint.protos import Message

LISTED_BYTES = 32  # memory of a string or number in a list
# Field of a message `Tensor` -> the dtypes of its values. Complex numbers take two.
FIELDS = {
    "bool_val": ("bool",),
    "dcomplex_val": ("complex128",),
    "double_val": ("float64",),
    "float_val": ("float32",),
    "half_val": ("float16", "bfloat16"),
    "int64_val": ("int64",),
    "int_val": ("int8", "int16", "int32", "uint8", "uint16"),
    "scomplex_val": ("complex64",),
    "string_val": ("object",),
    "uint32_val": ("uint32",),
    "uint64_val": ("uint64",),
}
FIELD_OF = {name: field for field, names in FIELDS.items() for name in names}
CONTROL = "^"
HIDDEN = "_"  # begins the names of TensorFlow's internal attributes
READS = "ReadVariableOp", "ResourceGather", "ResourceGatherNd"
# Op -> the op that computes the new value from the old one and the operand, if any.
ASSIGNED = {
    **{"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"},
    "AssignVariableOp": None,
}
OUTPUT_SHAPES = "_output_shapes"
OWN_GRADIENT = "_gradient_op_type"
DTYPE_NAMES: dict[int, str] = {number: dtype.name for number, dtype in DTYPES.items()}
DTYPE_NAMES |= {STRING: "string", 20: "resource", 21: "variant"}


def constant(name: str, tensor: Message) -> Array:
    """Return the constant `name` as an array, maybe read-only; strings are objects.

    The array's memory is charged if the message `Tensor` does not contain its bytes.
    """
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        reason = f"{name}: corrupt: a constant of the unknown type {tensor.dtype}."
        raise LegacyModelError(reason)
    values, count = _stored(tensor, dtype), math.prod(shape)
    if min(shape, default=0) >= 0 and len(shape) <= limits.CONSTANT_AXES:
        if len(values) == count:
            return values.reshape(shape)
        is_scalar = len(values) <= 1
        repeats = not tensor.tensor_content and (is_scalar or tensor.dtype != STRING)
        if repeats and len(values) < count:
            budget.spend(count, dtype.itemsize)
            if not len(values):  # as in TensorFlow, the default of the type
                default = b"" if tensor.dtype == STRING else 0
                values = np.array([default]).astype(dtype)
            return np.pad(values, (0, count - len(values)), "edge").reshape(shape)
    cut = shape[: limits.CONSTANT_AXES]
    reason = f"{name}: corrupt: {len(values)} values for the shape {cut}."
    raise LegacyModelError(reason)


def _stored(tensor: Message, dtype: np.dtype[Any]) -> Array:
    """Return the values in a message as a flat array."""
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


def dtype_name(number: int) -> str:
    """Return the name of a `DataType`, such as `"float32"` or `"resource"`."""
    return DTYPE_NAMES.get(number, f"type {number}")


def shape(message: Message) -> tuple[int | None, ...] | None:
    """Return a shape with None for unknown sizes, or None for an unknown rank."""
    if message.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in message.dim)


def specs(tensors: Iterable[Message]) -> dict[str, TensorSpec]:
    """Return the specs of messages `NamedTensor`, sorted by name."""
    named = {str(tensor.key): tensor.value for tensor in tensors}
    infos = ((name, named[name]) for name in sorted(named))
    return {
        name: TensorSpec(shape(info.tensor_shape), dtype_name(info.dtype), name)
        for name, info in infos
    }


class FunctionReader:
    """Reads functions, and the structures of their arguments and results.

    `values` limits the number of nodes and structures, and of the values in them.
    """

    def __init__(self, values: Limit) -> None:
        self._values = values

    def function(self, parsed: Message) -> Function:
        """Return the `Function` in a message `FunctionDef`."""
        signature = parsed.signature
        arguments = tuple(argument.name for argument in signature.input_arg)
        results = [result.name for result in signature.output_arg]
        self._values.spend(len(arguments) + len(results) + len(parsed.node_def))
        names = {node.name for node in parsed.node_def} | {*arguments}
        if len(names) != len(parsed.node_def) + len(arguments):
            raise LegacyModelError(f"{signature.name}: corrupt: two nodes of one name.")
        output = functools.partial(_output, names=names)
        nodes = {node.name: self.node(node, output) for node in parsed.node_def}
        controls = {
            node.name: [x[1:] for x in node.input if x.startswith(CONTROL)]
            for node in parsed.node_def
        }
        nodes |= self._assigned(nodes, controls)
        returned = {item.key: item.value for item in parsed.ret}
        outputs = (_output(returned.get(name, ""), names) for name in results)
        return Function(signature.name, arguments, nodes, tuple(outputs))

    def node(self, node: Message, output: Callable[[str], Output]) -> Node:
        """Return the `Node` in a message; `output` parses the name of an input."""
        self._values.spend(len(node.input) + len(node.attr))
        inputs = (text for text in node.input if not text.startswith(CONTROL))
        attributes = {
            attr.key: self._value(f"{node.name}: {attr.key}", attr.value)
            for attr in node.attr
            if not attr.key.startswith(HIDDEN)
        }
        hidden = {a.key: a.value for a in node.attr if a.key.startswith(HIDDEN)}
        shapes = hidden[OUTPUT_SHAPES].list.shape if OUTPUT_SHAPES in hidden else []
        return Node(
            node.name,
            node.op,
            tuple(map(output, inputs)),
            attributes,
            hidden[OWN_GRADIENT].s.decode() if OWN_GRADIENT in hidden else "",
            shape(shapes[0]) if len(shapes) == 1 else None,
        )

    def _assigned(
        self, nodes: Mapping[str, Node], controls: Mapping[str, Sequence[str]]
    ) -> dict[str, Node]:
        """Return the nodes that replace reads of variables after an assignment.

        A read with the assignment as a control input returns the new value. A pruned
        layer multiplies its kernel by a mask in this way in each call.
        """
        found: dict[str, Node] = {}
        reads = [(n, controls[n.name]) for n in nodes.values() if n.op in READS]
        while reads:
            read, before = reads.pop()
            self._values.spend(len(before))
            budget.work(budget.ASSIGNMENT)  # one may wait for itself
            waits_for = (nodes[name] for name in before if name in nodes)
            of_same = (n for n in waits_for if n.inputs[:1] == read.inputs[:1])
            assignment = next((n for n in of_same if n.op in ASSIGNED), None)
            if assignment is None or len(assignment.inputs) != 2:
                continue
            name, (_, value) = f"{assignment.name}/{len(found)}", assignment.inputs
            found[name] = Node(name, READS[0], read.inputs[:1], {})
            reads.append((found[name], controls[assignment.name]))
            old = Output(name, "value", 0)
            if (op := ASSIGNED[assignment.op]) is not None:
                found[f"{name}/{op}"] = Node(f"{name}/{op}", op, (old, value), {})
                value = Output(f"{name}/{op}", "z", 0)
            new = Node(f"{name}/new", "_Assigned", (old, value), {})
            found[new.name] = new
            inputs = Output(new.name, "", 0), *read.inputs[1:]
            op = "Identity" if read.op == READS[0] else read.op
            found[read.name] = dataclasses.replace(read, op=op, inputs=inputs)
        return found

    def _value(self, name: str, value: Message) -> Any:
        """Return the value in an `AttrValue`, or None if there is none."""
        fields = value.ListFields()
        if not fields:
            return None
        field, content = fields[0]
        if field.name != "list":
            return _plain(name, field.name, content)
        lists = content.ListFields()
        self._values.spend(sum(len(items) for _, items in lists))
        return tuple(
            _plain(name, kind.name, item) for kind, items in lists for item in items
        )

    def structure(self, data: bytes) -> Nest:
        """Return the nest in an encoded `StructuredValue`."""
        return self._structure(protos.parse("StructuredValue", data))

    def _structure(self, value: Message) -> Nest:
        self._values.spend()
        fields = value.ListFields()
        if not fields:
            return None
        field, content = fields[0]
        match field.name:
            case "list_value":
                return [self._structure(item) for item in content.values]
            case "tuple_value":
                return tuple(self._structure(item) for item in content.values)
            case "named_tuple_value":
                return tuple(self._structure(item.value) for item in content.values)
            case "dict_value":
                items = content.fields
                return {item.key: self._structure(item.value) for item in items}
            case "tensor_spec_value" | "bounded_tensor_spec_value":
                dtype = dtype_name(content.dtype)
                return TensorSpec(shape(content.shape), dtype, content.name)
            case "type_spec_value":
                return Composite(content.type_spec_class_name)
            case "tensor_shape_value":
                return shape(content)
            case "tensor_dtype_value":
                return dtype_name(content)
            case "none_value":
                return None
        return content


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


# Field of an `AttrValue` -> its converter; the values of other fields are plain.
CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "s": _text,
    "type": dtype_name,
    "shape": shape,
    "func": lambda function: function.name,
}


def _plain(name: str, kind: str, content: Any) -> Any:
    """Convert the content of a field of an `AttrValue` to a plain value."""
    if kind == "tensor":
        return constant(name, content)
    return CONVERTERS[kind](content) if kind in CONVERTERS else content


def _output(text: str, names: Container[str]) -> Output:
    """Parse `"node:output:0"`, or the name of an argument."""
    node, *rest = text.split(":")
    number = rest[1] if len(rest) == 2 else "0"
    if node not in names or len(rest) > 2 or not is_number(number):
        reason = f"corrupt: the input {text!r} of a function's node is not there."
        raise LegacyModelError(reason)
    return Output(node, rest[0] if rest else "", int(number))


def is_number(text: str) -> bool:
    """Return whether a text is a position of an output."""
    return text.isascii() and text.isdecimal() and len(text) < 10
