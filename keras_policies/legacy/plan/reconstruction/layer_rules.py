"""Rules that recognise stock layers: an op with a weight is a call of a layer."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras_policies.legacy.base.model import Config
from keras_policies.legacy.ops import converters
from keras_policies.legacy.plan.reconstruction.steps import OpStep

Shape = tuple[int, ...]
FIRST = "channels_first"
SIZES = "kernel_size", "strides", "dilation_rate"


@dataclasses.dataclass(frozen=True)
class LayerMatch:
    """A stock layer that computes the same as an op with a weight.

    Args:
        config: its arguments, without name, dtype and bias.
        path: of the weight in it.
        units: the size of the bias that it can have; None if it has none.
        tensor: which input of the op it is called on.
    """

    class_name: str
    config: Config
    path: str
    units: int | None
    tensor: int = 0


def layer_for(step: OpStep, position: int, shape: Shape) -> LayerMatch | None:
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
    return LayerMatch(
        "Dense", {"units": shape[1], "activation": None}, "kernel", shape[1]
    )


def _spatial(attributes: Mapping[str, Any], name: str, rank: int) -> list[int]:
    values = attributes.get(name) or [1] * (rank + 2)
    is_last = (
        converters.layout(attributes.get("data_format", "NHWC")) == "channels_last"
    )
    return [int(n) for n in (values[1:-1] if is_last else values[2:])]


def _convolution(attributes: Mapping[str, Any], shape: Shape) -> Config:
    rank = len(shape) - 2
    return {
        "kernel_size": list(shape[:rank]),
        "strides": _spatial(attributes, "strides", rank),
        "dilation_rate": _spatial(attributes, "dilations", rank),
        "padding": converters.padding(attributes["padding"]),
        "data_format": converters.layout(attributes.get("data_format", "NHWC")),
        "activation": None,
    }


def _conv(rank: int) -> Callable[[Mapping[str, Any], Shape], LayerMatch | None]:
    def rule(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
        if len(shape) != rank + 2:
            return None
        config = {"filters": shape[-1], **_convolution(attributes, shape)}
        return LayerMatch(f"Conv{rank}D", config, "kernel", shape[-1])

    return rule


def conv1d(match: LayerMatch) -> LayerMatch:
    """Return the Conv1D that a Conv2D on an image of one row is."""
    if match.config["kernel_size"][0] != 1 or match.config["data_format"] == FIRST:
        return match
    sizes = {key: match.config[key][1:] for key in SIZES}
    return dataclasses.replace(
        match, class_name="Conv1D", config={**match.config, **sizes}
    )


def dilated(match: LayerMatch, rates: list[int], zeros: list[int]) -> LayerMatch:
    """Return a convolution with dilation rates, and zeros in front of each axis."""
    sizes, ones = match.config.get("kernel_size", []), [1] * len(rates)
    same = [rate * (size - 1) // 2 for rate, size in zip(rates, sizes, strict=False)]
    paddings = {tuple(same): "same", tuple(0 for _ in rates): "valid"}
    is_plain = match.config.get("dilation_rate") == match.config.get("strides") == ones
    is_last = match.config.get("data_format") != FIRST
    if tuple(zeros) not in paddings or not (is_plain and is_last):
        return match
    convolution = {"dilation_rate": rates, "padding": paddings[tuple(zeros)]}
    return dataclasses.replace(match, config={**match.config, **convolution})


def _conv_transpose(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
    if len(shape) != 4:
        return None
    config = {"filters": shape[2], **_convolution(attributes, shape)}
    return LayerMatch("Conv2DTranspose", config, "kernel", shape[2], tensor=2)


def _depthwise(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
    if len(shape) != 4:
        return None
    config = {"depth_multiplier": shape[3], **_convolution(attributes, shape)}
    return LayerMatch("DepthwiseConv2D", config, "kernel", shape[2] * shape[3])


def _embedding(attributes: Mapping[str, Any], shape: Shape) -> LayerMatch | None:
    if len(shape) != 2 or attributes.get("batch_dims"):
        return None
    config = {"input_dim": shape[0], "output_dim": shape[1]}
    return LayerMatch("Embedding", config, "embeddings", None, tensor=1)


# Op, and which of its inputs is a weight -> the function that finds the layer.
RULES: dict[
    tuple[str, int], Callable[[Mapping[str, Any], Shape], LayerMatch | None]
] = {
    ("BatchMatMul", 1): _dense,
    ("BatchMatMulV2", 1): _dense,
    ("BatchMatMulV3", 1): _dense,
    ("Conv2D", 1): _conv(2),
    ("Conv2DBackpropInput", 1): _conv_transpose,
    ("Conv3D", 1): _conv(3),
    ("DepthwiseConv2dNative", 1): _depthwise,
    ("Gather", 0): _embedding,
    ("GatherV2", 0): _embedding,
    ("MatMul", 1): _dense,
}
