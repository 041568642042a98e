"""Rebuilds a layer whose class is missing as the program of its traced function."""

from collections.abc import Callable, Sequence

from keras_policies.annotations import Config
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    frozen,
    in_training,
    losses,
    program,
    recurrent_calls,
    rewriting,
)
from keras_policies.legacy.plan.reconstruction.losses import Regularizers
from keras_policies.legacy.plan.reconstruction.owner import Owner
from keras_policies.legacy.plan.reconstruction.program import Convert, Program
from keras_policies.legacy.plan.reconstruction.steps import (
    Argument,
    Constant,
    Nest,
    Step,
    Value,
    same,
    values_in,
)
from keras_policies.legacy.plan.report import Reconstruction, Report

# The steps of a trace, and its outputs, followed by its losses.
Followed = tuple[list[Step], list[Value]]


def reconstruct(
    layer: TracedLayer,
    name: str,
    path: str,
    traced: TracedFunctions,
    traces: Sequence[ConcreteFunction],
    follow: Callable[[ConcreteFunction], Followed],
    regularizers: Regularizers,
    convert: Convert,
) -> tuple[Config, Report]:
    """Return the config of a program that computes what the first of some traces did.

    `path` is "" for the whole model, which keeps the structure of inputs and outputs.
    """
    trace, specs = traces[0], concrete_functions.specs(traces[0].inputs)
    first = follow(trace)
    general = concrete_functions.general_specs(traces)
    if general != specs and all(same(first, follow(other)) for other in traces[1:]):
        specs = general
    trace, (steps, outputs), is_less = in_training.trained(
        traced, layer, trace, first, follow
    )
    specs = recurrent_calls.with_sizes(specs, steps, traced.variables)
    tensors: list[Value] = [Argument(i) for i in range(len(specs))]
    starts: Nest = tensors
    count = len(concrete_functions.specs(trace.outputs))
    usable = [loss for loss in outputs[count:] if losses.is_supported(steps, loss)]
    is_less = is_less or len(usable) < len(outputs) - count
    added = [loss for loss in usable if not isinstance(loss, Constant)]
    ends: Nest = outputs[:count]
    if not path:
        starts = inputs(
            concrete_functions.unflatten(trace.inputs, iter(tensors)), tensors
        )
        is_single = not trace.inputs[0] and len(ends) == 1  # of a signature
        ends = (
            ends
            if is_single
            else concrete_functions.unflatten(trace.outputs, iter(ends))
        )
    variables, dtype = traced.variables, layer.config.get("dtype")
    trainable = frozenset(layer.trainable) | frozen.numbers(variables)
    owner = Owner(layer.name, dtype, trainable, variables, regularizers)
    dtypes = [spec.dtype for spec in specs]
    new, (ends, added) = rewriting.rewritten(owner, steps, [ends, added], dtypes)
    ends = losses.added(new, ends, added)
    input_specs = [_input(spec, owner) for spec in specs]
    named, named_steps = program.with_unique_names(input_specs, new)
    weights = program.weights(named_steps, variables)
    arguments = tuple(dict.fromkeys(s.name.partition("/")[0] for s in specs))
    nests = starts, ends
    built = Program(name, path, named, named_steps, *nests, weights, arguments)
    texts = () if path else tuple(program.texts(built))
    entry = Reconstruction(layer.class_name, layer.variables, len(new), texts, is_less)
    return program.converted(built, entry, convert)


def _input(spec: TensorSpec, owner: Owner) -> TensorSpec:
    """Return the spec of an input, which the policy of the layer does not cast."""
    return (
        TensorSpec(spec.shape, "float32", spec.name)
        if spec.dtype == owner.mixed
        else spec
    )


def inputs(arguments: Nest, values: Sequence[Value]) -> Nest:
    """Return the nest of a model's inputs: its only argument, or a list of all."""
    args, kwargs = arguments
    if not args:  # of a signature
        return kwargs if len(values) > 1 else list(values)
    is_all = len(values_in(args[0])) == len(values) and concrete_functions.is_tensors(
        args[0]
    )
    return args[0] if is_all else list(values)
