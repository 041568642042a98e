"""Refuses configs that would run code, import modules or read other files.

Keras 3 creates an object for each dict with a class name, anywhere in a config. Its own
guards differ between releases (up to 3.8 it imports any module that a file names), so
every config is checked here before Keras sees it.
"""

from collections.abc import Collection
from typing import Any

from keras_policies._common import keras_names
from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located

CODE, TYPE_SPEC = "__lambda__", "__typespec__"
# Arrays in configs, and their allowed dtypes: a text dtype could have any length.
ARRAYS = "__numpy__", "__tensor__"
DTYPES = (
    *("bfloat16", "bool", "complex64", "complex128", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
# Layers of Keras 3 that run code or open other files; tf.keras has none of them.
OPENERS = "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"
# Public modules whose functions a file may name. Classes may come from all of `keras`.
FUNCTIONS = (
    *("keras.activations", "keras.constraints", "keras.initializers", "keras.losses"),
    *("keras.metrics", "keras.ops", "keras.regularizers"),
)
# The module of tf.keras's policies, which this package converts.
POLICIES = "keras.mixed_precision"


def check(config: Any, safe_mode: bool = True, functions: Collection[str] = ()) -> None:
    """Raise if a config could run code, import a module or read a file.

    The config is already converted to Keras 3. It must not name a module and, in safe
    mode, must not contain code or name a file. `functions` are names that will be
    registered. The error names the layer.
    """
    if isinstance(config, list | tuple):
        for item in config:
            check(item, safe_mode, functions)
    if not isinstance(config, dict):
        return
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    with located(layer=name if isinstance(name, str) else None, code="KP202"):
        if "class_name" in config:
            _check_object(config, safe_mode, functions)
        for value in config.values():
            check(value, safe_mode, functions)


def _check_object(config: Config, safe_mode: bool, functions: Collection[str]) -> None:
    """Raise if Keras must not create an object from this dict."""
    class_name, inner = config["class_name"], config.get("config")
    name = _name(config)
    is_registered = name in functions or keras_names.registered(name) is not None
    if class_name == CODE and safe_mode:
        reason = "it contains code; code from a file is not run."
        raise LegacyModelError(reason, hints.TRUST)
    if class_name in ARRAYS and isinstance(inner, dict):
        dtype = str(inner.get("dtype"))
        if dtype not in DTYPES:
            raise LegacyModelError(
                f"it has an array with the dtype {dtype[:80]!r}, expected one of "
                f"{sorted(DTYPES)}."
            )
    if class_name in OPENERS and not is_registered:
        raise LegacyModelError(
            f"it has a {class_name}, which runs code from outside of the file; "
            "tf.keras never wrote such a layer."
        )
    vocabulary = inner.get("vocabulary") if isinstance(inner, dict) else None
    if isinstance(vocabulary, str) and safe_mode:
        raise LegacyModelError(
            f"it takes its vocabulary from the file {vocabulary!r}, outside of the "
            "model.",
            hints.TRUST,
        )
    if not is_registered and not _is_of_keras(config):
        name = name or str(class_name)
        raise LegacyModelError(
            f"it names {name!r} in the module {config.get('module')!r}; modules that a "
            "file names are not imported.",
            f"Pass it: {hints.custom_object(name)}. {hints.REGISTERED}",
            code="KP301",
            opens_if=True,
        )


def _name(config: Config) -> str | None:
    """Return the name that Keras looks up in the registry, or None."""
    if config["class_name"] == "function":
        name = config.get("config")
    elif config["class_name"] == TYPE_SPEC:  # Keras accepts any class under this name
        name = config.get("registered_name") or config.get("spec_name")
    else:
        name = config.get("registered_name", config["class_name"])
    return name if isinstance(name, str) else None


def _is_of_keras(config: Config) -> bool:
    """Return whether Keras itself has the object, or finds it without an import."""
    module, name = config.get("module"), config["class_name"]
    if name == TYPE_SPEC:
        return False
    if module is None or module == POLICIES:
        return True
    name = config.get("config") if name == "function" else name
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    if module == "builtins":
        return any(keras_names.kind(functions, name) for functions in FUNCTIONS)
    kind = keras_names.kind(module, name)
    if kind is None:  # Keras reports missing classes of its own modules
        return keras_names.kind(*module.rpartition(".")[::2]) is not None
    return kind == keras_names.CLASS or module in FUNCTIONS
