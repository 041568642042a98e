"""Functions as the calls that they consist of, and the configs that hold them.

A Lambda layer whose code is understood becomes a `Program`, and so do some stock layers
without a counterpart. `build/lambda_call.py` runs it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base.configs import PACKAGE, keras_object, layer_name

# `keras.saving` finds the classes of `build/lambda_call.py` under these names.
CALL, SEQUENCE = f"{PACKAGE}>LambdaCall", f"{PACKAGE}>SequenceWithCalls"


@dataclasses.dataclass(frozen=True)
class Ref:
    """A value that is known only when the program runs.

    0 is the input of the layer, `n` the result of call `n - 1`.
    """

    number: int


@dataclasses.dataclass(frozen=True)
class Given:
    """A function that the user passed in `custom_objects`."""

    function: Any


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a function that has a meaning here; `Ref`s stand in its arguments."""

    function: str | Given  # `"tf.math.add"`, `"python.+"`, `"numpy.sqrt"`
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    """A function as its calls, in order, and its result."""

    python: str  # that compiled it
    calls: tuple[Call, ...]
    result: Any


def call_config(
    name: str, path: str, program: Program, dtype: PolicyLike | None
) -> Config:
    """Return the config of the `LambdaCall` that replaces a Lambda layer."""
    call = {"name": layer_name(name), "path": path, "program": program, "policy": dtype}
    return keras_object(None, "LambdaCall", call, CALL)


def is_call(config: Any) -> bool:
    """Return whether a config is one that `call_config` returned."""
    return isinstance(config, dict) and config.get("registered_name") == CALL


def of_time_steps(call: Config, wrapper: Config) -> Config:
    """Return the config of a TimeDistributed, whose own is `wrapper`, around a call."""
    config = {**call["config"], "name": wrapper["name"], "is_of_steps": True}
    return {**call, "config": config}


def sequence_config(config: Config) -> Config:
    """Return the config of a Sequential, some of whose layers are `LambdaCall`s."""
    return keras_object(None, "Sequential", config, SEQUENCE)
