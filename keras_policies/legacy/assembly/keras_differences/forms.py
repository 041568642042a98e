"""Models in place of stock layers that some backends compute differently from tf.keras.

Because a converted file has to be right in plain Keras on all backends, such a layer
becomes a model of its name, with steps that all backends compute alike:

    Add, Average                  x - (-y): see `values.alike`
    AveragePooling                pad, pool, divide by counts; or sum windows if a
                                  length is unknown: `ops.nn_convolutions`
    LayerNormalization            moveaxis around it: torch normalizes the last axes
    normalizations, Resizing      a cast before it: they compute with integers
    convolutions, EinsumDense     the axis of the bias is the last: see `values.alike`
    MultiHeadAttention            refused: Keras's own code adds its biases

It depends on the shapes of its inputs whether a layer is affected, so `StockLayer`
decides when it is called. The first table of docs/keras-faults.md has the faults, with
a line to reproduce each.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.assembly.nodes import one_or_all
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.ops.nn_convolutions import averaged
from keras_policies.legacy.values.alike import added, is_added_alike

FIRST = "channels_first"
Shape = tuple[int | None, ...]
Specs = tuple[tuple[Shape, str], ...]  # shape and dtype of each tensor of a call
# Calls the form of a layer on tensors, or returns None if the layer is right.
Form = Callable[[keras.Layer, list[Tensor]], Tensor | None]


def tensors_in(args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that a layer is called on, without masks."""
    named = [kwargs[name] for name in ("value", "key") if name in kwargs]
    return [x for x in keras.tree.flatten([args, named]) if x is not None]


def specs_of(tensors: Sequence[Tensor]) -> Specs:
    """Return the shapes and dtypes of the tensors that a layer is called on."""
    return tuple((tuple(x.shape), str(x.dtype)) for x in tensors)


def refusal(how: str) -> LegacyModelError:
    """Return the error for a layer that is called in a way that no form computes."""
    return LegacyModelError(
        f"it is called {how} and plain Keras computes it wrongly on some backend.",
        "Build the model in code, and call load_weights.",
        code="KP404",
    )


def called(layer: keras.Layer, model: keras.Model, tensors: list[Tensor]) -> Tensor:
    """Call the form of a layer; the layer gives the output its mask."""
    if not nodes.is_masked(tensors):
        return model(one_or_all(tensors))
    output = model(one_or_all([ops.copy(x) for x in tensors]))
    if layer.supports_masking:
        masks = one_or_all([keras_internals.mask_of(x) for x in tensors])
        mask = layer.compute_mask(one_or_all(tensors), masks)
        keras_internals.set_mask(output, mask)
    return output


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
    compute = FORMS.get(type(layer).__name__)
    if compute is None:
        return None
    inputs = [keras.Input(batch_shape=shape, dtype=dtype) for shape, dtype in specs]
    output = compute(layer, inputs)
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
