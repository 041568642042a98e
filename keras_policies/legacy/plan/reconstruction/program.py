"""The program that does what the traced function of a layer did, and its config.

The config has those of the layers that the program calls, as that of any other model.
It takes the layer's place, and `assembly/programs.py` runs the program while the model
around it is built.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.programs import Program
from keras_policies.legacy.base.traced_functions import ConcreteFunction, TensorSpec
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import table
from keras_policies.legacy.plan.reconstruction import concrete_functions, ir
from keras_policies.legacy.plan.report import (
    AS_NUMBER,
    AS_TEXT,
    Reconstruction,
    Report,
    joined,
)

COMPARING = "Equal", "NotEqual"


def prefix(program: Program) -> str:
    """Return the path of the model that holds the layers of a program, with a slash."""
    if program.is_layer:
        return program.path.removesuffix(program.name)
    return f"{program.path}/" if program.path else ""


def converted(
    program: Program,
    entry: Reconstruction,
    called: Mapping[str, tuple[Config, Report]],
) -> tuple[Config, Report]:
    """Return the config that takes the place of a layer, and the report.

    `called` are the configs of the layers that it calls, with reports about them.
    """
    layers = {name: config for name, (config, _) in called.items()}
    parameters: dict[str, int] = {}
    inside = [_input_layer(spec) for spec in program.inputs]
    below = prefix(program)
    ops = [step for step in program.steps if isinstance(step, ir.OpStep)]
    missing = [(op.op, f"{below}{op.name}") for op in ops if op.op not in table.NODES]
    texts_inside = (*_taking_texts(program.steps),)
    if texts_inside:  # numbers cannot replace them
        written = (op.name for op in ops if op.op == AS_NUMBER)
        missing += [(AS_TEXT, f"{below}{name}") for name in written]
    reports = [Report(missing_ops=tuple(missing), texts_inside=texts_inside)]
    for name, spec in layers_called(program.steps).items():
        _, inner_report = called[name]
        reports.append(inner_report)
        config = {**spec.config, "name": name}
        inside.append({"class_name": spec.class_name, "name": name, "config": config})
        rebuilt = inner_report.reconstructions.get(f"{below}{name}")
        inner = 0 if rebuilt is None else sum(rebuilt.parameters.values())
        sizes = (math.prod(weight.shape) for weight in program.weights[name])
        parameters[name] = inner + sum(sizes)
    models: tuple[str, ...] = ()
    if not program.is_layer:
        entry = dataclasses.replace(entry, layers=tuple(inside), parameters=parameters)
        models = (program.path,) if program.path else ()
    report = Report(models=models, reconstructions={program.path: entry})
    config = {"name": configs.layer_name(program.name), "program": program}
    calls = collections.Counter(s.name for s in program.steps if s.name in layers)
    runs = sum(count * budget.runs(layers[name]) for name, count in calls.items())
    runs += len(program.steps)
    config |= {"layers": layers, "runs": runs}
    program_config = configs.keras_object(None, "Program", config, configs.PROGRAM)
    return program_config, joined([report, *reports])


def _taking_texts(steps: Sequence[ir.Step]) -> Iterator[str]:
    """Yield the layers and comparisons that need the texts which AsString writes."""
    texts = set[int]()
    for number, step in enumerate(steps):
        taken = (v.step for v in ir.inputs_of(step) if isinstance(v, ir.StepOutput))
        if isinstance(step, ir.OpStep) and step.op in (AS_TEXT, AS_NUMBER):
            texts.add(number)
        elif not texts.isdisjoint(taken):
            texts.add(number)
            if not isinstance(step, ir.OpStep) or step.op in COMPARING:
                yield step.name


def _input_layer(spec: TensorSpec) -> Config:
    config = {"name": spec.name, "batch_input_shape": spec.shape, "dtype": spec.dtype}
    return {"class_name": "InputLayer", "name": spec.name, "config": config}


class Names:
    """Names of layers, each of them given out once."""

    def __init__(self) -> None:
        self._last_numbers: dict[str, int] = {}  # the last number that came after each

    def take(self, wanted: str) -> str:
        """Return the name, with a number if it has been given out."""
        start = wanted[: 2 * limits.NAME_CHARACTERS]
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", start).strip("_") or "op"
        name = start = plain[: limits.NAME_CHARACTERS]
        while name in self._last_numbers:
            self._last_numbers[start] += 1
            name = f"{start}_{self._last_numbers[start]}"
        self._last_numbers[name] = 0
        return name


def layers_called(steps: Sequence[ir.Step]) -> dict[str, ir.LayerSpec]:
    """Return the layers that some steps call, by their names there."""
    return {step.name: step.spec for step in steps if isinstance(step, ir.CallStep)}


def with_unique_names(
    inputs: Sequence[TensorSpec], steps: Sequence[ir.Step], mixed: str | None
) -> tuple[tuple[TensorSpec, ...], tuple[ir.Step, ...]]:
    """Return inputs and steps with unique names; ops get theirs last.

    Inputs of the dtype `mixed` are float32: the policy of the layer casts them.
    """
    names = Names()
    specs = []
    for number, spec in enumerate(inputs):
        if spec.shape is None:
            raise LegacyModelError(
                f"the function that it recorded takes a tensor {spec.name!r} of any "
                "rank, which a Functional model cannot have.",
                hints.Hint("Pass its shape, such as {}.", (hints.INPUT_SHAPES,)),
                code="KP307",
            )
        name = names.take(spec.name or f"input_{number + 1}")
        dtype = "float32" if spec.dtype == mixed else spec.dtype
        specs.append(TensorSpec(spec.shape, dtype, name))
    called = {id(s.spec): s.spec for s in steps if isinstance(s, ir.CallStep)}
    layers = {key: names.take(spec.name) for key, spec in called.items()}
    new = []
    for step in steps:
        if isinstance(step, ir.CallStep):
            name = layers[id(step.spec)]
        else:
            name = names.take(step.name)
        new.append(dataclasses.replace(step, name=name))
    return tuple(specs), tuple(new)


def layer_weights(
    steps: Sequence[ir.Step], variables: Mapping[int, LegacyWeight]
) -> dict[str, tuple[LegacyWeight, ...]]:
    """Return the weights of the layers that some steps call, by the names of these."""

    def weight(path: str, number: int, shape: tuple[int, ...] | None) -> LegacyWeight:
        one = variables[number]
        shape = one.shape if shape is None else shape
        return dataclasses.replace(one, path=path, shape=shape, number=number)

    specs = layers_called(steps).items()
    return {name: tuple(weight(*w) for w in spec.weights) for name, spec in specs}


def output_texts(program: Program) -> Iterator[str]:
    """Yield the layers of a program whose outputs are texts that were looked up."""
    for end in ir.values_in(program.ends):
        step = program.steps[end.step] if isinstance(end, ir.StepOutput) else None
        if isinstance(step, ir.CallStep) and step.spec.config.get("invert") is True:
            yield step.name


def nests(
    trace: ConcreteFunction, outputs: Sequence[ir.Value], *, is_model: bool
) -> tuple[ir.Nest, ir.Nest]:
    """Return the nests of the inputs and of the outputs of a program.

    A model keeps the structure of both, a layer in it has lists.
    """
    count = len(concrete_functions.specs(trace.inputs))
    tensors = [*map(ir.Argument, range(count))]
    if not is_model:
        return tensors, [*outputs]
    starts = inputs(concrete_functions.unflatten(trace.inputs, iter(tensors)), tensors)
    if not trace.inputs[0] and len(outputs) == 1:  # the only output of a signature
        return starts, [*outputs]
    return starts, concrete_functions.unflatten(trace.outputs, iter(outputs))


def inputs(arguments: ir.Nest, values: Sequence[ir.Value]) -> ir.Nest:
    """Return the nest of a model's inputs: its only argument, or a list of all."""
    args, kwargs = arguments
    if not args:  # of a signature
        return kwargs if len(values) > 1 else list(values)
    is_all = len(ir.values_in(args[0])) == len(values)
    is_nest = is_all and concrete_functions.is_tensors(args[0])
    return args[0] if is_nest else list(values)
