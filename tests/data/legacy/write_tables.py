"""Writes SavedModels without Keras metadata that look words up: `tables.tar.xz`.

    python write_tables.py OUTDIR

Under TensorFlow 2.4.4 and 2.15.1, and `export` under Keras 3.15.1 on TensorFlow. A case
is a folder `<release>/<case>/` with the SavedModel in `model/`, and `expected.npz`: the
inputs `x/<name>` of the model, and its outputs `y/<name>`. `bare`, `frozen` and
`of_constants` have no tables, but no signature, or no variables.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import lookup_ops

keras, layers = tf.keras, tf.keras.layers
VERSION = getattr(keras, "__version__", "2")
IS_KERAS_3 = VERSION.startswith("3")
HAS_EXPORT = not tf.__version__.startswith("2.4")
try:
    StringLookup, IntegerLookup = layers.StringLookup, layers.IntegerLookup
except AttributeError:
    old = layers.experimental.preprocessing
    StringLookup, IntegerLookup = old.StringLookup, old.IntegerLookup
RANDOM = np.random.RandomState(0)
WORDS = ["de", "en", "fr", "naïve"]
QUERIES = np.array(["en", "de", "xx", "naïve"])
Table, Pairs = tf.lookup.StaticHashTable, tf.lookup.KeyValueTensorInitializer


def drawn(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def spec(*shape, dtype="string", name="x"):
    return tf.TensorSpec((None,) + shape, dtype, name)


class Words(tf.Module):
    """Words to indices, by constants in the graph; others to -1, then to row 0."""

    def __init__(self, path):
        super().__init__()
        pairs = Pairs(WORDS, np.arange(4, dtype="int64"))
        self.words = Table(pairs, -1)
        self.rows = tf.Variable(drawn(5, 3), name="rows")
        self.kernel = tf.Variable(drawn(3, 2), name="kernel")

    @tf.function(input_signature=[spec(3)])
    def __call__(self, x):
        rows = tf.gather(self.rows, self.words.lookup(x) + 1)
        return {"y": tf.reduce_mean(rows, 1) @ self.kernel}


class Lines(tf.Module):
    """Words to the numbers of their lines in a file, which is an asset."""

    def __init__(self, path):
        super().__init__()
        path += ".words.txt"
        with open(path, "w") as file:
            file.write("\n".join(WORDS) + "\n")
        initializer = tf.lookup.TextFileInitializer(
            path,
            "string",
            tf.lookup.TextFileIndex.WHOLE_LINE,
            "int64",
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self.words = Table(initializer, 4)
        self.rows = tf.Variable(drawn(5, 3), name="rows")

    @tf.function(input_signature=[spec()])
    def __call__(self, x):
        return {"y": tf.gather(self.rows, self.words.lookup(x))}


class Columns(tf.Module):
    """Words to numbers, both from columns of a file."""

    def __init__(self, path):
        super().__init__()
        path += ".columns.tsv"
        with open(path, "w") as file:
            file.writelines("%d\t%s\n" % (7 * i, w) for i, w in enumerate(WORDS))
        initializer = tf.lookup.TextFileInitializer(
            path, "string", 1, "int64", 0, delimiter="\t"
        )
        self.words = Table(initializer, -3)

    @tf.function(input_signature=[spec()])
    def __call__(self, x):
        return {"y": self.words.lookup(x)}


class Numbers(tf.Module):
    """Integers to integers, and to floats."""

    def __init__(self, path):
        super().__init__()
        keys = np.array([30, 10, -1], "int64")
        self.codes = Table(Pairs(keys, np.array([5, 2, 9], "int64")), 0)
        self.prices = Table(Pairs(keys, np.array([0.5, 2.25, -1], "float32")), 7.5)

    @tf.function(input_signature=[spec(2, dtype="int64")])
    def __call__(self, x):
        return {
            "codes": self.codes.lookup(x),
            "prices": self.prices.lookup(x) * tf.cast(self.codes.size(), tf.float32),
        }


class Buckets(tf.Module):
    """Words out of the table to one of three buckets, by their hash."""

    def __init__(self, path):
        super().__init__()
        pairs = Pairs(WORDS, np.arange(4, dtype="int64"))
        self.words = tf.lookup.StaticVocabularyTable(pairs, 3)
        self.rows = tf.Variable(drawn(7, 3), name="rows")

    @tf.function(input_signature=[spec()])
    def __call__(self, x):
        return {"y": tf.gather(self.rows, self.words[x])}


class Mutable(tf.Module):
    """Tables that can change, and so are in the checkpoint."""

    def __init__(self, path):
        super().__init__()
        keys = np.array([3, 4, 6], "int64")
        dense = tf.lookup.experimental.DenseHashTable
        self.codes = dense("int64", "int64", -1, -8, -9, 16)
        self.codes.insert(keys, np.array([1, 2, 5], "int64"))
        self.prices = lookup_ops.MutableHashTable("int64", "float32", 0.5)
        self.prices.insert(keys, np.array([1.5, 2, 3], "float32"))

    @tf.function(input_signature=[spec(dtype="int64")])
    def __call__(self, x):
        return {"codes": self.codes.lookup(x), "prices": self.prices.lookup(x)}


class Labels(tf.Module):
    """A classifier that names its classes."""

    def __init__(self, path):
        super().__init__()
        self.kernel = tf.Variable(drawn(3, 4), name="kernel")
        numbers = np.arange(4, dtype="int64")
        self.names = Table(Pairs(numbers, tf.constant(WORDS)), "none")

    @tf.function(input_signature=[spec(3, dtype="float32")])
    def __call__(self, x):
        scores = tf.nn.softmax(x @ self.kernel)
        return {"name": self.names.lookup(tf.argmax(scores, 1)), "scores": scores}


class Index(keras.Model if HAS_EXPORT else tf.Module):
    """The best candidates for a query, as TensorFlow Recommenders' BruteForce."""

    def __init__(self, query, identifiers):
        super().__init__()
        self.query = query
        self.identifiers = tf.Variable(identifiers, trainable=False)
        self.candidates = tf.Variable(drawn(6, 4), trainable=False)

    def call(self, queries):
        scores = tf.matmul(self.query(queries), self.candidates, transpose_b=True)
        values, indices = tf.math.top_k(scores, k=3)
        return values, tf.gather(self.identifiers, indices)

    def save(self, path, dtype):
        def served(x):
            scores, identifiers = self.call(x)
            return {"scores": scores, "identifiers": identifiers}

        signature = tf.function(served, input_signature=[spec(dtype=dtype)])
        tf.saved_model.save(self, path, signatures=signature)


def vocabulary(layer, tokens):
    layer.set_vocabulary(tokens)
    return layer


def tower(lookup, dtype):
    inputs = keras.Input((), dtype=dtype)
    rows = layers.Embedding(6, 4)(lookup(inputs))
    return keras.Model(inputs, layers.Dense(4)(rows))


def retrieval(path):
    lookup = vocabulary(StringLookup(mask_token=None), WORDS)
    titles = ["Alien", "Brazil", "Heat", "Ran", "Up", "Amélie"]
    Index(tower(lookup, "string"), tf.constant(titles)).save(path, "string")
    return {"x": QUERIES}


def retrieval_export(path):
    lookup = vocabulary(StringLookup(mask_token=None), WORDS)
    index = Index(tower(lookup, "string"), np.array([6, 5, 4, 3, 2, 1], "int64"))
    index(tf.constant(QUERIES))
    index.export(path)
    return {"input_1": QUERIES}


def retrieval_of_numbers(path):
    """Of a layer that masks 0, and identifiers that are numbers."""
    lookup = vocabulary(IntegerLookup(), [42, 7, 9])
    identifiers = np.array([100, 90, 80, 70, 60, 50], "int64")
    Index(tower(lookup, "int64"), identifiers).save(path, "int64")
    return {"x": np.array([42, 9, 1000])}


def retrieval_by_numbers(path):
    """Of numbers, with identifiers that are texts, one of them twice."""
    lookup = vocabulary(IntegerLookup(), [42, 7, 9])
    titles = ["Alien", "Brazil", "Heat", "Ran", "Up", "Heat"]
    Index(tower(lookup, "int64"), tf.constant(titles)).save(path, "int64")
    return {"x": np.array([42, 9, 1000])}


def export(path):
    words = keras.Input((3,), dtype="string", name="words")
    kind = keras.Input((3,), dtype="int64", name="kind")
    x = layers.Embedding(6, 3)(vocabulary(StringLookup(mask_token=""), WORDS)(words))
    y = layers.Embedding(5, 3)(vocabulary(IntegerLookup(), [5, -1, 7])(kind))
    z = vocabulary(StringLookup(num_oov_indices=2), WORDS)(words)
    y = y + layers.Embedding(6, 3)(z)
    x = layers.Dense(2)(layers.Flatten()(x + y))
    keras.Model({"words": words, "kind": kind}, x).export(path)
    words = np.array([["en", "", "xx"], ["naïve", "fr", "yy"]])
    return {"words": words, "kind": np.array([[5, 7, 6], [-1, 5, 0]])}


class Bare(tf.Module):
    """Functions of a root that has no signature."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(drawn(3, 2), name="kernel")
        self.bias = tf.Variable(drawn(2), name="bias")
        self.predict = tf.function(lambda x: tf.nn.relu(x @ self.kernel + self.bias))
        self.predict.get_concrete_function(spec(3, dtype="float32"))


def bare(path):
    tf.saved_model.save(Bare(), path)
    return {"x": drawn(4, 3)}


def frozen(path):
    """What `convert_variables_to_constants_v2` leaves."""
    from tensorflow.python.framework import convert_to_constants

    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(3, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )
    for weight in model.weights:
        weight.assign(np.abs(drawn(*weight.shape)) + 0.1)
    function = tf.function(lambda x: {"y": model(x)})
    traced = function.get_concrete_function(spec(6, 6, 2, dtype="float32"))
    module = tf.Module()
    module.f = convert_to_constants.convert_variables_to_constants_v2(traced)
    tf.saved_model.save(module, path, signatures=module.f)
    return {"x": drawn(2, 6, 6, 2)}


def of_constants(path):
    """A function written with arrays of numpy."""
    kernel, bias = drawn(3, 2), drawn(2)
    module = tf.Module()
    module.f = tf.function(
        lambda x: {"y": tf.nn.softmax(x @ kernel + bias)},
        input_signature=[spec(3, dtype="float32")],
    )
    tf.saved_model.save(module, path)
    return {"x": drawn(4, 3)}


def of_module(make, x):
    def written(path):
        tf.saved_model.save(make(path), path)
        return {"x": x}

    return written


NUMBERS = np.array([[30, 10], [-1, 4]])
CASES = {
    "words": of_module(Words, np.array([["en", "xx", "de"], ["naïve"] * 3])),
    "lines": of_module(Lines, QUERIES),
    "columns": of_module(Columns, QUERIES),
    "numbers": of_module(Numbers, NUMBERS),
    "buckets": of_module(Buckets, QUERIES),
    "mutable": of_module(Mutable, np.array([6, 3, 5])),
    "labels": of_module(Labels, drawn(4, 3)),
    "retrieval": retrieval,
    "retrieval_of_numbers": retrieval_of_numbers,
    "retrieval_by_numbers": retrieval_by_numbers,
    "bare": bare,
    "frozen": frozen,
    "of_constants": of_constants,
}
if IS_KERAS_3:
    CASES = {"export": export}
elif HAS_EXPORT:
    CASES.update(export=export, retrieval_export=retrieval_export)


def write(name, make, folder):
    os.makedirs(folder)
    path = os.path.join(folder, "model")
    x = make(path)
    loaded = tf.saved_model.load(path)
    if loaded.signatures:
        y = loaded.signatures["serving_default"](
            **{key: tf.constant(value) for key, value in x.items()}
        )
    else:
        function = loaded.predict if name == "bare" else loaded.f
        y = function(tf.constant(x["x"]))
        y = y if isinstance(y, dict) else {"y": y}
    stored = {"x/" + key: value for key, value in x.items()}
    for key, value in y.items():
        value = value.numpy()
        stored["y/" + key] = (
            np.char.decode(value.astype("S")) if value.dtype == object else value
        )
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)


def main(out):
    release = os.path.join(out, "keras-" + VERSION if IS_KERAS_3 else tf.__version__)
    for name, make in CASES.items():
        keras.backend.clear_session()
        write(name, make, os.path.join(release, name))


if __name__ == "__main__":
    main(sys.argv[1])
