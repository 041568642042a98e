"""Writes a model of stateful RNNs that has seen a batch: `tests/data/legacy/states`.

Run by hand under TensorFlow 2.4 or 2.15: `python write_states.py OUT` writes
OUT/<release>/: `saved_model/`, without the traced functions, and `expected.npz` with
the next two outputs.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

keras, layers = tf.keras, tf.keras.layers


def drop_functions(path):
    """Make the file small: no reader of layers needs what they compute."""
    with open(path, "rb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    saved.meta_graphs[0].graph_def.Clear()
    saved.meta_graphs[0].object_graph_def.concrete_functions.clear()
    with open(path, "wb") as file:
        file.write(saved.SerializeToString())


def main(out):
    tf.random.set_seed(5)
    options = {"stateful": True, "return_sequences": True}
    cells = [layers.LSTMCell(2), layers.GRUCell(3)]
    model = keras.Sequential(
        [
            layers.LSTM(3, batch_input_shape=(2, 4, 3), name="lstm", **options),
            layers.Bidirectional(layers.GRU(2, **options), name="both"),
            layers.RNN(cells, stateful=True, name="stack"),
        ]
    )
    x = np.random.RandomState(5).uniform(-1, 1, (2, 4, 3)).astype("float32")
    for _ in range(3):
        model.predict(x, batch_size=2)
    folder = os.path.join(out, tf.__version__)
    model.save(os.path.join(folder, "saved_model"), save_format="tf")
    drop_functions(os.path.join(folder, "saved_model", "saved_model.pb"))
    outputs = {"y_%d" % i: model.predict(x, batch_size=2) for i in range(2)}
    np.savez(os.path.join(folder, "expected.npz"), x_0=x, **outputs)


if __name__ == "__main__":
    main(sys.argv[1])
