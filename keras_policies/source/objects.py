"""Writes values and objects of Keras as nodes of a syntax tree."""

import ast
import builtins
import copy
import dataclasses
import functools
import inspect
import keyword
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from keras_policies._common.arguments import signature
from keras_policies.source import live
from keras_policies.source.errors import CannotWriteError
from keras_policies.source.tree import (
    Label,
    Node,
    Policy,
    call,
    dotted,
    literal,
    sequence,
)

INLINE = 64  # numbers of a constant in the code; larger ones are in a file
# Characters of an array of texts: at most so many, or times those of the texts.
TEXTS, WASTE = 1 << 24, 10
NUMBER = int, float, np.number, np.bool_
# Arguments that Keras saves as one number per axis, and those that `build` sets.
PER_AXIS = {"kernel_size", "strides", "pool_size", "dilation_rate", "size"}
FOUND_IN_BUILD = {"attention_axes"}
SHORT = "keras.layers.", "keras.ops."
# Argument of Bidirectional -> the prefix of the layer's name.
WRAPPED = {"layer": "forward_", "backward_layer": "backward_"}
# Their other arguments have the same defaults, whatever layer they call.
WRAPPERS = keras.layers.TimeDistributed, keras.layers.SpectralNormalization
PLAIN_LAYER = {"module": "keras.layers", "class_name": "Identity", "config": {}}
# Names in the code that mean something else than a class of the user or a variable.
RESERVED = {
    *("keras", "layers", "ops", "np", "pathlib", "inputs", "outputs", "name", "model"),
    *("x", "y", "i", "build_model", "DTYPE", "CONSTANTS", *dir(builtins)),
}
NAME_NUMBER = re.compile("[1-9][0-9]{0,8}")  # Keras has no more layers
NOT_CONSTANTS = "file", "allow_pickle"  # arguments of numpy.savez


@dataclasses.dataclass(frozen=True)
class Style:
    """What the code of a model includes."""

    train: bool = False  # initializers
    named: frozenset[str] = frozenset()  # the automatic names of these classes
    explicit: bool = False  # masks, axes and flags that Keras may infer
    typed: bool = False  # the policy of each layer, whatever the global one is
    full: bool = False  # everything except names, to compare models


class Objects:
    """Writes live values, and collects the imports and constants they need."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.imports = dict[tuple[str, str], str]()  # module, its name -> name here
        self._names = Names(RESERVED)  # of imports and functions
        self.constants, self._stems = dict[str, Any](), Names(NOT_CONSTANTS)
        self.policies = list[str]()
        self.names = list[tuple[str, str]]()  # classes and names of layers
        self.tensors = dict[int, Node]()  # id of a tensor -> the code that reads it
        self._all_needed = dict[object, set[str]]()  # class and config -> arguments
        self.place = "constant"  # the stem of names of constants

    def model(self, model: keras.Model) -> Node:
        """Return the call that builds a model."""
        raise NotImplementedError

    def value(self, value: Any) -> Node:
        """Return a live value: a number, a text, a container, an object."""
        if isinstance(value, keras.KerasTensor):
            return self.tensors[id(value)]
        if isinstance(value, dict):
            return ast.Dict(
                [*map(self.value, value)], [*map(self.value, value.values())]
            )
        if isinstance(value, list | tuple):
            array = _as_array(value)
            if array is not None:
                stored = self._stored(array)
                return call(ast.Attribute(stored, "tolist", ast.Load()))
            return sequence(map(self.value, value), is_tuple=isinstance(value, tuple))
        if isinstance(value, str | int | float | np.generic | None | type(...)):
            return literal(value.item() if isinstance(value, np.generic) else value)
        if isinstance(value, slice):
            return call("slice", map(self.value, (value.start, value.stop, value.step)))
        if isinstance(value, np.ndarray) or keras.ops.is_tensor(value):
            return self._array(value)
        return self._object(value)

    def _object(self, value: Any) -> Node:
        held = value if isinstance(value, live.Held) else None
        value = held.value if held else value
        kind = type(value).__name__
        if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
            raise CannotWriteError(
                "the source code of a lambda is not in the model. Give Lambda a "
                "function from your own module, or write the layer with keras.ops"
            )
        if isinstance(value, type | types.FunctionType):
            return self.named(value)
        if not hasattr(value, "get_config") or kind.startswith("Quantized"):
            raise CannotWriteError(f"{kind} cannot be written as source code")
        held = held or live.Held(value, live.config_of(value))
        if isinstance(value, keras.DTypePolicy) and held.config.keys() == {"name"}:
            name = held.config["name"]  # None: the global policy
            self.policies += [name] * (name is not None)
            return literal(name) if name is None else Policy(name)
        if live.is_model(value, held.config):
            return self.model(value)
        return self.instance(held)

    def instance(self, held: live.Held) -> Node:
        """Return the code that creates an object with its config."""
        cls, values = live.public_class(type(held.value)), held.arguments
        function = self.named(cls)
        config = _unprefixed(cls, held.config)
        if cls in WRAPPERS:
            config["layer"] = PLAIN_LAYER
        parameters = signature(cls).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        others = {k: v for k, v in config.items() if k != "name"}
        form = cls, live.text(others)
        if form not in self._all_needed:
            read = [v for k, v in values.items() if config[k] is not PLAIN_LAYER]
            is_safe = not live.has_data_like_objects(read)
            self._all_needed[form] = self._needed(cls, config, is_safe=is_safe)
        needed = self._all_needed[form]
        if not (takes_all or self.style.full):
            needed = needed & {*parameters}
        name, kwargs = config.get("name"), dict[str, Node]()
        # Sorted, since some configs have the order of the call that made the object.
        for key in sorted(needed):
            if not _is_keyword(key):
                raise CannotWriteError(f"{key!r} in its config is no keyword")
            if cls is keras.layers.Bidirectional and key in WRAPPED and config[key]:
                own = dataclasses.replace(values[key], config=config[key]["config"])
                kwargs[key] = self.instance(own)
            else:
                kwargs[key] = self._argument(key, values[key])
        usual = getattr(parameters.get("name"), "default", None)
        named = self._named(held.value, name, usual)  # parts of it are created first
        return call(function, *arguments(cls, named | kwargs))

    def _named(self, value: Any, name: str | None, usual: Any) -> dict[str, Node]:
        """Return `{"name": node}` for an object, or {} if it gets that name anyway."""
        if name is None:
            return {}
        kind = type(value).__name__
        if isinstance(value, keras.Operation):
            found = self.name(kind, name)
        else:
            # Histories show the automatic names of metrics.
            is_shown = isinstance(value, keras.Metric) or usual is not None
            is_written = is_shown or automatic_number(kind, name) is None
            found = {"name": literal(name)} if is_written else {}
        return {} if name == usual else found

    def name(self, kind: str, name: str) -> dict[str, Node]:
        """Return `{"name": node}` for a layer, or {} if Keras gives it that name."""
        self.names.append((kind, name))
        is_automatic = automatic_number(kind, name) is not None
        is_left_out = is_automatic and kind not in self.style.named
        return {} if is_left_out or self.style.full else {"name": Label((name,))}

    def named(self, thing: Any) -> Node:
        """Return the name of a class or a function, which it may import."""
        name = live.public_name(thing)
        if name is not None:
            is_short = name.startswith(SHORT)
            return dotted(name.removeprefix("keras.") if is_short else name)
        module, own = live.own_module(thing), getattr(thing, "__name__", str(thing))
        if module is None or not own.isidentifier():
            raise CannotWriteError(
                f"{own!r} cannot be imported. Put it into a module, and "
                "decorate it with @keras.saving.register_keras_serializable()"
            )
        if (module, own) not in self.imports:
            self.imports[module, own] = self._names.new(own)
        return dotted(self.imports[module, own])

    def _needed(
        self, cls: type, config: Mapping[str, Any], *, is_safe: bool
    ) -> set[str]:
        """Return the arguments that the object needs to have the same config."""
        none = inspect.Parameter.empty
        defaults = {k: p.default for k, p in signature(cls).parameters.items()}
        skipped = {"name"} | (set() if self.style.explicit else FOUND_IN_BUILD)
        if live.public_name(cls) and not self.style.train:
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
            made: Mapping[str, Any] = defaults
            if is_safe:
                made = _config(cls, given) or _config(cls, full | given) or defaults
            others = {
                k
                for k in config.keys() - skipped - needed
                if live.text(config[k]) != live.text(made.get(k, none))
            }
            if config.get("axis") == [made.get("axis")] and not self.style.explicit:
                others -= {"axis"}  # normalization layers turn it into a list
            if not others:
                return needed
            needed |= others

    def _argument(self, key: str, value: Any) -> Node:
        is_list = key in PER_AXIS and isinstance(value, list | tuple) and value
        if is_list and all(isinstance(n, int) and n == value[0] for n in value):
            value = value[0]
        if key == "learning_rate" and isinstance(value, float):  # a float32 variable
            value = float(str(np.float32(value)))
        if key == "policy_map":  # DTypePolicyMap does not accept names of policies
            policies = [
                call("keras.DTypePolicy", [self.value(x)]) for x in value.values()
            ]
            return ast.Dict([*map(literal, value)], policies)
        return self.value(value)

    def _array(self, value: Any) -> Node:
        """Return an array, or a tensor of the backend."""
        dtype = keras.backend.standardize_dtype(value.dtype)
        has_numpy = not dtype.startswith(("bfloat", "float8"))
        is_tensor = not isinstance(value, np.ndarray)
        if is_tensor and not has_numpy:
            value = keras.ops.cast(value, "float32")
        array = keras.ops.convert_to_numpy(value) if is_tensor else value
        array = array if has_numpy else array.astype("float32")
        is_inline = 0 < array.size <= INLINE
        written = _numbers(array) if is_inline else self._stored(array)
        if is_tensor or not has_numpy:
            return call("ops.convert_to_tensor", [written, literal(dtype)])
        return call("np.array", [written, literal(dtype)]) if is_inline else written

    def _stored(self, value: Any) -> Node:
        """Store a constant for the file of constants; return the code that reads it."""
        name = self._stems.new(self.place)
        self.constants[name] = value
        return ast.Subscript(dotted("CONSTANTS"), literal(name), ast.Load())


def arguments(
    function: Callable[..., Any], values: Mapping[str, Any], called: Iterable[str] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that pass values to a function, in its order.

    Arguments without a default and those in `called` are positional.
    """
    args, kwargs, others = list[Any](), dict[str, Any](), dict(values)
    is_next = True  # whether all parameters before are positional
    for key, parameter in signature(function).parameters.items():
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


class Names:
    """Names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken, self._numbers = {*taken}, dict[str, int]()

    def new(self, name: str) -> str:
        """Return a name that is not taken, such as `name_2`, and take it."""
        text, number = name, self._numbers.get(name, 1)
        while text in self._taken or (number > 1 and text == name):
            number += 1
            text = f"{name}_{number}"
        self._numbers[name] = number
        self._taken.add(text)
        return text


@functools.cache
def automatic(kind: str) -> str:
    """Return the stem of a class's automatic names, such as `conv2d` of `conv2d_1`."""
    return re.sub(r"_\d+$", "", type(kind, (keras.Operation,), {})().name)


def automatic_number(kind: str, name: str) -> int | None:
    """Return the number in a name if Keras may give that to a layer; `dense` has 0."""
    start, _, number = name.rpartition("_")
    if name == automatic(kind):
        return 0
    is_number = NAME_NUMBER.fullmatch(number) and start == automatic(kind)
    return int(number) if is_number else None


def _is_keyword(key: Any) -> bool:
    return isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key)


def _as_array(value: Any) -> Any:
    """Return many numbers or texts as an array, or None if an array is not the same."""
    found = keras.tree.flatten(value)
    is_text = all(isinstance(x, str) for x in found)
    is_plain = is_text or all(isinstance(x, NUMBER) for x in found)
    if len(found) <= INLINE or not is_plain:
        return None
    if is_text:  # an array has room for the longest text in each place, without NUL
        sizes = [*map(len, found)]
        is_large = len(found) * max(sizes) > max(WASTE * sum(sizes), TEXTS)
        if is_large or any("\0" in x for x in found):
            return None
    try:
        array = np.array(value)
    except ValueError:  # lists of several lengths
        return None
    return None if array.dtype.kind == "O" else array  # large integers


def _numbers(array: Any) -> Node:
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
