"""Makes Sequential models; some of their layers depend on the shape of the input."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.assembly.keras_differences import forms
from keras_policies.legacy.assembly.nodes import Node
from keras_policies.legacy.base.errors import LegacyModelError


class OpenSequence:
    """A Sequential that gets its layers when the shape of its input is known."""

    def __init__(self, model: keras.Sequential, parts: Sequence[Node]) -> None:
        self.name, self._model, self._parts = model.name, model, parts
        self._layers: list[Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
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


def made(model: keras.Sequential, parts: Sequence[Node]) -> keras.Model | OpenSequence:
    """Return a Sequential with its layers, open if it has to wait for their input."""
    sequence = OpenSequence(model, parts)
    if parts and isinstance(parts[0], keras.layers.InputLayer):
        return sequence.layer([parts[0].output])
    if all(isinstance(part, keras.Operation) for part in parts):
        return sequence.layer()
    return sequence
