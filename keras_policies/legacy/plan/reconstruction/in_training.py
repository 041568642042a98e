"""Recovers what a layer did in training only.

Beside the function for inference, the file has the same for training. Where the two
differ by dropout, noise, random changes of images and added losses alone, the layer is
made of the one for training: stock layers do none of that in inference. Batch
normalization in both becomes the layer.

    inference            x + dense(x)
    training             x + _Dropout(dense(x))      the same, and dropout

Any other difference is left out, and named.
"""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from keras_policies.legacy.base import trees, walks
from keras_policies.legacy.base.errors import LegacyModelError, attempt
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    CASES,
    CONDITIONS,
    LOOPS,
    ConcreteFunction,
    Node,
    TracedFunctions,
    TracedLayer,
    branches,
)
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan.reconstruction import (
    batch_statistics,
    concrete_functions,
    idioms,
    ir,
)
from keras_policies.legacy.plan.reconstruction.batch_statistics import (
    Normalizations,
    Update,
    Updates,
)
from keras_policies.legacy.plan.reconstruction.def_use import Owner
from keras_policies.legacy.plan.reconstruction.idioms import DRAWS, DROPOUT

# Layers that do nothing in inference, as in tf.keras.
RANDOM = {
    *("RandomBrightness", "RandomContrast", "RandomFlip", "RandomRotation"),
    *("RandomTranslation", "RandomZoom"),
}
NOISE = {"RandomStandardNormal", "TruncatedNormal"}  # their mean is 0
# A function, the variables that it takes, and whether it runs exactly once per call.
_Call: TypeAlias = tuple[str, tuple[tuple[str, int], ...], bool]
NORMALIZATIONS = "BatchNormalization", "BatchNormalizationV1", "SyncBatchNormalization"
ASSIGNMENTS = {"AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"}


def trained(
    owner: Owner,
    traced: TracedFunctions,
    layer: TracedLayer,
    trace: ConcreteFunction,
    first: ir.Followed,
    follow: Callable[[ConcreteFunction], ir.Followed],
) -> tuple[ConcreteFunction, ir.Followed, bool, frozenset[int]]:
    """Return the trace to rebuild from, its steps, and what else training did.

    That is whether it did more, and the variables in the steps that only it assigned.
    """
    other_trace = twin(layer, trace)
    if other_trace is None:
        return trace, first, False, frozenset()
    inner = bodies(traced, other_trace.function)
    ops = {node.op for body in inner for node in body.values()}
    updates = dict[int, Updates]()
    if ops & ASSIGNMENTS:  # those of inference, too, are steps
        updates = _assigned(traced, other_trace)
    keeps = _keeps_statistics(traced, first[0], updates)
    if updates:
        for number in _assigned(traced, trace):
            updates.pop(number, None)
    moved = frozenset(updates.keys() & {*ir.variables_in(first[0])})
    draws = any("Random" in op or op in (*DRAWS, "TruncatedNormal") for op in ops)
    adds = draws or len(other_trace.losses) > len(trace.losses)
    if not (adds or any(any(each) for each in updates.values())):
        return trace, first, keeps or bool(moved), moved
    if len(trees.leaves(trace.outputs)) != len(trees.leaves(other_trace.outputs)):
        return trace, first, True, moved
    with attempt(LegacyModelError):
        other = follow(other_trace)
        normalizations = Normalizations(owner, updates)
        if _alike(first, other, normalizations):
            both = (trace, first), (other_trace, other)
            trace_of, followed = both[adds]
            called = normalizations.called(followed, position=int(adds))
            rest = moved - normalizations.variables
            if called is not None:
                return trace_of, called, keeps or bool(rest), rest
    return trace, first, True, moved


def _keeps_statistics(
    traced: TracedFunctions, steps: ir.Steps, updates: Mapping[int, Updates]
) -> bool:
    """Return whether training left statistics alone, or took others than the batch's.

    The layers of Keras that take its place use those of the batch without a mask.
    """
    called = {step.spec.number for step in steps if isinstance(step, ir.CallStep)}
    numbers = [n for n in called if n is not None and n in traced.layers]
    inside = {n for number in numbers for n in traced.layers[number].variables}
    statistics = (
        {*layer.variables} - {*layer.trainable}
        for layer in traced.layers.values()
        if layer.class_name in NORMALIZATIONS and layer.config.get("trainable", True)
    )
    return any(
        found and found <= inside and not any(any(updates.get(n, ())) for n in found)
        for found in statistics
    )


def _assigned(traced: TracedFunctions, trace: ConcreteFunction) -> dict[int, Updates]:
    """Return the variables that a function assigns, in functions that it calls, too.

    What only a branch or a loop assigns has no known update.
    """
    found = collections.defaultdict[int, Updates](collections.Counter)
    moves = collections.defaultdict[_Call, list[tuple[int, Update | None]]](list)
    edges: dict[_Call, list[_Call]] = {}
    names = traced.functions[trace.function].arguments[-len(trace.captures) :]
    start = trace.function, tuple(zip(names, trace.captures, strict=False)), True

    def called(call: _Call) -> list[_Call]:
        (name, pairs, is_sure), calls = call, []
        captured, nodes = dict(pairs), traced.functions[name].nodes
        for node in nodes.values():
            inputs = [captured.get(x.node) for x in node.inputs]
            if node.op in ASSIGNMENTS and inputs[0] is not None:
                update = batch_statistics.update(node, nodes, captured)
                moves[call].append((inputs[0], update if is_sure else None))
            for other in _functions(node):
                every = inputs[1:] if node.op in CONDITIONS + CASES else inputs
                function = traced.functions.get(other)
                named = zip(function.arguments if function else (), every, strict=False)
                passed = tuple((key, n) for key, n in named if n is not None)
                if passed:
                    calls.append((other, passed, is_sure and node.op in CALLS))
        budget.work(budget.ITEM)
        edges[call] = calls
        return calls

    try:
        order = walks.topological_order([start], called)
    except walks.CycleError:
        reason = f"corrupt: {trace.function} calls itself."
        raise LegacyModelError(reason) from None
    times = collections.Counter[_Call]([start])
    for call in reversed(order):  # callers first
        for other in edges[call]:
            times[other] += times[call]
        for number, update in moves[call]:
            found[number][update] += times[call]
    return found


def twin(layer: TracedLayer, trace: ConcreteFunction) -> ConcreteFunction | None:
    """Return the trace whose arguments differ from another's by `training` alone."""
    traces = (*layer.traces_with_losses, *layer.traces)
    twins = [t for t in traces if concrete_functions.trains(t, trace)]
    # Without losses, the last one: it calls inner layers as the other function does.
    return next((t for t in twins if t.losses), twins[-1] if twins else None)


def bodies(traced: TracedFunctions, name: str) -> list[Mapping[str, Node]]:
    """Return the nodes of a function, and of each that it calls."""
    found: dict[str, Mapping[str, Node]] = {}

    def called(name: str) -> list[str]:
        return [called for node in found[name].values() for called in _functions(node)]

    for each in walks.reachable([name], called):
        is_known = each in traced.functions
        found[each] = idioms.function(traced, each).nodes if is_known else {}
        budget.work(budget.ITEM * len(found[each]))
    return [*found.values()]


def _functions(node: Node) -> Sequence[str]:
    """Return the functions that a node runs, but for the condition of a loop."""
    if node.op in (*CALLS, *LOOPS):
        return [str(node.attributes.get("f" if node.op in CALLS else "body"))]
    return branches(node) if node.op in CONDITIONS + CASES else ()


def _alike(
    first: ir.Followed, other: ir.Followed, normalizations: Normalizations
) -> bool:
    """Return whether two functions have the same outputs but for what training adds."""
    (steps, outputs), (others, other_outputs) = first, other
    pairs = zip(outputs, other_outputs, strict=False)
    before: dict[tuple[ir.Value, ir.Value], Iterable[tuple[ir.Value, ir.Value]]] = {}
    for pair in walks.reachable(pairs, before.__getitem__):
        both = pair[0], _undisturbed(pair[1], others)
        inputs = normalizations.inputs(both, (steps, others))
        if inputs is not None:
            before[pair] = [inputs]
            continue
        what, taken = _made_by(both[0], steps)
        other_what, other_taken = _made_by(both[1], others)
        if len(taken) != len(other_taken) or not ir.same(what, other_what):
            return False
        before[pair] = zip(taken, other_taken, strict=True)
    return True


def _made_by(value: ir.Value, steps: Sequence[ir.Step]) -> tuple[Any, list[ir.Value]]:
    """Return what makes a value, in a form that can be compared, and its inputs."""
    if not isinstance(value, ir.StepOutput):
        return value, []
    step = steps[value.step]
    return [ir.operation(step), value.position], ir.inputs_of(step)


def _undisturbed(value: ir.Value, steps: Sequence[ir.Step]) -> ir.Value:
    """Return a value before dropout, noise and random changes of images."""
    while isinstance(value, ir.StepOutput):
        step = steps[value.step]
        inputs = ir.inputs_of(step)
        if isinstance(step, ir.CallStep):
            is_random = step.spec.class_name in RANDOM and len(inputs) == 1
        else:
            is_sum = step.op in ("Add", "AddV2") and _is_noise(inputs[1], steps)
            is_random = step.op == DROPOUT or is_sum
        if not is_random:
            break
        value = inputs[0]
    return value


def _is_noise(value: ir.Value, steps: Sequence[ir.Step]) -> bool:
    """Return whether a value is drawn, with the mean 0."""
    step = ir.op_of(value, steps)
    for _ in range(limits.SCALING_OPS):
        if step is None or step.op not in ("Mul", "Add", "AddV2"):
            break
        number = ir.constant(step.inputs[1])
        if number is None or (step.op != "Mul" and number.any()):
            return False
        step = ir.op_of(step.inputs[0], steps)
    return step is not None and step.op in NOISE
