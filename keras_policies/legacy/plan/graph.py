"""Turns the graph of a legacy Functional model into the form of Keras 3.

In tf.keras a node is a nest of `[layer, node index, tensor index, kwargs]`, and the
`kwargs` of its first tensor are those of the call. In Keras 3 it is `{"args",
"kwargs"}`; here, with a `CallOutput` wherever a tensor was passed. A nested model that
was built before it was called has a node 0 of its own in tf.keras, so its calls count
from 1; here, all calls count from 0. Source: tf.keras engine/functional.py
`get_network_config`.
"""

import collections
import graphlib
import itertools
import re
from collections.abc import Container, Iterator, Sequence
from typing import Any, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, walks
from keras_policies.legacy.base.configs import (
    CallOutput,
    inner_layers,
    is_program,
    layer_name,
    name_of,
)
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.traced_functions import TracedFunctions, specs
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import op_layers
from keras_policies.legacy.plan.arguments import OF_CALLS
from keras_policies.legacy.plan.report import Arguments

Call: TypeAlias = tuple[str, int]  # a layer, and the number of its call
Nest: TypeAlias = Any  # lists and dicts of tensors and plain values, from JSON

CONSTANT = "_CONSTANT_VALUE"
ELLIPSIS = {"class_name": "__ellipsis__", "config": {}}
# Layers that added a loss or a metric to their model, and passed on their input.
ADDED = "AddLoss", "AddMetric"
# Layers that tf.keras calls on [inputs, *initial_state], Keras 3 with a keyword.
RECURRENT = {
    *("Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "CuDNNGRU"),
    *("CuDNNLSTM", "GRU", "LSTM", "RNN", "SimpleRNN"),
}


def in_order(config: Config) -> list[Call]:
    """Return a Functional's calls in Keras 3, each after those whose outputs it takes.

    Raise if there is no such order, or a call that is not in the graph.
    """
    before: dict[Call, list[Call]] = {}
    layers = config["layers"]
    nests = [layer["inbound_nodes"] for layer in layers], config["output_layers"]
    taken = [*configs.call_outputs([*nests])]
    for layer in layers:
        name, nodes = layer["name"], layer["inbound_nodes"]
        if (name, 0) in before:
            raise LegacyModelError(f"corrupt: two layers have the name {name!r}.")
        if not nodes and layer["class_name"] == "InputLayer":
            before[name, 0] = []
        for number, node in enumerate(nodes):
            inputs = configs.call_outputs([node["args"], node["kwargs"]])
            # The calls of a layer are made in their order.
            previous = [(name, number - 1)] * bool(number)
            before[name, number] = [each[:2] for each in inputs] + previous
    for each in taken:
        if each[:2] not in before:
            raise LegacyModelError(f"corrupt: a layer takes the tensor {[*each]!r}.")
    try:
        return [*graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError as error:
        names = " -> ".join(name for name, _ in error.args[1][:9])
        reason = f"corrupt: its layers take what they return: {names}."
        raise LegacyModelError(reason) from None


def only_for_losses(config: Config) -> set[str]:
    """Return the layers of a Functional that only lead to one of `ADDED`."""
    written = [layer for layer in config["layers"] if isinstance(layer, dict)]
    added = {name_of(layer) for layer in written if layer["class_name"] in ADDED}
    if not added:
        return set()
    graph = _Graph(config)
    ends = graph.calls([config["input_layers"], config["output_layers"]])
    names = (name for name, _ in ends)
    kept = walks.reachable(names, lambda name: graph.taken.get(name, ()))
    return graph.names - added - {*kept}


def after(config: Config, first: set[str]) -> set[str]:
    """Return the layers of a model that take what some of its layers lead to."""
    if "input_layers" not in config:
        names = map(name_of, config["layers"])
        return {*itertools.dropwhile(lambda name: name not in first, names)} - first
    takers = collections.defaultdict[str, list[str]](list)
    for name, taken in _Graph(config).taken.items():
        for other in taken:
            takers[other].append(name)
    starts = [name for other in first for name in takers[other]]
    return {*walks.reachable(starts, lambda name: takers[name])}


def functional_graph(config: Config, layers: Sequence[Config]) -> Config:
    """Return the graph of a Functional; layers that are left out are empty configs."""
    graph = _Graph(config)
    pairs = [*zip(config["layers"], layers, strict=True)]
    connected = []
    for legacy, converted in pairs:
        if not converted:
            continue
        name, nodes = name_of(legacy), legacy.get("inbound_nodes") or []
        for node in nodes:
            inputs = tensors(node, graph.names)
            with located(layer=name):
                budget.check_inputs(len(inputs))
            _check_constants(name, inputs)
        is_op = op_layers.is_call(converted)
        if not is_op:
            nodes, constants = graph.with_constants(name, nodes)
            connected += constants
        if is_op or is_program(converted):
            # A list of one tensor stays a list: `tf.concat([x], 1)`.
            calls = [(graph.nest(node), graph.kwargs(node)) for node in nodes]
        else:
            calls = [graph.layer_call(legacy, node) for node in nodes]
        called = [{"args": [x], "kwargs": kwargs} for x, kwargs in calls]
        connection = {"name": layer_name(name), "inbound_nodes": called}
        connected.append({**converted, **connection})
    return {
        "layers": connected,
        "input_layers": graph.end(config["input_layers"]),
        "output_layers": graph.end(config["output_layers"]),
    }


def arguments(config: Config) -> list[Arguments | None]:
    """Return what each layer of a model is called on, if that is known."""
    layers = [x if isinstance(x, dict) else {} for x in config["layers"]]
    names, calls = {*map(name_of, layers)}, (x.get("inbound_nodes") for x in layers)
    return [_arguments(nodes[0], names) if nodes else None for nodes in calls]


def _arguments(node: Nest, names: Container[str]) -> Arguments:
    count = len(tensors(node, names))
    if isinstance(node, dict):
        return Arguments(count, sorted(node))
    parts = [node] if _is_tensor(node, names) else node
    first = [part[:3] if _is_tensor(part, names) else part for part in parts]
    return Arguments(count, len(tensors(first, names)))


def _is_tensor(value: Nest, names: Container[str]) -> bool:
    match value:
        case [str(name), int(), _] | [str(name), int(), _, _]:
            return name in names or name == CONSTANT
    return False


def tensors(nest: Nest, names: Container[str]) -> list[Nest]:
    """Return the tensors in a nest, each before those of its kwargs."""
    if _is_tensor(nest, names):
        kwargs: Config = nest[3] if len(nest) > 3 else {}
        from_kwargs = (tensors(kwargs[key], names) for key in sorted(kwargs or {}))
        return [[*nest[:3], {}], *itertools.chain(*from_kwargs)]
    if isinstance(nest, dict):
        nest = [nest[key] for key in sorted(nest)]
    if not isinstance(nest, list | tuple):
        return []
    return [tensor for item in nest for tensor in tensors(item, names)]


def _check_constants(layer: str, inputs: Sequence[Nest]) -> None:
    """Raise if a layer takes a constant that is ragged or sparse."""
    for name, _, value, *_ in inputs:
        is_constant = name == CONSTANT and isinstance(value, list | tuple)
        if is_constant and {"_TYPE": "COMPOSITE"} in value[:1]:
            kind = re.search(r"tf\.(\w+)TensorSpec", str(value[1:]))
            raise LegacyModelError(
                f"it takes a constant that is {kind[1] if kind else 'composite'}, and "
                "Keras 3 passes dense tensors.",
                "Build the model in code, with that padded, and call load_weights.",
                layer=layer,
                code="KP307",
            )


class _Graph:
    """The layers of one Functional model by name, and the calls of them."""

    def __init__(self, config: Config) -> None:
        layers = {name_of(layer): layer for layer in config["layers"]}
        self.names = {*layers}
        self._numbers: dict[str, Iterator[int]] = {}  # of layers that give constants
        # The number of each layer's first call is the lowest that anything refers to: a
        # call is not in the file if nothing takes its output.
        self.first_call: dict[str, int] = {}
        calls = {n: [*self.calls(x.get("inbound_nodes"))] for n, x in layers.items()}
        ends = self.calls(config["output_layers"])
        for name, node in itertools.chain(*calls.values(), ends):
            self.first_call[name] = min(node, self.first_call.get(name, node))
        # Layer -> the layers whose outputs it takes.
        self.taken = {name: {other for other, _ in calls[name]} for name in calls}

    def calls(self, nest: Nest) -> Iterator[tuple[str, int]]:
        """Yield `(layer, node index)` of each tensor in a nest, and in its kwargs."""
        yield from ((name, node) for name, node, *_ in tensors(nest, self.names))

    def is_tensor(self, value: Nest) -> bool:
        """Return whether a value is `[layer, node index, tensor index, …]`."""
        return _is_tensor(value, self.names)

    def nest(self, value: Nest) -> Nest:
        """Return a nest of tensors and plain values in the Keras 3 form."""
        if self.is_tensor(value):
            return self._tensor(*value[:3])
        if isinstance(value, dict) and "class_name" not in value:
            return {key: self.nest(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            self._check_elsewhere(value)
            return [self.nest(item) for item in value]
        return ELLIPSIS if value is Ellipsis else value

    def _check_elsewhere(self, value: Nest) -> None:
        """Raise if a value is a tensor of another model.

        If a layer is in a nested model, too, tf.keras may write that one's call of it.
        """
        if [*map(type, value)] == [str, int, int, dict]:
            raise LegacyModelError(
                f"a layer is called on {value[0]!r}, which is not a layer of this "
                "model: tf.keras cannot open it either.",
                "Build the model in code, and call load_weights.",
            )

    def _tensor(self, name: str, node: int, index: Any) -> Any:
        """Return the Keras 3 form of a tensor, or the constant in its place."""
        if name == CONSTANT:
            return index
        if not isinstance(index, int) or node < 0 or index < 0:
            reference = [name, node, index]
            raise LegacyModelError(f"corrupt: a layer takes the tensor {reference!r}.")
        first = self.first_call.get(name, 0)
        return CallOutput(layer_name(name), node - first, index)

    def kwargs(self, node: Nest) -> Config:
        """Return the keyword arguments of a node: those of its first tensor."""
        if self.is_tensor(node):
            kwargs = node[3] if len(node) == 4 else {}
            return {key: self.nest(value) for key, value in (kwargs or {}).items()}
        inner = node.values() if isinstance(node, dict) else node
        if isinstance(inner, str) or not hasattr(inner, "__iter__"):
            return {}
        return next((found for found in map(self.kwargs, inner) if found), {})

    def layer_call(self, layer: Config, node: Nest) -> tuple[Nest, Config]:
        """Return the argument and the keyword arguments of one call of a layer."""
        first, kwargs = self.nest(_by_input(layer, node)), self.kwargs(node)
        return call(layer["class_name"], layer["config"], first, kwargs)

    def with_constants(self, name: str, node: Nest) -> tuple[Nest, list[Config]]:
        """Return a call with layers that give its constants, and these layers.

        Keras 3 calls layers on tensors alone. A constant hangs on a tensor beside it.
        """
        inputs = tensors(node, self.names)
        beside = next((tensor for tensor in inputs if tensor[0] != CONSTANT), None)
        added: list[Config] = []

        def replaced(value: Nest) -> Nest:
            if not self.is_tensor(value):
                is_list = isinstance(value, list | tuple)
                return [replaced(item) for item in value] if is_list else value
            if value[0] != CONSTANT or beside is None:
                return value
            constant_name = self._new_name(f"{name}_constant")
            added.append(op_layers.constant_config(constant_name, value[2]))
            call = {"args": [[self.nest(beside)]], "kwargs": {}}
            added[-1]["inbound_nodes"] = [call]
            return [constant_name, 0, 0, *value[3:]]

        return replaced(node), added

    def _new_name(self, wanted: str) -> str:
        numbers = self._numbers.setdefault(wanted, itertools.count())
        name = next(x for n in numbers if (x := f"{wanted}_{n}") not in self.names)
        self.names.add(name)
        return name

    def end(self, value: Nest) -> Nest:
        """Return an entry of `input_layers` or `output_layers`."""
        if self.is_tensor(value):
            if value[0] not in self.names:
                reason = f"corrupt: {value[0]!r} is not a layer of this model."
                raise LegacyModelError(reason)
            return self._tensor(*value[:3])
        if isinstance(value, dict):
            return {key: self.end(item) for key, item in value.items()}
        if not isinstance(value, list | tuple):
            reason = f"corrupt: {value!r} is not an input or output of a model."
            raise LegacyModelError(reason)
        ends = [self.end(item) for item in value]
        return ends[0] if len(ends) == 1 else ends


def _by_input(layer: Config, node: Nest) -> Nest:
    """Return what a model takes, in a list where the keys of a dict are not its inputs.

    They are in the order of the keys, as texts. Source: `_flatten_to_reference_inputs`
    of keras/engine/functional.py of 2.4.
    """
    config = layer["config"]  # up to Keras 2.2.2, a list for a Sequential
    inputs = config.get("input_layers") if isinstance(config, dict) else None
    if not isinstance(node, dict) or not isinstance(inputs, list):
        return node
    names = {*map(name_of, inner_layers(layer))}
    taken = [name for name, *_ in tensors(inputs, names)]
    if {*taken} <= node.keys():
        return node
    values = [node[key] for key in sorted(node)]
    return _packed(inputs, iter(values), names) if len(values) == len(taken) else values


def _packed(inputs: Nest, values: Iterator[Nest], names: Container[str]) -> Nest:
    """Return values in the nest of a model's inputs, such as `[[a, b], c]`."""
    if _is_tensor(inputs, names):
        return next(values)
    return [_packed(part, values, names) for part in inputs]


def call(
    class_name: str, config: Config, first: Nest, kwargs: Config
) -> tuple[Nest, Config]:
    """Return the arguments of a layer's call, as Keras 3 takes them."""
    kwargs = {key: value for key, value in kwargs.items() if value is not None}
    for setting, name in OF_CALLS.get(class_name, {}).items():
        if config.get(setting):
            kwargs[name] = True
    if isinstance(first, list) and len(first) == 1:
        first = first[0]
    if class_name in RECURRENT and isinstance(first, list):
        first, *state = first
        kwargs.setdefault("initial_state", state)
    return first, kwargs


def numbered(
    traced: TracedFunctions, model: int, layers: Sequence[Config]
) -> Iterator[tuple[Config, int | None]]:
    """Yield the layers of a model, with names and the numbers of traced layers."""
    children = traced.by_name(model)
    for layer in layers:
        child = _popped(traced, children, layer) if isinstance(layer, dict) else None
        if child is None or configs.own_name(layer):
            yield layer, child
        else:
            yield {**layer, "name": traced.layers[child].name}, child


def _popped(
    traced: TracedFunctions, children: dict[str, int], layer: Config
) -> int | None:
    """Pop the number of a layer; one without a config is found by its class."""
    name = configs.name_of(layer)
    if name not in children:
        classes = ((each, traced.layers[n].class_name) for each, n in children.items())
        written = layer.get("class_name")
        name = next((each for each, its in classes if its == written), "")
    return children.pop(name, None)


def called_on(traced: TracedFunctions, model: int) -> list[tuple[int | None, ...]]:
    """Return the shapes of the one tensor that a model was called on."""
    every = [specs(trace.inputs) for trace in traced.layers[model].traces]
    shapes = [each[0].shape for each in every if len(each) == 1]
    return [shape for shape in shapes if shape is not None]
