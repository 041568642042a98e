"""The graph of symbolic tensors: which operation made a tensor, and from what.

Keras: src/models/functional.py, src/backend/common/keras_tensor.py, src/ops/*.py.
"""

import functools
import math
import types
from collections.abc import Collection, Iterable
from typing import Any

import keras
from keras import ops

from keras_policies.keras_internals.places import GRAPHS, needs

# The operations of a functional model's graph that `op_calls` names, as in `keras.ops`.
OPS = "exp", "log", "log_softmax", "softmax"
# Makes a tensor of another one by an operation of `keras.ops`.
MAKERS = {
    "get_item": lambda x: x[0],
    "reshape": lambda x: ops.reshape(x, (4,)),
    "tile": lambda x: ops.tile(x, (1, 1)),
    "transpose": ops.transpose,
    **{name: getattr(ops, name) for name in OPS},
}

# An operation, and the symbolic tensors that one call took and made.
Call = tuple[keras.Operation, list[keras.KerasTensor], list[keras.KerasTensor]]


def is_functional(model: keras.Model) -> bool:
    """Return whether a model is a Functional one, whose layers form a graph.

    The class has no public name; the other models have no `operations`.
    """
    return isinstance(model, keras.Model) and hasattr(model, "operations")


@needs(GRAPHS)
def maker_of(tensor: keras.KerasTensor) -> keras.Operation | None:
    """Return the operation whose call made a symbolic tensor, or None."""
    history = getattr(tensor, "_keras_history", None)
    return history.operation if history is not None else None


@needs(GRAPHS)
def mask_of(tensor: keras.KerasTensor) -> keras.KerasTensor | None:
    """Return the mask of a symbolic tensor, or None."""
    return getattr(tensor, "_keras_mask", None)


@needs(GRAPHS)
def calls_before(tensor: keras.KerasTensor, given: Collection[int] = ()) -> list[Call]:
    """Return the calls that led to a symbolic tensor, the last one first.

    `given` has the ids of tensors at which to stop, as at the outputs of InputLayers.
    """
    found: dict[int, Call] = {}
    waiting = [tensor]
    while waiting:
        tensor = waiting.pop(0)
        history = tensor._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if id(tensor) in given or id(node) in found:
            continue
        inputs = node.arguments.keras_tensors
        found[id(node)] = history.operation, inputs, node.outputs
        waiting += inputs
    return list(found.values())


@needs(GRAPHS)
def op_calls(model: keras.Model) -> list[tuple[str, str, str]]:
    """Return `[(function, name of the operation, dtype of its output), …]`.

    The functions are those in `OPS`. A model that is not functional has no graph.
    """
    return [
        (kind, operation.name, tensor.dtype)
        for operation in getattr(model, "operations", ())
        if (kind := _kind(operation)) in OPS
        for tensor in operation._inbound_nodes[0].outputs
    ]


def _kind(operation: keras.Operation) -> str:
    """Return which of `MAKERS` makes operations of the same class, or `""`."""
    return _kinds().get(type(operation), "")


@functools.cache
def _kinds() -> dict[type, str]:
    """Return `{class of an operation: name}`; the classes have no public names."""
    x = keras.KerasTensor((2, 2))
    return {type(maker_of(make(x))): name for name, make in MAKERS.items()}


def keeps_first_axis(
    operation: keras.Operation,
    inputs: list[keras.KerasTensor],
    outputs: list[keras.KerasTensor],
) -> bool:
    """Return whether a call of an operation of `keras.ops` keeps the first axis."""
    axes = getattr(operation, "axis", ())
    axes = axes if isinstance(axes, list | tuple) else [axes]
    rank = len(inputs[0].shape) if inputs else 0
    if any(axis is not None and axis in (0, -rank) for axis in axes):
        return False
    kind = _kind(operation)
    if kind == "reshape":
        sizes = inputs[0].shape[1:], outputs[0].shape[1:]
        return None not in sum(sizes, ()) and math.prod(sizes[0]) == math.prod(sizes[1])
    if kind == "transpose":
        return operation.axes is not None and operation.axes[0] == 0
    if kind == "tile":
        return len(operation.repeats) == rank and operation.repeats[0] == 1
    if kind == "get_item":
        return bool(outputs[0].shape[:1] == inputs[0].shape[:1])
    return True


@needs(GRAPHS)
def record_call(operation: keras.Operation, outputs: Iterable[Any]) -> None:
    """Record the outputs of a call of an operation that does not record them itself.

    `functional_from_config` takes the inputs of the next layer from there.
    """
    node = types.SimpleNamespace(output_tensors=list(outputs))
    operation._inbound_nodes.append(node)


@needs(GRAPHS)
def recorded_calls(operation: keras.Operation) -> int:
    """Return how many calls of `operation` have been recorded."""
    return len(operation._inbound_nodes)
