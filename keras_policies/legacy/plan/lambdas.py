"""Converts Lambda layers: functions by name, and functions as code in the file.

Keras wrote `marshal.dumps(function.__code__)`, in base64 since 2.1, as a text with a
character for each byte before. Source: keras/utils/generic_utils.py, `func_dump`.
"""

import base64
import binascii
import builtins
import contextlib
import dis
import importlib
import marshal
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import keras_function
from keras_policies.legacy.base.errors import LegacyModelError, attempt
from keras_policies.legacy.base.programs import (
    Argument,
    FunctionStep,
    Program,
    StepOutput,
)
from keras_policies.legacy.bytecode import marshalled
from keras_policies.legacy.bytecode import program as programs
from keras_policies.legacy.bytecode.follow import follow
from keras_policies.legacy.bytecode.values import VERSIONS, Code, Name, plain
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import classes
from keras_policies.legacy.plan.report import Converting, Options, Report

# Modules of TensorFlow, and where Lambdas find what they define.
OWN_MODULES = {
    "tensorflow.python.ops.": "tf",
    "tensorflow_core.python.ops.": "tf",
    "tensorflow.python.keras.backend": "keras.backend",
    "tensorflow_core.python.keras.backend": "keras.backend",
    "keras.backend": "keras.backend",
}
CODE = b"c\xe3"  # the first byte of a marshalled code object, one of these


def read(text: Any) -> Code:
    """Return the code in a text, or raise LegacyModelError if it holds none."""
    return marshalled.read(_bytes(text))


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str) or not text:
        reason = f"corrupt: its code: expected a text, found {str(text)[:80]!r}."
        raise LegacyModelError(reason)
    if ord(text[0]) in CODE and "\0" in text:  # base64 of code begins with "4" or "Y"
        try:
            return text.encode("raw_unicode_escape")
        except UnicodeError as error:
            raise LegacyModelError("corrupt: its code is not a text.") from error
    try:
        return base64.b64decode(text.encode("ascii", "ignore"))
    except binascii.Error as error:
        raise LegacyModelError(f"corrupt: its code: {error}.") from error


def runs_here(python: str) -> bool:
    """Return whether the running Python compiled code, by a key in `VERSIONS`."""
    return python in ("3.10", "3.11") and python == _here()


def _here() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def load(text: Any) -> types.CodeType:
    """Return the code object in a text, or raise LegacyModelError if it cannot run."""
    python = read(text).python
    if not runs_here(python):
        raise LegacyModelError(
            f"this Lambda layer holds code that Python {VERSIONS[python]} compiled, "
            f"which this Python {_here()} cannot run."
        )
    try:
        code = marshal.loads(_bytes(text))
    except (EOFError, TypeError, ValueError) as error:
        raise LegacyModelError(f"corrupt: its code: {error}.") from error
    if not isinstance(code, types.CodeType):
        raise LegacyModelError("corrupt: its code is not a code object.")
    return code


def global_names(code: types.CodeType) -> list[str]:
    """Return the names that code looks up outside of itself, sorted."""
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    loads = "LOAD_GLOBAL", "LOAD_NAME"
    names = {x.argval for x in dis.get_instructions(code) if x.opname in loads}
    return sorted(names.union(*map(global_names, inner)))


# Code as it is written, its defaults, and the values of its closure.
WrittenCode: TypeAlias = tuple[Any, Any, Any]
FUNCTIONS = "function", "mask", "output_shape"
KEPT = "name", "trainable", "arguments"


def program_of(config: Config) -> Program | None:
    """Return the program of a Lambda layer whose code can be followed, or None.

    It is None if the user passes a function in its place, if it names a function, and
    if its code is not understood; then `arguments` reports why.
    """
    if classes.registered_name(str(config.get("name"))) is not None:
        return None
    written = _written_code(config.get("function"), config.get("function_type"))
    mask = _written_code(config.get("mask"), config.get("mask_type"))
    if written is None or mask is not None:
        return None
    with attempt(LegacyModelError):
        program = _tensorflow_program(written, config)
        return program or _program(written, config.get("arguments"))
    return None


def _written_code(value: Any, kind: Any) -> WrittenCode | None:
    """Return code in a config, its defaults and its closure, or None if it has none."""
    if isinstance(value, dict) and value.get("class_name") == "__lambda__":
        inner = value.get("config") or {}
        return inner.get("code"), inner.get("defaults"), inner.get("closure")
    if kind != "lambda":
        return None
    parts = [*value] if isinstance(value, list | tuple) else []
    code, defaults, closure, *_ = parts + [None] * 3
    return code, defaults, closure


def _tensorflow_program(written: WrittenCode, config: Config) -> Program | None:
    """Return a call of TensorFlow's own function, `Lambda(tf.nn.relu)`, if it is one.

    The config names the module of the function, and its code the function. A decorator
    takes any arguments, and has the function in its closure, by its name.
    """
    module, (text, _, closure) = str(config.get("module")), written
    root = next((r for start, r in OWN_MODULES.items() if module.startswith(start)), "")
    if not root:
        return None
    code = read(text)
    names = {*closure} if code.has_rest and closure else {code.name}
    with contextlib.suppress(ValueError):
        (name,) = {str(each).removesuffix("_v2") for each in names}
        function = programs.function(Name(f"{root}.{name}"))
        arguments = config.get("arguments") or {}
        kwargs = {key: plain(_array(value)) for key, value in arguments.items()}
        return Program((FunctionStep(function, (Argument(0),), kwargs),), StepOutput(0))
    return None


def _program(written: WrittenCode, arguments: Any) -> Program:
    text, defaults, closure = written
    constants = {key: _array(value) for key, value in (arguments or {}).items()}
    return follow(read(text), constants, defaults or (), closure or ())


def _array(value: Any) -> Any:
    """Return an argument; Keras writes an array as a dict."""
    if isinstance(value, dict) and value.get("type") == "ndarray":
        array = np.asarray(value.get("value"))
        budget.spend(array.size, 8)
        return array
    return value


def arguments(config: Config, options: Options, path: str) -> Converting[Config]:
    """Return the arguments; a function given under the layer's name replaces all."""
    converted = {key: config[key] for key in KEPT if key in config}
    registered = classes.registered_name(str(config.get("name")))
    if registered is not None:
        custom = keras_names.registered(registered)
        if not callable(custom) or isinstance(custom, type):
            raise LegacyModelError(
                f"{custom!r} is given for this Lambda layer; expected a function of "
                "the layer's input."
            )
        return {**converted, "function": keras_function(registered)}
    for key in FUNCTIONS:
        value, kind = config.get(key), config.get(f"{key}_type")
        kwargs = config.get("arguments")
        function = yield from _function(value, kind, kwargs, options.safe_mode, path)
        if function is not None:
            converted[key] = function
    return converted


def _function(
    value: Any, kind: Any, arguments: Any, safe_mode: bool, path: str
) -> Converting[Any]:
    written = _written_code(value, kind)
    if written is not None:
        return (yield from _code(written, arguments, safe_mode, path))
    if isinstance(value, dict) and value.get("class_name") == "function":
        value, kind = value.get("config"), "function"
    if value is None or kind == "raw" or not isinstance(value, str):
        return value
    return (yield from classes.own_function(value, path))


def _code(
    written: WrittenCode, arguments: Any, safe_mode: bool, path: str
) -> Converting[Config | None]:
    """Return the reference to a function that is code in the file, or None.

    Code that cannot run is an error only once the model is built.
    """
    name = f"<lambda of {path}>"
    try:
        yield Report(functions={name: _compiled(written, arguments, safe_mode)})
    except LegacyModelError as error:
        hint = (
            f"{error.hint} To replace the code, write the function anew and pass "
            f"{hints.custom_object(path, 'function')}."
        )
        refused = LegacyModelError(
            error.reason, hint.lstrip(), layer=path, code="KP304", opens_if=True
        )
        yield Report(code={path: refused})
        return None
    return keras_function(name)


def _compiled(
    written: WrittenCode, arguments: Any, safe_mode: bool
) -> Callable[..., Any]:
    """Return the function; raise LegacyModelError if it must not or cannot run."""
    text, defaults, closure = written
    if safe_mode:
        raise _refused(written, arguments)
    code = load(text)
    if closure or code.co_freevars:
        raise LegacyModelError(
            f"this Lambda layer takes {', '.join(code.co_freevars)} from the function "
            "around it, which the file does not hold."
        )
    scope = _globals(global_names(code))
    return types.FunctionType(code, scope, "<lambda>", tuple(defaults or ()) or None)


def _refused(written: WrittenCode, arguments: Any) -> LegacyModelError:
    """Return the error that says why code is neither run nor followed."""
    try:
        python = read(written[0]).python
    except LegacyModelError as error:
        return error
    reason = f"this Lambda layer holds code that Python {VERSIONS[python]} compiled, "
    hint = str(hints.TRUST) if runs_here(python) else ""
    try:
        _program(written, arguments)
    except LegacyModelError as error:
        reason += f"which is not run from a file. {error.reason[:1].upper()}"
        return LegacyModelError(f"{reason}{error.reason[1:]}", hint)
    return LegacyModelError(f"{reason}for its mask, which is not followed.", hint)


def _globals(names: Iterable[str]) -> dict[str, Any]:
    """Return the objects that the code's global names stand for, the user's first."""
    modules = {"np": np, "numpy": np, "keras": keras}
    if keras.backend.backend() == "tensorflow":
        tensorflow = importlib.import_module("tensorflow")
        modules |= {"tf": tensorflow, "tensorflow": tensorflow}
    namespace: dict[str, Any] = {"__builtins__": builtins}
    missing = []
    for name in names:
        custom = keras_names.registered(name)
        if custom is not None or name in modules:
            namespace[name] = modules[name] if custom is None else custom
        elif not hasattr(builtins, name):
            missing.append(name)
    if missing:
        raise LegacyModelError(
            f"this Lambda layer uses {', '.join(missing)}, which the file does not "
            "hold.",
            f"Pass {hints.custom_object(missing[0])}.",
        )
    return namespace
