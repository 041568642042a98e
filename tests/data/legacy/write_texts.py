"""Writes models that take texts, and what layers of texts gave for hard ones.

    python write_texts.py OUTDIR

Under TensorFlow 2.4.4, 2.9.3 and 2.15.1: OUTDIR/<release>/<case>/ with `saved_model/`,
`model.h5`, `model.keras` (2.15) and `expected.npz`; OUTDIR/<release>.json with the
layers. Texts are written as their bytes, in latin-1.
"""

import itertools
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras = tf.keras
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
layers = keras.layers
texts = layers if RELEASE >= (2, 6) else layers.experimental.preprocessing
FORMS = {"saved_model": "tf", "model.h5": "h5"}
if RELEASE >= (2, 15):
    FORMS["model.keras"] = "keras"
COUNTED = "multi_hot" if RELEASE >= (2, 6) else "binary"

HARD = [
    b"",
    b" ",
    b"The Cat, sat! the cat",
    b"a  b\tc\nd\x0be\x0cf\rg",
    "ÄÖ straße ÉÀ é the".encode(),
    b"it's [UNK] x_y-z <b>UNK</b>",
    "日本語 テキスト\u3000wide 語".encode(),
    b"bad \xff\xfe utf\x80 \xe2\x82",
    b"a\x00b a\x00",
    "\u00a0nbsp\u2028sep \x85".encode(),
    "\ufeffBOM x".encode(),
    b"!!! ... ?",
    "ﬁ ǅ İ ẞ".encode(),
    b"x" * 70 + b" " + b"y" * 33,
    b"\xf0\x9f\x98\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf \xe2\x28\xa1",
    bytes(range(1, 256)),
]
VOCABULARY = ["the", "cat", "a", "é", "straße", "unk", "UNK", "it's", "x", "語"]
VOCABULARY += ["日本語", "the cat", "ÄÖ", "l", "�", "t h", "äö", "its", "İ"]
WORDS = [b"", b"[UNK]", b"a", b"b", b"zz", "é".encode(), b"\xff", b"x" * 17]
WORDS += [b"y" * 40, b"z" * 64, b"w" * 65, bytes(range(200))]
if RELEASE < (2, 6):
    WORDS[1] = b"c"  # 2.4 gave "[UNK]" itself the last index of unknown words
WEIGHTS = [0.25 * (i % 7) + 0.1 for i in range(len(VOCABULARY))]


def vectorizations():
    both = "lower_and_strip_punctuation"
    for how, split, ngrams in itertools.product(
        [both, "lower", "strip_punctuation", None],
        ["whitespace", "character", None],
        [None, 2, (1, 3)],
    ):
        if RELEASE < (2, 6) and (split == "character" or how not in (both, None)):
            continue  # 2.4 has neither
        x = HARD if split else np.array(HARD, object).reshape(4, 4).tolist()
        shape = [len(HARD), 1] if split else [4, 4]
        config = {"standardize": how, "split": split, "ngrams": ngrams}
        for length in (None, 4):
            yield {**config, "output_sequence_length": length}, x, shape
    for mode, padded in itertools.product([COUNTED, "count", "tf_idf"], [False, True]):
        config = {"output_mode": mode, "pad_to_max_tokens": padded}
        config["max_tokens"] = 40 if padded else None
        if mode == "tf_idf":
            config["idf_weights"] = WEIGHTS
        if RELEASE >= (2, 6):
            yield config, HARD, [len(HARD), 1]


def lookups():
    modes = ["int"] if RELEASE < (2, 6) else ["int", "multi_hot", "count", "tf_idf"]
    for mask, count, mode in itertools.product([None, "", "b"], [1, 3], modes):
        config = {"mask_token": mask, "num_oov_indices": count, "output_mode": mode}
        config["vocabulary"] = ["a", "é", "c" if RELEASE < (2, 6) else "[UNK]"]
        if mode == "tf_idf":
            config["idf_weights"] = WEIGHTS[:3]
        if RELEASE < (2, 6):
            del config["output_mode"]
        yield config, WORDS, [6, 2]


def hashings():
    for bins, mask, salt in itertools.product(
        [1, 2, 1000, 2**40], [None, "a"], [None, 5, (133, 2**62)]
    ):
        config = {"num_bins": bins, "salt": salt}
        if RELEASE >= (2, 6):
            config["mask_value"] = mask
        elif mask is not None:
            continue
        yield config, WORDS, [6, 2]


def learned(config):
    """Return the arguments of TextVectorization of a release, with a vocabulary."""
    return config if RELEASE < (2, 6) else {**config, "vocabulary": VOCABULARY}


def record(folder):
    cases = []
    for name, made in (
        ("TextVectorization", vectorizations()),
        ("StringLookup", lookups()),
        ("Hashing", hashings()),
    ):
        for config, x, shape in made:
            arguments = config
            if name == "TextVectorization":
                arguments = learned(config)
            layer = getattr(texts, name)(**arguments)
            if name == "TextVectorization" and RELEASE < (2, 6):
                layer.set_vocabulary(VOCABULARY)
            y = layer(tf.reshape(tf.constant(x), shape)).numpy()
            if name == "TextVectorization":
                config = {**config, "vocabulary": VOCABULARY}
            case = {"class_name": name, "config": config, "shape": shape}
            texts_of = "words" if x is WORDS else "hard"
            cases.append({**case, "x": texts_of, "y": y.tolist()})
    stored = {"cases": cases}
    for name, values in (("hard", HARD), ("words", WORDS)):
        stored[name] = [text.decode("latin-1") for text in values]
    with open(os.path.join(folder, tf.__version__ + ".json"), "w") as file:
        json.dump(stored, file, separators=(",", ":"))


# Models.
REVIEWS = ["A great film!", "the worst film, of all", "", "Great, GREAT; great... ünd"]
TITLES = ["Alien", "Brazil", "", "Casablanca", "nobody knows it"]
USERS = ["7", "42", "x", "7", "eleven"]


def vectorizer(**kwargs):
    layer = texts.TextVectorization(**kwargs)
    layer.adapt(np.array([*REVIEWS, "the film of all films"]))
    return layer


def lookup(words, **kwargs):
    return texts.StringLookup(vocabulary=words, **kwargs)


def entry(name, shape=(1,), dtype="string"):
    return keras.Input(shape, dtype=dtype, name=name)


def sentiment():
    x = entry("review")
    y = vectorizer(output_sequence_length=6, name="words")(x)
    y = layers.Embedding(12, 3, mask_zero=True)(y)
    y = layers.Dense(1)(layers.LSTM(3)(y))
    return keras.Model(x, y), [np.array(REVIEWS)[:, None]]


def sequence():
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="string", name="review"),
            vectorizer(max_tokens=9, ngrams=2),
            layers.Embedding(9, 3),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, activation="softmax"),
        ]
    )
    return model, [np.array(REVIEWS)[:, None]]


def weighed():
    x = entry("review", ())
    y = vectorizer(output_mode="tf_idf" if RELEASE >= (2, 6) else "tf-idf")(x)
    return keras.Model(x, layers.Dense(2)(y)), [np.array(REVIEWS)]


def towers():
    users = [lookup(["7", "42"], mask_token=None), layers.Embedding(4, 3)]
    titles = [lookup(TITLES[:2] + TITLES[3:4], mask_token=None), layers.Embedding(5, 3)]
    x = [entry("user", ()), entry("title", ())]
    y = [
        keras.Sequential(users, "users")(x[0]),
        keras.Sequential(titles, "titles")(x[1]),
    ]
    return keras.Model(x, layers.Dot(1)(y)), [np.array(USERS), np.array(TITLES)]


def hashed():
    x = entry("title")
    y = layers.Embedding(7, 3)(texts.Hashing(7, name="bins")(x))
    z = layers.Embedding(5, 3)(texts.Hashing(5, salt=[3, 4], name="salted")(x))
    y = layers.Flatten()(layers.concatenate([y, z]))
    return keras.Model(x, layers.Dense(1)(y)), [np.array(TITLES)[:, None]]


def mixed():
    x = {
        "title": entry("title"),
        "price": entry("price", (2,), "float32"),
        "city": entry("city"),
    }
    title = vectorizer(output_mode=COUNTED, name="vectors")(x["title"])
    city = layers.Embedding(6, 2)(
        lookup(["Oslo", "Rome"], num_oov_indices=3)(x["city"])
    )
    y = layers.concatenate([title, x["price"], layers.Flatten()(city)])
    prices = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], "float32")
    cities = np.array([["Oslo"], ["Paris"], [""], ["Bonn"]])
    # In the order of the keys.
    return keras.Model(x, layers.Dense(2)(y)), [
        cities,
        prices,
        np.array(REVIEWS)[:, None],
    ]


def shared():
    words = lookup(["Alien", "Brazil"], name="words")
    x = [entry("first", (2,)), entry("second", (2,))]
    row = layers.Embedding(5, 3)
    y = layers.Flatten()(layers.subtract([row(words(each)) for each in x]))
    titles = np.array([TITLES[:2], TITLES[1:3], TITLES[2:4]])
    return keras.Model(x, layers.Dense(2)(y)), [titles, titles[::-1, ::-1].copy()]


def several():
    x = entry("review")
    words = vectorizer(output_sequence_length=5, name="words")(x)
    pairs = vectorizer(ngrams=2, output_mode=COUNTED, name="pairs")(x)
    bins = texts.Hashing(9, name="bins")(x)
    y = layers.Flatten()(layers.Embedding(30, 2)(words))
    bins = layers.Flatten()(layers.Embedding(9, 2)(bins))
    y = layers.Dense(2)(layers.concatenate([y, pairs, bins]))
    return keras.Model(x, y), [np.array(REVIEWS)[:, None]]


def nested():
    """A model with two lookups of a text is called twice, and one lookup outside."""
    x = entry("text")
    both = [lookup([TITLES[0]], name="one")(x), lookup([TITLES[3]], name="two")(x)]
    rows = [layers.Flatten()(layers.Embedding(4, 2)(each)) for each in both]
    inner = keras.Model(x, layers.concatenate(rows), name="inner")
    x = [entry("first"), entry("second")]
    words = layers.Flatten()(layers.Embedding(4, 4)(lookup(["Brazil"])(x[0])))
    y = layers.add([inner(x[0]), inner(x[1]), words])
    titles = np.array(TITLES)[:, None]
    return keras.Model(x, layers.Dense(2)(y)), [titles, titles[::-1].copy()]


class ExpandLastDim(layers.Layer):
    """A layer of AutoKeras before TextVectorization, whose class is lost."""

    def call(self, inputs):
        return tf.expand_dims(inputs, -1)

    def get_config(self):
        return super().get_config()


class Rows(layers.Layer):
    """A layer that looks texts up, whose class is lost."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.words = lookup(["great", "bad"], mask_token=None)
        self.rows = layers.Embedding(5, 2)

    def call(self, inputs):
        return self.rows(self.words(inputs))

    def get_config(self):
        return super().get_config()


def expanded():
    x = [entry("review", ()), entry("word", ())]
    y = vectorizer(output_sequence_length=4)(ExpandLastDim()(x[0]))
    y = layers.Flatten()(layers.Embedding(20, 2)(y))
    y = layers.concatenate([y, Rows(name="rows")(x[1])])
    words = np.array(["bad", "good", "great", ""])
    return keras.Model(x, layers.Dense(2)(y)), [np.array(REVIEWS), words]


class Ranking(keras.Model):
    """A subclassed model, whose class is lost."""

    def __init__(self):
        super().__init__()
        self.words = lookup(["Alien", "Brazil"], mask_token=None)
        self.rows = layers.Embedding(4, 3)
        self.bins = texts.Hashing(5)
        self.others = layers.Embedding(5, 3)
        self.top = layers.Dense(2)

    def call(self, inputs):
        rows = self.rows(self.words(inputs["title"]))
        others = self.others(self.bins(inputs["title"]))
        users = self.others(self.bins(inputs["user"]))
        return self.top(rows * users + others) + inputs["price"]


def ranking():
    model = Ranking()
    prices = np.array([[1.0], [2], [3], [4], [5]], "float32")
    x = [prices, np.array(TITLES), np.array(USERS)]
    return model, x


CASES = [sentiment, sequence, weighed, towers, hashed, mixed, shared, several]
CASES += [nested, expanded, ranking]


def save(folder, make):
    keras.backend.clear_session()
    tf.random.set_seed(7)
    model, inputs = make()
    os.makedirs(folder)
    for variable in model.trainable_weights:
        seed = np.random.default_rng(len(variable.shape))
        variable.assign(seed.normal(size=variable.shape).astype("float32"))
    named = make is mixed or make is ranking
    keys = ("city", "price", "title") if make is mixed else ("price", "title", "user")
    x = [tf.constant(each) for each in inputs]
    given = {k: x[i] for i, k in enumerate(keys)} if named else x
    given = given if named or len(x) > 1 else x[0]
    model(given)
    stored = {"x_" + str(i): each for i, each in enumerate(inputs)}
    np.savez(os.path.join(folder, "expected.npz"), y_0=model(given).numpy(), **stored)
    if make is ranking:
        model._set_inputs(given) if RELEASE < (2, 5) else None
        model.predict(given)
    for name, save_format in FORMS.items():
        path = os.path.join(folder, name)
        try:
            model.save(path, save_format=save_format)
        except (NotImplementedError, TypeError, ValueError) as error:
            print(folder, name, str(error)[:100])
            if os.path.exists(path):
                os.remove(path)


if __name__ == "__main__":
    out = os.path.join(sys.argv[1], tf.__version__)
    for make in CASES:
        save(os.path.join(out, make.__name__), make)
    record(sys.argv[1])
