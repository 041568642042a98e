"""Products and matrices: by their TensorFlow names."""

import numpy as np
from keras import ops

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.elementwise import together
from keras_policies.legacy.ops.mathematics import norm


def matmul(
    a: kinds.operand,
    b: kinds.operand,
    transpose_a: kinds.boolean = False,
    transpose_b: kinds.boolean = False,
    adjoint_a: kinds.boolean = False,
    adjoint_b: kinds.boolean = False,
    output_type: kinds.dtype = None,
):
    """`tf.linalg.matmul`; of real numbers, an adjoint is a transpose."""
    a, b = together(a, b)
    a = _swapped(a) if transpose_a or adjoint_a else a
    b = _swapped(b) if transpose_b or adjoint_b else b
    return ops.matmul(a, b)


def matvec(a: kinds.operand, b: kinds.operand):
    """`tf.linalg.matvec`."""
    a, b = together(a, b)
    return ops.squeeze(ops.matmul(a, ops.expand_dims(b, -1)), -1)


def _swapped(x):
    return ops.swapaxes(x, -1, -2) if kinds.is_tensor(x) else np.swapaxes(x, -1, -2)


def tensordot(a: kinds.operand, b: kinds.operand, axes: kinds.operand):
    """`tf.tensordot`."""
    a, b = together(a, b)
    if not isinstance(axes, int):
        axes = [list(np.atleast_1d(kinds.axes(axis))) for axis in axes]
        axes = [[int(axis) for axis in pair] for pair in axes]
    return ops.tensordot(a, b, axes=axes)


def einsum(equation: kinds.string, inputs: kinds.operands = ()):
    """`tf.einsum`, whose inputs TFOpLambda layers forgot to write down."""
    if not inputs:
        raise ValueError("tf.keras did not write down what it was called on")
    return ops.einsum(equation, *together(*inputs))


def diag_part(
    input: kinds.tensor, k: kinds.integer = 0, padding_value: kinds.number = 0
):
    """`tf.linalg.diag_part`, of one diagonal."""
    return ops.diagonal(input, offset=k, axis1=-2, axis2=-1)


def trace(x: kinds.tensor):
    """`tf.linalg.trace`."""
    return ops.trace(x, axis1=-2, axis2=-1)


def band_part(input: kinds.tensor, num_lower: kinds.integer, num_upper: kinds.integer):
    """`tf.linalg.band_part`."""
    if num_lower >= 0:
        input = ops.triu(input, -num_lower)
    return ops.tril(input, num_upper) if num_upper >= 0 else input


def diag(
    diagonal: kinds.tensor,
    k: kinds.integer = 0,
    num_rows: kinds.integer = -1,
    num_cols: kinds.integer = -1,
    padding_value: kinds.number = 0,
):
    """`tf.linalg.diag`: matrices with these diagonals, the main ones."""
    if (k, num_rows, num_cols, padding_value) != (0, -1, -1, 0):
        raise ValueError(f"k: expected the main diagonal, found {k}")
    length = kinds.integer(diagonal.shape[-1])
    budget.spend(length * length, 8)
    identity = np.eye(length, dtype=diagonal.dtype)
    return ops.multiply(ops.expand_dims(diagonal, -1), identity)


def matrix_transpose(a: kinds.tensor, conjugate: kinds.boolean = False):
    """`tf.linalg.matrix_transpose`; no tensor here is complex."""
    return _swapped(a)


def normalize(
    tensor: kinds.tensor, ord: kinds.anything = "euclidean", axis: kinds.axes = None
):
    """`tf.linalg.normalize`: the vectors, and their norms."""
    length = norm(tensor, ord, axis, True)
    return ops.divide(tensor, length), length


def solve(matrix: kinds.operand, rhs: kinds.operand, adjoint: kinds.boolean = False):
    """`tf.linalg.solve`."""
    matrix = _swapped(matrix) if adjoint else matrix
    return ops.linalg.solve(*together(matrix, rhs))


def cross(a: kinds.operand, b: kinds.operand):
    """`tf.linalg.cross`, of three components (`ops.cross` is another on torch)."""
    a, b = together(a, b)

    def turned(x, y):
        one, other = (ops.roll(v, -n, axis=-1) for v, n in ((x, 1), (y, 2)))
        return ops.multiply(one, other)

    return ops.subtract(turned(a, b), turned(b, a))


def _of_matrix(name):
    def function(input: kinds.tensor, adjoint: kinds.boolean = False):
        return getattr(ops.linalg, name)(_swapped(input) if adjoint else input)

    return function


FUNCTIONS = {
    "linalg.diag": diag,
    "linalg.matrix_transpose": matrix_transpose,
    "linalg.normalize": normalize,
    "linalg.solve": solve,
    "linalg.cross": cross,
    "linalg.inv": _of_matrix("inv"),
    "linalg.det": _of_matrix("det"),
    "linalg.cholesky": _of_matrix("cholesky"),
    "linalg.matmul": matmul,
    "linalg.matvec": matvec,
    "tensordot": tensordot,
    "einsum": einsum,
    "linalg.diag_part": diag_part,
    "linalg.trace": trace,
    "linalg.band_part": band_part,
}
