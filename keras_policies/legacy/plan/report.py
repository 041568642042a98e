"""The `Options` of a conversion, its `Report`, and the `Rebuilder` of layers.

The converters in this package are generators. Each yields a `Report` of what it found
out, and returns the converted value, so that none of them changes a value that
another one holds:

    cls = yield from classes.keras_class(class_name, path)
"""

import collections
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from keras_policies._common.text import cut, one_line
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import policy_name
from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.traced_functions import LOOPS, TracedFunctions
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan import policies

LIST = "TensorList"
AS_TEXT, AS_NUMBER = "AsString", "_Number"  # which stands for it if texts are numbers
# Part of the name of an op or function, in small letters -> why it has no counterpart.
REASONS = {
    "as_?string": "makes texts of numbers",
    "multinomial|random": (
        "chooses by random numbers, which Keras draws in training only"
    ),
    "ragged|sparse_?(add|concat|fill|reorder|reshape|slice|tensor)": (
        "takes or returns a sparse or ragged tensor; Keras 3 passes dense tensors"
    ),
}
BACKENDS = "jax", "tensorflow", "torch"
Result = TypeVar("Result")
Named: TypeAlias = tuple[tuple[str, str], ...]  # (name, path of the layer)


@dataclass(frozen=True)
class Options:
    """Choices that hold for all layers of a conversion."""

    safe_mode: bool = True  # refuses code in the file, and files that it names
    # `(name, policy)`: layers whose policy has this name get that policy.
    replace: tuple[str, PolicyLike] | None = None
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    reconstructs: bool = True  # layers whose classes are missing
    # Whether a look-up of texts by numbers gives texts; otherwise it gives the numbers.
    keeps_texts: bool = True
    signature: str | None = None  # the function that the model itself becomes
    # Classes that are not Keras's in this file, though their names are.
    namesakes: frozenset[str] = frozenset()
    is_disproved: bool = False  # whether only outputs showed that they are not
    by_function: bool = False  # whether the model becomes its function, not its config
    backends: tuple[str, ...] = BACKENDS  # on which plain Keras has to compute the same
    texts_outside: bool = False  # whether the model is left without layers of texts
    # Shapes of inputs whose sizes or ranks the file leaves open, by name.
    input_shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def policy_of(self, written: Any) -> PolicyLike | None:
        """Return what a `dtype` becomes, or raise ValueError if it is not a policy."""
        if self.replace is not None and policy_name(written) == self.replace[0]:
            return self.replace[1]
        return policies.plain(written)


@dataclass(frozen=True)
class Reconstruction:
    """A layer that was rebuilt from its traced function."""

    class_name: str  # its class, which is missing
    variables: tuple[int, ...]  # the numbers of its variables
    steps: int = 0  # of its program
    texts: tuple[str, ...] = ()  # the layers in it whose texts are outputs of the model
    is_less: bool = False  # whether it did more in training
    moved: tuple[int, ...] = ()  # the variables that it moved, and that are constants
    loses_gradients: bool = False  # whether gradients of its own are not kept
    loses_losses: bool = False  # whether it added losses that cannot be had
    layers: tuple[Config, ...] = ()  # those in it, as tf.keras would write them
    # Of these, by their names.
    parameters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """Findings about a model; each layer is given by its path."""

    missing: Named = ()  # classes and functions that nobody knows
    missing_ops: Named = ()  # TensorFlow functions without a counterpart
    # Lookup layers that would be empty, each with the reason.
    without_vocabulary: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)  # of layers, as written
    models: tuple[str, ...] = ()  # paths of the models inside the model
    # Lambda layers whose code is not run, and functions made from code, by name.
    code: Mapping[str, LegacyModelError] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    # What a layer was rebuilt from, by its path: "its bytecode".
    rebuilt: Mapping[str, str] = field(default_factory=dict)
    # What Keras 3 lacks and does not need to predict.
    not_converted: tuple[str, ...] = ()
    loss_only: tuple[str, ...] = ()  # paths of layers that only led to an added loss
    notes: tuple[str, ...] = ()  # about a file that this model is saved to
    activations: Named = ()  # layers that are the activation of another one
    reconstructions: Mapping[str, Reconstruction] = field(default_factory=dict)
    # The numbers of the variables that layers hold: in programs, and elsewhere.
    in_programs: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    texts_inside: tuple[str, ...] = ()  # ops that write texts which other ops take

    @property
    def is_lacking(self) -> bool:
        """bool, whether a class or a function is missing, or code is not run."""
        return bool(self.missing or self.missing_ops or self.code)

    @property
    def is_unusable(self) -> bool:
        """bool, whether nothing can be built, because of what is missing."""
        return self.is_lacking or bool(self.without_vocabulary)

    @property
    def replaced_variables(self) -> set[int]:
        """The variables of replaced layers that only programs hold now."""
        rebuilt = self.reconstructions.values()
        replaced = {number for layer in rebuilt for number in layer.variables}
        return replaced.difference(self.elsewhere)

    def raise_if_missing(self, path: FilePath, has_missing: bool = False) -> None:
        """Raise an error that names everything missing of one kind, with its layers.

        `has_missing` says whether layers of missing classes were rebuilt.
        """
        if len(self.code) == 1:
            raise next(iter(self.code.values()))
        if self.code:
            reason = "\n".join(cut([*map(str, self.code.values())]))
            opens_if = all(each.opens_if for each in self.code.values())
            raise LegacyModelError(reason, code="KP304", opens_if=opens_if)
        if self.missing_ops:
            names = {name for name, _ in self.missing_ops}
            has_loop = not names.isdisjoint(LOOPS)
            # The lists of a loop cannot be there without it.
            lists = {name for name in names if has_loop and name.startswith(LIST)}
            reason = "TensorFlow functions without a counterpart in keras.ops:\n"
            others = [op for op in self.missing_ops if op[0] not in lists]
            reason += _listed(others, REASONS)
            if has_loop:
                reason += (
                    "\nThe file does not say how many rounds a While has, and it is "
                    "not the loop of an LSTM, GRU or SimpleRNN of Keras. If it goes "
                    f"over an input of any length, pass {hints.INPUT_SHAPES} with its "
                    "length: then its rounds become layers. In place of tf.map_fn over "
                    "the batch, use tf.vectorized_map."
                )
            if names == {AS_TEXT} and not self.texts_inside:
                reason += (
                    f"\n{AS_TEXT} writes numbers as texts. Pass {hints.NUMBERS} for "
                    "the numbers, if the texts are returned and not looked up."
                )
            hint = hints.load_weights_into_code(path)
            raise LegacyModelError(
                reason, hints.GIVE_LOST_CLASSES if has_missing else hint, code="KP302"
            )
        if self.without_vocabulary:
            lines = [f"{p!r}: {why}" for p, why in self.without_vocabulary.items()]
            raise LegacyModelError(
                "what these layers have learned is missing, so they would be empty:\n  "
                + "\n  ".join(cut(lines)),
                code="KP305",
            )
        if self.missing:
            first = _short(min(self.missing)[0])
            raise LegacyModelError(
                f"classes that Keras 3 does not have:\n{_listed(self.missing)}",
                f"Pass them: {hints.custom_object(first)}. {hints.REGISTERED}",
                code="KP301",
                opens_if=True,
            )


def _short(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= limits.TOLD_NAME else f"{name[: limits.TOLD_NAME]}…"


def _listed(
    named: Sequence[tuple[str, str]], reasons: Mapping[str, str] | None = None
) -> str:
    """Return a line for each name, with its layers and with the reasons that fit it."""
    layers = collections.defaultdict[str, list[str]](list)
    for name, layer in named:
        layers[name].append(repr(layer))
    lines = []
    for x in sorted(layers):
        found = [w for p, w in (reasons or {}).items() if re.search(p, x.lower())]
        told = "".join(f": it {why}" for why in found)
        lines.append(f"{_short(x)} (layers {', '.join(cut(layers[x]))}){told}")
    return "  " + "\n  ".join(cut(lines))


Converting: TypeAlias = Generator[Report, None, Result]
Converted: TypeAlias = Converting[Config]


def joined(parts: Sequence[Report]) -> Report:
    """Return all `Report` in one."""
    fields = zip(*(vars(part).values() for part in parts), strict=True)
    return Report(*map(_joined, fields))


def _joined(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(item for value in values for item in value)
    return {key: item for value in values for key, item in value.items()}


class Arguments(NamedTuple):
    """What a layer is called on."""

    tensors: int  # those of all arguments
    first: int | list[str]  # those of the first argument, the keys of a dict


class Rebuilder(Protocol):
    """Rebuilds the layers of one file from their traced functions."""

    traced: TracedFunctions
    vocabularies: Mapping[int, Vocabulary]  # of traced lookup layers

    def reconstruct(
        self, written: Config, number: int, path: str, called: Arguments | None
    ) -> tuple[Config, Report] | None:
        """Return the program that replaces a layer; None if it has no function.

        `number` is that of the traced layer, 0 for the root, whose `path` is "".
        `called` is what the layer is called on, None if that is not known.
        """
