"""Small accessors of layers and models, for what has no public name."""

import keras
import numpy as np
from keras import backend, ops, tree
from keras.src.backend.common import global_state, name_scope
from keras.src.layers import layer as layer_module
from keras.src.layers.preprocessing.image_preprocessing.base_image_preprocessing_layer import (  # noqa: E501
    BaseImagePreprocessingLayer as ImagePreprocessing,
)
from keras.src.models import functional
from keras.src.utils import tracking

no_automatic_dependency_tracking = tracking.no_automatic_dependency_tracking

flatten = tree.flatten
map_structure = tree.map_structure

PolicyMap = keras.dtype_policies.DTypePolicyMap


def own_policy(layer):
    """Return a layer's policy; out of a `DTypePolicyMap`, that of its path."""
    policy = layer._dtype_policy
    return policy[_path(layer)] if isinstance(policy, PolicyMap) else policy


def set_own_policy(layer, policy):
    """Give `layer` a policy; in a `DTypePolicyMap`, in a copy for this layer."""
    current = layer._dtype_policy
    if isinstance(current, PolicyMap):
        entries = {**current._policy_map, _path(layer): policy}
        policy = PolicyMap(current._default_policy_arg, entries)
    layer._dtype_policy = policy


def _path(layer):
    if layer.path:
        return layer.path
    parent = name_scope.current_path()
    return f"{parent}/{layer.name}" if parent else layer.name


def enclosing_layers():
    """Return the layers being built or called now, innermost first.

    Keras: src/backend/common/name_scope.py.
    """
    scopes = global_state.get_global_attribute("name_scope_stack") or []
    return [s.caller for s in reversed(scopes) if isinstance(s.caller, keras.Layer)]


def sublayers(layer):
    """Return `layer` and every layer in it, in a fixed order."""
    return list(layer._flatten_layers())


def parts_never_called(layer):
    """Return the parts of a layer that it uses without building or calling them.

    Keras: src/layers/preprocessing/image_preprocessing; AugMix and its like call
    their parts' `transform_images`.
    """
    return sublayers(layer)[1:] if isinstance(layer, ImagePreprocessing) else []


def first_dtype(structure):
    """Return the dtype name of the first tensor in a structure, or None.

    Tensors are a backend's, symbolic ones, and whatever has `__array__`, which
    counts with the dtype that Keras converts it to.
    """
    for x in flatten(structure):
        if ops.is_tensor(x) or backend.is_keras_tensor(x):
            return backend.standardize_dtype(x.dtype)
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSTU":
            return "string"
        if hasattr(x, "__array__"):
            return backend.standardize_dtype(ops.convert_to_tensor(x).dtype)
    return None


def build_for(layer, args, kwargs):
    """Build `layer` for a call on `args` and `kwargs`, as the call itself would.

    Keras: src/layers/layer.py, `Layer.__call__`, steps 1 to 4.
    """

    def convert(x):
        return layer.dtype_policy.convert_input(x, False, None)

    kwargs = dict(kwargs)
    if layer._convert_input_args:
        args, kwargs = map_structure(convert, args), map_structure(convert, kwargs)
    context = [layer._call_context_args] if hasattr(layer, "_call_context_args") else []
    spec = layer_module.CallSpec(layer._call_signature, *context, args, kwargs)
    with layer._open_name_scope():
        layer._maybe_build(spec)


def calls_before(tensor, given=frozenset()):
    """Return the calls that have made a symbolic tensor out of others, last first.

    Args:
        tensor: `KerasTensor`.
        given: set of the ids of the tensors to stop at; else those of InputLayers.

    Returns:
        List of `(operation, inputs, outputs)`, with lists of `KerasTensor`.

    Keras: src/backend/common/keras_tensor.py, src/ops/node.py.
    """
    found, waiting = {}, [tensor]
    while waiting:
        tensor = waiting.pop(0)
        history = tensor._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if id(tensor) in given or id(node) in found:
            continue
        inputs = node.arguments.keras_tensors
        found[id(node)] = history.operation, inputs, node.outputs
        waiting += inputs
    return list(found.values())


def is_functional(model):
    """Return whether a model is a Functional one, whose layers make a graph.

    Keras: src/models/functional.py. Its class has no public name.
    """
    return isinstance(model, functional.Functional)


# What `Layer` keeps beside the attributes that a subclass sets, and the beginning of
# what TensorFlow's trackable objects do.
_TRACKING_PREFIX = "_self_"
_TRACKING = frozenset(
    (
        "_layers",
        "_metrics",
        "_modules",
        "_non_trainable_variables",
        "_seed_generators",
        "_torch_params",
        "_tracked",
        "_trainable_variables",
    )
)


def own_attributes(layer):
    """Return `[(name, value), …]`, the attributes that a layer's class has set.

    Keras: src/layers/layer.py, src/backend/{tensorflow,torch}/layer.py. A layer is a
    torch module on torch, which keeps the modules among its attributes apart.
    """
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    return [
        (name, value)
        for name, value in sorted(attributes.items())
        if name not in _TRACKING and not name.startswith(_TRACKING_PREFIX)
    ]


def own_variables(layer):
    """Return the variables of a layer itself, in the order of a `.keras` file.

    Keras: src/layers/layer.py, `Layer.save_own_variables`.
    """
    return [*layer._trainable_variables, *layer._non_trainable_variables]
