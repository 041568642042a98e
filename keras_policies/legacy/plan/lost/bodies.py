"""The nodes of a function that its outputs need, and which of them make up a layer."""

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.recorded import (
    Function,
    Node,
    Output,
    Recorded,
    RecordedLayer,
)

CALLS = "PartitionedCall", "StatefulPartitionedCall"
# Ops that return their (first) input as it is.
PASSING = {
    *(
        "CheckNumerics",
        "EnsureShape",
        "Identity",
        "IdentityN",
        "PlaceholderWithDefault",
    ),
    *("PreventGradient", "ReadVariableOp", "Snapshot"),
}
# What a recorded layer becomes: itself, a model that is rebuilt, or nothing.
Kind: TypeAlias = Literal["known", "lost", ""]
MAX_SCOPES = 30  # of a name
MAX_NAMESAKES = 8  # layers with the same name and the same variables
MAX_BROKEN = 20  # regions that turn out to be none
# Layers without weights that do nothing in an inference function.
IDLE = {
    *("ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout"),
    *("GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """Nodes that are one call of a recorded layer.

    Args:
        layer: its number.
        nodes: the names of the nodes.
        inputs: the tensors that they take from elsewhere.
        outputs: those that others take.
    """

    layer: int
    scope: str
    nodes: frozenset[str]
    inputs: tuple[Output, ...]
    outputs: tuple[Output, ...]


def needed(function: Function) -> dict[str, Node]:
    """Return the nodes that the outputs need, each after those that it takes."""
    arguments = set(function.arguments)
    found: dict[str, Node] = {}
    entered: set[str] = set()
    waiting = [(output.node, False) for output in reversed(function.outputs)]
    while waiting:
        name, is_left = waiting.pop()
        if name in arguments or name in found:
            continue
        if name not in function.nodes:
            raise LegacyModelError(f"corrupt: {function.name} has no node {name!r}.")
        node = function.nodes[name]
        if is_left:
            found[name] = node
            continue
        if name in entered:
            raise LegacyModelError(f"corrupt: {function.name} has a cycle at {name!r}.")
        entered.add(name)
        waiting.append((name, True))
        waiting += [
            (taken.node, False)
            for taken in reversed(node.inputs)
            if taken.node not in found and taken.node not in arguments
        ]
    return found


def variables_of(
    function: Function, nodes: Mapping[str, Node], held: Mapping[str, int]
) -> dict[str, int]:
    """Return `{name: variable}` of arguments and nodes that are a variable's value.

    `held` has those of the arguments; `nodes` come in order.
    """
    found = dict(held)
    for name, node in nodes.items():
        if node.op in PASSING and node.op != "IdentityN" and node.inputs:
            variable = found.get(node.inputs[0].node)
            if variable is not None:
                found[name] = variable
    return found


def scopes(name: str) -> Iterator[str]:
    """Yield the scopes of a node, the outermost first: `a`, `a/b` of `a/b/MatMul`."""
    parts = name.split("/")[:MAX_SCOPES]
    for end in range(1, len(parts)):
        yield "/".join(parts[:end])


class Layers:
    """The recorded layers, found by what they hold and by their names."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self._by_variables: dict[frozenset[int], list[int]] = collections.defaultdict(
            list
        )
        self._by_name: dict[str, list[int]] = collections.defaultdict(list)
        for number, layer in recorded.layers.items():
            self._by_variables[frozenset(layer.variables)].append(number)
            if not layer.variables:
                self._by_name[layer.name].append(number)

    def named(self, scope: str, variables: frozenset[int]) -> list[int]:
        """Return the layers that a scope of nodes with these variables can be.

        A layer that is called again gets a number after its name.
        """
        last = scope.rpartition("/")[2]
        names = {last, re.sub(r"_\d+$", "", last)}
        if variables:
            found = self._by_variables.get(variables, [])
        else:
            found = [n for name in names for n in self._by_name.get(name, ())]
        return sorted(
            (n for n in found if self.recorded.layers[n].name in names),
            key=lambda n: self.recorded.layers[n].name != last,
        )


def regions(
    function: Function,
    nodes: Mapping[str, Node],
    held: Mapping[str, int],
    layers: Layers,
    kind_of: Callable[[int], Kind],
) -> list[Region]:
    """Return the regions of nodes that are calls of layers, the outermost of them.

    `kind_of` says what a recorded layer becomes.
    """
    inside: dict[str, list[str]] = collections.defaultdict(list)
    reads: dict[str, set[int]] = collections.defaultdict(set)
    for name, node in nodes.items():
        for scope in scopes(name):
            inside[scope].append(name)
            reads[scope] |= {held[i.node] for i in node.inputs if i.node in held}
    found: list[Region] = []
    taken: set[str] = set()
    for scope in sorted(inside, key=lambda scope: scope.count("/")):
        members = [name for name in inside[scope] if name not in held]
        if taken.intersection(members):
            continue
        for number in layers.named(scope, frozenset(reads[scope]))[:MAX_NAMESAKES]:
            kind, layer = kind_of(number), layers.recorded.layers[number]
            calls = _calls_in(scope, members, nodes, held, layer) if kind else []
            if kind == "lost":  # its ops are followed
                calls = [c for c in calls if len(c) == 1 and nodes[c[0]].op in CALLS]
            found += [_region(function, nodes, held, c, number, scope) for c in calls]
            taken.update(name for call in calls for name in call)
            if calls:
                break
    return found


def _calls_in(
    scope: str,
    members: Sequence[str],
    nodes: Mapping[str, Node],
    held: Mapping[str, int],
    layer: RecordedLayer,
) -> list[list[str]]:
    """Return the nodes of each call of a layer, out of the nodes in its scope.

    The list is empty if the nodes cannot be divided among the calls. All calls read a
    variable equally often. The names of the second call's nodes have a number:
    `dense/MatMul` is of the first call, `dense/MatMul_1` of the second.
    """
    if not layer.variables:
        idle = layer.class_name in IDLE
        return [[n] for n in members if nodes[n].op in CALLS or idle]
    members = _about(members, nodes, held)
    reads = _reads(members, nodes, held)
    if set(reads) != set(layer.variables):
        return []
    count = math.gcd(*reads.values())
    if count == 1:
        return [members]
    order: dict[str, set[int]] = collections.defaultdict(set)
    for name in members:
        base, number = _numbered(scope, name)
        order[base].add(number)
    calls: list[list[str]] = [[] for _ in range(count)]
    for name in members:
        base, number = _numbered(scope, name)
        each, rest = divmod(len(order[base]), count)
        if rest:
            return []
        calls[sorted(order[base]).index(number) // each].append(name)
    once = {variable: n // count for variable, n in reads.items()}
    return calls if all(_reads(c, nodes, held) == once for c in calls) else []


def _reads(
    members: Iterable[str], nodes: Mapping[str, Node], held: Mapping[str, int]
) -> dict[int, int]:
    """Return how often nodes take each variable."""
    taken = (i.node for name in members for i in nodes[name].inputs)
    return dict(collections.Counter(held[name] for name in taken if name in held))


def _numbered(scope: str, name: str) -> tuple[str, int]:
    """Return the first part of a name in a scope, and its number: `("MatMul", 1)`."""
    first = name.removeprefix(f"{scope}/").partition("/")[0]
    base, _, number = first.rpartition("_")
    return (base, int(number)) if base and number.isdecimal() else (first, 0)


def _region(
    function: Function,
    nodes: Mapping[str, Node],
    held: Mapping[str, int],
    members: Sequence[str],
    number: int,
    scope: str,
) -> Region:
    own = frozenset(members)
    taken = (i for name in members for i in nodes[name].inputs)
    inputs = dict.fromkeys(
        i
        for i in taken
        if i.node not in own and i.node not in held and not is_constant(i, nodes)
    )
    used = [i for n in nodes if n not in own for i in nodes[n].inputs if i.node in own]
    used += [i for i in function.outputs if i.node in own]
    return Region(number, scope, own, tuple(inputs), tuple(dict.fromkeys(used)))


def is_constant(output: Output, nodes: Mapping[str, Node]) -> bool:
    """Return whether an output is that of a constant."""
    return output.node in nodes and nodes[output.node].op == "Const"


def _about(
    members: Sequence[str], nodes: Mapping[str, Node], held: Mapping[str, int]
) -> list[str]:
    """Return the nodes that depend on variables, and those that lead to them.

    The mask that an Embedding computes is neither.
    """
    within = set(members)
    depend: set[str] = set()
    for name in members:  # in order
        taken = {i.node for i in nodes[name].inputs}
        if taken & depend or any(i in held for i in taken):
            depend.add(name)
    about = set(depend)
    for name in reversed(members):
        if name in about:
            about |= {i.node for i in nodes[name].inputs} & within
    return [name for name in members if name in about]


def in_order(
    function: Function, nodes: Mapping[str, Node], found: Iterable[Region]
) -> list[str | Region]:
    """Return nodes and regions, each after those that it takes.

    A region that would have to come before itself is taken apart.
    """
    kept = [*found]
    for _ in range(MAX_BROKEN):
        order, broken = _ordered(function, nodes, kept)
        if broken is None:
            return order
        kept = [region for region in kept if region is not broken]
    return _ordered(function, nodes, ())[0]


def _ordered(
    function: Function, nodes: Mapping[str, Node], found: Sequence[Region]
) -> tuple[list[str | Region], Region | None]:
    unit: dict[str, str | Region] = {name: name for name in nodes}
    unit.update({name: region for region in found for name in region.nodes})
    order: list[str | Region] = []
    state: dict[str | Region, bool] = {}  # False: entered, True: done
    ends = [unit[o.node] for o in function.outputs if o.node in unit]
    waiting: list[tuple[str | Region, bool]] = [(end, False) for end in reversed(ends)]
    while waiting:
        one, is_left = waiting.pop()
        if is_left:
            state[one] = True
            order.append(one)
            continue
        if one in state:
            continue
        state[one] = False
        waiting.append((one, True))
        names = one.nodes if isinstance(one, Region) else [one]
        inputs = [i for name in names for i in nodes[name].inputs]
        for taken in reversed(inputs):
            before = unit.get(taken.node)
            if before is None or before is one or state.get(before):
                continue
            if before in state:  # a cycle, which only a region can make
                looped = [r for r, done in state.items() if not done]
                broken = next(r for r in looped if isinstance(r, Region))
                return [], broken
            waiting.append((before, False))
    return order, None
