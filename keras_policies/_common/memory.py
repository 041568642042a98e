"""Memory that backends take over as it is, without a copy."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64  # bytes; jax copies an array that begins elsewhere


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return zeros in aligned memory, which the system maps when it is written."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
