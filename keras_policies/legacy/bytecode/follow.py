"""Follows the instructions of a function without running it, on symbols for values.

Constants are computed on the way, so that a branch on them is one path. What is not
known stays a value of the program, and a function that would be called with it
becomes a step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError
from keras_policies.legacy.base.programs import (
    Argument,
    FunctionStep,
    Given,
    Program,
    StepOutput,
)
from keras_policies.legacy.bytecode import machine, program, values
from keras_policies.legacy.bytecode.values import (
    VERSIONS,
    Cell,
    Code,
    Function,
    Method,
    Name,
)
from keras_policies.legacy.guards import budget, limits

# Attributes of tensors and shapes that are values, and those that are methods.
PROPERTIES = {"shape", "dtype", "ndim", "T", "ndims", "rank", "value", "base_dtype"}
PROPERTIES |= {"values", "indices"}  # of `tf.nn.top_k`
METHODS = "get_shape", "as_list"
# Functions of `keras.backend` that return a setting, with that of tf.keras.
SETTINGS = {
    "keras.backend.backend": "tensorflow",
    "keras.backend.epsilon": 1e-7,
    "keras.backend.floatx": "float32",
    "keras.backend.image_data_format": "channels_last",
    "keras.backend.image_dim_ordering": "tf",
}


class NotUnderstoodError(ValueError):
    """The code does something that is not supported; the message names it."""


def follow(
    code: Code,
    arguments: Mapping[str, Any],
    defaults: Sequence[Any] = (),
    closure: Sequence[Any] = (),
) -> Program:
    """Return the program of a function; `arguments` are those behind the input."""
    cells = tuple(Cell(values.plain(value)) for value in closure)
    function = Function(code, tuple(map(values.plain, defaults)), {}, cells)
    plain = {name: values.plain(value) for name, value in arguments.items()}
    follower = Follower()
    try:
        result = follower.call(function, (Argument(0),), plain)
        result = follower.program_value(result)
    except LegacyModelError:
        raise
    except UNEXPECTED as error:
        what = error if isinstance(error, ValueError) else f"something unknown: {error}"
        raise LegacyModelError(
            f"its code, which Python {VERSIONS[code.python]} compiled, uses {what}."
        ) from error
    return Program(tuple(follower.steps), result)


class Follower(machine.Follower):
    """The steps found so far, and how many instructions were followed."""

    def __init__(self) -> None:
        self.steps: list[FunctionStep] = []
        self.followed = 0
        self.depth = 0

    def step(self) -> None:
        """Count an instruction; raise LegacyModelError if they are too many."""
        self.followed += 1
        budget.work(budget.STEP)
        if self.followed > limits.CODE_STEPS:
            reason = f"its code takes more than {limits.CODE_STEPS} steps."
            raise LegacyModelError(reason)

    def program_value(self, value: Any, depth: int = 0) -> Any:
        """Return a value that a program can hold, or raise ValueError."""
        if depth > limits.CODE_DEPTH:
            raise LegacyModelError(f"its code nests {limits.CODE_DEPTH} values.")
        if isinstance(value, Name):
            value = program.constant(value)
        if isinstance(value, Name | Method | Given | Function | Cell | Code):
            raise NotUnderstoodError(f"{_described(value)} as a value")
        if isinstance(value, tuple):
            return tuple(self.program_value(part, depth + 1) for part in value)
        for part in values.parts(value):
            self.program_value(part, depth + 1)
        return value

    def emit(self, function: str | Given, *args: Any, **kwargs: Any) -> Any:
        positional = self.program_value(args)
        named = {key: self.program_value(value) for key, value in kwargs.items()}
        values.check_size((positional, named))
        is_python = isinstance(function, str) and function.startswith("python.")
        if is_python and values.is_known((positional, named)):
            result = program.call(str(function), positional, named)
            values.check_size(result)
            return result
        budget.work(budget.OP)
        self.steps.append(FunctionStep(function, positional, named))
        return StepOutput(len(self.steps) - 1)

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Name):
            return program.attribute(owner, name)
        is_value = not isinstance(owner, Function | Method | Given)
        if name in METHODS and is_value:
            return Method(owner, name)
        if name in PROPERTIES and is_value:
            return self.emit("python.attribute", owner, name)
        # Those of a user's function would lead to all that Python can do.
        raise NotUnderstoodError(f"the attribute {name!r} of {_described(owner)}")

    def call(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        if isinstance(function, Function):
            return self._inside(function, args, kwargs)
        if isinstance(function, Method):
            if args or kwargs:
                raise NotUnderstoodError(f"{function.name} with arguments")
            return self.emit("python.method", function.owner, function.name)
        if isinstance(function, Given):
            return self.emit(function, *args, **kwargs)
        if not isinstance(function, Name):
            raise NotUnderstoodError(f"a call of {_described(function)}")
        if function.path in SETTINGS:
            return SETTINGS[function.path]
        return self.emit(program.function(function), *args, **kwargs)

    def _inside(
        self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Follow a function whose code is in the file."""
        self.depth += 1
        if self.depth > limits.CODE_CALLS:
            reason = f"its code calls {limits.CODE_CALLS} functions in a row."
            raise LegacyModelError(reason)
        local = bound(function, args, kwargs)
        result = machine.Frame(self, function, local).run()
        self.depth -= 1
        return result


def bound(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the local variables at the start of a call."""
    code = function.code
    if code.has_rest:
        raise NotUnderstoodError("a generator, or a function with * or ** parameters")
    positional = code.parameters[: code.arguments]
    if len(args) > len(positional) or kwargs.keys() - {*code.parameters}:
        raise NotUnderstoodError(f"arguments that {code.name!r} does not take")
    first = len(positional) - len(function.defaults)
    local = dict(zip(positional[max(first, 0) :], function.defaults, strict=False))
    local |= function.keyword_defaults
    local |= dict(zip(positional, args, strict=False))
    local |= kwargs
    missing = [name for name in code.parameters if name not in local]
    if missing:
        reason = f"the parameter {missing[0]!r}, for which none is given"
        raise NotUnderstoodError(reason)
    return local


def _described(value: Any) -> str:
    """Describe a value for an error message."""
    if isinstance(value, Name):
        return repr(value.path)
    if isinstance(value, Method):
        return f"the method {value.name!r}"
    if isinstance(value, Function | Given | Code):
        return "a function"
    if isinstance(value, Argument | StepOutput):
        return "a value that is computed"
    return f"{value!r:.80}"
