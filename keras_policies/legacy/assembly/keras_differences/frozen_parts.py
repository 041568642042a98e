"""Freezes the parts of frozen layers, whose weights tf.keras did not train.

tf.keras trained a weight if each layer around it is trainable. Keras 3 trains it if the
layer that has it is. Source: `trainable_weights` in keras/engine/base_layer.py of
Keras 2.
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
    """Freeze the parts of frozen layers, and yield what differs nevertheless."""
    for layer in keras_internals.sublayers(model):
        parts = [] if layer.trainable else keras_internals.sublayers(layer)[1:]
        trained = [part for part in parts if part.trainable_weights]
        if not trained:
            continue
        layer.trainable = False
        for part in trained:
            if isinstance(part, layers.BatchNormalization):
                moved = f"the statistics of {part.name!r}, as {layer.name!r} is frozen"
                yield LeftOut(moved, "KP605")
        if isinstance(layer, WITHOUT) or not isinstance(layer, WITH_CONFIGS):
            text = (
                f"that {layer.name!r} is frozen, in a file that you save: in plain "
                "Keras, set its trainable=False after loading"
            )
            yield LeftOut(text, "KP605", Outcome.COMPLETE)
