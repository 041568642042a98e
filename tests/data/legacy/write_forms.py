"""Writes the models of `tests/data/legacy/forms.tar.xz`.

    python write_forms.py OUTDIR [CASE...]

Under TensorFlow 2.4.4 and 2.15.1: models with a layer that plain Keras computes wrongly on
some backend, wherever it may stand. A case goes to OUTDIR/<release>/<case>/: `model.h5`,
`saved_model`, `model.keras` (2.15) and `expected.npz`, with the inputs `b3_x*` and the
outputs `b3_y*` for a batch of 3, and `b1_x*` and `b1_y*` for one of 1. A case whose class
is lost is a SavedModel only.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
IS_215 = tf.__version__.startswith("2.15")
CASES = {}
LOST = set()
HALF = keras.mixed_precision.Policy("mixed_float16")
WORDS = 10  # whole numbers below this


def case(*shapes, dtypes=(), only_215=False, is_lost=False, sizes=()):
    """Enter a function of Keras tensors.

    `sizes` are the lengths of unknown axes in the batch of 3, one less than in the other.
    """

    def enter(function):
        if IS_215 or not only_215:
            CASES[function.__name__] = function, shapes, dtypes, sizes
        if is_lost:
            LOST.add(function.__name__)
        return function

    return enter


def pool(**options):
    return layers.AveragePooling2D(3, 2, "same", **options)


@case((4, 4, 2))
def pooled(x):
    return pool()(x)


@case((None, None, 2), sizes=(4, 6))
def pooled_unknown_even(x):
    return pool()(x)


@case((None, None, 2), sizes=(5, 4))
def pooled_unknown_odd(x):
    return pool()(x)


@case((None, 2), sizes=(6,))
def pooled_unknown_1d(x):
    return layers.AveragePooling1D(4, 3, "same")(x)


@case((None, 4, None, 1), sizes=(4, 5))
def pooled_unknown_3d(x):
    return layers.AveragePooling3D(3, 2, "same")(x)


@case((2, 4, 4, 1))
def pooled_over_time(x):
    return layers.TimeDistributed(pool())(x)


@case((None, 4, 4, 1), sizes=(3,))
def pooled_over_unknown_time(x):
    return layers.TimeDistributed(pool())(x)


@case((4, 4, 2), (4, 4, 2))
def pooled_twice(x, y):
    shared = pool()
    return layers.Concatenate()([shared(x), shared(y)])


@case((4, 4, 2), (6, 4, 2))
def pooled_in_two_sizes(x, y):
    shared = pool()
    return layers.Flatten()(shared(x)), layers.Flatten()(shared(y))


@case((4, 4, 2))
def pooled_in_a_model(x):
    inner = keras.Input((4, 4, 2))
    inner = keras.Model(inner, layers.Conv2D(2, 2)(pool()(inner)))
    return layers.Flatten()(inner(x))


@case((4, 4, 2))
def pooled_in_a_sequential(x):
    inner = keras.Sequential([layers.Conv2D(2, 1), pool(), layers.Flatten()])
    return inner(x)


@case((4, 4, 2))
def pooled_in_half(x):
    return layers.Conv2D(2, 1, dtype="float32")(pool(dtype=HALF)(x))


@case((4, 1), (1, 4))
def columns(x, y):
    return layers.Add()([x, y])


@case((4, 1), (1, 4))
def mean_of_columns(x, y):
    return layers.Average()([x, y])


@case((4, 4), (4, 1), (1, 4))
def three(x, y, z):
    return layers.Add()([x, y, z])


@case((3, 3))
def dense_and_a_constant(x):
    return layers.Dense(3)(x) + tf.constant([[1.0], [2.0], [3.0]])


@case((3, 3), (3, 1))
def dense_and_an_input(x, y):
    return layers.Dense(3)(x) + y


@case((None, 3), (None, 1), sizes=(3,))
def columns_of_unknown_length(x, y):
    return layers.Add()([x, y])


@case((4, 1), (1, 4), dtypes=("int32", "int32"))
def whole_columns(x, y):
    return layers.Add()([x, y])


@case((4, 4), (4, 1))
def columns_in_half(x, y):
    return layers.Add(dtype=HALF)([x, y])


@case((4, 4), dtypes=("int32",))
def masked_columns(ids):
    words = layers.Reshape((16,))(ids)
    rows = layers.Embedding(WORDS, 16, mask_zero=True)(words)
    column = layers.Embedding(WORDS, 1, mask_zero=True)(words)
    return layers.GRU(3, return_sequences=True)(layers.Add()([rows, column]))


@case((4,), dtypes=("int32",))
def masked_norm(words):
    rows = layers.Embedding(WORDS, 4, mask_zero=True)(words)
    return layers.GRU(3, return_sequences=True)(layers.LayerNormalization(axis=1)(rows))


@case((3, 4, 2))
def norm(x):
    return layers.LayerNormalization(axis=(1, 2))(x)


@case((3, 4))
def norm_of_columns(x):
    return layers.LayerNormalization(axis=1, epsilon=0.1)(x)


@case((None, 4), sizes=(3,))
def norm_of_unknown_rows(x):
    return layers.TimeDistributed(layers.LayerNormalization())(x)


@case((2, 3, 4))
def norm_over_time(x):
    return layers.TimeDistributed(layers.LayerNormalization(axis=1))(x)


@case((2, 3, 4), dtypes=("int32",), only_215=True)
def norm_of_whole_numbers_over_time(x):
    return layers.TimeDistributed(layers.LayerNormalization(axis=1))(x)


@case((3, 4))
def norm_in_half(x):
    return layers.LayerNormalization(axis=1, dtype=HALF)(x)


@case((3, 4), (3, 4))
def norm_twice(x, y):
    shared = layers.LayerNormalization(axis=1)
    return layers.Dense(2)(shared(x)), layers.Dense(2)(shared(y))


# Earlier releases cannot normalize whole numbers.
@case((4,), dtypes=("int32",), only_215=True)
def norm_of_whole_numbers(x):
    return layers.LayerNormalization()(x)


@case((4,), dtypes=("uint8",), only_215=True)
def norm_of_bytes(x):
    return layers.LayerNormalization()(x)


@case((4,), dtypes=("int32",), only_215=True)
def unit_norm_of_whole_numbers(x):
    return layers.UnitNormalization()(x)


@case((2, 4), dtypes=("int64",), only_215=True)
def unit_norm_over_time(x):
    return layers.TimeDistributed(layers.UnitNormalization())(x)


@case((2, 3, 3))
def einsum_over_time(x):
    dense = layers.experimental.EinsumDense("abc,cd->abd", (3, 3), bias_axes="b")
    return layers.TimeDistributed(dense)(x)


@case((3, 4))
def both_ways(x):
    both = layers.Bidirectional(layers.GRU(3, return_sequences=True))(x)
    return layers.LayerNormalization(axis=1)(both)


class Lost(layers.Layer):
    """Has the layers, and the functions, whose code is lost."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense, self.norm = layers.Dense(4), layers.LayerNormalization(axis=1)
        self.pool, self.add = pool(), layers.Add()

    def call(self, x):
        y = self.norm(self.dense(x))
        y += tf.reduce_mean(y, -1, keepdims=True)
        y = self.add([y, tf.reduce_max(y, 2, keepdims=True)])
        y = tf.nn.bias_add(y, tf.constant([1.0, 2.0, 3.0, 4.0]))
        image = tf.concat([y, y], 1)[..., tf.newaxis]
        image = self.pool(image) + tf.nn.avg_pool2d(image, 3, 2, "SAME")
        return image + tf.nn.avg_pool2d(image, 2, 1, "SAME")


@case((4, 4), is_lost=True)
def lost(x):
    return Lost()(x)


@case((4, None), is_lost=True, sizes=(4,))
def lost_of_unknown_length(x):
    return LostSum()(x)


class LostSum(layers.Layer):
    def call(self, x):
        y = x + tf.reduce_mean(x, -1, keepdims=True) + tf.reduce_max(x, 1, keepdims=True)
        y = tf.reduce_min(x, -1, keepdims=True) + y
        image = tf.concat([y, y], 1)[..., tf.newaxis]
        return tf.nn.avg_pool2d(image, 3, 2, "SAME")


def write(name, folder):
    keras.backend.clear_session()
    make, shapes, dtypes, sizes = CASES[name]
    dtypes = dtypes or ["float32"] * len(shapes)
    inputs = [keras.Input(s, dtype=d) for s, d in zip(shapes, dtypes)]
    model = keras.Model(inputs, make(*inputs))
    random = np.random.RandomState(3)
    model.set_weights([random.normal(size=w.shape) for w in model.get_weights()])
    os.makedirs(folder)
    stored = {}
    for batch in 3, 1:
        arrays = []
        for shape, dtype in zip(shapes, dtypes):
            rest = iter(sizes)
            longer = batch == 1
            shape = [next(rest) + longer if n is None else n for n in shape]
            shape = batch, *shape
            x = random.normal(size=shape)
            x = random.randint(0, WORDS, shape) if "int" in dtype else x
            arrays.append(x.astype(dtype))
        outputs = model.predict(arrays)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        stored.update({f"b{batch}_x{i}": x for i, x in enumerate(arrays)})
        stored.update({f"b{batch}_y{i}": y for i, y in enumerate(outputs)})
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)
    model.save(os.path.join(folder, "saved_model"), save_format="tf")
    if name not in LOST:
        model.save(os.path.join(folder, "model.h5"))
        if IS_215:
            model.save(os.path.join(folder, "model.keras"))


def main(out, *names):
    for name in names or CASES:
        write(name, os.path.join(out, tf.__version__, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
