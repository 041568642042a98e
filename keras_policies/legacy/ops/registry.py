"""The decorator `op`, which enters TensorFlow functions into the table."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from keras_policies.legacy.ops import complex_pairs, kinds

Function = TypeVar("Function", bound=Callable[..., Any])

# Parameters that say how TensorFlow computes and never change the result.
WITHOUT_EFFECT = {
    *("a_is_sparse", "b_is_sparse", "name", "partition_strategy", "stable"),
    *("use_cudnn_on_gpu", "validate_indices", "validate_shape"),
}


@dataclasses.dataclass
class Op:
    """A TensorFlow function, as `keras.ops`."""

    name: str  # in TensorFlow, without "tf."; "" if only graphs have it
    function: Callable[..., Any]  # each parameter annotated with one of `kinds`
    renamed: Mapping[str, str]  # other names of parameters, `{"keep_dims": "keepdims"}`

    def __post_init__(self) -> None:
        self.signature = inspect.signature(self.function)
        self.checks = kinds.checks(self.function)

    def call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """Call the function as TensorFlow does; a ValueError names a wrong argument."""
        try:
            bound = self.signature.bind(*args, **self._known(kwargs))
        except TypeError as error:
            raise ValueError(str(error)) from error
        rule = complex_pairs.RULES.get(self.name)
        if rule is not None and complex_pairs.among(bound.arguments.values()):
            return rule(self._of_real, bound.arguments)
        given = {}
        for name, value in bound.arguments.items():
            if value is None:  # tf.keras records None for what was not given
                continue
            try:
                given[name] = self.checks[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return self.function(**given)

    def _of_real(self, **kwargs: object) -> Any:
        return self.call((), kwargs)

    def _known(self, kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return keyword arguments under our names, without those of no effect."""
        return {
            key if key in self.checks else self.renamed.get(key, key): value
            for key, value in kwargs.items()
            if key in self.checks or not (value is None or key in WITHOUT_EFFECT)
        }


@dataclasses.dataclass(frozen=True)
class Raw:
    """How a node of a TensorFlow graph calls a function: tensorflow/core/ops/*.cc."""

    # The parameters that the node's inputs are, in their order, separated by blanks. A
    # first `"*values"` takes all inputs but those named after it.
    inputs: str
    # The parameters that the node's attributes set, separated by blanks: `"axis"`, or
    # `"dtype=T"` where the attribute has another name.
    attributes: str = ""
    # The names of its outputs if there are several, separated by blanks. A single one
    # needs no name, and may be a list.
    outputs: str = ""

    def position(self, output: str, index: int) -> int:
        """Return which of the function's results is an item of an output."""
        names = self.outputs.split()
        return index + (names.index(output) if output in names else 0)

    def parameters(self) -> dict[str, str]:
        """Return `{parameter: name of the attribute that sets it}`."""
        pairs = (text.partition("=") for text in self.attributes.split())
        return {name: attribute or name for name, _, attribute in pairs}

    def arguments(self, values: Sequence[object]) -> dict[str, object]:
        """Return the inputs by parameter; raise ValueError if their number is wrong."""
        names, given, values = self.inputs.split(), {}, list(values)
        if names[0].startswith("*"):
            end = len(values) - len(names) + 1
            given[names.pop(0)[1:]] = values[:end]
            values = values[end:]
        if len(names) != len(values):
            raise ValueError(f"expected the inputs {names}, found {len(values)} values")
        return {**given, **dict(zip(names, values, strict=True))}


# Name in TensorFlow, without "tf." -> its function.
FUNCTIONS: dict[str, Op] = {}
# Name of an op in a graph -> its function, and how the node calls it.
NODES: dict[str, tuple[Op, Raw]] = {}


def enter(entry: Op, names: Sequence[str], raw: Mapping[str, Raw]) -> None:
    """Enter a function into the table; see `op`."""
    twice = FUNCTIONS.keys() & names or NODES.keys() & raw
    if twice:
        raise ValueError(f"{sorted(twice)} are in the table already")
    FUNCTIONS.update(dict.fromkeys(names, entry))
    NODES.update({name: (entry, form) for name, form in raw.items()})


def op(
    *names: str, v1: bool = False, renamed: Mapping[str, str] | None = None, **raw: Raw
) -> Callable[[Function], Function]:
    """Return a decorator that enters a function into the table.

    Args:
        names: the names of the function in TensorFlow, without `"tf."`. The first gives
            the module that it belongs to.
        v1: whether these names are in `tf.compat.v1`, too, with the same parameters.
        renamed: other names of its parameters, `{"dim": "axis"}`.
        raw: the ops by which nodes of a graph call it, and how.
    """

    def decorate(function: Function) -> Function:
        known = [*names, *(f"compat.v1.{name}" for name in names if v1)]
        name = next(iter(known), "")
        enter(Op(name, function, renamed or {}), known, raw)
        return function

    return decorate
