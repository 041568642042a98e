"""Writes SavedModels that hold no Keras metadata, one a case.

    python write_exported.py OUTDIR [CASE ...]

Under TensorFlow 2.4.4 and 2.15.1, and under Keras 3.15.1 on TensorFlow, where the cases
of `Model.export` are written to OUTDIR/keras-3.15.1/.

A case is a folder as `write_lost.py` writes it. `about.json` has, for each signature,
the number n of the `x_n` of each argument, and of the `y_n` of each output; a training
step is one of `serving_default`.
"""

import json
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
BATCH, RATE = 3, 0.1
DEFAULT = "serving_default"
TF, KERAS = {}, {}


def tensors(*shape, dtype="float32"):
    return tf.TensorSpec((None,) + shape, dtype)


def written_by(table):
    def decorate(function):
        table[function.__name__] = function
        return function

    return decorate


# Functions that save to a path, and return the specifications of each signature and the
# weights.


class Linear(tf.Module):
    def __init__(self, inputs, outputs, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.zeros((inputs, outputs)), name="w")
        self.b = tf.Variable(tf.zeros((outputs,)), name="b")

    @tf.function
    def __call__(self, x):
        return tf.nn.relu(x @ self.w + self.b)


class Perceptron(tf.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = Linear(4, 3), Linear(3, 2)
        self.scale = tf.Variable(tf.ones((2,)), name="scale")
        self.shift = tf.Variable(tf.zeros((2,)), trainable=False, name="shift")

    @tf.function(input_signature=[tensors(4)])
    def __call__(self, x):
        return {"scores": self.head(self.hidden(x)) * self.scale + self.shift}

    @tf.function(input_signature=[tensors(4), tensors(4)])
    def compare(self, first, second):
        difference = self.hidden(first) - self.hidden(second)
        return {"distance": tf.reduce_sum(difference**2, -1), "difference": difference}


class Convolutional(tf.Module):
    def __init__(self):
        super().__init__()
        self.k = tf.Variable(tf.zeros((3, 3, 2, 3)))
        self.k2 = tf.Variable(tf.zeros((3, 3, 3, 1)))
        self.w = tf.Variable(tf.zeros((3, 2)))

    @tf.function
    def __call__(self, x):
        x = tf.nn.relu(tf.nn.conv2d(x, self.k, 1, "SAME"))
        x = tf.nn.relu(tf.nn.depthwise_conv2d(x, self.k2, [1, 2, 2, 1], "SAME"))
        return tf.reduce_mean(x, [1, 2]) @ self.w


@written_by(TF)
def module_signatures(path, fill):
    module = Perceptron()
    weights = fill(module.variables)
    signatures = {DEFAULT: module.__call__, "compare": module.compare}
    tf.saved_model.save(module, path, signatures=signatures)
    specs = {DEFAULT: {"x": tensors(4)}}
    specs["compare"] = {"first": tensors(4), "second": tensors(4)}
    return specs, weights


@written_by(TF)
def module_traces(path, fill):
    """Several traces of a function, and a signature of one of them."""
    module = Linear(4, 3)
    weights = fill(module.variables)
    module(tf.zeros((1, 4)))
    module(tf.zeros((2, 4)))
    general = module.__call__.get_concrete_function(tensors(4))
    tf.saved_model.save(module, path, signatures=general)
    return {DEFAULT: {"x": tensors(4)}}, weights


@written_by(TF)
def module_convolutions(path, fill):
    module = Convolutional()
    weights = fill(module.variables)
    spec = tensors(6, 6, 2)
    signature = module.__call__.get_concrete_function(spec)
    tf.saved_model.save(module, path, signatures=signature)
    return {DEFAULT: {"x": spec}}, weights


def image_model():
    inputs = keras.Input((6, 6, 3))
    x = layers.Conv2D(2, 3, padding="same", activation="relu")(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Dense(2, "softmax")(layers.Flatten()(x)))


def text_model():
    inputs = keras.Input((5,), dtype="int32")
    x = layers.Embedding(6, 3)(inputs)
    x = layers.Dropout(0.3)(layers.LSTM(3)(x))
    return keras.Model(inputs, layers.Dense(1, "sigmoid")(x))


def attention_model():
    inputs = keras.Input((5, 4))
    x = layers.MultiHeadAttention(2, 3)(inputs, inputs)
    x = layers.LayerNormalization()(x + inputs)
    return keras.Model(inputs, layers.GlobalAveragePooling1D()(x))


class TwoInputs(keras.Model):
    def __init__(self):
        super().__init__()
        self.left, self.right = layers.Dense(3), layers.Dense(3)

    def call(self, inputs):
        return {"sum": self.left(inputs["a"]) + self.right(inputs["b"])}


def saved(model, path, fill):
    weights = fill(model.variables)
    tf.saved_model.save(model, path)
    (spec,) = model.inputs
    return {DEFAULT: {spec.name: tf.TensorSpec(spec.shape, spec.dtype)}}, weights


@written_by(TF)
def keras_image(path, fill):
    return saved(image_model(), path, fill)


@written_by(TF)
def keras_attention(path, fill):
    return saved(attention_model(), path, fill)


def exported(model, path, fill, specs):
    weights = fill(model.variables)
    model.export(path, format="tf_saved_model", verbose=False)
    return {DEFAULT: specs}, weights


@written_by(KERAS)
def export_image(path, fill):
    return exported(image_model(), path, fill, {"keras_tensor": tensors(6, 6, 3)})


@written_by(KERAS)
def export_text(path, fill):
    specs = {"keras_tensor": tensors(5, dtype="int32")}
    return exported(text_model(), path, fill, specs)


@written_by(KERAS)
def export_attention(path, fill):
    return exported(attention_model(), path, fill, {"keras_tensor": tensors(5, 4)})


@written_by(KERAS)
def export_subclassed(path, fill):
    model = TwoInputs()
    model({"a": np.zeros((1, 4), "float32"), "b": np.zeros((1, 2), "float32")})
    specs = {"args_0": tensors(4), "args_0_1": tensors(2)}
    return exported(model, path, fill, specs)


@written_by(KERAS)
def export_archive(path, fill):
    """Two endpoints of one model."""
    inputs = keras.Input((4,))
    hidden = layers.Dense(3, "tanh")(inputs)
    model = keras.Model(inputs, layers.Dense(2)(hidden))
    encoder = keras.Model(inputs, hidden)
    weights = fill(model.variables)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(DEFAULT, model.call, [tensors(4)])
    archive.add_endpoint("encode", encoder.call, [tensors(4)])
    archive.write_out(path, verbose=False)
    return {DEFAULT: {"inputs": tensors(4)}, "encode": {"inputs": tensors(4)}}, weights


def filler(random):
    def fill(variables):
        """Draw the float weights anew; return those that train, then the others."""
        for weight in variables:
            if "int" in str(weight.dtype):
                continue
            positive = "variance" in getattr(weight, "path", weight.name)
            low, high = (0.5, 1.5) if positive else (-0.9, 0.9)
            weight.assign(random.uniform(low, high, weight.shape).astype("float32"))
        found = [w for w in variables if "seed" not in getattr(w, "path", w.name)]
        return sorted(found, key=lambda w: not w.trainable)

    return fill


def sample(spec, random):
    shape = (BATCH,) + tuple(spec.shape)[1:]
    if spec.dtype == tf.int32:
        return tf.constant(random.randint(0, 6, shape).astype("int32"))
    return tf.constant(random.uniform(-1, 1, shape).astype("float32"))


def arrays(key, items):
    return {"%s_%d" % (key, i): np.array(item) for i, item in enumerate(items)}


def step(signature, given, random):
    """Take a training step of the saved signature; return what it gave."""
    with tf.GradientTape() as tape:
        found = signature(**given)
        outputs = [found[key] for key in sorted(found)]
        targets = [random.uniform(-1, 1, y.shape).astype("float32") for y in outputs]
        pairs = zip(outputs, targets)
        loss = tf.add_n([tf.reduce_mean((y - t) ** 2) for y, t in pairs])
    variables = signature.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        if gradient is not None:
            variable.assign_sub(RATE * tf.convert_to_tensor(gradient))
    return dict(arrays("t", targets), loss=loss.numpy())


def after(before, weights, variables):
    """Return the weights after the step, in the order that they have in `weights`.

    A loaded variable is found by its value before the step: names may repeat.
    """
    found = []
    for weight in weights:
        (match,) = [new for old, new in zip(before, variables)
                    if np.array_equal(old, weight)]  # fmt: skip
        found.append(match.numpy())
    return found


def write(name, save, folder):
    keras.backend.clear_session()
    random = np.random.RandomState(zlib.crc32(name.encode()))
    path = os.path.join(folder, "model")
    specs, variables = save(path, filler(random))
    weights = [np.array(w) for w in variables]
    loaded = tf.saved_model.load(path)
    xs, ys, about = [], [], {"tf_version": tf.__version__, "kind": "no metadata"}
    about["signatures"] = {}
    stored = arrays("w", weights)
    for key, signature in specs.items():
        given = {arg: sample(spec, random) for arg, spec in signature.items()}
        found = loaded.signatures[key](**given)
        about["signatures"][key] = {
            "inputs": {arg: len(xs) + i for i, arg in enumerate(sorted(given))},
            "outputs": {out: len(ys) + i for i, out in enumerate(sorted(found))},
        }
        xs += [given[arg] for arg in sorted(given)]
        ys += [found[out] for out in sorted(found)]
        if key == DEFAULT:
            default = given
    stored.update(arrays("x", xs), **arrays("y", ys))
    signature = loaded.signatures[DEFAULT]
    before = [w.numpy() for w in signature.variables]
    stored.update(step(signature, default, random))
    held = [w for w in weights if any(np.array_equal(w, old) for old in before)]
    assert len(held) == len(weights), "a weight that the signature does not use"
    stored.update(arrays("a", after(before, weights, signature.variables)))
    about["trainable"] = [w.name for w in variables if w.trainable]
    about["non_trainable"] = [w.name for w in variables if not w.trainable]
    about["trains"] = True
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)
    with open(os.path.join(folder, "about.json"), "w") as file:
        json.dump(about, file, indent=1)


def main(out, *names):
    cases, failed = KERAS if IS_KERAS_3 else TF, []
    if tf.__version__ == "2.4.4":  # it writes the metadata of a Keras model
        cases = {key: cases[key] for key in cases if key.startswith("module")}
    for name in names or cases:
        folder = os.path.join(out, RELEASE, name)
        if os.path.exists(os.path.join(folder, "about.json")):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        try:
            write(name, cases[name], folder)
        except Exception as error:
            failed.append("%s: %s: %s" % (name, type(error).__name__, error))
            print("FAILED", failed[-1][:900], flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit("%d failed" % len(failed) if failed else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
