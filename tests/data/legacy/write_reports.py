"""Writes models in the manner of public reports: `reports.tar.xz` has what they wrote.

    python write_reports.py OUTDIR

Under TensorFlow 2.4.4 and 2.15.1. Each function below names the report. The model goes to
OUTDIR/<release>/<function>/, in the formats of the report, with inputs and outputs in
`data.npz`; weights alone go to `w.h5`, those of `to_json` to `weights.h5`. All weights are
random; `docs/reports.md` has the results.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
random = np.random.default_rng(0)
CASES = []


def case(formats, since=(2, 0)):
    def added(function):
        if RELEASE >= since:
            CASES.append((function, formats.split()))
        return function

    return added


def numbers(*shape):
    return random.normal(size=(3, *shape)).astype("float32")


def words(length=6):
    return random.integers(1, 20, (3, length)).astype("int32")


@case("h5")  # keras-team/keras#19898
def two_bidirectional_lstms():
    parts = [
        layers.Embedding(20, 4, input_length=6),
        layers.Bidirectional(layers.LSTM(3, return_sequences=True, dropout=0.2)),
        layers.Bidirectional(layers.LSTM(2)),
        layers.Dense(2, "softmax"),
    ]
    return keras.Sequential(parts), words()


@case("h5")  # keras-team/keras#20750
def time_major():
    first = layers.GRU(4, return_sequences=True, input_shape=(5, 3))
    model = keras.Sequential([first, layers.GRU(3), layers.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", ["accuracy"])
    return model, numbers(5, 3)


@case("h5")  # appeler/ethnicolr#101
def names_of_people():
    lstm = layers.LSTM(5, dropout=0.2, recurrent_dropout=0.2)
    embedding = layers.Embedding(20, 8, input_length=6)
    model = keras.Sequential([embedding, lstm, layers.Dense(4, "softmax")])
    model.compile("adam", "categorical_crossentropy", ["accuracy"])
    return model, words()


class SeqSelfAttention(layers.Layer):
    def __init__(self, units=4, **options):
        super().__init__(**options)
        self.units = units

    def get_config(self):
        return {**super().get_config(), "units": self.units}

    def build(self, shape):
        self.Wt = self.add_weight("Wt", (shape[-1], self.units))
        self.Wx = self.add_weight("Wx", (shape[-1], self.units))
        self.bh = self.add_weight("bh", (self.units,), initializer="zeros")
        self.Wa = self.add_weight("Wa", (self.units, 1))
        super().build(shape)

    def call(self, x):
        query = tf.expand_dims(tf.matmul(x, self.Wt), 2)
        key = tf.expand_dims(tf.matmul(x, self.Wx), 1)
        shape = 1, 1, self.units, 1
        hidden = tf.tanh(query + key + self.bh)
        scores = tf.squeeze(tf.matmul(hidden, tf.reshape(self.Wa, shape)), -1)
        scores = tf.exp(scores - tf.reduce_max(scores, -1, keepdims=True))
        total = tf.reduce_sum(scores, -1, keepdims=True) + keras.backend.epsilon()
        return tf.matmul(scores / total, x)


@case("h5 saved_model")  # jongwon-han/RPNet#1
def lstm_and_self_attention():
    inputs = layers.Input((8, 3))
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(inputs)
    x = layers.Flatten()(SeqSelfAttention(4)(x))
    return keras.Model(inputs, layers.Dense(3, "softmax")(x)), numbers(8, 3)


@case("h5")  # googlecreativelab/teachablemachine-community#403: its layout
def teachable_machine():
    inner = keras.Sequential(
        [
            layers.Conv2D(4, 3, 2, use_bias=False, input_shape=(8, 8, 3)),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3, padding="same", use_bias=False),
            layers.BatchNormalization(),
        ]
    )
    first = keras.Sequential([inner, layers.GlobalAveragePooling2D()])
    hidden = layers.Dense(5, "relu", input_shape=(4,))
    last = keras.Sequential([hidden, layers.Dense(2, "softmax", use_bias=False)])
    return keras.Sequential([first, last]), numbers(8, 8, 3)


@case("h5")  # xinluo2018/WatNet#8
def dilated_depthwise():
    inputs = layers.Input((16, 16, 4))
    x = layers.DepthwiseConv2D(3, dilation_rate=2, padding="same", use_bias=False)(
        inputs
    )
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.SeparableConv2D(4, 3, padding="same")(x)
    y = layers.UpSampling2D(16, interpolation="bilinear")(layers.AveragePooling2D(16)(x))
    x = layers.Conv2D(1, 1, activation="sigmoid")(layers.Concatenate()([x, y]))
    return keras.Model(inputs, x), numbers(16, 16, 4)


@case("saved_model")  # unicode-org/lstm_word_segmentation#28
def word_segmentation():
    lstm = layers.Bidirectional(layers.LSTM(3, return_sequences=True))
    head = layers.TimeDistributed(layers.Dense(4, "softmax"))
    parts = [layers.Embedding(20, 4), layers.Dropout(0.1), lstm, layers.Dropout(0.1)]
    start = layers.Input((None,), dtype="int32")
    return keras.Sequential([start, *parts, head]), words()


@case("folder.pkl")  # ThomasMBury/ewstools#438: a SavedModel called .pkl
def early_warnings():
    first = layers.Conv1D(5, 4, activation="relu", padding="same", input_shape=(20, 1))
    lstm = layers.LSTM(6, return_sequences=True)
    parts = [layers.Dropout(0.1), layers.MaxPooling1D(2), lstm, layers.LSTM(3)]
    head = layers.Dense(4, "softmax")
    return keras.Sequential([first, *parts, head]), numbers(20, 1)


@case("saved_model")  # cbrnr/sleepecg#214
def sleep_stages():
    inputs = layers.Input((None, 4))
    x = layers.BatchNormalization()(layers.Masking(-1.0)(inputs))
    x = layers.Dense(4, "relu")(x)
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(x)
    data = numbers(7, 4)
    data[0, 4:] = -1
    return keras.Model(inputs, layers.Dense(5, "softmax")(x)), data


@case("saved_model")  # keras-team/keras#20813
def two_inputs():
    image, label = layers.Input((10,), name="image"), layers.Input((2,), name="label")
    x = layers.Concatenate()([layers.Dense(4)(image), label])
    return keras.Model([image, label], layers.Dense(3)(x)), [numbers(10), numbers(2)]


@case("h5 saved_model")  # keras-team/keras#13697
def slices_in_a_loop():
    inputs = layers.Input((2, 1))
    parts = [
        layers.Lambda(lambda x, i: x[:, i], arguments={"i": i})(inputs)
        for i in range(2)
    ]
    return keras.Model(inputs, parts), numbers(2, 1)


@case("saved_model")  # the same report: each function sees the last `i` in H5
def slices_of_a_closure():
    inputs = layers.Input((2, 1))
    parts = [layers.Lambda(lambda x: x[:, i])(inputs) for i in range(2)]
    return keras.Model(inputs, parts), numbers(2, 1)


@case("saved_model")  # tensorflow/tensorflow#37298
def slice_in_a_model():
    inputs = layers.Input((5, 16))
    x = layers.Dense(4)(inputs)
    return keras.Model(inputs, x[:, 0] + x[:, -1]), numbers(5, 16)


@case("h5")  # keras-team/keras#890
def split_in_a_lambda():
    inputs = layers.Input((5, 5))
    parts = layers.Lambda(lambda x: tf.split(x, num_or_size_splits=5, axis=2))(inputs)
    x = layers.Concatenate()([layers.Dense(1)(part) for part in parts])
    return keras.Model(inputs, x), numbers(5, 5)


@case("h5")  # keras-team/keras#5298
def logarithm_in_a_lambda():
    logarithm = layers.Lambda(lambda x: tf.math.log(tf.abs(x) + 1.0))
    first = layers.TimeDistributed(logarithm, input_shape=(None, 3))
    return keras.Sequential([first, layers.Dense(2)]), numbers(4, 3)


@case("checkpoint w.h5")  # isikdogan/deepwatermap#12
def unet():
    inputs = layers.Input((16, 16, 6))
    x = layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    y = layers.Conv2D(8, 3, 2, padding="same")(x)
    y = layers.Activation("relu")(layers.BatchNormalization()(y))
    y = layers.Concatenate()([x, layers.Conv2DTranspose(4, 2, 2)(y)])
    y = layers.Conv2D(1, 1, activation="sigmoid")(y)
    return keras.Model(inputs, y), numbers(16, 16, 6)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [layers.Conv2D(4, 3, padding="same") for _ in range(3)]
        self.lin = {"a": layers.Dense(3), "b": layers.Dense(2)}

    def call(self, x):
        for block in self.blocks:
            x = tf.nn.relu(block(x))
        x = tf.reduce_mean(x, [1, 2])
        return tf.concat([self.lin["a"](x), self.lin["b"](x)], -1)


@case("checkpoint saved_model")  # moono/lpips-tf2.x#4
def subclassed():
    model, data = Net(), numbers(8, 8, 3)
    model.predict(data)
    return model, data


class Dummy(layers.Layer):
    def call(self, x, y):
        self.add_loss(tf.reduce_mean(tf.square(x - y)))
        return x


@case("saved_model")  # tensorflow/tensorflow#74342
def loss_in_a_layer():
    x, y = layers.Input((20,)), layers.Input((1,))
    head = layers.Dense(1, "sigmoid")(layers.Dense(6, "relu")(x))
    return keras.Model([x, y], Dummy()(head, y)), [numbers(20), numbers(1)]


@case("h5 keras saved_model", since=(2, 12))  # tensorflow/tensorflow#63853
def augmentation_before_a_frozen_base():
    start = keras.Input((None, None, 3))
    augmentation = keras.Sequential(
        [
            start,
            layers.Resizing(9, 9, crop_to_aspect_ratio=True),
            layers.RandomFlip("horizontal_and_vertical"),
            layers.RandomRotation(0.2),
        ]
    )
    base = keras.Sequential(
        [
            layers.Conv2D(4, 3, input_shape=(9, 9, 3)),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3),
        ]
    )
    for layer in base.layers[:2]:
        layer.trainable = False
    pooled = layers.GlobalAveragePooling2D()
    head = [layers.Dense(3, "relu"), layers.Dropout(0.2), layers.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((None, None, 3)), augmentation, base])
    for layer in (pooled, *head):
        model.add(layer)
    metrics = [keras.metrics.BinaryAccuracy(name="accuracy"), keras.metrics.AUC()]
    model.compile("adam", "binary_crossentropy", metrics)
    return model, numbers(12, 12, 3)


class CoordConv2D(layers.Layer):
    def __init__(self, filters, **options):
        super().__init__(**options)
        self.filters = filters
        self.conv = layers.Conv2D(filters, 3, padding="same")
        self.coordinates = layers.Conv2D(filters, 3, padding="same", trainable=False)

    def get_config(self):
        return {**super().get_config(), "filters": self.filters}

    def call(self, inputs):
        x, places = inputs
        return self.conv(tf.concat([x, places], -1)), self.coordinates(places)


@case("h5 keras saved_model")  # mit-ll/tornet#10
def coordinates():
    image, places = layers.Input((8, 8, 3)), layers.Input((8, 8, 2))
    x, y = CoordConv2D(4)([image, places])
    x, y = CoordConv2D(2)([x, y])
    pooled = layers.Concatenate()([layers.GlobalMaxPooling2D()(each) for each in (x, y)])
    model = keras.Model([image, places], layers.Dense(2)(pooled))
    return model, [numbers(8, 8, 3), numbers(8, 8, 2)]


class MyLSTM(layers.LSTM):
    pass


class MyGRU(layers.GRU):
    def __init__(self, units, **options):
        super().__init__(units, **options)


class MyNormalization(layers.BatchNormalization):
    pass


class MyLeakyReLU(layers.LeakyReLU):
    pass


class FixedDropout(layers.Dropout):
    def _get_noise_shape(self, inputs):
        return None


class MyDepthwise(layers.DepthwiseConv2D):
    pass


class MyEmbedding(layers.Embedding):
    pass


class MyAttention(layers.MultiHeadAttention):
    pass


@case("h5 keras saved_model")  # tensorflow/tensorflow#61270: a class of LSTM
def subclasses():
    ids, image = layers.Input((6,), dtype="int32"), layers.Input((6, 6, 2))
    x = MyEmbedding(20, 4, input_length=6)(ids)
    x = MyAttention(2, 2)(x, x) if RELEASE >= (2, 12) else x
    x = MyGRU(3)(MyLSTM(4, return_sequences=True)(x))
    y = MyDepthwise(3, use_bias=False)(image)
    y = MyLeakyReLU(0.2)(MyNormalization()(y))
    y = FixedDropout(0.3, noise_shape=(None, 1, 1, None))(y)
    y = layers.Concatenate()([x, layers.GlobalAveragePooling2D()(y)])
    model = keras.Model([ids, image], layers.Dense(2)(y))
    model.compile("adam", "mse")
    return model, [words(), numbers(6, 6, 2)]


@keras.utils.register_keras_serializable("my_package")
def custom_fn(x):
    return x**2


@case("h5 keras")  # keras-team/keras#20833
def registered_activation():
    first = layers.Dense(3, custom_fn, input_shape=(4,))
    model = keras.Sequential([first, layers.Dense(1)])
    model.compile("adam", "mse")
    return model, numbers(4)


class Ones(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None, **options):
        return tf.ones(shape, dtype)


@case("h5 keras")  # keras-team/keras#18308
def lost_initializer():
    first = layers.Dense(3, kernel_initializer=Ones(), input_shape=(4,))
    return keras.Sequential([first, layers.Dense(1)]), numbers(4)


@case("w.h5")  # keras-team/keras#21676
def weights_by_name():
    inputs = layers.Input((12, 12, 3))
    x = layers.BatchNormalization(name="bn1")(layers.Conv2D(4, 3, name="conv1")(inputs))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(5, 3, name="conv2")(x))
    return keras.Model(inputs, layers.Dense(2, name="head")(x)), numbers(12, 12, 3)


@case("w.h5 checkpoint")  # keras-team/keras#12865
def inner_model():
    first = layers.Conv2D(4, 3, activation="relu", input_shape=(9, 9, 3))
    last = [layers.Conv2D(5, 3, activation="relu"), layers.GlobalAveragePooling2D()]
    inner = keras.Sequential([first, layers.MaxPooling2D(), *last])
    inputs = layers.Input((9, 9, 3))
    return keras.Model(inputs, layers.Dense(1)(inner(inputs))), numbers(9, 9, 3)


@case("saved_model")  # tensorflow/tensorflow#46659
def one_hot():
    arguments = {"num_classes": 5}
    inputs = layers.Input((), dtype="int32")
    x = layers.Lambda(keras.backend.one_hot, arguments=arguments)(inputs)
    return keras.Model(inputs, layers.Dense(2)(x)), words(1)[:, 0] % 5


@case("h5")  # keras-team/keras#19330
def short_names_of_metrics():
    model = keras.Sequential([layers.Dense(3, input_shape=(4,)), layers.Dense(1)])
    model.compile("rmsprop", "mse", ["mae", "mse"])
    return model, numbers(4)


@case("h5 saved_model")  # Shawn-Shan/fawkes#186
def inception_resnet():
    inputs = layers.Input((8, 8, 4))
    x = layers.Conv2D(4, 1, name="Block35/Conv2d_1x1", use_bias=False)(inputs)
    x = layers.BatchNormalization(scale=False, name="Block35/BatchNorm")(x)
    scaled = layers.Lambda(
        lambda x, scale: x[0] + x[1] * scale,
        output_shape=(8, 8, 4),
        arguments={"scale": 0.17},
    )([inputs, x])
    x = layers.GlobalAveragePooling2D()(layers.Activation("relu")(scaled))
    x = layers.Dense(4, use_bias=False)(x)
    x = layers.Lambda(lambda x: tf.nn.l2_normalize(x, axis=1))(x)
    return keras.Model(inputs, x), numbers(8, 8, 4)


@case("h5 keras")  # t-kalinowski/deep-learning-with-r-code#15
def preprocessing():
    networks = keras.applications
    inputs = layers.Input((4, 4, 3))
    parts = [
        layers.Lambda(networks.xception.preprocess_input),
        layers.Lambda(networks.vgg16.preprocess_input),
        layers.Lambda(networks.densenet.preprocess_input),
        layers.Lambda(networks.efficientnet.preprocess_input),
        layers.Lambda(lambda x: tf.keras.applications.resnet50.preprocess_input(x)),
    ]
    x = layers.Concatenate()([part(inputs) for part in parts])
    return keras.Model(inputs, layers.Dense(2)(x)), numbers(4, 4, 3) * 50 + 100


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.x1 = self.add_weight("w1", (4,))
        self.x2 = self.add_weight("w2", (4,))
        self.head = layers.Dense(2)

    def call(self, x):
        return self.head(x * self.x1 + self.x2)


@case("checkpoint", since=(2, 12))  # tensorflow/tensorflow#35930
def own_weights():
    model, data = Own(), numbers(4)
    model.predict(data)
    return model, data


@case("json")  # keras-team/keras#20081
def json_and_weights():
    first = layers.Conv2D(3, 3, activation="relu", input_shape=(10, 10, 1))
    parts = [layers.MaxPooling2D(), layers.Dropout(0.2), layers.Flatten()]
    head = layers.Dense(2, "softmax")
    return keras.Sequential([first, *parts, head]), numbers(10, 10, 1)


@case("h5 json")  # tensorflow/tensorflow#61211
def lambda_in_json():
    inputs = layers.Input((1,))
    doubled = layers.Lambda(lambda x: x * 2)(inputs)
    return keras.Model(inputs, layers.Dense(1)(doubled)), numbers(1)


def save(model, form, folder):
    if form == "json":
        (folder / "model.json").write_text(model.to_json())
        model.save_weights(str(folder / "weights.h5"))
    elif form == "checkpoint":
        model.save_weights(str(folder / "checkpoint_of_weights"), save_format="tf")
    elif form == "w.h5":
        model.save_weights(str(folder / form))
    elif form == "keras":
        if RELEASE >= (2, 12):
            model.save(str(folder / "model.keras"))
    elif form == "h5":
        model.save(str(folder / "model.h5"))
    else:
        model.save(str(folder / form), save_format="tf")


def write(function, formats, folder):
    keras.backend.clear_session()
    model, data = function()
    for weight in model.weights:
        if weight.dtype.is_floating:
            value = random.integers(-8, 8, weight.shape) / 16 + 1 / 32
            is_variance = "variance" in weight.name
            weight.assign(np.abs(value) + 0.5 if is_variance else value)
    folder.mkdir(parents=True)
    outputs = tf.nest.flatten(model(data, training=False))
    inputs = data if isinstance(data, list) else [data]
    arrays = {f"x_{i}": array for i, array in enumerate(inputs)}
    arrays.update((f"y_{i}", np.asarray(array)) for i, array in enumerate(outputs))
    np.savez(folder / "data.npz", **arrays)
    for form in formats:
        save(model, form, folder)


if __name__ == "__main__":
    for function, formats in CASES:
        out = pathlib.Path(sys.argv[1], tf.__version__, function.__name__)
        write(function, formats, out)
