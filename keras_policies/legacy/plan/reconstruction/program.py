"""The program of a rebuilt layer, and the config that takes the layer's place.

    Program(inputs, steps, ends)   what to run: frozen, and no part of Keras
    the layers that it calls       their configs, as those of any other model

`build/programs.py` runs it while Keras builds the model around it.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from keras_policies.annotations import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import table
from keras_policies.legacy.plan.reconstruction.steps import (
    Argument,
    CallStep,
    LayerSpec,
    Nest,
    OpStep,
    Step,
    StepOutput,
    values_in,
)
from keras_policies.legacy.plan.report import Reconstruction, Report, joined

# Returns the config of a layer in a program, and what was found about it. It is given
# the path of the model around it, with a slash, and the layer's own name.
Convert = Callable[[LayerSpec, str, str], tuple[Config, Report]]


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """What a rebuilt layer does, as a Functional model of its own.

    Args:
        name: of the layer.
        path: the same, after the names of the models around it; `""` is the model.
        inputs: the specs of its inputs, with the names of the InputLayers.
        steps: what it does, one after another.
        starts: the nest of the inputs.
        ends: the nest of the outputs.
        weights: of the layers that it calls, by their names.
        arguments: the names of the arguments that the inputs are, once each.
        is_layer: whether the layer that it calls takes the place of the lost one.
    """

    name: str
    path: str
    inputs: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    starts: Nest
    ends: Nest
    weights: Mapping[str, tuple[LegacyWeight, ...]]
    arguments: tuple[str, ...] = ()
    is_layer: bool = False


def converted(
    program: Program, about: Reconstruction, convert: Convert
) -> tuple[Config, Report]:
    """Return the config that takes the place of a lost layer, and what was found."""
    layers: dict[str, Config] = {}
    parameters: dict[str, int] = {}
    inside = [_input_layer(spec) for spec in program.inputs]
    below = f"{program.path}/" if program.path else ""
    if program.is_layer:
        below = program.path.removesuffix(program.name)
    found = [Report(missing_ops=tuple(_missing_ops(program, below)))]
    for name, part in parts_of(program.steps).items():
        layers[name], of_part = convert(part, below, name)
        found.append(of_part)
        config = {**part.config, "name": name}
        inside.append({"class_name": part.class_name, "name": name, "config": config})
        around = of_part.reconstructions.get(f"{below}{name}")
        inner = 0 if around is None else sum(around.parameters.values())
        held = (math.prod(weight.shape) for weight in program.weights[name])
        parameters[name] = inner + sum(held)
    models: tuple[str, ...] = ()
    if not program.is_layer:
        about = dataclasses.replace(about, layers=tuple(inside), parameters=parameters)
        models = (program.path,) if program.path else ()
    own = Report(models=models, reconstructions={program.path: about})
    config = {"name": configs.layer_name(program.name), "program": program}
    calls = collections.Counter(s.name for s in program.steps if s.name in layers)
    runs = sum(count * budget.runs(layers[name]) for name, count in calls.items())
    runs += len(program.steps)
    config |= {"layers": layers, "is_called": False, "runs": runs}
    whole = configs.keras_object(None, "Program", config, configs.PROGRAM)
    return whole, joined([own, *found])


def _missing_ops(program: Program, below: str) -> Iterator[tuple[str, str]]:
    """Yield the ops that have no counterpart, with their paths."""
    for step in program.steps:
        if isinstance(step, OpStep) and step.op not in table.NODES:
            yield step.op, f"{below}{step.name}"


def of_layer(
    part: LayerSpec, path: str, spec: TensorSpec, variables: Mapping[int, LegacyWeight]
) -> Program:
    """Return the program of a layer that does all that a lost one did."""
    call = CallStep(part, Argument(0), name=part.name)
    held = weights([call], variables)
    ends = Argument(0), StepOutput(0)
    return Program(part.name, path, (spec,), (call,), *ends, held, is_layer=True)


def _input_layer(spec: TensorSpec) -> Config:
    config = {"name": spec.name, "batch_input_shape": spec.shape, "dtype": spec.dtype}
    return {"class_name": "InputLayer", "name": spec.name, "config": config}


class Names:
    """Names of layers, each of them given out once."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}  # the last number that came after each

    def take(self, wanted: str) -> str:
        """Return the name, with a number if it has been given out."""
        start = wanted[: 2 * limits.NAME_CHARACTERS]
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", start).strip("_.") or "op"
        name = start = plain[: limits.NAME_CHARACTERS]
        while name in self._given:
            self._given[start] += 1
            name = f"{start}_{self._given[start]}"
        self._given[name] = 0
        return name


def parts_of(steps: Sequence[Step]) -> dict[str, LayerSpec]:
    """Return the layers that some steps call, by their names there."""
    return {step.name: step.part for step in steps if isinstance(step, CallStep)}


def with_unique_names(
    inputs: Sequence[TensorSpec], steps: Sequence[Step]
) -> tuple[tuple[TensorSpec, ...], tuple[Step, ...]]:
    """Return inputs and steps with a name of their own each, those of ops last."""
    names = Names()
    specs = []
    for number, spec in enumerate(inputs):
        if spec.shape is None:
            raise LegacyModelError(
                f"the function that it recorded takes a tensor {spec.name!r} of any "
                "rank, which a Functional model cannot have.",
                "Save the model again with a known rank, as in a signature of "
                "tf.TensorSpec((None, 4)).",
            )
        name = names.take(spec.name or f"input_{number + 1}")
        specs.append(TensorSpec(spec.shape, spec.dtype, name))
    parts = {id(s.part): s.part for s in steps if isinstance(s, CallStep)}
    layers = {key: names.take(part.name) for key, part in parts.items()}
    new = (
        dataclasses.replace(
            step,
            name=layers[id(step.part)]
            if isinstance(step, CallStep)
            else names.take(step.name),
        )
        for step in steps
    )
    return tuple(specs), tuple(new)


def weights(
    steps: Sequence[Step], variables: Mapping[int, LegacyWeight]
) -> dict[str, tuple[LegacyWeight, ...]]:
    """Return the weights of the layers that some steps call, by the names of these."""
    every = parts_of(steps).items()
    return {name: tuple(_weights(part, variables)) for name, part in every}


def _weights(
    part: LayerSpec, variables: Mapping[int, LegacyWeight]
) -> Iterator[LegacyWeight]:
    for path, number, shape in part.weights:
        weight = variables[number]
        shape = weight.shape if shape is None else shape
        yield dataclasses.replace(weight, path=path, shape=shape, number=number)


def texts(program: Program) -> Iterator[str]:
    """Yield the layers of a program whose outputs are texts that were looked up."""
    for end in values_in(program.ends):
        step = program.steps[end.step] if isinstance(end, StepOutput) else None
        if isinstance(step, CallStep) and step.part.config.get("invert") is True:
            yield step.name
