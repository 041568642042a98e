"""Models as functions that build them."""

import copy
import dataclasses
import inspect
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies.source import operations
from keras_policies.source.layout import (
    Expression,
    call,
    laid_out,
    literal,
    mapping,
    sequence,
)
from keras_policies.source.objects import (
    CannotWriteError,
    Key,
    Objects,
    Style,
    is_model,
    is_object,
)

RESERVED = {"keras", "layers", "ops", "np", "x", "inputs", "outputs", "pathlib"}
LONG = 32  # characters of a variable
INPUT = {"sparse": False, "ragged": False, "optional": False, "dtype": "float32"}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a layer or of an operation in a model, as in its config."""

    layer: Mapping[str, Any]
    op: Any  # the layer itself
    number: int
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def at(self) -> tuple[str, int]:
        """Its layer and number, as its tensors name it."""
        return self.layer["name"], self.number


class Module:
    """The functions of a module, and what they need."""

    def __init__(self, style: Style) -> None:
        self.objects = Objects(style, self._built_in)
        self.style = style
        self.functions = dict[str, list[str]]()  # name -> lines, inner models first
        self._names = {"build_model"}

    def add(self, model: keras.Model, value: Any, name: str = "") -> Expression:
        """Add the function of a model; return its call."""
        name = name or _unique(f"build_{_identifier(model.name)}", self._names)
        write = self._graph if hasattr(model, "operations") else self._sequence
        self.functions[name] = write(model, value)
        return call((name,), (), {})

    def _built_in(self, value: Any) -> Expression:
        """Add the function of a model in another object, such as TimeDistributed."""
        return self.add(
            keras.saving.deserialize_keras_object(copy.deepcopy(value)), value
        )

    def model(self, value: Any, args: Sequence[Expression]) -> Expression:
        """Return the call of a model's class."""
        config, kind = value["config"], value["class_name"]
        name = "keras.Sequential" if kind == "Sequential" else "keras.Model"
        if kind not in ("Functional", "Model", "Sequential"):
            _, name = self.objects.resolved(value)
        frozen = {} if config.get("trainable", True) else {"trainable": ("False",)}
        return call(
            (name,), args, {**frozen, **self.objects.name(kind, config["name"])}
        )

    def _sequence(self, model: keras.Model, value: Any) -> list[str]:
        """Return the lines that build a Sequential."""
        written, live = [], iter(model.layers)
        for layer in value["config"]["layers"]:
            is_input = layer["class_name"] == "InputLayer"
            op = None if is_input else next(live)
            written.append(self.input(layer) if is_input else self.made(layer, op))
        return [_statement("return ", self.model(value, [sequence(written)]))]

    def made(self, layer: Mapping[str, Any], op: Any) -> Expression:
        """Return the expression that makes a layer."""
        name = layer["config"].get("name", op.name)
        self.objects.place = _identifier(name)
        try:
            return (
                self.add(op, layer) if is_model(layer) else self.objects.instance(layer)
            )
        except CannotWriteError as error:
            reason = f"layer {name!r} ({layer['class_name']}): {error}."
            raise ValueError(
                f"There is no source code for this model: {reason}"
            ) from error

    def input(self, layer: Mapping[str, Any]) -> Expression:
        config = layer["config"]
        kwargs, args = dict[str, Any](), []
        batch, *shape = tuple(config["batch_shape"]) or (0,)
        if batch is None:
            args = [self.objects.value(tuple(shape))]
        else:
            kwargs["batch_shape"] = self.objects.value(tuple(config["batch_shape"]))
        for key, default in INPUT.items():
            if config.get(key, default) != default:
                kwargs[key] = self.objects.value(config[key])
        kwargs |= self.objects.name("InputLayer", config["name"])
        return call(("keras.Input",), args, kwargs)

    def _graph(self, model: keras.Model, value: Any) -> list[str]:
        """Return the lines that build a Functional."""
        return _Graph(self, model, value).lines()


class _Graph:
    """The function that builds a Functional."""

    def __init__(self, module: Module, model: keras.Model, value: Any) -> None:
        self.module, self.value = module, value
        config = value["config"]
        ops = {op.name: op for op in model.operations}
        self.calls = {
            each.at: each
            for layer in config["layers"]
            for each in self._calls(layer, ops)
        }
        self.inputs = config["input_layers"]
        self.outputs = _counted(config["output_layers"], ops)
        self.order = self._order()
        self.tensors = dict[Key, Expression]()
        self.names = {*RESERVED}

    def _calls(
        self, layer: Mapping[str, Any], ops: Mapping[str, Any]
    ) -> Iterator[Call]:
        """Yield the calls of a layer; an input has one."""
        op = ops[layer["name"]]
        nodes = layer["inbound_nodes"] or [{"args": (), "kwargs": {}}]
        for number, node in enumerate(nodes):
            kwargs = {
                k: v for k, v in node["kwargs"].items() if self._is_said(op, k, v)
            }
            yield Call(layer, op, number, node["args"], kwargs)

    def _is_said(self, op: Any, key: str, value: Any) -> bool:
        """Return whether a call has to pass an argument by name."""
        parameters = inspect.signature(op.call).parameters
        of_mask = key == "mask" or key.removesuffix("_mask") in parameters.keys() - {
            key
        }
        if of_mask and not self.module.style.explicit and [*_keys(value)]:
            return False  # Keras passes the masks of its tensors
        default = parameters[key].default if key in parameters else inspect
        return not operations.is_plainly(value, default)

    def _order(self) -> list[Call]:
        """Return the calls that lead to the outputs, each after those it needs."""
        order = {at: self.calls[at] for at in (key[:2] for key in _leaves(self.inputs))}
        waiting = [key[:2] for key in reversed([*_leaves(self.outputs)])]
        while waiting:
            at = waiting[-1]
            before = [key[:2] for key in _keys([*self._values(at)])]
            if (at[0], at[1] - 1) in self.calls:
                before.append((at[0], at[1] - 1))
            if needed := [each for each in before if each not in order]:
                waiting += reversed(needed)
            else:
                order.setdefault(at, self.calls[at])
                waiting.pop()
        return [*order.values()]

    def _values(self, at: tuple[str, int]) -> Iterator[Any]:
        yield from self.calls[at].args
        yield from self.calls[at].kwargs.values()

    def lines(self) -> list[str]:
        """Return the lines of the function."""
        uses, shared = (
            self._uses(),
            {at[0] for at in self.calls if (at[0], at[1] + 1) in self.calls},
        )
        lines, variables = [], dict[str, str]()
        for place, each in enumerate(self.order):
            name = each.layer["name"]
            if name in shared and name not in variables:
                variables[name] = _unique(_identifier(name), self.names)
                made = self.module.made(each.layer, each.op)
                lines.append(_statement(f"{variables[name]} = ", made))
            called = self._called(each, variables.get(name))
            target = self._target(each, place, uses)
            lines.append(_statement(f"{target} = ", called))
        ends = [self._nest(self.inputs), self._nest(self.outputs)]
        return [*lines, _statement("return ", self.module.model(self.value, ends))]

    def _uses(self) -> dict[Key, list[int]]:
        """Return the numbers of the statements that take each tensor."""
        uses = defaultdict(list)
        for place, each in enumerate(self.order):
            for key in _keys([*self._values(each.at)]):
                uses[key].append(place)
        for key in _leaves(self.outputs):
            uses[key].append(len(self.order))
        return uses

    def _called(self, each: Call, variable: str | None) -> Expression:
        """Return the expression that calls a layer or an operation."""
        objects, layer = self.module.objects, each.layer
        if layer["class_name"] == "InputLayer":
            return self.module.input(layer)
        if not isinstance(each.op, keras.Layer):
            return self._op(each)
        made = (variable,) if variable else self.module.made(layer, each.op)
        kwargs = {k: objects.value(v, self.tensors) for k, v in each.kwargs.items()}
        return call(made, [objects.value(v, self.tensors) for v in each.args], kwargs)

    def _op(self, each: Call) -> Expression:
        objects, name = self.module.objects, each.layer["name"]
        config = {k: v for k, v in each.layer["config"].items() if k != "name"}
        objects.place = _identifier(name)

        def write(value: Any) -> Expression:
            return objects.value(value, self.tensors)

        try:
            return operations.op_call(each.op, config, each.args, each.kwargs, write)
        except ValueError as error:
            reason = f"operation {name!r}: {error}."
            raise ValueError(
                f"There is no source code for this model: {reason}"
            ) from error

    def _target(self, each: Call, place: int, uses: Mapping[Key, list[int]]) -> str:
        """Name the results of a call; return the target of the assignment."""
        name = each.layer["name"]
        paths = _paths(_structure(each, self.calls))
        used = [n for n in range(len(paths)) if uses.get((*each.at, n))]
        places = {at for n in used for at in uses[(*each.at, n)]}
        if len(paths) > 1 and all(path == f"[{n}]" for n, path in enumerate(paths)):
            names = ["_"] * len(paths)
            for n in used:
                own = {*uses[(*each.at, n)]} if len(used) == 1 else {-1}
                names[n] = self._variable(name, own, place)
                self.tensors[(*each.at, n)] = (names[n],)
            return ", ".join(names)
        target = self._variable(name, places, place, paths == [""])
        for n, path in enumerate(paths):
            self.tensors[(*each.at, n)] = (f"{target}{path}",)
        return target

    def _variable(
        self, name: str, places: set[int], place: int, may_end: bool = False
    ) -> str:
        is_input = place < len([*_leaves(self.inputs)])
        if is_input and len([*_leaves(self.inputs)]) == 1:
            return "inputs"
        if places == {len(self.order)} == {place + 1} and may_end:
            return "outputs"
        if places == {place + 1} and not is_input:
            return "x"
        return _unique(_identifier(name), self.names)

    def _nest(self, value: Any) -> Expression:
        """Return a structure of tensors, as inputs and outputs of a model."""
        if _is_leaf(value):
            return self.tensors[tuple(value)]
        if isinstance(value, dict):
            return mapping({key: self._nest(each) for key, each in value.items()})
        brackets = "()" if isinstance(value, tuple) else "[]"
        return sequence(map(self._nest, value), brackets)


def _is_leaf(value: Any) -> bool:
    """Return whether a value is a tensor in `input_layers` or `output_layers`."""
    is_list = isinstance(value, list | tuple) and len(value) == 3
    return is_list and [*map(type, value)] == [str, int, int]


def _counted(value: Any, ops: Mapping[str, Any]) -> Any:
    """Return outputs that count calls of Functionals from 0; Keras begins with 1."""
    if _is_leaf(value):
        return [value[0], value[1] - hasattr(ops[value[0]], "operations"), value[2]]
    if isinstance(value, dict):
        return {key: _counted(each, ops) for key, each in value.items()}
    return type(value)(_counted(each, ops) for each in value)


def _leaves(value: Any) -> Iterator[Key]:
    """Yield the tensors in `input_layers` or `output_layers`."""
    if _is_leaf(value):
        yield tuple(value)
    elif value is not None:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _keys(value: Any) -> Iterator[Key]:
    """Yield the tensors in a value of a config."""
    if is_object(value) and value["class_name"] == "__keras_tensor__":
        yield tuple(value["config"]["keras_history"])
    elif isinstance(value, dict):
        yield from _keys([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _keys(each)


def _structure(each: Call, calls: Any) -> Any:
    """Return what a call gives: None for a tensor, in a structure of Python."""
    if is_model(each.layer):
        if "output_layers" not in each.layer["config"]:
            return None
        return _emptied(each.layer["config"]["output_layers"])
    if isinstance(each.op, keras.Layer) and not isinstance(each.op.output, list | dict):
        return None

    def symbolic(value: Any) -> Any:
        if is_object(value) and value["class_name"] == "__keras_tensor__":
            return keras.KerasTensor(value["config"]["shape"], value["config"]["dtype"])
        if is_object(value):
            return keras.saving.deserialize_keras_object(value)
        if isinstance(value, list | tuple):
            return type(value)(map(symbolic, value))
        return value

    kwargs = {key: symbolic(value) for key, value in each.kwargs.items()}
    spec = each.op.compute_output_spec(*symbolic([*each.args]), **kwargs)
    return keras.tree.map_structure(lambda _: None, spec)


def _emptied(value: Any) -> Any:
    if _is_leaf(value):
        return None
    if isinstance(value, dict):
        return {key: _emptied(each) for key, each in value.items()}
    return [_emptied(each) for each in value]


def _paths(structure: Any, path: str = "") -> list[str]:
    """Return how each tensor of a structure is reached, as in `["a"][0]`."""
    if structure is None:
        return [path]
    if isinstance(structure, dict):
        items = [(literal(key), structure[key]) for key in sorted(structure)]
    else:
        items = [(str(n), each) for n, each in enumerate(structure)]
    return [p for key, each in items for p in _paths(each, f"{path}[{key}]")]


def _identifier(name: str) -> str:
    """Return a name for a variable that resembles a name of a layer."""
    text = re.sub(r"[^0-9a-zA-Z]+", "_", name).strip("_")[:LONG].strip("_") or "layer"
    return f"layer_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text


def _unique(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _statement(beginning: str, expression: Expression) -> str:
    """Return a statement of a function, in lines."""
    return "    " + laid_out((beginning, *expression), 4)
