"""Walks over graphs, without recursion: files nest deeper than Python can call."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import Function, Node, Output

T = TypeVar("T")


class CycleError(Exception):
    """A cycle of dependencies; `args` are the items on the path, the last one twice."""


def reachable(
    starts: Iterable[T],
    successors: Callable[[T], Iterable[T]],
    *,
    nearest_first: bool = False,
) -> Iterator[T]:
    """Yield the starts and everything reachable from them, each once.

    The order is depth first, or breadth first if `nearest_first`. The successors of an
    item are not computed before the next item is requested.

    Example:
        >>> edges = {"a": "bc", "b": "d", "c": "", "d": "a"}
        >>> "".join(reachable("a", edges.get))
        'abdc'
    """
    waiting, seen = collections.deque(starts), set[T]()
    while waiting:
        item = waiting.popleft()
        if item in seen:
            continue
        seen.add(item)
        yield item
        if nearest_first:
            waiting.extend(successors(item))
        else:
            waiting.extendleft([*successors(item)][::-1])


def topological_order(ends: Iterable[T], before: Callable[[T], Sequence[T]]) -> list[T]:
    """Return the ends and their dependencies in topological order, depth first.

    `before` returns the dependencies of an item. Raise `CycleError` for a cycle. Unlike
    `graphlib`, this keeps the order of the ends, which decides the names of layers.
    """
    order: list[T] = []
    is_done: dict[T, bool] = {}
    waiting = [(end, False) for end in [*ends][::-1]]
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


def needed_nodes(function: Function, ends: Iterable[Output]) -> dict[str, Node]:
    """Return the nodes that the outputs `ends` depend on, in topological order."""
    arguments, nodes = {*function.arguments}, function.nodes

    def before(name: str) -> list[str]:
        if name not in nodes:
            raise LegacyModelError(f"corrupt: {function.name} has no node {name!r}.")
        inputs = (output.node for output in nodes[name].inputs)
        return [other for other in inputs if other not in arguments]

    first = [end.node for end in ends if end.node not in arguments]
    try:
        return {name: nodes[name] for name in topological_order(first, before)}
    except CycleError as cycle:
        reason = f"corrupt: {function.name} has a cycle at {cycle.args[-1]!r}."
        raise LegacyModelError(reason) from None


def ancestors(nodes: Mapping[str, Node], name: str) -> Iterator[Node]:
    """Yield a node and the nodes that it is computed from, nearest first."""

    def inputs(name: str) -> Iterator[str]:
        return (x.node for x in nodes[name].inputs if x.node in nodes)

    names = reachable({name} & nodes.keys(), inputs, nearest_first=True)
    return (nodes[name] for name in names)
