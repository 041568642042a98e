"""Freezes the parts of frozen layers, whose weights tf.keras did not train.

tf.keras trained a weight if all layers that contain it are trainable: its own layer,
the wrapper of that, and so on. Keras 3 looks at its own layer alone. Source:
`trainable_weights` in keras/engine/base_layer.py of Keras 2.
"""

from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.outcomes import LeftOut, Outcome

layers = keras.layers
# Layers with the configs of their parts, or whose parts take the flag from them.
WITH_CONFIGS = keras.Model, layers.Bidirectional, layers.Wrapper, layers.RNN
WITHOUT = layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D


def freeze(model: keras.Model) -> Iterator[LeftOut]:
    """Freeze the parts of frozen layers, and yield what differs nevertheless.

    A part that a trainable layer contains, too, is trained.
    """
    trained = _trained(model)
    for layer in keras_internals.sublayers(model):
        inner = [] if layer.trainable else keras_internals.sublayers(layer)[1:]
        parts = [part for part in inner if part.trainable_weights]
        parts = [part for part in parts if trained.isdisjoint(_ids(part))]
        if not parts:
            continue
        for each in parts if trained & _ids(layer) else [layer]:
            each.trainable = False  # and all in it
        for part in parts:
            if isinstance(part, layers.BatchNormalization):
                moved = f"the statistics of {part.name!r}, as {layer.name!r} is frozen"
                yield LeftOut(moved, "KP605")
        if isinstance(layer, WITHOUT) or not isinstance(layer, WITH_CONFIGS):
            text = (
                f"that {layer.name!r} is frozen, in a file that you save: in plain "
                "Keras, set its trainable=False after loading"
            )
            yield LeftOut(text, "KP605", Outcome.COMPLETE)


def _trained(model: keras.Model) -> set[int]:
    """Return the ids of the layers that are reached through trainable layers alone."""
    found, waiting = set[int](), [model]
    while waiting:
        layer = waiting.pop()
        if layer.trainable and id(layer) not in found:
            found.add(id(layer))
            waiting += keras_internals.parts(layer)
    return found


def _ids(layer: keras.Layer) -> set[int]:
    """Return the ids of a layer and of all layers in it."""
    return {*map(id, keras_internals.sublayers(layer))}
