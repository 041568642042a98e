"""What a legacy file says, whatever its format: frozen values, nothing of Keras.

The readers make a `LegacyModel`; `convert` and `build` take it from there. Tensors
are named and described here, and read one at a time through `LegacyWeight.read`.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

# Of the name of an optimizer's variable: scopes, layers, the variable, the slot.
MAX_PARTS = 100


@dataclasses.dataclass(frozen=True)
class LegacyWeight:
    """A variable of a layer, or of an optimizer.

    Args:
        path: str, the attributes that lead to it from its layer, `"cell/kernel"`, or
            `"cell/vars/0"` in a Keras-2 `.keras` file; `""` where none are recorded.
        name: str, the variable's name as written, `"lstm/lstm_cell/kernel"`; `""`
            where none is recorded.
        shape: tuple of ints.
        dtype: `np.dtype`.
        read: callable, returns the array.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray] = dataclasses.field(repr=False, compare=False)

    def __str__(self):
        return f"{self.path or self.name} {self.shape}"


@dataclasses.dataclass(frozen=True)
class LegacySlot:
    """An optimizer's slot: its name, such as `"m"`, and whose it is.

    Args:
        name: str, as tf.keras calls it.
        variable: `LegacyWeight`, or an int where the file gives only the position
            among the model's trainable variables.
        value: `LegacyWeight`, the tensor of the slot.
    """

    name: str
    variable: LegacyWeight | int
    value: LegacyWeight


class SlotNames:
    """Tells from a slot's name whose it is; equal names count in order.

    Up to 2.10 a slot is called `Adam/dense/kernel/m`, from 2.11 on
    `Adam/m/dense/kernel`; a graph's own scopes, such as `training/`, may come first.

    Args:
        weights: iterable of `LegacyWeight`, the model's, in order.
    """

    def __init__(self, weights):
        self._weights = collections.defaultdict(list)
        for weight in weights:
            self._weights[weight.name].append(weight)
        self._seen = collections.Counter()

    def slot(self, value):
        """Return the `LegacySlot` of an optimizer's variable, or None."""
        parts = value.name.split("/")[-MAX_PARTS:]
        for start in range(len(parts)):
            own = "/".join(parts[start:-1]), parts[-1]
            if own[0] not in self._weights and start:
                own = "/".join(parts[start:]), parts[start - 1]
            if own[0] in self._weights:
                return self._next(*own, value)
        return None

    def _next(self, name, slot, value):
        number = self._seen[name, slot]
        self._seen[name, slot] += 1
        found = self._weights[name]
        return LegacySlot(slot, found[number], value) if number < len(found) else None


@dataclasses.dataclass(frozen=True)
class LegacyOptimizerState:
    """The variables of an optimizer, as far as the file holds them.

    Args:
        iterations: int, or None.
        slots: tuple of `LegacySlot`.
        scalars: `{name: value}` of what belongs to no variable: Nadam's
            `"momentum_cache"`.
        loss_scale: float, the current loss scale, or None.
        good_steps: int, finite steps since it last changed, or None.
    """

    iterations: int | None = None
    slots: tuple[LegacySlot, ...] = ()
    scalars: Mapping[str, float] = dataclasses.field(default_factory=dict)
    loss_scale: float | None = None
    good_steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What a preprocessing layer has learned that Keras 3 keeps in its config.

    Args:
        tokens: `{index: bytes, str or int}` of a lookup layer, as stored, the special
            tokens as far as the file has them; empty where it has none.
        weights: tuple of `LegacyWeight`, such as the inverse document frequencies.
    """

    tokens: Mapping[int, bytes | str | int] = dataclasses.field(default_factory=dict)
    weights: tuple[LegacyWeight, ...] = ()

    def weight(self, *names):
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
        policy: the model's own policy as written (a name or a config), or None.
        records_policies: bool; TensorFlow 2.0 wrote only the variable dtypes.
        weights: `{layer: (LegacyWeight, ...)}` for each layer of a Sequential or
            Functional model, `{"": (...)}` for a subclassed one.
        inputs: `{name: (shape, dtype)}` of the serving signature, or empty.
        training_config: dict as written, or None.
        optimizer: `LegacyOptimizerState`.
        vocabularies: `{layer path: Vocabulary}`, by the names of the layers, after
            those of the models around them, `"encoder/words"`; below another layer by
            attributes, without leading underscores.
        inner_policies: `{layer path: dtype as written}` by the same paths, of the
            layers below others; a SavedModel records them.
    """

    path: str
    format: str
    written_by: str
    config: Mapping
    policy: object
    records_policies: bool
    weights: Mapping[str, tuple[LegacyWeight, ...]]
    inputs: Mapping[str, tuple[tuple, str]]
    training_config: Mapping | None
    optimizer: LegacyOptimizerState
    vocabularies: Mapping[str, Vocabulary] = dataclasses.field(default_factory=dict)
    inner_policies: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @property
    def size(self):
        """int, the bytes of all weights."""
        return sum(
            math.prod(weight.shape) * weight.dtype.itemsize
            for weights in self.weights.values()
            for weight in weights
        )
