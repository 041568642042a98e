"""Gives inputs the sizes that a file leaves open: those of weights, or of the user.

In tf.keras a Normalization layer that was adapted first could follow an input of
unknown size: its mean has that size. Keras 3 asks for it.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config, InputShapes
from keras_policies.legacy.base import configs, trees
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.plan import graph

Shape = list[int | None]


def with_sizes(model: Config, weights: LayerWeights) -> Config:
    """Return the legacy config of a model with the sizes of inputs that means have."""
    layers = configs.inner_layers(model)
    shapes: dict[int, Shape] = {}
    takers = _takers(model, layers)
    for normalization, places in _normalizations(layers):
        shape = _sized(normalization, weights.get(configs.name_of(normalization), ()))
        if shape is not None and _is_shared(places[0], shape, takers):
            continue
        shapes.update({id(place): shape for place in places if shape is not None})
    if not shapes or not isinstance(model["config"], dict):
        return model
    sized = [
        {**layer, "config": {**layer["config"], "batch_input_shape": shapes[id(layer)]}}
        if id(layer) in shapes
        else layer
        for layer in model["config"]["layers"]
    ]
    return {**model, "config": {**model["config"], "layers": sized}}


def _takers(model: Config, layers: Sequence[Config]) -> Mapping[str, int]:
    """Return how often each layer of a Functional is taken, by layers or as output."""
    if "input_layers" not in model["config"]:
        return {}
    nodes = [layer.get("inbound_nodes") for layer in layers]
    names = {*map(configs.name_of, layers)}
    taken = graph.tensors([nodes, model["config"]["output_layers"]], names)
    return collections.Counter(name for name, *_ in taken)


def _is_shared(source: Config, shape: Shape, takers: Mapping[str, int]) -> bool:
    """Return whether other layers also take an input that gets one more axis."""
    is_shared = takers.get(configs.name_of(source), 0) > 1
    return is_shared and len(shape) > len(source["config"]["batch_input_shape"])


def _normalizations(layers: Sequence[Config]) -> Iterator[tuple[Config, list[Config]]]:
    """Yield the Normalization layers after an input, with all layers of its shape."""
    are_inputs = (x for x in layers if x.get("class_name") == "InputLayer")
    inputs = {configs.name_of(layer): layer for layer in are_inputs}
    names = {*map(configs.name_of, layers)}
    for number, layer in enumerate(layers):
        if layer.get("class_name") != "Normalization":
            continue
        if "inbound_nodes" in layer:
            taken = graph.tensors(layer["inbound_nodes"], names)
            if len(taken) == 1 and taken[0][0] in inputs:
                yield layer, [inputs[taken[0][0]], layer]
        elif number == len(inputs) and layers[:number] == [*inputs.values()]:
            yield layer, [*inputs.values(), layer]


def _sized(layer: Config, weights: Sequence[LegacyWeight]) -> Shape | None:
    """Return the shape of a Normalization's input, with the sizes of its mean."""
    config = layer.get("config") or {}
    axis, shape = config.get("axis"), config.get("batch_input_shape")
    ends = {(each.path or each.name).rpartition("/")[2]: each for each in weights[::-1]}
    mean = ends.get("mean") or ends.get("0")
    if mean is None or not isinstance(shape, list | tuple):
        return None
    # Up to 2.5, it made a column of a row of items.
    is_column = mean.shape == (1,) or (not mean.shape and "mean" not in config)
    if len(shape) == 1 and is_column:
        return [*shape, 1]
    axes: Sequence[Any] = axis if isinstance(axis, list | tuple) else [axis]
    if not all(isinstance(a, int) and -len(shape) <= a < len(shape) for a in axes):
        return None
    kept_axes = sorted(a % len(shape) for a in axes)
    if len(kept_axes) != len(mean.shape):
        return None
    sizes = dict(zip(kept_axes, mean.shape, strict=True))
    return [sizes.get(i) if size is None else size for i, size in enumerate(shape)]


Given = Mapping[str, tuple[int | None, ...]]
SHAPES = "batch_input_shape", "batch_shape"  # of an InputLayer or a first layer


def checked(shapes: InputShapes) -> Given:
    """Return the shapes that a user gives to inputs, or raise TypeError."""
    checked = {}
    for name, shape in (shapes or {}).items():
        sizes = (*shape,) if isinstance(shape, list | tuple) else ("",)
        if not all(size is None or (type(size) is int and size > 0) for size in sizes):
            raise TypeError(
                "input_shapes must be a dict of names to shapes, such as "
                f"{{'x': (None, 60, 3)}}, received {shapes!r}."
            )
        checked[name] = sizes
    return checked


def with_shapes(legacy: LegacyModel, given: Given) -> LegacyModel:
    """Return a model whose inputs have the shapes that the user gives to them."""
    inputs = _Inputs(given, legacy)
    traced = legacy.traced and _with_specs(legacy.traced, inputs)
    config = legacy.config
    if configs.is_graph(config):
        layers = [inputs.layer(layer) for layer in configs.inner_layers(config)]
        config = configs.with_layers(config, layers)
    listed = {
        # Of any rank, an input is listed as a scalar.
        name: (inputs.shape(name, shape or None) or shape, dtype)
        for name, (shape, dtype) in legacy.inputs.items()
    }
    if strange := given.keys() - inputs.found:
        raise LegacyModelError(
            f"input_shapes has {sorted(strange)}; the model's inputs are "
            f"{sorted(inputs.found)}.",
            code="KP109",
        )
    return dataclasses.replace(legacy, config=config, inputs=listed, traced=traced)


class _Inputs:
    """The inputs of a model and their shapes; `found` has the names of all."""

    def __init__(self, given: Given, legacy: LegacyModel) -> None:
        self._given = given
        self.found: set[str] = set()
        # The only one has other names in functions.
        self._is_single = len(given) == 1 and given.keys() <= legacy.inputs.keys()
        self._is_single &= len(legacy.inputs) == 1

    def shape(self, name: str, written: Any) -> tuple[int | None, ...] | None:
        """Return the shape of an input, or raise if the file contradicts it."""
        self.found.add(name)
        given = self._given.get(name)
        if given is None and self._is_single:
            (given,) = self._given.values()
        if given is None or written is None:
            return given
        sizes = [*zip(given, written, strict=False)]
        is_open = all(old in (None, new) for new, old in sizes)
        if len(given) != len(written) or not is_open:
            raise LegacyModelError(
                f"input_shapes gives {name!r} the shape {given}, and the file has "
                f"{tuple(written)}: only sizes that are None there can be given.",
                code="KP109",
            )
        return given

    def layer(self, layer: Config) -> Config:
        """Return an InputLayer with its shape, and any other layer as it is."""
        config = configs.settings(layer)
        key = next((key for key in SHAPES if key in config), None)
        if layer.get("class_name") != "InputLayer" or key is None:
            return layer
        shape = self.shape(configs.name_of(layer), config[key])
        return (
            layer if shape is None else {**layer, "config": {**config, key: [*shape]}}
        )


def _with_specs(traced: TracedFunctions, inputs: _Inputs) -> TracedFunctions:
    """Return functions whose model, and signatures, take inputs of the given shapes."""

    def sized(trace: ConcreteFunction) -> ConcreteFunction:
        def leaf(spec: Any) -> Any:
            if not isinstance(spec, TensorSpec) or spec.dtype == "bool":
                return spec
            shape = inputs.shape(spec.name, spec.shape)
            return spec if shape is None else spec._replace(shape=shape)

        return dataclasses.replace(trace, inputs=trees.mapped(leaf, trace.inputs))

    root = traced.layers[0]
    root = dataclasses.replace(
        root,
        traces=tuple(map(sized, root.traces)),
        traces_with_losses=tuple(map(sized, root.traces_with_losses)),
        served=root.served and sized(root.served),
    )
    named = traced.signatures.items()
    return dataclasses.replace(
        traced,
        layers={**traced.layers, 0: root},
        signatures={name: sized(trace) for name, trace in named},
    )
