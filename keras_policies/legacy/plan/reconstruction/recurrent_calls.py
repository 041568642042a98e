"""Makes calls of LSTM, GRU and SimpleRNN of the steps that `recurrent` added."""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies.annotations import Config
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.plan.reconstruction.def_use import (
    OUTPUT,
    Read,
    Uses,
    dtype_of,
)
from keras_policies.legacy.plan.reconstruction.owner import Owner
from keras_policies.legacy.plan.reconstruction.recurrent import OP
from keras_policies.legacy.plan.reconstruction.recurrent_loops import SWAP
from keras_policies.legacy.plan.reconstruction.recurrent_probes import ROLES
from keras_policies.legacy.plan.reconstruction.steps import (
    Argument,
    CallStep,
    LayerSpec,
    Nest,
    OpStep,
    Step,
    StepOutput,
    Value,
    VariableRef,
    constant,
    is_op,
)

HALVES = "bfloat16", "float16"
# Scopes that are not in the names of layers.
CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?|(Stateful)?PartitionedCall")


@dataclasses.dataclass(frozen=True)
class _Outputs:
    """What takes the outputs of a recurrent step.

    Args:
        sequences: the steps that are its sequences again.
        last: those that are its last output.
        others: those that take its sequences otherwise.
        states: those that take a state.
    """

    sequences: tuple[int, ...]
    last: tuple[int, ...]
    others: tuple[int, ...]
    states: tuple[int, ...]


def replaced(uses: Uses) -> dict[int, Step | StepOutput]:
    """Return the calls in the places of steps, and what else they do.

    A layer that is called again returns what any of its calls needs.
    """
    found: dict[int, Step | StepOutput] = {}
    calls: dict[Any, dict[int, OpStep]] = collections.defaultdict(dict)
    for number, step in enumerate(uses.steps):
        taken = any(StepOutput(number, n) in uses.users for n in range(3))
        if is_op(step, OP) and taken:
            config = tuple(sorted(step.attributes["config"].items()))
            calls[_weights(step), config][number] = step
    for steps in calls.values():
        outputs = {number: _outputs(number, uses) for number in steps}
        settings = {
            "return_sequences": any(o.others or o.sequences for o in outputs.values()),
            "return_state": any(o.states for o in outputs.values()),
        }
        part = _part(next(iter(steps.values())), settings, uses)
        for number, step in steps.items():
            same = outputs[number].sequences
            if not settings["return_sequences"]:
                same = outputs[number].last
            found |= dict.fromkeys(same, StepOutput(number))
            found[number] = _call(step, part)
    return found


def _weights(step: OpStep) -> tuple[Value, ...]:
    return step.inputs[1 : 1 + len(step.attributes["weights"])]


def _outputs(number: int, uses: Uses) -> _Outputs:
    """Return what takes the outputs of a step, whose sequences swap their axes."""
    sequences: list[int] = []
    last: list[int] = []
    others: list[int] = []
    for rows in uses.users.get(StepOutput(number), ()):
        if rows == OUTPUT or not _swaps(uses.steps[rows]):
            others.append(rows)
            continue
        for user in uses.users.get(StepOutput(rows), ()):
            step = None if user == OUTPUT else uses.steps[user]
            kind = last if _takes_last(step) else others
            (sequences if _swaps(step) else kind).append(user)
    states = (one for n in (1, 2) for one in uses.users.get(StepOutput(number, n), ()))
    return _Outputs((*sequences,), (*last,), (*others,), (*states,))


def _swaps(step: Step | None) -> bool:
    return is_op(step, "Transpose") and _numbers(step, 1) == SWAP


def _takes_last(step: Step | None) -> bool:
    if not is_op(step, "StridedSlice"):
        return False
    is_row = step.attributes.get("shrink_axis_mask") == 1
    masks = any(step.attributes.get(f"{n}_mask") for n in ("begin", "ellipsis"))
    return is_row and not masks and _numbers(step, 1) == [-1]


def _numbers(step: OpStep, position: int) -> list[int] | None:
    known = constant(step.inputs[position])
    return None if known is None else known.reshape(-1).tolist()


def _part(step: OpStep, settings: Config, uses: Uses) -> LayerSpec:
    """Return the layer that a step is."""
    reads = [uses.reads[value] for value in _weights(step)]
    roles = dict(zip(step.attributes["weights"], reads, strict=True))
    held = {role.partition("_")[0]: read.variable for role, read in roles.items()}
    owner, kernel = uses.owner, roles[ROLES[0]]
    config = {**step.attributes["config"], **settings}
    config |= owner.config(_dtype(step, kernel, owner), **held)
    weights = ((f"cell/{role}", r.variable, None) for role, r in roles.items())
    class_name = step.attributes["class_name"]
    name = _name(owner.variables[kernel.variable].name) or class_name.lower()
    return LayerSpec(name, class_name, config, tuple(weights))


def _dtype(step: OpStep, kernel: Read, owner: Owner) -> Any:
    """Return the policy of a layer, which is mixed if it computes in a half."""
    computes, own = step.attributes["dtype"], owner.variables[kernel.variable].dtype
    if computes not in HALVES or own != "float32":
        return dtype_of(kernel, owner)
    return owner.dtype if owner.mixed == computes else f"mixed_{computes}"


def with_sizes(
    specs: Sequence[TensorSpec],
    steps: Sequence[Step],
    variables: Mapping[int, LegacyWeight],
) -> list[TensorSpec]:
    """Return the specs of inputs, with the sizes that kernels tell."""
    found = [*specs]
    for step in steps:
        if is_op(step, OP) and isinstance(step.inputs[0], Argument):
            number, kernel = step.inputs[0].number, step.inputs[1]
            shape = found[number].shape
            if isinstance(kernel, VariableRef) and shape is not None:
                shape = (*shape[:-1], variables[kernel.variable].shape[0])
                item = found[number]
                found[number] = item._replace(shape=shape)
    return found


def _name(weight: str) -> str:
    """Return the name of a layer by that of its kernel, "lstm/lstm_cell/kernel:0"."""
    *scopes, _ = weight.split("/")
    return "_".join(name for name in scopes if not CELL.fullmatch(name))


def _call(step: OpStep, part: LayerSpec) -> CallStep:
    x, *others = step.inputs[0], *step.inputs[1 + len(_weights(step)) :]
    mask = others[: step.attributes["is_masked"]]
    states = others[len(mask) :]
    kwargs: dict[str, Nest] = {"mask": mask[0]} if mask else {}
    if states:
        kwargs["initial_state"] = states
    return CallStep(part, x, kwargs)
