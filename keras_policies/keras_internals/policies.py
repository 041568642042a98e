"""The policy that a layer holds or that applies to it, and the name of a policy."""

import copy
from typing import TypeVar

import keras

from keras_policies.keras_internals.places import INFER, needs

PolicyMap = keras.dtype_policies.DTypePolicyMap
Kind = TypeVar("Kind", bound=keras.DTypePolicy)


def held_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the policy object of a layer, which may be a `DTypePolicyMap`."""
    return layer._dtype_policy


def own_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the policy of a layer; from a `DTypePolicyMap`, the entry of its path."""
    policy = held_policy(layer)
    return policy[_path(layer)] if isinstance(policy, PolicyMap) else policy


def set_own_policy(layer: keras.Layer, policy: keras.DTypePolicy) -> None:
    """Give `layer` a policy; if it holds a `DTypePolicyMap`, an entry in a copy."""
    current = held_policy(layer)
    if isinstance(current, PolicyMap):
        policy = _with_entry(current, _path(layer), policy)
    layer._dtype_policy = policy


def _with_entry(
    policies: keras.dtype_policies.DTypePolicyMap, path: str, policy: keras.DTypePolicy
) -> keras.dtype_policies.DTypePolicyMap:
    """Return a copy of a map, with the same policies and one more."""
    held = {id(other): other for other in policies.values()}
    copied = copy.deepcopy(policies, held)
    if path in copied:
        del copied[path]
    copied[path] = policy
    return copied


def _path(layer: keras.Layer) -> str:
    if layer.path:
        return str(layer.path)
    parent = _current_path()
    return f"{parent}/{layer.name}" if parent else str(layer.name)


@needs(INFER)
def _current_path() -> str:
    from keras.src.backend.common import name_scope

    return str(name_scope.current_path())


def keeps_its_name(cls: type[Kind]) -> type[Kind]:
    """Class decorator: `_name`, which Keras reads and sets, is always `name`.

    Keras: src/dtype_policies/dtype_policy_map.py, `get_config` sets `_name` of the
    policies in the map to None.
    """
    cls._name = property(lambda self: self.name, lambda self, value: None)
    return cls
