"""Finds the variable that an optimizer's slot belongs to, from the slot's name."""

import collections
from collections.abc import Iterable

from keras_policies.legacy.base.model import LegacySlot, LegacyWeight
from keras_policies.legacy.guards import limits


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
        found = self._weights[name]
        return LegacySlot(slot, found[number], value) if number < len(found) else None
