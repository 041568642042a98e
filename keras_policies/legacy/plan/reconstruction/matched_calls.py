"""Finds the nodes of a function that are one call of a layer.

`reachable` returns the nodes that the outputs need, in topological order;
`matched_calls`, those of one scope that read the variables of one layer.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from keras_policies.legacy.base import walks
from keras_policies.legacy.base.configs import LOOKUPS
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    PASSING,
    Function,
    Node,
    Output,
    TracedLayer,
)
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.concrete_functions import (
    Layers,
    reads_in_training,
)


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """The part of a called function that its outputs need."""

    function: Function
    # Those that its outputs need, each after those that it takes.
    nodes: Mapping[str, Node]
    # `{name: variable}` of arguments and nodes that have its value.
    variable_of: Mapping[str, int]

    @functools.cached_property
    def consumers(self) -> Mapping[str, Sequence[tuple[str, Output]]]:
        """`{node: [(consumer, output that it takes)]}`; "" stands for the end."""
        consumers = collections.defaultdict(list)
        for name, node in self.nodes.items():
            for output in node.inputs:
                consumers[output.node].append((name, output))
        for output in self.function.outputs:
            consumers[output.node].append(("", output))
        return consumers

    def inputs(self, names: Iterable[str]) -> Iterator[Output]:
        return (output for name in names for output in self.nodes[name].inputs)

    def is_op(self, output: Output, *ops: str) -> bool:
        """Return whether a node with one of these ops computes an output."""
        return output.node in self.nodes and self.nodes[output.node].op in ops


def reachable(function: Function, arguments: Sequence[ir.Value]) -> Subgraph:
    """Return the nodes that a call of a function with these arguments needs."""
    nodes = walks.needed_nodes(function, function.outputs)
    named = zip(function.arguments, arguments, strict=True)
    reads = ((name, v) for name, v in named if isinstance(v, ir.VariableRef))
    variable_of = {name: v.variable for name, v in reads}
    for name, node in nodes.items():
        if node.op in PASSING and node.op != "IdentityN" and node.inputs:
            variable = variable_of.get(node.inputs[0].node)
            if variable is not None:
                variable_of[name] = variable
    return Subgraph(function, nodes, variable_of)


SpecOf: TypeAlias = Callable[[int], ir.LayerSpec | None]
# Layers without weights that do nothing in an inference function.
IDLE = {
    *("ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout"),
    *("GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class MatchedCall:
    """Nodes that are one call of a traced layer."""

    spec: ir.LayerSpec  # what the layer becomes
    layer: TracedLayer
    scope: str
    nodes: tuple[str, ...]  # the names of the nodes, in order
    inputs: tuple[Output, ...]  # the tensors that they take from other nodes
    outputs: tuple[Output, ...]  # those that others take


def scopes(name: str) -> Iterator[tuple[str, str]]:
    """Yield scopes with their last parts: `(a, a)` and `(a/b, b)` of `a/b/MatMul`."""
    parts = name[: limits.SCOPE_CHARACTERS].split("/")[: limits.SCOPES]
    for end in range(1, len(parts)):
        yield "/".join(parts[:end]), parts[end - 1]


def matched_calls(
    graph: Subgraph, layers: Layers, spec_of: SpecOf
) -> list[MatchedCall]:
    """Return the nodes that are calls of layers, the outermost calls only.

    `spec_of` returns the layer that a traced layer becomes, by its number; None if its
    own nodes have to be followed.
    """
    inside: dict[str, list[str]] = collections.defaultdict(list)
    reads: dict[str, set[int]] = collections.defaultdict(set)
    for name in graph.nodes:
        variables = {*_reads([name], graph)}
        for scope, last in scopes(name):
            if layers.has_name(last):
                inside[scope].append(name)
                reads[scope] |= variables
    matched: list[MatchedCall] = []
    used: set[str] = set()
    for scope in sorted(inside, key=lambda scope: scope.count("/")):
        members = [name for name in inside[scope] if name not in graph.variable_of]
        if used.intersection(members):
            continue
        depth = scope.count("/") + 1
        inner = (graph.nodes[name] for name in members if name.count("/") == depth)
        called = [str(n.attributes.get("f")) for n in inner if n.op in CALLS]
        numbers = layers.named(scope, frozenset(reads[scope]), called)
        traced = layers.traced.layers
        within = {child for n in numbers for child in traced[n].children.values()}
        for number in numbers:
            spec, layer = spec_of(number), traced[number]
            # A layer inside one of the same name has a scope inside its scope.
            is_inner = number in within and f"{scope}/{layer.name}" in inside
            if spec is None or is_inner:
                continue
            calls = _calls_in(scope, members, graph, layer)
            if spec.tensors is not None:  # its ops are followed
                calls = [
                    call
                    for call in calls
                    if len(call) == 1 and graph.nodes[call[0]].op in CALLS
                ]
            matched += [_call_of(graph, call, spec, layer, scope) for call in calls]
            used.update(name for call in calls for name in call)
            if calls:
                break
    return matched


def _calls_in(
    scope: str, members: Sequence[str], graph: Subgraph, layer: TracedLayer
) -> list[list[str]]:
    """Return the nodes of each call of a layer, out of the nodes in its scope.

    The list is empty if the nodes cannot be divided among the calls. All calls read a
    variable equally often. The names of the second call's nodes have a number:
    `dense/MatMul` is of the first call, `dense/MatMul_1` of the second.
    """
    if not layer.variables:
        tables = [n for n in members if graph.nodes[n].op.startswith("LookupTableFind")]
        if len(tables) == 1 and layer.class_name in LOOKUPS:
            return [[*members]]
        idle = layer.class_name in IDLE
        return [[n] for n in members if graph.nodes[n].op in CALLS or idle]
    members = _connected(members, graph)
    reads = _reads(members, graph)
    if set(reads) not in ({*layer.variables}, {*reads_in_training(layer)}):
        return []
    count = math.gcd(*reads.values())
    if count == 1:
        return [members]
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    for name in members:
        base, number = _numbered(scope, name)
        numbers[base].add(number)
    if any(len(suffixes) % count for suffixes in numbers.values()):
        return []
    call_of = {
        (base, number): position * count // len(suffixes)
        for base, suffixes in numbers.items()
        for position, number in enumerate(sorted(suffixes))
    }
    calls: list[list[str]] = [[] for _ in range(count)]
    for name in members:
        calls[call_of[_numbered(scope, name)]].append(name)
    once = {variable: n // count for variable, n in reads.items()}
    return calls if all(_reads(call, graph) == once for call in calls) else []


def _reads(names: Iterable[str], graph: Subgraph) -> dict[int, int]:
    """Return how often nodes take each variable."""
    of, inputs = graph.variable_of, (output.node for output in graph.inputs(names))
    return dict(collections.Counter(of[name] for name in inputs if name in of))


def _numbered(scope: str, name: str) -> tuple[str, int]:
    """Return the first part of a name in a scope, and its number: `("MatMul", 1)`."""
    first = name.removeprefix(f"{scope}/").partition("/")[0]
    base, _, number = first.rpartition("_")
    return (base, int(number)) if base and number.isdecimal() else (first, 0)


def _call_of(
    graph: Subgraph,
    members: Sequence[str],
    spec: ir.LayerSpec,
    layer: TracedLayer,
    scope: str,
) -> MatchedCall:
    inside = frozenset(members)
    others = (o for o in graph.inputs(members) if not graph.is_op(o, "Const"))
    ours = inside | graph.variable_of.keys()
    inputs = dict.fromkeys(output for output in others if output.node not in ours)
    consumers = (pair for name in members for pair in graph.consumers.get(name, ()))
    used = dict.fromkeys(output for name, output in consumers if name not in inside)
    return MatchedCall(spec, layer, scope, (*members,), (*inputs,), (*used,))


def _connected(members: Sequence[str], graph: Subgraph) -> list[str]:
    """Return the nodes that depend on variables or lead to them, unlike a mask."""
    depend: set[str] = set()
    for name in members:  # in order
        inputs = {output.node for output in graph.inputs([name])}
        if inputs & depend or inputs & graph.variable_of.keys():
            depend.add(name)
    for name in reversed(members):
        if name in depend:
            depend.update(output.node for output in graph.inputs([name]))
    return [name for name in members if name in depend]


def in_order(graph: Subgraph, calls: Iterable[MatchedCall]) -> list[str | MatchedCall]:
    """Return nodes and matched calls in topological order.

    A call that would have to come before itself becomes its nodes again.
    """
    remaining = [*calls]
    for _ in range(limits.BROKEN_CALLS):
        try:
            return _ordered(graph, remaining)
        except walks.CycleError as cycle:  # which only a matched call can make
            broken = next(unit for unit in cycle.args if isinstance(unit, MatchedCall))
            remaining = [call for call in remaining if call is not broken]
    return [*graph.nodes]


def _ordered(graph: Subgraph, calls: Sequence[MatchedCall]) -> list[str | MatchedCall]:
    unit_of: dict[str, str | MatchedCall] = {name: name for name in graph.nodes}
    unit_of.update({name: call for call in calls for name in call.nodes})

    def before(unit: str | MatchedCall) -> list[str | MatchedCall]:
        inputs = graph.inputs(unit.nodes if isinstance(unit, MatchedCall) else [unit])
        units = [unit_of[output.node] for output in inputs if output.node in unit_of]
        return [other for other in units if other is not unit]

    ends = [unit_of[o.node] for o in graph.function.outputs if o.node in unit_of]
    return walks.topological_order(ends, before)
