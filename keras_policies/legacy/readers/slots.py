"""Finds the variables that the slots of an optimizer belong to.

The name of a slot contains that of its variable. Keras 2.0 to 2.3, before it joined
TensorFlow, numbered slots instead (`Variable_3`, from 2.3 on `m_3`): there the order
decides, one slot for all trained weights, then the next slot.
Source: keras/optimizers.py, `weights` of each class.
"""

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import LegacyOptimizerState, LegacySlot
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.guards import limits

# Versions of Keras that numbered slots; tf.keras wrote 2.2.4-tf, and 2.4.0 or later.
NUMBERED = re.compile(r"2\.[0-3]\.\d+")
SLOTS = {
    "SGD": ("momentum",),
    "RMSprop": ("rms",),
    "Adagrad": ("accumulator",),
    "Adadelta": ("accum_grad", "accum_var"),
    "Adam": ("m", "v"),
    "Adamax": ("m", "v"),
    "Nadam": ("m", "v"),
}
STATISTICS = "moving_mean", "moving_variance"
NO_SLOT = (1,)  # the shape of Adam's vhat, without amsgrad


class SlotNames:
    """Matches slots with variables by name; equal names are matched in order.

    Up to 2.10 a slot is called `Adam/dense/kernel/m`, from 2.11 on
    `Adam/m/dense/kernel`; a graph's own scopes, such as `training/`, may come first.
    """

    def __init__(self, weights: Iterable[LegacyWeight]) -> None:
        self._weights = collections.defaultdict(list)
        for weight in weights:
            self._weights[weight.name].append(weight)
        self._seen: collections.Counter[tuple[str, str]] = collections.Counter()

    def slot(self, value: LegacyWeight) -> LegacySlot | None:
        """Return the `LegacySlot` of an optimizer's variable, or None."""
        parts = value.name.split("/")[-limits.SLOT_PARTS :]
        for start in range(len(parts)):
            name, slot = "/".join(parts[start:-1]), parts[-1]
            if name not in self._weights and start:
                name, slot = "/".join(parts[start:]), parts[start - 1]
            if name in self._weights:
                return self._next(name, slot, value)
        return None

    def _next(self, name: str, slot: str, value: LegacyWeight) -> LegacySlot | None:
        number = self._seen[name, slot]
        self._seen[name, slot] += 1
        named = self._weights[name]
        return LegacySlot(slot, named[number], value) if number < len(named) else None


def with_numbered(
    state: LegacyOptimizerState,
    stored: Sequence[LegacyWeight],
    optimizer: Config,
    trained: Sequence[LegacyWeight],
) -> LegacyOptimizerState:
    """Return a state with its slots added, or unchanged if these do not fit.

    `stored` are the variables of the optimizer, `trained` the weights that it trained,
    both in the order of the file.
    """
    kinds = SLOTS.get(str(optimizer.get("class_name")), ())
    if configs.settings(optimizer).get("amsgrad"):
        kinds += ("vhat",)
    arrays = [value for value in stored if value.shape]
    places = list(itertools.product(kinds, trained))
    padding = [NO_SLOT] * (len(arrays) - len(places))
    if [value.shape for value in arrays] != [w.shape for _, w in places] + padding:
        return state
    pairs = zip(places, arrays, strict=False)
    slots = tuple(LegacySlot(*place, value) for place, value in pairs)
    # RMSprop, Adagrad and Adadelta did not write the iterations before 2.3.
    iterations = state.iterations or 0
    return dataclasses.replace(state, iterations=iterations, slots=slots)


def trained(model: Config, weights: LayerWeights) -> Iterator[LegacyWeight]:
    """Yield the weights that a model with this config trains."""
    layers = {configs.name_of(layer): layer for layer in configs.inner_layers(model)}
    for name, layer_weights in weights.items():
        if configs.settings(layers.get(name, {})).get("trainable") is not False:
            for weight in layer_weights:
                if weight.name.rpartition("/")[2] not in STATISTICS:
                    yield weight
