"""Rules that recognise stock layers: an op with a weight is a call of a layer."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.nn_convolutions import spatial
from keras_policies.legacy.plan.reconstruction import ir

Shape = tuple[int, ...]
Zeros = tuple[int, int | None]  # in front of an axis, and behind it
FIRST = "channels_first"
ADDITIONS = "Add", "AddV2", "BiasAdd"  # of a bias
SIZES = "kernel_size", "strides", "dilation_rate"


@dataclasses.dataclass(frozen=True)
class LayerMatch:
    """A stock layer that computes the same as an op with a weight."""

    class_name: str
    config: Config  # its arguments, without name, dtype and bias
    path: str  # of the weight in it
    units: int | None  # the size of the bias that it can have; None if it has none
    tensor: int = 0  # which input of the op it is called on


Rule: TypeAlias = Callable[[Mapping[str, Any], Shape], LayerMatch | None]


def layer_for(step: ir.OpStep, position: int, shape: Shape) -> LayerMatch | None:
    """Return the layer for an op whose input at `position` is a weight, or None."""
    rule = RULES.get((step.op, position))
    try:
        return None if rule is None else rule(step.attributes, shape)
    except (KeyError, ValueError, TypeError, IndexError):
        return None  # converting the op will raise the error


def _dense(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
    names = "transpose_a", "transpose_b", "adj_x", "adj_y"
    if len(shape) != 2 or any(attributes.get(name) for name in names):
        return None
    config = {"units": shape[1], "activation": None}
    return LayerMatch("Dense", config, "kernel", shape[1])


def _convolution(
    class_name: str, size: str, axis: int, *, rank: int = 2, tensor: int = 0
) -> Rule:
    """Return the rule of a convolution; its argument `size` is the length of `axis`."""

    def rule(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
        if len(shape) != rank + 2:
            return None
        layout = converters.layout(attributes.get("data_format", "NHWC"))
        strides, rates = (
            [int(n) for n in spatial(attributes.get(name) or 1, rank, layout)]
            for name in ("strides", "dilations")
        )
        config = {
            size: shape[axis],
            "kernel_size": list(shape[:rank]),
            "strides": strides,
            "dilation_rate": rates,
            "padding": converters.padding(attributes["padding"]),
            "data_format": layout,
            "activation": None,
        }
        units = shape[axis] * (shape[2] if size == "depth_multiplier" else 1)
        return LayerMatch(class_name, config, "kernel", units, tensor)

    return rule


def conv1d(match: LayerMatch) -> LayerMatch:
    """Return the Conv1D that a Conv2D on an image of one row is."""
    if match.config["kernel_size"][0] != 1 or match.config["data_format"] == FIRST:
        return match
    config = {**match.config, **{key: match.config[key][1:] for key in SIZES}}
    return dataclasses.replace(match, class_name="Conv1D", config=config)


def padding_of(
    zeros: Sequence[Zeros], rates: Sequence[int], sizes: Sequence[int]
) -> str | None:
    """Return the padding of a convolution with these zeros around each axis, or None.

    The zeros behind an axis are not known if their number is computed from its length.
    """
    totals = [rate * (size - 1) for rate, size in zip(rates, sizes, strict=False)]
    paddings = {"same": [(n // 2, n - n // 2) for n in totals], "valid": [(0, 0)] * 3}
    for name, expected in paddings.items():
        pairs = [*zip(zeros, expected, strict=False)]
        fits = (a == (c, d) or a == (c, None) for a, (c, d) in pairs)
        if len(pairs) == len(zeros) and all(fits):
            return name
    return None


def dilated(match: LayerMatch, rates: list[int], zeros: Sequence[Zeros]) -> LayerMatch:
    """Return a convolution with dilation rates, and zeros around each axis."""
    sizes, ones = match.config.get("kernel_size", []), [1] * len(rates)
    padding = padding_of(zeros, rates, sizes)
    is_plain = match.config.get("dilation_rate") == match.config.get("strides") == ones
    is_last = match.config.get("data_format") != FIRST
    if padding is None or not (is_plain and is_last):
        return match
    convolution = {"dilation_rate": rates, "padding": padding}
    return dataclasses.replace(match, config={**match.config, **convolution})


def _embedding(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
    if len(shape) != 2 or attributes.get("batch_dims"):
        return None
    config = {"input_dim": shape[0], "output_dim": shape[1]}
    return LayerMatch("Embedding", config, "embeddings", None, tensor=1)


# Op, and which of its inputs is a weight -> the function that finds the layer.
RULES: Mapping[tuple[str, int], Rule] = {
    ("BatchMatMul", 1): _dense,
    ("BatchMatMulV2", 1): _dense,
    ("BatchMatMulV3", 1): _dense,
    ("Conv2D", 1): _convolution("Conv2D", "filters", 3),
    ("Conv2DBackpropInput", 1): _convolution("Conv2DTranspose", "filters", 2, tensor=2),
    ("Conv3D", 1): _convolution("Conv3D", "filters", 4, rank=3),
    ("DepthwiseConv2dNative", 1): _convolution(
        "DepthwiseConv2D", "depth_multiplier", 3
    ),
    ("Gather", 0): _embedding,
    ("GatherV2", 0): _embedding,
    ("MatMul", 1): _dense,
    ("ResourceGather", 0): _embedding,
}
