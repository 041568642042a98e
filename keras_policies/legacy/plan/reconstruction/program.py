"""The program that does what the traced function of a layer did.

    Program(inputs, steps, ends)   what to run: frozen, and no part of Keras
    the layers that it calls       their configs, as those of any other model

`reconstruct` makes it from the steps; its config takes the layer's place, and
`build/programs.py` runs it while Keras builds the model around it.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import table
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    frozen,
    in_training,
    ir,
    losses,
    recurrent_calls,
    rewriting,
)
from keras_policies.legacy.plan.reconstruction.def_use import Owner
from keras_policies.legacy.plan.reconstruction.losses import Regularizers
from keras_policies.legacy.plan.report import Reconstruction, Report, joined

# Returns the config of a layer in a program, and a report about it. It is given the
# path of the model around it, with a slash, and the layer's own name.
Convert = Callable[[ir.LayerSpec, str, str], tuple[Config, Report]]


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """The computation of a rebuilt layer, as a Functional model of its own."""

    name: str  # of the layer
    path: str  # the same, after the names of the models around it; `""` is the model
    # The specs of its inputs, with the names of the InputLayers.
    inputs: tuple[TensorSpec, ...]
    steps: tuple[ir.Step, ...]  # in topological order
    starts: ir.Nest  # the nest of the inputs
    ends: ir.Nest  # the nest of the outputs
    # Of the layers that it calls, by their names.
    weights: Mapping[str, tuple[LegacyWeight, ...]]
    # The names of the arguments that the inputs are, once each.
    arguments: tuple[str, ...] = ()
    is_layer: bool = False  # whether the only layer that it calls takes its place


def converted(
    program: Program, entry: Reconstruction, convert: Convert
) -> tuple[Config, Report]:
    """Return the config that takes the place of a layer, and the report."""
    layers: dict[str, Config] = {}
    parameters: dict[str, int] = {}
    inside = [_input_layer(spec) for spec in program.inputs]
    below = f"{program.path}/" if program.path else ""
    if program.is_layer:
        below = program.path.removesuffix(program.name)
    reports = [Report(missing_ops=tuple(_missing_ops(program, below)))]
    for name, spec in layers_called(program.steps).items():
        layers[name], inner_report = convert(spec, below, name)
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
    config |= {"layers": layers, "is_called": False, "runs": runs}
    program_config = configs.keras_object(None, "Program", config, configs.PROGRAM)
    return program_config, joined([report, *reports])


def _missing_ops(program: Program, below: str) -> Iterator[tuple[str, str]]:
    """Yield the ops that have no counterpart, with their paths."""
    for step in program.steps:
        if isinstance(step, ir.OpStep) and step.op not in table.NODES:
            yield step.op, f"{below}{step.name}"


def of_layer(
    spec: ir.LayerSpec,
    path: str,
    tensor_spec: TensorSpec,
    variables: Mapping[int, LegacyWeight],
) -> Program:
    """Return the program of a single stock layer."""
    call = ir.CallStep(spec, ir.Argument(0), name=spec.name)
    held = layer_weights([call], variables)
    return Program(
        name=spec.name,
        path=path,
        inputs=(tensor_spec,),
        steps=(call,),
        starts=ir.Argument(0),
        ends=ir.StepOutput(0),
        weights=held,
        is_layer=True,
    )


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
    inputs: Sequence[TensorSpec], steps: Sequence[ir.Step]
) -> tuple[tuple[TensorSpec, ...], tuple[ir.Step, ...]]:
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
                code="KP307",
            )
        name = names.take(spec.name or f"input_{number + 1}")
        specs.append(TensorSpec(spec.shape, spec.dtype, name))
    called = {id(s.spec): s.spec for s in steps if isinstance(s, ir.CallStep)}
    layers = {key: names.take(spec.name) for key, spec in called.items()}
    new = (
        dataclasses.replace(
            step,
            name=layers[id(step.spec)]
            if isinstance(step, ir.CallStep)
            else names.take(step.name),
        )
        for step in steps
    )
    return tuple(specs), tuple(new)


def layer_weights(
    steps: Sequence[ir.Step], variables: Mapping[int, LegacyWeight]
) -> dict[str, tuple[LegacyWeight, ...]]:
    """Return the weights of the layers that some steps call, by the names of these."""
    items = layers_called(steps).items()
    return {name: tuple(_weights(spec, variables)) for name, spec in items}


def _weights(
    spec: ir.LayerSpec, variables: Mapping[int, LegacyWeight]
) -> Iterator[LegacyWeight]:
    for path, number, shape in spec.weights:
        weight = variables[number]
        shape = weight.shape if shape is None else shape
        yield dataclasses.replace(weight, path=path, shape=shape, number=number)


def output_texts(program: Program) -> Iterator[str]:
    """Yield the layers of a program whose outputs are texts that were looked up."""
    for end in ir.values_in(program.ends):
        step = program.steps[end.step] if isinstance(end, ir.StepOutput) else None
        if isinstance(step, ir.CallStep) and step.spec.config.get("invert") is True:
            yield step.name


def reconstruct(
    layer: TracedLayer,
    name: str,
    path: str,
    traced: TracedFunctions,
    traces: Sequence[ConcreteFunction],
    follow: Callable[[ConcreteFunction], ir.Followed],
    regularizers: Regularizers,
    convert: Convert,
) -> tuple[Config, Report]:
    """Return the config of a program that computes what the first of some traces did.

    `path` is "" for the whole model, which keeps the structure of inputs and outputs.
    """
    trace, specs = traces[0], concrete_functions.specs(traces[0].inputs)
    first = follow(trace)
    general = concrete_functions.general_specs(traces)
    if general != specs and all(ir.same(first, follow(other)) for other in traces[1:]):
        specs = general
    trace, (steps, outputs), is_less = in_training.trained(
        traced, layer, trace, first, follow
    )
    specs = recurrent_calls.with_sizes(specs, steps, traced.variables)
    tensors: list[ir.Value] = [ir.Argument(i) for i in range(len(specs))]
    starts: ir.Nest = tensors
    count = len(concrete_functions.specs(trace.outputs))
    usable = [loss for loss in outputs[count:] if losses.is_supported(steps, loss)]
    is_less = is_less or in_training.has_own_gradient(traced, trace.function)
    added = [loss for loss in usable if not isinstance(loss, ir.Constant)]
    ends: ir.Nest = outputs[:count]
    if not path:
        structure = concrete_functions.unflatten(trace.inputs, iter(tensors))
        starts = inputs(structure, tensors)
        if trace.inputs[0] or len(ends) != 1:  # else the only output of a signature
            ends = concrete_functions.unflatten(trace.outputs, iter(ends))
    variables, dtype = traced.variables, layer.config.get("dtype")
    trainable = frozenset(layer.trainable) | frozen.numbers(variables)
    owner = Owner(
        name=layer.name,
        dtype=dtype,
        trainable=trainable,
        variables=variables,
        regularizers=regularizers,
    )
    dtypes = [spec.dtype for spec in specs]
    new, (ends, added) = rewriting.rewritten(owner, steps, [ends, added], dtypes)
    ends = losses.added(new, ends, added)
    input_specs = [_input(spec, owner) for spec in specs]
    named, named_steps = with_unique_names(input_specs, new)
    built = Program(
        name=name,
        path=path,
        inputs=named,
        steps=named_steps,
        starts=starts,
        ends=ends,
        weights=layer_weights(named_steps, variables),
        arguments=tuple(dict.fromkeys(s.name.partition("/")[0] for s in specs)),
    )
    entry = Reconstruction(
        class_name=layer.class_name,
        variables=layer.variables,
        steps=len(new),
        texts=() if path else tuple(output_texts(built)),
        is_less=is_less,
        loses_losses=len(usable) < len(outputs) - count,
    )
    return converted(built, entry, convert)


def _input(item: TensorSpec, owner: Owner) -> TensorSpec:
    """Return the spec of an input, which the policy of the layer does not cast."""
    return item._replace(dtype="float32") if item.dtype == owner.mixed else item


def inputs(arguments: ir.Nest, values: Sequence[ir.Value]) -> ir.Nest:
    """Return the nest of a model's inputs: its only argument, or a list of all."""
    args, kwargs = arguments
    if not args:  # of a signature
        return kwargs if len(values) > 1 else list(values)
    is_all = len(ir.values_in(args[0])) == len(values)
    is_nest = is_all and concrete_functions.is_tensors(args[0])
    return args[0] if is_nest else list(values)
