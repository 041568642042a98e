"""Writes fine-tuned models of keras.applications: `frozen_applications.tar.xz`.

Run by hand: `python write_frozen_applications.py OUTDIR`, under TensorFlow 2.4.4 and
2.15.1. Each base of BASES is trained from a layer on, as in the tutorial "Transfer
learning and fine-tuning" of tensorflow.org. OUTDIR/<release>/<name>/ gets `model.h5`,
`weights.h5`, and `expected.json`, `{layer/weight: its value}`: all numbers in a weight
are equal, so that the files compress, and no two weights have the same.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

keras, apps = tf.keras, tf.keras.applications
# Class -> the number of layers that are frozen.
BASES = {"MobileNetV2": 100, "EfficientNetB0": 120, "ResNet50": 100}


def fine_tuned(name, frozen):
    base = getattr(apps, name)(weights=None, include_top=False, input_shape=(64, 64, 3))
    base.trainable = True
    for layer in base.layers[:frozen]:
        layer.trainable = False
    inputs = keras.Input((64, 64, 3))
    x = keras.layers.GlobalAveragePooling2D()(base(inputs, training=False))
    x = keras.layers.Dropout(0.2)(x)
    return keras.Model(inputs, keras.layers.Dense(1, name="head")(x)), base


def write(name, frozen):
    keras.backend.clear_session()
    model, base = fine_tuned(name, frozen)
    expected = {}
    for layer in (*base.layers, model.layers[-1]):
        for variable in layer.weights:
            kind = variable.name.split("/")[-1].split(":")[0]
            value = expected[f"{layer.name}/{kind}"] = len(expected) + 1
            variable.assign(tf.fill(variable.shape, tf.cast(value, variable.dtype)))
    folder = os.path.join(sys.argv[1], tf.__version__, name)
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"), include_optimizer=False)
    model.save_weights(os.path.join(folder, "weights.h5"))
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file)


if __name__ == "__main__":
    for name, frozen in BASES.items():
        write(name, frozen)
