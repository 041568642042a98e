"""What takes the place of a class while Keras makes a layer from its config."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_policies import keras_internals
from keras_policies._common.types import Config


@dataclasses.dataclass(frozen=True, eq=False)
class Maker:
    """Makes the objects of a class in another way."""

    cls: type[Any]
    make: Callable[[Config], Any]  # returns the layer, or a `LayerCall` in a graph

    def from_config(self, config: Config) -> Any:
        """Return the object; Keras calls this."""
        return self.make(config)


def subclass(cls: type[Any], make: Callable[..., Any]) -> type[Any]:
    """Return a subclass of a class of models, whose objects `make` makes.

    Its arguments tell Keras that it is made as a Functional is.
    """

    class Made(cls):  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError

    return Made


class Call(keras_internals.LayerCall):
    """Calls a layer in a graph by a function of its own."""

    def __init__(self, layer: Any, call: Callable[..., Any]) -> None:
        super().__init__(name=layer.name)
        self.layer, self._call = layer, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; Keras calls this."""
        return self.noted(self._call(*args, **kwargs))
