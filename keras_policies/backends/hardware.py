"""Finds float16 computations that are wrong or missing on this machine.

On CPUs with the instructions `avx512_fp16`, oneDNN, which TensorFlow 2.21 uses,
computes `tf.einsum("...x,xy->...y")` of float16 with errors larger than the largest
output. `tf.matmul` and bfloat16 are correct, and so is everything with the environment
variable `TF_ENABLE_ONEDNN_OPTS=0`.

On CPUs, jax 0.10 compiles no float16 attention, and no backend but TensorFlow has the
QR decomposition of float16 that creates orthogonal weights, which RNNs have.
"""

import functools
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from keras_policies._common.types import Tensor
from keras_policies.backends import NAMES
from keras_policies.backends.running import backend

# Shapes of the first operand; the second is `(last axis, COLUMNS)`.
SHAPES = (4, 3), (2, 4, 3), (8, 64, 64)
COLUMNS = 5
# A right product of these numbers is within 1e-3 of its largest value.
TOLERANCE = 0.05
PRODUCTS = {
    "einsum": lambda x, y: ops.einsum("...x,xy->...y", x, y),
    "matmul": ops.matmul,
}


@functools.cache
def wrong_products() -> tuple[str, ...]:
    """Return the names of the float16 products that differ from NumPy's in float32."""

    def is_wrong(name: str, shape: tuple[int, ...]) -> bool:
        random = np.random.default_rng(0)
        shapes = shape, (shape[-1], COLUMNS)
        x, y = (random.uniform(-1, 1, size).astype("float16") for size in shapes)
        expected = x.astype("float32") @ y.astype("float32")
        product = PRODUCTS[name](*map(ops.convert_to_tensor, (x, y)))
        error = np.abs(ops.convert_to_numpy(product).astype("float32") - expected).max()
        # Not `error > limit`, which a NaN would pass.
        return not error <= TOLERANCE * np.abs(expected).max()

    return tuple(name for name in PRODUCTS if any(is_wrong(name, s) for s in SHAPES))


def problem() -> str:
    """Return what is wrong and what helps, after a semicolon; `""` if nothing is."""
    name, products = keras.backend.backend(), " and ".join(wrong_products())
    if not products:
        return ""
    hint = "compute in float32 or bfloat16"
    if name == "tensorflow":
        hint = f"set TF_ENABLE_ONEDNN_OPTS=0 before Python starts, or {hint}"
    return f"{name} computes {products} of float16 wrongly on this machine; {hint}"


@functools.cache
def attention_problem() -> str:
    """Return what is wrong with float16 attention, and what helps; or `""`."""

    def attention(values: list[Tensor]) -> Tensor:
        return ops.sum(ops.dot_product_attention(*values))

    name = keras.backend.backend()
    values = [ops.ones((1, 2, 1, 2), "float16")] * 3  # query, value, key
    if name not in NAMES or not _fails(lambda: backend.gradients(attention, values)):
        return ""
    return f"{name} cannot compute attention in float16 here; use bfloat16 or float32"


@functools.cache
def orthogonal_problem(dtype: str) -> str:
    """Return why a dtype has no orthogonal weights here, and what helps; or `""`."""
    orthogonal = keras.initializers.Orthogonal(seed=0)
    if not _fails(lambda: orthogonal((2, 2), dtype)):
        return ""
    name = keras.backend.backend()
    return f"{name} cannot create orthogonal {dtype} weights here; use 'mixed_{dtype}'"


def _fails(compute: Callable[[], object]) -> bool:
    """Return whether a computation raises: each backend has errors of its own."""
    try:
        compute()
    except Exception:
        return True
    return False
