"""The shape of a tensor of the model, with symbolic dimensions.

A length that Keras does not know is traced back to the inputs of the model: the
operation that made the tensor computes its output shape for three sets of prime lengths
of the input axes. If an output axis is the same multiple of input axes each time, that
is its length; others get a dimension of their own.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_policies._common.lazy_keras import keras, keras_internals
from keras_policies._common.types import Tensor
from keras_policies.legacy.base import walks
from keras_policies.legacy.base.errors import UNEXPECTED
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.values import axis_lengths, dims
from keras_policies.legacy.values.dims import AxisLength, DimLike

Shape = tuple[DimLike, ...]
# Sets of lengths that do not occur in models.
PRIMES = (
    (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069),
    (2003, 2011, 2017, 2027, 2029, 2039, 2053, 2063, 2069, 2081, 2083, 2087),
    (5003, 5009, 5011, 5021, 5023, 5039, 5051, 5059, 5077, 5081, 5087, 5099),
)

# The attribute of a symbolic tensor that holds its shape once it is known.
KNOWN = "keras_policies_shape"


def shape_of(tensor: Tensor) -> Shape:
    """Return the shape of a symbolic tensor, with a `Dim` where Keras has None."""

    def unknown(tensor: Tensor) -> list[Tensor]:
        return [other for other in _inputs(tensor) if not hasattr(other, KNOWN)]

    if not hasattr(tensor, KNOWN):
        for current in walks.topological_order([tensor], unknown):
            setattr(current, KNOWN, _shape(current))
    shape: Shape = getattr(tensor, KNOWN)
    return shape


def known_shape(value: Any) -> Shape:
    """Return the shape of a tensor if it was computed before, else ()."""
    shape: Shape = getattr(value, KNOWN, ())
    return shape


def note_shape(tensor: Tensor, shape: Shape) -> Tensor:
    """Return a new tensor whose shape is known but cannot be traced."""
    setattr(tensor, KNOWN, shape)
    return tensor


def _operation(tensor: Tensor) -> "keras.Operation | None":
    operation = keras_internals.maker_of(tensor)
    return None if isinstance(operation, keras.layers.InputLayer) else operation


def _inputs(tensor: Tensor) -> Sequence[Tensor]:
    if None not in tensor.shape or _operation(tensor) is None:
        return []
    return keras_internals.inputs_of(tensor)


def _shape(tensor: Tensor) -> Shape:
    if None not in tensor.shape:
        return tuple(tensor.shape)
    operation, inputs = _operation(tensor), _inputs(tensor)
    lengths: dict[int, DimLike] = {}
    if operation is None:
        lengths = {0: axis_lengths.batch(tensor)}
    elif _keeps_batch(operation) and tensor.shape[0] is None:
        is_only = tensor.shape.count(None) == 1
        lengths = {} if is_only else _traced(tensor, inputs)
        lengths.setdefault(0, shape_of(inputs[0])[0])
    else:
        lengths = _traced(tensor, inputs)
    return tuple(
        axis_lengths.read_from(tensor, axis, lengths.get(axis))
        if length is None
        else length
        for axis, length in enumerate(tensor.shape)
    )


def _keeps_batch(operation: "keras.Operation") -> bool:
    """Return whether an operation is a layer of Keras, and so keeps the batch axis."""
    is_stock = type(operation).__module__.startswith("keras.")
    is_layer = isinstance(operation, keras.Layer)
    return is_stock and is_layer and not isinstance(operation, keras.Model)


def _traced(tensor: Tensor, inputs: Sequence[Tensor]) -> dict[int, DimLike]:
    """Return the lengths of output axes that are multiples of input axes.

    If the operation refuses lengths that are all different, those that meet get the
    same one, as in a sum. Otherwise all axes except the batch get one length, and only
    multiples of the batch are recognised. Otherwise an axis that meets a known length,
    as of a table of positions, has that length or 1.
    """
    shapes = {id(x): shape_of(x) for x in inputs}
    lengths = [n for shape in shapes.values() for n in shape]
    symbolic = [*dict.fromkeys(n for n in lengths if isinstance(n, dims.Dim))]
    sorted_axes = (sorted({*axis_lengths.axes_in(n)}, key=str) for n in symbolic)
    axes = [*dict.fromkeys(itertools.chain.from_iterable(sorted_axes))]
    single = (dims.Dim({(axis,): 1}) for axis in axes)
    symbolic = [*dict.fromkeys([*symbolic, *single])]  # a Reshape may divide 2*batch
    classes, known = _meeting(tensor, shapes.values())
    others = [axis.key for axis in axes if axis.key != dims.BATCH]
    ways: Sequence[Sequence[tuple[Sequence[int], Mapping[Any, Any]]]] = (
        [(primes, {}) for primes in PRIMES],
        [(primes, classes) for primes in PRIMES if classes],
        [(primes, dict.fromkeys(others, primes[1])) for primes in PRIMES],
        [(p, n) for p in PRIMES for n in (known, dict.fromkeys(known, 1)) if known],
    )
    for settings in filter(None, ways):
        try:
            probes = [_probe(tensor, shapes, axes, *setting) for setting in settings]
        except UNEXPECTED:
            continue
        fixed_keys = {key for _, fixed in settings for key in fixed}
        free = [n for n in symbolic if fixed_keys.isdisjoint(_keys(n))]
        rows = [[dims.evaluate(n, sizes) for n in free] for sizes, _ in probes]
        found: dict[int, DimLike] = {}
        for axis in (i for i, length in enumerate(tensor.shape) if length is None):
            multiple = _multiple([output[axis] for _, output in probes], free, rows)
            if multiple is not None:
                found[axis] = multiple
            elif settings[0][1] is classes:
                for key, keys in classes.items():
                    if all(sizes[key] == output[axis] for sizes, output in probes):
                        found[axis] = axis_lengths.meeting(keys, tensor, axis)
        return found
    return {}


def _meeting(
    tensor: Tensor, shapes: Iterable[Shape]
) -> tuple[dict[Any, frozenset[Any]], dict[Any, int]]:
    """Return `{key of an axis: keys of all that it meets}`, and `{key: length met}`."""
    classes: dict[Any, frozenset[Any]] = {}
    known: dict[Any, int] = {}
    columns = itertools.zip_longest(*map(reversed, [tensor.shape, *shapes]))
    for length, *meeting in columns:
        meeting_axes = (n for n in meeting if isinstance(n, dims.Dim))
        keys = {k for n in meeting_axes if axis_lengths.is_axis(n) for k in _keys(n)}
        if length is not None:
            known |= dict.fromkeys(keys, length)
        elif len(keys) > 1 and dims.BATCH not in keys:
            classes |= dict.fromkeys(keys, frozenset(keys))
    if any(classes[key] != each for each in classes.values() for key in each):
        classes = {}  # an axis meets others at two places
    return classes, known


def _probe(
    tensor: Tensor,
    shapes: Mapping[int, Shape],
    axes: Sequence[AxisLength],
    primes: Sequence[int],
    fixed: Mapping[Any, Any],
) -> tuple[dict[Any, int], tuple[int | None, ...]]:
    """Return lengths for the axes, and the output shape that they give.

    `fixed` has the lengths of some axes by key, or the keys of axes they are equal to.
    """
    keys = [axis.key for axis in axes]
    if len(keys) >= len(primes):
        raise ValueError(f"{len(keys)} axes of unknown lengths")
    others = iter(primes[1:])
    lengths = {key: primes[0] if key == dims.BATCH else next(others) for key in keys}
    for key, length in fixed.items():
        is_number = isinstance(length, int)
        lengths[key] = length if is_number else max(lengths[each] for each in length)
    numbers = {
        key: tuple(dims.evaluate(length, lengths) for length in shape)
        for key, shape in shapes.items()
    }
    return lengths, keras_internals.output_shape(tensor, numbers)


def _keys(length: DimLike) -> set[Any]:
    return {axis.key for axis in axis_lengths.axes_in(length)}


def _multiple(
    sizes: Sequence[int | None],
    symbolic: Sequence[dims.Dim],
    values: Sequence[Sequence[int]],
) -> DimLike | None:
    """Return the multiple of a product of dimensions that has all sizes, or None."""
    lengths = [n for n in sizes if n is not None]
    if len(lengths) < len(sizes):
        return None
    for chosen in _choices(len(symbolic)):
        budget.work(budget.ITEM)
        products = [math.prod(row[i] for i in chosen) for row in values]
        times = lengths[0] // products[0] if products[0] else 0
        fits = (times * p == n for n, p in zip(lengths, products, strict=True))
        if times and all(fits):
            return math.prod((symbolic[i] for i in chosen), start=times)
    return None


def _choices(count: int) -> Iterator[tuple[int, ...]]:
    for factors in range(1, limits.DIM_FACTORS + 1):
        yield from itertools.combinations_with_replacement(range(count), factors)
