"""Writes models whose lookup layers are nested, read a file, or are held by code.

    python write_lookups.py OUTDIR

Under TensorFlow 2.3.4, 2.4.4, 2.10.1 or 2.15.1: OUTDIR/<release>/<case>/ with
`saved_model/`, `model.h5`, `model.keras` (2.15) and `expected.npz`. The other models of
`lookups.tar.xz` are from `write_layers.py`; `pack.py` packs them all.
"""

import os
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras = tf.keras
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
layers = keras.layers
if RELEASE < (2, 6):
    layers = layers.experimental.preprocessing
FORMS = {"saved_model": "tf", "model.h5": "h5"}
if RELEASE >= (2, 15):
    FORMS["model.keras"] = "keras"

WORDS = np.array([["a", "b"], ["c", "zz"], ["", "a"]])
TEXT = np.array([["the cat"], ["A dog ran"], ["on"]])
TEXTS = np.array(["the cat ran", "the dog", "a cat"])


@keras.utils.register_keras_serializable("test")
class Held(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.table = layers.StringLookup()

    def call(self, inputs):
        return self.table(inputs)

    def get_config(self):
        return super().get_config()


@keras.utils.register_keras_serializable("test")
class Sub(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.vectorize = layers.TextVectorization()

    def call(self, inputs):
        return self.vectorize(inputs)

    def get_config(self):
        return {}


def save(folder, model, inputs):
    os.makedirs(folder)
    tensors = [tf.constant(x) for x in inputs]
    outputs = model(tensors if len(tensors) > 1 else tensors[0], training=False)
    stored = {"x_%d" % i: x for i, x in enumerate(inputs)}
    stored.update({"y_%d" % i: y for i, y in enumerate(tf.nest.flatten(outputs))})
    np.savez(os.path.join(folder, "expected.npz"), **stored)
    for name, save_format in FORMS.items():
        path = os.path.join(folder, name)
        try:
            model.save(path, save_format=save_format)
        except NotImplementedError as error:  # H5 takes no tables, nor subclassed models
            print(folder, name, error)
            if os.path.exists(path):
                os.remove(path)


def nested():
    words = layers.StringLookup(name="words")
    words.adapt(np.array([["a"], ["b"], ["a"], ["c"]]))
    encoder = keras.Sequential([keras.Input((None,), dtype="string"), words], "encoder")
    text = layers.TextVectorization(output_sequence_length=4, name="text")
    text.adapt(TEXTS)
    entry = keras.Input((1,), dtype="string")
    texts = keras.Model(entry, text(entry), name="texts")
    inputs = [
        keras.Input((None,), dtype="string", name="x_0"),
        keras.Input((1,), dtype="string", name="x_1"),
    ]
    outputs = [encoder(inputs[0]), texts(inputs[1])]
    return keras.Model(inputs, outputs, name="outer"), [WORDS, TEXT]


def of_file():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "words.txt")
    with open(path, "w") as file:
        file.write("a\nb\nc\n")
    entry = keras.Input((None,), dtype="string", name="x_0")
    layer = layers.StringLookup(vocabulary=path, name="layer")
    return keras.Model(entry, layer(entry)), [WORDS]


def held_by_a_layer():
    held = Held(name="layer")
    held.table.adapt(np.array([["a"], ["b"], ["a"]]))
    entry = keras.Input((None,), dtype="string", name="x_0")
    return keras.Model(entry, held(entry)), [WORDS]


def held_by_a_model():
    model = Sub()
    model.vectorize.adapt(TEXTS)
    return model, [TEXT]


CASES = {
    "Lookup-nested": nested,
    "StringLookup-file": of_file,
    "Held-layer": held_by_a_layer,
    "Held-model": held_by_a_model,
}

if __name__ == "__main__":
    for name, make in CASES.items():
        save(os.path.join(sys.argv[1], tf.__version__, name), *make())
