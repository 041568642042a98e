"""Draws examples of inputs, compares outputs, and says how far these may differ.

Every comparison of this package uses it: of a SavedModel with its own graph, of a model
with recorded outputs, with its source code, or with another model.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Tolerance(NamedTuple):
    """How far outputs may differ, as a share of the largest number."""

    share: float  # allowed of any model
    most: float  # allowed where rounding is seen to change the model's outputs so far


# Dtype that a layer computes in -> its tolerance. Beyond `most`, nothing is compared.
TOLERANCES = {
    # 23 bits: thousands of numbers are added in another order.
    "float32": Tolerance(1e-4, 1e-2),
    # What GPUs multiply float32 with: 10 bits, but sums are float32.
    "tensorfloat32": Tolerance(1e-3, 1e-2),
    # 10 bits: a few layers, each of which rounds its outputs; at most, a hundred.
    "float16": Tolerance(1e-2, 1e-1),
    # 7 bits: the same.
    "bfloat16": Tolerance(5e-2, 2e-1),
}

SEED = 0
SCALES = 1.0, 30.0, 1000.0  # of normally distributed inputs: small ones bend nothing
FEW, MANY = 2, 5  # examples in a batch of unknown size: nothing may depend on it
# Scales of many examples: the last three have padding, of which a large one of masked
# scores is not the same in all releases of Keras.
ROWS = 30.0, 1000.0, 1.0, 1.0, 1.0
# Lengths of unknown axes, in turn. They are tried in this order, because some models
# need equal ones, others long ones.
LENGTHS = (5, 7, 6, 8, 9), (6,), (32,), (64,), (224,)
# Integers below these are tried, then those below the length of a table.
BOUNDS = {"uint8": 256, "int8": 100}
# Lengths of unknown axes in a second batch, by those in the first.
OTHER_LENGTHS: dict[tuple[int, ...], tuple[int, ...]] = {
    **{(5, 7, 6, 8, 9): (6, 8, 5, 7, 9), (6,): (8,)},
    **{(32,): (64,), (64,): (96,), (224,): (256,)},
}
BOUND = 12
# Networks halve the sides of images five times, and pad what is odd. So they pad sides
# with the same remainder of 32 alike.
HALVED = 32
FLOATS = "bfloat16", "float16", "float32", "float64"
UNKNOWN = b"?"  # a text that is not in any table
SHARE_OF_KEYS = 0.7  # of the inputs if the model has lookup tables
PADDING = -1.0, 0.0  # the last vectors of the last sequence
MASK = 0, 1  # the range of a mask of integers
PADDED = 2  # words at the end of a sequence


class Spec(Protocol):
    """An input of a model: a symbolic tensor, or its shape and dtype alone."""

    @property
    def shape(self) -> Sequence[int | None] | None: ...
    @property
    def dtype(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What to draw for the inputs of a model.

    Example:
        >>> (x,) = draw([keras.Input((None, 3))], Recipe(lengths=(4,)))
        >>> x.shape
        (2, 4, 3)
    """

    batch: int = FEW  # of unknown size
    lengths: tuple[int, ...] = LENGTHS[0]  # of unknown axes, in turn
    bound: int | None = None  # numbers are integers below it
    side: int | None = (
        None  # to which longer fixed sides of images are shortened, about
    )
    # Keys of lookup tables, by dtype, of which most inputs are drawn.
    keys: Mapping[str, Sequence[Any]] = dataclasses.field(
        default_factory=lambda: {"string": [UNKNOWN]}
    )
    scales: tuple[float, ...] = SCALES[:1]  # of the examples, in turn
    # By number of the input: the lowest and the highest integer, and numbers that are
    # among the drawn ones.
    ranges: Mapping[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    points: Mapping[int, Sequence[float]] = dataclasses.field(default_factory=dict)


def recipes(specs: Iterable[Spec]) -> Iterator[Recipe]:
    """Yield recipes in the order to try them: not all inputs suit every model."""
    is_fixed = all(None not in (spec.shape or ())[1:] for spec in specs)
    for bound, lengths in itertools.product((None, 2), LENGTHS[: 1 if is_fixed else 5]):
        yield Recipe(lengths=lengths, bound=bound)


def shapes(specs: Sequence[Spec], recipe: Recipe) -> list[tuple[int, ...]]:
    """Return the shapes of the arrays that `draw` returns."""
    sizes = itertools.cycle(recipe.lengths)
    found = []
    for spec in specs:
        batch, *rest = spec.shape or [1]
        if recipe.side and spec.dtype in FLOATS:
            rest[:-1] = [n and _shorter(n, recipe.side) for n in rest[:-1]]
        shape = [n if n is not None else next(sizes) for n in rest]
        full = recipe.batch if batch is None else batch, *shape
        found.append(full if spec.shape else ())
    return found


def _shorter(side: int, least: int) -> int:
    """Return the smallest side from `least` on that networks pad like this one."""
    return min(side, least + (side - least) % HALVED)


def draw(specs: Sequence[Spec], recipe: Recipe) -> list[Array]:
    """Return seeded inputs.

    Sequences have padding, which layers mask: sequences of vectors end with it; for
    those of words, see `_pad`.
    """
    random = np.random.default_rng(SEED)
    keys, bound, inputs = recipe.keys, recipe.bound, []
    for number, shape in enumerate(shapes(specs, recipe)):
        spec, limits = specs[number], recipe.ranges.get(number)
        is_whole = _is_whole(spec.dtype, bound) or limits is not None
        drawn = _random(random, spec.dtype, shape, bound, limits)
        if shape and drawn.dtype.kind not in "biuO" and not is_whole:
            factors = np.resize(recipe.scales, shape[0])
            drawn *= factors.reshape(-1, *[1] * (len(shape) - 1)).astype(drawn.dtype)
        if spec.dtype in FLOATS and len(shape) > 2 and shape[0] > 1 and shape[1] > 2:
            vectors = np.reshape(PADDING, (-1, *[1] * (len(shape) - 2)))
            drawn[-1, -len(PADDING) :] = vectors
        if keys.get(spec.dtype) and (bound is None or spec.dtype == "string"):
            chosen = random.choice(np.array(keys[spec.dtype], drawn.dtype), shape)
            drawn = np.where(random.random(shape) < SHARE_OF_KEYS, chosen, drawn)
        if is_whole and len(shape) > 1:
            _pad(drawn)
        if len(shape) > 1 and shape[0] >= MANY:
            _show_ends(drawn, limits)
        _plant(drawn, recipe.points.get(number, ()))
        inputs.append(drawn)
    return inputs


def _is_whole(dtype: str, bound: int | None) -> bool:
    """Return whether inputs of a dtype are integers or texts."""
    is_whole = dtype == "string" or "int" in dtype
    return is_whole or (bound is not None and dtype != "bool")


def _pad(words: Array) -> None:
    """Put padding, 0 or "", into the last three rows of words, but not into the first.

    The last row ends with padding, the one before is all padding, and the one before
    that begins with it and repeats one word, so that no number is the largest.
    """
    none = b"" if words.dtype.kind == "O" else 0
    rows = words[:0:-1] if len(words) > 1 else words
    is_long = words.shape[1] > PADDED
    for kind, row in enumerate(rows[:3]):
        if kind == 1:
            row[:] = none
        elif kind == 0 and is_long:
            row[-PADDED:] = none
        elif is_long:
            row[PADDED:] = np.max(row[PADDED:])
            row[:PADDED] = none


def _show_ends(drawn: Array, limits: tuple[int, int] | None) -> None:
    """Give the second example the ends of a range. Masks begin with 1 in both first."""
    if drawn.dtype.kind == "b":
        drawn[:2, 0] = True
    elif limits is not None:
        drawn[0 if limits == MASK else 1 : 2] = np.resize(limits[::-1], drawn.shape[1:])


def _plant(drawn: Array, points: Sequence[float]) -> None:
    """Put points at every other place of an array, or at all of one with few places."""
    places = drawn.reshape(-1)[:: 1 if drawn.size <= 2 * len(points) else 2]
    if len(points):
        places[:] = np.resize(np.asarray(points), len(places)).astype(drawn.dtype)


def _random(
    random: np.random.Generator,
    dtype: str,
    shape: Sequence[int],
    bound: int | None,
    limits: tuple[int, int] | None,
) -> Array:
    if limits is not None:
        return random.integers(limits[0], limits[1] + 1, shape).astype(dtype)
    if dtype == "bool":
        return random.random(shape) < 0.7
    if dtype == "string":
        return np.full(shape, UNKNOWN, object)
    if bound is None and not dtype.startswith(("int", "uint")):
        drawn = random.standard_normal(shape).astype(dtype)
        if len(shape) > 1:  # opposite signs: a ReLU gives zeros for one of two examples
            drawn[1::2] = -drawn[: len(drawn) // 2 * 2 : 2] / 2
        return drawn
    most = BOUNDS.get(dtype, BOUND) if bound is None else bound
    return random.integers(0, most, shape).astype(dtype)


def tolerance(dtypes: Iterable[str]) -> Tolerance:
    """Return the tolerance of a model whose layers compute in these dtypes.

    Integers and texts are exact, and float64 is compared as float32.
    """
    return max(
        (TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES),
        default=TOLERANCES["float32"],
    )


def tolerance_here(dtypes: Iterable[str]) -> Tolerance:
    """Return the tolerance for two models that are called on this machine."""
    is_exact = rounding_of_products() < TOLERANCES["float32"].share
    return tolerance([*dtypes, "float32" if is_exact else "tensorfloat32"])


def relative_difference(
    actual: Array, expected: Array, largest: float | None = None
) -> float:
    """Return the largest difference as a share of the largest expected number.

    It is infinite if shapes, integers or texts differ, or if one is complex. Numbers in
    place of texts count as equal, and NaN equals NaN. `largest` replaces the number
    that the difference is divided by.
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
    largest = largest_of(wanted) if largest is None else largest
    return float(np.max(difference, initial=0) / (largest or 1.0))


def largest_of(array: Array) -> float:
    """Return the largest finite number of an array, without its sign."""
    numbers = np.abs(array.astype("float64"))
    return float(np.max(numbers, initial=0, where=np.isfinite(numbers)))


@functools.cache
def rounding_of_products() -> float:
    """Return the error of a product of float32 matrices, as a share of the largest."""
    random = np.random.default_rng(SEED)
    x = random.standard_normal((64, 64)).astype("float32")
    product = keras.ops.convert_to_numpy(keras.ops.matmul(x, x))
    return relative_difference(product, np.matmul(x, x, dtype="float64"))
