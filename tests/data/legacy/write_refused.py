"""Writes models that tf.keras opens and that were once refused: `refused.tar.xz`.

Run by hand: `python write_refused.py OUT`, under TensorFlow 2.15.1; `hub` and `folded`
also under 2.4.4, into `OUT/2.4.4`. Pack them with
`tar -cJf refused.tar.xz -C OUT .`. `data.npz` has inputs `x0`, `x1`, … and the output `y`.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import h5py
import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
tf.config.run_functions_eagerly(True)  # noqa: FBT003 (it takes no name)
X = np.random.RandomState(0).rand(4, 4).astype("float32")
X2 = [X[:, :2], X[:, 2:]]
CASES = {}


def case(*forms):
    def register(function):
        CASES[function.__name__] = function, forms
        return function

    return register


def inputs(count=2):
    return [keras.Input((2,), name=name) for name in "abc"[:count]]


# A nested Functional whose inputs are nested, called on a dict of other names.


def called_on_a_dict(nest, count):
    own = inputs(count)
    made = nest(own)
    inner = keras.Model(made, layers.Dense(1)(layers.Concatenate()(own)), name="inner")
    outer = [keras.Input((2,), name=f"p{number}") for number in range(count)]
    keys = [str(9 - number) for number in range(count)]
    return keras.Model(outer, inner(dict(zip(keys, outer))))  # noqa: B905


@case("model.h5", "model.keras", "saved_model")
def nested_list():
    return called_on_a_dict(lambda own: [own], 2), X2


@case("model.h5")
def nested_list_and_another():
    return called_on_a_dict(lambda own: [own[:2], own[2]], 3), [*X2, X2[0]]


@case("model.h5", "saved_model")
def nested_dicts():
    """Inputs as a dict in a dict, with keys that are not sorted."""
    a, b, c = inputs(3)
    y = layers.Dense(2)(layers.Subtract()([a, b])) + c
    model = keras.Model({"z": {"b": a, "a": b}, "c": c}, y)
    return model, {"z": {"b": X2[0], "a": X2[1]}, "c": X2[0] * 3}


class Split(layers.Layer):
    def call(self, x):
        one = tf.split(x, [4], -1) + tf.split(x, 1, -1)
        return tf.concat([part * 2 for part in one], -1)


@case("saved_model")
def split_into_one():
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(Split()(x))), [X]


@case("saved_model")
def table_saved_twice():
    pathlib.Path("words.txt").write_text("a\nb\nc\n")
    module, lookup = tf.Module(), tf.lookup
    columns = lookup.TextFileIndex.WHOLE_LINE, lookup.TextFileIndex.LINE_NUMBER
    file = lookup.TextFileInitializer(
        "words.txt", tf.string, columns[0], tf.int64, columns[1]
    )
    module.table = lookup.StaticHashTable(file, -1)
    signature = [tf.TensorSpec([None], tf.string)]
    module.look_up = tf.function(module.table.lookup, input_signature=signature)
    tf.saved_model.save(module, "once")
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2)])
    model.transform = tf.saved_model.load("once")
    return model, [X]


@case("model.h5", "model.keras")
def renorm():
    x = keras.Input((4,))
    norm = tf.compat.v1.keras.layers.BatchNormalization
    y = norm(renorm=True)(layers.Reshape((4, 1))(x))
    y = layers.TimeDistributed(norm(renorm=True, scale=False))(y)
    return keras.Model(x, layers.Dense(1)(layers.Flatten()(y))), [X]


@case("model.keras")
def weighted_crossentropy():
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, activation="softmax")])
    metrics = {"metrics": ["ce"], "weighted_metrics": ["acc", "crossentropy"]}
    model.compile("adam", "sparse_categorical_crossentropy", **metrics)
    model.fit(X, np.arange(4) % 3, verbose=0)
    return model, [X], model.evaluate(X, np.arange(4) % 3, verbose=0)


@case("model.h5", "model.keras")
def loss_of_one_output():
    x = keras.Input((4,))
    outputs = [layers.Dense(2, name="p")(x), layers.Dense(1, name="q")(x)]
    model = keras.Model(x, outputs)
    model.compile("sgd", {"p": "mse"})
    model.fit(X, {"p": X[:, :2]}, verbose=0)
    return model, [X], model.evaluate(X, {"p": X[:, :2]}, verbose=0)


@case("model.h5", "model.keras")
def frozen_discriminator():
    """It was compiled before it was frozen, as in every tutorial on GANs."""
    parts = [layers.Dense(3), layers.BatchNormalization(), layers.Dense(1)]
    model = keras.Sequential([layers.Input((4,)), *parts])
    model.compile("adam", "mse")
    model.fit(X, X[:, :1], verbose=0)
    model.trainable = False
    return model, [X]


# Numbers that are equal, and those at limits: which operand has the gradient.


def tied(d, x):
    parts = [tf.clip_by_value(d, -1.0, 1.0), tf.maximum(d, 0.0), tf.minimum(0.0, d)]
    parts += [tf.maximum(d, x[:, :3]), tf.minimum(x[:, 1:], d), tf.abs(d)]
    return tf.concat(parts, -1)


class Tied(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", (4, 3))

    def call(self, x):
        return tied(tf.matmul(x, tf.clip_by_value(self.w, -1.0, 1.0)), x)


def trained_at_ties(model):
    """Return a model, inputs, and its weights after a step."""
    draw = np.random.RandomState(1)
    x = draw.randint(-1, 2, (8, 4)).astype("float32")
    before = [draw.randint(-1, 2, w.shape).astype("float32") for w in model.weights]
    model.set_weights(before)
    model.compile(keras.optimizers.SGD(0.25), "mse")
    model.train_on_batch(x, np.ones((8, 1)))
    after = sorted(map(np.ravel, model.get_weights()), key=np.size)
    model.set_weights(before)
    return model, [x], np.concatenate(after)


@case("model.h5", "model.keras")
def ties():
    x = keras.Input((4,))
    y = tied(layers.Dense(3, use_bias=False)(x), x)
    return trained_at_ties(keras.Model(x, layers.Dense(1, use_bias=False)(y)))


@case("saved_model")
def ties_in_a_layer():
    x = keras.Input((4,))
    y = layers.Dense(1, use_bias=False)(Tied()(x))
    return trained_at_ties(keras.Model(x, y))


# Batch normalization inside of a layer whose class is missing.


class Hub(layers.Layer):
    """Calls a model that was saved and opened again, as `hub.KerasLayer` does."""

    def __init__(self, folder=None, **options):
        super().__init__(**options)
        self.opened = tf.saved_model.load(folder)
        trained = {id(weight) for weight in self.opened.trainable_variables}
        for weight in self.opened.variables:
            self.add_weight(
                weight.name,
                weight.shape,
                trainable=id(weight) in trained,
                getter=lambda *_, own=weight, **__: own,
            )

    def call(self, x, training=None):
        return self.opened(x, bool(training), None)


class FoldedDense(layers.Layer):
    """A quantized kernel, and batch normalization by the functions of `tf.nn`."""

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], 3))
        self.beta = self.add_weight("beta", (3,))
        for name in ("moving_mean", "moving_variance"):
            options = {"initializer": "ones", "trainable": False}
            setattr(self, name, self.add_weight(name, (3,), **options))

    def call(self, x, training=None):
        kernel = tf.round(self.kernel * 4) / 4
        kernel = self.kernel + tf.stop_gradient(kernel - self.kernel)
        y = tf.matmul(x, kernel)
        mean, variance = self.moving_mean, self.moving_variance
        if training:
            mean, variance = tf.nn.moments(y, [0])
            self.moving_mean.assign_sub((self.moving_mean - mean) * 0.1)
            change = (self.moving_variance - self.spread(y, variance)) * 0.1
            self.moving_variance.assign_sub(change)
        y = tf.nn.batch_normalization(y, mean, variance, self.beta, None, 0.01)
        return tf.nn.relu(y)

    def spread(self, y, variance):
        return variance


class Spread(FoldedDense):
    """It moves its variance to another than it normalizes with."""

    def spread(self, y, variance):
        return tf.reduce_mean(tf.math.squared_difference(y, self.moving_mean), [0])


def hub_model():
    x = keras.Input((4, 4, 1))
    y = layers.BatchNormalization(scale=False)(layers.Conv2D(3, 2)(x))
    y = layers.Flatten()(layers.Activation("relu")(y))
    y = layers.BatchNormalization(momentum=0.9, epsilon=0.01)(layers.Dense(3)(y))
    return keras.Model(x, layers.Dropout(1e-6)(y))  # which drops nothing here


def trained_once(model):
    """Return a model, inputs, and its weights after a step."""
    x = np.random.RandomState(1).rand(8, 4, 4, 1).astype("float32")
    before = [w + 0.1 * np.arange(w.size).reshape(w.shape) for w in model.get_weights()]
    model.set_weights(before)
    model.compile(keras.optimizers.SGD(0.25), "mse")
    model.train_on_batch(x, np.ones((8, 1)))
    after = np.sort(np.concatenate([w.ravel() for w in model.get_weights()]))
    model.set_weights(before)
    return model, [x], after


@case("saved_model")
def hub():
    hub_model().save("opened")
    x = keras.Input((4, 4, 1))
    return trained_once(keras.Model(x, layers.Dense(1)(Hub("opened")(x))))


@case("saved_model")
def folded():
    x = keras.Input((4, 4, 1))
    y = layers.Dense(1)(FoldedDense()(layers.Flatten()(x)))
    return trained_once(keras.Model(x, y))


@case("saved_model")
def spread():
    x = keras.Input((4, 4, 1))
    y = layers.Dense(1)(Spread()(layers.Flatten()(x)))
    return trained_once(keras.Model(x, y))


class ThreeTimes(layers.Layer):
    """Each call moves the statistics that the call before has moved."""

    def __init__(self, **options):
        super().__init__(**options)
        self.norm = layers.BatchNormalization()

    def call(self, x, training=None):
        for _ in range(3):
            x = 0.5 * self.norm(x, training=training) + 1
        return x


@case("saved_model")
def called_three_times():
    x = keras.Input((4, 4, 1))
    y = layers.Flatten()(ThreeTimes()(layers.Conv2D(2, 2)(x)))
    return trained_once(keras.Model(x, layers.Dense(1)(y)))


# What stays refused, each with its reason; of the agent, a signature opens.


class Agent(keras.Model):
    def __init__(self):
        super().__init__()
        self.value = layers.Dense(3, name="value")

    def call(self, x):
        value = self.value(x)
        return value, tf.random.categorical(value, 1)


@case("saved_model")
def sparse_input():
    x = keras.Input((4,), sparse=True)
    model = keras.Model(x, layers.Dense(2)(x))
    return model, [tf.sparse.from_dense(X)]


class Written(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        keys, values = tf.constant(["0.5", "1.5"]), tf.constant([1.0, 2.0])
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        self.table = tf.lookup.StaticHashTable(initializer, 0.0)

    def call(self, x):
        return self.table.lookup(tf.strings.as_string(x, precision=1))


@case("saved_model")
def number_to_text():
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(Written()(x))), [X]


def agent():
    """Its signature returns what needs no random choice."""
    tf.config.run_functions_eagerly(False)  # noqa: FBT003
    model = Agent()
    y, _ = model(X)
    signature = [tf.TensorSpec([None, 4], tf.float32, "x")]
    served = tf.function(lambda x: {"y": model(x)[0]}, input_signature=signature)
    model.save("saved_model", signatures=served)
    np.savez("data.npz", x0=X, y=y)


@case("model.h5", "model.keras")
def addons():
    """Under TensorFlow 2.12.1 with tensorflow-addons 0.20."""
    import tensorflow_addons as tfa

    norms = tfa.layers
    x = keras.Input((3, 4, 6))
    y = norms.GroupNormalization(groups=3, epsilon=0.1)(x)
    y = norms.GroupNormalization(groups=1, axis=2, center=False)(y)
    y = norms.InstanceNormalization(epsilon=0.05)(y)
    y = norms.InstanceNormalization(axis=1, scale=False)(y)
    model = keras.Model(x, y)
    draw = np.random.RandomState(1)
    model.set_weights([draw.rand(*w.shape) for w in model.weights])
    return model, [draw.rand(2, 3, 4, 6).astype("float32")]


@case("model.h5")
def weight_normalization():
    """Under TensorFlow 2.12.1 with tensorflow-addons 0.20."""
    import tensorflow_addons as tfa

    def normalized(layer, data_init=True, **options):
        return tfa.layers.WeightNormalization(layer, data_init=data_init, **options)

    x, i = keras.Input((6, 3)), keras.Input((4, 4))
    inner = normalized(layers.Dense(2))(layers.Dense(4)(i))
    y = normalized(layers.Conv1D(4, 3, activation="relu"), name="conv")(x)
    y = normalized(layers.LSTM(3, return_sequences=True), False)(y)
    y = normalized(layers.Conv1D(4, 1, use_bias=False), False)(y)
    y = keras.Model(i, inner, name="inner")(y)
    frozen = normalized(layers.Dense(2), name="frozen")
    model = keras.Model(x, frozen(y))
    data = np.random.RandomState(1).rand(8, 6, 3).astype("float32")
    model.compile("adam", "mse")
    model.fit(data, np.ones((8, 4, 2)), epochs=2, verbose=0)
    frozen.trainable = False
    return model, [data]


def never_called():
    """Under TensorFlow 2.12.1 with tensorflow-addons 0.20."""
    import tensorflow_addons as tfa

    x = keras.Input((4,))
    dense = tfa.layers.WeightNormalization(layers.Dense(2), name="scaled")
    keras.Model(x, dense(x)).save("model.h5")


def trained_with_ranges(model):
    model.compile("adam", "mse")
    data = np.random.RandomState(1).rand(8, 8, 8, 3).astype("float32")
    model.fit(data, np.ones(model(data).shape), epochs=3, verbose=0)
    return model, [data]


@case("model.h5")
def quantized():
    """Under TensorFlow 2.12.1 with tensorflow-model-optimization 0.7.5."""
    import tensorflow_model_optimization as tfmot

    x = keras.Input((8, 8, 3))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3)(x))
    y = layers.DepthwiseConv2D(2, activation="relu")(layers.ReLU()(y))
    y = layers.Add()([layers.Conv2D(4, 1)(y), layers.Conv2D(4, 1, activation="tanh")(y)])
    y = layers.SeparableConv2D(5, 2)(layers.Activation("relu")(y))
    y = layers.Conv2DTranspose(3, 2, activation="relu")(y)
    y = layers.MaxPooling2D()(y)
    y = layers.AveragePooling2D()(layers.Concatenate()([y, y]))
    y = layers.Dropout(0.2)(layers.Flatten()(y))
    y = layers.Dense(3, activation="softmax")(layers.Dense(5, activation="relu")(y))
    return trained_with_ranges(tfmot.quantization.keras.quantize_model(keras.Model(x, y)))


@case("model.h5")
def quantized_in_a_row():
    """Under TensorFlow 2.12.1 with tensorflow-model-optimization 0.7.5; a Sequential, and the older wrapper."""
    import tensorflow_model_optimization as tfmot
    from tensorflow_model_optimization.python.core.quantization.keras import (
        quantize_wrapper,
    )
    from tensorflow_model_optimization.python.core.quantization.keras.default_8bit import (
        default_8bit_quantize_registry as registry,
    )

    start = [layers.Input((8, 8, 3)), layers.Conv2D(4, 3, use_bias=False)]
    start += [layers.ReLU(6.0), layers.Flatten(), layers.Dense(4, activation="sigmoid")]
    model = tfmot.quantization.keras.quantize_model(keras.Sequential(start))
    settings = registry.Default8BitQuantizeConfig(["kernel"], ["activation"], False)
    old = quantize_wrapper.QuantizeWrapper(layers.Dense(4), settings)
    return trained_with_ranges(keras.Sequential([*model.layers, old]))


class MultiHeadAttention(layers.Layer):
    def __init__(self, head_num=2, **options):
        super().__init__(**options)
        self.head_num = head_num

    def get_config(self):
        return {**super().get_config(), "head_num": self.head_num}


@case("model.h5")
def another_multi_head_attention():
    x = keras.Input((4,))
    return keras.Model(x, MultiHeadAttention(4)(layers.Dense(2)(x))), [X]


class Smoothing(layers.Layer):
    """A recurrence that no layer of Keras has, over any number of steps."""

    def build(self, shape):
        self.share = self.add_weight("share", (shape[-1],), initializer="ones")

    @tf.function
    def call(self, x):
        state = tf.zeros_like(x[:, 0])
        for step in tf.range(tf.shape(x)[1]):
            state = tf.minimum(state * 0.5 + x[:, step] * self.share, 3.0)
        return state


class Smoothed(keras.Model):
    def __init__(self):
        super().__init__()
        self.smoothing, self.last = Smoothing(), layers.Dense(2)

    def call(self, x):
        return self.last(self.smoothing(x))


@case("saved_model")
def loop_over_any_length():
    model, x = Smoothed(), np.repeat(X[:, None], 6, 1) * 4
    tf.config.run_functions_eagerly(False)  # noqa: FBT003
    model._set_save_spec(tf.TensorSpec((None, None, 4), tf.float32, "x"))
    model(tf.constant(x))
    return model, [x]


@case("saved_model")
def loop_in_a_functional():
    tf.config.run_functions_eagerly(False)  # noqa: FBT003
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, layers.Dense(2)(Smoothing()(x)))
    return model, [np.repeat(X[:, None], 6, 1) * 4]


def any_rank():
    """A function of a tensor of any rank."""
    module = tf.Module()
    module.w = tf.Variable(X)
    module.f = tf.function(
        lambda x: {"y": tf.nn.relu(tf.matmul(x, module.w))},
        input_signature=[tf.TensorSpec(None, tf.float32, "x")],
    )
    tf.saved_model.save(module, "saved_model", signatures=module.f)
    np.savez("data.npz", x0=X, y=module.f(X)["y"])


def late():
    """Its layers are numbered `layer-0`, `layer-1`, … only."""
    rows = [layers.GaussianNoise(0.1), layers.GRU(3, return_sequences=True)]
    model = keras.Sequential(
        [*rows, layers.Dropout(0.2), layers.TimeDistributed(layers.Dense(1))]
    )
    x = X[:, :, None]
    y = model(x)
    numbered = {f"layer-{n}": layer for n, layer in enumerate(model.layers)}
    tf.train.Checkpoint(**numbered).write("late")
    np.savez("data.npz", x0=x, y=y)


def autoencoder(suffix):
    x = keras.Input((4,))
    names = f"z_mean{suffix}", f"z_log_var{suffix}"
    parts = [layers.Dense(4, name=name)(x) for name in names]
    encoder = keras.Model(x, parts, name="encoder")
    x = keras.Input((4,))
    return keras.Model(x, encoder(x)[0] - 3 * encoder(x)[1])


def rerun():
    """The cell of a notebook was run again: the layers are called z_mean_6, …."""
    model = autoencoder("_6")
    model.save_weights("weights.h5")
    np.savez("data.npz", x0=X, y=model(X))


def numbered(frozen):
    """Equal layers in a nested model; the first may be frozen."""
    keras.backend.clear_session()
    layers.Dense(1), layers.Dense(1)  # so that the next one is dense_2
    x = keras.Input((4,))
    first, second = layers.Dense(4, activation="tanh"), layers.Dense(4)
    inner = keras.Model(x, second(first(x)), name="inner")
    if frozen is not None:
        inner.layers[frozen].trainable = False
    x = keras.Input((4,))
    model = keras.Model(x, inner(x))
    model.save_weights(f"numbered_{frozen}.h5")
    np.savez(f"numbered_{frozen}.npz", x0=X, y=model(X))


def iterations():
    """Keras 2.0 counted its steps in float32."""
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(keras.optimizers.legacy.Adam(), "mse")
    model.fit(X, X[:, :1], verbose=0)
    model.save("model.h5")
    with h5py.File("model.h5", "a") as file:
        group = file["optimizer_weights"]
        name = next(name for name in group.attrs["weight_names"] if "iter" in name)
        value = np.float32(group[name][()])
        del group[name]
        group.create_dataset(name, data=value)


def main(folder, *names):
    root = pathlib.Path(folder).resolve()
    for name, (function, forms) in CASES.items():
        if name not in (names or CASES):
            continue
        keras.backend.clear_session()
        tf.random.set_seed(len(name))
        place = root / name
        place.mkdir(parents=True, exist_ok=True)
        os.chdir(root)
        model, data, *losses = function()
        flat = tf.nest.flatten(data)
        x = data if isinstance(data, dict) else data if len(data) > 1 else data[0]
        y = model(x)
        flat = [getattr(value, "values", value) for value in flat]
        stored = {f"x{number}": value for number, value in enumerate(flat)}
        y = {"y": y[0] if isinstance(y, list) else y}
        np.savez(place / "data.npz", **stored, **y, losses=np.ravel(losses))
        for form in forms:
            model.save(str(place / form))
    for function in (late, rerun, iterations, any_rank, agent, never_called):
        if function.__name__ not in (names or function.__name__):
            continue
        place = root / function.__name__
        place.mkdir(exist_ok=True)
        os.chdir(place)
        function()
    for frozen in (None, 1, 2) if not names else ():
        place = root / "numbered"
        place.mkdir(exist_ok=True)
        os.chdir(place)
        numbered(frozen)


if __name__ == "__main__":
    main(*sys.argv[1:])
