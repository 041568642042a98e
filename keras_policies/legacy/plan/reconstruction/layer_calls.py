"""How a layer is called by the nodes that make up one call of it."""

from collections.abc import Callable, Iterable, Sequence

from keras_policies.legacy.base.traced_functions import (
    CALLS,
    PASSING,
    Output,
    TracedLayer,
)
from keras_policies.legacy.plan.graph import RECURRENT
from keras_policies.legacy.plan.reconstruction import concrete_functions
from keras_policies.legacy.plan.reconstruction.matched_calls import MatchedCall
from keras_policies.legacy.plan.reconstruction.steps import (
    CallStep,
    Constant,
    Nest,
    Resource,
    Value,
    VariableRef,
)
from keras_policies.legacy.plan.reconstruction.subgraph import Subgraph

# Layers that take a list of tensors.
OF_LISTS = {
    *("Add", "AdditiveAttention", "Attention", "Average", "Concatenate", "Dot"),
    *("Maximum", "Minimum", "Multiply", "Subtract"),
}
ATTENTION = "MultiHeadAttention"
ROLES = {"query", "key", "value"}  # the scopes of what its first weights multiply
# Ops that make bools, as masks are.
OF_BOOLS = {
    *("Any", "All", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual"),
    *("LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual"),
}
Call = tuple[CallStep, dict[Output, int]]
ValueOf = Callable[[Output], Value]


def call(
    region: MatchedCall, body: Subgraph, value: Callable[[Output], Value]
) -> Call | None:
    """Return the call, and the position of each output in its results, or None.

    `value` gives the value of an input.
    """
    part, layer = region.part, region.layer
    (only,) = region.nodes if len(region.nodes) == 1 else [None]
    if only is not None and body.nodes[only].op in CALLS:
        tensors = _tensors(body.nodes[only].inputs, value)
        if part.tensors is not None:
            tensors = tensors[: part.tensors]
        arguments = _as_traced(layer, tensors) or _plainly(region, body, value, tensors)
        positions = {
            output: output.position
            for output in region.outputs
            if output not in losses(region, body)
        }
    else:
        tensors = _tensors(region.inputs, value)
        is_attention = region.layer.class_name == ATTENTION
        guess = _by_scopes if is_attention else _plainly
        arguments = guess(region, body, value, tensors)
        positions = _positions(region, body)
    if part.tensors is not None:
        arguments = (tensors, {}) if len(tensors) == part.tensors else None
    added = losses(region, body)
    told = len(positions) + len(added)
    if arguments is None or told != len(region.outputs):
        return None
    if any(_is_computed_with(output, body) for output in added):
        return None  # it is what a gradient in the function takes
    first, kwargs = arguments
    return CallStep(part, first, kwargs), positions


def _is_computed_with(output: Output, body: Subgraph) -> bool:
    """Return whether a node does more with an output than hand it on."""
    consumers = (
        name for name, one in body.consumers.get(output.node, ()) if one == output
    )
    return any(name and body.nodes[name].op not in PASSING for name in consumers)


def losses(region: MatchedCall, body: Subgraph) -> set[Output]:
    """Return the outputs of a call that are losses, which the layer adds itself."""
    every = region.layer.traces
    is_call = len(region.nodes) == 1 and body.nodes[region.nodes[0]].op in CALLS
    count = (
        len(concrete_functions.specs(every[0].outputs)) if every and is_call else None
    )
    return {o for o in region.outputs if count is not None and o.position >= count}


def _tensors(inputs: Iterable[Output], value: Callable[[Output], Value]) -> list[Value]:
    """Return the tensors that a layer is called on, without those that it captured.

    A lookup layer captured its table, and as a constant what it gives for other words.
    """
    values = [value(one) for one in inputs]
    has_table = any(isinstance(one, Resource) for one in values)
    captured = VariableRef | Resource | Constant if has_table else VariableRef
    return [one for one in values if not isinstance(one, captured)]


Arguments = tuple[Nest, dict[str, Nest]]


def _as_traced(layer: TracedLayer, tensors: Sequence[Value]) -> Arguments | None:
    """Return the arguments in the structure of a trace that takes as many tensors."""
    for trace in layer.traces:
        if len(concrete_functions.specs(trace.inputs)) == len(tensors):
            left = iter(tensors)
            args, kwargs = concrete_functions.unflatten(trace.inputs, left)
            names = concrete_functions.names(trace.inputs)
            first, *others = args or [None]
            if not concrete_functions.is_tensors(first):
                continue
            named = dict(zip(names[1:], others, strict=False)) | dict(kwargs)
            named = {
                k: v for k, v in named.items() if k and concrete_functions.is_tensors(v)
            }
            return first, named
    return None


def _plainly(
    region: MatchedCall, body: Subgraph, value: ValueOf, tensors: Sequence[Value]
) -> Arguments | None:
    """Return the arguments of a call whose structure nothing records, or None."""
    class_name = region.layer.class_name
    if class_name == ATTENTION:
        if len(tensors) == 2:
            return tensors[0], {"value": tensors[1]}
        return None
    if len(tensors) == 1:
        return tensors[0], {}
    if class_name in OF_LISTS:
        return list(tensors), {}
    if class_name in RECURRENT and tensors:
        first, *others = tensors
        if len(others) == 1 and body.is_op(region.inputs[-1], *OF_BOOLS):
            return first, {"mask": others[0]}
        return first, {"initial_state": others}
    return None


def _by_scopes(
    region: MatchedCall, body: Subgraph, value: ValueOf, tensors: Sequence[Value]
) -> Arguments | None:
    """Return the arguments of attention: its scopes say what each tensor is.

    A tensor that goes elsewhere is the mask; of several, none is.
    """
    found: dict[str, Output] = {}
    for name in region.nodes:
        role = name.removeprefix(f"{region.scope}/").partition("/")[0]
        for taken in body.inputs([name]):
            if taken in region.inputs:
                found[role] = taken
    if not set(found) >= ROLES:
        return None
    kwargs = {"value": value(found["value"])}
    others = {output for role, output in found.items() if role not in ROLES}
    if others:
        if len(others) > 1 or others & {found[role] for role in ROLES}:
            return None
        kwargs["attention_mask"] = value(others.pop())
    if found["key"] != found["value"]:
        kwargs["key"] = value(found["key"])
    return value(found["query"]), kwargs


def _positions(region: MatchedCall, body: Subgraph) -> dict[Output, int]:
    """Return the positions of outputs in the results of a layer, as far as known."""
    if len(region.outputs) == 1 and not _has_states(region.layer):
        return {region.outputs[0]: 0}
    found = {}
    for output in region.outputs:
        node = body.nodes[output.node]
        while node.op == "Identity" and node.inputs:
            output_of = node.inputs[0]
            node = body.nodes[output_of.node]
            if node.op in CALLS:
                found[output] = max(0, output_of.position - 1)
        if node.name == output.node and node.op in CALLS:
            found[output] = max(0, output.position - 1)
    return found


def _has_states(layer: TracedLayer) -> bool:
    return bool(layer.config.get("config", layer.config).get("return_state"))
