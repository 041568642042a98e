"""Random numbers, drawn by a stock layer with a seed.

Each training step draws new ones. In inference, Keras turns the noise off, and the mean
remains. Numbers that TensorFlow draws from a known seed become constants.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import philox
from keras_policies.legacy.ops.converters import DType, Lengths, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, evaluator
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, is_tensor, ops

# The share of a normal distribution below -2, where TensorFlow truncates it.
BELOW = 0.022750132
# TensorFlow's names of Philox; "auto_select" means it on CPUs.
PHILOX = None, "auto_select", "philox", 1, 3


def _noise(shape: Lengths, dtype: str) -> Any:
    """Return random numbers with mean 0 and deviation 1."""
    if not any(map(has_dims, shape)):
        raise ValueError("shape: expected the batch size of a tensor in it")
    zeros = computed.full(shape, 0, dtype)
    return evaluator.call_layer(keras.layers.GaussianNoise(1.0, dtype=dtype), zeros)


def _share(shape: Lengths, dtype: str) -> Any:
    """Return uniform numbers between 0 and 1: the normal CDF of normal numbers."""
    scaled = ops.multiply(_noise(shape, dtype), 0.5**0.5)
    return ops.multiply(ops.add(ops.erf(scaled), 1), 0.5)


@op("_Dropout(x; rate noise_shape)")  # see programs/idioms.py
def dropout(x: Value, rate: float, noise_shape: Any = None) -> Value:
    """In training, drop a share of the numbers, and scale the others."""
    shape = None if noise_shape is None else tuple(noise_shape)
    return evaluator.call_layer(keras.layers.Dropout(rate, shape, dtype=dtype_of(x)), x)


def _normal(shape: Any, mean: Any, stddev: Any, dtype: str, seed: object) -> Any:
    return ops.add(ops.multiply(_noise(shape, dtype), stddev), mean)


def _truncated(shape: Any, mean: Any, stddev: Any, dtype: str, seed: object) -> Any:
    """Return normally distributed numbers within two deviations of the mean."""
    share = ops.multiply(_share(shape, dtype), 1 - 2 * BELOW)
    cut = ops.erfinv(ops.subtract(ops.multiply(ops.add(share, BELOW), 2), 1))
    return ops.add(ops.multiply(ops.multiply(cut, 2**0.5), stddev), mean)


functions(
    "shape:Lengths mean=0.0 stddev=1.0 dtype:DType='float32' seed:object=None",
    (
        _normal,
        "random.normal compat.v1.random_normal keras.backend.random_normal "
        "RandomStandardNormal(shape; dtype)",
    ),
    (
        _truncated,
        "random.truncated_normal compat.v1.random.truncated_normal "
        "TruncatedNormal(shape; dtype)",
    ),
)


@op(
    "random.uniform compat.v1.random_uniform keras.backend.random_uniform "
    "RandomUniform(shape; dtype) RandomUniformInt(shape minval maxval; dtype=Tout)"
)
def uniform(
    shape: Lengths,
    minval: Value = 0.0,
    maxval: Value = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Value:
    """Return uniform numbers from `minval` to below `maxval`."""
    is_integer = dtype.startswith(("int", "uint"))
    share = _share(shape, "float32" if is_integer else dtype)
    if is_integer:
        minval, maxval = (ops.cast(bound, "float32") for bound in (minval, maxval))
    numbers = ops.add(ops.multiply(share, ops.subtract(maxval, minval)), minval)
    if is_integer:  # a share may round to 1
        numbers = ops.minimum(ops.floor(numbers), ops.subtract(maxval, 1.0))
    return ops.cast(numbers, dtype)


@op(
    "StatelessRandomGetKeyCounter(seed;; key counter) "
    "StatelessRandomGetKeyCounterAlg(seed;; key counter alg)"
)
def generator(seed: Value) -> tuple[Any, Any, int]:
    """Return the key, the counter and the algorithm for a seed."""
    if is_tensor(seed) or np.shape(seed) != (2,):
        raise ValueError(f"seed: expected two known numbers, found {str(seed)[:80]}")
    return (*philox.key_and_counter(np.asarray(seed)), 1)


def _drawn(
    numbers: Callable[..., Any],
    shape: Sequence[Any],
    *,
    seed: Any,
    alg: object,
    key: Any,
    counter: Any,
) -> Any:
    """Return the numbers that TensorFlow draws from a known seed or key."""
    if any(map(has_dims, shape)):
        raise ValueError(
            "shape: expected known sizes, because a seed gives other numbers for each "
            "size. Draw without a seed, or save the model with a known batch size"
        )
    if seed is None and any(map(is_tensor, (key, counter))):
        raise ValueError("seed: expected known numbers, found a tensor")
    if alg not in PHILOX:
        raise ValueError(f"alg: expected Philox, found {alg!r}")
    count = math.prod(shape)
    budget.spend(count, philox.BYTES, philox.COST * count)
    budget.free(count * (philox.BYTES - 8))
    generated = (key, counter) if seed is None else generator(seed)[:2]
    return numbers(*generated, count).reshape(shape)


def _normally(
    numbers: Callable[..., Any],
    shape: Any,
    *,
    mean: Any,
    stddev: Any,
    dtype: str,
    **source: Any,
) -> Any:
    if dtype == "float64":
        raise ValueError("dtype: expected float32, float16 or bfloat16, found float64")
    drawn = _drawn(numbers, shape, **source).astype(dtype)
    return ops.add(ops.multiply(drawn, stddev), mean)


def _uniformly(
    shape: Any, *, minval: Any, maxval: Any, dtype: str, **source: Any
) -> Any:
    """Return uniform numbers from `minval` to below `maxval`."""
    if not dtype.startswith("int"):
        if dtype != "float32":
            raise ValueError(f"dtype: expected float32 or integers, found {dtype}")
        drawn = _drawn(philox.uniform, shape, **source)
        span = ops.subtract(1.0 if maxval is None else maxval, minval)
        return ops.add(ops.multiply(drawn, span), minval)
    words = _integers(shape, dtype=dtype, **source)
    if maxval is None:
        return words
    if maxval <= minval:
        raise ValueError(f"maxval: expected more than {minval}, found {maxval}")
    with np.errstate(over="ignore"):  # as TensorFlow's integers overflow
        span = np.uint64(int(maxval) - int(minval))
        unsigned = words.astype(f"u{dtype}") % span + np.int64(minval).astype("uint64")
    return unsigned.astype(dtype)


def _integers(shape: Any, *, dtype: str, **source: Any) -> Any:
    """Return integers of random bits."""
    if dtype not in ("int32", "int64"):
        raise ValueError(f"dtype: expected int32 or int64, found {dtype}")
    numbers = philox.long_words if dtype == "int64" else philox.words
    return _drawn(numbers, shape, **source).astype(dtype)


# The parameters besides `seed` that determine the numbers.
SOURCE = "alg:object=None key:object=None counter:object=None"
SEED, KEY = "(shape seed; dtype)", "(shape key counter alg; dtype)"
functions(
    "shape:Lengths seed:object=None mean=0.0 stddev=1.0 dtype:DType='float32' "
    f"{SOURCE}",
    *(
        (
            functools.partial(_normally, numbers),
            f"random.stateless_{name} Stateless{node}{SEED} Stateless{node}V2{KEY}",
        )
        for numbers, name, node in (
            (philox.normal, "normal", "RandomNormal"),
            (philox.truncated_normal, "truncated_normal", "TruncatedNormal"),
        )
    ),
)
functions(
    "shape:Lengths seed:object=None minval:object=0 maxval:object=None "
    f"dtype:DType='float32' {SOURCE}",
    (
        _uniformly,
        f"random.stateless_uniform StatelessRandomUniform{SEED} "
        f"StatelessRandomUniformV2{KEY} "
        "StatelessRandomUniformInt(shape seed minval maxval; dtype) "
        "StatelessRandomUniformIntV2(shape key counter alg minval maxval; dtype)",
    ),
)
functions(
    f"shape:Lengths dtype:DType='uint64' seed:object=None {SOURCE}",
    (
        _integers,
        f"StatelessRandomUniformFullInt{SEED} StatelessRandomUniformFullIntV2{KEY}",
    ),
)
