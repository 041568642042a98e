"""Makes Functional models: each call of a graph is made once, in topological order."""

import graphlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies._common.types import Config
from keras_policies.legacy.assembly.nodes import Node
from keras_policies.legacy.base.configs import CallOutput, call_outputs
from keras_policies.legacy.base.errors import LegacyModelError

Call = tuple[str, int]  # a layer, and the number of its call
# Call -> the values that it returned, in one list.
Outputs = dict[Call, list[Any]]
# Makes the node of a layer; `is_output` if the model returns what it returns.
Make = Callable[..., Node]


def ends(config: Config, make: Make) -> tuple[Any, Any]:
    """Make all calls of a Functional's config, and return its inputs and outputs."""
    layers = {layer["name"]: layer for layer in config["layers"]}
    returned = {end.layer for end in call_outputs(config["output_layers"])}
    nodes: dict[str, Node] = {}
    outputs: Outputs = {}
    for name, number in _in_order(config["layers"]):
        layer = layers[name]
        if name not in nodes:
            nodes[name] = make(layer, is_output=name in returned)
        node: Any = nodes[name]
        if isinstance(node, keras.layers.InputLayer):
            result = node.output
        else:
            called = layer["inbound_nodes"][number]
            args, kwargs = _filled([called["args"], called["kwargs"]], outputs)
            result = node(*args, **kwargs)
        outputs[name, number] = keras.tree.flatten(result)
    inputs, results = config["input_layers"], config["output_layers"]
    return _filled(inputs, outputs), _filled(results, outputs)


def _in_order(layers: Sequence[Config]) -> Iterator[Call]:
    """Return the calls of layers, each after those whose outputs it takes."""
    before: dict[Call, list[Call]] = {}
    for layer in layers:
        name, nodes = layer["name"], layer["inbound_nodes"]
        if (name, 0) in before:
            raise LegacyModelError(f"corrupt: two layers have the name {name!r}.")
        if not nodes and layer["class_name"] == "InputLayer":
            before[name, 0] = []
        for number, node in enumerate(nodes):
            taken = [each[:2] for each in call_outputs([node["args"], node["kwargs"]])]
            # The calls of a layer are made in their order.
            before[name, number] = taken + [(name, number - 1)] * bool(number)
    try:
        order = [*graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError as error:
        names = " -> ".join(name for name, _ in error.args[1][:9])
        reason = f"corrupt: its layers take what they return: {names}."
        raise LegacyModelError(reason) from None
    return iter(order)


def _filled(nest: Any, outputs: Mapping[Call, Sequence[Any]]) -> Any:
    """Return a nest with the outputs of calls, and with the objects of configs."""
    if isinstance(nest, CallOutput):
        found = outputs.get(nest[:2], ())
        if nest.output >= len(found):
            reason = f"corrupt: a layer takes the tensor {[*nest]!r}."
            raise LegacyModelError(reason)
        return found[nest.output]
    if isinstance(nest, list | tuple):
        return [_filled(item, outputs) for item in nest]
    if isinstance(nest, dict):
        if "class_name" in nest and "config" in nest:
            return keras.saving.deserialize_keras_object(nest)
        return {key: _filled(item, outputs) for key, item in nest.items()}
    return nest
