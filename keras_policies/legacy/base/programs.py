"""Programs: what layers do, as steps, and the configs that hold them.

A program replaces a traced function, the code of a Lambda layer if it is understood,
or a stock layer without a counterpart. `assembly/programs.py` runs programs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base.configs import PACKAGE, keras_object, layer_name
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.base.trees import Tree
from keras_policies.legacy.base.weights import LegacyWeight

CALL = f"{PACKAGE}>LambdaCall"  # the `LambdaCall` of `assembly/calls.py`


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a program.

    It never equals a value of another type with the same number: both are dict keys.
    """

    number: int


@dataclasses.dataclass(frozen=True)
class StepOutput:
    """An output of a step."""

    step: int
    position: int = 0


@dataclasses.dataclass(frozen=True)
class Given:
    """A function that the user passed in `custom_objects`."""

    function: Any


@dataclasses.dataclass(frozen=True)
class FunctionStep:
    """A call of a named function; its arguments may contain values of the program."""

    function: str | Given  # `"tf.math.add"`, `"python.binary"`, `"numpy.sqrt"`
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """What a layer computes, as steps in topological order.

    The program of a rebuilt layer lists its inputs and may call layers. A program that
    comes from code takes one argument, whose shape is known when the program is run.
    """

    steps: tuple[Any, ...]  # `FunctionStep`s, or those of `plan/reconstruction/ir.py`
    ends: Tree  # the nest of the outputs
    name: str = ""  # of the layer
    path: str = ""  # of the layer, with the names of the models around it
    # The specs of its inputs, with the names of the InputLayers.
    inputs: tuple[TensorSpec, ...] = ()
    starts: Tree = None  # the nest of the inputs
    # Name of a layer that it calls -> the weights of that layer.
    weights: Mapping[str, tuple[LegacyWeight, ...]] = dataclasses.field(
        default_factory=dict
    )
    # The names of the arguments that the inputs belong to, without duplicates.
    arguments: tuple[str, ...] = ()
    is_layer: bool = False  # whether the only layer that it calls replaces it


def call_config(
    name: str,
    path: str,
    program: Program,
    dtype: PolicyLike | None,
    layer: Config | None = None,
) -> Config:
    """Return the config of the `LambdaCall` that replaces a Lambda layer.

    The program takes the result of `layer`, if any.
    """
    call = {"name": layer_name(name), "path": path, "program": program, "policy": dtype}
    if layer is not None:
        call["layer"] = layer
    return keras_object(None, "LambdaCall", call, CALL)


def is_call(config: Any) -> bool:
    """Return whether a config comes from `call_config`."""
    return isinstance(config, dict) and config.get("registered_name") == CALL
