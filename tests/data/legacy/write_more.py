"""Writes the models of `more.tar.xz`, with the TensorFlow that runs it.

    python write_more.py OUTDIR [CASE ...]

Under each of TensorFlow 2.0.0, 2.4.4 and 2.15.1. A case goes to OUTDIR/<release>/
<case>/: `saved_model/`, `model.h5`, `model.keras` (2.15) and `expected.npz`, with
inputs `x_*`, outputs `y_*`, a training batch `tx_*`, `ty_*`, and all weights after
one more step on it, `after/<number>` in the order of `model.weights`. Pack them with
`python pack.py more.tar.xz OUTDIR`.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
OPTIMIZERS = {
    "sgd_nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "sgd_decay": ("SGD", {"momentum": 0.5, "decay": 0.1}),
    "rmsprop_centered": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "amsgrad": ("Adam", {"amsgrad": True}),
    "adagrad": ("Adagrad", {"initial_accumulator_value": 0.2}),
    "adadelta": ("Adadelta", {}),
    "adamax": ("Adamax", {}),
    "nadam": ("Nadam", {}),
    "ftrl": ("Ftrl", {"l1_regularization_strength": 0.001}),
    "adamw": ("AdamW", {"weight_decay": 0.01}),
    "clipped": ("Adam", {"clipnorm": 0.01}),
    "averaged": (
        "SGD",
        {
            **{"momentum": 0.9, "use_ema": True},
            **{"ema_momentum": 0.8, "ema_overwrite_frequency": 2},
        },
    ),
}
random = np.random.RandomState(7)


def array(*shape):
    return random.uniform(-1, 1, shape).astype("float32")


class Scale(layers.Layer):
    """A custom layer."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape):
        self.offset = self.add_weight(
            "offset", shape=(input_shape[-1],), initializer="ones"
        )
        super().build(input_shape)

    def call(self, inputs):
        return inputs * self.factor + self.offset

    def get_config(self):
        return dict(super().get_config(), factor=self.factor)


class Net(keras.Model):
    """A subclassed model, with layers in attributes and in a list."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(4, activation="relu", name="first")
        self.blocks = [layers.Dense(4, name="a"), layers.Dense(4, name="b")]
        self.last = layers.Dense(units, name="last")

    def call(self, inputs, training=False):
        x = self.first(inputs)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


CUSTOM = {"Scale": Scale, "Net": Net}


def small(optimizer, **compiled):
    inputs = keras.Input((4,), name="x")
    hidden = layers.Dense(5, activation="tanh", name="hidden")(inputs)
    model = keras.Model(inputs, layers.Dense(2, name="out")(hidden), name="small")
    model.compile(optimizer, compiled.pop("loss", "mse"), **compiled)
    return model, [array(6, 4)], [array(6, 2)]


def with_optimizer(name, settings):
    return lambda: small(getattr(keras.optimizers, name)(0.05, **settings))


def by_string():
    return small("rmsprop")


def schedule():
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    return small(keras.optimizers.Adam(rate))


def losses_by_name():
    inputs = keras.Input((4,), name="x")
    body = layers.Dense(
        6,
        activation="relu",
        kernel_regularizer=keras.regularizers.l1_l2(0.01, 0.02),
        bias_constraint=keras.constraints.MaxNorm(1.5),
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.3),
        name="body",
    )(inputs)
    frozen = layers.Dense(6, trainable=False, name="frozen")(body)
    one = layers.Dense(3, activation="softmax", name="one")(frozen)
    two = layers.Dense(1, name="two")(frozen)
    model = keras.Model(inputs, [one, two], name="two_heads")
    model.compile(
        keras.optimizers.Adam(0.01),
        loss={
            "one": keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
            "two": "mse",
        },
        loss_weights={"one": 1.0, "two": 0.25},
        metrics={"one": ["accuracy", keras.metrics.AUC(name="auc")], "two": ["mae"]},
    )
    labels = np.eye(3)[random.randint(0, 3, 6)].astype("float32")
    return model, [array(6, 4)], [labels, array(6, 1)]


def seq2seq():
    source = keras.Input((5, 3), name="source")
    target = keras.Input((4, 3), name="target")
    _, state_h, state_c = layers.LSTM(6, return_state=True, name="encoder")(source)
    decoded = layers.LSTM(6, return_sequences=True, name="decoder")(
        target, initial_state=[state_h, state_c]
    )
    model = keras.Model([source, target], layers.Dense(2, name="out")(decoded))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, [array(6, 5, 3), array(6, 4, 3)], [array(6, 4, 2)]


def recurrent():
    model = keras.Sequential(
        [
            layers.Masking(0.0, input_shape=(5, 3), name="mask"),
            layers.Bidirectional(layers.GRU(4, return_sequences=True), name="both"),
            layers.TimeDistributed(layers.Dense(3, activation="relu"), name="each"),
            layers.RNN(
                [layers.LSTMCell(3, name="low"), layers.GRUCell(2, name="high")],
                name="stack",
            ),
        ],
        name="recurrent",
    )
    model.compile(keras.optimizers.RMSprop(0.01, momentum=0.1), "mse")
    x = array(6, 5, 3)
    x[:, 3:] = 0.0
    return model, [x], [array(6, 2)]


def stateful():
    model = keras.Sequential(name="stateful")
    model.add(layers.LSTM(3, stateful=True, batch_input_shape=(2, 4, 3), name="lstm"))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, [array(2, 4, 3)], [array(2, 3)]


def nested_twice():
    inner_in = keras.Input((4,), name="inner_in")
    inner = keras.Model(inner_in, layers.Dense(4, name="d")(inner_in), name="inner")
    tail = keras.Sequential([layers.Dense(3, name="d"), layers.Dense(2, name="e")])
    inputs = keras.Input((4,), name="x")
    twice = inner(inner(inputs))
    out = tail(layers.Add(name="add")([twice, inputs]))
    model = keras.Model(inputs, [out, tail(twice)], name="nested_twice")
    model.compile(keras.optimizers.Adam(0.01), ["mse", "mse"])
    return model, [array(6, 4)], [array(6, 2), array(6, 2)]


def dict_inputs():
    inputs = {"b": keras.Input((2,), name="b"), "a": keras.Input((3,), name="a")}
    joined = layers.Concatenate(name="join")([inputs["a"], inputs["b"]])
    model = keras.Model(inputs, layers.Dense(2, name="out")(joined), name="by_name")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, {"a": array(6, 3), "b": array(6, 2)}, [array(6, 2)]


def custom_layer():
    inputs = keras.Input((4,), name="x")
    scaled = Scale(3.0, name="scale")(inputs)
    model = keras.Model(inputs, layers.Dense(2, name="out")(scaled), name="custom")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, [array(6, 4)], [array(6, 2)]


def subclassed():
    model = Net(name="net")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, [array(6, 5)], [array(6, 3)]


def attention():
    inputs = keras.Input((5, 4), name="x")
    mixed = layers.MultiHeadAttention(2, 3, name="mha")(inputs, inputs)
    normal = layers.LayerNormalization(name="norm")(mixed)
    out = layers.Dense(2, name="out")(layers.GlobalAveragePooling1D(name="gap")(normal))
    model = keras.Model(inputs, out, name="attention")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, [array(6, 5, 4)], [array(6, 2)]


def conv_family():
    inputs = keras.Input((6, 6, 2), name="x")
    up = layers.Conv2DTranspose(3, 3, strides=2, padding="same", name="up")(inputs)
    deep = layers.DepthwiseConv2D(3, depth_multiplier=2, name="deep")(up)
    apart = layers.SeparableConv2D(4, 3, name="apart")(deep)
    thin = layers.ThresholdedReLU(theta=0.1, name="thin")(apart)
    leaky = layers.LeakyReLU(alpha=0.2, name="leaky")(thin)
    rows = layers.Reshape((64, 4), name="rows")(leaky)
    one = layers.Attention(use_scale=True, name="one")([rows, rows])
    two = layers.AdditiveAttention(name="two")([rows, one])
    out = layers.Dense(2, name="out")(layers.GlobalAveragePooling1D(name="gap")(two))
    model = keras.Model(inputs, out, name="conv_family")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, [array(6, 6, 6, 2)], [array(6, 2)]


def some_losses():
    inputs = keras.Input((4,), name="x")
    body = layers.Dense(4, name="body")(inputs)
    model = keras.Model(inputs, [body, layers.Dense(1, name="head")(body)], name="some")
    model.compile(keras.optimizers.Adam(0.01), {"head": "mse"})
    return model, [array(6, 4)], [array(6, 4), array(6, 1)]


def outputs_of_one_model():
    """Losses by the names that tf.keras gave to outputs of one layer."""
    step, inputs = keras.Input((4,)), keras.Input((4,), name="x")
    inner = keras.Model(step, [layers.Dense(2)(step), layers.Dense(2)(step)], name="own")
    model = keras.Model(inputs, inner(inputs))
    losses = {"own_1": "mae", "own": "mse"}
    model.compile(keras.optimizers.SGD(0.1), losses, loss_weights={"own_1": 3.0})
    return model, [array(6, 4)], [array(6, 2), array(6, 2)]


CASES = {name: with_optimizer(*how) for name, how in OPTIMIZERS.items()}
CASES.update(
    by_string=by_string,
    schedule=schedule,
    losses_by_name=losses_by_name,
    seq2seq=seq2seq,
    recurrent=recurrent,
    stateful=stateful,
    nested_twice=nested_twice,
    dict_inputs=dict_inputs,
    custom_layer=custom_layer,
    subclassed=subclassed,
    attention=attention,
    conv_family=conv_family,
    some_losses=some_losses,
    outputs_of_one_model=outputs_of_one_model,
)


def save(model, folder):
    """Save in every format that the release has; return what failed."""
    failed = {}
    forms = {"model.h5": {"save_format": "h5"}, "saved_model": {"save_format": "tf"}}
    if RELEASE >= (2, 12):
        forms["model.keras"] = {"save_format": "keras"}
    for name, options in forms.items():
        try:
            model.save(os.path.join(folder, name), **options)
        except Exception as error:
            failed[name] = str(error).splitlines()[0][:200]
            if os.path.isfile(os.path.join(folder, name)):
                os.remove(os.path.join(folder, name))
    return failed


def one(values):
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def write(name, make, folder):
    keras.backend.clear_session()
    random.seed(7)
    tf.random.set_seed(7)
    model, x, y = make()
    for _ in range(3):
        model.train_on_batch(one(x), one(y))
    if name == "stateful":
        model.reset_states()
    os.makedirs(folder)
    failed = save(model, folder)
    if name in ("amsgrad", "subclassed"):
        model.save_weights(os.path.join(folder, "weights.h5"))
        model.save_weights(os.path.join(folder, "checkpoint/weights"), save_format="tf")
    arrays = x if isinstance(x, dict) else {str(i): item for i, item in enumerate(x)}
    stored = {"x_" + key: item for key, item in arrays.items()}
    batch = len(next(iter(arrays.values())))
    outputs = model.predict(one(x), batch_size=batch)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    stored.update({"y_%d" % i: item for i, item in enumerate(outputs)})
    stored.update({"ty_%d" % i: item for i, item in enumerate(y)})
    if name == "stateful":
        model.reset_states()
    stored["loss"] = np.ravel(model.train_on_batch(one(x), one(y)))[:1]
    for i, item in enumerate(model.get_weights()):
        stored["after/%d" % i] = item
    names = [variable.name for variable in model.weights]
    np.savez(os.path.join(folder, "expected.npz"), **stored)
    about = {"weights": names, "failed": failed, "release": tf.__version__}
    with open(os.path.join(folder, "about.json"), "w") as file:
        json.dump(about, file, indent=1)
    print(tf.__version__, name, failed)


def main(out, *names):
    for name, make in CASES.items():
        if names and name not in names:
            continue
        folder = os.path.join(out, tf.__version__, name)
        try:
            write(name, make, folder)
        except Exception as error:
            print(tf.__version__, name, "left out:", repr(error)[:200])


if __name__ == "__main__":
    main(*sys.argv[1:])
