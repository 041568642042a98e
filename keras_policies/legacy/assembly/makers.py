"""Lets Keras call functions, in place of classes, to create layers from configs."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config

# Returns the layer of a config or, in a graph, a `LayerCall`.
Make: TypeAlias = Callable[[Config], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Maker:
    """Stands for a class; Keras calls its `from_config`."""

    from_config: Make


def sequential(config: Config) -> Make | None:
    """Return the maker of a stock Sequential, or None for other configs.

    The `from_config` of Keras calls all layers again for each layer that it adds.
    """
    if config.get("class_name") != "Sequential" or not _is_of_keras(config):
        return None

    def make(config: Config) -> keras.Sequential:
        model = keras.Sequential.from_config({**config, "layers": []})
        layers = [keras.saving.deserialize_keras_object(x) for x in config["layers"]]
        for layer in layers:
            model.add(layer, rebuild=layer is layers[-1])
        return model

    return make


def _is_of_keras(config: Config) -> bool:
    return f"{config.get('module')}.".startswith("keras.")


def subclass(cls: type[Any], make: Callable[..., Any]) -> type[Any]:
    """Return a subclass of a model class whose objects `make` makes.

    From its parameters, Keras concludes that it is made like a Functional.
    """

    class Made(cls):  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError

    return Made


class Call(keras_internals.LayerCall):
    """Calls a layer in a graph through a function."""

    def __init__(self, layer: Any, call: Callable[..., Any]) -> None:
        super().__init__(name=layer.name)
        self.layer, self._call = layer, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.noted(self._call(*args, **kwargs))


def one_or_all(items: list[Any]) -> Any:
    """Return the only item, or the list: what a layer or a model is called on."""
    return items[0] if len(items) == 1 else items
