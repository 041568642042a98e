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
    """A function that is called.

    Args:
        nodes: those that its outputs need, each after those that it takes.
        held: `{name: variable}` of arguments and nodes that are a variable's value.
    """

    function: Function
    nodes: Mapping[str, Node]
    held: Mapping[str, int]

    @functools.cached_property
    def consumers(self) -> Mapping[str, Sequence[tuple[str, Output]]]:
        """By node, `(node that takes an output of it, the output)`; "" is the end."""
        found = collections.defaultdict(list)
        for name, node in self.nodes.items():
            for taken in node.inputs:
                found[taken.node].append((name, taken))
        for taken in self.function.outputs:
            found[taken.node].append(("", taken))
        return found

    def inputs(self, names: Iterable[str]) -> Iterator[Output]:
        """Yield what nodes take."""
        return (taken for name in names for taken in self.nodes[name].inputs)

    def is_op(self, output: Output, *ops: str) -> bool:
        """Return whether an output is that of a node with one of some ops."""
        return output.node in self.nodes and self.nodes[output.node].op in ops


def body(function: Function, given: Sequence[Value]) -> Subgraph:
    """Return what a function needs for a call with these arguments."""
    if len(given) != len(function.arguments):
        raise LegacyModelError(
            f"corrupt: {function.name} takes {len(function.arguments)} arguments, it "
            f"is called with {len(given)}."
        )
    nodes = _needed(function)
    arguments = zip(function.arguments, given, strict=True)
    held = {name: v.variable for name, v in arguments if isinstance(v, VariableRef)}
    for name, node in nodes.items():
        if node.op in PASSING and node.op != "IdentityN" and node.inputs:
            variable = held.get(node.inputs[0].node)
            if variable is not None:
                held[name] = variable
    return Subgraph(function, nodes, held)


def _needed(function: Function) -> dict[str, Node]:
    arguments = set(function.arguments)

    def before(name: str) -> list[str]:
        if name not in function.nodes:
            raise LegacyModelError(f"corrupt: {function.name} has no node {name!r}.")
        inputs = function.nodes[name].inputs
        return [taken.node for taken in inputs if taken.node not in arguments]

    ends = [one.node for one in function.outputs if one.node not in arguments]
    try:
        return {name: function.nodes[name] for name in topological_order(ends, before)}
    except CycleError as cycle:
        reason = f"corrupt: {function.name} has a cycle at {cycle.args[-1]!r}."
        raise LegacyModelError(reason) from None


class CycleError(Exception):
    """Things that need one another; `args` are those around the last one."""


def topological_order(ends: Sequence[T], before: Callable[[T], Sequence[T]]) -> list[T]:
    """Return what the ends need, each after what it needs itself.

    `before` says what something needs. Raise `CycleError` if it needs itself.
    """
    order: list[T] = []
    is_done: dict[T, bool] = {}
    waiting = [(end, False) for end in reversed(ends)]
    while waiting:
        one, is_left = waiting.pop()
        if is_left:
            is_done[one] = True
            order.append(one)
        elif one not in is_done:
            is_done[one] = False
            waiting.append((one, True))
            waiting += [(taken, False) for taken in reversed(before(one))]
        elif not is_done[one]:
            raise CycleError(
                *(other for other, done in is_done.items() if not done), one
            )
    return order
