"""Configs of Keras objects as Python expressions."""

import copy
import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_policies.source.layout import (
    Expression,
    call,
    flat,
    literal,
    mapping,
    sequence,
)

INLINE = 64  # numbers of a constant; more are in a file
Key = tuple[str, int, int]  # a tensor: its operation, the call of it, and its number
# Arguments that Keras writes as one number for each axis.
PER_AXIS = {"kernel_size", "strides", "pool_size", "dilation_rate", "size"}
FOUND_IN_BUILD = {"attention_axes"}
LAST = "activity_regularizer", "trainable", "dtype", "name"  # arguments of all layers
SHORT = {"keras.layers": "layers", "keras.ops": "ops"}
WRAPPED = {"layer": "forward_", "backward_layer": "backward_"}  # by Bidirectional


class CannotWriteError(ValueError):
    """Something has no form as source code; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Style:
    """How a model is written.

    Args:
        train: bool, whether initializers are written.
        named: classes of layers whose automatic names are written.
        explicit: bool, whether masks and axes are written that Keras may find itself.
        dtype: str, the policy that the module names once, or None.
    """

    train: bool = False
    named: frozenset[str] = frozenset()
    explicit: bool = False
    dtype: str | None = None


def is_object(value: Any) -> bool:
    """Return whether a value is the config of an object, not a dict."""
    return isinstance(value, dict) and {"class_name", "config"} <= value.keys()


def is_model(value: Any) -> bool:
    """Return whether a value is the config of a model that lists its layers."""
    config = value["config"] if is_object(value) else None
    return isinstance(config, dict) and isinstance(config.get("layers"), list)


def is_operation(value: Any) -> bool:
    """Return whether the config of an object is that of an operation of keras.ops."""
    module = value.get("module") or ""
    return module.startswith("keras.") and ".ops." in f"{module}."


class Objects:
    """Writes values of configs, and keeps what a module needs for them.

    Args:
        style: how they are written.
        build: writes the call of a function that builds a model, from its config.
    """

    def __init__(self, style: Style, build: Callable[[Any], Expression]) -> None:
        self.style, self._build = style, build
        self.imports = set[str]()
        self.constants = dict[str, Any]()
        self.policies = list[str]()
        self.automatic = list[tuple[str, int]]()  # class and number, as written
        self.place = "constant"  # where constants come from

    def value(
        self, value: Any, tensors: Mapping[Key, Expression] | None = None
    ) -> Expression:
        """Return a value of a config; `tensors` has what stands for each tensor."""
        if is_object(value):
            return self._object(value, tensors or {})
        if isinstance(value, dict):
            return mapping({k: self.value(v, tensors) for k, v in value.items()})
        if isinstance(value, list | tuple):
            if _leaves(value) > INLINE:
                return (f"{flat(self._stored(value, None))}.tolist()",)
            parts = (self.value(each, tensors) for each in value)
            return sequence(parts, "()" if isinstance(value, tuple) else "[]")
        known = isinstance(value, str) and keras.saving.get_registered_object(value)
        return (self._imported(known) if known else literal(value),)

    def _object(self, value: Any, tensors: Mapping[Key, Expression]) -> Expression:
        kind, config = value["class_name"], value["config"]
        if kind == "__keras_tensor__":
            return tensors[tuple(config["keras_history"])]
        if kind in ("__numpy__", "__tensor__"):
            return self._array(config["value"], config["dtype"], kind == "__tensor__")
        if kind == "__slice__":
            return call(("slice",), (self.value(v) for v in config.values()), {})
        if kind == "__ellipsis__":
            return ("...",)
        if kind == "DTypePolicy":
            return self._policy(config["name"])
        if kind == "function":
            return (self._function(value),)
        if kind == "__lambda__":
            raise CannotWriteError(
                "a lambda has no source code in a model. Give Lambda a function of a "
                "module of yours, or write the layer with keras.ops"
            )
        if kind.startswith(("__", "Quantized")):
            raise CannotWriteError(f"{kind.strip('_')} has no form as source code")
        return self._build(value) if is_model(value) else self.instance(value)

    def instance(self, value: Any) -> Expression:
        """Return the call of a class, from the config of an object."""
        cls, name = self.resolved(value)
        args, kwargs = self._arguments(cls, value)
        return call((name,), args, kwargs)

    def name(self, kind: str, name: str) -> dict[str, Expression]:
        """Return `name=` for a layer of a class, or {} if Keras gives it that name."""
        prefix, number = automatic(kind), 0
        if match := re.fullmatch(rf"{re.escape(prefix)}(?:_([1-9]\d*))?", name):
            number = int(match[1] or 0)
            self.automatic.append((kind, number))
            if kind not in self.style.named:
                return {}
        return {"name": (literal(name),)}

    def resolved(self, value: Any) -> tuple[type, str]:
        """Return a class and its name in the module, which imports it."""
        module, kind = value["module"], value["class_name"]
        parts = (module or "").split(".")
        if parts[0] == "keras" and "src" not in parts:
            cls: Any = keras
            for part in (*parts[1:], kind):
                cls = getattr(cls, part)
            return cls, f"{SHORT.get(module, module)}.{kind}"
        cls = keras.saving.get_registered_object(value.get("registered_name") or kind)
        if cls is None and module not in (None, "__main__", "builtins"):
            cls = getattr(importlib.import_module(module), kind, None)
        return cls, self._imported(cls, kind)

    def _function(self, value: Any) -> str:
        """Return the name of a function, which the module imports."""
        if (value["module"] or "").startswith("keras."):
            return f"{value['module']}.{value['config']}"
        name = value["registered_name"] or value["config"]
        known = keras.saving.get_registered_object(name)
        if known is None and value["module"] not in (None, "__main__", "builtins"):
            module = importlib.import_module(value["module"])
            known = getattr(module, value["config"].rpartition(">")[2], None)
        return self._imported(known, name)

    def _imported(self, thing: Any, name: str = "") -> str:
        """Import a class or a function from its module, and return its name."""
        module, own = (getattr(thing, at, "") for at in ("__module__", "__name__"))
        is_private = f"{module}.".startswith(("keras.", "__main__.", "builtins."))
        found = None if is_private or thing is None else importlib.import_module(module)
        if thing is None or getattr(found, own, None) is not thing:
            raise CannotWriteError(
                f"{name or own!r} cannot be imported. Put it into a module, and "
                "decorate it with @keras.saving.register_keras_serializable()"
            )
        self.imports.add(f"from {module} import {own}")
        return str(own)

    def _policy(self, name: str) -> Expression:
        if name != "float32":
            self.policies.append(name)
        return ("DTYPE" if name == self.style.dtype else literal(name),)

    def _arguments(
        self, cls: type, value: Any
    ) -> tuple[list[Expression], dict[str, Expression]]:
        """Return the arguments of a class that are not at their defaults."""
        parameters = _parameters(cls)
        is_layer, own = (
            issubclass(cls, keras.Operation),
            _unprefixed(cls, value["config"]),
        )
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        order = [*(k for k in parameters if k not in LAST), *own, *LAST]
        others = self._not_defaults(cls, own)
        args, kwargs = list[Expression](), dict[str, Expression]()
        for key in dict.fromkeys(order):
            parameter = parameters.get(key)
            if key not in own or not (parameter or takes_all):
                continue
            if key == "name" and is_layer:
                kwargs |= self.name(value["class_name"], own[key])
            elif parameter and parameter.default is parameter.empty and not kwargs:
                args.append(self._argument(key, own[key]))
            elif key in others:
                kwargs[key] = self._argument(key, own[key])
        return args, kwargs

    def _not_defaults(self, cls: type, config: Mapping[str, Any]) -> set[str]:
        """Return the arguments whose values an object has only if it is given them."""
        is_stock = cls.__module__.startswith("keras.")
        skipped = {
            key
            for key in config
            if is_stock
            and (
                (key.endswith("_initializer") and not self.style.train)
                or (key in FOUND_IN_BUILD and not self.style.explicit)
            )
        }
        given = {
            key
            for key, parameter in _parameters(cls).items()
            if parameter.default is parameter.empty and key in config
        }
        while True:
            made = _config(cls, {key: config[key] for key in config if key in given})
            if made is None:
                made = {k: p.default for k, p in _parameters(cls).items()}
            others = {
                k
                for k, v in config.items()
                if k not in made or text(v) != text(made[k])
            }
            if others - skipped <= given:
                return given
            given |= others - skipped

    def _argument(self, key: str, value: Any) -> Expression:
        is_list = key in PER_AXIS and isinstance(value, list | tuple) and value
        if is_list and all(isinstance(n, int) and n == value[0] for n in value):
            value = value[0]
        return self.value(value)

    def _array(self, value: Any, dtype: str, is_tensor: bool) -> Expression:
        """Return an array, or a tensor of the backend."""
        has_numpy = dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
        array = np.array(value, dtype if has_numpy else "float32")
        is_inline = 0 < array.size <= INLINE
        written = _numbers(array) if is_inline else self._stored(array, None)
        if is_tensor or not has_numpy:
            return call(("ops.convert_to_tensor",), [written, (literal(dtype),)], {})
        if not is_inline:
            return written
        self.imports.add("import numpy as np")
        return call(("np.array",), [written, (literal(dtype),)], {})

    def _stored(self, value: Any, _: None) -> Expression:
        """Return a constant in the file of constants."""
        name, number = self.place, 1
        while name in self.constants:
            number += 1
            name = f"{self.place}_{number}"
        self.constants[name] = np.asarray(value)
        return (f"CONSTANTS[{literal(name)}]",)


def plain(value: Any) -> Any:
    """Return a value with lists in the place of tuples."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


@functools.cache
def automatic(kind: str) -> str:
    """Return how Keras begins the names of layers of a class, as in `conv2d_1`."""
    return re.sub(r"_\d+$", "", fresh_name(kind))


def fresh_name(kind: str) -> str:
    """Return the name that Keras gives to the next layer of a class."""
    probe = type(kind, (keras.Operation,), {})
    return str(probe().name)


def text(value: Any) -> str:
    """Return a text that is the same for equal values."""
    return repr(plain(value))


def _leaves(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_leaves, value))
    return 1


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
        made: Any = cls.from_config(copy.deepcopy(dict(config)))  # type: ignore
        return _unprefixed(cls, made.get_config())
    except Exception:  # it needs an argument that has a default
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
