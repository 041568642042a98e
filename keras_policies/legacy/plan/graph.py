"""Turns the graph of a legacy Functional model into the form of Keras 3.

In tf.keras a node is a nest of `[layer, node index, tensor index, kwargs]`, the
arguments beside the first tensor in each `kwargs`. In Keras 3 it is `{"args",
"kwargs"}`, with a keras tensor wherever one was passed. A nested model that was built
before it was called has a node 0 of its own in tf.keras, so its calls count from 1; in
Keras 3 they count from 0 in `inbound_nodes`, from 1 in `output_layers` if it is a
Functional. Sources: tf.keras engine/functional.py `get_network_config`,
keras/src/models/functional.py.
"""

from keras_policies.legacy.base.configs import name_of
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.names import layer_name
from keras_policies.legacy.ops import layer as op_layers
from keras_policies.legacy.plan import arguments

CONSTANT = "_CONSTANT_VALUE"
ELLIPSIS = {"class_name": "__ellipsis__", "config": {}}
# What added a loss or a metric to its model, and gave on what it took.
ADDED = "AddLoss", "AddMetric"
# Layers that tf.keras calls on [inputs, *initial_state], Keras 3 with a keyword.
RECURRENT = frozenset(
    (
        "Bidirectional",
        "ConvLSTM1D",
        "ConvLSTM2D",
        "ConvLSTM3D",
        "CuDNNGRU",
        "CuDNNLSTM",
        "GRU",
        "LSTM",
        "RNN",
        "SimpleRNN",
    )
)


class _Graph:
    """The layers of one Functional model, by name."""

    def __init__(self, config):
        self.classes = {
            name_of(layer): layer["class_name"] for layer in config["layers"]
        }
        self.functionals = {
            name_of(layer)
            for layer in config["layers"]
            if "input_layers" in layer["config"]
        }
        # The number of each layer's first call: the lowest that anything refers to,
        # as a call whose output nothing takes is not in the file.
        self.first_call = {}
        nodes = [layer.get("inbound_nodes") for layer in config["layers"]]
        for name, node in self.calls([nodes, config["output_layers"]]):
            self.first_call[name] = min(node, self.first_call.get(name, node))

    def calls(self, value):
        """Yield `(layer, node index)` of each tensor in a nest, and in its kwargs."""
        if self.is_tensor(value):
            yield value[:2]
            yield from self.calls(value[3:])
        elif isinstance(value, list | tuple | dict):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self.calls(item)

    def call(self, name, node):
        """Return the number of a layer's call, counted from 0."""
        return node - self.first_call.get(name, 0)

    def is_tensor(self, value):
        """Return whether a value is `[layer, node index, tensor index, …]`."""
        return (
            isinstance(value, list | tuple)
            and len(value) in (3, 4)
            and isinstance(value[0], str)
            and (value[0] in self.classes or value[0] == CONSTANT)
            and isinstance(value[1], int)
        )

    def tensor(self, value):
        """Return the Keras 3 form of a tensor, or of a constant in its place."""
        name, node, index = value[:3]
        if name == CONSTANT:
            return index
        if not isinstance(index, int) or node < 0 or index < 0:
            raise LegacyModelError(f"corrupt: a layer takes the tensor {value[:3]!r}.")
        # Shape and dtype are not looked at: the history tells which tensor it is.
        history = [layer_name(name), self.call(name, node), index]
        tensor = {"shape": [], "dtype": "float32", "keras_history": history}
        return {"class_name": "__keras_tensor__", "config": tensor}

    def nest(self, value):
        """Return a nest of tensors and plain values in the Keras 3 form."""
        if self.is_tensor(value):
            return self.tensor(value)
        if isinstance(value, dict) and "class_name" not in value:
            return {key: self.nest(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.nest(item) for item in value]
        return ELLIPSIS if value is Ellipsis else value

    def kwargs(self, node):
        """Return the keyword arguments of a node: those of its first tensor."""
        if self.is_tensor(node):
            kwargs = node[3] if len(node) == 4 else {}
            return {key: self.nest(value) for key, value in (kwargs or {}).items()}
        inner = node.values() if isinstance(node, dict) else node
        if isinstance(inner, str) or not hasattr(inner, "__iter__"):
            return {}
        return next((found for found in map(self.kwargs, inner) if found), {})

    def op_node(self, node):
        """Return `{"args", "kwargs"}` of one call of an op layer.

        A list of one tensor is such for it: `tf.concat([x], 1)`.
        """
        return {"args": [self.nest(node)], "kwargs": self.kwargs(node)}

    def node(self, layer, node):
        """Return `{"args", "kwargs"}` of one call of a layer."""
        class_name = layer["class_name"]
        first, kwargs = self.nest(node), self.kwargs(node)
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        for setting, name in arguments.OF_CALLS.get(class_name, {}).items():
            if layer["config"].get(setting):
                kwargs[name] = True
        if isinstance(first, list) and len(first) == 1:
            first = first[0]
        if class_name in RECURRENT and isinstance(first, list):
            first, *state = first
            kwargs.setdefault("initial_state", state)
        return {"args": [first], "kwargs": kwargs}

    def _offset(self, name):
        """Return 1 for a nested Functional, whose calls `output_layers` counts so."""
        return int(name in self.functionals)

    def end(self, value):
        """Return an entry of `input_layers` or `output_layers`."""
        if self.is_tensor(value):
            name, node, index = value[:3]
            if name not in self.classes:
                raise LegacyModelError(f"corrupt: {name!r} is no layer of this model.")
            call = self.call(name, node) + self._offset(name)
            return [layer_name(name), call, index]
        if isinstance(value, dict):
            return {key: self.end(item) for key, item in value.items()}
        if not isinstance(value, list | tuple):
            raise LegacyModelError(
                f"corrupt: {value!r} is no input or output of a model."
            )
        ends = [self.end(item) for item in value]
        return ends[0] if len(ends) == 1 else ends


def fixed_training(config):
    """Yield the names of layers that a model calls with `training=False`.

    Args:
        config: dict, the legacy config of a model, with its nested models.
    """
    for layer in config.get("layers", ()):
        if isinstance(layer.get("config"), dict):
            yield from fixed_training(layer["config"])
        if _has_training_false(layer.get("inbound_nodes")):
            yield name_of(layer)


def _has_training_false(value):
    if isinstance(value, dict):
        return value.get("training") is False or _has_training_false(
            list(value.values())
        )
    return isinstance(value, list | tuple) and any(map(_has_training_false, value))


def functional_graph(config, layers):
    """Return `layers`, `input_layers` and `output_layers` of a Keras 3 Functional.

    Args:
        config: dict, the legacy config of the model.
        layers: the configs of its layers, converted, in the same order.
    """
    graph = _Graph(config)
    ends = {name for name, _ in graph.calls(config["output_layers"])}
    connected = []
    for legacy, converted in zip(config["layers"], layers, strict=True):
        if legacy["class_name"] in ADDED:
            continue
        nodes = legacy.get("inbound_nodes") or []
        if op_layers.is_call(converted):
            calls = [graph.op_node(node) for node in nodes]
            is_output = name_of(legacy) in ends
            inner = {**converted["config"], "is_output": is_output}
            converted = {**converted, "config": inner}
        else:
            calls = [graph.node(legacy, node) for node in nodes]
        name = layer_name(name_of(legacy))
        connected.append({**converted, "name": name, "inbound_nodes": calls})
    return {
        "layers": connected,
        "input_layers": graph.end(config["input_layers"]),
        "output_layers": graph.end(config["output_layers"]),
    }
