"""The weights with which TensorFlow resizes images, one matrix per axis.

Source: tensorflow/core/kernels/image/{resize_*_op,scale_and_translate_op,
sampling_kernels}.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


def _cubic(b: float, c: float) -> Callable[[Floats], Floats]:
    """Return a kernel of the family of Mitchell and Netravali (1988)."""

    def kernel(x: Floats) -> Floats:
        x = np.abs(x)
        near = ((12 - 9 * b - 6 * c) * x + 12 * b + 6 * c - 18) * x * x + 6 - 2 * b
        far = ((-b - 6 * c) * x + 6 * b + 30 * c) * x - 12 * b - 48 * c
        far = far * x + 8 * b + 24 * c
        return np.where(x < 1, near, np.where(x < 2, far, 0)) / 6

    return kernel


def _lanczos(radius: int) -> Callable[[Floats], Floats]:
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0)


# Method -> the weight of a pixel by its distance in pixels.
KERNELS: dict[str, Callable[[Floats], Floats]] = {
    "bilinear": lambda x: np.maximum(1 - np.abs(x), 0),
    "bicubic": _cubic(0, 1 / 2),  # of Keys
    "mitchellcubic": _cubic(1 / 3, 1 / 3),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": lambda x: np.where(np.abs(x) < 1.5, np.exp(-2 * x * x), 0),
}
METHODS = "nearest", "area", *KERNELS


@dataclasses.dataclass(frozen=True)
class Centers:
    """Where in the input the centers of the output's pixels lie."""

    align_corners: bool = False  # the first and last pixels keep their places
    half_pixels: bool = True  # the center of a pixel is half a pixel from its edge

    def positions(self, length: int, wanted: int) -> Floats:
        """Return the positions of `wanted` pixels among `length`."""
        number = np.arange(wanted, dtype="float64")
        if self.align_corners and wanted > 1:
            return number * (length - 1) / (wanted - 1)
        if self.half_pixels:
            return (number + 0.5) * length / wanted - 0.5
        return number * length / wanted

    def nearest(self, length: int, wanted: int) -> npt.NDArray[np.int32]:
        """Return the numbers of the pixels nearest to these positions.

        TensorFlow rounds half up with either setting, and else takes the floor.
        """
        at = self.positions(length, wanted)
        at += 0.5 if self.align_corners or self.half_pixels else 0
        return np.clip(np.floor(at + 1e-9), 0, length - 1).astype(np.int32)


def _area(length: int, wanted: int) -> Floats:
    ends = np.arange(wanted + 1) * length / wanted
    start, stop = ends[:-1, None], ends[1:, None]
    pixels = np.arange(length)[None]
    overlap: Floats = np.minimum(stop, pixels + 1) - np.maximum(start, pixels)
    return np.maximum(overlap, 0)


def matrix(
    length: int, wanted: int, method: str, centers: Centers, antialias: bool
) -> npt.NDArray[np.float32]:
    """Return the weights of input pixels for each output pixel: `(wanted, length)`."""
    if method == "area":
        weights = _area(length, wanted)
    else:
        at = centers.positions(length, wanted)[:, None]
        if method == "bilinear" and not antialias:
            at = np.clip(at, 0, length - 1)
        stretch = max(length / wanted, 1) if antialias else 1
        weights = KERNELS[method]((at - np.arange(length)[None]) / stretch)
    total: Floats = weights.sum(axis=1, keepdims=True)
    return (weights / total).astype(np.float32)
