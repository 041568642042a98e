"""Turns the weights of Keras 1 into those of Keras 2; see `keras_1`."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_policies.annotations import Config
from keras_policies.legacy.base.model import Array, LegacyWeight

CLASSES = {
    "AtrousConvolution1D": "Conv1D",
    "AtrousConvolution2D": "Conv2D",
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "Deconvolution2D": "Conv2DTranspose",
    "SeparableConvolution2D": "SeparableConv2D",
}
# Gates in the order in which the weights of Keras 2 have them.
GATES = "ifco", "zrh"
WEIGHT = re.compile(
    r"(?P<layer>.*)_(?P<kind>W|U|b|gamma|beta|running_mean|running_std|alphas|"
    r"depthwise_kernel|pointwise_kernel)(_(?P<gate>[ifcozrh]))?"
)
WEIGHTS = {
    **{"W": "kernel", "U": "recurrent_kernel", "alphas": "alpha", "b": "bias"},
    **{"running_mean": "moving_mean", "running_std": "moving_variance"},
}


def as_keras_2(
    weights: Iterable[LegacyWeight], layers: Mapping[str, Config]
) -> Iterator[LegacyWeight]:
    """Yield the weights of a layer, those of its gates joined, in the new layouts.

    `layers` has the configs of all layers, as Keras 1 wrote them, by their names.
    """
    gates: dict[tuple[str, str], dict[str, LegacyWeight]] = {}
    for weight in weights:
        found = WEIGHT.fullmatch(weight.name)
        if found is None:
            yield weight
            continue
        owner, kind, gate = found["layer"], found["kind"], found["gate"]
        if gate is None:
            yield _weight(weight, owner, kind, layers.get(owner, {}))
            continue
        parts = gates.setdefault((owner, kind), {})
        parts[gate] = weight
        if len(parts) == len(_order(parts)):
            yield _joined([parts[gate] for gate in _order(parts)], owner, kind)


def _order(parts: Iterable[str]) -> str:
    return next(gates for gates in GATES if set(parts) & set(gates))


def _joined(parts: Sequence[LegacyWeight], owner: str, kind: str) -> LegacyWeight:
    def read() -> Array:
        return np.concatenate([part.read() for part in parts], axis=-1)

    width = sum(part.shape[-1] for part in parts)
    return dataclasses.replace(
        parts[0],
        name=f"{owner}/{WEIGHTS[kind]}",
        shape=(*parts[0].shape[:-1], width),
        read=read,
    )


def _weight(weight: LegacyWeight, owner: str, kind: str, layer: Config) -> LegacyWeight:
    """Return a weight under its name in Keras 2, in the layout of its class."""
    class_name = str(layer.get("class_name"))
    name = WEIGHTS.get(kind, kind)
    if class_name == "Embedding" and kind == "W":
        name = "embeddings"
    weight = dataclasses.replace(weight, name=f"{owner}/{name}")
    axes = _axes(class_name, layer, weight.shape) if kind == "W" else None
    if axes is None:
        return weight
    is_line = class_name in ("AtrousConvolution1D", "Convolution1D")
    read, shape = weight.read, [weight.shape[axis] for axis in axes]
    if is_line:
        shape = shape[:1] + shape[2:]
    return dataclasses.replace(
        weight,
        shape=tuple(shape),
        read=lambda: np.reshape(np.transpose(read(), axes), shape),
    )


def _axes(
    class_name: str, layer: Config, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the axes of a kernel in the order of Keras 2, or None if they are."""
    rank = len(shape)
    is_first = layer.get("config", {}).get("dim_ordering") == "th"
    if class_name in ("AtrousConvolution1D", "Convolution1D") and rank == 4:
        is_old = shape[1] != 1  # (filters, channels, length, 1)
        return (2, 3, 1, 0) if is_old else (0, 1, 2, 3)
    if class_name == "Deconvolution2D" and rank == 4:
        return (2, 3, 0, 1) if is_first else (0, 1, 3, 2)
    is_convolution = CLASSES.get(class_name, "").startswith("Conv")
    if is_convolution and is_first and rank > 2:
        return (*range(2, rank), 1, 0)
    return None
