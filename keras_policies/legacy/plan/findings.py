"""The `Settings` that hold for a conversion, and the `Findings` that it returns.

The converters in this room are generators. Each yields a `Findings` whenever it finds
something out, and returns what it was asked for, so none of them writes into a
value that somebody else holds:

    found = yield from classes.keras_class(class_name, path)
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from keras_policies.annotations import PolicyLike
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.plan import policies

Result = TypeVar("Result")
Named: TypeAlias = tuple[tuple[str, str], ...]  # (name, path of the layer)


@dataclass(frozen=True)
class Settings:
    """Choices that hold for all layers of a conversion.

    `replace` is `(name, policy)`: layers whose policy has this name get that policy.
    """

    safe_mode: bool = True  # refuses code in the file, and files that it names
    replace: tuple[str, PolicyLike] | None = None
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)

    def policy_of(self, written: Any) -> PolicyLike | None:
        """Return what a `dtype` becomes, or raise ValueError if it is no policy."""
        if self.replace is not None and policy_name(written) == self.replace[0]:
            return self.replace[1]
        return policies.plain(written)


@dataclass(frozen=True)
class Findings:
    """Findings about a model; each layer is given by its path.

    Args:
        missing: `((class or function, layer), ...)`, those that nobody knows.
        missing_ops: the same for TensorFlow functions without a counterpart.
        without_vocabulary: `{layer: reason}`, lookup layers that would be empty.
        dtypes: `{layer: dtype as written}`.
        models: paths of the Sequential and Functional models inside the model.
        code: `{layer: error}`, Lambda layers whose code is not run, with the reason.
        functions: `{name: function}`, Lambda functions made from code in the file.
        rebuilt: `{layer: from what}`, layers made of what the file records of them.
        left_out: parts that Keras 3 does not have, and does not need to predict.
        notes: what a user should know about a file that this model is saved to.
    """

    missing: Named = ()
    missing_ops: Named = ()
    without_vocabulary: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    code: Mapping[str, LegacyModelError] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    rebuilt: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def raise_if_missing(self, path: FilePath) -> None:
        """Raise one error that names everything missing of one kind, with its layers.

        The remedy names the file at `path`.
        """
        if len(self.code) == 1:
            raise next(iter(self.code.values()))
        if self.code:
            raise LegacyModelError("\n".join(map(str, self.code.values())))
        if self.missing_ops:
            raise LegacyModelError(
                "TensorFlow functions without a counterpart in keras.ops:\n"
                + _listed(self.missing_ops),
                remedies.load_weights_into_code(path),
            )
        if self.without_vocabulary:
            lines = (f"  {p!r}: {why}" for p, why in self.without_vocabulary.items())
            raise LegacyModelError(
                "what these layers have learned is missing, so they would be empty:\n"
                + "\n".join(lines)
            )
        if self.missing:
            first, _ = min(self.missing)
            raise LegacyModelError(
                f"classes that Keras 3 does not have:\n{_listed(self.missing)}",
                f"Pass them as custom_objects={{{first!r}: {first}, ...}}, or decorate "
                "them with @keras.saving.register_keras_serializable() and import "
                "them.",
            )


def _listed(named: Named) -> str:
    return "\n".join(
        f"  {name} (layers {', '.join(repr(p) for n, p in named if n == name)})"
        for name in sorted({name for name, _ in named})
    )


Converting: TypeAlias = Generator[Findings, None, Result]


def collected(converting: Converting[Result]) -> tuple[Result, Findings]:
    """Return what a converter returns, and the `Findings` of all that it yields."""
    parts = [Findings()]
    while True:
        try:
            parts.append(next(converting))
        except StopIteration as end:
            fields = zip(*(vars(part).values() for part in parts), strict=True)
            return end.value, Findings(*map(_joined, fields))


def _joined(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(item for value in values for item in value)
    return {key: item for value in values for key, item in value.items()}
