"""Writes models as people's files have them: `tests/data/legacy/strangers.tar.xz`.

Run by hand: `python write_strangers.py OUT [CASE]`, under TensorFlow 2.0.0, 2.3.4, 2.4.4
and 2.9.3; each writes the cases of its release. Pack them with `tar -cJf strangers.tar.xz -C OUT .`
`data.npz` has batches and outputs: `x0_0` is the first input of the first batch.
"""

import contextlib
import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import h5py
import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
RELEASE = tf.__version__
CASES = {}  # name -> (release, function)


def case(release, batches=(4,), forms=("model.h5", "saved_model")):
    """Register a function that returns a model; `batches` are sizes of batches."""

    def register(function):
        CASES[function.__name__] = release, function, batches, forms
        return function

    return register


# keras.utils.multi_gpu_model: the last slice has the rows that the others leave.


def parallel(model, parts):
    """Call TensorFlow's own, which finds devices that are not there."""
    from tensorflow.python.keras.utils import multi_gpu_utils

    gpus = [f"/device:GPU:{number}" for number in range(parts)]
    multi_gpu_utils._get_available_devices = lambda: ["/device:CPU:0", *gpus]
    tf.config.set_soft_device_placement(True)
    return multi_gpu_utils.multi_gpu_model(model, gpus=parts)


def one_output():
    x = keras.Input((4,))
    y = layers.BatchNormalization()(layers.Dense(3, activation="relu")(x))
    return keras.Model(x, layers.Dense(2)(y))


def two_outputs():
    x = [keras.Input((4,), name="a"), keras.Input((4,), name="b")]
    y = layers.concatenate(x)
    return keras.Model(x, [layers.Dense(2, name="p")(y), layers.Dense(1, name="q")(y)])


PARTS = 1, 5, 7, 12


@case("2.0.0", PARTS)
def two_parts():
    return parallel(one_output(), 2)


@case("2.0.0", PARTS)
def three_parts():
    return parallel(one_output(), 3)


@case("2.0.0", PARTS)
def four_parts():
    return parallel(one_output(), 4)


@case("2.0.0", PARTS)
def three_parts_of_two_inputs():
    return parallel(two_outputs(), 3)


@case("2.0.0", PARTS)
def four_parts_of_a_sequential():
    inner = [layers.Conv1D(2, 2, input_shape=(5, 4)), layers.LSTM(3), layers.Dense(2)]
    return parallel(keras.Sequential(inner), 4)


@case("2.0.0", PARTS, ("model.h5",))
def three_parts_of_a_mean_over_the_batch():
    """Its outputs depend on the other rows of a part."""
    x = keras.Input((4,))
    y = layers.Lambda(lambda x: x - tf.reduce_mean(x, axis=0))(layers.Dense(3)(x))
    return parallel(keras.Model(x, y), 3)


# A model that is called with a dict whose keys are not the names of its inputs: tf.keras
# builds and saves the model around it, but refuses to call that.


def by_other_keys():
    x = [keras.Input((4,), name="a"), keras.Input((4,), name="b")]
    inner = keras.Model(x, layers.Dense(2)(layers.Subtract()(x)), name="inner")
    p, q = keras.Input((4,), name="p"), keras.Input((4,), name="q")
    called = {"9": p, "37": q}
    model = keras.Model([p, q], inner(called))

    def predict(batch):
        named = dict(zip(called, map(tf.constant, batch)))
        return inner.predict_on_batch(inner._flatten_to_reference_inputs(named))

    model.predict_on_batch = predict
    return model


@case("2.4.4", forms=("model.h5",))
def called_by_other_keys():
    return by_other_keys()


# Functions of Lambda layers.


def of_lambda(function, shape=(4,), **options):
    x = keras.Input(shape)
    return keras.Model(x, layers.Lambda(function, **options)(x))


def functions_of_tensorflow():
    x = keras.Input((4,))
    functions = tf.nn.relu, tf.nn.softmax, tf.math.square, tf.abs, keras.backend.abs
    outputs = [layers.Lambda(function)(x) for function in functions]
    mean = layers.Lambda(tf.reduce_mean, arguments={"axis": 1, "keepdims": True})(x)
    return keras.Model(x, [*outputs, mean])


@case("2.4.4", forms=("model.h5",))
def lambda_of_a_function_of_tensorflow():
    return functions_of_tensorflow()


@case("2.9.3", forms=("model.h5",))
def lambda_of_a_dispatched_function():
    """The file does not name those that are written in Python."""
    x = keras.Input((4,))
    return keras.Model(x, layers.Lambda(tf.math.square)(layers.Lambda(tf.nn.relu)(x)))


@case("2.0.0", forms=("model.h5",))
def lambda_of_a_generated_function():
    return functions_of_tensorflow()


@case("2.4.4", forms=("model.h5",))
def lambda_of_a_field():
    x = keras.Input((4,))
    y = layers.Lambda(lambda x: tf.nn.top_k(x, 2).values)(x)
    i = layers.Lambda(lambda x: tf.cast(tf.math.top_k(x, k=3).indices, "float32"))(x)
    return keras.Model(x, layers.concatenate([y, i]))


# A metric that is no list of metrics, as only TensorFlow 2.2 and 2.3 wrote it.


@case("2.3.4")
def metric_alone():
    model = keras.Sequential([layers.Dense(3, "sigmoid", input_shape=(4,))])
    recall = keras.metrics.Recall(name="found")
    model.compile("adam", "binary_crossentropy", metrics=recall)
    model.train_on_batch(np.ones((2, 4), "float32"), np.ones((2, 3), "float32"))
    return model


# Policies: layers without a get_config of their own, and casts in a lost layer.


def mixed(function):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return function()
    finally:
        keras.mixed_precision.set_global_policy("float32")


@case("2.4.4")
def mixed_activations():
    def build():
        x = keras.Input((4,))
        y = layers.ELU(0.5)(layers.Dense(3)(x))
        y = layers.Softmax()(layers.ThresholdedReLU(0.2)(layers.PReLU()(y)))
        y = layers.Layer(name="base")(layers.Lambda(lambda y: y * 2)(y))
        return keras.Model(x, layers.Dense(2, dtype="float32")(y))

    return mixed(build)


class Scaled(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight("scale", (shape[-1],))

    def call(self, x):
        return tf.cast(tf.nn.elu(x * self.scale), tf.float32) * 2


@case("2.4.4", forms=("saved_model",))
def mixed_lost_layer():
    def build():
        x = keras.Input((4,))
        y = Scaled()(layers.Dense(3)(x))
        return keras.Model(x, layers.Dense(2, dtype="float32")(y))

    return mixed(build)


# Layers whose graph is not what their configs say.


def without_activation(layer):
    """Replace the call of a layer by that of its class without the activation."""
    stock = layer.call

    def call(inputs):
        layer.activation, kept = keras.activations.linear, layer.activation
        try:
            return stock(inputs)
        finally:
            layer.activation = kept

    layer.call = call
    return layer


def decoders():
    """A decoder as autoencoders have them: its last layer says sigmoid."""
    x = keras.Input((4,), name="code")
    y = layers.Reshape((2, 2, 2))(layers.Dense(8, activation="relu")(x))
    y = layers.Conv2DTranspose(3, 3, 2, "same", activation="relu")(y)
    last = layers.Conv2DTranspose(1, 3, padding="same", activation="sigmoid")
    decoder = keras.Model(x, without_activation(last)(y), name="decoder")
    image = keras.Input((4, 4, 1))
    code = layers.Dense(4)(layers.Flatten()(image))
    return keras.Model(image, decoder(code))


@case("2.4.4", forms=("saved_model",))
def decoder_without_its_sigmoid():
    return decoders()


@case("2.9.3", forms=("saved_model",))
def newer_decoder_without_its_sigmoid():
    return decoders()


@case("2.4.4", forms=("saved_model",))
def dense_without_its_sigmoid():
    last = without_activation(layers.Dense(3, activation="sigmoid"))
    return keras.Sequential([layers.Dense(5, input_shape=(4,)), last])


@case("2.9.3", forms=("saved_model",))
def recurrent_without_its_relu():
    x = keras.Input((5, 4))
    cell = layers.SimpleRNNCell(3, activation="relu")
    stock = cell.call

    def call(inputs, states, training=None):
        cell.activation, kept = keras.activations.tanh, cell.activation
        try:
            return stock(inputs, states, training)
        finally:
            cell.activation = kept

    cell.call = call
    return keras.Model(x, layers.RNN(cell)(x))


# Functions alone: policies with several signatures, and a function that is the root.

SIGNATURE = [tf.TensorSpec((None, 4), tf.float32, "observation")]


class Policy(tf.Module):
    def __init__(self):
        super().__init__()
        random = np.random.RandomState(0)
        self.kernel = tf.Variable(random.normal(size=(4, 3)).astype("float32"))

    @tf.function(input_signature=SIGNATURE)
    def action(self, observation):
        found = self.greedy(observation)["action"]
        draw = tf.random.uniform(tf.shape(found))
        other = tf.random.uniform(tf.shape(found), maxval=3, dtype=tf.int32)
        return {"action": tf.where(draw < 0.1, other, found)}

    @tf.function(input_signature=SIGNATURE)
    def greedy(self, observation):
        scores = tf.matmul(observation, self.kernel)
        return {"action": tf.argmax(scores, -1, output_type=tf.int32)}


def functions(folder):
    """Write what is no model of Keras, with the outputs for a batch."""
    place = pathlib.Path(folder, RELEASE, "policy")
    policy = Policy()
    x = np.random.RandomState(1).normal(size=(6, 4)).astype("float32")
    signatures = {"serving_default": policy.action, "greedy": policy.greedy}
    tf.saved_model.save(policy, str(place / "saved_model"), signatures=signatures)
    np.savez(place / "data.npz", x0_0=x, y0_0=policy.greedy(x)["action"])

    kernel = np.random.RandomState(0).normal(size=(4, 3)).astype("float32")
    function = tf.function(lambda x: tf.nn.relu(tf.matmul(x, tf.constant(kernel))))
    concrete = function.get_concrete_function(*SIGNATURE)
    place = pathlib.Path(folder, RELEASE, "function")
    tf.saved_model.save(concrete, str(place / "saved_model"))
    np.savez(place / "data.npz", x0_0=x, y0_0=np.maximum(x @ kernel, 0))


def main(folder, *names):
    for name, (release, function, batches, forms) in CASES.items():
        if release != RELEASE or name not in (names or CASES):
            continue
        keras.backend.clear_session()
        tf.random.set_seed(len(name))
        random = np.random.RandomState(len(name))
        model = function()
        model.set_weights(
            [random.uniform(0.1, 1, w.shape).astype(w.dtype) for w in model.get_weights()]
        )
        stored = {}
        for number, size in enumerate(batches):
            x = [
                random.normal(size=(size, *tensor.shape.as_list()[1:])).astype("float32")
                for tensor in model.inputs
            ]
            y = model.predict_on_batch(x)
            y = y if isinstance(y, list) else [y]
            stored.update({f"x{number}_{i}": value for i, value in enumerate(x)})
            stored.update(
                {f"y{number}_{i}": np.asarray(value) for i, value in enumerate(y)}
            )
        place = pathlib.Path(folder, release, name)
        place.mkdir(parents=True, exist_ok=True)
        np.savez(place / "data.npz", **stored)
        for form in forms:
            model.save(str(place / form), save_format="h5" if "." in form else "tf")


if __name__ == "__main__":
    main(*sys.argv[1:])
    if RELEASE == "2.9.3":
        functions(sys.argv[1])
