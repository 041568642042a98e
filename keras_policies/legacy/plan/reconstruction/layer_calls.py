"""Recovers the arguments of a layer call from the nodes that make it up."""

from collections.abc import Callable, Iterable, Sequence

from keras_policies.legacy.base.traced_functions import (
    CALLS,
    PASSING,
    Output,
    TracedLayer,
)
from keras_policies.legacy.plan.graph import RECURRENT
from keras_policies.legacy.plan.reconstruction import concrete_functions, ir
from keras_policies.legacy.plan.reconstruction.matched_calls import (
    MatchedCall,
    Subgraph,
)

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
ValueOf = Callable[[Output], ir.Value]


def call(
    matched: MatchedCall, graph: Subgraph, value: ValueOf
) -> tuple[ir.CallStep, dict[Output, int]] | None:
    """Return the call, and the position of each output in its results, or None."""
    spec, layer, added = matched.spec, matched.layer, losses(matched, graph)
    if _is_one_node(matched, graph):
        tensors = _tensors(graph.nodes[matched.nodes[0]].inputs, value)
        arguments = _as_traced(layer, tensors)
        arguments = arguments or _by_class(matched, graph, tensors)
        positions = {o: o.position for o in matched.outputs if o not in added}
    else:
        tensors = _tensors(matched.inputs, value)
        if matched.layer.class_name == ATTENTION:
            arguments = _by_scopes(matched, graph, value)
        else:
            arguments = _by_class(matched, graph, tensors)
        positions = _positions(matched, graph)
    if spec.tensors is not None:
        arguments = (tensors, {}) if len(tensors) == spec.tensors else None
    known_outputs = len(positions) + len(added)
    if arguments is None or known_outputs != len(matched.outputs):
        return None
    if any(isinstance(tensor, ir.Mapped) for tensor in tensors):
        return None  # a round of a loop, whose nodes are followed
    if any(_is_computed_with(output, graph) for output in added):
        return None  # it is what a gradient in the function takes
    first, kwargs = arguments
    return ir.CallStep(spec, first, kwargs), positions


def _is_computed_with(output: Output, graph: Subgraph) -> bool:
    """Return whether a node does more with an output than hand it on."""
    pairs = graph.consumers.get(output.node, ())
    names = (name for name, one in pairs if name and one == output)
    return any(graph.nodes[name].op not in PASSING for name in names)


def losses(matched: MatchedCall, graph: Subgraph) -> set[Output]:
    """Return the outputs of a call that are losses, which the layer adds itself."""
    traces = matched.layer.traces
    if not (traces and _is_one_node(matched, graph)):
        return set()
    count = len(concrete_functions.specs(traces[0].outputs))
    return {output for output in matched.outputs if output.position >= count}


def _is_one_node(matched: MatchedCall, graph: Subgraph) -> bool:
    """Return whether a call of a layer is one node that calls its function."""
    return len(matched.nodes) == 1 and graph.nodes[matched.nodes[0]].op in CALLS


def _tensors(inputs: Iterable[Output], value: ValueOf) -> list[ir.Value]:
    """Return the tensors that a layer is called on, without those that it captured."""
    values = [value(output) for output in inputs]
    has_table = any(isinstance(item, ir.Resource) for item in values)
    of_table = ir.VariableRef | ir.Resource | ir.Constant
    captured = of_table if has_table else ir.VariableRef
    return [item for item in values if not isinstance(item, captured)]


Arguments = tuple[ir.Nest, dict[str, ir.Nest]]


def _as_traced(layer: TracedLayer, tensors: Sequence[ir.Value]) -> Arguments | None:
    """Return the arguments as nested in a trace with the same number of tensors."""
    for trace in layer.traces:
        if len(concrete_functions.specs(trace.inputs)) == len(tensors):
            remaining = iter(tensors)
            args, kwargs = concrete_functions.unflatten(trace.inputs, remaining)
            names = concrete_functions.names(trace.inputs)
            first, *others = args or [None]
            if not concrete_functions.is_tensors(first):
                continue
            named = dict(zip(names[1:], others, strict=False)) | dict(kwargs)
            are_tensors = concrete_functions.is_tensors
            return first, {k: v for k, v in named.items() if k and are_tensors(v)}
    return None


def _by_class(
    matched: MatchedCall, graph: Subgraph, tensors: Sequence[ir.Value]
) -> Arguments | None:
    """Return the arguments of a call that was not traced alone, or None."""
    class_name = matched.layer.class_name
    if class_name == ATTENTION:
        return (tensors[0], {"value": tensors[1]}) if len(tensors) == 2 else None
    if len(tensors) == 1:
        return tensors[0], {}
    if class_name in OF_LISTS:
        return list(tensors), {}
    if class_name in RECURRENT and tensors:
        first, *others = tensors
        if len(others) == 1 and graph.is_op(matched.inputs[-1], *OF_BOOLS):
            return first, {"mask": others[0]}
        return first, {"initial_state": others}
    return None


def _by_scopes(
    matched: MatchedCall, graph: Subgraph, value: ValueOf
) -> Arguments | None:
    """Return the arguments of attention; each tensor's scope names its role.

    A tensor in any other scope is the mask; if there are several, the call is None.
    """
    by_role: dict[str, Output] = {}
    for name in matched.nodes:
        role = name.removeprefix(f"{matched.scope}/").partition("/")[0]
        for output in graph.inputs([name]):
            if output in matched.inputs:
                by_role[role] = output
    if not set(by_role) >= ROLES:
        return None
    kwargs = {"value": value(by_role["value"])}
    others = {tensor for role, tensor in by_role.items() if role not in ROLES}
    if others:
        if len(others) > 1 or others & {by_role[role] for role in ROLES}:
            return None
        kwargs["attention_mask"] = value(others.pop())
    if by_role["key"] != by_role["value"]:
        kwargs["key"] = value(by_role["key"])
    return value(by_role["query"]), kwargs


def _positions(matched: MatchedCall, graph: Subgraph) -> dict[Output, int]:
    """Return the positions of outputs in the results of a layer, as far as known."""
    config = matched.layer.config.get("config", matched.layer.config)
    if len(matched.outputs) == 1 and not config.get("return_state"):
        return {matched.outputs[0]: 0}
    positions = {}
    for output in matched.outputs:
        node = graph.nodes[output.node]
        while node.op == "Identity" and node.inputs[0].node in graph.nodes:
            output_of = node.inputs[0]
            node = graph.nodes[output_of.node]
            if node.op in CALLS:
                positions[output] = max(0, output_of.position - 1)
        if node.name == output.node and node.op in CALLS:
            positions[output] = max(0, output.position - 1)
    return positions
