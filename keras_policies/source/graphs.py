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
    flat,
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
    unique,
)

RESERVED = {"keras", "layers", "ops", "np", "x", "inputs", "outputs", "pathlib"}
LONG = 32  # characters of a variable
TARGETS = 80  # columns of several, and of the function that is called
INPUT = {"dtype": "float32", "sparse": False, "ragged": False, "optional": False}


class Module(Objects):
    """The functions of a module, and what they need."""

    def __init__(self, style: Style) -> None:
        super().__init__(style)
        self.functions = dict[str, list[str]]()  # name -> lines, inner models first
        self.operations = set[str]()  # the classes of those that are called
        self._names = {"build_model"}

    def add(self, model: keras.Model, value: Any, name: str = "") -> Expression:
        """Add the function of a model; return its call."""
        name = name or unique(f"build_{_identifier(model.name)}", self._names)
        self._names.add(name)
        is_graph = hasattr(model, "operations")
        lines = Graph(self, model, value).lines() if is_graph else None
        self.functions[name] = lines or self._sequential(model, value)
        return call(name)

    def built(self, value: Any) -> Expression:
        # A model in another object, such as TimeDistributed.
        model = keras.saving.deserialize_keras_object(copy.deepcopy(value))
        return self.add(model, value)

    def layers(self, value: Any) -> list[Mapping[str, Any]]:
        """Return the layers of a model, without `trainable` if it freezes all."""
        found = list[Mapping[str, Any]]()
        for layer in value["config"]["layers"]:
            own = dict(layer["config"])
            if self._is_frozen(value) and not own.get("trainable"):
                own.pop("trainable", None)
            found.append({**layer, "config": own})
        return found

    def _is_frozen(self, value: Any) -> bool:
        return not self.style.explicit and value["config"].get("trainable") is False

    def ending(self, value: Any, args: Sequence[Expression]) -> list[str]:
        """Return the lines that make a model of its layers or tensors."""
        config, kind = value["config"], value["class_name"]
        names = {"Sequential": "keras.Sequential", "Functional": "keras.Model"}
        name = names.get(kind) or self.resolved(value, kind)[1]
        is_frozen = self._is_frozen(value)
        is_flag = not config.get("trainable", True) and not is_frozen
        flag = {"trainable": ("False",)} if is_flag else {}
        model = call(name, args, {**flag, **self.name(kind, config["name"])})
        if not is_frozen:
            return [statement("return ", model)]
        frozen = "    model.trainable = False"  # which freezes its layers
        return [statement("model = ", model), frozen, "    return model"]

    def _sequential(self, model: keras.Model, value: Any) -> list[str]:
        layers = self.layers(value)
        has_input = layers[0]["class_name"] == "InputLayer"
        made = [self.input(layers[0])] if has_input else []
        pairs = zip(layers[has_input:], model.layers, strict=True)
        made += [self.made(layer, op) for layer, op in pairs]
        return self.ending(value, [sequence(made)])

    def made(self, layer: Mapping[str, Any], op: Any) -> Expression:
        """Return the expression that makes a layer."""
        self.place = _identifier(op.name)
        try:
            return self.add(op, layer) if is_model(layer) else self.instance(layer)
        except CannotWriteError as error:
            raise no_source(op, error) from error

    def input(self, layer: Mapping[str, Any]) -> Expression:
        """Return the call of `keras.Input`."""
        config = layer["config"]
        shape = tuple(config["batch_shape"])
        has_batch = shape[:1] != (None,)
        kwargs = {"batch_shape": self.value(shape)} if has_batch else {}
        for key, default in INPUT.items():
            if config.get(key, default) != default:
                kwargs[key] = self.value(config[key])
        args = [] if has_batch else [self.value(shape[1:])]
        return call(
            "keras.Input", args, kwargs | self.name("InputLayer", op_name(layer))
        )


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a layer or of an operation in a model, as in its config."""

    layer: Mapping[str, Any]
    op: Any  # the layer itself
    number: int
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def keys(self) -> list[Key]:
        """The tensors that it takes."""
        return [*_keys([self.args, self.kwargs])]


class Graph:
    """The function that builds a Functional."""

    def __init__(self, module: Module, model: keras.Model, value: Any) -> None:
        self.module, self.value, config = module, value, value["config"]
        ops = {op.name: op for op in model.operations}
        self.calls = {
            (op_name(layer), each.number): each
            for layer in module.layers(value)
            for each in self._calls(layer, ops[op_name(layer)])
        }
        self.inputs = _as_live(config["input_layers"], model.input)
        outputs = _as_live(config["output_layers"], model.output)
        self.outputs = _counted(outputs, ops)
        self.order = self._order()
        self.tensors = dict[Key, Expression]()
        self.names = {*RESERVED}

    def _calls(self, layer: Mapping[str, Any], op: Any) -> Iterator[Call]:
        """Yield the calls of a layer; an input has one."""
        nodes = layer["inbound_nodes"] or [{"args": (), "kwargs": {}}]
        for number, node in enumerate(nodes):
            said = {k: v for k, v in node["kwargs"].items() if self._is_said(op, k, v)}
            yield Call(layer, op, number, node["args"], said)

    def _is_said(self, op: Any, key: str, value: Any) -> bool:
        """Return whether a call has to pass an argument by name."""
        parameters = inspect.signature(op.call).parameters
        is_mask = key == "mask" or key.removesuffix("_mask") in {*parameters} - {key}
        if is_mask and not self.module.style.explicit:
            return False  # Keras passes the masks of its tensors
        default = parameters[key].default if key in parameters else inspect
        is_unset = key == "training" and value is None
        return not is_unset and not operations.is_plainly(value, default)

    def _order(self) -> list[tuple[str, int]]:
        """Return the calls that lead to the outputs, each after those it needs."""
        order = dict.fromkeys(key[:2] for key in _leaves(self.inputs))
        waiting = [key[:2] for key in reversed([*_leaves(self.outputs)])]
        while waiting:
            name, number = at = waiting[-1]
            before = [key[:2] for key in self.calls[at].keys]
            before += [(name, number - 1)] * (number > 0)
            if needed := [each for each in before if each not in order]:
                waiting += reversed(needed)
            else:
                order.setdefault(at)
                waiting.pop()
        return [*order]

    def lines(self) -> list[str]:
        """Return the lines of the function."""
        uses, variables, lines = self._uses(), dict[str, str](), list[str]()
        for place, (name, number) in enumerate(self.order):
            each = self.calls[name, number]
            if number == 0 and (name, 1) in self.calls:
                variables[name] = self._named(name)
                made = self.module.made(each.layer, each.op)
                lines.append(statement(f"{variables[name]} = ", made))
            called = self._called(each, variables.get(name))
            target = self._target(each, place, uses)
            lines.append(statement(_targets(target, called), called))
        ends = [self._nest(self.inputs), self._nest(self.outputs)]
        return lines + self.module.ending(self.value, ends)

    def _uses(self) -> dict[Key, set[int]]:
        """Return the numbers of the statements that take each tensor."""
        uses = defaultdict[Key, set[int]](set)
        taken = [*(self.calls[at].keys for at in self.order), _leaves(self.outputs)]
        for place, keys in enumerate(taken):
            for key in keys:
                uses[key].add(place)
        return uses

    def _called(self, each: Call, variable: str | None) -> Expression:
        """Return the expression that calls a layer or an operation."""
        module, layer = self.module, each.layer
        if layer["class_name"] == "InputLayer":
            return module.input(layer)

        def write(value: Any) -> Expression:
            return module.value(value, self.tensors)

        if isinstance(each.op, keras.Layer):
            made = variable or module.made(layer, each.op)
            kwargs = {key: write(value) for key, value in each.kwargs.items()}
            return call(made, map(write, each.args), kwargs)
        module.operations.add(type(each.op).__name__)
        config = {k: v for k, v in layer["config"].items() if k != "name"}
        module.place = _identifier(op_name(layer))
        try:
            return operations.op_call(each.op, config, each.args, each.kwargs, write)
        except ValueError as error:
            raise no_source(each.op, error) from error

    def _target(self, each: Call, place: int, uses: Mapping[Key, set[int]]) -> str:
        """Name the results of a call; return the target of the assignment."""
        name, paths = op_name(each.layer), _paths(_structure(each))
        keys = [(name, each.number, n) for n in range(len(paths))]
        used = [key for key in keys if uses[key]]
        if len(keys) > 1 and paths == [f"[{n}]" for n in range(len(keys))]:
            for key in used:
                places = uses[key] if len(used) == 1 else set()
                self.tensors[key] = (self._variable(name, places, place),)
            return ", ".join(str(self.tensors.get(key, "_")[0]) for key in keys)
        places = {at for key in used for at in uses[key]}
        target = self._variable(name, places, place, may_end=paths == [""])
        self.tensors |= {
            k: (target + path,) for k, path in zip(keys, paths, strict=True)
        }
        return target

    def _variable(
        self, name: str, places: set[int], place: int, *, may_end: bool = False
    ) -> str:
        """Return a variable: `x` if the next statement alone takes it."""
        inputs = len([*_leaves(self.inputs)])
        if place < inputs:
            return "inputs" if inputs == 1 else self._named(name)
        if places != {place + 1}:
            return self._named(name)
        return "outputs" if may_end and place + 1 == len(self.order) else "x"

    def _named(self, name: str) -> str:
        found = unique(_identifier(name), self.names)
        self.names.add(found)
        return found

    def _nest(self, value: Any) -> Expression:
        """Return a structure of tensors, as inputs and outputs of a model."""
        if _is_leaf(value):
            return self.tensors[tuple(value)]
        if isinstance(value, dict):
            return mapping({key: self._nest(each) for key, each in value.items()})
        return sequence(map(self._nest, value), isinstance(value, tuple))


def op_name(layer: Mapping[str, Any]) -> str:
    """Return the name of a layer in the config of its model."""
    return str(layer.get("name") or layer["config"]["name"])


def no_source(op: Any, error: Exception) -> ValueError:
    """Return the error that names a layer or an operation."""
    place = f"{op.name!r} ({type(op).__name__})"
    return ValueError(f"There is no source code for this model: {place}: {error}.")


def _targets(names: str, called: Expression) -> str | Expression:
    """Return the left side of an assignment, in brackets if it has to be split."""
    start = next((n for n, part in enumerate(called) if not isinstance(part, str)), 0)
    is_long = len(names) + len(flat(called[:start])) > TARGETS and "," in names
    brackets = sequence([(name,) for name in names.split(", ")], is_tuple=True)
    return (*brackets, " = ") if is_long else f"{names} = "


def statement(beginning: str | Expression, expression: Expression) -> str:
    """Return a statement of a function, in lines."""
    start = (beginning,) if isinstance(beginning, str) else beginning
    return "    " + laid_out((*start, *expression), 4)


def _is_leaf(value: Any) -> bool:
    """Return whether a value is a tensor in `input_layers` or `output_layers`."""
    is_list = isinstance(value, list | tuple)
    return is_list and [*map(type, value)] == [str, int, int]


def _leaves(value: Any) -> Iterator[Key]:
    """Yield the tensors in `input_layers` or `output_layers`."""
    if _is_leaf(value):
        yield tuple(value)
    else:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _as_live(value: Any, live: Any) -> Any:
    """Return inputs or outputs as they were given; Keras 3.8 records a list of one."""
    (first, *_), is_one = [*_leaves(value)], isinstance(live, keras.KerasTensor)
    return first if is_one else value


def _counted(value: Any, ops: Mapping[str, Any]) -> Any:
    """Return outputs that count calls of Functionals from 0; Keras begins with 1."""
    if _is_leaf(value):
        return [value[0], value[1] - hasattr(ops[value[0]], "operations"), value[2]]
    if isinstance(value, dict):
        return {key: _counted(each, ops) for key, each in value.items()}
    return type(value)(_counted(each, ops) for each in value)


def _keys(value: Any) -> Iterator[Key]:
    """Yield the tensors in a value of a config."""
    if is_object(value) and value["class_name"] == "__keras_tensor__":
        yield tuple(value["config"]["keras_history"])
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _keys(each)


def _structure(each: Call) -> Any:
    """Return what a call gives, with KerasTensors in the place of tensors."""
    outputs, is_op = each.op.output, not isinstance(each.op, keras.Layer)
    if hasattr(each.op, "operations") or not (is_op or isinstance(outputs, list)):
        return outputs
    args, kwargs = _symbolic(each.args), _symbolic(each.kwargs)
    try:
        return each.op.compute_output_spec(*args, **kwargs)
    except Exception:  # what is written will not run either
        return outputs


def _symbolic(value: Any) -> Any:
    if is_object(value) and value["class_name"] == "__keras_tensor__":
        return keras.KerasTensor(value["config"]["shape"], value["config"]["dtype"])
    if is_object(value):
        return keras.saving.deserialize_keras_object(copy.deepcopy(value))
    if isinstance(value, dict):
        return {key: _symbolic(each) for key, each in value.items()}
    return (
        type(value)(map(_symbolic, value)) if isinstance(value, list | tuple) else value
    )


def _paths(structure: Any, path: str = "") -> list[str]:
    """Return how each tensor of a structure is reached, as in `["a"][0]`."""
    if isinstance(structure, keras.KerasTensor):
        return [path]
    is_dict = isinstance(structure, dict)
    keys = sorted(structure) if is_dict else range(len(structure))
    return [p for k in keys for p in _paths(structure[k], f"{path}[{literal(k)}]")]


def _identifier(name: str) -> str:
    """Return a name for a variable that resembles a name of a layer."""
    text = re.sub(r"[^0-9a-zA-Z]+", "_", name).strip("_")[:LONG].strip("_") or "layer"
    return f"layer_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text
