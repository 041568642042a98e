"""Walks through nests of lists, tuples and dicts."""

from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def of_kind(nest: Any, kind: type[Item]) -> Iterator[Item]:
    """Yield the instances of a class in a nest, but none inside of such an instance."""
    if isinstance(nest, kind):
        yield nest
    elif isinstance(nest, dict | list | tuple):
        for item in nest.values() if isinstance(nest, dict) else nest:
            yield from of_kind(item, kind)
