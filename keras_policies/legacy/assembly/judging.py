"""Judges whether the outputs of a model are those of a graph, scale by scale.

Large inputs make large outputs, so that examples of one scale are compared by
themselves. Where rounding alone changes a graph's outputs, they may differ more; where
it changes them too much, nothing is compared.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common.comparing import (
    Tolerance,
    largest_of,
    relative_difference,
)
from keras_policies.legacy.assembly.examples import Run
from keras_policies.legacy.base.weights import Array

ROUNDINGS = 4  # times the observed effect of rounding is allowed


class Coverage(NamedTuple):
    """The examples on which a model was compared with its own graph."""

    scales: frozenset[float]  # of normally distributed numbers
    batches: frozenset[int]

    def joined(self, other: "Coverage") -> "Coverage":
        return Coverage(self.scales | other.scales, self.batches | other.batches)

    def __str__(self) -> str:
        batches = " and ".join(map(str, sorted(self.batches)))
        ends = "s"[: len(self.scales) > 1], "es"[: 2 * (len(self.batches) > 1)]
        return f"{len(self.scales)} scale{ends[0]}, batch{ends[1]} of {batches}"


class Part(NamedTuple):
    """The examples of one scale in an output, and how they differ."""

    output: int
    scale: float
    rows: Any  # an index
    largest: float  # what differences are a share of
    share: float

    def __str__(self) -> str:
        at = f", on inputs of the scale {self.scale:g}" if self.scale != 1 else ""
        text = f"other numbers than its own graph (by {self.share:.1g} of the largest)"
        return f"{text} for output {self.output}{at}"


class Verdict(NamedTuple):
    """What was compared, and what differs by more than rounding explains."""

    equal: list[Part]
    wrong: list[Part]


def verdict(
    parts: Iterable[Part], tolerance: Tolerance, noise: Callable[[Part], float]
) -> Verdict:
    """Judge parts; `noise` returns by how much rounding changes one, as a share.

    A part that differs by more than is tolerated at most proves nothing if rounding may
    change it so far.
    """
    found = Verdict([], [])
    for part in parts:
        allowed = tolerance.share
        if not part.share <= allowed:  # NaN is not <= anything
            allowed = max(allowed, ROUNDINGS * noise(part))
        if part.share <= min(allowed, tolerance.most):
            found.equal.append(part)
        elif allowed <= tolerance.most:
            found.wrong.append(part)
    return found


def noise(
    part: Part,
    outputs: Sequence[Any],
    samples: Iterable[Sequence[Any]],
    infinite: Iterable[int],
) -> float:
    """Return by how much the outputs of samples differ in a part, as a share.

    Examples of large numbers for which a graph computes infinity prove nothing.
    """
    rows = [*infinite] if part.rows is ... else np.flatnonzero(part.rows)
    if part.scale != 1 and {*infinite}.intersection(rows):
        return math.inf
    wanted = np.asarray(outputs[part.output])[part.rows]
    numbers = (np.asarray(sample[part.output])[part.rows] for sample in samples)
    shares = [relative_difference(each, wanted, part.largest) for each in numbers]
    return math.inf if any(map(math.isnan, shares)) else max(shares)


def parts(
    run: Run, outputs: list[Array], expected: list[Array], *, overflows: bool
) -> Iterator[Part]:
    """Yield the parts of outputs that can be compared: there, the graph is finite.

    With `overflows`, the model has to be finite, too: in half precision, it may compute
    large numbers on the way that the graph does not have.
    """
    factors = np.resize(run.recipe.scales, run.batch)
    scales = sorted({*factors.tolist()})
    is_scaled = scales != [1.0]
    leaking = {scale for row, scale in enumerate(factors) if row in run.leaks}
    for number, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
        is_by_row = len(scales) > 1 and wanted.ndim > 0 and len(wanted) == run.batch
        rows: list[Any] = [factors == s for s in scales] if is_by_row else [...]
        largest = 0.0
        for scale, each in zip(scales if is_by_row else scales[-1:], rows, strict=True):
            arrays = [wanted[each], actual[each]][: 1 + overflows]
            if scale in leaking and scale != 1:
                continue
            if is_scaled and not all(map(_is_finite, arrays)):
                continue
            if wanted.dtype.kind != "O":
                largest = max(largest, largest_of(wanted[each]))
            share = relative_difference(actual[each], wanted[each], largest)
            yield Part(number, scale, each, largest, share)


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fcV" or bool(np.all(np.isfinite(array)))
