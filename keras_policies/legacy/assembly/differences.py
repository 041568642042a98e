"""The difference of outputs, and how large it may be."""

import functools
import math

import keras
import numpy as np

from keras_policies.legacy.assembly import seeded_inputs
from keras_policies.legacy.base.weights import Array

# Output dtype -> allowed difference, as a share of the largest number.
TOLERANCES = {"float16": 2e-2, "bfloat16": 5e-2}
TOLERANCE = 1e-4


def relative_difference(actual: Array, expected: Array) -> float:
    """Return the largest difference as a share of the largest expected number.

    It is infinite if shapes, integers or texts differ, or if one is complex. Numbers in
    place of texts count as equal.
    """
    if actual.shape != expected.shape:
        return math.inf
    if expected.dtype.kind == "O" and actual.dtype.kind != "O":
        return 0.0
    if actual.dtype.kind == "c" != expected.dtype.kind:
        return math.inf
    if expected.dtype.kind in "iubO":
        return 0.0 if np.array_equal(actual, expected) else math.inf
    wanted, numbers = expected.astype("float64"), actual.astype("float64")
    with np.errstate(invalid="ignore"):
        is_same = (numbers == wanted) | (np.isnan(numbers) & np.isnan(wanted))
        difference = np.where(is_same, 0, np.abs(numbers - wanted))
    largest = np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))
    return float(np.max(difference, initial=0) / (largest or 1.0))


@functools.cache
def rounding_of_products() -> float:
    """Return the error of a product of float32 matrices, as a share of the largest."""
    random = np.random.default_rng(seeded_inputs.SEED)
    x = random.standard_normal((64, 64)).astype("float32")
    product = keras.ops.convert_to_numpy(keras.ops.matmul(x, x))
    return relative_difference(product, np.matmul(x, x, dtype="float64"))
