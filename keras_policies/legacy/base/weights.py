"""Weights in a legacy file, described: `LegacyWeight.read` fetches one at a time."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
# The state of TensorFlow's random generators, which no other generator can use, and
# the statistics of batch renormalization.
WITHOUT_COUNTERPART = "_state_var", "renorm_mean", "renorm_stddev", "moving_stddev"


@dataclasses.dataclass(frozen=True)
class LegacyWeight:
    """A variable of a layer or of an optimizer."""

    # Attributes from the layer to the weight, such as "cell/kernel", or "cell/vars/0"
    # in a Keras 2 .keras file; "" if they are not recorded.
    path: str
    name: str  # as written, such as "lstm/lstm_cell/kernel"; "" if not recorded
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Array] = dataclasses.field(repr=False, compare=False)
    # The number of its object in a SavedModel or a checkpoint; a .keras file's address.
    number: int | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """int, its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.path or self.name} {self.shape}"


def is_unknown(weight: LegacyWeight) -> bool:
    """Return whether Keras 3 has no such weight, such as a random generator's state."""
    name = (weight.path or weight.name).rpartition("/")[2]
    return name.partition(":")[0] in WITHOUT_COUNTERPART


# Name of a layer -> its weights.
LayerWeights: TypeAlias = Mapping[str, tuple[LegacyWeight, ...]]
