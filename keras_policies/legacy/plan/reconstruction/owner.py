"""The layer that is rebuilt: its name, policy and variables."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from keras_policies.legacy.base.model import Config, LegacyWeight
from keras_policies.legacy.ops import converters
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.reconstruction.losses import Regularizers
from keras_policies.legacy.plan.reconstruction.steps import FLOATS, OpStep


@dataclasses.dataclass(frozen=True)
class Owner:
    """The layer whose function is rebuilt.

    Args:
        dtype: its policy as written, or None.
        trainable: the numbers of the variables that it trains.
        variables: those of the file, by number.
        regularizers: those of its variables.
    """

    name: str
    dtype: Any
    trainable: frozenset[int]
    variables: Mapping[int, LegacyWeight]
    regularizers: Regularizers

    @functools.cached_property
    def mixed(self) -> str | None:
        """str, the compute dtype of a mixed policy, None for any other policy."""
        compute, variable = policies.dtypes_of(self.dtype)
        return compute if compute != variable and compute in FLOATS else None

    def config(self, dtype: Any, **variables: int) -> Config:
        """Return the arguments of a layer that holds variables under these names."""
        trains = any(number in self.trainable for number in variables.values())
        regularized = {
            f"{name}_regularizer": self.regularizers.of(number)
            for name, number in variables.items()
            if self.regularizers.of(number) is not None
        }
        return {"dtype": dtype, "trainable": trains or not variables, **regularized}

    def label(self, variable: int) -> str:
        """Return a name for the layer that holds a variable."""
        scopes = self.variables[variable].name.partition(":")[0].split("/")
        return "_".join(scopes[1:] or scopes) or "weight"

    def is_cast(self, step: OpStep) -> bool:
        """Return whether a step casts a tensor to the compute dtype of the policy."""
        is_mixed = self.mixed is not None and step.op == "Cast"
        return is_mixed and name_of_dtype(step, "DstT") == self.mixed


def name_of_dtype(step: OpStep, attribute: str) -> str:
    """Return the name in numpy of a dtype that is an attribute of an op."""
    value = step.attributes.get(attribute)
    return str(converters.DTYPES.get(str(value), value))
