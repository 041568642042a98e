"""Tells the user about the layers that were rebuilt from their traced functions."""

import collections
import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence

from keras_policies.legacy.base import hints
from keras_policies.legacy.base.outcomes import LeftOut, Outcome
from keras_policies.legacy.base.traced_functions import (
    FLOATS,
    NO_CLASS,
    TracedFunctions,
)
from keras_policies.legacy.plan import classes
from keras_policies.legacy.plan.report import Report


@dataclasses.dataclass(frozen=True)
class ReconstructionSummary:
    """The rebuilt layers of a model, and how they differ from the original ones."""

    # `{path of a rebuilt layer: its class}`; `""` is the model itself.
    layers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Of these, the paths whose class in Keras computes something else.
    contradicted: tuple[str, ...] = ()
    # The names of the variables that no inference function reads.
    unused: tuple[str, ...] = ()
    # The names of the variables that several of its layers hold now.
    copied: tuple[str, ...] = ()
    depth: int = 0  # the steps of the largest rebuilt layer
    texts: tuple[str, ...] = ()  # the layers whose texts are outputs of the model
    # The paths of layers that did more in training, and the names of the variables
    # that they moved.
    trained_otherwise: Mapping[str, Sequence[str]] = dataclasses.field(
        default_factory=dict
    )
    # The paths of layers with gradients of their own, which are not kept.
    own_gradients: tuple[str, ...] = ()
    # The paths of layers whose added losses cannot be had.
    without_losses: tuple[str, ...] = ()

    def parts(self, *, is_disproved: bool) -> Iterator[LeftOut]:
        """Yield how the rebuilt layers differ from the original ones.

        `is_disproved` says whether only the outputs showed what contradicts its class.
        """
        if not self.layers:
            return
        rebuilt = " ".join(self._rebuilt(is_disproved))
        yield LeftOut(rebuilt, "KP609")
        different = {
            "what these layers did in training was not all recognized; they train as "
            "the layers of Keras that replace them": [
                *map(self._less, self.trained_otherwise)
            ],
            "these layers had a gradient of their own, and train with the gradient of "
            "their formula": [_named([path]) for path in self.own_gradients],
        }
        for what, names in different.items():
            if names:
                yield LeftOut(f"{what}: {', '.join(names)}", "KP605")
        if self.without_losses:
            yield LeftOut(
                "these layers added losses by ops without a counterpart in Keras 3, "
                "and the model trains without them: "
                f"{_named(self.without_losses)}",
                "KP604",
            )
        if self.unused:
            unused = f"no inference function reads them: {', '.join(self.unused)}"
            yield LeftOut(unused, "KP607", Outcome.TRAINS_DIFFERENTLY)
        if self.copied:
            yield LeftOut(
                "several of these layers shared these weights, and each copy now "
                f"trains by itself: {', '.join(self.copied)}",
                "KP606",
            )

    def _rebuilt(self, is_disproved: bool) -> Iterator[str]:
        missing = [path for path in self.layers if path not in self.contradicted]
        if missing:
            yield (
                "the classes of these layers are not to be found, so they were rebuilt "
                f"from the functions in the file: {_named(missing, self.layers)}."
            )
        if self.contradicted:
            yield (
                "the file's own graph computes something else than the configs of "
                "these layers, or of some of them (a call was replaced, or a class "
                "only shares its name with a Keras class), so they were all rebuilt "
                f"from the graph: {_named(self.contradicted, self.layers)}."
            )
            if is_disproved:
                yield f"{hints.UNVERIFIED} uses the configs instead."
        yield (
            "They train with the recorded dropout, losses and regularizers. Random "
            "numbers are only drawn in training; in inference, their mean is used."
        )
        if without := {*self.layers.values()} - {NO_CLASS, *classes.GRAPHS}:
            first = min(without, key=lambda x: (classes.is_in("keras.layers", x), x))
            yield f"To use a class, pass {hints.custom_object(first)}."

    def _less(self, path: str) -> str:
        """Return the name of a layer, with the variables that it moved."""
        moved = ", ".join(self.trained_otherwise[path])
        told = (
            f" (it assigned {moved}, which only an optimizer changes now)"
            if moved
            else ""
        )
        return f"{_named([path])}{told}"


def _named(paths: Sequence[str], class_names: Mapping[str, str] | None = None) -> str:
    """Return the paths in a row, each with the name of its class if that is given."""
    return ", ".join(
        (repr(path) if path else "the model itself")
        + (f" ({class_names[path]})" if class_names else "")
        for path in paths
    )


def summary(
    report: Report, traced: TracedFunctions | None, namesakes: Container[str] = ()
) -> ReconstructionSummary:
    """Return the summary of the rebuilt layers of a file."""
    rebuilt = report.reconstructions
    if traced is None or not rebuilt:
        return ReconstructionSummary()
    count = collections.Counter(report.in_programs + report.elsewhere)
    variables, names = traced.layers[0].variables, traced.variables
    # Read as constants.
    read = {n for n in variables if names[n].dtype.name not in FLOATS}
    return ReconstructionSummary(
        layers={path: layer.class_name for path, layer in rebuilt.items()},
        contradicted=tuple(p for p, r in rebuilt.items() if r.class_name in namesakes),
        unused=tuple(names[n].name for n in variables if n not in {*count, *read}),
        copied=tuple(names[n].name for n in count if count[n] > 1 and n in names),
        depth=max(layer.steps for layer in rebuilt.values()),
        texts=tuple(text for layer in rebuilt.values() for text in layer.texts),
        trained_otherwise={
            path: [names[number].name for number in layer.moved]
            for path, layer in rebuilt.items()
            if layer.is_less
        },
        own_gradients=tuple(p for p, r in rebuilt.items() if r.loses_gradients),
        without_losses=tuple(p for p, layer in rebuilt.items() if layer.loses_losses),
    )
