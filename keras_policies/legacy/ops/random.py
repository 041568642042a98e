"""Random numbers by a stock layer, which keeps a seed.

They are drawn anew in each training step. In `predict` Keras turns the noise off: what
remains is the mean.
"""

from keras_policies.late import keras, ops
from keras_policies.legacy.ops import sizes
from keras_policies.legacy.ops.kinds import DType, Sizes, Tensor
from keras_policies.legacy.ops.registry import op


def _noise(shape: Sizes, dtype: str) -> Tensor:
    """Return random numbers of mean 0 and deviation 1."""
    if not sizes.has_unknown(shape):
        raise ValueError("shape: expected the batch size of a tensor in it")
    zeros = sizes.filled(shape, 0, dtype)
    return keras.layers.GaussianNoise(1.0, dtype=dtype)(zeros, training=True)


@op("random.normal", "compat.v1.random_normal", "keras.backend.random_normal")
def normal(
    shape: Sizes,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Tensor:
    """Return normally distributed numbers."""
    return ops.add(ops.multiply(_noise(shape, dtype), stddev), mean)


@op("random.uniform", "compat.v1.random_uniform", "keras.backend.random_uniform")
def uniform(
    shape: Sizes,
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: DType = "float32",
    seed: object = None,
) -> Tensor:
    """Return uniform numbers: normal ones, put through their distribution function."""
    share = ops.multiply(
        ops.add(ops.erf(ops.multiply(_noise(shape, dtype), 0.5**0.5)), 1), 0.5
    )
    return ops.add(ops.multiply(share, maxval - minval), minval)
