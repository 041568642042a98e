"""The graph of symbolic tensors: which operation made a tensor, and from what.

Keras: src/models/functional.py, src/backend/common/keras_tensor.py, src/ops/*.py.
"""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_policies.keras_internals.private_api import GRAPHS, needs

# The operations of a functional model's graph that `op_calls` names, as in `keras.ops`.
OPS = "exp", "log", "log_softmax", "softmax"


def is_functional(model: keras.Model) -> bool:
    """Return whether a model is a Functional one: others have no `operations`."""
    return isinstance(model, keras.Model) and hasattr(model, "operations")


@needs(GRAPHS)
def maker_of(tensor: keras.KerasTensor) -> keras.Operation | None:
    """Return the operation whose call made a symbolic tensor, or None."""
    history = getattr(tensor, "_keras_history", None)
    return history.operation if history is not None else None


@needs(GRAPHS)
def mask_of(tensor: keras.KerasTensor) -> keras.KerasTensor | None:
    """Return the mask of a tensor, symbolic or not, or None."""
    from keras.src.backend.common import masking

    # Tensors that take no attributes, as jax's do while it compiles, are in a table.
    mask: keras.KerasTensor | None = masking.get_keras_mask(tensor)
    return mask


@needs(GRAPHS)
def set_mask(tensor: keras.KerasTensor, mask: keras.KerasTensor | None) -> None:
    """Set the mask of a symbolic tensor; None removes it."""
    tensor._keras_mask = mask


def _node(tensor: keras.KerasTensor) -> Any:
    """Return the node of the call that made a symbolic tensor."""
    history = tensor._keras_history
    return history.operation._inbound_nodes[history.node_index]


@needs(GRAPHS)
def operations_before(
    tensor: keras.KerasTensor, stops: Collection[int] = ()
) -> list[keras.Operation]:
    """Return the operations between a tensor and the ids `stops`, last one first."""
    operations: dict[int, keras.Operation] = {}  # by the calls of them
    waiting = [tensor]
    while waiting:
        tensor = waiting.pop(0)
        node = _node(tensor)
        if id(tensor) in stops or id(node) in operations:
            continue
        operations[id(node)] = tensor._keras_history.operation
        waiting += node.arguments.keras_tensors
    return list(operations.values())


@needs(GRAPHS)
def op_calls(model: keras.Model) -> list[tuple[str, str, str]]:
    """Return `[(function in OPS, name of the operation, dtype of its output), …]`."""
    return [
        (kind, operation.name, tensor.dtype)
        for operation in getattr(model, "operations", ())
        if (kind := _kinds().get(type(operation)))
        for tensor in operation._inbound_nodes[0].outputs
    ]


@functools.cache
def _kinds() -> dict[type, str]:
    """Return `{class of an operation: name}`; the classes have no public names."""
    x = keras.KerasTensor((2, 2))
    return {type(maker_of(getattr(ops, name)(x))): name for name in OPS}


@needs(GRAPHS)
def inputs_of(tensor: keras.KerasTensor) -> list[keras.KerasTensor]:
    """Return the symbolic tensors that the operation took that made a tensor."""
    return list(_node(tensor).arguments.keras_tensors)


@needs(GRAPHS)
def inputs_of_calls(layer: keras.Layer) -> list[list[keras.KerasTensor]]:
    """Return the symbolic tensors that each call of a layer got, where it got any."""
    calls = (node.arguments.keras_tensors for node in layer._inbound_nodes)
    return [list(tensors) for tensors in calls if tensors]


@needs(GRAPHS)
def arguments_of(
    tensor: keras.KerasTensor, values: Mapping[int, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a tensor's operation, with values in place of tensors."""
    args, kwargs = _node(tensor).arguments.fill_in(values)
    return args, kwargs


@needs(GRAPHS)
def output_shape(
    tensor: keras.KerasTensor, shapes: Mapping[int, Sequence[int | None]]
) -> tuple[int | None, ...]:
    """Return the shape that a tensor would have if its inputs, by id, had others."""
    history = tensor._keras_history
    replaced = {
        id(x): keras.KerasTensor(shapes[id(x)], x.dtype) for x in inputs_of(tensor)
    }
    args, kwargs = arguments_of(tensor, replaced)
    spec = history.operation.compute_output_spec(*args, **kwargs)
    return tuple(keras.tree.flatten(spec)[history.tensor_index].shape)


@needs(GRAPHS)
def shapes_in(model: keras.Model) -> Iterator[Sequence[int | None]]:
    """Yield the shapes of the tensors in a Functional, and in the Functionals in it."""
    for operation in getattr(model, "operations", ()):
        for node in operation._inbound_nodes:
            yield from (tensor.shape for tensor in node.output_tensors)
        yield from shapes_in(operation)
