"""The nodes of a function that its outputs need, in order."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import PASSING, Function, Node, Output
from keras_policies.legacy.plan.reconstruction.steps import Value, VariableRef

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """The part of a called function that its outputs need.

    Args:
        nodes: those that its outputs need, each after those that it takes.
        variable_of: `{name: variable}` of arguments and nodes that have its value.
    """

    function: Function
    nodes: Mapping[str, Node]
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
        """Yield the inputs of some nodes."""
        return (output for name in names for output in self.nodes[name].inputs)

    def is_op(self, output: Output, *ops: str) -> bool:
        """Return whether an output is that of a node with one of some ops."""
        return output.node in self.nodes and self.nodes[output.node].op in ops


def reachable(function: Function, arguments: Sequence[Value]) -> Subgraph:
    """Return the nodes that a call of a function with these arguments needs."""
    if len(arguments) != len(function.arguments):
        raise LegacyModelError(
            f"corrupt: {function.name} takes {len(function.arguments)} arguments, it "
            f"is called with {len(arguments)}."
        )
    nodes = _needed(function)
    named = zip(function.arguments, arguments, strict=True)
    variable_of = {name: v.variable for name, v in named if isinstance(v, VariableRef)}
    for name, node in nodes.items():
        if node.op in PASSING and node.op != "IdentityN" and node.inputs:
            variable = variable_of.get(node.inputs[0].node)
            if variable is not None:
                variable_of[name] = variable
    return Subgraph(function, nodes, variable_of)


def _needed(function: Function) -> dict[str, Node]:
    arguments = set(function.arguments)

    def before(name: str) -> list[str]:
        if name not in function.nodes:
            raise LegacyModelError(f"corrupt: {function.name} has no node {name!r}.")
        inputs = function.nodes[name].inputs
        return [output.node for output in inputs if output.node not in arguments]

    ends = [end.node for end in function.outputs if end.node not in arguments]
    try:
        return {name: function.nodes[name] for name in topological_order(ends, before)}
    except CycleError as cycle:
        reason = f"corrupt: {function.name} has a cycle at {cycle.args[-1]!r}."
        raise LegacyModelError(reason) from None


class CycleError(Exception):
    """A cycle of dependencies; `args` are the items in progress, the last one twice."""


def topological_order(ends: Sequence[T], before: Callable[[T], Sequence[T]]) -> list[T]:
    """Return the ends and their dependencies, in topological order.

    `before` returns the dependencies of an item. Raise `CycleError` for a cycle.
    """
    order: list[T] = []
    is_done: dict[T, bool] = {}
    waiting = [(end, False) for end in reversed(ends)]
    while waiting:
        item, is_leaving = waiting.pop()
        if is_leaving:
            is_done[item] = True
            order.append(item)
        elif item not in is_done:
            is_done[item] = False
            waiting.append((item, True))
            waiting += [(needed, False) for needed in reversed(before(item))]
        elif not is_done[item]:
            raise CycleError(
                *(other for other, done in is_done.items() if not done), item
            )
    return order
