"""Makes Functional and Sequential models; a graph's calls are in topological order.

Some layers of a Sequential depend on the shape of the input.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.assembly.keras_differences import forms
from keras_policies.legacy.assembly.nodes import Node
from keras_policies.legacy.base.configs import CallOutput, call_outputs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.graph import Call, in_order

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
    for name, number in in_order(config):
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
        for tensor in filter(keras.backend.is_keras_tensor, outputs[name, number]):
            budget.check_rank(tensor.shape)
    inputs, results = config["input_layers"], config["output_layers"]
    return _filled(inputs, outputs), _filled(results, outputs)


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


class OpenSequence:
    """A Sequential that gets its layers when the shape of its input is known."""

    def __init__(self, model: keras.Sequential, parts: Sequence[Node]) -> None:
        self.name, self._model, self._parts = model.name, model, parts
        self._layers: list[Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(keras.tree.flatten(args))(*args, **kwargs)

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Model:
        """Return the model; on (), that of the last call, or one that is not built."""
        before = self._layers
        if before is None:
            self._layers, output = self._decided(tensors)
            self._model = self._filled(tensors, output)
        elif tensors and [*map(id, self._decided(tensors)[0])] != [*map(id, before)]:
            raise forms.refusal("on tensors of different shapes")
        return self._model

    def _decided(self, tensors: Sequence[Tensor]) -> tuple[list[Any], Tensor | None]:
        """Return the layers, and the output of their calls if one of them ends a mask.

        Layers are called only if one behind them depends on its input.
        """
        are_open = [not isinstance(part, keras.Operation) for part in self._parts]
        if not (tensors and any(are_open)):
            return [nodes.layer_of(part) for part in self._parts], None
        x, layers, ends_mask = self._start(tensors[0]), list[Any](), False
        with keras.name_scope(self.name):  # as in a Sequential
            for number, part in enumerate(self._parts):
                if isinstance(part, keras.layers.InputLayer):
                    layers.append(part)
                    continue
                ends_mask |= are_open[number] and nodes.ends_mask(part, x)
                layers.append(part if ends_mask else nodes.layer_of(part, [x]))
                if ends_mask or any(are_open[number + 1 :]):
                    x = layers[-1](x)
        return layers, x if ends_mask else None

    def _start(self, tensor: Tensor) -> Tensor:
        if isinstance(self._parts[0], keras.layers.InputLayer):
            return tensor
        start = keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype)
        keras_internals.set_mask(start, keras_internals.mask_of(tensor))
        return start

    def _filled(self, tensors: Sequence[Tensor], output: Tensor | None) -> keras.Model:
        """Add the layers, or return a Functional if one of them ends a mask.

        A Sequential would propagate the mask.
        """
        if output is None:
            layers = self._layers or ()
            for number, layer in enumerate(layers, 1):
                self._model.add(layer, rebuild=number == len(layers))
            return self._model
        cls = type(self._model)
        if cls is not keras.Sequential:
            raise LegacyModelError(
                f"{cls.__name__}, a class of your own, has a layer that ends a mask "
                "and becomes a model, which only keras.Sequential itself can have."
            )
        if not isinstance(self._parts[0], keras.layers.InputLayer):
            raise forms.refusal("on a mask")
        return keras.Model(tensors[0], output, name=self.name)


def sequential(
    model: keras.Sequential, parts: Sequence[Node]
) -> keras.Model | OpenSequence:
    """Return a Sequential with its layers, open if it has to wait for their input."""
    sequence = OpenSequence(model, parts)
    if parts and isinstance(parts[0], keras.layers.InputLayer):
        return sequence.layer([parts[0].output])
    if all(isinstance(part, keras.Operation) for part in parts):
        return sequence.layer()
    return sequence
