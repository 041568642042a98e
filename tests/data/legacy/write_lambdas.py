"""Writes models whose layers are Lambdas: `tests/data/legacy/lambdas.tar.xz`.

Run by hand: `python write_lambdas.py OUT NAME`, once for each Python and Keras below;
NAME becomes the folder. The code in the files is that of the Python that runs this, so
this program is written for Python 2.7 and 3 alike.

    2.7-keras-2.0.6  2.7-keras-2.2.4   TensorFlow 1.15.0
    3.6-keras-2.0.6  3.6-keras-2.2.4   TensorFlow 1.14.0
    3.7  3.8  3.10  3.11               TensorFlow 2.0.0, 2.4.4, 2.10.1, 2.15.1
    3.12                               TensorFlow 2.16.2, tf-keras 2.16.0

`many/model.h5` has a Lambda for each case, each an output of its own; `driving` is the
Sequential that students of self-driving cars wrote; `refused/<name>.h5` cannot be
followed. A model that was saved as a `.keras` file has one, too.
"""

from __future__ import absolute_import, print_function

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import math

import numpy as np
import tensorflow as tf

IS_TF2 = tf.__version__.startswith("2.")
try:
    if IS_TF2:
        import tf_keras as keras
    else:
        import keras
except ImportError:
    keras = tf.keras
K, layers = keras.backend, keras.layers


def with_closure(factor, shift):
    return lambda x: x * factor + shift


def with_default(x, factor=3.0, axis=1):
    return K.sum(x * factor, axis=axis, keepdims=True)


def with_helper(x):
    def scaled(value, by=2.0):
        return value * by

    half = lambda value: scaled(value, by=0.5)  # noqa: E731
    return scaled(x) + half(x) - scaled(x, 3)


def with_import(x):
    import numpy as numbers
    import tensorflow as flow

    return flow.abs(x) * numbers.sqrt(2.0)


def with_loop(x):
    parts = []
    for i in range(3):
        parts = parts + [x[:, i : i + 2] * (i + 1)]
    return K.concatenate(parts, axis=1)


def with_branch(x):
    if K.image_data_format() == "channels_first":
        return x
    scale = 2.0 if K.backend() == "tensorflow" and not False else 3.0
    return x * scale


def euclidean_distance(vectors):
    x, y = vectors
    total = K.sum(K.square(x - y), axis=1, keepdims=True)
    return K.sqrt(K.maximum(total, K.epsilon()))


def distance_shape(shapes):
    first, _ = shapes
    return (first[0], 1)


def attention(pair):
    query, values = pair
    weights = K.softmax(K.batch_dot(query, K.permute_dimensions(values, (0, 2, 1))))
    return K.batch_dot(weights, values)


# Name -> function, inputs ("a" and "b" of 6 numbers, "image", "steps"), other settings.
CASES = {
    "scaled": (lambda x: x / 127.5 - 1.0, "a", {}),
    "centered": (lambda x: (x / 255.0) - 0.5, "image", {}),
    "normalized": (lambda x: K.l2_normalize(x, axis=1), "a", {}),
    "last": (lambda x: x[:, -1], "steps", {}),
    "first_two": (lambda x: x[:, :2, ::2], "steps", {}),
    "new_axis": (lambda x: x[:, None, ...], "a", {}),
    "from_second": (lambda x: x[:, 1:], "a", {}),
    "between": (lambda x: x[:, 1:3], "a", {}),
    "distance": (euclidean_distance, "ab", {"output_shape": distance_shape}),
    "manhattan": (lambda t: K.abs(t[0] - t[1]), "ab", {}),
    "similarity": (
        lambda t: K.exp(-K.sum(K.abs(t[0] - t[1]), axis=1, keepdims=True)),
        "ab",
        {},
    ),
    "closure": (with_closure(2.5, -1), "a", {}),
    "default": (with_default, "a", {}),
    "arguments": (
        lambda x, factor, shift=1: x * factor + shift,
        "a",
        {"arguments": {"factor": 4, "shift": -2.5}},
    ),
    "helper": (with_helper, "a", {}),
    "imports": (with_import, "a", {}),
    "loop": (with_loop, "a", {}),
    "listed": (lambda x: K.stack([x[:, i] ** i for i in range(3)], axis=1), "a", {}),
    "branch": (with_branch, "a", {}),
    "attention": (attention, ("steps", "steps"), {}),
    "mean": (lambda x: K.mean(x, axis=[1, 2]), "image", {}),
    "std": (lambda x: K.std(x, axis=-1, keepdims=True), "image", {}),
    "maximum": (lambda x: K.max(x, axis=1), "steps", {}),
    "flat": (lambda x: K.batch_flatten(x), "image", {}),
    "reshaped": (lambda x: K.reshape(x, (-1, K.int_shape(x)[1] // 2, 2)), "a", {}),
    "reshaped_by_shape": (
        lambda x: tf.reshape(x, [tf.shape(x)[0], x.shape[1] * x.shape[2]]),
        "steps",
        {},
    ),
    "expanded": (lambda x: K.expand_dims(K.squeeze(K.expand_dims(x, 1), 1)), "a", {}),
    "tiled": (lambda x: K.tile(x, [1, 2]), "a", {}),
    "repeated": (lambda x: K.repeat_elements(x, 2, axis=1), "steps", {}),
    "stacked": (lambda t: K.stack([t[0], t[1], t[0] * t[1]], axis=1), "ab", {}),
    "joined": (lambda t: K.concatenate([t[0], t[1][:, :2]]), "ab", {}),
    "resized": (lambda x: K.resize_images(x, 2, 3, "channels_last"), "image", {}),
    "depth": (
        lambda x: tf.nn.depth_to_space(x[:, :, :, :1] * [[1.0] * 4], 2),
        "image",
        {},
    ),
    "space": (lambda x: tf.nn.space_to_depth(x, 2), "image", {}),
    "split": (lambda x: tf.split(x, 2, axis=1), "a", {}),
    "split_sum": (lambda x: tf.add_n(tf.split(x, [2, 2, 2], 1)), "a", {}),
    "cast": (
        lambda x: K.cast(K.greater(x, 0.5), "float32") + tf.cast(x, tf.float32),
        "a",
        {},
    ),
    "masked": (lambda x: tf.where(x > 1.0, x, tf.zeros_like(x)), "a", {}),
    "clipped": (
        lambda x: K.clip(x, 0.3, 0.9) + K.relu(x - 1, alpha=0.1, max_value=2.0),
        "a",
        {},
    ),
    "arithmetic": (lambda x: -(x**2) % 0.7 + (x // 0.3) * 2 - abs(x), "a", {}),
    "constants": (lambda x: x * np.pi + np.sqrt(2.0) - math.log(10) / 3, "a", {}),
    "array": (lambda x: x - np.array([1.0, 2.0, 3.0]), "image", {}),
    "tf_constant": (lambda x: x * tf.constant([0.1, 0.2, 0.3]), "image", {}),
    "nested": (lambda x: (lambda y: (lambda z: z + y)(y * 2))(x), "a", {}),
    "reversed": (lambda x: x[:, ::-1], "a", {}),
    "matrix": (lambda x: tf.matmul(x, x, transpose_b=True), "steps", {}),
    "norms": (
        lambda x: (
            tf.norm(x, axis=1, keepdims=True) + tf.reduce_sum(x, 1, keepdims=True)
        ),
        "a",
        {},
    ),
    "padded": (lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 0]]), "steps", {}),
    "keywords": (lambda x: K.mean(x=x, keepdims=True, axis=1), "a", {}),
    "identity": (lambda x: x, "a", {}),
    "swapped": (lambda x: tf.transpose(x, perm=[0, 2, 1]), "steps", {}),
    "gathered": (lambda x: tf.gather(x, [2, 0], axis=1), "steps", {}),
    "softmax": (
        lambda x: tf.nn.softmax(x) + K.sigmoid(x) - K.tanh(x) * K.softplus(x),
        "a",
        {},
    ),
    "hard_sigmoid": (lambda x: K.hard_sigmoid(x) + K.elu(x - 1.0, 0.5), "a", {}),
}
if IS_TF2:
    CASES["image_resize"] = (lambda x: tf.image.resize(x, (3, 5)), "image", {})
    CASES["einsum"] = (lambda t: tf.einsum("bi,bj->bij", t[0], t[1]), "ab", {})
    CASES["logs"] = (
        lambda x: tf.math.log(x) + tf.math.reduce_max(x, axis=1)[:, None],
        "a",
        {},
    )
else:
    CASES["image_resize"] = (lambda x: tf.image.resize_images(x, (3, 5)), "image", {})
    CASES["logs"] = (
        lambda x: tf.log(x) + tf.reduce_max(x, reduction_indices=[1])[:, None],
        "a",
        {},
    )
if not IS_TF2 and keras.__version__.startswith("2.0."):  # whose Lambdas return one tensor
    del CASES["split"]


def unknown_helper(x):
    return x


REFUSED = {
    "global": lambda x: unknown_helper(x) + 1,
    "method": lambda x: x.scaled(2),
    "function": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x),
    "branch": lambda x: x if K.int_shape(x)[1] == 6 else -x,
}


def data():
    random = np.random.RandomState(7)
    draw = lambda *shape: random.uniform(0.1, 2, (3,) + shape).astype("float32")  # noqa: E731
    return {"a": draw(6), "b": draw(6), "image": draw(4, 6, 3), "steps": draw(5, 3)}


def many(folder, x):
    inputs = {name: layers.Input(x[name].shape[1:], name=name) for name in sorted(x)}
    outputs, names = [], []
    for name in sorted(CASES):
        function, taken, settings = CASES[name]
        taken = ["a", "b"] if taken == "ab" else taken
        given = (
            [inputs[n] for n in taken] if not isinstance(taken, str) else inputs[taken]
        )
        found = layers.Lambda(function, name=name, **settings)(given)
        found = found if isinstance(found, (list, tuple)) else [found]
        outputs += found
        names += ["{}_{}".format(name, i) if i else name for i in range(len(found))]
    model = keras.models.Model(
        [inputs[n] for n in sorted(inputs)], outputs, name="many"
    )
    save(model, os.path.join(folder, "many"), [x[n] for n in sorted(x)], names)


def driving(folder, x):
    model = keras.models.Sequential(name="driving")
    model.add(
        layers.Lambda(lambda x: x / 127.5 - 1.0, input_shape=(4, 6, 3), name="scale")
    )
    model.add(layers.Cropping2D(((1, 0), (0, 0))))
    model.add(layers.Conv2D(2, (2, 2), activation="elu", name="conv"))
    model.add(
        layers.Lambda(lambda x: K.spatial_2d_padding(x, ((1, 1), (0, 1))), name="pad")
    )
    model.add(layers.Flatten())
    model.add(layers.Dense(1, name="angle"))
    model.add(layers.Lambda(lambda x: tf.atan(x) * 2, name="radians"))
    model.compile(keras.optimizers.Adam(), "mse")
    model.fit(x["image"], np.ones((3, 1)), verbose=0)  # an optimizer with a state
    save(model, os.path.join(folder, "driving"), [x["image"] * 100], ["radians"])


def wrapped(folder, x):
    """A Lambda within TimeDistributed, one that ends a mask, one in a model in a model."""
    inner = keras.models.Sequential(name="inner")
    inner.add(layers.Dense(4, input_shape=(3,), name="dense"))
    inner.add(layers.Lambda(lambda x: K.l2_normalize(x, axis=-1), name="unit"))
    steps = layers.Input((5, 3), name="steps")
    masked = layers.Masking(1.2, name="masking")(steps)
    masked = layers.Lambda(lambda x: x * 2 + 1, name="unmasked")(masked)
    each = layers.TimeDistributed(layers.Lambda(lambda x: x[:, :2] - 1), name="each")
    lstm = layers.LSTM(2, recurrent_activation="sigmoid", name="lstm")
    last = lstm(layers.concatenate([each(steps), masked]))
    shared = layers.Lambda(lambda x: x * x, name="shared")
    unit = inner(layers.Lambda(lambda x: x[:, 0], name="start")(shared(steps)))
    model = keras.models.Model(steps, [last, shared(unit)], name="wrapped")
    save(model, os.path.join(folder, "wrapped"), [x["steps"]], ["last", "unit"])


def refused(folder):
    os.makedirs(os.path.join(folder, "refused"))
    for name in sorted(REFUSED):
        given = layers.Input((6,), name="x")
        try:
            found = layers.Lambda(REFUSED[name], name=name)(given)
        except AttributeError:  # no tensor has such a method: it is there for its code
            layer = layers.Lambda(lambda x: x, name=name)
            found = layer(given)
            layer.function = REFUSED[name]
        model = keras.models.Model(given, found, name="refused")
        model.save(os.path.join(folder, "refused", name + ".h5"))


def save(model, folder, inputs, names):
    os.makedirs(folder)
    found = model.predict(inputs)
    found = found if isinstance(found, list) else [found]
    arrays = {"x_{}".format(i): value for i, value in enumerate(inputs)}
    for i, (name, value) in enumerate(zip(names, found)):
        arrays["y_{:02d}_{}".format(i, name)] = value
    assert len(names) == len(found)
    np.savez(os.path.join(folder, "expected.npz"), **arrays)
    model.save(os.path.join(folder, "model.h5"))
    if tf.__version__ in ("2.15.1", "2.16.2"):
        model.save(os.path.join(folder, "model.keras"))


def main(out, name):
    folder, x = os.path.join(out, name), data()
    for write in many, driving, wrapped:
        K.clear_session()
        write(folder, x)
    K.clear_session()
    refused(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
