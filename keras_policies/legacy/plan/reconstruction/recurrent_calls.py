"""Turns the steps that `recurrent` added into calls of LSTM, GRU and SimpleRNN."""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.def_use import (
    OUTPUT,
    Owner,
    Read,
    Uses,
    dtype_of,
)
from keras_policies.legacy.plan.reconstruction.recurrent import OP
from keras_policies.legacy.plan.reconstruction.recurrent_probes import ROLES, SWAP

HALVES = "bfloat16", "float16"
# Scopes that are not in the names of layers.
CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?|(Stateful)?PartitionedCall")


@dataclasses.dataclass(frozen=True)
class _Outputs:
    """The consumers of a recurrent step's outputs."""

    sequences: tuple[int, ...]  # the steps that are its sequences again
    last: tuple[int, ...]  # those that are its last output
    others: tuple[int, ...]  # those that take its sequences otherwise
    states: tuple[int, ...]  # those that take a state


def replaced(uses: Uses) -> dict[int, ir.Step | ir.StepOutput]:
    """Return layer calls by the steps that they replace; calls share their settings."""
    new_steps: dict[int, ir.Step | ir.StepOutput] = {}
    calls: dict[Any, dict[int, ir.OpStep]] = collections.defaultdict(dict)
    for number, step in enumerate(uses.steps):
        is_used = any(ir.StepOutput(number, n) in uses.users for n in range(3))
        if ir.is_op(step, OP) and is_used:
            config = tuple(sorted(step.attributes["config"].items()))
            calls[_weights(step), config][number] = step
    for steps in calls.values():
        outputs = {number: _outputs(number, uses) for number in steps}
        settings = {
            "return_sequences": any(o.others or o.sequences for o in outputs.values()),
            "return_state": any(o.states for o in outputs.values()),
        }
        spec = _layer_spec(next(iter(steps.values())), settings, uses)
        for number, step in steps.items():
            same = outputs[number].sequences
            if not settings["return_sequences"]:
                same = outputs[number].last
            new_steps |= dict.fromkeys(same, ir.StepOutput(number))
            new_steps[number] = _call(step, spec)
    return new_steps


def _weights(step: ir.OpStep) -> tuple[ir.Value, ...]:
    return step.inputs[1 : 1 + len(step.attributes["weights"])]


def _outputs(number: int, uses: Uses) -> _Outputs:
    """Return the consumers of a step's outputs; its sequences are time-major."""
    sequences: list[int] = []
    last: list[int] = []
    others: list[int] = []
    for rows in uses.users.get(ir.StepOutput(number), ()):
        if rows == OUTPUT or not _swaps(uses.steps[rows]):
            others.append(rows)
            continue
        for user in uses.users.get(ir.StepOutput(rows), ()):
            step = None if user == OUTPUT else uses.steps[user]
            kind = last if _takes_last(step) else others
            (sequences if _swaps(step) else kind).append(user)
    states = (
        user for n in (1, 2) for user in uses.users.get(ir.StepOutput(number, n), ())
    )
    return _Outputs((*sequences,), (*last,), (*others,), (*states,))


def _swaps(step: ir.Step | None) -> bool:
    return ir.is_op(step, "Transpose") and ir.items(step.inputs[1]) == SWAP


def _takes_last(step: ir.Step | None) -> bool:
    if not ir.is_op(step, "StridedSlice"):
        return False
    is_row = step.attributes.get("shrink_axis_mask") == 1
    masks = any(step.attributes.get(f"{n}_mask") for n in ("begin", "ellipsis"))
    return is_row and not masks and ir.items(step.inputs[1]) == [-1]


def _layer_spec(step: ir.OpStep, settings: Config, uses: Uses) -> ir.LayerSpec:
    reads = [uses.reads[value] for value in _weights(step)]
    roles = dict(zip(step.attributes["weights"], reads, strict=True))
    variables = {role.partition("_")[0]: read.variable for role, read in roles.items()}
    owner, kernel = uses.owner, roles[ROLES[0]]
    config = {**step.attributes["config"], **settings}
    config |= owner.config(_dtype(step, kernel, owner), **variables)
    weights = ((f"cell/{role}", r.variable, None) for role, r in roles.items())
    class_name = step.attributes["class_name"]
    name = _name(owner.variables[kernel.variable].name) or class_name.lower()
    return ir.LayerSpec(name, class_name, config, tuple(weights))


def _dtype(step: ir.OpStep, kernel: Read, owner: Owner) -> Any:
    """Return the policy of a layer, which is mixed if it computes in a half."""
    computes, stored = step.attributes["dtype"], owner.variables[kernel.variable].dtype
    if computes not in HALVES or stored != "float32":
        return dtype_of(kernel, owner)
    return owner.dtype if owner.mixed == computes else f"mixed_{computes}"


def with_sizes(
    specs: Sequence[TensorSpec],
    steps: Sequence[ir.Step],
    variables: Mapping[int, LegacyWeight],
) -> list[TensorSpec]:
    """Return the specs of inputs, with the sizes that their kernels have."""
    sized = [*specs]
    for step in steps:
        if ir.is_op(step, OP) and isinstance(step.inputs[0], ir.Argument):
            number, kernel = step.inputs[0].number, step.inputs[1]
            shape = sized[number].shape
            if isinstance(kernel, ir.VariableRef) and shape is not None:
                shape = (*shape[:-1], variables[kernel.variable].shape[0])
                item = sized[number]
                sized[number] = item._replace(shape=shape)
    return sized


def _name(weight: str) -> str:
    """Return the name of a layer from its kernel's, "lstm/lstm_cell/kernel:0"."""
    *scopes, _ = weight.split("/")
    return "_".join(name for name in scopes if not CELL.fullmatch(name))


def _call(step: ir.OpStep, spec: ir.LayerSpec) -> ir.CallStep:
    x, *others = step.inputs[0], *step.inputs[1 + len(_weights(step)) :]
    mask = others[: step.attributes["is_masked"]]
    states = others[len(mask) :]
    kwargs: dict[str, ir.Nest] = {"mask": mask[0]} if mask else {}
    if states:
        kwargs["initial_state"] = states
    return ir.CallStep(spec, x, kwargs)
