"""How Keras 3 and the `.keras` format of Keras 2 name layers."""

import collections
import re


def layer_name(name):
    """Return a layer's name as Keras 3 takes it: `conv1/bn` becomes `conv1_bn`."""
    return name.replace("/", "_")


def snake_case(class_name):
    """Return the name that Keras gives to an object of a class in a container."""
    name = re.sub(r"\W+", "", class_name.rpartition(">")[2])
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def numbered(class_names):
    """Return the names of a container's members: `dense`, `dense_1`."""
    seen, names = collections.Counter(), []
    for class_name in class_names:
        name = snake_case(class_name)
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names
