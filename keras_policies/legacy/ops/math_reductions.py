"""`tf.math`: functions along axes, such as sums, norms and sorted positions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_policies.legacy.ops.kinds import Axes, DType, Value
from keras_policies.legacy.ops.registry import Op, Raw, enter, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, evaluate, ops

# Name in keras.ops, name in TensorFlow, op in a graph or "".
SAME_NAME = "all", "any", "max", "mean", "min", "prod", "sum"
REDUCTIONS = (
    *((name, f"math.reduce_{name}", name.capitalize()) for name in SAME_NAME),
    ("std", "math.reduce_std", ""),
    ("var", "math.reduce_variance", ""),
    ("logsumexp", "math.reduce_logsumexp", ""),
)
ALONG_AXES = Raw("input_tensor axis", "keepdims=keep_dims")
EXTREME = Raw("input axis", "output_type")
DIM = {"dim": "axis"}
OF_TENSORFLOW_1 = {"keep_dims": "keepdims", "reduction_indices": "axis"}
CUMULATIVE = Raw("x axis", "exclusive reverse")


def _reduction(name: str) -> Callable[..., Any]:
    def function(
        input_tensor: Value, axis: Axes | None = None, keepdims: bool = False
    ) -> Value:
        if axis == ():  # of no axis: TensorFlow changes nothing
            return input_tensor
        is_one = name == "logsumexp" and isinstance(axis, int)
        along = [axis] if is_one else axis  # Keras 3.8 takes no int there
        return evaluate(name, input_tensor, axis=along, keepdims=keepdims)

    return function


for _name, _function, _node in REDUCTIONS:
    _raw = dict.fromkeys(_node.split(), ALONG_AXES)
    enter(Op(_function, _reduction(_name), OF_TENSORFLOW_1), [_function], _raw)


@op("math.reduce_euclidean_norm", EuclideanNorm=ALONG_AXES)
def euclidean_norm(
    input_tensor: Value, axis: Axes | None = None, keepdims: bool = False
) -> Value:
    """Return the square root of the sum of squares."""
    return ops.sqrt(ops.sum(ops.square(input_tensor), axis=axis, keepdims=keepdims))


@op("math.count_nonzero")
def count_nonzero(
    input: Value,
    axis: Axes | None = None,
    keepdims: bool = False,
    dtype: DType = "int64",
) -> Value:
    """Return a count in int32, the dtype in which every backend can count."""
    nonzero = ops.cast(ops.not_equal(input, 0), "int32")
    return ops.sum(nonzero, axis=axis, keepdims=keepdims)


@op("math.zero_fraction")
def zero_fraction(value: Value) -> Value:
    """Return the share of items that are 0."""
    return ops.mean(ops.cast(ops.equal(value, 0), "float32"))


@op("math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize", renamed=DIM)
def l2_normalize(x: Value, axis: Axes | None = None, epsilon: float = 1e-12) -> Value:
    """Return `x · rsqrt(max(Σx², epsilon))`."""
    total = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(total, epsilon)))


def _cumulative(name: str) -> Callable[..., Any]:
    def function(
        x: Value, axis: int = 0, exclusive: bool = False, reverse: bool = False
    ) -> Value:
        x = ops.flip(x, axis) if reverse else x
        if exclusive:
            x = _moved_by_one(x, axis, 0 if name == "cumsum" else 1)
        total = evaluate(name, x, axis=axis)
        return ops.flip(total, axis) if reverse else total

    return function


def _moved_by_one(x: Any, axis: int, first: int) -> Any:
    """Return a value whose items along an axis come one later, after a number."""
    axis %= computed.rank(x)
    kept = [slice(None)] * axis
    number = np.asarray(first, dtype_of(x))
    start = ops.full_like(computed.index(x, [*kept, slice(0, 1)]), number)
    return ops.concatenate([start, computed.index(x, [*kept, slice(0, -1)])], axis=axis)


op("math.cumsum", Cumsum=CUMULATIVE)(_cumulative("cumsum"))
op("math.cumprod", Cumprod=CUMULATIVE)(_cumulative("cumprod"))


def _extreme(name: str) -> Callable[..., Any]:
    def function(input: Value, axis: int = 0, output_type: DType = "int64") -> Value:
        found = evaluate(name, input, axis=axis)
        # Where int64, the default, is asked for, a backend's own integers will do.
        return found if output_type == "int64" else ops.cast(found, output_type)

    return function


op("math.argmax", ArgMax=EXTREME)(_extreme("argmax"))
op("math.argmin", ArgMin=EXTREME)(_extreme("argmin"))


@op("math.top_k", "nn.top_k", TopKV2=Raw("input k", "sorted", "values indices"))
def top_k(
    input: Value, k: int = 1, sorted: bool = True, index_type: DType = "int32"
) -> tuple[Value, ...]:
    """Return the largest values of the last axis, and their positions."""
    return tuple(ops.top_k(input, k, sorted=sorted))


@op("compat.v1.math.in_top_k", InTopKV2=Raw("predictions targets k"))
def in_top_k_v1(predictions: Value, targets: Value, k: int) -> Value:
    """Return whether each target is among the `k` largest predictions."""
    return ops.in_top_k(targets, predictions, k)


@op("math.in_top_k")
def in_top_k(targets: Value, predictions: Value, k: int) -> Value:
    """Return what `in_top_k_v1` does: TensorFlow 2 swapped the first two."""
    return ops.in_top_k(targets, predictions, k)
