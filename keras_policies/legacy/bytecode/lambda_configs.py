"""Lambda layers whose code was followed, and the configs that replace them."""

from typing import Any

from keras_policies.annotations import Config, PolicyLike
from keras_policies.legacy.base.configs import keras_object, layer_name
from keras_policies.legacy.bytecode.values import Program

# `keras.saving` finds the classes of layer.py under these names.
PACKAGE = "keras_policies"
CALL, SEQUENCE = f"{PACKAGE}>LambdaCall", f"{PACKAGE}>SequenceWithCalls"


def call_config(
    name: str, path: str, program: Program, dtype: PolicyLike | None
) -> Config:
    """Return the config of the `LambdaCall` that replaces a Lambda layer."""
    own = {"name": layer_name(name), "path": path, "program": program, "policy": dtype}
    return keras_object(None, "LambdaCall", own, CALL)


def is_call(config: Any) -> bool:
    """Return whether a config is one that `call_config` returned."""
    return isinstance(config, dict) and config.get("registered_name") == CALL


def of_time_steps(call: Config, wrapper: Config) -> Config:
    """Return the config of a TimeDistributed, whose own is `wrapper`, around a call."""
    own = {**call["config"], "name": wrapper["name"], "is_of_steps": True}
    return {**call, "config": own}


def sequence_config(config: Config) -> Config:
    """Return the config of a Sequential, some of whose layers are `LambdaCall`s."""
    return keras_object(None, "Sequential", config, SEQUENCE)
