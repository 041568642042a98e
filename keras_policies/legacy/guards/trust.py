"""Refuses what the config of a legacy model could have run, imported or read.

Keras 3 makes an object of each dict with a class name in a config, wherever it is. It
has guards of its own, other ones in each release (up to 3.8 it imports any module that
a file names), so nothing gets to it that has not passed here.
"""

from typing import Any

import keras

from keras_policies.annotations import Config
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import LegacyModelError, located

CODE = "__lambda__"
# Layers of Keras 3 that run what is in other files, or is code; tf.keras has none.
OPENERS = "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"
# Where functions may come from. Classes may come from all of `keras`.
FUNCTIONS = (
    "activations",
    "constraints",
    "initializers",
    "losses",
    "metrics",
    "ops",
    "regularizers",
)
# tf.keras has had its policies there; keras_policies reads them.
POLICIES = "keras.mixed_precision"


def check(config: Any, safe_mode: bool = True) -> None:
    """Raise if there is something in a config that is not to be trusted.

    Args:
        config: nest of dicts, lists and values, converted for Keras 3.
        safe_mode: bool, whether code, and files that it names, are refused.

    Raises:
        LegacyModelError: if it holds code, or names a module or a file that is not
            part of it; naming the layer.
    """
    if isinstance(config, list | tuple):
        for item in config:
            check(item, safe_mode)
    if not isinstance(config, dict):
        return
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    with located(layer=name if isinstance(name, str) else None):
        if "class_name" in config:
            _check_object(config, inner, safe_mode)
        for value in config.values():
            check(value, safe_mode)


def _check_object(config: Config, inner: Any, safe_mode: bool) -> None:
    """Raise if Keras must not make an object of this dict."""
    class_name = config["class_name"]
    if class_name == CODE and safe_mode:
        raise LegacyModelError(
            "it holds code, which is not run from a file.",
            remedies.TRUST,
        )
    if class_name in OPENERS and not _is_registered(config):
        raise LegacyModelError(
            f"it has a {class_name}, which runs what is outside of the file; no "
            "tf.keras has written that."
        )
    vocabulary = inner.get("vocabulary") if isinstance(inner, dict) else None
    if isinstance(vocabulary, str) and safe_mode:
        raise LegacyModelError(
            f"it takes its vocabulary from the file {vocabulary!r}, outside of the "
            "model.",
            remedies.TRUST,
        )
    if not _is_registered(config) and not _is_of_keras(config):
        raise LegacyModelError(
            f"it names {_name(config) or class_name!r} of the module "
            f"{config['module']!r}, and no module is imported because a file names it.",
            "Import it and decorate the class or function with "
            "@keras.saving.register_keras_serializable(), or pass it in "
            "custom_objects.",
        )


def _name(config):
    """Return the name that Keras looks up in the registry, or None."""
    if config["class_name"] == "function":
        found = config.get("config")
    else:
        found = config.get("registered_name", config["class_name"])
    return found if isinstance(found, str) else None


def _is_registered(config):
    return keras.saving.get_registered_object(_name(config)) is not None


def _is_of_keras(config):
    """Return whether Keras finds it in itself, or looks for it nowhere."""
    module, name = config.get("module"), config["class_name"]
    if module is None or module == POLICIES:
        return True
    name = config.get("config") if name == "function" else name
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    if module == "builtins":
        return any(_public(f"keras.{kind}", name) for kind in FUNCTIONS)
    found = _public(module, name)
    if found is None:  # Keras says so itself, of a module of its own
        return _public(*module.rpartition(".")[::2]) is not None
    functions = [f"keras.{kind}" for kind in FUNCTIONS]
    return isinstance(found, type) or module in functions


def _public(module, name):
    """Return what a public module of Keras has under a name, or None."""
    root, *parts = module.split(".")
    if root != "keras" or "src" in (*parts, name):
        return None
    found = keras
    for part in (*parts, name):
        found = getattr(found, part, None)
    return found
