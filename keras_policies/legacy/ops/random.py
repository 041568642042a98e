"""Random numbers by a stock layer, which keeps a seed.

They are drawn anew in each training step. Elsewhere Keras turns the noise off: what
remains is the mean.
"""

from keras_policies.late import keras, ops
from keras_policies.legacy.ops import sizes
from keras_policies.legacy.ops.kinds import DType, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op

SHAPE = Raw("shape", "dtype")
# What a normal distribution has below -2, where TensorFlow cuts it off.
BELOW = 0.022750132


def _noise(shape: Sizes, dtype: str) -> Tensor:
    """Return random numbers of mean 0 and deviation 1."""
    if not sizes.has_unknown(shape):
        raise ValueError("shape: expected the batch size of a tensor in it")
    zeros = sizes.filled(shape, 0, dtype)
    return keras.layers.GaussianNoise(1.0, dtype=dtype)(zeros)


def _share(shape: Sizes, dtype: str) -> Tensor:
    """Return uniform numbers between 0 and 1: the share below a normal number."""
    scaled = ops.multiply(_noise(shape, dtype), 0.5**0.5)
    return ops.multiply(ops.add(ops.erf(scaled), 1), 0.5)


@op(
    "random.normal",
    "compat.v1.random_normal",
    "keras.backend.random_normal",
    RandomStandardNormal=SHAPE,
)
def normal(
    shape: Sizes,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Tensor:
    """Return normally distributed numbers."""
    return ops.add(ops.multiply(_noise(shape, dtype), stddev), mean)


@op("random.truncated_normal", v1=True, TruncatedNormal=SHAPE)
def truncated_normal(
    shape: Sizes,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Tensor:
    """Return normally distributed numbers at most two deviations from the mean."""
    share = ops.multiply(_share(shape, dtype), 1 - 2 * BELOW)
    cut = ops.erfinv(ops.subtract(ops.multiply(ops.add(share, BELOW), 2), 1))
    return ops.add(ops.multiply(cut, 2**0.5 * stddev), mean)


@op(
    "random.uniform",
    "compat.v1.random_uniform",
    "keras.backend.random_uniform",
    RandomUniform=SHAPE,
    RandomUniformInt=Raw("shape minval maxval", "dtype=Tout"),
)
def uniform(
    shape: Sizes,
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Tensor:
    """Return uniform numbers from `minval` on and below `maxval`."""
    is_integer = dtype.startswith(("int", "uint"))
    share = _share(shape, "float32" if is_integer else dtype)
    found = ops.add(ops.multiply(share, maxval - minval), minval)
    if is_integer:  # rounding may make 1 of a share
        found = ops.minimum(ops.floor(found), maxval - 1)
    return ops.cast(found, dtype)
