"""The state of the optimizer in a `.keras` file, whose variables have no names.

Source: keras/optimizers/*.py of 2.11 to 2.15, `build`.
"""

import h5py

from keras_policies.legacy.base.model import Config, LegacyOptimizerState, LegacySlot
from keras_policies.legacy.guards.guarded_hdf5 import member
from keras_policies.legacy.readers import hdf5_weights
from keras_policies.legacy.readers.keras_archive.weights import VARIABLES, in_order

GROUP, INNER_GROUP = "optimizer", "optimizer/inner_optimizer"
# Class -> its slots in the order in which Keras 2.11 to 2.15 creates them: one group
# after the other, each variable by variable. A group after a setting and a colon is
# there only if the setting is true.
SLOT_GROUPS = {
    "SGD": ("m",),
    "RMSprop": ("velocity", "momentum: momentum", "centered: average_gradient"),
    "Adam": ("m v", "amsgrad: vhat"),
    "AdamW": ("m v", "amsgrad: vhat"),
    "Adagrad": ("accumulator",),
    "Adadelta": ("accumulated_grad accumulated_delta_var",),
    "Adamax": ("m u",),
    "Nadam": ("m v",),
    "Ftrl": ("accumulator linear",),
    "Lion": ("m",),
}


def class_name(given: str) -> str:
    """Return the class of an optimizer that was given to `compile` as a string."""
    by_string = {name.lower(): name for name in SLOT_GROUPS}
    return by_string.get(given.lower(), given)


def inner(optimizer: Config) -> Config | None:
    """Return the config of the optimizer in a LossScaleOptimizer; None of any other."""
    found = (optimizer.get("config") or {}).get("inner_optimizer")
    return found if isinstance(found, dict) else None


def has_inner(file: h5py.File) -> bool:
    """Return whether the variables are those of an optimizer in another."""
    return member(file, INNER_GROUP) is not None


def state(file: h5py.File, optimizer: Config) -> LegacyOptimizerState:
    """Return the state of an optimizer from its config and the HDF5 file."""
    is_inner = inner(optimizer) is not None or has_inner(file)
    group = member(file, f"{INNER_GROUP if is_inner else GROUP}/{VARIABLES}")
    stored = [] if group is None else in_order(group)
    values = [hdf5_weights.weight(group, name, f"vars/{name}") for name in stored]
    names = _slots(inner(optimizer) or optimizer, len(values) - 1)
    if not values or values[0].shape or names is None:
        return LegacyOptimizerState()
    pairs = zip(names, values[1:], strict=True)
    slots = tuple(LegacySlot(*place, value) for place, value in pairs)
    return LegacyOptimizerState(values[0].read().item(), slots)


def _slots(optimizer: Config, count: int) -> list[tuple[str, int]] | None:
    """Return `[(slot, variable number)]` for `count` tensors, or None if unknown."""
    config = optimizer.get("config") or {}
    if config.get("is_legacy_optimizer") or "legacy" in str(optimizer.get("module")):
        return None  # their files hold no slots that can be told apart
    known = SLOT_GROUPS.get(optimizer.get("class_name", ""), ())
    parts = (group.rpartition(":") for group in known)
    groups = [names.split() for key, _, names in parts if not key or config.get(key)]
    variables, rest = divmod(count, sum(map(len, groups)) or 1)
    if rest or not groups:
        return None
    numbers = range(variables)
    return [(name, number) for names in groups for number in numbers for name in names]
