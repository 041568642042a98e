"""The names that Keras 3 and the `.keras` format of Keras 2 give to layers."""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator


def layer_name(name: str) -> str:
    """Return a layer's name as Keras 3 accepts it: `conv1/bn` becomes `conv1_bn`."""
    return name.replace("/", "_")


def beginnings(path: str) -> Iterator[str]:
    """Return `a`, `a/b`, `a/b/c` of a path, in which a name may have a `/` itself."""
    return itertools.accumulate(path.split("/"), "{}/{}".format)


def without_package(class_name: str) -> str:
    """Return a class name without its package: `package>Dense` becomes `Dense`."""
    return class_name.rpartition(">")[2]


def snake_case(class_name: str) -> str:
    """Return the name that Keras gives to an object of a class in a container."""
    name = re.sub(r"\W+", "", without_package(class_name))
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def numbered(class_names: Iterable[str]) -> list[str]:
    """Return the names of a container's members: `dense`, `dense_1`."""
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for class_name in class_names:
        name = snake_case(class_name)
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names
