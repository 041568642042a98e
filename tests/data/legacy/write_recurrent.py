"""Writes SavedModels without Keras metadata that hold recurrent layers, one a case.

    python write_recurrent.py OUTDIR [CASE ...]

Under TensorFlow 2.0.0, 2.4.4 and 2.15.1, and under Keras 3.15.1 on TensorFlow, which writes
to OUTDIR/keras-3.15.1/. A case is a folder `model` and `expected.npz`: `w_n` are the weights;
`x_n_i` are the inputs, and `y_n_i` the outputs in the order of their names, of batch n. The
batches differ in their sizes and lengths.
"""

import os
import shutil
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
VERSION = getattr(keras, "__version__", "2")
IS_KERAS_3 = VERSION.startswith("3")
RELEASE = "keras-" + VERSION if IS_KERAS_3 else tf.__version__
BATCHES = (3, 5), (2, 8)  # sizes and lengths
WORDS = 6
CASES = {}
CUDNN = "cudnn", "cudnn_last"


def case(function):
    CASES[function.__name__] = function
    return function


def of_layers(*stack, **options):
    batch = options.get("batch", {})
    inputs = keras.Input(options.get("shape", (None, 4)), name="x", **batch)
    x = inputs
    for layer in stack:
        x = layer(x)
    return keras.Model(inputs, x)


def of_words(*stack):
    inputs = keras.Input((None,), dtype="int32", name="x")
    x = layers.Embedding(WORDS, 3, mask_zero=True)(inputs)
    for layer in stack:
        x = layer(x)
    return keras.Model(inputs, x)


@case
def lstm():
    return of_layers(layers.LSTM(3), layers.Dense(2))


@case
def lstm_sequences():
    return of_layers(layers.LSTM(4, return_sequences=True))


@case
def lstm_state():
    return of_layers(layers.LSTM(3, return_state=True))


@case
def lstm_everything():
    return of_layers(layers.LSTM(3, return_state=True, return_sequences=True))


@case
def lstm_no_bias():
    return of_layers(layers.LSTM(3, use_bias=False))


@case
def lstm_activations():
    return of_layers(layers.LSTM(3, "relu", "hard_sigmoid", return_sequences=True))


@case
def lstm_backwards():
    return of_layers(layers.LSTM(3, go_backwards=True, return_sequences=True))


@case
def lstm_words():
    return of_words(layers.LSTM(3), layers.Dense(2))


@case
def lstm_masked():
    return of_layers(layers.Masking(), layers.LSTM(3, return_sequences=True))


@case
def lstm_time_major():
    return of_layers(layers.LSTM(3, time_major=True, return_sequences=True))


@case
def lstm_implementation():
    return of_layers(layers.LSTM(3, implementation=1, recurrent_dropout=0.2, dropout=0.1))


@case
def gru():
    return of_layers(layers.GRU(3), layers.Dense(2))


@case
def gru_sequences():
    return of_layers(layers.GRU(4, return_sequences=True))


@case
def gru_state():
    return of_layers(layers.GRU(3, return_state=True))


@case
def gru_before():
    return of_layers(layers.GRU(3, reset_after=False))


@case
def gru_before_implementation():
    return of_layers(layers.GRU(3, reset_after=False, implementation=1, use_bias=False))


@case
def gru_after_no_bias():
    return of_layers(layers.GRU(3, reset_after=True, use_bias=False))


@case
def gru_backwards():
    return of_layers(layers.GRU(3, go_backwards=True))


@case
def gru_words():
    return of_words(layers.GRU(3, return_sequences=True), layers.GRU(2))


@case
def simple():
    return of_layers(layers.SimpleRNN(3))


@case
def simple_relu():
    return of_layers(layers.SimpleRNN(3, "relu", return_sequences=True, use_bias=False))


@case
def simple_words():
    return of_words(layers.SimpleRNN(3))


@case
def rnn_of_cell():
    return of_layers(layers.RNN(layers.GRUCell(3), return_sequences=True))


@case
def bidirectional():
    return of_layers(layers.Bidirectional(layers.LSTM(3)), layers.Dense(2))


@case
def bidirectional_sequences():
    stack = layers.Bidirectional(layers.GRU(3, return_sequences=True), "sum")
    return of_layers(stack, layers.Bidirectional(layers.SimpleRNN(2), "ave"))


@case
def bidirectional_words():
    return of_words(
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.Bidirectional(layers.GRU(2)),
    )


@case
def stacked():
    return of_layers(
        layers.LSTM(5, return_sequences=True),
        layers.GRU(4, return_sequences=True),
        layers.SimpleRNN(3, return_sequences=True),
        layers.Dense(2),
    )


@case
def shared():
    inputs = keras.Input((None, 4), name="x")
    lstm = layers.LSTM(3)
    return keras.Model(inputs, layers.subtract([lstm(inputs), lstm(inputs * 2.0)]))


@case
def tied():
    """Both directions have the same weights."""
    inputs, cell = keras.Input((None, 4), name="x"), layers.GRUCell(3)
    found = [layers.RNN(cell)(inputs), layers.RNN(cell, go_backwards=True)(inputs)]
    return keras.Model(inputs, layers.concatenate(found))


@case
def encoder_decoder():
    inputs = keras.Input((None, 4), name="x")
    _, *states = layers.LSTM(3, return_state=True)(inputs)
    x = layers.LSTM(3, return_sequences=True)(inputs, initial_state=states)
    return keras.Model(inputs, layers.Dense(2)(x))


@case
def caption():
    """The states come from a Dense."""
    inputs = keras.Input((None, 4), name="x")
    state = layers.Dense(3, "tanh")(layers.GlobalAveragePooling1D()(inputs))
    lstm = layers.LSTM(3, return_sequences=True)
    return keras.Model(inputs, lstm(inputs, initial_state=[state, state]))


@case
def rare_activations():
    return of_layers(
        layers.LSTM(3, "elu", "softsign", return_sequences=True),
        layers.GRU(2, "softplus", "hard_sigmoid", return_sequences=True),
        layers.GRU(3, "selu", "relu", reset_after=False, return_sequences=True),
        layers.SimpleRNN(2, "swish"),
    )


@case
def one_unit():
    return of_layers(
        layers.LSTM(1, return_sequences=True),
        layers.GRU(1, return_sequences=True),
        layers.SimpleRNN(1, "linear"),
        shape=(None, 1),
    )


@case
def known_length():
    return of_layers(layers.GRU(3, return_sequences=True), shape=(5, 4))


@case
def known_sizes():
    return of_layers(layers.LSTM(3), shape=(5, 4), batch={"batch_size": 3})


@case
def unrolled():
    return of_layers(layers.LSTM(3, unroll=True), shape=(5, 4))


@case
def own_cell():
    """Refused: no stock layer computes it."""

    class Cell(layers.Layer):
        state_size = output_size = 4

        def call(self, x, states):
            found = tf.tanh(x * 0.5 + states[0])
            return found, [found]

    return of_layers(layers.RNN(Cell()))


class OwnLSTM(layers.LSTM):
    """Lost: saved with the metadata of Keras."""


@case
def lost():
    return of_layers(OwnLSTM(3, return_sequences=True), layers.Dense(2))


@case
def lost_words():
    return of_words(layers.Bidirectional(OwnLSTM(3)), layers.Dense(2))


@case
def mixed():
    half = {"dtype": "mixed_float16"}
    return of_layers(layers.LSTM(3, return_sequences=True, **half), layers.GRU(2, **half))


@case
def frozen():
    """The weights are constants."""
    return of_layers(layers.LSTM(3, return_sequences=True), layers.GRU(2))


@case
def cudnn():
    """By the op for a GPU, which only TensorFlow 2.15 with a GPU could run."""
    lstm = layers.LSTM(3, return_sequences=True)
    return of_layers(lstm, layers.GRU(2, go_backwards=True, return_sequences=True))


@case
def cudnn_last():
    return of_layers(layers.GRU(4, return_sequences=True), layers.LSTM(2))


def on_gpu(model, x):
    """Return what the layers of a model compute, by the functions for a GPU."""
    from keras.src.layers.rnn import gru, lstm

    info = {"is_rocm_build": False, "is_cuda_build": True}
    gru.tf.sysconfig.get_build_info = lambda: info
    for layer in model.layers[1:]:
        weights = [layer.cell.kernel, layer.cell.recurrent_kernel, layer.cell.bias]
        state = tf.zeros((tf.shape(x)[0], layer.units))
        options = {"mask": None, "time_major": False, "sequence_lengths": None}
        options["return_sequences"] = layer.return_sequences
        options["go_backwards"] = layer.go_backwards
        if isinstance(layer, layers.LSTM):
            last, x, *_ = lstm.gpu_lstm(x, state, state, *weights, **options)
        else:
            last, x, *_ = gru.gpu_gru(x, state, *weights, **options)
        x = x if layer.return_sequences else last
    return x


def taken():
    """Return the cases that this release can write."""
    without = {"lstm_time_major", "lost", "lost_words"} if IS_KERAS_3 else set()
    if RELEASE == "2.0.0":
        without = {"frozen", "mixed"}
    if RELEASE != "2.15.1":
        without |= {*CUDNN}
    return [name for name in CASES if name not in without]


def filled(model, random):
    """Draw the weights anew, and return them."""
    for weight in model.weights:
        if "seed" not in getattr(weight, "path", weight.name):
            weight.assign(random.uniform(-0.9, 0.9, weight.shape).astype("float32"))
    found = [w for w in model.weights if "seed" not in getattr(w, "path", w.name)]
    return [np.array(weight) for weight in found]


def save(name, model, path):
    """Save a model, without its Keras metadata."""
    if name.startswith("lost"):
        model.save(path)
        return
    if hasattr(model, "export") and not name.endswith(("_state", "frozen", *CUDNN)):
        model.export(path)
        return
    (given,) = model.inputs
    spec = tf.TensorSpec(tuple(given.shape), given.dtype, "x")

    def call(x):
        found = on_gpu(model, x) if name in CUDNN else model(x)
        found = found if isinstance(found, (list, tuple)) else [found]
        return {"y_%d" % i: y for i, y in enumerate(found)}

    module = tf.Module()
    function = tf.function(call, input_signature=[spec])
    if name == "frozen":
        from tensorflow.python.framework import convert_to_constants as to_constants

        concrete = function.get_concrete_function()
        frozen = to_constants.convert_variables_to_constants_v2(
            concrete, lower_control_flow=False
        )
        function = tf.function(lambda x: {"y_0": frozen(x)[0]}, input_signature=[spec])
    else:
        module.held = [getattr(weight, "value", weight) for weight in model.weights]
        if not IS_KERAS_3:
            module.held = list(model.weights)
    tf.saved_model.save(module, path, signatures=function.get_concrete_function())


def sample(model, size, length, random):
    (given,) = model.inputs
    batch, *others = given.shape
    shape = [batch or size, *(n or (length if i == 0 else 1) for i, n in enumerate(others))]
    if "int" in str(given.dtype):
        words = random.randint(1, WORDS, shape)
        words[0, 2:], words[1, :1] = 0, 0
        return words.astype("int32")
    x = random.uniform(-1, 1, shape).astype("float32")
    x[0, 2:], x[1, :1] = 0, 0  # what Masking leaves out
    return x


def write(name, build, folder):
    keras.backend.clear_session()
    random = np.random.RandomState(zlib.crc32(name.encode()))
    path = os.path.join(folder, "model")
    model = build()
    stored = {"w_%d" % i: w for i, w in enumerate(filled(model, random))}
    save(name, model, path)
    if name in CUDNN:
        argument, signature = "inputs", lambda inputs: {"y_0": model(inputs)}
    else:
        loaded = tf.saved_model.load(path)
        signature = loaded.signatures["serving_default"]
        (argument,) = signature.structured_input_signature[1]
    for n, (size, length) in enumerate(BATCHES):
        x = sample(model, size, length, random)
        found = signature(**{argument: tf.constant(x)})
        stored["x_%d" % n] = x
        stored.update({"y_%d_%d" % (n, i): found[key].numpy() for i, key in enumerate(sorted(found))})
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)


def main(out, *names):
    failed = []
    for name in names or taken():
        folder = os.path.join(out, RELEASE, name)
        if os.path.exists(os.path.join(folder, "expected.npz")):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        try:
            write(name, CASES[name], folder)
        except Exception as error:
            failed.append("%s: %s: %s" % (name, type(error).__name__, error))
            print("FAILED", failed[-1][:900], flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit("%d failed" % len(failed) if failed else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
