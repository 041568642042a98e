"""Seeded inputs for comparing a model with the graph in its file, or with itself."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.traced_functions import (
    FLOATS,
    Nest,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget

SEED = 0
EXAMPLES = 2  # in a batch of unknown size
EXAMPLES_OF_WORDS = 4  # of integers or texts: see `_pad`
# Lengths of unknown axes, in turn. They are tried in this order, because some models
# need equal ones, others long ones.
LENGTHS = (5, 7, 6, 8, 9), (6,), (32,), (64,), (224,)
# Integers below these are tried, then those below the length of a table.
BOUNDS = {"uint8": 256, "int8": 100}
BOUND = 12
UNKNOWN = b"?"  # a text that is not in any table
SHARE_OF_KEYS = 0.7  # of the inputs if the model has lookup tables
KEYS = 1000  # of each table that inputs are drawn from
PADDING = -1.0, 0.0  # the last vectors of the last sequence
PADDED = 2  # words at the end of a sequence


class Example(NamedTuple):
    """Inputs of a model, and the expected outputs."""

    inputs: Nest
    outputs: list[Array]
    allowed: list[float]  # difference of each output, as a share of the largest number


def example(model: keras.Model, allowed: float, size: int) -> Example | None:
    """Return seeded inputs and the model's outputs, or None if no inputs were found.

    `size` is that of its file in bytes, which has to explain what the model computes.
    """
    tensors = getattr(model, "inputs", None) or []
    specs = [TensorSpec(tuple(x.shape), x.dtype) for x in tensors]
    is_fixed = all(None not in (spec.shape or ())[1:] for spec in specs)
    for bound, lengths in itertools.product((None, 2), LENGTHS[: 1 if is_fixed else 5]):
        try:
            with budget.anew(size):
                arrays = inputs(specs, lengths, bound, {"string": [UNKNOWN]})
                nest = keras.tree.pack_sequence_as(getattr(model, "input", 0), arrays)
                charge(model, arrays, size)
                outputs = backend.outputs(model, nest)
        except LimitError:
            return None
        except Exception:  # layers raise any error for unsuitable inputs
            continue
        return Example(nest, outputs, [allowed] * len(outputs))
    return None


def charge(model: keras.Model, inputs: Sequence[Array], size: int) -> None:
    """Raise LimitError if a model computes more than the size of its file explains."""
    longest = max((n for x in inputs for n in np.shape(x)), default=1)
    with budget.anew(size):
        for shape in keras_internals.shapes_in(model):
            length = math.prod(longest if n is None else n for n in shape)
            budget.spend(length)
            budget.free(4 * length)


def keys_of(traced: TracedFunctions) -> dict[str, list[Any]]:
    """Return keys of a file's tables, and an unknown text, by dtype."""
    keys: dict[str, list[Any]] = {"string": [UNKNOWN], "int64": []}
    for table in traced.tables.values():
        if table is not None:
            dtype = "string" if table.keys.dtype.kind == "O" else "int64"
            keys[dtype] += table.keys[:KEYS].tolist()
    return keys


def inputs(
    specs: Sequence[TensorSpec],
    lengths: Sequence[int],
    bound: int | None,
    keys: Mapping[str, Sequence[Any]],
) -> list[Array]:
    """Return seeded inputs for specs, some of which are keys of tables.

    With a `bound`, they are integers below it. Sequences have padding, which layers
    mask: sequences of vectors end with it; for those of words, see `_pad`.
    """
    random, sizes = np.random.default_rng(SEED), itertools.cycle(lengths)
    inputs = []
    words = [_is_whole(spec.dtype, bound) for spec in specs]
    examples = EXAMPLES_OF_WORDS if any(words) else EXAMPLES
    for spec, is_words in zip(specs, words, strict=True):
        batch, *rest = spec.shape or [1]
        shape = [n if n is not None else next(sizes) for n in rest]
        shape = [examples if batch is None else batch, *shape] if spec.shape else []
        budget.spend(float(np.prod(np.asarray(shape, "float64"))))
        drawn = _random(random, spec.dtype, shape, bound)
        if spec.dtype in FLOATS and len(shape) > 2 and shape[0] > 1 and shape[1] > 2:
            vectors = np.reshape(PADDING, (-1, *[1] * (len(shape) - 2)))
            drawn[-1, -len(PADDING) :] = vectors
        if keys.get(spec.dtype) and (bound is None or spec.dtype == "string"):
            chosen = random.choice(np.array(keys[spec.dtype], drawn.dtype), shape)
            drawn = np.where(random.random(shape) < SHARE_OF_KEYS, chosen, drawn)
        if is_words and len(shape) > 1:
            _pad(drawn)
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


def _random(
    random: np.random.Generator, dtype: str, shape: Sequence[int], bound: int | None
) -> Array:
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
