"""What an activation's name in a legacy config becomes."""

import functools

import keras

from keras_policies.legacy.plan import arguments, classes


def convert(name, dtype, notes, path):
    """Return an activation by name: the user's own function first.

    Args:
        name: str, as written.
        dtype: dict, `{"dtype": ...}` of its layer, converted, or empty.
        notes: list of str, told if a file of the model needs this package.
        path: str, the layer.
    """
    custom = classes.registered_name(name)
    if custom is not None:
        return _function(custom)
    if name not in arguments.CHANGED_ACTIVATIONS:
        return name
    if _takes_layers():
        return _layers(name, dtype)
    notes.append(
        f"the layer {path!r} uses the {name} of tf.keras, which this Keras no longer "
        "has: a file of this model opens only after `import keras_policies`"
    )
    return _function(arguments.REGISTERED_ACTIVATIONS[name])


def _function(registered):
    function = {"module": "builtins", "class_name": "function", "config": registered}
    return {**function, "registered_name": registered}


def _layers(name, dtype):
    """Return the config of stock layers, one after the other, for an activation."""
    inner = [
        _stock("keras.layers", class_name, {**settings, **dtype})
        for class_name, settings in arguments.CHANGED_ACTIVATIONS[name]
    ]
    return _stock("keras", "Sequential", {"name": name, "layers": inner})


def _stock(module, class_name, config):
    known = {"module": module, "class_name": class_name, "registered_name": None}
    return {**known, "config": config}


@functools.cache
def _takes_layers():
    """Return whether this Keras reads layers as an activation, as 3.8 does not."""
    try:
        keras.activations.get(_layers("hard_sigmoid", {}))
    except ValueError:
        return False
    return True
