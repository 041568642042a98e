"""What a conversion finds out about a model, beside the converted config.

The converters in this room are generators. Each yields a `Findings` whenever it finds
something out, and returns what it was asked for, so none of them writes into a value
that somebody else holds:

    config = yield from layers.keras_layer(written, settings)

`collected` runs the outermost converter and merges what all of them have yielded.
"""

import dataclasses
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError

Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result")
Layers: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Findings:
    """What was found out while a model was converted, each with its layer's path.

    Args:
        missing: `{class: layers}`, the classes and functions that nobody knows.
        missing_ops: `{function: layers}`, TensorFlow functions without a counterpart.
        without_vocabulary: `{layer: reason}`, lookup layers that would be empty.
        dtypes: `{layer: dtype as written}`.
        code: `{layer: error}`, Lambda layers whose code is not run, with the reason.
        functions: `{name: function}`, Lambda functions made from code in the file.
        left_out: parts that Keras 3 does not have, nor needs in order to predict.
        notes: what a user should know about a file that this model is saved to.
    """

    missing: Mapping[str, Layers] = dataclasses.field(default_factory=dict)
    missing_ops: Mapping[str, Layers] = dataclasses.field(default_factory=dict)
    without_vocabulary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    dtypes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    code: Mapping[str, LegacyModelError] = dataclasses.field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = dataclasses.field(
        default_factory=dict
    )
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def raise_if_missing(self, path: FilePath) -> None:
        """Raise one error that names everything missing of one kind, with its layers.

        Args:
            path: str or path of the file, for what the error tells the user to do.
        """
        if self.code:
            raise LegacyModelError("\n".join(map(str, self.code.values())))
        if self.missing_ops:
            raise LegacyModelError(
                "TensorFlow functions without a counterpart in keras.ops:\n"
                f"{_listed(self.missing_ops)}",
                remedies.load_weights_into_code(path),
            )
        if self.without_vocabulary:
            lines = (f"  {p!r}: {why}" for p, why in self.without_vocabulary.items())
            raise LegacyModelError(
                "what these layers have learned is missing, so they would be empty:\n"
                + "\n".join(lines)
            )
        if self.missing:
            first = min(self.missing)
            raise LegacyModelError(
                f"classes that Keras 3 does not have:\n{_listed(self.missing)}",
                f"Pass them as custom_objects={{{first!r}: {first}, ...}}, or decorate "
                "them with @keras.saving.register_keras_serializable() and import "
                "them.",
            )


Converting: TypeAlias = Generator[Findings, None, Result]


def collected(converting: Converting[Result]) -> tuple[Result, Findings]:
    """Return what a converter returns, and the `Findings` of all that it yields."""
    parts = []
    while True:
        try:
            parts.append(next(converting))
        except StopIteration as end:
            return end.value, merged(parts)


def merged(parts: Iterable[Findings]) -> Findings:
    """Return one `Findings` that holds what each part holds, in the same order."""
    parts = tuple(parts)
    return Findings(
        missing=_grouped(part.missing for part in parts),
        missing_ops=_grouped(part.missing_ops for part in parts),
        without_vocabulary=_united(part.without_vocabulary for part in parts),
        dtypes=_united(part.dtypes for part in parts),
        code=_united(part.code for part in parts),
        functions=_united(part.functions for part in parts),
        left_out=tuple(text for part in parts for text in part.left_out),
        notes=tuple(text for part in parts for text in part.notes),
    )


def _united(parts: Iterable[Mapping[Key, Value]]) -> dict[Key, Value]:
    return {key: value for part in parts for key, value in part.items()}


def _grouped(parts: Iterable[Mapping[str, Layers]]) -> dict[str, Layers]:
    groups: dict[str, list[str]] = {}
    for part in parts:
        for name, layers in part.items():
            groups.setdefault(name, []).extend(layers)
    return {name: tuple(layers) for name, layers in groups.items()}


def _listed(missing: Mapping[str, Layers]) -> str:
    return "\n".join(
        f"  {name} (layers {', '.join(map(repr, layers))})"
        for name, layers in sorted(missing.items())
    )
