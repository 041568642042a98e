"""What `plan/` asks of the package that rebuilds layers whose classes are missing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from keras_policies._common.types import Config
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.traced_functions import TracedFunctions
from keras_policies.legacy.plan.graph import Arguments
from keras_policies.legacy.plan.report import Report


class Rebuilder(Protocol):
    """Rebuilds the layers of one file from their traced functions."""

    traced: TracedFunctions
    vocabularies: Mapping[int, Vocabulary]  # of traced lookup layers

    def inner(
        self, number: int, layers: Sequence[Config]
    ) -> Iterable[tuple[Config, int | None]]:
        """Return the layers that a model lists, with names and traced numbers."""

    def called_on(self, number: int) -> Sequence[tuple[int | None, ...]]:
        """Return the shapes of the one tensor that a model was called on."""

    def reconstruct(
        self, written: Config, number: int, path: str, called: Arguments | None
    ) -> tuple[Config, Report] | None:
        """Return the program that replaces a layer; None if it has no function.

        `number` is that of the traced layer, 0 for the root, whose `path` is "".
        `called` is what the layer is called on, None if that is not known.
        """
