"""What `plan/` asks of the package that rebuilds layers whose classes are missing."""

from collections.abc import Sequence
from typing import Protocol

from keras_policies._common.types import Config
from keras_policies.legacy.plan.graph import Arguments
from keras_policies.legacy.plan.report import Options, Report


class Rebuilder(Protocol):
    """Rebuilds the layers of one file from their traced functions.

    A traced layer has a number, the root has 0.
    """

    def inner(self, number: int, layers: Sequence[Config]) -> list[int | None]:
        """Return the numbers of the traced layers that a model lists."""

    def with_name(self, layer: Config, number: int | None) -> Config:
        """Return a config with the name that is recorded, if it has none itself."""

    def called_on(self, number: int) -> list[tuple[int | None, ...]]:
        """Return the shapes of the one tensor that a model was called on."""

    def variables(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the variables of a layer."""

    def with_vocabulary(self, options: Options, number: int, path: str) -> Options:
        """Return options with the vocabulary of the lookup layer at a path, if any."""

    def try_reconstruct(
        self, written: Config, number: int, path: str, called: Arguments | None
    ) -> tuple[Config, Report] | None:
        """Return the same as `reconstruct`, but None if anything is missing."""

    def reconstruct(
        self, written: Config, number: int, path: str, called: Arguments | None
    ) -> tuple[Config, Report] | None:
        """Return the program that replaces a layer; None if it has no function.

        `path` is "" for the model. `called` is what the layer is called on, None if
        that is not known.
        """
