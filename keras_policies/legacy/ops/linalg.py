"""`tf.linalg`: products of matrices, their parts, norms, and linear equations."""

import functools
import math
import string
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.array_indexing import scatter_nd
from keras_policies.legacy.ops.array_values import eye
from keras_policies.legacy.ops.converters import Axes, DType, Value, Values
from keras_policies.legacy.ops.math_reductions import euclidean_norm
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, evaluate, ops


def _swapped(x: Any) -> Any:
    return ops.swapaxes(x, -1, -2)


@op(
    "linalg.matmul BatchMatMul|BatchMatMulV2|BatchMatMulV3(a b; adjoint_a=adj_x "
    "adjoint_b=adj_y) MatMul|SparseMatMul(a b; transpose_a transpose_b)"
)
def matmul(
    a: Value,
    b: Value,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    output_type: DType | None = None,
) -> Value:
    """Return the product of matrices; an adjoint of real numbers is a transpose."""
    a = _swapped(a) if transpose_a or adjoint_a else a
    b = _swapped(b) if transpose_b or adjoint_b else b
    return ops.matmul(a, b)


@op("SparseTensorDenseMatMul")
def sparse_matmul(
    indices: Value,
    values: Value,
    shape: tuple[int, ...],
    b: Value,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Value:
    """Return the product of a sparse matrix with a matrix."""
    a = scatter_nd(indices, values, shape)
    return matmul(a, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


@op("linalg.tensordot tensordot")
def tensordot(a: Value, b: Value, axes: Any) -> Value:
    """Return the product along pairs of axes, or along a count of axes."""
    if np.ndim(axes) == 0:
        count, most = converters.integer(axes), computed.rank(a)
        if count > most:
            raise ValueError(f"axes: expected at most {most}, found {count}")
        return ops.tensordot(a, b, axes=count)
    pairs = [np.atleast_1d(converters.axes(each)).tolist() for each in axes]
    count = len(pairs[0])
    if [*map(len, pairs)] != [count, count]:
        raise ValueError(f"axes: expected two lists of one length, found {axes}")
    # With lists, keras.ops.tensordot raises on Python 3.14 (a bool of NotImplemented).
    end = computed.rank(a)
    a = _moved(a, pairs[0], range(end - count, end))
    return ops.tensordot(a, _moved(b, pairs[1], range(count)), axes=count)


def _moved(x: Value, axes: list[int], places: range) -> Value:
    """Move axes to places, unless they are there."""
    rank = computed.rank(x)
    axes = [axis + rank if axis < 0 else axis for axis in axes]
    return x if axes == [*places] else ops.moveaxis(x, tuple(axes), tuple(places))


@op("linalg.einsum einsum Einsum(*inputs; equation)")
def einsum(equation: str, inputs: Values | None = None) -> Value:
    """Return a sum of products; TFOpLambda layers do not record the inputs."""
    if inputs is None:
        raise ValueError("tf.keras did not record the tensors it was called on")
    # Keras requires small letters; its TensorFlow backend writes "BTNH,BSNH->BNTS".
    letters = dict.fromkeys(filter(str.isalpha, equation))
    small = dict(zip(letters, string.ascii_lowercase, strict=False))
    equation = "".join(small.get(letter, letter) for letter in equation)
    return ops.einsum(equation, *inputs)


@op(
    "linalg.diag MatrixDiag(diagonal) MatrixDiagV2|MatrixDiagV3(diagonal k num_rows "
    "num_cols padding_value)"
)
def diag(
    diagonal: Value,
    k: int = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: float = 0,
) -> Value:
    """Return square matrices with given main diagonals."""
    if (k, num_rows, num_cols, padding_value) != (0, -1, -1, 0):
        raise ValueError(f"k: expected the main diagonal, found {k}")
    identity = eye(computed.shape(diagonal)[-1], dtype=dtype_of(diagonal))
    return ops.multiply(ops.expand_dims(diagonal, -1), identity)


@op(
    "linalg.diag_part MatrixDiagPart(input) "
    "MatrixDiagPartV2|MatrixDiagPartV3(input k padding_value)"
)
def diag_part(input: Value, k: int = 0, padding_value: float = 0) -> Value:
    """Return a diagonal of matrices."""
    if _takes_batches():
        return ops.diagonal(input, offset=k, axis1=-2, axis2=-1)
    *batch, rows, columns = computed.shape(input)
    rows, columns = converters.integer(rows), converters.integer(columns)
    places = np.arange(rows * columns).reshape(rows, columns).diagonal(k)
    flat = computed.reshape(input, [*batch, rows * columns])
    return ops.take(flat, places, axis=-1)


@functools.cache
def _takes_batches() -> bool:
    """Return whether Keras infers the shapes of diagonals in batches of unknown size.

    Before 3.15, it asks for a bool of NotImplemented, which Python 3.14 refuses.
    """
    try:
        keras.ops.diagonal(keras.KerasTensor((None, 1, 1)), axis1=-2, axis2=-1)
    except TypeError:
        return False
    return True


@op(
    "linalg.set_diag MatrixSetDiag(input diagonal) "
    "MatrixSetDiagV2|MatrixSetDiagV3(input diagonal k)"
)
def set_diag(input: Value, diagonal: Value, k: int = 0) -> Value:
    """Replace the main diagonal."""
    if k:
        raise ValueError(f"k: expected the main diagonal, found {k}")
    rows, columns = computed.shape(input)[-2:]
    axis = -2 if computed.shape(diagonal)[-1] == columns else -1
    is_on_it = eye(rows, columns, dtype="bool")
    return ops.where(is_on_it, ops.expand_dims(diagonal, axis), input)


@op("linalg.tensor_diag Diag")
def tensor_diag(diagonal: Value) -> Value:
    """Return a tensor of twice the rank that is 0 outside its diagonal."""
    lengths = [*computed.shape(diagonal)]
    flat = diag(computed.reshape(diagonal, [-1]))
    return computed.reshape(flat, lengths + lengths)


@op("linalg.tensor_diag_part DiagPart")
def tensor_diag_part(input: Value) -> Value:
    """Undo `tensor_diag`."""
    lengths = computed.shape(input)[: computed.rank(input) // 2]
    matrix = computed.reshape(input, [math.prod(lengths)] * 2)
    return computed.reshape(ops.diagonal(matrix), lengths)


@op("linalg.band_part MatrixBandPart")
def band_part(input: Value, num_lower: int, num_upper: int) -> Value:
    """Keep some diagonals, and set the rest to 0; negative keeps all on that side."""
    if num_lower >= 0:
        input = ops.triu(input, -num_lower)
    return ops.tril(input, num_upper) if num_upper >= 0 else input


@op("linalg.matrix_transpose linalg.adjoint")
def matrix_transpose(a: Value, conjugate: bool = False) -> Value:
    """Swap the last two axes; no tensor here is complex."""
    return _swapped(a)


@op("linalg.norm norm", v1=True, renamed={"keep_dims": "keepdims"})
def norm(
    tensor: Value,
    ord: object = "euclidean",
    axis: Axes | None = None,
    keepdims: bool = False,
) -> Value:
    """Return the norms of vectors, or of matrices if there are two axes."""
    matrix = axis if isinstance(axis, tuple) and len(axis) == 2 else ()
    if ord in ("euclidean", "fro") or (ord == 2 and not matrix):
        return euclidean_norm(tensor, axis, keepdims)
    order = converters.number(ord)
    size = ops.abs(tensor)
    if matrix and order in (1, np.inf):  # the largest sum of a column, or of a row
        summed, compared = matrix if order == 1 else matrix[::-1]
        sums = ops.sum(size, axis=summed, keepdims=True)
        largest = ops.max(sums, axis=compared, keepdims=True)
        return largest if keepdims else ops.squeeze(largest, matrix)
    if order == np.inf:
        return ops.max(size, axis=axis, keepdims=keepdims)
    if matrix and order == 2:
        raise ValueError("ord: 2, the largest singular value of a matrix")
    powers = size if order == 1 else ops.power(size, order)
    total = ops.sum(powers, axis=axis, keepdims=keepdims)
    return total if order == 1 else ops.power(total, 1 / order)


@op("linalg.normalize")
def normalize(
    tensor: Value, ord: object = "euclidean", axis: Axes | None = None
) -> tuple[Value, Value]:
    """Return vectors of length 1, and their former lengths."""
    length = norm(tensor, ord, axis, keepdims=True)
    return ops.divide(tensor, length), length


@op("linalg.slogdet LogMatrixDeterminant(input;; sign log_abs_determinant)")
def slogdet(input: Value) -> tuple[Value, Value]:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    sign, logarithm = ops.slogdet(input)
    # For a batch, Keras infers the wrong shape () of the signs.
    return ops.multiply(sign, ops.ones_like(logarithm)), logarithm


@op("linalg.solve MatrixSolve")
def solve(matrix: Value, rhs: Value, adjoint: bool = False) -> Value:
    """Solve `matrix · x = rhs`."""
    matrix = _swapped(matrix) if adjoint else matrix
    return evaluate("linalg.solve", matrix, rhs)


@op("linalg.triangular_solve MatrixTriangularSolve")
def triangular_solve(
    matrix: Value, rhs: Value, lower: bool = True, adjoint: bool = False
) -> Value:
    """Solve the same with one triangle of the matrix."""
    matrix = ops.tril(matrix) if lower else ops.triu(matrix)
    return solve(matrix, rhs, adjoint)


def _inverse(input: Any, adjoint: bool = False) -> Any:
    return evaluate("linalg.inv", _swapped(input) if adjoint else input)


@op("linalg.trace")
def trace(x: Value) -> Value:
    """Return the sums of the main diagonals of matrices."""
    if _takes_batches():
        return ops.trace(x, axis1=-2, axis2=-1)
    return ops.sum(diag_part(x), axis=-1)


functions(
    "a b",
    "linalg.matvec: squeeze(matmul(a, expand_dims(b, -1)), -1)",
    # `ops.cross` computes something else on torch.
    "linalg.cross Cross: roll(a, -1, axis=-1) * roll(b, -2, axis=-1)"
    " - roll(b, -1, axis=-1) * roll(a, -2, axis=-1)",
)
functions("input adjoint:bool=False", (_inverse, "linalg.inv MatrixInverse"))
functions(
    "input",
    "linalg.det MatrixDeterminant: linalg.det",
    "linalg.cholesky Cholesky: linalg.cholesky",
)
