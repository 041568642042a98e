"""Converts Lambda layers: functions by name, and functions as code in the file."""

import builtins
import importlib
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_policies import keras_names
from keras_policies.annotations import Config
from keras_policies.late import keras
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.configs import keras_function
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan import bytecode, classes
from keras_policies.legacy.plan.findings import Converting, Findings, Settings

FUNCTIONS = "function", "mask", "output_shape"
KEPT = "name", "trainable", "arguments"


def arguments(config: Config, settings: Settings, path: str) -> Converting[Config]:
    """Return the arguments of a Lambda layer of Keras 3, all but its dtype.

    A function that the user gives under the layer's name replaces all of its functions.
    """
    kept = {key: config[key] for key in KEPT if key in config}
    own = classes.registered_name(str(config.get("name")))
    if own is not None:
        given = keras_names.registered(own)
        if not callable(given) or isinstance(given, type):
            raise LegacyModelError(
                f"custom_objects has {given!r} for this Lambda layer; expected a "
                "function of the layer's input."
            )
        return {**kept, "function": keras_function(own)}
    for key in FUNCTIONS:
        value, kind = config.get(key), config.get(f"{key}_type")
        found = yield from _function(value, kind, settings.safe_mode, path)
        if found is not None:
            kept[key] = found
    return kept


def _function(value: Any, kind: Any, safe_mode: bool, path: str) -> Converting[Any]:
    """Return what a function in a config becomes, or None if there is none."""
    if isinstance(value, dict) and value.get("class_name") == "__lambda__":
        inner = value.get("config") or {}
        value = [inner.get("code"), inner.get("defaults"), inner.get("closure")]
        kind = "lambda"
    elif isinstance(value, dict) and value.get("class_name") == "function":
        value, kind = value.get("config"), "function"
    if kind == "lambda":
        return (yield from _code(value, safe_mode, path))
    if value is None or kind == "raw" or not isinstance(value, str):
        return value
    known = classes.registered_name(value)
    if known is None:
        yield Findings(missing=((value, path),))
    return keras_function(known or value)


def _code(value: Any, safe_mode: bool, path: str) -> Converting[Config | None]:
    """Return the reference to a function that is code in the file, or None.

    Code that cannot run is an error only once the model is built.
    """
    name = f"<lambda of {path}>"
    try:
        yield Findings(functions={name: _compiled(value, safe_mode)})
    except LegacyModelError as error:
        remedy = (
            f"{error.remedy} To replace the code, write the function anew and pass it "
            f"as custom_objects={{{path!r}: function}} (--custom-objects "
            f"{path}=module:function)."
        )
        refused = LegacyModelError(error.reason, remedy.lstrip(), layer=path)
        yield Findings(code={path: refused})
        return None
    return keras_function(name)


def _compiled(value: Any, safe_mode: bool) -> Callable[..., Any]:
    """Return the function; raise LegacyModelError if it must not or cannot run."""
    text, defaults, closure = value if isinstance(value, list | tuple) else [None] * 3
    if safe_mode:
        versions = bytecode.versions(text)
        by = f" that Python {versions} compiled" if versions else ""
        raise LegacyModelError(
            f"this Lambda layer holds code{by}, which is not run from a file.",
            remedies.TRUST if bytecode.runs_here(versions) else "",
        )
    code = bytecode.load(text)
    if closure or code.co_freevars:
        raise LegacyModelError(
            f"this Lambda layer takes {', '.join(code.co_freevars)} from the function "
            "around it, which the file does not hold."
        )
    known = _globals(bytecode.global_names(code))
    return types.FunctionType(code, known, "<lambda>", tuple(defaults or ()) or None)


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
            f"Pass custom_objects={{{missing[0]!r}: ...}}.",
        )
    return found
