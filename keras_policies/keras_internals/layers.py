"""The parts, the attributes and the variables of a layer."""

from typing import Any

import keras

from keras_policies.keras_internals.places import INFER, WEIGHTS, needs

# Attributes that Keras and its backends set on every layer, beside those of its class.
_TRACKING_PREFIX = "_self_"  # of TensorFlow's trackable objects
_TRACKING = {
    "_layers",
    "_metrics",
    "_modules",
    "_non_trainable_variables",
    "_seed_generators",
    "_torch_params",
    "_tracked",
    "_trainable_variables",
}


@needs(INFER)
def enclosing_layers() -> list[keras.Layer]:
    """Return the layers that are being built or called now, innermost first.

    Keras: src/backend/common/name_scope.py.
    """
    from keras.src.backend.common import global_state

    scopes = global_state.get_global_attribute("name_scope_stack") or []
    return [s.caller for s in reversed(scopes) if isinstance(s.caller, keras.Layer)]


def sublayers(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and every layer in it, in a fixed order."""
    return list(layer._flatten_layers())


def parts(layer: keras.Layer) -> list[keras.Layer]:
    """Return the layers directly in a layer, without the InputLayers of a model.

    Keras: src/layers/layer.py, `Layer._flatten_layers`.
    """
    if isinstance(layer, keras.Model):
        found = layer.layers
    else:
        found = layer._flatten_layers(include_self=False, recursive=False)
    return [part for part in found if not isinstance(part, keras.layers.InputLayer)]


def parts_never_called(layer: keras.Layer) -> list[keras.Layer]:
    """Return the parts of a layer that it uses without building or calling them.

    AugMix and similar layers have a method `transform_images`, and call that of their
    parts.
    """
    return sublayers(layer)[1:] if hasattr(layer, "transform_images") else []


@needs(WEIGHTS)
def own_attributes(layer: keras.Layer) -> list[tuple[str, Any]]:
    """Return `[(name, value), …]`, the attributes that a layer's class has set.

    Keras: src/layers/layer.py, src/backend/{tensorflow,torch}/layer.py. On torch a
    layer is a torch module, which keeps other modules apart from its attributes.
    """
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    return [
        (name, value)
        for name, value in sorted(attributes.items())
        if name not in _TRACKING and not name.startswith(_TRACKING_PREFIX)
    ]


@needs(WEIGHTS)
def own_variables(layer: keras.Layer) -> list[keras.Variable]:
    """Return the variables of a layer without its parts, in a `.keras` file's order.

    Keras: src/layers/layer.py, `Layer.save_own_variables`.
    """
    return [*layer._trainable_variables, *layer._non_trainable_variables]
