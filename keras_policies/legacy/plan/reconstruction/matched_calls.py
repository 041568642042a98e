"""Which nodes of a function are a call of a recorded layer."""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from keras_policies.legacy.base.configs import LOOKUPS
from keras_policies.legacy.base.traced_functions import CALLS, Output, TracedLayer
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan.reconstruction.layer_index import (
    Layers,
    reads_in_training,
)
from keras_policies.legacy.plan.reconstruction.steps import LayerSpec
from keras_policies.legacy.plan.reconstruction.subgraph import (
    CycleError,
    Subgraph,
    topological_order,
)

SpecOf: TypeAlias = Callable[[int], LayerSpec | None]
# Layers without weights that do nothing in an inference function.
IDLE = {
    *("ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout"),
    *("GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class MatchedCall:
    """Nodes that are one call of a recorded layer.

    Args:
        part: what the layer becomes.
        nodes: the names of the nodes, in order.
        inputs: the tensors that they take from elsewhere.
        outputs: those that others take.
    """

    part: LayerSpec
    layer: TracedLayer
    scope: str
    nodes: tuple[str, ...]
    inputs: tuple[Output, ...]
    outputs: tuple[Output, ...]


def scopes(name: str) -> Iterator[tuple[str, str]]:
    """Yield the scopes of a node with their last parts, the outermost first.

    Those of `a/b/MatMul` are `("a", "a")` and `("a/b", "b")`.
    """
    parts = name[: limits.SCOPE_CHARACTERS].split("/")[: limits.SCOPES]
    for end in range(1, len(parts)):
        yield "/".join(parts[:end]), parts[end - 1]


def matched_calls(body: Subgraph, layers: Layers, part_of: SpecOf) -> list[MatchedCall]:
    """Return the regions of nodes that are calls of layers, the outermost of them.

    `part_of` returns the layer that a recorded layer, by its number, becomes; None
    where its own nodes have to be followed.
    """
    inside: dict[str, list[str]] = collections.defaultdict(list)
    reads: dict[str, set[int]] = collections.defaultdict(set)
    for name in body.nodes:
        variables = {*_reads([name], body)}
        for scope, last in scopes(name):
            if layers.has_name(last):
                inside[scope].append(name)
                reads[scope] |= variables
    found: list[MatchedCall] = []
    taken: set[str] = set()
    for scope in sorted(inside, key=lambda scope: scope.count("/")):
        members = [name for name in inside[scope] if name not in body.held]
        if taken.intersection(members):
            continue
        for number in layers.named(scope, frozenset(reads[scope])):
            part, layer = part_of(number), layers.traced.layers[number]
            if part is None:
                continue
            calls = _calls_in(scope, members, body, layer)
            if part.tensors is not None:  # its ops are followed
                calls = [
                    call
                    for call in calls
                    if len(call) == 1 and body.nodes[call[0]].op in CALLS
                ]
            found += [_region(body, call, part, layer, scope) for call in calls]
            taken.update(name for call in calls for name in call)
            if calls:
                break
    return found


def _calls_in(
    scope: str, members: Sequence[str], body: Subgraph, layer: TracedLayer
) -> list[list[str]]:
    """Return the nodes of each call of a layer, out of the nodes in its scope.

    The list is empty if the nodes cannot be divided among the calls. All calls read a
    variable equally often. The names of the second call's nodes have a number:
    `dense/MatMul` is of the first call, `dense/MatMul_1` of the second.
    """
    if not layer.variables:
        tables = [n for n in members if body.nodes[n].op.startswith("LookupTableFind")]
        if len(tables) == 1 and layer.class_name in LOOKUPS:
            return [[*members]]
        idle = layer.class_name in IDLE
        return [[n] for n in members if body.nodes[n].op in CALLS or idle]
    members = _about(members, body)
    reads = _reads(members, body)
    if set(reads) not in ({*layer.variables}, {*reads_in_training(layer)}):
        return []
    count = math.gcd(*reads.values())
    if count == 1:
        return [members]
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    for name in members:
        base, number = _numbered(scope, name)
        numbers[base].add(number)
    if any(len(found) % count for found in numbers.values()):
        return []
    call_of = {
        (base, number): position * count // len(found)
        for base, found in numbers.items()
        for position, number in enumerate(sorted(found))
    }
    calls: list[list[str]] = [[] for _ in range(count)]
    for name in members:
        calls[call_of[_numbered(scope, name)]].append(name)
    once = {variable: n // count for variable, n in reads.items()}
    return calls if all(_reads(call, body) == once for call in calls) else []


def _reads(names: Iterable[str], body: Subgraph) -> dict[int, int]:
    """Return how often nodes take each variable."""
    taken = (one.node for one in body.inputs(names))
    held = body.held
    return dict(collections.Counter(held[name] for name in taken if name in held))


def _numbered(scope: str, name: str) -> tuple[str, int]:
    """Return the first part of a name in a scope, and its number: `("MatMul", 1)`."""
    first = name.removeprefix(f"{scope}/").partition("/")[0]
    base, _, number = first.rpartition("_")
    return (base, int(number)) if base and number.isdecimal() else (first, 0)


def _region(
    body: Subgraph,
    members: Sequence[str],
    part: LayerSpec,
    layer: TracedLayer,
    scope: str,
) -> MatchedCall:
    own = frozenset(members)
    inputs = dict.fromkeys(
        one
        for one in body.inputs(members)
        if one.node not in own | body.held.keys() and not body.is_op(one, "Const")
    )
    consumers = (taker for name in members for taker in body.consumers.get(name, ()))
    used = dict.fromkeys(output for name, output in consumers if name not in own)
    return MatchedCall(part, layer, scope, (*members,), (*inputs,), (*used,))


def _about(members: Sequence[str], body: Subgraph) -> list[str]:
    """Return the nodes that depend on variables, and those that lead to them.

    The mask that an Embedding computes is neither.
    """
    depend: set[str] = set()
    for name in members:  # in order
        taken = {one.node for one in body.inputs([name])}
        if not taken.isdisjoint(depend) or not body.held.keys().isdisjoint(taken):
            depend.add(name)
    for name in reversed(members):
        if name in depend:
            depend.update(one.node for one in body.inputs([name]))
    return [name for name in members if name in depend]


def in_order(body: Subgraph, found: Iterable[MatchedCall]) -> list[str | MatchedCall]:
    """Return nodes and regions, each after those that it takes.

    A region that would have to come before itself is taken apart.
    """
    kept = [*found]
    for _ in range(limits.BROKEN_CALLS):
        try:
            return _ordered(body, kept)
        except CycleError as cycle:  # which only a region can make
            broken = next(one for one in cycle.args if isinstance(one, MatchedCall))
            kept = [call for call in kept if call is not broken]
    return [*body.nodes]


def _ordered(body: Subgraph, found: Sequence[MatchedCall]) -> list[str | MatchedCall]:
    unit: dict[str, str | MatchedCall] = {name: name for name in body.nodes}
    unit.update({name: call for call in found for name in call.nodes})

    def before(one: str | MatchedCall) -> list[str | MatchedCall]:
        taken = body.inputs(one.nodes if isinstance(one, MatchedCall) else [one])
        units = [unit[output.node] for output in taken if output.node in unit]
        return [other for other in units if other is not one]

    ends = [unit[o.node] for o in body.function.outputs if o.node in unit]
    return topological_order(ends, before)
