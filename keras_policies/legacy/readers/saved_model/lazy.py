"""Mappings whose keys and values are made when they are looked up."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from keras_policies.legacy.base.errors import corrupt

K = TypeVar("K")
S = TypeVar("S")
V = TypeVar("V")


class Lazy(Mapping[K, V], Generic[K, S, V]):
    """A mapping that makes each value once, from a source with the same key.

    Errors are those of the file at `path`.

    Example:
        >>> lengths = Lazy(pathlib.Path("model.pb"), lambda: {"a": [1, 2]}, len)
        >>> lengths["a"]
        2
    """

    def __init__(
        self,
        path: pathlib.Path,
        sources: Callable[[], Mapping[K, S]],
        make: Callable[[S], V],
    ) -> None:
        self._path = path
        self._find_sources = sources
        self._make = make
        self._made: dict[K, V] = {}

    @functools.cached_property
    def _sources(self) -> Mapping[K, S]:
        with corrupt(self._path):
            return self._find_sources()

    def __getitem__(self, key: K) -> V:
        if key not in self._made:
            source = self._sources[key]
            with corrupt(self._path):
                self._made[key] = self._make(source)
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._sources

    def __iter__(self) -> Iterator[K]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
