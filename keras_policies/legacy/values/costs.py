"""What functions of arrays cost, in numbers, before they are computed.

The arguments are those of `keras.ops`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def broadcast_size(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """Return the size of arrays that are broadcast together, or else of all of them."""
    try:
        return math.prod(np.broadcast_shapes(*(x.shape for x in arrays)))
    except ValueError:
        return sum(x.size for x in arrays)


def _repeated(x: Any, repeats: Any, axis: Any = None) -> int:
    times = np.asarray(repeats)
    if times.size == 1:
        return int(np.size(x) * max(int(times.reshape(-1)[0]), 0))
    length = np.size(x) if axis is None else np.shape(x)[axis]
    return int(np.size(x) // max(length, 1) * int(times.sum()))


def _products(a: Any, b: Any) -> int:
    """Return how many products a product of matrices adds up."""
    a_shape, b_shape = np.shape(a), np.shape(b)
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    columns = b_shape[-1:] if len(b_shape) > 1 else ()
    return math.prod((*batch, *a_shape[-2:], *columns))


def _of_matmul(a: Any, b: Any) -> int:
    return _products(a, b) // (np.shape(a)[-1] or 1)


def _all_pairs(a: Any, b: Any, **kwargs: Any) -> int:
    return np.size(a) * np.size(b)


def _of_conv(x: Any, *kernels: Any, **kwargs: Any) -> int:
    """Return the cost of the positions of an image, each times all kernels."""
    positions: int = np.size(x) // max(np.shape(x)[-1], 1)
    return positions * sum(map(np.size, kernels))


def _filtered(x: Any, *kernels: Any, **kwargs: Any) -> int:
    """Return an upper bound of the size of an image after a convolution."""
    ratios = (kernel.shape[-1] / (kernel.shape[-2] or 1) for kernel in kernels)
    return int(np.size(x) * max(ratios))


def _filtered_alone(x: Any, kernel: Any, *rest: Any, **kwargs: Any) -> int:
    """Return the same where each channel has filters of its own."""
    return int(np.size(x) * kernel.shape[-1])


def _of_layer(layer: Any, x: Any, **kwargs: Any) -> int:
    """Return the cost of a product of two arrays, or of pooling one."""
    if isinstance(x, list | tuple):
        return _all_pairs(*x)
    return int(np.size(x) * math.prod(getattr(layer, "pool_size", ())))


def _of_matrices(a: Any, b: Any = 0, **kwargs: Any) -> int:
    """Return the cost of solving linear equations: the cube of their number."""
    return int((np.size(a) + np.size(b)) * np.shape(a)[-1])


def _of_rfft(x: Any, length: int | None = None) -> int:
    count = np.size(x[0] if isinstance(x, tuple) else x)
    return count if length is None else count * max(length, 1)


def _sizes_of_einsum(equation: str, *operands: Any) -> int:
    """Return an upper bound of the products: every letter's length, multiplied."""
    lengths: dict[str, int] = {}
    for letters, operand in zip(
        equation.split("->")[0].split(","), operands, strict=False
    ):
        named = letters.replace(".", "").strip()
        shape = np.shape(operand)
        lengths.update(zip(named, shape[len(shape) - len(named) :], strict=False))
    largest = max((np.size(x) for x in operands), default=1)
    return max(math.prod(lengths.values()), largest)


CONVOLUTIONS = "conv", "depthwise_conv", "separable_conv"
# Name -> how many numbers it returns, where broadcasting does not tell.
RETURNED: Mapping[str, Callable[..., int]] = {
    "broadcast_to": lambda x, shape: math.prod(shape),
    "conv": _filtered,
    **dict.fromkeys(("depthwise_conv", "separable_conv"), _filtered_alone),
    "concatenate": lambda items, axis=0: sum(np.size(x) for x in items),
    "dot": _all_pairs,
    "einsum": _sizes_of_einsum,
    "matmul": _of_matmul,
    "outer": _all_pairs,
    "hanning": lambda n: 4 * n,  # it makes copies
    "irfft": _of_rfft,
    "pad": lambda x, widths, *_, **__: math.prod(
        n + a + b for n, (a, b) in zip(np.shape(x), widths, strict=True)
    ),
    "repeat": _repeated,
    "rfft": _of_rfft,
    "scatter": lambda indices, values, shape: math.prod(shape),
    **dict.fromkeys(
        ("segment_max", "segment_sum"),
        lambda x, ids, num_segments, **_: np.size(x) * max(num_segments, 1),
    ),
    "stack": lambda items, axis=0: sum(np.size(x) for x in items),
    "take": lambda x, indices, axis=None, **_: int(
        np.size(indices)
        * np.size(x)
        // max(np.shape(x)[axis] if axis is not None else np.size(x), 1)
    ),
    "tensordot": _all_pairs,
    "tile": lambda x, times: int(np.size(x) * math.prod(np.ravel(times).tolist())),
}
# Name -> how many numbers it computes, where it returns fewer.
COMPUTED: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(CONVOLUTIONS, _of_conv),
    "layer": _of_layer,
    **{"dot": _all_pairs, "matmul": _products},
    **dict.fromkeys(("linalg.inv", "linalg.cholesky", "linalg.det"), _of_matrices),
    "linalg.solve": _of_matrices,
    **dict.fromkeys(("argsort", "sort", "top_k"), lambda x, *_, **__: 20 * np.size(x)),
}
# Name -> how many arrays or tensors it returns, where these may be many.
RESULTS: Mapping[str, Callable[..., int]] = {
    "split": lambda x, parts, axis=0: parts if np.ndim(parts) == 0 else len(parts),
    "unstack": lambda x, num=None, axis=0: num or np.shape(x)[axis] or 0,
}
