"""Configs of Keras objects as Python expressions."""

import copy
import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_policies.source.layout import (
    Expression,
    call,
    literal,
    mapping,
    sequence,
)

INLINE = 64  # numbers of a constant; more are in a file
Key = tuple[str, int, int]  # a tensor: its operation, the call of it, and its number
Tensors = Mapping[Key, Expression]
# Arguments that Keras writes as one number for each axis, and those it finds in build.
PER_AXIS = {"kernel_size", "strides", "pool_size", "dilation_rate", "size"}
FOUND_IN_BUILD = {"attention_axes"}
LAST = "activity_regularizer", "trainable", "dtype", "name"  # arguments of all layers
SHORT = {"keras.layers": "layers", "keras.ops": "ops"}
WRAPPED = {"layer": "forward_", "backward_layer": "backward_"}  # by Bidirectional
NO_MODULE = None, "__main__", "builtins"


class CannotWriteError(ValueError):
    """Something has no form as source code; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Style:
    """How a model is written."""

    train: bool = False  # with initializers
    named: frozenset[str] = frozenset()  # classes whose automatic names are written
    explicit: bool = False  # with masks and axes that Keras may find by itself
    dtype: str | None = None  # the policy that is named once


def is_object(value: Any) -> bool:
    """Return whether a value is the config of an object, not a dict."""
    return isinstance(value, dict) and {"class_name", "config"} <= value.keys()


def is_model(value: Any) -> bool:
    """Return whether a value is the config of a model that lists its layers."""
    config = value["config"] if is_object(value) else None
    return isinstance(config, dict) and isinstance(config.get("layers"), list)


class Objects:
    """Writes values of configs, and keeps what a module needs for them."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.imports = set[str]()
        self.constants = dict[str, Any]()
        self.policies = list[str]()
        self.automatic = dict[str, list[int]]()  # class -> numbers, as written
        self.place = "constant"  # where constants come from

    def built(self, value: Any) -> Expression:
        """Return the call that builds a model."""
        raise NotImplementedError

    def value(self, value: Any, tensors: Tensors | None = None) -> Expression:
        """Return a value of a config; `tensors` has what stands for each tensor."""
        if is_object(value):
            return self._object(value, tensors or {})
        if isinstance(value, dict):
            return mapping({k: self.value(v, tensors) for k, v in value.items()})
        if isinstance(value, list | tuple):
            if _leaves(value) > INLINE:
                return (f"{self._stored(np.array(value))}.tolist()",)
            parts = (self.value(each, tensors) for each in value)
            return sequence(parts, isinstance(value, tuple))
        known = isinstance(value, str) and keras.saving.get_registered_object(value)
        return (self._imported(known) if known else literal(value),)

    def _object(self, value: Any, tensors: Tensors) -> Expression:
        kind, config = value["class_name"], value["config"]
        if kind == "__keras_tensor__":
            return tensors[tuple(config["keras_history"])]
        if kind in ("__numpy__", "__tensor__"):
            return self._array(config["value"], config["dtype"], kind == "__tensor__")
        if kind == "__slice__":
            return call("slice", map(self.value, config.values()))
        if kind == "__ellipsis__":
            return ("...",)
        if kind == "DTypePolicy":
            self.policies += [config["name"]] * (config["name"] != "float32")
            is_often = config["name"] == self.style.dtype
            return ("DTYPE" if is_often else literal(config["name"]),)
        if kind == "function":
            return (self.resolved(value, config)[1],)
        if kind == "__lambda__":
            raise CannotWriteError(
                "a lambda has no source code in a model. Give Lambda a function of a "
                "module of yours, or write the layer with keras.ops"
            )
        if kind.startswith(("__", "Quantized")):
            raise CannotWriteError(f"{kind.strip('_')} has no form as source code")
        return self.built(value) if is_model(value) else self.instance(value)

    def instance(self, value: Any) -> Expression:
        """Return the call of a class, from the config of an object."""
        cls, name = self.resolved(value, value["class_name"])
        if name.endswith(".DTypePolicyMap"):  # which takes no names of policies
            policies = value["config"]["policy_map"].items()
            own = {k: call("keras.DTypePolicy", [self.value(v)]) for k, v in policies}
            default = self.value(value["config"]["default_policy"])
            return call(
                name, [], {"default_policy": default, "policy_map": mapping(own)}
            )
        args, kwargs = self._arguments(cls, value)
        return call(name, args, kwargs)

    def name(self, kind: str, name: str) -> dict[str, Expression]:
        """Return `name=` for a layer of a class, or {} if Keras gives it that name."""
        match = _is_automatic(name, kind)
        if match:
            self.automatic.setdefault(kind, []).append(int(match[1] or 0))
        return (
            {} if match and kind not in self.style.named else {"name": (literal(name),)}
        )

    def resolved(self, value: Any, name: str) -> tuple[Any, str]:
        """Return a class or a function, and its name in the module."""
        module, known = value["module"], value.get("registered_name") or name
        places = [module or ""] if "src" not in (module or "").split(".") else []
        for place in (*places, "keras.optimizers"):
            if place.split(".")[0] == "keras":
                found = functools.reduce(getattr, place.split(".")[1:], keras)
                if hasattr(found, name):
                    return getattr(found, name), f"{SHORT.get(place, place)}.{name}"
        thing = keras.saving.get_registered_object(known)
        if thing is None and module not in NO_MODULE:
            own = name.rpartition(">")[2]
            thing = getattr(importlib.import_module(module), own, None)
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

    def _arguments(
        self, cls: type, value: Any
    ) -> tuple[list[Expression], dict[str, Expression]]:
        """Return the arguments of a class that are not at their defaults."""
        parameters, own = _parameters(cls), _unprefixed(cls, value["config"])
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        order = [*(k for k in parameters if k not in LAST), *own, *LAST]
        others = self._not_defaults(cls, own)
        args, kwargs = list[Expression](), dict[str, Expression]()
        for key in dict.fromkeys(order):
            parameter = parameters.get(key)
            if key not in own or not (parameter or takes_all):
                continue
            if key == "name" and issubclass(cls, keras.Operation):
                kwargs |= self.name(value["class_name"], own[key])
            elif key == "name" and _is_automatic(own[key], value["class_name"]):
                continue  # such as of optimizers and metrics
            elif parameter and parameter.default is parameter.empty and not kwargs:
                args.append(self._argument(key, own[key]))
            elif key in others:
                kwargs[key] = self._argument(key, own[key])
        return args, kwargs

    def _not_defaults(self, cls: type, config: Mapping[str, Any]) -> set[str]:
        """Return the arguments whose values an object has only if it is given them."""
        parameters, skipped = _parameters(cls), set[str]()
        if cls.__module__.startswith("keras."):
            skipped |= {key for key in config if key.endswith("_initializer")}
            skipped -= {*config} if self.style.train else set()
            skipped |= set() if self.style.explicit else FOUND_IN_BUILD
        defaults = {key: p.default for key, p in parameters.items()}
        given = {k for k in config if defaults.get(k) is inspect.Parameter.empty}
        differs = {k for k, v in defaults.items() if k in config and v != config[k]}
        differs -= skipped
        while True:
            made = _config(cls, {key: config[key] for key in config if key in given})
            if made is None and not given >= differs:  # it needs an optional argument
                given |= differs
                continue
            made = defaults if made is None else made
            others = {
                k for k in config if k not in made or text(config[k]) != text(made[k])
            }
            if others - skipped <= given:
                return given
            given |= others - skipped

    def _argument(self, key: str, value: Any) -> Expression:
        is_list = key in PER_AXIS and isinstance(value, list | tuple) and value
        if is_list and all(isinstance(n, int) and n == value[0] for n in value):
            value = value[0]
        if key == "learning_rate" and isinstance(value, float):  # float32 in Keras
            value = float(str(np.float32(value)))
        return self.value(value)

    def _array(self, value: Any, dtype: str, is_tensor: bool) -> Expression:
        """Return an array, or a tensor of the backend."""
        has_numpy = not dtype.startswith(("bfloat", "float8"))
        array = np.array(value, dtype if has_numpy else "float32")
        is_inline = 0 < array.size <= INLINE
        written = _numbers(array) if is_inline else (self._stored(array),)
        if is_tensor or not has_numpy:
            return call("ops.convert_to_tensor", [written, (literal(dtype),)])
        if not is_inline:
            return written
        self.imports.add("import numpy as np")
        return call("np.array", [written, (literal(dtype),)])

    def _stored(self, value: Any) -> str:
        """Return a constant in the file of constants."""
        name = unique(self.place, self.constants)
        self.constants[name] = value
        return f"CONSTANTS[{literal(name)}]"


def plain(value: Any) -> Any:
    """Return a value with lists in the place of tuples."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


def text(value: Any) -> str:
    """Return a text that is the same for equal values."""
    return repr(plain(value))


def unique(name: str, taken: Any) -> str:
    """Return a name that is not taken."""
    numbers = range(2, len(taken) + 3)
    names = [name, *(f"{name}_{number}" for number in numbers)]
    return next(each for each in names if each not in taken)


def fresh_name(kind: str) -> str:
    """Return the name that Keras gives to the next layer of a class."""
    return str(type(kind, (keras.Operation,), {})().name)


@functools.cache
def automatic(kind: str) -> str:
    """Return how Keras begins the names of layers of a class, as in `conv2d_1`."""
    return re.sub(r"_\d+$", "", fresh_name(kind))


def _is_automatic(name: str, kind: str) -> re.Match[str] | None:
    """Return a match, with the number, if Keras gives such names to a class."""
    return re.fullmatch(rf"{re.escape(automatic(kind))}(?:_([1-9]\d*))?", name)


def _leaves(value: Any) -> int:
    return sum(map(_leaves, value)) if isinstance(value, list | tuple) else 1


def _numbers(array: Any) -> Expression:
    """Return an array as lists of numbers, with as few digits as its dtype needs."""
    if array.ndim:
        return sequence(map(_numbers, array))
    value = array.item()
    return (literal(float(str(array[()])) if isinstance(value, float) else value),)


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    return dict([*signature.parameters.items()][1:])


def _config(cls: type, config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the config of an object made with these arguments, or None."""
    try:
        own = {
            key: keras.saving.deserialize_keras_object(copy.deepcopy(value))
            if isinstance(value, dict | list)
            else value
            for key, value in config.items()
        }
        return _unprefixed(cls, cls(**own).get_config())
    except Exception:
        return None


def _unprefixed(cls: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without what Bidirectional puts before the names of layers."""
    found = dict(config)
    for key, prefix in WRAPPED.items():
        if cls is keras.layers.Bidirectional and found.get(key):
            own = found[key]["config"]
            own = {**own, "name": own["name"].removeprefix(prefix)}
            found[key] = {**found[key], "config": own}
    return found
