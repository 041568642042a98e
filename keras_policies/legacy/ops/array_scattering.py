"""Functions directly under `tf` that put items at positions of a tensor."""

from keras import ops

from keras_policies.legacy.ops import elementwise, kinds
from keras_policies.legacy.ops.kinds import Operand, Tensor
from keras_policies.legacy.ops.registry import Raw, op


@op("scatter_nd", v1=True, ScatterNd=Raw("indices updates shape"))
def scatter_nd(indices: Operand, updates: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return zeros with `updates` added at the positions `indices`."""
    return ops.scatter(_positions(indices), updates, shape)


@op(
    "tensor_scatter_nd_update",
    v1=True,
    TensorScatterUpdate=Raw("tensor indices updates"),
)
def scatter_update(tensor: Tensor, indices: Operand, updates: Operand) -> Tensor:
    """Return `tensor` with `updates` in the place of the items at `indices`."""
    return ops.scatter_update(
        tensor, _positions(indices), elementwise.constant(updates, tensor)
    )


def _positions(indices: Operand) -> Operand:
    return indices if kinds.is_tensor(indices) else kinds.array(indices)
