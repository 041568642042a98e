"""Whether this machine multiplies float16 matrices correctly.

TensorFlow 2.21 does not on CPUs with the instructions `avx512_fp16`: there oneDNN
computes `tf.einsum("...x,xy->...y")` of float16 with errors larger than the largest
output. `tf.matmul` and bfloat16 are correct, and so is everything with the environment
variable `TF_ENABLE_ONEDNN_OPTS=0`.
"""

import functools

import keras
import numpy as np
from keras import ops

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
    """Return the names of the float16 products that this backend computes wrongly.

    Each product is computed once per process and compared with NumPy's in float32. On
    most machines none is wrong.

    Example:
        >>> set(wrong_products()) <= {"einsum", "matmul"}
        True
    """
    return tuple(
        name for name in PRODUCTS if any(_is_wrong(name, shape) for shape in SHAPES)
    )


def _is_wrong(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether the product called `name` is wrong for an operand of a shape."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, shape).astype("float16")
    y = random.uniform(-1, 1, (shape[-1], COLUMNS)).astype("float16")
    expected = x.astype("float32") @ y.astype("float32")
    product = PRODUCTS[name](*map(ops.convert_to_tensor, (x, y)))
    error = np.abs(ops.convert_to_numpy(product).astype("float32") - expected).max()
    # Not `error > limit`, which a NaN would pass.
    return not error <= TOLERANCE * np.abs(expected).max()


def problem() -> str:
    """Return what is wrong and what helps, after a semicolon; `""` if nothing is."""
    wrong = wrong_products()
    if not wrong:
        return ""
    name = keras.backend.backend()
    remedy = "compute in float32 or bfloat16"
    if name == "tensorflow":
        remedy = f"set TF_ENABLE_ONEDNN_OPTS=0 before Python starts, or {remedy}"
    products = " and ".join(wrong)
    return f"{name} computes {products} of float16 wrongly on this machine; {remedy}"
