"""Lambda layers: functions by name, of the user, or code in the file."""

import builtins
import importlib
import types

import keras
import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan import bytecode, classes

FUNCTIONS = "function", "mask", "output_shape"
SETTINGS = "name", "trainable", "arguments"


def convert(config, conversion, path):
    """Return the settings of a Lambda layer of Keras 3, but for its dtype.

    A function that the user gives under the layer's name takes the place of all.

    Args:
        config: dict, as written.
        conversion: `layers.Conversion`; is told the functions.
        path: str, the layer.

    Code that is not to be run, that another Python compiled, or that names what is not
    known is noted in the conversion.
    """
    kept = {key: config[key] for key in SETTINGS if key in config}
    own = classes.registered_name(str(config.get("name")))
    if own is not None:
        return {**kept, "function": _reference(_checked(own, conversion, path))}
    for key in FUNCTIONS:
        found = _function(key, config, conversion, path)
        if found is not None:
            kept[key] = found
    return kept


def _reference(name):
    known = {"module": "builtins", "class_name": "function", "config": name}
    return {**known, "registered_name": name}


def _checked(name, conversion, path):
    given = keras.saving.get_registered_object(name)
    if not callable(given) or isinstance(given, type):
        raise LegacyModelError(
            f"{conversion.path}: custom_objects has {given!r} for the Lambda layer "
            f"{path!r}; expected a function of the layer's input."
        )
    return name


def _function(key, config, conversion, path):
    """Return what a function in a config becomes, or None if there is none."""
    value, kind = config.get(key), config.get(f"{key}_type")
    if isinstance(value, dict) and value.get("class_name") == "__lambda__":
        inner = value.get("config") or {}
        value = [inner.get("code"), inner.get("defaults"), inner.get("closure")]
        kind = "lambda"
    elif isinstance(value, dict) and value.get("class_name") == "function":
        value, kind = value.get("config"), "function"
    if kind == "lambda":
        return _code(value, conversion, path)
    if value is None or kind == "raw" or not isinstance(value, str):
        return value
    if classes.registered_name(value) is None:
        conversion.missing.setdefault(value, []).append(path)
    return _reference(classes.registered_name(value) or value)


def _code(value, conversion, path):
    """Return the reference to a function that is code in the file, or None.

    What cannot be run here is an error only once the model is to be built.
    """
    try:
        return _run_code(value, conversion, path)
    except LegacyModelError as error:
        conversion.code[path] = str(error)
        return None


def instead(path):
    """Return how a function takes the place of a Lambda layer's code, in words."""
    return (
        f"write the function anew, and pass it as custom_objects={{{path!r}: "
        f"function}} (--custom-objects {path}=module:function)."
    )


def _run_code(value, conversion, path):
    where = f"{conversion.path}: the Lambda layer {path!r}"
    text, defaults, closure = value if isinstance(value, list | tuple) else [None] * 3
    if conversion.safe_mode:
        versions = bytecode.versions(text)
        can = "Write"
        if bytecode.runs_here(versions):
            can = (
                "If you trust where it came from, pass safe_mode=False (--unsafe), "
                "which runs it; or write"
            )
        by = f" that Python {versions} compiled" if versions else ""
        raise LegacyModelError(
            f"{where} holds code{by}, which is not run from a file. "
            f"{can}{instead(path).removeprefix('write')}"
        )
    code = bytecode.load(text, where, instead(path))
    if closure or code.co_freevars:
        names = ", ".join(code.co_freevars)
        raise LegacyModelError(
            f"{where} takes {names} from the function around it: {instead(path)}"
        )
    known = _globals(bytecode.global_names(code), where, path)
    function = types.FunctionType(
        code, known, "<lambda>", tuple(defaults or ()) or None
    )
    name = f"<lambda of {path}>"
    conversion.functions[name] = function
    return _reference(name)


def _globals(names, where, path):
    """Return what the code's global names stand for: the user's objects first."""
    found, missing = {"__builtins__": builtins}, []
    for name in names:
        custom = keras.saving.get_registered_object(name)
        if custom is not None:
            found[name] = custom
        elif name in ("np", "numpy"):
            found[name] = np
        elif name == "keras":
            found[name] = keras
        elif name in ("tf", "tensorflow") and _has_tensorflow():
            found[name] = importlib.import_module("tensorflow")
        elif not hasattr(builtins, name):
            missing.append(name)
    if missing:
        raise LegacyModelError(
            f"{where} uses {', '.join(missing)}, which the file does not hold. Pass "
            f"custom_objects={{{missing[0]!r}: ...}}; or {instead(path)}"
        )
    return found


def _has_tensorflow():
    """Return whether TensorFlow is the backend: its functions take no other tensors."""
    return keras.backend.backend() == "tensorflow"
