"""Calls the counterparts of nodes in TensorFlow's graphs.

A TensorFlowOpLayer of TensorFlow 2.0 to 2.3 records a NodeDef in JSON, whose attributes
name their kinds. The attributes of nodes in traced functions are plain values.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.ops import converters, table


def call(node: Config, tensors: Sequence[Any], constants: Config) -> Any:
    """Call the counterpart of a node, or raise ValueError if it has none.

    Its inputs are `tensors`, in order, and `constants`, `{position: value}`.
    """
    if node["op"] not in table.NODES:
        raise ValueError(f"the op {node['op']!r} has no counterpart in keras.ops")
    function, raw = table.NODES[node["op"]]
    attributes = node.get("attr", {})
    settings = {
        parameter: attribute(attributes[name])
        for parameter, name in raw.parameters().items()
        if name in attributes
    }
    return function.call((), raw.arguments(_inputs(tensors, constants)) | settings)


def outputs(op: str, attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a node of a traced function."""
    result = call({"op": op, "attr": attributes}, inputs, {})
    return [*result] if isinstance(result, tuple | list) else [result]


def _inputs(tensors: Sequence[Any], constants: Config) -> list[Any]:
    """Return tensors and constants in the order of the node's inputs."""
    values = {int(position): value for position, value in constants.items()}
    total = len(tensors) + len(values)
    places = [i for i in range(total) if i not in values]
    if len(places) != len(tensors):
        raise ValueError(f"constants: at the positions {sorted(values)}")
    values |= dict(zip(places, tensors, strict=True))
    return [values[i] for i in range(total)]


def attribute(value: Any) -> Any:
    """Return the value in an `AttrValue`, or raise ValueError for unknown kinds."""
    if not isinstance(value, dict):
        return value  # of a traced function
    if len(value) != 1:
        raise ValueError(f"expected an attribute of one kind, found {value!r}")
    ((kind, item),) = value.items()
    if kind not in READERS:
        raise ValueError(f"an attribute of the kind {kind!r} is not known")
    return READERS[kind](item)


def _text(value: str) -> str:
    """Decode a string, which JSON has in base64."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"expected text in base64, found {value!r}") from error


def _list(lists: Mapping[str, Any]) -> list[Any]:
    items = lists.get("i") or lists.get("f") or lists.get("s") or []
    return [int(item) if "i" in lists else item for item in items]


# Field of an AttrValue -> the function that reads it.
READERS: dict[str, converters.Check] = {
    "b": converters.boolean,
    "f": float,
    "i": int,
    "list": _list,
    "s": _text,
    "type": lambda name: name,
}
