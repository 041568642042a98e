"""Models in place of stock layers that some backends compute differently from tf.keras.

Because a converted file has to be right in plain Keras on all backends, such a layer
becomes a model of its name, with steps that all backends compute alike:

    Add, Average                  x - (-y): see `values.sums`
    AveragePooling                pad, pool, divide by counts; or sum windows if a
                                  length is unknown: `ops.nn_convolutions`
    LayerNormalization            moveaxis around it: torch normalizes the last axes
    normalizations, Resizing      a cast before it: they compute with integers
    convolutions, EinsumDense     the axis of the bias is the last: see `values.sums`
    MultiHeadAttention            refused: Keras's own code adds its biases

It depends on the shapes of its inputs whether a layer is affected. In a graph, they are
known when it is called; elsewhere, the model is built twice, first to find them out.
docs/keras-faults.md has a line to reproduce each fault.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly.makers import Make, one_or_all
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.ops.nn_convolutions import averaged
from keras_policies.legacy.values.sums import added, is_added_alike

FIRST = "channels_first"
Shape = tuple[int | None, ...]
Specs = tuple[tuple[Shape, str], ...]  # shape and dtype of each tensor of a call
# Calls the form of a layer on tensors, or returns None if the layer is right.
Form = Callable[[keras.Layer, list[Tensor]], Tensor | None]


@dataclasses.dataclass(frozen=True)
class Found:
    """The calls of layers outside of graphs, by the ids of their configs."""

    needed: Mapping[int, Specs]  # of layers that need a form, from an earlier build
    backends: Collection[str]  # on which the model has to be right
    called: dict[int, tuple[keras.Layer, Specs]]  # in this build

    def note(self, layer: keras.Layer, config: Config, tensors: list[Tensor]) -> None:
        """Record a call; that of a TimeDistributed is one of the layer in it."""
        specs = _specs(tensors)
        is_masked = any(keras_internals.mask_of(x) is not None for x in tensors)
        while isinstance(layer, keras.layers.TimeDistributed):
            layer, config = layer.layer, config["config"]["layer"]
            specs = tuple(((batch, *rest), dtype) for (batch, _, *rest), dtype in specs)
        if type(layer).__name__ not in CLASSES or id(config) in self.needed:
            return
        ends_mask = is_masked and not layer.supports_masking
        _, before = self.called.setdefault(id(config), (layer, specs))
        is_other = ends_mask or before != specs
        if is_other and form(layer, specs, self.backends) is not None:
            raise _refusal("in several ways, or on a mask,")

    def all_needed(self) -> dict[int, Specs]:
        """Return the inputs of the layers that need a form."""
        for layer, _ in self.called.values():
            vars(layer).pop("compute_output_spec", None)
        return {
            key: specs
            for key, (layer, specs) in self.called.items()
            if form(layer, specs, self.backends) is not None
        }


def maker(config: Config, stock: Make | None, found: Found) -> Make | None:
    """Return the maker of a layer that may need a form, by its config, else None.

    `stock` is another maker of the layer, if any.
    """
    inner: Any = config
    while isinstance(inner, dict) and inner.get("class_name") == "TimeDistributed":
        inner = (inner.get("config") or {}).get("layer")
    is_stock = isinstance(inner, dict) and inner.get("module") == "keras.layers"
    if not is_stock or inner["class_name"] not in CLASSES:
        return None
    cls = getattr(keras.layers, config["class_name"])
    is_in_graph = "inbound_nodes" in config and cls.__name__ in CLASSES

    def make(settings: Config) -> keras.Operation:
        made = (stock or cls.from_config)(settings)
        layer = _layer(made)
        if is_in_graph:
            return _Call(made, found.backends)
        if id(config) in found.needed:
            return form(layer, found.needed[id(config)], found.backends)
        output_spec, sizes = layer.compute_output_spec, OpenSizes(layer)

        def compute_output_spec(*args: Any, **kwargs: Any) -> Any:
            tensors = _tensors(args, kwargs)
            sizes.take(tensors)
            found.note(layer, config, tensors)
            return output_spec(*args, **kwargs)

        layer.compute_output_spec = compute_output_spec
        return made

    return make


class _Call(keras_internals.LayerCall):
    """Calls a layer in a graph, or its form."""

    def __init__(self, made: keras.Operation, backends: Collection[str]) -> None:
        super().__init__(name=_layer(made).name)
        self.made, self.stock, self.backends = made, _layer(made), backends
        self.sizes = OpenSizes(self.stock)
        self.forms: dict[Specs, keras.Model | None] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer or its form; the layer gives the output its mask."""
        tensors = _tensors(args, kwargs)
        self.sizes.take(tensors)
        model = self._form(_specs(tensors))
        if model is None:
            return self.noted(self.made(*args, **kwargs))
        masks = [keras_internals.mask_of(x) for x in tensors]
        if not any(mask is not None for mask in masks):
            return self.noted(model(*args))
        output = model(one_or_all([ops.copy(x) for x in tensors]))
        if self.stock.supports_masking:
            mask = self.stock.compute_mask(one_or_all(tensors), one_or_all(masks))
            keras_internals.set_mask(output, mask)
        return self.noted(output)

    def _form(self, specs: Specs) -> keras.Model | None:
        if specs not in self.forms:
            name = f"{self.name}_{len(self.forms)}" if self.forms else None
            model = form(self.stock, specs, self.backends, name)
            has_form = model or any(self.forms.values())
            if self.forms and has_form and self.stock.weights:
                raise _refusal("on tensors of different shapes")
            self.forms[specs] = model
        return self.forms[specs]


def _layer(made: Any) -> keras.Layer:
    """Return the layer that a maker has made, or that is called by a `LayerCall`."""
    return made.layer if isinstance(made, keras_internals.LayerCall) else made


def _tensors(args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that a layer is called on, without masks."""
    named = [kwargs[name] for name in ("value", "key") if name in kwargs]
    return [x for x in keras.tree.flatten([args, named]) if x is not None]


def _specs(tensors: list[Tensor]) -> Specs:
    return tuple((tuple(x.shape), str(x.dtype)) for x in tensors)


def _refusal(how: str) -> LegacyModelError:
    return LegacyModelError(
        f"it is called {how} and plain Keras computes it wrongly on some backend.",
        "Build the model in code, and call load_weights.",
        code="KP404",
    )


def form(
    layer: keras.Layer,
    specs: Specs,
    backends: Collection[str],
    name: str | None = None,
) -> keras.Model | None:
    """Return the model to replace a layer with, or None if the layer is right."""
    if isinstance(layer, keras.layers.MultiHeadAttention):
        if "tensorflow" in backends:
            _check_attention(layer, [shape for shape, _ in specs])
        return None
    inputs = [keras.Input(batch_shape=shape, dtype=dtype) for shape, dtype in specs]
    output = FORMS[type(layer).__name__](layer, inputs)
    if output is None:
        return None
    return keras.Model(one_or_all(inputs), output, name=name or layer.name)


def _changed(layer: keras.Layer, **settings: Any) -> keras.Layer:
    return type(layer).from_config({**layer.get_config(), **settings})


def _as_floats(layer: keras.Layer, x: Tensor) -> Tensor:
    is_floating = keras.backend.is_float_dtype(x.dtype)
    return x if is_floating else ops.cast(x, layer.compute_dtype)


def _on_floats(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    x = _as_floats(layer, inputs[0])
    return None if x is inputs[0] else _changed(layer)(x)


def _layer_normalization(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    rank = len(inputs[0].shape)
    axes = sorted(axis % rank for axis in keras.tree.flatten(layer.axis))
    last = [*range(rank - len(axes), rank)]
    are_neighbours = axes == [*range(axes[0], axes[0] + len(axes))]
    if axes == last or not are_neighbours:
        return _on_floats(layer, inputs)
    x = ops.moveaxis(_as_floats(layer, inputs[0]), axes, last)
    return ops.moveaxis(_changed(layer, axis=last)(x), last, axes)


def _sum(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    rank = max(len(x.shape) for x in inputs)
    total, is_right = None, True
    for x in inputs:
        if keras.backend.is_float_dtype(x.dtype) and x.dtype != layer.compute_dtype:
            x = ops.cast(x, layer.compute_dtype)
        for _ in range(rank - len(x.shape)):
            x = ops.expand_dims(x, 1)
        is_right &= total is None or is_added_alike(total.shape, x.shape)
        total = x if total is None else added(total, x)
    if is_right:
        return None
    is_mean = isinstance(layer, keras.layers.Average)
    return ops.true_divide(total, len(inputs)) if is_mean else total


def _pooled(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    output = averaged(layer, inputs[0])
    return None if keras_internals.maker_of(output) is layer else output


def _activated(layer: keras.Layer, x: Tensor) -> Tensor:
    """Apply the activation of a layer, and its activity regularizer."""
    if isinstance(layer.activation, keras.Layer):
        return layer.activation(x)
    regularizer = layer.activity_regularizer
    options = {"dtype": layer.dtype_policy, "activity_regularizer": regularizer}
    return keras.layers.Activation(layer.activation, **options)(x)


def _convolved(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    has_extra_axes = len(inputs[0].shape) != layer.rank + 2
    if layer.data_format != FIRST or not layer.use_bias or has_extra_axes:
        return None
    shape = layer.compute_output_shape(inputs[0].shape)
    if is_added_alike(shape, (1, shape[1], *(1 for _ in shape[2:]))):
        return None
    plain = {"activation": None, "activity_regularizer": None}
    last = _changed(layer, data_format="channels_last", **plain)
    return _activated(layer, ops.moveaxis(last(ops.moveaxis(inputs[0], 1, -1)), -1, 1))


def _einsum(layer: keras.Layer, inputs: list[Tensor]) -> Tensor | None:
    config = layer.get_config()
    start, _, output = config["equation"].partition("->")
    biased = config["bias_axes"] or ""
    if not layer.built:  # Keras 3.8 knows the output shape from then on
        layer.build(inputs[0].shape)
    shape = layer.compute_output_shape(inputs[0].shape)
    sizes = dict(zip(reversed(output.strip(".")), reversed(shape), strict=False))
    first = min((output.index(axis) for axis in biased), default=len(output))
    bias = [sizes[axis] if axis in biased else 1 for axis in output[first:]]
    if is_added_alike(shape, bias):
        return None
    (axis,) = (axis for axis in biased if sizes[axis] != 1)
    moved = output.replace(axis, "") + axis
    partial = moved[-len(keras.tree.flatten(config["output_shape"])) :]
    last = _changed(
        layer,
        equation=f"{start}->{moved}",
        output_shape=[sizes[each] for each in partial],
        bias_axes=axis,
        activation=None,
        activity_regularizer=None,
    )
    x = ops.moveaxis(last(inputs[0]), -1, output.index(axis) - len(output))
    return _activated(layer, x)


class OpenSizes:
    """Gives an EinsumDense the sizes of its inputs for each None in its `output_shape`.

    tf.keras knew them from the tensor that it computed. Layers behind it may need them:
    PReLU has a slope for each step, and a model may be called on one length alone. A
    size that differs between calls stays open.
    """

    def __init__(self, layer: keras.Layer) -> None:
        self.layer = layer
        self.open = getattr(layer, "partial_output_shape", ())
        self.sizes: dict[str, int | None] = {}

    def take(self, tensors: list[Tensor]) -> None:
        """Take the sizes of one call."""
        if None not in self.open:
            return
        start, _, output = self.layer.equation.partition("->")
        first, _, last = start.partition(",")[0].partition("...")
        shape = tensors[0].shape
        sizes = dict(zip(first, shape, strict=False))
        sizes |= dict(zip(reversed(last), reversed(shape), strict=False))
        for axis, size in sizes.items():
            self.sizes[axis] = size if self.sizes.get(axis, size) == size else None
        axes = zip(output[-len(self.open) :], self.open, strict=True)
        found = tuple(size or self.sizes.get(axis) for axis, size in axes)
        self.layer.partial_output_shape = found
        if hasattr(self.layer, "full_output_shape"):  # Keras 3.8
            full = self.layer.full_output_shape
            self.layer.full_output_shape = (*full[: -len(found)], *found)


def _check_attention(layer: keras.Layer, shapes: list[Shape]) -> None:
    """Raise if TensorFlow adds a bias in an attention layer along the wrong axis."""
    if not layer.built:
        layer.build(*shapes[:2])
    for part in keras_internals.sublayers(layer)[1:]:
        bias = getattr(part, "bias", None)
        biased = () if bias is None else tuple(bias.shape)
        if not all(is_added_alike((*x[:-1], *biased), biased) for x in shapes):
            raise LegacyModelError(
                "its class is MultiHeadAttention, and on TensorFlow Keras adds the "
                f"bias in it, of the shape {biased}, along the wrong axis.",
                f"Pass {hints.BACKENDS} if the model is not for TensorFlow.",
                suspects={"MultiHeadAttention"},
                code="KP404",
            )


POOLS = "AveragePooling1D", "AveragePooling2D", "AveragePooling3D"
CONVOLUTIONS = (
    *("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv1D", "DepthwiseConv2D"),
    *("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
    *("SeparableConv1D", "SeparableConv2D"),
)
FORMS: Mapping[str, Form] = {
    "Add": _sum,
    "Average": _sum,
    "EinsumDense": _einsum,
    "LayerNormalization": _layer_normalization,
    "Resizing": _on_floats,
    "UnitNormalization": _on_floats,
    **dict.fromkeys(POOLS, _pooled),
    **dict.fromkeys(CONVOLUTIONS, _convolved),
}
CLASSES = *FORMS, "MultiHeadAttention"
