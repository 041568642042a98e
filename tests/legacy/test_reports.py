"""What people reported as broken in Keras 3; the models are by write_reports.py."""

import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "reports.tar.xz"
FORMS = "model.h5", "model.keras", "saved_model", "folder.pkl", "model.json"
layers, ops = keras.layers, keras.ops


class SeqSelfAttention(layers.Layer):
    def __init__(self, units=4, **options):
        super().__init__(**options)
        self.units = units

    def build(self, shape):
        self.Wt = self.add_weight(name="Wt", shape=(shape[-1], self.units))
        self.Wx = self.add_weight(name="Wx", shape=(shape[-1], self.units))
        self.bh = self.add_weight(name="bh", shape=(self.units,))
        self.Wa = self.add_weight(name="Wa", shape=(self.units, 1))

    def call(self, x):
        query = ops.expand_dims(ops.matmul(x, self.Wt), 2)
        key = ops.expand_dims(ops.matmul(x, self.Wx), 1)
        scores = ops.matmul(ops.tanh(query + key + self.bh), self.Wa)[..., 0]
        return ops.matmul(ops.softmax(scores), x)


class CoordConv2D(layers.Layer):
    def __init__(self, filters, **options):
        super().__init__(**options)
        self.conv = layers.Conv2D(filters, 3, padding="same")
        self.coordinates = layers.Conv2D(filters, 3, padding="same", trainable=False)

    def call(self, inputs):
        x, places = inputs
        return self.conv(ops.concatenate([x, places], -1)), self.coordinates(places)


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
    pass


class MyDepthwise(layers.DepthwiseConv2D):
    pass


class MyEmbedding(layers.Embedding):
    pass


class MyAttention(layers.MultiHeadAttention):
    pass


def custom_fn(x):
    return x**2


OWN = (
    *(SeqSelfAttention, CoordConv2D, MyLSTM, MyGRU, MyNormalization, MyLeakyReLU),
    *(FixedDropout, MyDepthwise, MyEmbedding, MyAttention, custom_fn),
)
CUSTOM_OBJECTS = {item.__name__: item for item in OWN}


def unet():
    inputs = layers.Input((16, 16, 6))
    x = layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    y = layers.Conv2D(8, 3, 2, padding="same")(x)
    y = layers.Activation("relu")(layers.BatchNormalization()(y))
    y = layers.Concatenate()([x, layers.Conv2DTranspose(4, 2, 2)(y)])
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(y))


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [layers.Conv2D(4, 3, padding="same") for _ in range(3)]
        self.lin = {"a": layers.Dense(3), "b": layers.Dense(2)}

    def call(self, x):
        for block in self.blocks:
            x = ops.relu(block(x))
        x = ops.mean(x, [1, 2])
        return ops.concatenate([self.lin["a"](x), self.lin["b"](x)], -1)


def subclassed():
    model = Net()
    model(np.zeros((1, 8, 8, 3)))
    return model


def weights_by_name():
    inputs = layers.Input((12, 12, 3))
    x = layers.Conv2D(4, 3, name="conv1")(inputs)
    x = layers.BatchNormalization(name="bn1")(x)
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(5, 3, name="conv2")(x))
    return keras.Model(inputs, layers.Dense(2, name="head")(x))


def inner_model():
    first = [layers.Input((9, 9, 3)), layers.Conv2D(4, 3, activation="relu")]
    last = [layers.Conv2D(5, 3, activation="relu"), layers.GlobalAveragePooling2D()]
    inner = keras.Sequential([*first, layers.MaxPooling2D(), *last])
    inputs = layers.Input((9, 9, 3))
    return keras.Model(inputs, layers.Dense(1)(inner(inputs)))


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.x1 = self.add_weight(name="w1", shape=(4,))
        self.x2 = self.add_weight(name="w2", shape=(4,))
        self.head = layers.Dense(2)

    def call(self, x):
        return self.head(x * self.x1 + self.x2)


def own_weights():
    model = Own()
    model(np.zeros((1, 4)))
    return model


MADE = unet, subclassed, weights_by_name, inner_model, own_weights
CODE = {f.__name__: f for f in MADE}
WEIGHTS = "w.h5", "checkpoint_of_weights.index"
RESIZED = "/augmentation_before_a_frozen_base/", "/dilated_depthwise/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("reports"), [ARCHIVE])


def files(forms):
    """Return `release/report/form` of the files in the archive that have a form."""
    parts = legacy_files.parts_of(ARCHIVE)
    found = sorted("/".join(p) for p in parts if len(p) == 3 and p[-1] in forms)
    if legacy_files.RESIZES:
        return found
    return [name for name in found if not any(part in name for part in RESIZED)]


def assert_predicts(model, path):
    recorded = dict(np.load(path.parent / "data.npz"))
    inputs, outputs = (
        [recorded[key] for key in sorted(recorded) if key[0] == kind] for kind in "xy"
    )
    found = model.predict_on_batch(inputs if len(inputs) > 1 else inputs[0])
    for one, other in zip(keras.tree.flatten(found), outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", legacy_files.by_release(files(FORMS)))
def test_a_model_of_a_report_opens(name, folder):
    path = folder / name
    options = {"weights": path.parent / "weights.h5"} if path.suffix == ".json" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not kept of its training
        model = keras_policies.load_model(path, CUSTOM_OBJECTS, **options)
    assert_predicts(model, path)


@pytest.mark.parametrize("name", legacy_files.by_release(files(WEIGHTS)))
def test_the_weights_of_a_report_are_loaded(name, folder):
    path = folder / name
    model = CODE[path.parent.name]()
    keras_policies.load_weights(model, str(path).removesuffix(".index"))
    assert_predicts(model, path)
