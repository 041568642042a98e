"""The nodes of a function that its outputs need, and which of them make up a layer."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.recorded import Function, Node, Output, Recorded

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
MAX_SCOPES = 30  # of a name
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
    is_layer: Mapping[int, bool],
) -> list[Region]:
    """Return the regions of nodes that are calls of layers, the outermost of them."""
    inside: dict[str, list[str]] = collections.defaultdict(list)
    reads: dict[str, set[int]] = collections.defaultdict(set)
    for name, node in nodes.items():
        for scope in scopes(name):
            inside[scope].append(name)
            reads[scope] |= {held[i.node] for i in node.inputs if i.node in held}
    found: list[Region] = []
    taken: set[str] = set()
    for scope in sorted(inside, key=lambda scope: scope.count("/")):
        if taken.intersection(inside[scope]):
            continue
        for number in layers.named(scope, frozenset(reads[scope])):
            if not is_layer[number]:
                continue
            region = _region(function, nodes, held, inside[scope], layers, number)
            if region is not None:
                region = dataclasses.replace(region, scope=scope)
                found.append(region)
                taken |= region.nodes
                break
    return found


def _region(
    function: Function,
    nodes: Mapping[str, Node],
    held: Mapping[str, int],
    inside: Sequence[str],
    layers: Layers,
    number: int,
) -> Region | None:
    """Return the region of a layer among nodes of its scope, or None."""
    layer = layers.recorded.layers[number]
    members = [name for name in inside if name not in held]
    if layer.variables:
        members = _about(members, nodes, held)
    elif not any(nodes[name].op in CALLS for name in members):
        # Ops do what a layer without weights does, unless it does nothing here.
        members = members if layer.class_name in IDLE else []
    own = frozenset(members)
    if not own:
        return None
    taken = (i for name in members for i in nodes[name].inputs)
    inputs = dict.fromkeys(
        i
        for i in taken
        if i.node not in own and i.node not in held and not is_constant(i, nodes)
    )
    used = [i for n in nodes if n not in own for i in nodes[n].inputs if i.node in own]
    used += [i for i in function.outputs if i.node in own]
    outputs = tuple(dict.fromkeys(used))
    return Region(number, "", own, tuple(inputs), outputs)


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
        inputs = one.inputs if isinstance(one, Region) else nodes[one].inputs
        for taken in reversed(inputs):
            before = unit.get(taken.node)
            if before is None or state.get(before):
                continue
            if before in state:  # a cycle, which only a region can make
                looped = [r for r, done in state.items() if not done]
                broken = next(r for r in looped if isinstance(r, Region))
                return [], broken
            waiting.append((before, False))
    return order, None
