"""The policy, the parts, the attributes and the variables of a layer.

Keras: src/layers/layer.py, src/backend/{tensorflow,torch}/layer.py,
src/backend/common/name_scope.py.
"""

import contextlib
import copy
from typing import Any, TypeVar

import keras

from keras_policies.keras_internals.private_api import INFER, WEIGHTS, needs
from keras_policies.keras_internals.wrapping import Function, patched

Kind = TypeVar("Kind", bound=keras.DTypePolicy)
PolicyMap = keras.dtype_policies.DTypePolicyMap

# Attributes that Keras and its backends set on every layer.
_TRACKING_PREFIX = "_self_"  # of TensorFlow's trackable objects
_TRACKING = {
    *("_layers", "_metrics", "_modules", "_non_trainable_variables"),
    *("_seed_generators", "_torch_params", "_tracked", "_trainable_variables"),
    *("_functional", "_operations"),  # of a Sequential or Functional model
}


@needs(INFER)
def enclosing_layers() -> list[keras.Layer]:
    """Return the layers that are being built or called now, innermost first."""
    from keras.src.backend.common import global_state

    with keras.name_scope("innermost"):  # else there may be no stack
        *scopes, _ = global_state.get_global_attribute("name_scope_stack")
    return [s.caller for s in reversed(scopes) if isinstance(s.caller, keras.Layer)]


def sublayers(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and every layer in it, in a fixed order."""
    return list(layer._flatten_layers())


def parts(layer: keras.Layer) -> list[keras.Layer]:
    """Return the layers directly in a layer, without the InputLayers of a model."""
    if isinstance(layer, keras.Model):
        inner = layer.layers
    else:
        inner = layer._flatten_layers(include_self=False, recursive=False)
    return [part for part in inner if not isinstance(part, keras.layers.InputLayer)]


def parts_never_called(layer: keras.Layer) -> list[keras.Layer]:
    """Return the parts of a layer that it uses without building or calling them.

    AugMix and similar layers only call the method `transform_images` of their parts. On
    torch an RNN reads the weights of its cell.
    """
    uses_parts = isinstance(layer, keras.layers.RNN)
    uses_parts = uses_parts or hasattr(layer, "transform_images")
    return sublayers(layer)[1:] if uses_parts else []


@needs(WEIGHTS)
def own_attributes(layer: keras.Layer) -> list[tuple[str, Any]]:
    """Return `[(name, value), …]`, the attributes that a layer's class has set.

    On torch a layer is a torch module, which keeps other modules apart from these.
    """
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    return [
        (name, value)
        for name, value in sorted(attributes.items())
        if name not in _TRACKING and not name.startswith(_TRACKING_PREFIX)
    ]


@needs(WEIGHTS)
def own_variables(
    layer: keras.Layer,
) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Return the variables of a layer without its parts, those it trains and others.

    A frozen layer keeps them apart. A `.keras` file has first these, then those.
    """
    return list(layer._trainable_variables), list(layer._non_trainable_variables)


# An attribute of a layer. TensorFlow does not track names with this prefix.
_GIVEN = "_self_keras_policies_given"


def noting_given_dtypes() -> contextlib.AbstractContextManager[None]:
    """Note, for each layer created in the context, whether it was passed a dtype."""

    def _init(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        note_given(self, is_given=kwargs.get("dtype") is not None)

    return patched(keras.Layer, "__init__", _init)


def note_given(layer: keras.Layer, *, is_given: bool = True) -> None:
    """Note whether somebody chose the policy of a layer."""
    vars(layer)[_GIVEN] = is_given


def is_given(layer: keras.Layer) -> bool:
    """Return whether somebody chose the policy of a layer; True if unknown."""
    return bool(vars(layer).get(_GIVEN, True))


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
        memo = {id(other): other for other in current.values()}  # not copied
        copied, path = copy.deepcopy(current, memo), _path(layer)
        if path in copied:
            del copied[path]
        copied[path] = policy
        policy = copied
    layer._dtype_policy = policy


def _path(layer: keras.Layer) -> str:
    return str(layer.path or _path_of_unbuilt(layer))


@needs(INFER)
def _path_of_unbuilt(layer: keras.Layer) -> str:
    from keras.src.backend.common import name_scope

    parent = name_scope.current_path()
    return f"{parent}/{layer.name}" if parent else layer.name


def keeps_its_name(cls: type[Kind]) -> type[Kind]:
    """Class decorator: `_name` is always `name`.

    Keras: src/dtype_policies/dtype_policy_map.py, `get_config` sets it to None.
    """
    cls._name = property(lambda self: self.name, lambda self, value: None)
    return cls
