"""`tf.math`: functions along axes, such as sums, norms and sorted positions."""

import operator
from collections.abc import Callable

from keras_policies.late import ops
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.elementwise import named
from keras_policies.legacy.ops.kinds import Axes, DType, Operand, Tensor
from keras_policies.legacy.ops.registry import Op, Raw, enter, op

# Name in keras.ops, name in TensorFlow, op in a graph or "".
SAME_NAME = "all", "any", "max", "mean", "min", "prod", "sum"
REDUCTIONS = (
    *((name, f"math.reduce_{name}", name.capitalize()) for name in SAME_NAME),
    ("std", "math.reduce_std", ""),
    ("var", "math.reduce_variance", ""),
    ("logsumexp", "math.reduce_logsumexp", ""),
)
# Reductions that also take lists of sizes: the function of two of them.
STEPS = {"prod": ("multiply", operator.mul), "sum": ("add", operator.add)}
ALONG_AXES = Raw("input_tensor axis", "keepdims=keep_dims")
EXTREME = Raw("input axis", "output_type")
DIM = {"dim": "axis"}
OF_TENSORFLOW_1 = {"keep_dims": "keepdims", "reduction_indices": "axis"}
CUMULATIVE = Raw("x axis", "exclusive reverse")


def _reduction(name: str) -> Callable[..., Operand]:
    def function(
        input_tensor: Operand, axis: Axes | None = None, keepdims: bool = False
    ) -> Operand:
        if not kinds.is_tensor(input_tensor):
            return _reduced(name, input_tensor)
        is_one = name == "logsumexp" and isinstance(axis, int)
        along = [axis] if is_one else axis  # Keras 3.8 takes no int there
        return named(name)(input_tensor, axis=along, keepdims=keepdims)

    return function


def _reduced(name: str, values: Operand) -> Operand:
    """Return the product or sum of sizes, of which some are unknown."""
    if name not in STEPS or not isinstance(values, list):
        raise ValueError(f"{name} of {values}, which is no tensor of the model")
    symbolic, plain = STEPS[name]
    total, *rest = values
    for value in rest:
        total = sizes.combine(named(symbolic), plain, total, value)
    return total


for _name, _function, _node in REDUCTIONS:
    _raw = dict.fromkeys(_node.split(), ALONG_AXES)
    enter(Op(_function, _reduction(_name), OF_TENSORFLOW_1), [_function], _raw)


@op("math.reduce_euclidean_norm", EuclideanNorm=ALONG_AXES)
def euclidean_norm(
    input_tensor: Tensor, axis: Axes | None = None, keepdims: bool = False
) -> Tensor:
    """Return the square root of the sum of squares."""
    return ops.sqrt(ops.sum(ops.square(input_tensor), axis=axis, keepdims=keepdims))


@op("math.count_nonzero")
def count_nonzero(
    input: Tensor,
    axis: Axes | None = None,
    keepdims: bool = False,
    dtype: DType = "int64",
) -> Tensor:
    """Return a count in int32, the dtype in which every backend can count."""
    nonzero = ops.cast(ops.not_equal(input, 0), "int32")
    return ops.sum(nonzero, axis=axis, keepdims=keepdims)


@op("math.zero_fraction")
def zero_fraction(value: Tensor) -> Tensor:
    """Return the share of items that are 0."""
    return ops.mean(ops.cast(ops.equal(value, 0), "float32"))


@op("math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize", renamed=DIM)
def l2_normalize(x: Tensor, axis: Axes | None = None, epsilon: float = 1e-12) -> Tensor:
    """Return `x · rsqrt(max(Σx², epsilon))`."""
    total = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(total, epsilon)))


def _cumulative(name: str) -> Callable[..., Tensor]:
    def function(
        x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False
    ) -> Tensor:
        x = ops.flip(x, axis) if reverse else x
        total = named(name)(x, axis=axis)
        if exclusive and name == "cumsum":
            total = ops.subtract(total, x)
        elif exclusive:
            raise ValueError("exclusive: expected False")
        return ops.flip(total, axis) if reverse else total

    return function


op("math.cumsum", Cumsum=CUMULATIVE)(_cumulative("cumsum"))
op("math.cumprod", Cumprod=CUMULATIVE)(_cumulative("cumprod"))


def _extreme(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, axis: int = 0, output_type: DType = "int64") -> Tensor:
        found = named(name)(input, axis=axis)
        # Where int64, the default, is asked for, a backend's own integers will do.
        return found if output_type == "int64" else ops.cast(found, output_type)

    return function


op("math.argmax", ArgMax=EXTREME)(_extreme("argmax"))
op("math.argmin", ArgMin=EXTREME)(_extreme("argmin"))


@op("math.top_k", "nn.top_k", TopKV2=Raw("input k", "sorted", "values indices"))
def top_k(
    input: Tensor, k: int = 1, sorted: bool = True, index_type: DType = "int32"
) -> tuple[Tensor, ...]:
    """Return the largest values of the last axis, and their positions."""
    return tuple(ops.top_k(input, k, sorted=sorted))


@op("compat.v1.math.in_top_k", InTopKV2=Raw("predictions targets k"))
def in_top_k_v1(predictions: Tensor, targets: Tensor, k: int) -> Tensor:
    """Return whether each target is among the `k` largest predictions."""
    return ops.in_top_k(targets, predictions, k)


@op("math.in_top_k")
def in_top_k(targets: Tensor, predictions: Tensor, k: int) -> Tensor:
    """Return what `in_top_k_v1` does: TensorFlow 2 swapped the first two."""
    return ops.in_top_k(targets, predictions, k)


@op("math.segment_sum", SegmentSum=Raw("data segment_ids"))
def segment_sum(data: Tensor, segment_ids: tuple[int, ...]) -> Tensor:
    """Add up the items of each segment; the segments are numbered in order."""
    return unsorted_segment_sum(data, segment_ids, max(segment_ids) + 1)


@op(
    "math.unsorted_segment_sum",
    v1=True,
    UnsortedSegmentSum=Raw("data segment_ids num_segments"),
)
def unsorted_segment_sum(
    data: Tensor, segment_ids: Operand, num_segments: int
) -> Tensor:
    """Add up the items of each of `num_segments` segments."""
    ids = segment_ids if kinds.is_tensor(segment_ids) else kinds.array(segment_ids)
    return ops.segment_sum(data, ids, num_segments=num_segments)
