"""Finds the traced layers of the layers that a model's config lists."""

from collections.abc import Iterator, Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.traced_functions import TracedFunctions, specs


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
