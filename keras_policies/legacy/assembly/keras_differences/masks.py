"""Restores how stock layers of tf.keras propagated and used masks.

Keras 3 differs silently (the rows on masks in docs/keras-faults.md):

- From 3.16 on, layers over time do not propagate the mask of their input (keras#23235).
- After a merging layer, a step is padding if it is padding in all tensors, and never if
  one has no mask. In tf.keras, it was if it was padding in any of them.
- A TimeDistributed propagates the mask of its input. In tf.keras, it had the mask that
  its layer makes, or a step was padding if all in it is.
- Multiply, Maximum and Minimum also compute other numbers for padding.
- A recurrent layer called with `initial_state` does not see the mask of its input.
- MultiHeadAttention uses the masks of its inputs; in tf.keras, from 2.10 on.
- It casts a mask of numbers to booleans; tf.keras added `(mask - 1) * 1e9` to scores.
- Where a mask hides all positions, tf.keras gave all the same weight. Softmax and, with
  dropout or returned scores, MultiHeadAttention give them none in Keras 3.14 and later.
- Softmax uses the mask of its input; in tf.keras, from 2.4 on.
- BatchNormalization leaves padding out of its statistics; in tf.keras, from 2.12 on.
- Identity and Rescaling propagate masks; in tf.keras, ReLU did from 2.5 on.
- Bidirectional returns zeros at padding. Before TensorFlow 2.1 it repeated the last
  numbers, like recurrent layers. A file cannot record that.

The masks become tensors in the model's graph, so that a converted file records them for
any Keras 3. A nested model cannot record a mask from outside: its layers look for one
when they are called.

Source: `compute_mask`, `supports_masking` and `_keras_mask` in the layers of Keras 2.6
to 2.15 and of TensorFlow 2.4 and 2.5.
"""

import functools
import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies.legacy.base.model import Release

OVER_TIME = keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed
PRODUCTS = keras.layers.Maximum, keras.layers.Minimum, keras.layers.Multiply
SUMS = keras.layers.Add, keras.layers.Average, keras.layers.Subtract
MAKING = keras.layers.Embedding, keras.layers.Masking
JOINING = keras.layers.Concatenate, *PRODUCTS, *SUMS
# Class in tf.keras -> the first release in which it used or propagated masks. The base
# class `Layer`, which also becomes an Identity, and ThresholdedReLU always did.
SINCE = {
    "Identity": (math.inf, 0),
    "MultiHeadAttention": (2, 10),
    "ReLU": (2, 5),
    "Rescaling": (math.inf, 0),
    "Softmax": (2, 4),
}
KEEPING = (keras.layers.Softmax,)  # propagated masks before it used them
LEAVES_OUT_PADDING = 2, 12  # the first release in which BatchNormalization did
ZEROS_AT_PADDING = 2, 1  # the first release in which Bidirectional returned them
FILLED_IN = "mask", "query_mask", "value_mask", "key_mask"  # by Keras 3


def calling(
    layer: Any, written_as: str | None, written_in: Release
) -> Callable[..., Any] | keras.Layer:
    """Return what calls a layer in a graph: often the layer itself, which is changed.

    `written_as` is its class in the file, which a release wrote.
    """
    # It neither used nor propagated masks, except those in `KEEPING`.
    ignores_masks = written_in < SINCE.get(str(written_as), (0, 0))
    is_attention = isinstance(layer, keras.layers.MultiHeadAttention)
    others = keras.layers.Softmax, *OVER_TIME, *JOINING
    is_other = not (is_attention or isinstance(layer, others))
    if not ignores_masks and is_other:
        return layer
    keep(layer)
    if isinstance(layer, JOINING):
        layer.compute_mask = functools.partial(_joined, layer)
    if ignores_masks:
        layer.supports_masking = isinstance(layer, KEEPING)
    if ignores_masks or isinstance(layer, PRODUCTS):
        layer.call = _without_masks(layer.call)
    if type(layer) is keras.layers.Bidirectional and written_in < ZEROS_AT_PADDING:
        for inner in (layer.forward_layer, layer.backward_layer):
            inner.zero_output_for_mask = False  # the last numbers at padding
    if is_attention:
        return functools.partial(_attend, layer)
    if isinstance(layer, keras.layers.Softmax) and not ignores_masks:
        return functools.partial(_softmax, layer)
    needs_call = ignores_masks or isinstance(layer, OVER_TIME + PRODUCTS)
    return functools.partial(call, layer) if needs_call else layer


def keep(layer: keras.Layer) -> None:
    """Let a layer, and those in it, propagate masks over time."""
    for inner in keras_internals.sublayers(layer):
        if isinstance(inner, OVER_TIME):
            inner.supports_masking = True
        if isinstance(inner, keras.layers.TimeDistributed):
            inner.compute_mask = functools.partial(_over_time, inner)


def call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    """Call a layer in a graph, and set the masks of its outputs."""
    inputs = keras.tree.flatten(args)
    masks = [keras_internals.mask_of(x) for x in inputs]
    if isinstance(layer, OVER_TIME):
        if masks[0] is not None:  # Keras 3.16 does not record those that it adds
            kwargs.setdefault("mask", masks[0])
        elif "initial_state" in kwargs:  # a mask may come from outside of the model
            layer.call = _with_mask_of_input(layer.call)
    else:
        args, kwargs = keras.tree.map_structure(_unmasked, (args, kwargs))
    output = layer(*args, **kwargs)
    if isinstance(layer, PRODUCTS):
        keras_internals.set_mask(output, _joined(layer, inputs, masks))
    if isinstance(layer, KEEPING):
        keras_internals.set_mask(output, masks[0])
    return output


def _unmasked(value: Any) -> Any:
    """Return a tensor without its mask, or any other value unchanged."""
    return value if keras_internals.mask_of(value) is None else ops.copy(value)


def _without_masks(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `call` that hides the masks of the inputs from the layer."""

    @functools.wraps(stock)
    def call(*args: Any, **kwargs: Any) -> Any:
        unmasked = {key: x for key, x in kwargs.items() if key not in FILLED_IN}
        args, unmasked = keras.tree.map_structure(_unmasked, (args, unmasked))
        return stock(*args, **unmasked)

    return call


def _with_mask_of_input(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `call` that uses the mask of its first input."""

    @functools.wraps(stock)
    def call(inputs: Any, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
        mask = keras_internals.mask_of(inputs) if mask is None else mask
        return stock(inputs, *args, mask=mask, **kwargs)

    return call


def _joined(
    layer: keras.Layer,
    inputs: Sequence[Tensor],
    mask: Sequence[Tensor | None] | None = None,
) -> Tensor | None:
    """Return the mask of a merging layer's output."""
    pairs = [*zip(inputs, mask or [], strict=False)]
    masks = [each for _, each in pairs if each is not None]
    if not masks:
        return None
    axis = getattr(layer, "axis", -1)
    if axis % len(inputs[0].shape) == len(inputs[0].shape) - 1:
        return functools.reduce(ops.logical_and, masks)
    rows = [ops.any(ops.ones_like(x, "bool"), -1) if m is None else m for x, m in pairs]
    return ops.hstack(rows)  # unlike `ops.concatenate`, not the name of a layer


def _over_time(
    layer: keras.layers.TimeDistributed, inputs: Tensor, mask: Tensor | None = None
) -> Tensor | None:
    """Return the mask of a TimeDistributed: that of its layer, or of its steps.

    A step is padding if all in it is padding.
    """
    inner, found = layer.layer, mask
    if isinstance(inner, keras.layers.TimeDistributed):
        found = _over_time(inner, inputs, mask)
    elif isinstance(inner, MAKING):
        found = inner.compute_mask(inputs)
    elif isinstance(inner, OVER_TIME):
        found = mask if inner.return_sequences else None
    elif isinstance(inner, keras.Model):  # see `hiding_all`
        found = None
    else:
        found = inner.compute_mask(inputs, mask)
    if found is None and mask is not None:
        found = ops.any(mask, [*range(2, len(mask.shape))])
    return found


def _attend(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    """Call an attention layer; where its mask hides all positions, it sees their mean.

    The mean is one position more, which only these rows see: projections are affine,
    so it gives what equal weights gave. Padding in the query stays hidden, as only the
    layer itself can hand on its mask: see `hiding_all`.
    """
    if not layer.supports_masking:  # as in releases that ignored masks
        args, kwargs = keras.tree.map_structure(_unmasked, (args, kwargs))
    given = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    query, value, key = given["query"], given["value"], given.get("key")
    mask = _hidden(given) if _has_scores(layer, given) else None
    if mask is None:
        return layer(*args, **kwargs)
    nothing = ops.logical_not(ops.any(mask, -1, keepdims=True))
    more = {name: x for name, x in given.items() if name not in ("query", "value")}
    # `ops.hstack` joins along axis 1, and has not the name of a layer.
    turned = ops.hstack([ops.swapaxes(x, 1, -1) for x in (mask, nothing)])
    more |= {"attention_mask": ops.swapaxes(turned, 1, -1), "use_causal_mask": False}
    if key is not None:
        more["key"] = _with_mean(key)
    output = layer(query, _with_mean(value), **more)
    if not given.get("return_attention_scores"):
        return output
    output, scores = output
    # Keras infers as many positions as queries, whatever the number of values.
    seen = scores[..., : value.shape[1] or -1]
    equal = ops.softmax(ops.zeros_like(seen))
    of_heads = nothing if len(nothing.shape) == 4 else nothing[:, None]
    return output, ops.where(of_heads, equal, seen)


def _softmax(layer: keras.Layer, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """Call a Softmax, which may be given a mask that hides a whole axis."""
    if mask is None:
        return layer(inputs)
    outputs, every = layer(inputs, mask=mask), ops.ones_like(inputs, "bool")
    seen = ops.logical_and(ops.cast(mask, "bool"), every)
    seen = ops.any(seen, layer.axis, keepdims=True)
    equal = ops.softmax(ops.zeros_like(outputs), layer.axis)
    return ops.where(seen, outputs, equal)


def _has_scores(layer: keras.Layer, given: Mapping[str, Any]) -> bool:
    """Return whether Keras computes scores; otherwise it gives all the same weight."""
    has_dropout = layer.get_config()["dropout"] > 0
    return has_dropout or bool(given.get("return_attention_scores"))


def _hidden(given: Mapping[str, Any]) -> Tensor | None:
    """Return what an attention layer sees, `(batch, queries, values)` or by heads.

    None if each position sees all or itself, or if the query has more axes.
    """
    query, value = given["query"], given["value"]
    mask, key = given.get("attention_mask"), given.get("key", value)
    if len(query.shape) != 3 or (mask is None and query is value is key):
        return None
    padding = {id(x): keras_internals.mask_of(x) for x in (value, key)}
    masks = [x[:, None] for x in padding.values() if x is not None]
    if mask is not None:
        mask = ops.cast(mask, "bool")
        masks.append(mask[None] if len(mask.shape) == 2 else mask)
    if not masks:
        return None
    if masks[-1].shape[-1] != value.shape[1]:  # one for all values
        every = ops.ones_like(value[:, :, 0], "bool")[:, None]
        masks.append(every[:, None] if len(masks[-1].shape) == 4 else every)
    if given.get("use_causal_mask"):
        rows, columns = (
            ops.cumsum(ops.ones_like(x[:1, :, 0], "int32"), 1) for x in (query, value)
        )
        masks.append(ops.greater_equal(rows[:, :, None], columns[:, None]))
    return functools.reduce(ops.logical_and, masks)


def _with_mean(tensor: Tensor) -> Tensor:
    return ops.hstack([tensor, ops.mean(tensor, 1, keepdims=True)])


def hiding_all(model: keras.Model) -> Iterator[str]:
    """Yield masks, and means of attention layers, that are no longer there, as parts.

    At padding, a mean matters only if a layer behind takes padding for data.
    """
    layers = keras_internals.sublayers(model)
    for each in layers:
        inner = getattr(each, "layer", None)
        if not isinstance(inner, keras.Model):
            continue
        if any(keras_internals.mask_of(x) is not None for x in inner.outputs):
            yield f"the mask of {inner.name!r} in {each.name!r}: layers behind see none"
    heads = [x for x in layers if isinstance(x, keras.layers.MultiHeadAttention)]
    if over_grids := [x.name for x in heads if _is_masked_grid(x)]:
        names = ", ".join(map(repr, over_grids))
        yield (
            f"the mean that {names} returned where a mask hides all positions: Keras 3 "
            "returns zeros from 3.14 on"
        )
    zeroing = [x.name for x in heads if _has_scores(x, {}) and _has_mask(x)]
    if zeroing and (end := _takes_padding(layers)):
        names = ", ".join(map(repr, zeroing))
        yield (
            f"the mean that {names} returned at padding: Keras 3 returns zeros from "
            f"3.14 on, which {end!r} takes for data"
        )


def without_gradients(model: keras.Model) -> Iterator[str]:
    """Yield the gradients of attention at padding, as a part, if a layer uses padding.

    tf.keras added -1e9 to scores, which keeps their gradients; Keras 3 replaces them.
    """
    layers = keras_internals.sublayers(model)
    heads = [x for x in layers if isinstance(x, keras.layers.MultiHeadAttention)]
    masked = [x.name for x in heads if _has_mask(x) and x.supports_masking]
    if masked and (end := _takes_padding(layers)):
        names = ", ".join(map(repr, masked))
        yield (
            f"the gradients of the scores of {names} at padding, which {end!r} takes "
            "for data"
        )


def _takes_padding(layers: Sequence[keras.Layer]) -> str | None:
    """Return the name of a layer that takes padding for data, or None."""
    ends = (x.name for x in layers if not x.supports_masking and _has_mask(x))
    return next(ends, None)


def _is_masked_grid(layer: keras.Layer) -> bool:
    """Return whether an attention layer has a mask and a query of four axes or more."""
    return any(
        len(query.shape) > 3
        and any(x.dtype == "bool" or keras_internals.mask_of(x) is not None for x in xs)
        for query, *xs in keras_internals.inputs_of_calls(layer)
    )


def _has_mask(layer: keras.Layer) -> bool:
    """Return whether the first input of a layer, in one of its calls, has a mask."""
    calls = keras_internals.inputs_of_calls(layer)
    return any(keras_internals.mask_of(first) is not None for first, *_ in calls)


def chosen(mask: Tensor, rank: int) -> Tensor:
    """Return a boolean mask that acts like a mask of numbers in MultiHeadAttention.

    It is True at the largest numbers over the last `rank` axes. If all are equal but
    not 1, it is False: the scores were lost in rounding.
    """
    tensor = mask
    while keras.backend.standardize_dtype(tensor.dtype) != "bool":
        before = keras_internals.inputs_of(tensor)
        if len(before) != 1:
            break
        (tensor,) = before
    else:
        return mask
    axes = [*range(-rank, 0)]
    most, least = (f(mask, axes, keepdims=True) for f in (ops.max, ops.min))
    is_choice = ops.logical_or(ops.greater(most, least), ops.equal(most, 1))
    return ops.logical_and(ops.equal(mask, most), is_choice)


def counting_padding(
    model: keras.Model, release: Release, rebuilt: Collection[str]
) -> Iterator[str]:
    """Yield the batch normalizations whose statistics counted padding, as a sentence.

    A layer that was rebuilt counted padding in every release, since its function takes
    no mask. They keep the statistics of Keras 3: it has no layer that hands on a mask
    without using it.
    """
    layers = keras_internals.sublayers(model)
    if not any(map(_masks, layers)):
        return
    names, found = {path.rpartition("/")[2] for path in rebuilt}, dict[str, None]()
    for layer in layers:
        is_rebuilt = layer.name in names
        inner = keras_internals.sublayers(layer) if is_rebuilt else [layer]
        for each in inner if is_rebuilt or release < LEAVES_OUT_PADDING else ():
            if _has_moving_statistics(each) and (each is not layer or _is_masked(each)):
                found[each.name] = None
    if found:
        yield (
            f"that {', '.join(map(repr, found))} counted padding in the statistics of "
            "a batch: Keras 3 leaves it out, as tf.keras does from 2.12 on"
        )


def _masks(layer: keras.Layer) -> bool:
    return isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False)


def _has_moving_statistics(layer: keras.Layer) -> bool:
    is_one = isinstance(layer, keras.layers.BatchNormalization)
    return bool(is_one and layer.trainable)


def _is_masked(layer: keras.Layer) -> bool:
    """Return whether the call of a layer has a mask; True if there is not just one."""
    return len(keras_internals.inputs_of_calls(layer)) != 1 or _has_mask(layer)
