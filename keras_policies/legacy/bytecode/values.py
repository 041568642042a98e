"""A compiled function, and the values that it computes with."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.programs import Argument, Given, StepOutput
from keras_policies.legacy.guards import budget, limits

# Keys of the tables in `instructions.py`, and the versions that each stands for.
VERSIONS = {
    "2.7": "2.7",
    "3.5": "3.5 or earlier",
    "3.6": "3.6 or 3.7",
    "3.8": "3.8 or 3.9",
    "3.10": "3.10",
    "3.11": "3.11",
    "3.12": "3.12",
}


@dataclasses.dataclass(frozen=True)
class Code:
    """A compiled function."""

    python: str  # the key in `VERSIONS` of the Python that compiled it
    name: str  # `"<lambda>"` for most
    arguments: int  # the number of positional parameters
    keyword_only: int  # the number of keyword-only parameters
    flags: int  # bits; see `has_rest`
    instructions: bytes
    constants: tuple[object, ...]  # with the `Code` of functions inside the function
    names: tuple[str, ...]  # of globals and attributes
    # Of variables, the parameters first; from Python 3.11 on, with the two below.
    local: tuple[str, ...]
    cells: tuple[str, ...]  # variables that inner functions share
    free: tuple[str, ...]  # variables of the function around it

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters, without `*args` and `**kwargs`."""
        return self.local[: self.arguments + self.keyword_only]

    @property
    def has_rest(self) -> bool:
        """Return whether it takes `*args` or `**kwargs`, or is a generator."""
        return bool(self.flags & (0x04 | 0x08 | 0x20 | 0x80 | 0x200))


@dataclasses.dataclass(frozen=True)
class Name:
    """A module or something in it, `"keras.backend.sum"`."""

    path: str


@dataclasses.dataclass(frozen=True)
class Method:
    """An attribute that is called: `x.get_shape`."""

    owner: Any
    name: str


@dataclasses.dataclass(eq=False)
class Cell:
    """A variable that functions share."""

    value: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function whose code is in the file."""

    code: Code
    defaults: tuple[Any, ...] = ()
    keyword_defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    closure: tuple[Cell, ...] = ()


def parts(value: Any) -> Iterable[Any]:
    """Return the values directly inside a value."""
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    return ()


def check_size(value: Any) -> None:
    """Raise LegacyModelError if a value is larger than the limits of this module."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        count += 1
        if isinstance(item, int) and item.bit_length() > limits.CODE_BITS:
            reason = f"its code computes a number of {limits.CODE_BITS} bits."
            raise LegacyModelError(reason)
        if isinstance(item, str | bytes) and len(item) > limits.CODE_CHARACTERS:
            raise LegacyModelError(f"its code has a text of {len(item)} characters.")
        waiting += parts(item)
        if count + len(waiting) > limits.CODE_ITEMS:
            reason = f"its code builds more than {limits.CODE_ITEMS} values."
            raise LegacyModelError(reason)
    budget.work(count * budget.ITEM)


NOT_PLAIN = Argument | StepOutput | Name | Method | Given | Function | Cell | Code


def is_known(value: Any) -> bool:
    """Return whether a value, and all in it, is a plain one."""
    if isinstance(value, NOT_PLAIN):
        return False
    return all(map(is_known, parts(value)))


def plain(value: Any) -> Any:
    """Return a value from JSON as code has it: with tuples instead of lists."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
