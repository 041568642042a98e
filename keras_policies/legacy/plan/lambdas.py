"""Converts Lambda layers: functions by name, and functions as code in the file."""

import builtins
import importlib
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from keras_policies import keras_names
from keras_policies.annotations import Config
from keras_policies.late import keras
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import keras_function
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.bytecode.follow import follow
from keras_policies.legacy.bytecode.values import VERSIONS, Program
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import bytecode, classes
from keras_policies.legacy.plan.report import Converting, Options, Report

# Code as it is written, its defaults, and the values of its closure.
Held: TypeAlias = tuple[Any, Any, Any]
FUNCTIONS = "function", "mask", "output_shape"
KEPT = "name", "trainable", "arguments"


def rebuilt(config: Config, path: str) -> Converting[Program | None]:
    """Return what the function of a Lambda layer does, if its code can be followed.

    None if the user gives a function in its place, if it has one by name, and if its
    code is not understood, of which `arguments` tells.
    """
    if classes.registered_name(str(config.get("name"))) is not None:
        return None
    held = _held(config.get("function"), config.get("function_type"))
    if held is None or _held(config.get("mask"), config.get("mask_type")) is not None:
        return None
    try:
        program = _program(held, config.get("arguments"))
    except LimitError:
        raise
    except LegacyModelError:
        return None
    yield Report(rebuilt={path: "its bytecode"})
    return program


def _held(value: Any, kind: Any) -> Held | None:
    """Return code in a config, its defaults and its closure, or None if it has none."""
    if isinstance(value, dict) and value.get("class_name") == "__lambda__":
        inner = value.get("config") or {}
        return inner.get("code"), inner.get("defaults"), inner.get("closure")
    if kind != "lambda":
        return None
    parts = [*value] if isinstance(value, list | tuple) else []
    code, defaults, closure, *_ = parts + [None] * 3
    return code, defaults, closure


def _program(held: Held, arguments: Any) -> Program:
    """Return what code does, or raise LegacyModelError if it is not understood."""
    text, defaults, closure = held
    given = {key: _array(value) for key, value in (arguments or {}).items()}
    return follow(bytecode.read(text), given, defaults or (), closure or ())


def _array(value: Any) -> Any:
    """Return an argument; Keras writes an array as a dict."""
    if isinstance(value, dict) and value.get("type") == "ndarray":
        found = np.asarray(value.get("value"))
        budget.spend(found.size, 8)
        return found
    return value


def arguments(config: Config, options: Options, path: str) -> Converting[Config]:
    """Return the arguments of a Lambda layer of Keras 3, all but its dtype.

    A function that the user gives under the layer's name replaces all of its functions.
    """
    kept = {key: config[key] for key in KEPT if key in config}
    own = classes.registered_name(str(config.get("name")))
    if own is not None:
        given = keras_names.registered(own)
        if not callable(given) or isinstance(given, type):
            raise LegacyModelError(
                f"{given!r} is given for this Lambda layer; expected a function of the "
                "layer's input."
            )
        return {**kept, "function": keras_function(own)}
    for key in FUNCTIONS:
        value, kind = config.get(key), config.get(f"{key}_type")
        given = config.get("arguments")
        found = yield from _function(value, kind, given, options.safe_mode, path)
        if found is not None:
            kept[key] = found
    return kept


def _function(
    value: Any, kind: Any, arguments: Any, safe_mode: bool, path: str
) -> Converting[Any]:
    """Return what a function in a config becomes, or None if there is none."""
    held = _held(value, kind)
    if held is not None:
        return (yield from _code(held, arguments, safe_mode, path))
    if isinstance(value, dict) and value.get("class_name") == "function":
        value, kind = value.get("config"), "function"
    if value is None or kind == "raw" or not isinstance(value, str):
        return value
    known = classes.registered_name(value)
    if known is None:
        yield Report(missing=((value, path),))
    return keras_function(known or value)


def _code(
    held: Held, arguments: Any, safe_mode: bool, path: str
) -> Converting[Config | None]:
    """Return the reference to a function that is code in the file, or None.

    Code that cannot run is an error only once the model is built.
    """
    name = f"<lambda of {path}>"
    try:
        yield Report(functions={name: _compiled(held, arguments, safe_mode)})
    except LegacyModelError as error:
        hint = (
            f"{error.hint} To replace the code, write the function anew and pass "
            f"{hints.custom_object(path, 'function')}."
        )
        refused = LegacyModelError(error.reason, hint.lstrip(), layer=path)
        yield Report(code={path: refused})
        return None
    return keras_function(name)


def _compiled(held: Held, arguments: Any, safe_mode: bool) -> Callable[..., Any]:
    """Return the function; raise LegacyModelError if it must not or cannot run."""
    text, defaults, closure = held
    if safe_mode:
        raise _refused(held, arguments)
    code = bytecode.load(text)
    if closure or code.co_freevars:
        raise LegacyModelError(
            f"this Lambda layer takes {', '.join(code.co_freevars)} from the function "
            "around it, which the file does not hold."
        )
    known = _globals(bytecode.global_names(code))
    return types.FunctionType(code, known, "<lambda>", tuple(defaults or ()) or None)


def _refused(held: Held, arguments: Any) -> LegacyModelError:
    """Return the error that says why code is neither run nor followed."""
    try:
        python = bytecode.read(held[0]).python
    except LegacyModelError as error:
        return error
    reason = f"this Lambda layer holds code that Python {VERSIONS[python]} compiled, "
    hint = hints.TRUST if bytecode.runs_here(python) else ""
    try:
        _program(held, arguments)
    except LegacyModelError as error:
        reason += f"which is not run from a file. {error.reason[:1].upper()}"
        return LegacyModelError(f"{reason}{error.reason[1:]}", hint)
    return LegacyModelError(f"{reason}for its mask, which is not followed.", hint)


def _globals(names: Iterable[str]) -> dict[str, Any]:
    """Return the objects that the code's global names stand for, the user's first."""
    known = {"np": np, "numpy": np, "keras": keras}
    if keras.backend.backend() == "tensorflow":
        tensorflow = importlib.import_module("tensorflow")
        known |= {"tf": tensorflow, "tensorflow": tensorflow}
    found: dict[str, Any] = {"__builtins__": builtins}
    missing = []
    for name in names:
        custom = keras_names.registered(name)
        if custom is not None or name in known:
            found[name] = known[name] if custom is None else custom
        elif not hasattr(builtins, name):
            missing.append(name)
    if missing:
        raise LegacyModelError(
            f"this Lambda layer uses {', '.join(missing)}, which the file does not "
            "hold.",
            f"Pass {hints.custom_object(missing[0])}.",
        )
    return found
