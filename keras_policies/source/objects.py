"""Writes configs of Keras objects as Python code."""

import copy
import dataclasses
import functools
import importlib
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from keras_policies.source.layout import call, literal, mapping, sequence

INLINE = 64  # numbers of a constant in the code; larger ones are in a file
# Arguments that Keras saves as one number per axis, and those that `build` sets.
PER_AXIS = {"kernel_size", "strides", "pool_size", "dilation_rate", "size"}
FOUND_IN_BUILD = {"attention_axes"}
SHORT = {"keras.layers": "layers", "keras.ops": "ops"}
# Argument of Bidirectional -> the prefix of the layer's name.
WRAPPED = {"layer": "forward_", "backward_layer": "backward_"}
NO_MODULE = None, "__main__", "builtins"


class CannotWriteError(ValueError):
    """Something cannot be written as source code; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Style:
    """What the code of a model includes."""

    train: bool = False  # initializers
    named: frozenset[str] = frozenset()  # the automatic names of these classes
    explicit: bool = False  # masks, axes and flags that Keras may infer
    typed: bool = False  # the policy of each layer, whatever the global one is
    full: bool = False  # everything except names, to compare models


def is_object(value: Any) -> bool:
    """Return whether a value is the config of an object, not a dict."""
    return isinstance(value, dict) and {"class_name", "config"} <= value.keys()


def is_model(value: Any) -> bool:
    """Return whether a value is the config of a model that lists its layers."""
    config = value["config"] if is_object(value) else None
    return isinstance(config, dict) and isinstance(config.get("layers"), list)


def config_of(op: Any) -> dict[str, Any]:
    """Return the config of a layer, with the vocabulary of a lookup layer."""
    value: dict[str, Any] = keras.saving.serialize_keras_object(op)
    if "vocabulary" in value["config"] and value["config"]["vocabulary"] is None:
        words = np.array(op.get_vocabulary(include_special_tokens=False)).tolist()
        value["config"]["vocabulary"] = words or None
    return value


class Objects:
    """Writes values in configs, and collects the imports and constants they need."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.imports = {"import keras"}
        self.constants = dict[str, Any]()
        self.policies = list[str]()
        self.names = list[tuple[str, str]]()  # classes and names of layers
        self.place = "constant"  # the stem of names of constants

    def model(self, model: keras.Model) -> str:
        """Return the call that builds a model."""
        raise NotImplementedError

    def value(self, value: Any) -> str:
        """Return a value in a config as code; a text that begins with NUL is code."""
        if is_object(value):
            return self._object(value)
        if isinstance(value, dict):
            return mapping({key: self.value(each) for key, each in value.items()})
        if isinstance(value, list | tuple):
            if _leaves(value) > INLINE:
                return f"{self._stored(np.array(value))}.tolist()"
            return sequence(map(self.value, value), isinstance(value, tuple))
        if isinstance(value, str) and value[:1] == "\0":
            return value
        known = isinstance(value, str) and keras.saving.get_registered_object(value)
        return self._imported(known) if known else literal(value)

    def _object(self, value: Any) -> str:
        kind, config = value["class_name"], value["config"]
        if kind in ("__numpy__", "__tensor__"):
            return self._array(config["value"], config["dtype"], kind == "__tensor__")
        if kind == "__slice__":
            return call("slice", map(self.value, config.values()))
        if kind == "__ellipsis__":
            return "..."
        if kind == "DTypePolicy":
            self.policies.append(literal(config["name"]))
            return self.policies[-1]
        if kind == "function":
            return self.resolved(value, config)[1]
        if kind == "__lambda__":
            raise CannotWriteError(
                "the source code of a lambda is not in the model. Give Lambda a "
                "function from your own module, or write the layer with keras.ops"
            )
        if kind.startswith(("__", "Quantized")):
            raise CannotWriteError(
                f"{kind.strip('_')} cannot be written as source code"
            )
        if is_model(value):  # in another object, such as TimeDistributed
            return self.model(keras.saving.deserialize_keras_object(value))
        return self.instance(value)

    def instance(self, value: Any) -> str:
        """Return the code that creates an object from its config."""
        cls, name = self.resolved(value, value["class_name"])
        config = _unprefixed(cls, value["config"])
        parameters = inspect.signature(cls).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        needed = self._needed(cls, config)
        if not (takes_all or self.style.full):
            needed &= {*parameters}
        named = (
            self.name(value["class_name"], config["name"]) if "name" in config else {}
        )
        if named and config["name"] == getattr(parameters.get("name"), "default", None):
            named = {}  # as of an optimizer before Keras 3.15
        # Sorted, since some configs have the order of the call that made the object.
        values = {key: self._argument(key, config[key]) for key in sorted(needed)}
        return call(name, *arguments(cls, named | values))

    def name(self, kind: str, name: str) -> dict[str, str]:
        """Return `{"name": code}` for a layer, or {} if Keras gives it that name."""
        self.names.append((kind, name))
        pattern = rf"{re.escape(automatic(kind))}(_[1-9]\d*)?"
        is_automatic = re.fullmatch(pattern, name) and kind not in self.style.named
        return {} if is_automatic or self.style.full else {"name": literal(name)}

    def resolved(self, value: Any, name: str) -> tuple[Any, str]:
        """Return a class or a function, and its name in the module."""
        module = value["module"]
        if "src" in f"{module}".split(".") and hasattr(keras.optimizers, name):
            module = "keras.optimizers"
        if f"{module}.".startswith("keras.") and "src" not in module.split("."):
            thing = getattr(importlib.import_module(module), name)
            return thing, f"{SHORT.get(module, module)}.{name}"
        thing = keras.saving.get_registered_object(value.get("registered_name") or name)
        if thing is None and module not in NO_MODULE:
            thing = getattr(importlib.import_module(module), name, None)
        return thing, self._imported(thing, name)

    def _imported(self, thing: Any, name: str = "") -> str:
        """Import a class or a function from its module, and return its name."""
        module, own = (getattr(thing, at, "") for at in ("__module__", "__name__"))
        is_private = module in NO_MODULE or f"{module}.".startswith((".", "keras."))
        found = None if is_private else importlib.import_module(module)
        if found is None or getattr(found, own, None) is not thing:
            raise CannotWriteError(
                f"{name or own!r} cannot be imported. Put it into a module, and "
                "decorate it with @keras.saving.register_keras_serializable()"
            )
        self.imports.add(f"from {module} import {own}")
        return str(own)

    def _needed(self, cls: type, config: Mapping[str, Any]) -> set[str]:
        """Return the arguments that the object needs to have the same config."""
        none = inspect.Parameter.empty
        defaults = {k: p.default for k, p in inspect.signature(cls).parameters.items()}
        skipped = {"name"} | (set() if self.style.explicit else FOUND_IN_BUILD)
        if cls.__module__.startswith("keras.") and not self.style.train:
            skipped |= {key for key in config if key.endswith("_initializer")}
        if self.style.full:
            return config.keys() - skipped
        needed = {key for key in config if defaults.get(key) is none}
        if config.get("data_format") == "channels_first":
            needed.add("data_format")  # the default depends on the user's keras.json
        if self.style.typed:
            needed |= {"dtype"} & config.keys()
        while True:
            given = {k: v for k, v in config.items() if k in needed}
            # Some `from_config`, such as that of Rescaling, need all arguments.
            full = {k: v for k, v in defaults.items() if k in config and v is not none}
            made = _config(cls, given) or _config(cls, full | given) or defaults
            others = {
                k for k, v in config.items() if text(v) != text(made.get(k, none))
            }
            if config.get("axis") == [made.get("axis")] and not self.style.explicit:
                others -= {"axis"}  # normalization layers turn it into a list
            if others - skipped <= needed:
                return needed
            needed |= others - skipped

    def _argument(self, key: str, value: Any) -> str:
        is_list = key in PER_AXIS and isinstance(value, list | tuple) and value
        if is_list and all(isinstance(n, int) and n == value[0] for n in value):
            value = value[0]
        if key == "learning_rate" and isinstance(value, float):  # a float32 variable
            value = float(str(np.float32(value)))
        if key == "policy_map":  # DTypePolicyMap does not accept names of policies
            own = {
                k: call("keras.DTypePolicy", [self.value(v)]) for k, v in value.items()
            }
            return mapping(own)
        return self.value(value)

    def _array(self, value: Any, dtype: str, is_tensor: bool) -> str:
        """Return an array, or a tensor of the backend."""
        has_numpy = not dtype.startswith(("bfloat", "float8"))
        array = np.array(value, dtype if has_numpy else "float32")
        is_inline = 0 < array.size <= INLINE
        written = _numbers(array) if is_inline else self._stored(array)
        if is_tensor or not has_numpy:
            return call("ops.convert_to_tensor", [written, literal(dtype)])
        return call("np.array", [written, literal(dtype)]) if is_inline else written

    def _stored(self, value: Any) -> str:
        """Store a constant for the file of constants; return the code that reads it."""
        name = unique(self.place, self.constants)
        self.constants[name] = value
        return f"CONSTANTS[{literal(name)}]"


def arguments(
    function: Callable[..., Any], values: Mapping[str, Any], called: Iterable[str] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that pass values to a function, in its order.

    Arguments without a default and those in `called` are positional.
    """
    args, kwargs, others = list[Any](), dict[str, Any](), dict(values)
    is_next = True  # whether all parameters before are positional
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += others.pop(key, ())
            continue
        is_needed = parameter.default is parameter.empty or key in called
        is_next = is_next and is_needed and key in others
        if is_next:
            args.append(others.pop(key))
        elif key in others:
            kwargs[key] = others.pop(key)
    return args, kwargs | others


# Gives the same text for equal values, also for a list and a tuple.
text = functools.partial(json.dumps, sort_keys=True, default=repr)


def unique(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken."""
    names = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    return next(each for each in names if each not in taken)


@functools.cache
def automatic(kind: str) -> str:
    """Return the stem of a class's automatic names, such as `conv2d` of `conv2d_1`."""
    return re.sub(r"_\d+$", "", type(kind, (keras.Operation,), {})().name)


def _leaves(value: Any) -> int:
    return sum(map(_leaves, value)) if isinstance(value, list | tuple) else 1


def _numbers(array: Any) -> str:
    """Return an array as lists of numbers, with the fewest digits for its dtype."""
    if array.ndim:
        return sequence(map(_numbers, array))
    value = array.item()
    return literal(float(str(array[()])) if isinstance(value, float) else value)


def _config(cls: Any, config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the config of an object with these arguments, or None if they fail."""
    try:
        made = cls.from_config(copy.deepcopy(config))
        return _unprefixed(cls, made.get_config())
    except Exception:
        return None


def _unprefixed(cls: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without the prefixes that Bidirectional adds to layer names."""
    found = dict(config)
    for key, prefix in WRAPPED.items():
        if cls is keras.layers.Bidirectional and found.get(key):
            own = found[key]["config"]
            own = {**own, "name": own["name"].removeprefix(prefix)}
            found[key] = {**found[key], "config": own}
    return found
