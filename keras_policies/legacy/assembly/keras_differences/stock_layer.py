"""Nodes of Keras's layers: what replaces them is decided when they are called."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import keras

from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.assembly.keras_differences import extra_axes, forms, masks
from keras_policies.legacy.base.errors import LegacyModelError


class StockLayer:
    """A layer of Keras, or the model that replaces it for what it is called on."""

    def __init__(
        self, layer: keras.Layer, call: Callable[..., Any], backends: Collection[str]
    ) -> None:
        self.name, self._layer, self._call = layer.name, layer, call
        self._backends = backends  # on which plain Keras has to compute the same
        self._sizes = forms.OpenSizes(layer)
        # What it is called on -> its form, or None if the layer itself is right.
        self._forms: dict[forms.Specs, keras.Model | None] = {}
        self._wrapper: keras.Layer | None = None
        self._axes: int | None = None  # the extra axes of its input

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = forms.tensors_in(args, kwargs)
        replaced = self._replaced(tensors)
        if replaced is self._layer:
            return self._call(*args, **kwargs)
        if replaced is self._wrapper:
            return masks.call(replaced, *args, **kwargs)
        return forms.called(self._layer, replaced, tensors)

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        """Return the layer or its form; on (), that of the last call."""
        if not tensors:
            found = [form for form in self._forms.values() if form is not None]
            return self._wrapper or (found or [self._layer])[-1]
        if nodes.is_masked(tensors) and self.ends_mask(tensors[0]):
            raise forms.refusal("on a mask")
        return self._replaced([*tensors])

    def ends_mask(self, tensor: Tensor) -> bool:
        """Return whether the layer ends a mask, which its form would propagate."""
        is_stock = self._replaced([tensor]) in (self._layer, self._wrapper)
        return not (is_stock or self._layer.supports_masking)

    def _replaced(self, tensors: list[Tensor]) -> keras.Layer:
        self._sizes.take(tensors)
        axes = extra_axes.count(self._layer, tensors)
        if axes != self._axes and self._axes is not None:
            raise LegacyModelError(
                "it is called on tensors of different ranks, which Keras 3 refuses.",
                "Build the model in code, and call load_weights.",
                layer=self.name,
            )
        self._axes = axes
        if not axes:
            return self._form(tensors) or self._layer
        if self._wrapper is None:
            self._wrapper = extra_axes.wrapped(self._layer, tensors, self._form)
            masks.keep(self._wrapper)
        return self._wrapper

    def _form(self, tensors: list[Tensor]) -> keras.Model | None:
        specs = forms.specs_of(tensors)
        if specs not in self._forms:
            name = f"{self.name}_{len(self._forms)}" if self._forms else None
            form = forms.form(self._layer, specs, self._backends, name)
            has_form = form or any(self._forms.values())
            if self._forms and has_form and self._layer.weights:
                raise forms.refusal("on tensors of different shapes")
            self._forms[specs] = form
        return self._forms[specs]


class OverTime:
    """A TimeDistributed, whose layer is decided when it is called."""

    def __init__(self, inner: nodes.Node, config: Config) -> None:
        self.name = config.get("name") or "time_distributed"
        self._inner, self._config = inner, config
        self._layers: dict[int, keras.Layer] = {}  # by the id of the layer inside

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return masks.call(self.layer(keras.tree.flatten(args)), *args, **kwargs)

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        """Return the TimeDistributed; on (), that of the last call."""
        inner = nodes.layer_of(self._inner, nodes.steps(tensors))
        if id(inner) not in self._layers:
            name = f"{self.name}_{len(self._layers)}" if self._layers else self.name
            config = {**self._config, "name": name}
            wrapper = keras.layers.TimeDistributed(inner, **config)
            masks.keep(wrapper)
            self._layers[id(inner)] = wrapper
        return self._layers[id(inner)]
