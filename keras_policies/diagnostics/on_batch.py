"""What a batch of inputs shows: outputs and arithmetic outside of float16's range."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Arrays
from keras_policies.diagnostics.risks import NARROW, USE_FLOAT32
from keras_policies.keras_internals import Call

LARGEST = 65504.0  # of float16
# A share of the largest output. Rounding in a block of layers stays below it; an inner
# value that overflows or becomes zero does not.
ALLOWED = 0.05
WITHIN = "On this batch, all outputs are within float16's range."


@dataclasses.dataclass(frozen=True)
class Overflow:
    """A layer whose outputs leave the range of float16."""

    path: str  # names of the layers around it, and its own; "" for the inputs
    class_name: str  # "" for the inputs
    dtype: str  # of its outputs
    largest: float  # absolute value, which may be infinite or NaN

    def __str__(self) -> str:
        where = f"{self.path} ({self.class_name})" if self.path else "the inputs"
        return (
            f"The first values outside of float16's range on this batch: {where}, in "
            f"{self.dtype}, up to {self.largest:.4g}; float16 ends at {LARGEST:.0f}."
        )


def first_overflow(model: keras.Model, x: Arrays) -> Overflow | None:
    """Return the first `Overflow` while a model predicts a batch, or None.

    Inner layers come before the layers around them. A model that is not built is built.
    Values inside a compiled loop, such as an RNN's cell, are not checked.
    """
    if (inputs := _outside("", "", x)) is not None:
        return inputs
    found: Overflow | None = None

    def check(path: str, layer: keras.Layer, outputs: Any) -> None:
        nonlocal found
        if path and found is None:
            found = _outside(path, type(layer).__name__, outputs)

    if not model.built:  # calls of layers that are being built are symbolic
        model(x, training=False)
    with keras.StatelessScope(), keras_internals.layer_calls(check):
        model(x, training=False)
    return found


def lines(model: keras.Model, x: Arrays) -> Iterator[str]:
    """Yield what a batch shows, in sentences."""
    yield str(first_overflow(model, x) or WITHIN)
    by_layer = dict(_compared(model, x))
    for path, difference in by_layer.items():
        if difference is not None and not difference <= ALLOWED:  # NaN is not
            yield (
                f"{path}: its own arithmetic in a narrow dtype differs from that in "
                f"float32 by {difference:.0%} of the largest output; {USE_FLOAT32}."
            )
    if equal := [p for p, d in by_layer.items() if d is not None and d <= ALLOWED]:
        yield f"Computes as in float32: the arithmetic of {', '.join(equal)}."
    if unknown := [path for path, difference in by_layer.items() if difference is None]:
        yield f"Not looked at: the arithmetic of {', '.join(unknown)}."


def _compared(model: keras.Model, x: Arrays) -> Iterator[tuple[str, float | None]]:
    """Yield `(path, share)` for each layer with arithmetic of its own.

    `share` is the largest difference between its outputs and those in float32, for the
    same inputs, divided by its largest output. None if it cannot be compared.
    """
    calls: dict[str, tuple[keras.Layer, Call, Any]] = {}

    def note(path: str, layer: keras.Layer, inputs: Call, outputs: Any) -> None:
        policy = keras_internals.own_policy(layer)
        if policy.compute_dtype in NARROW and _has_own_code(layer):
            calls.setdefault(path or "the model", (layer, inputs, outputs))

    with keras.StatelessScope(), keras_internals.calls_with_inputs(note):
        model(x, training=False)
    for path, (layer, (args, kwargs), outputs) in calls.items():
        share = None
        with (
            contextlib.suppress(Exception),  # code that only computes in float16
            keras.StatelessScope(),
            keras_internals.computing_in(layer, "float32"),
        ):
            share = _difference(outputs, layer(*args, **kwargs))
        yield path, share


def _has_own_code(layer: keras.Layer) -> bool:
    """Return whether a layer runs code that is not of Keras."""
    is_stock = type(layer).__module__.split(".")[0] == "keras"
    return not is_stock or isinstance(layer, keras.layers.Lambda)


def _difference(narrow: Any, wide: Any) -> float:
    """Return the largest difference of two nests of tensors, as a share of `wide`."""
    shares = [0.0]
    for pair in zip(*map(keras.tree.flatten, (narrow, wide)), strict=True):
        if keras.backend.is_float_dtype(keras.backend.standardize_dtype(pair[1].dtype)):
            a, b = (keras.ops.convert_to_numpy(t).astype("float32") for t in pair)
            largest = float(np.max(np.abs(b), initial=0.0))
            difference = float(np.max(np.abs(a - b), initial=0.0))
            shares.append(difference / largest if largest else difference)
    return float(np.max(shares))


def _outside(path: str, class_name: str, values: Any) -> Overflow | None:
    for tensor in keras.tree.flatten(values):
        # A layer may return things that are not tensors, or symbolic tensors.
        with contextlib.suppress(Exception):
            dtype = keras.backend.standardize_dtype(tensor.dtype)
            if keras.backend.is_float_dtype(dtype):
                array = keras.ops.convert_to_numpy(tensor).astype("float32")
                largest = float(np.max(np.abs(array), initial=0.0))
                if not largest <= LARGEST:  # NaN is not
                    return Overflow(path, class_name, dtype, largest)
    return None
