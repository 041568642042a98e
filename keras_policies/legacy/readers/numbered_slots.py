"""Finds the variables that the slots of Keras 2.0 to 2.3 belong to, by their order.

These releases, no part of TensorFlow yet, numbered the variables of an optimizer:
`Variable_3`, from 2.3 on `m_3`. They wrote those of one slot for all trained weights,
then those of the next. Source: keras/optimizers.py, `weights` of each class.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

from keras_policies.annotations import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import (
    LayerWeights,
    LegacyOptimizerState,
    LegacySlot,
    LegacyWeight,
)

RELEASES = r"2\.[0-3]\.\d+"  # tf.keras wrote 2.2.4-tf, and from 2.4.0 on its own
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


def is_written_by(version: str) -> bool:
    """Return whether a release of Keras numbered the variables of optimizers."""
    return re.fullmatch(RELEASES, version) is not None


def restored(
    state: LegacyOptimizerState,
    stored: Sequence[LegacyWeight],
    optimizer: Config,
    trained: Sequence[LegacyWeight],
) -> LegacyOptimizerState:
    """Return the state with the slots added, or unchanged if these do not fit.

    Args:
        state: what was found by names, without slots.
        stored: the variables of the optimizer, in the order of the file.
        optimizer: its config.
        trained: the weights of the model that it trained, in the order of the file.
    """
    kinds = SLOTS.get(str(optimizer.get("class_name")), ())
    if (optimizer.get("config") or {}).get("amsgrad"):
        kinds += ("vhat",)
    arrays = [value for value in stored if value.shape]
    places = list(itertools.product(kinds, trained))
    left = [NO_SLOT] * (len(arrays) - len(places))
    if [value.shape for value in arrays] != [w.shape for _, w in places] + left:
        return state
    found = zip(places, arrays, strict=False)
    slots = tuple(LegacySlot(*place, value) for place, value in found)
    # RMSprop, Adagrad and Adadelta did not write the iterations before 2.3.
    iterations = state.iterations or 0
    return dataclasses.replace(state, iterations=iterations, slots=slots)


def trained(model: Config, weights: LayerWeights) -> Iterator[LegacyWeight]:
    """Yield the weights that are trained, by the config of a model."""
    layers = {configs.name_of(layer): layer for layer in configs.inner_layers(model)}
    for name, own in weights.items():
        settings = (layers.get(name) or {}).get("config")
        if isinstance(settings, dict) and settings.get("trainable") is False:
            continue
        for weight in own:
            if weight.name.rpartition("/")[2] not in STATISTICS:
                yield weight
