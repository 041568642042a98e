"""Runs a `Program` on tensors of a model: its calls become nodes of `keras.ops`."""

from typing import Any

from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError
from keras_policies.legacy.bytecode import names, values
from keras_policies.legacy.bytecode.values import Call, Given, Program, Ref


def run(program: Program, inputs: Any) -> Any:
    """Return what the function returns for a KerasTensor, or a tuple of them.

    Raises:
        LegacyModelError: if `keras.ops` has no counterpart for one of its calls.
    """
    results = [tuple(inputs) if isinstance(inputs, list) else inputs]
    for call in program.calls:
        args = _filled(call.args, results)
        kwargs = {key: _filled(value, results) for key, value in call.kwargs.items()}
        try:
            if isinstance(call.function, Given):
                results.append(call.function.function(*args, **kwargs))
            else:
                found = names.run(call.function, args, kwargs)
                values.check_size(found)
                results.append(found)
        except LegacyModelError:
            raise
        except UNEXPECTED as error:
            raise LegacyModelError(
                f"its code calls {_described(call)} in a way that keras.ops has no "
                f"counterpart for: {error}."
            ) from error
    return _filled(program.result, results)


def _filled(value: Any, results: list[Any]) -> Any:
    """Return a value with results instead of the `Ref`s in it."""
    if isinstance(value, Ref):
        return results[value.number]
    if isinstance(value, tuple):
        return tuple(_filled(item, results) for item in value)
    if isinstance(value, dict):
        return {key: _filled(item, results) for key, item in value.items()}
    if isinstance(value, slice):
        bounds = value.start, value.stop, value.step
        return slice(*(_filled(bound, results) for bound in bounds))
    return value


def _described(call: Call) -> str:
    """Return what a user calls the function of a call."""
    if isinstance(call.function, Given):
        return repr(call.function.function)
    name = call.function.removeprefix("python.")
    is_operator = name in ("attribute", "binary", "method", "unary")
    return (
        repr(next(a for a in call.args if isinstance(a, str))) if is_operator else name
    )
