"""Converts the activations that a legacy config names."""

import functools
from collections.abc import Iterable

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import keras_function, keras_object
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan import arguments, classes
from keras_policies.legacy.plan.report import Converting, Report

OF_KERAS_3 = "keras.activations."  # before a name that tf.keras gave another function


def keras_activation(name: str, dtype: Config, path: str) -> Converting[str | Config]:
    """Return the activation of a name; layers that compute it get the `dtype`."""
    plain = name.removeprefix(OF_KERAS_3)
    if plain != name and plain in arguments.CHANGED_ACTIVATIONS:
        return plain
    custom = classes.registered_name(name)
    if custom is not None:
        return keras_function(custom)
    if name not in arguments.CHANGED_ACTIVATIONS:
        if not classes.is_in("keras.activations", name):
            yield Report(missing=((name, path),))
        return name
    # For a description, made without Keras, the answer changes nothing.
    if keras_names.can_be_read() or _takes_layers():
        return _as_layers(name, dtype)
    note = (
        f"the layer {path!r} uses the {name} of tf.keras, which this Keras no longer "
        "has: a file of this model opens only after `import keras_policies`"
    )
    yield Report(notes=(note,))
    return keras_function(arguments.REGISTERED_ACTIVATIONS[name])


def own_function(name: str, path: str) -> Converting[Config]:
    """Return a user's function, which a config of TensorFlow 2.13 or later names."""
    custom = classes.registered_name(name)
    if custom is None:
        yield Report(missing=((name, path),))
    return keras_function(custom or name)


def _as_layers(name: str, dtype: Config) -> Config:
    """Return the config of a Sequential that computes an activation."""
    inner = [
        keras_object("keras.layers", class_name, {**settings, **dtype})
        for class_name, settings in arguments.CHANGED_ACTIVATIONS[name]
    ]
    return keras_object("keras", "Sequential", {"name": name, "layers": inner})


def check_layers(layers: Iterable[tuple[str, str]]) -> None:
    """Raise if Keras cannot read layers that are activations, `(class, path)` each."""
    for class_name, path in layers:
        if not _takes_layers():
            raise LegacyModelError(
                f"the layer {path!r}: its activation is a layer, {class_name}, which "
                "this Keras cannot read from a config. Install a newer Keras."
            )


@functools.cache
def _takes_layers() -> bool:
    """Return whether this Keras accepts layers as an activation; 3.8 does not."""
    try:
        keras.activations.get(_as_layers("hard_sigmoid", {}))
    except ValueError:
        return False
    return True
