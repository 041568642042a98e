"""What a legacy file holds, as frozen values that do not depend on its format.

The readers make a `LegacyModel`; `plan/` and `build/` turn it into a Keras model.
Tensors are only described here: `LegacyWeight.read` fetches one at a time.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Config: TypeAlias = dict[str, Any]  # decoded JSON
Inputs: TypeAlias = dict[str, tuple[tuple[int | None, ...], str]]  # shape and dtype


@dataclasses.dataclass(frozen=True)
class LegacyWeight:
    """A variable of a layer or of an optimizer.

    Args:
        path: str, the attributes that lead to it from its layer, `"cell/kernel"`, or
            `"cell/vars/0"` in a Keras-2 `.keras` file; `""` where none are recorded.
        name: str, the variable's name as written, `"lstm/lstm_cell/kernel"`; `""`
            where none is recorded.
        shape: tuple of ints.
        dtype: `np.dtype`.
        read: function without arguments that returns the array.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Array] = dataclasses.field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.path or self.name} {self.shape}"


# The weights of each layer, by its name.
LayerWeights: TypeAlias = Mapping[str, tuple[LegacyWeight, ...]]


@dataclasses.dataclass(frozen=True)
class LegacySlot:
    """A variable that an optimizer keeps for one variable of the model.

    Args:
        name: str, the slot as tf.keras calls it, such as `"m"`.
        variable: `LegacyWeight`, or an int where the file gives only the position
            among the model's trainable variables.
        value: `LegacyWeight`, the tensor of the slot.
    """

    name: str
    variable: LegacyWeight | int
    value: LegacyWeight


@dataclasses.dataclass(frozen=True)
class LegacyOptimizerState:
    """The variables of an optimizer, as far as the file holds them.

    Args:
        iterations: int, or None.
        slots: tuple of `LegacySlot`.
        scalars: `{name: value}` for scalars that belong to no variable of the model,
            such as Nadam's `"momentum_cache"`.
        loss_scale: float, the current loss scale, or None.
        good_steps: int, finite steps since the loss scale last changed, or None.
    """

    iterations: int | None = None
    slots: tuple[LegacySlot, ...] = ()
    scalars: Mapping[str, float] = dataclasses.field(default_factory=dict)
    loss_scale: float | None = None
    good_steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The learned state of a preprocessing layer that Keras 3 keeps in its config.

    Args:
        tokens: `{index: bytes, str or int}` of a lookup layer, as stored, with the
            special tokens that the file has; empty where it has none.
        weights: tuple of `LegacyWeight`, such as the inverse document frequencies.
    """

    tokens: Mapping[int, bytes | str | int] = dataclasses.field(default_factory=dict)
    weights: tuple[LegacyWeight, ...] = ()

    def weight(self, *names: str) -> Array | None:
        """Return the weight with one of these names as an array, or None."""
        for weight in self.weights:
            if (weight.path or weight.name).rpartition("/")[2] in names:
                return weight.read()
        return None


@dataclasses.dataclass(frozen=True)
class LegacyModel:
    """A legacy file, read.

    Args:
        path: str, the file or folder.
        format: str, `"SavedModel"`, `"H5"` or `"Keras 2 .keras"`.
        written_by: str, such as `"TensorFlow 2.4.4"`.
        config: `{"class_name": str, "config": dict or None}` as written.
        records_policies: bool; TensorFlow 2.0 wrote only the variable dtypes.
        weights: `{layer: (LegacyWeight, ...)}` for each layer of a Sequential or
            Functional model, `{"": (...)}` for a subclassed one.
        training_config: dict as written, or None.
        optimizer: `LegacyOptimizerState`.
        is_optimizer_wrapped: bool, whether `compile` had put a dynamic loss scale
            around the optimizer of `training_config`, which does not say so itself:
            in a `.keras` file only the variables of the optimizer show it.
        policy: the model's own policy as written (a name or a config), or None.
        inputs: `{name: (shape, dtype)}` of the serving signature, or empty.
        vocabularies: `{layer path: Vocabulary}`. A path has the names of the models
            around a layer, then its own, `"encoder/words"`; inside another layer it
            has attributes, without leading underscores.
        inner_policies: `{layer path: dtype as written}` by the same paths, for the
            layers inside other layers; only a SavedModel records them.
        states: `{layer path: (LegacyWeight, ...)}` by the same paths, the states of
            stateful RNNs; only a SavedModel records them.
    """

    path: str
    format: str
    written_by: str
    config: Config
    records_policies: bool
    weights: LayerWeights
    training_config: Config | None
    optimizer: LegacyOptimizerState
    is_optimizer_wrapped: bool = False
    policy: Any = None
    inputs: Inputs = dataclasses.field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = dataclasses.field(default_factory=dict)
    inner_policies: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    states: LayerWeights = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """int, the bytes of all weights."""
        return sum(
            math.prod(weight.shape) * weight.dtype.itemsize
            for weights in self.weights.values()
            for weight in weights
        )
