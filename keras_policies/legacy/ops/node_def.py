"""Nodes of TensorFlow's graphs, with the counterparts of their ops.

The TensorFlowOpLayer of TF 2.0 to 2.3 records a NodeDef in JSON, whose attributes name
their kinds. Nodes of recorded functions come with plain values.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.annotations import Config
from keras_policies.late import keras
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, sizes, table
from keras_policies.legacy.ops.registry import Op


def call(node: Config, tensors: Sequence[Any], constants: Config) -> Any:
    """Call the counterpart of a node, or raise ValueError if something is unknown.

    `tensors` are those of its inputs that are tensors, in their order; `constants` are
    the others, `{position: value}`.
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
    given = raw.arguments(_inputs(tensors, constants))
    try:
        return function.call((), given | settings)
    except LegacyModelError:
        raise
    except ValueError:
        values = keras.tree.flatten(given)
        if sizes.has_unknown(values) or any(map(kinds.is_tensor, values)):
            raise
        return _of_constants(function, given, settings)


def _of_constants(function: Op, given: Config, settings: Config) -> Any:
    """Return what a function of tensors makes of constants, as an array."""
    arrays = {
        name: value
        for name, value in given.items()
        if isinstance(value, np.ndarray | np.generic | float)
    }
    floats = {k: v for k, v in arrays.items() if np.asarray(v).dtype.kind in "fV"}
    taken = floats or dict(list(arrays.items())[:1])
    values = {name: kinds.array(value) for name, value in taken.items()}
    tensors = {
        name: keras.KerasTensor(value.shape, value.dtype.name)
        for name, value in values.items()
    }
    found = function.call((), {**given, **tensors, **settings})
    for made in keras.tree.flatten(found):
        budget.spend(math.prod(made.shape), 8)
    computed = keras.Function([*tensors.values()], found)([*values.values()])
    return keras.tree.map_structure(keras.ops.convert_to_numpy, computed)


def _inputs(tensors: Sequence[Any], constants: Config) -> list[Any]:
    """Return tensors and constants in the order of the node's inputs."""
    known = {
        int(position): kinds.array(value) if isinstance(value, list) else value
        for position, value in constants.items()
    }
    total = len(tensors) + len(known)
    places = [i for i in range(total) if i not in known]
    if len(places) != len(tensors):
        raise ValueError(f"constants: at the positions {sorted(known)}")
    known |= dict(zip(places, tensors, strict=True))
    return [known[i] for i in range(total)]


def attribute(value: Any) -> Any:
    """Return what an `AttrValue` holds, or raise ValueError if its kind is unknown."""
    if not isinstance(value, dict):
        return value  # of a recorded function
    if len(value) != 1:
        raise ValueError(f"expected an attribute of one kind, found {value!r}")
    ((kind, held),) = value.items()
    if kind not in READERS:
        raise ValueError(f"an attribute of the kind {kind!r} is not known")
    return READERS[kind](held)


def _text(value: str) -> str:
    """Return a string, which is in base64 in JSON."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"expected text in base64, found {value!r}") from error


def _list(held: Mapping[str, Any]) -> list[Any]:
    items = held.get("i") or held.get("f") or held.get("s") or []
    return [int(item) if "i" in held else item for item in items]


# Field of an AttrValue -> the function that reads it.
READERS: dict[str, kinds.Check] = {
    "b": kinds.boolean,
    "f": float,
    "i": int,
    "list": _list,
    "s": _text,
    "type": lambda name: name,
}
