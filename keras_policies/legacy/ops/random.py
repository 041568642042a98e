"""Random numbers by a stock layer, which keeps a seed.

They are drawn anew in each training step. Elsewhere Keras turns the noise off: what
remains is the mean.
"""

from typing import Any

from keras_policies.late import keras
from keras_policies.legacy.ops.kinds import DType, Lengths, Value
from keras_policies.legacy.ops.registry import Raw, functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, has_dims, ops

SHAPE = Raw("shape", "dtype")
# What a normal distribution has below -2, where TensorFlow cuts it off.
BELOW = 0.022750132


def _noise(shape: Lengths, dtype: str) -> Any:
    """Return random numbers of mean 0 and deviation 1."""
    if not any(map(has_dims, shape)):
        raise ValueError("shape: expected the batch size of a tensor in it")
    zeros = computed.full(shape, 0, dtype)
    return call_layer(keras.layers.GaussianNoise(1.0, dtype=dtype), zeros)


def _share(shape: Lengths, dtype: str) -> Any:
    """Return uniform numbers between 0 and 1: the share below a normal number."""
    scaled = ops.multiply(_noise(shape, dtype), 0.5**0.5)
    return ops.multiply(ops.add(ops.erf(scaled), 1), 0.5)


@op(_Dropout=Raw("x", "rate noise_shape"))  # see programs/dropouts.py
def dropout(x: Value, rate: float, noise_shape: Any = None) -> Value:
    """Drop a share of the numbers in training, and scale the others."""
    shape = None if noise_shape is None else tuple(noise_shape)
    return call_layer(keras.layers.Dropout(rate, shape, dtype=dtype_of(x)), x)


def _normal(shape: Any, mean: Any, stddev: Any, dtype: str, seed: object) -> Any:
    """Return normally distributed numbers."""
    return ops.add(ops.multiply(_noise(shape, dtype), stddev), mean)


def _truncated(shape: Any, mean: Any, stddev: Any, dtype: str, seed: object) -> Any:
    """Return normally distributed numbers at most two deviations from the mean."""
    share = ops.multiply(_share(shape, dtype), 1 - 2 * BELOW)
    cut = ops.erfinv(ops.subtract(ops.multiply(ops.add(share, BELOW), 2), 1))
    return ops.add(ops.multiply(ops.multiply(cut, 2**0.5), stddev), mean)


functions(
    "shape:Lengths mean=0.0 stddev=1.0 dtype:DType='float32' seed:object=None",
    (
        _normal,
        "random.normal compat.v1.random_normal keras.backend.random_normal",
        "RandomStandardNormal",
    ),
    (
        _truncated,
        "random.truncated_normal compat.v1.random.truncated_normal",
        "TruncatedNormal",
    ),
    raw=SHAPE,
)


@op(
    "random.uniform",
    "compat.v1.random_uniform",
    "keras.backend.random_uniform",
    RandomUniform=SHAPE,
    RandomUniformInt=Raw("shape minval maxval", "dtype=Tout"),
)
def uniform(
    shape: Lengths,
    minval: Value = 0.0,
    maxval: Value = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Value:
    """Return uniform numbers from `minval` on and below `maxval`."""
    is_integer = dtype.startswith(("int", "uint"))
    share = _share(shape, "float32" if is_integer else dtype)
    if is_integer:
        minval, maxval = (ops.cast(bound, "float32") for bound in (minval, maxval))
    numbers = ops.add(ops.multiply(share, ops.subtract(maxval, minval)), minval)
    if is_integer:  # rounding may make 1 of a share
        numbers = ops.minimum(ops.floor(numbers), ops.subtract(maxval, 1.0))
    return ops.cast(numbers, dtype)
