"""Reads a function of a graph's library.

Sources: tensorflow/core/framework/{function, node_def, attr_value}.proto.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.base.recorded import Function, Node, Output
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint.checkpoint import DTYPES, STRING
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import constants

CONTROL = "^"
HIDDEN = "_"  # attributes of TensorFlow's own, such as _output_shapes
DTYPE_NAMES: dict[int, str] = {number: dtype.name for number, dtype in DTYPES.items()}
DTYPE_NAMES |= {STRING: "string", 20: "resource", 21: "variant"}


def dtype_name(number: int) -> str:
    """Return the name of a `DataType`: `"float32"`, `"string"`, `"resource"`."""
    return DTYPE_NAMES.get(number, f"type {number}")


def shape(message: Message) -> tuple[int | None, ...] | None:
    """Return a shape with None for unknown sizes, or None for an unknown rank."""
    if message.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in message.dim)


class FunctionReader:
    """Reads functions.

    Args:
        values: counts nodes, and what is in them.
    """

    def __init__(self, values: Limit) -> None:
        self._values = values

    def read(self, parsed: Message) -> Function:
        """Return the `Function` in a message `FunctionDef`."""
        signature = parsed.signature
        arguments = tuple(argument.name for argument in signature.input_arg)
        results = [result.name for result in signature.output_arg]
        self._values.spend(len(arguments) + len(results) + len(parsed.node_def))
        names = {node.name for node in parsed.node_def} | {*arguments}
        if len(names) != len(parsed.node_def) + len(arguments):
            raise LegacyModelError(f"{signature.name}: corrupt: two nodes of one name.")
        nodes = {node.name: self._node(node, names) for node in parsed.node_def}
        returned = {item.key: item.value for item in parsed.ret}
        outputs = (_output(returned.get(name, ""), names) for name in results)
        return Function(signature.name, arguments, nodes, tuple(outputs))

    def _node(self, node: Message, names: Container[str]) -> Node:
        self._values.spend(len(node.input) + len(node.attr))
        inputs = (text for text in node.input if not text.startswith(CONTROL))
        attributes = {
            attr.key: self._value(f"{node.name}: {attr.key}", attr.value)
            for attr in node.attr
            if not attr.key.startswith(HIDDEN)
        }
        outputs = tuple(_output(text, names) for text in inputs)
        return Node(node.name, node.op, outputs, attributes)

    def _value(self, name: str, value: Message) -> Any:
        """Return what an `AttrValue` holds, or None if nothing."""
        fields = value.ListFields()
        if not fields:
            return None
        field, held = fields[0]
        if field.name == "list":
            return tuple(
                self._converted(name, kind.name, item)
                for kind, items in held.ListFields()
                for item in self._counted(items)
            )
        return self._converted(name, field.name, held)

    def _counted(self, items: Any) -> Iterable[Any]:
        self._values.spend(len(items))
        return items  # type: ignore[no-any-return]

    def _converted(self, name: str, kind: str, held: Any) -> Any:
        if kind == "tensor":
            return self._tensor(name, held)
        return CONVERTERS[kind](held) if kind in CONVERTERS else held

    def _tensor(self, name: str, held: Message) -> Array:
        return constants.read(name, held)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


# Field of an `AttrValue` -> what makes a plain value of it; others are one already.
CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "s": _text,
    "type": dtype_name,
    "shape": shape,
    "func": lambda function: function.name,
}


def _output(text: str, names: Container[str]) -> Output:
    """Return the `Output` that `"node:output:0"`, or the name of an argument, means."""
    node, *rest = text.split(":")
    number = rest[1] if len(rest) == 2 else "0"
    if node not in names or len(rest) > 2 or not _is_number(number):
        reason = f"corrupt: the input {text!r} of a function's node is not there."
        raise LegacyModelError(reason)
    return Output(node, rest[0] if rest else "", int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
