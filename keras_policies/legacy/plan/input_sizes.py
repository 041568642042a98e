"""Gives inputs the sizes that their configs leave open, from the shapes of weights.

In tf.keras a Normalization layer that was adapted first could follow an input of
unknown size: its mean has that size. Keras 3 asks for it.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
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
    mean = next((weight for weight in weights if _is_mean(weight)), None)
    if mean is None or not isinstance(shape, list | tuple):
        return None
    if len(shape) == 1 and _gave_columns(config, mean):
        return [*shape, 1]
    axes: Sequence[Any] = axis if isinstance(axis, list | tuple) else [axis]
    if not all(isinstance(a, int) and -len(shape) <= a < len(shape) for a in axes):
        return None
    kept_axes = sorted(a % len(shape) for a in axes)
    if len(kept_axes) != len(mean.shape):
        return None
    sizes = dict(zip(kept_axes, mean.shape, strict=True))
    return [sizes.get(i) if size is None else size for i, size in enumerate(shape)]


def _gave_columns(config: Config, mean: LegacyWeight) -> bool:
    """Return whether a Normalization made a column of a row of items, as up to 2.5."""
    return mean.shape == (1,) or (not mean.shape and "mean" not in config)


def _is_mean(weight: LegacyWeight) -> bool:
    return (weight.path or weight.name).rpartition("/")[2] in ("mean", "0")
