"""Writes the models of `tests/data/legacy/configs.tar.xz`, with the running TensorFlow.

    python write_configs.py OUTDIR [CASE ...]

Under TensorFlow 2.0.0, 2.4.4 and 2.15.1. A case goes to OUTDIR/<release>/<case>/:
`saved_model/`, `model.h5`, `model.keras` (2.15) and `expected.npz`, with the inputs
`x_*` and the outputs `y_*`; of a compiled model, the output `trained` after a step of
training with the target 1, too. A form that TensorFlow could not write is left out.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
preprocessing = getattr(layers, "experimental", layers)
preprocessing = getattr(preprocessing, "preprocessing", layers)


class Cell(layers.Layer):
    """A cell of one's own."""

    state_size = 3

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], 3))

    def call(self, inputs, states):
        found = tf.tanh(inputs @ self.kernel) - states[0]
        return found, [found]


class Scaled(layers.Layer):
    """A layer that is called with a keyword."""

    def call(self, inputs, scale=None):
        return inputs * scale


class Decoder(keras.Model):
    """A model without config, whose LSTM goes on from two states."""

    def __init__(self):
        super().__init__(name="decoder")
        self.first = layers.Dense(3)
        self.lstm = layers.LSTM(3, return_sequences=True, return_state=True)
        self.both = layers.Bidirectional(layers.LSTM(3))

    def call(self, inputs):
        state = self.first(inputs[:, 0])
        rows, h, c = self.lstm(inputs, initial_state=[state, tf.tanh(state)])
        return self.both(rows, initial_state=[h, c, 2.0 * h, state])


random = np.random.RandomState(7)


def array(*shape):
    return random.uniform(-1, 1, shape).astype("float32")


def functional(function, *shapes, **options):
    """Return a model of a function, and an input of each shape, without the batch."""
    inputs = [keras.Input(shape, **options) for shape in shapes]
    model = keras.Model(inputs, function(*inputs))
    known = [[n or 2 for n in shape] for shape in shapes]
    return model, [array(3, *shape) for shape in known]


def conv1d_extra_axis():
    """Conv1D of images: it takes each row by itself."""

    def call(x):
        x = layers.Conv1D(4, 2, padding="causal", activation="relu", name="conv")(x)
        return layers.Conv1D(2, 3, strides=2, name="next")(x)

    return functional(call, (4, 7, 3))


def conv2d_extra_axes():
    conv = layers.Conv2D(4, 2, padding="same", name="conv")
    return functional(lambda x: conv(x), (None, 2, 5, 5, 2))


def conv3d_extra_axis():
    model = keras.Sequential(name="videos")
    model.add(layers.Conv3D(2, 2, input_shape=(2, 3, 3, 3, 1), name="conv"))
    model.add(layers.Flatten())
    return model, [array(3, 2, 3, 3, 3, 1)]


def conv1d_twice():
    """One layer, called on inputs of two ranks."""
    conv = layers.Conv1D(2, 2, name="conv")
    return functional(lambda x, y: [conv(x), conv(y)], (5, 3), (4, 5, 3))


def conv1d_inside():
    inner = keras.Sequential([layers.Conv1D(2, 2, name="conv")], name="inner")
    return functional(lambda x: layers.Dense(2)(inner(x)), (4, 5, 3))


def base_layer():
    def call(x):
        return layers.Dense(2)(layers.Layer(name="same")(x))

    return functional(call, (4,))


def base_layer_in_sequential():
    model = keras.Sequential([layers.Layer(input_shape=(4,)), layers.Dense(2)])
    return model, [array(3, 4)]


def base_layer_masked():
    """The mask of an Embedding, if the layer hands it on, reaches the LSTM."""

    def call(x):
        x = layers.Embedding(5, 3, mask_zero=True)(x)
        return layers.LSTM(2)(layers.Layer(name="same")(x))

    model, _ = functional(call, (4,))
    return model, [np.array([[1, 2, 0, 0], [3, 0, 4, 1], [0, 0, 0, 0]], "float32")]


def resizing_area():
    return functional(preprocessing.Resizing(2, 3, interpolation="area"), (6, 6, 2))


def resizing_area_uneven():
    return functional(preprocessing.Resizing(3, 4, interpolation="area"), (7, 5, 2))


def resizing_area_larger():
    return functional(preprocessing.Resizing(5, 7, interpolation="area"), (3, 2, 2))


def resizing_area_cropped():
    resizing = layers.Resizing(4, 2, "area", crop_to_aspect_ratio=True)
    return functional(resizing, (6, 5, 2))


def resizing_area_unsized():
    model, _ = functional(
        preprocessing.Resizing(2, 3, interpolation="area"), (None, None, 2)
    )
    return model, [array(3, 6, 6, 2)]


def resizing_bicubic():
    return functional(preprocessing.Resizing(5, 7, interpolation="bicubic"), (6, 4, 2))


def upsampling_bicubic():
    layer = layers.UpSampling2D((2, 3), interpolation="bicubic")
    return functional(layer, (5, 4, 2))


def whole_numbers():
    def call(x):
        resized = preprocessing.Resizing(3, 4, interpolation="bilinear")(x)
        small = preprocessing.Rescaling(1 / 255)(resized)
        return [small, layers.LayerNormalization()(x), layers.UnitNormalization()(x)]

    model, _ = functional(call, (5, 6, 3), dtype="uint8")
    return model, [random.randint(0, 256, (3, 5, 6, 3)).astype("uint8")]


def batch_normalization_of_half():
    layer = layers.BatchNormalization(dtype="float16")
    model, x = functional(layer, (4,))
    rows = [1, 2, 3, 4], [0, 0, 1, 1], [0, 5, 9, 0], [1e5, 1e6, 1e7, 2]
    layer.set_weights([np.array(row) for row in rows])
    return model, [300 * each for each in x]


def whole_numbers_in_sequential():
    entry = keras.Input((6, 4, 3), dtype="uint8")
    resizing = preprocessing.Resizing(4, 3, interpolation="bilinear")
    model = keras.Sequential([entry, resizing, layers.LayerNormalization()])
    return model, [random.randint(0, 256, (3, 6, 4, 3)).astype("uint8")]


def resizing_to_whole_numbers():
    entry = keras.Input((6, 4, 3), dtype="uint8")
    halved = preprocessing.Resizing(3, 2, interpolation="bilinear", dtype="uint8")
    model = keras.Sequential([entry, halved])
    return model, [random.randint(0, 256, (3, 6, 4, 3)).astype("uint8")]


def resizing_gaussian():
    return functional(preprocessing.Resizing(3, 4, interpolation="gaussian"), (6, 6, 2))


def resizing_mitchellcubic():
    resizing = preprocessing.Resizing(3, 4, interpolation="mitchellcubic")
    return functional(resizing, (6, 6, 2))


def add_constant():
    return functional(lambda x: layers.Add()([x, tf.constant([[1.0, 2.0]])]), (2,))


def embedded_range():
    """The positions of a transformer."""

    def call(x):
        places = layers.Embedding(4, 2, name="places")(tf.range(4))
        return x + places

    return functional(call, (4, 2))


def dense_of_constant():
    def call(x):
        return layers.Add()([x, layers.Dense(2, name="d")(tf.constant([[1.0, 3.0]]))])

    return functional(call, (2,))


def deferred_built():
    """A Sequential that has a shape, and no layer that has."""
    model = keras.Sequential([layers.Dense(3, name="first"), layers.Dense(2)])
    model.build((None, 4))
    return model, [array(3, 4)]


def wide_deep_model():
    linear = keras.experimental.LinearModel(1)
    deep = keras.Sequential([layers.Dense(3, activation="relu"), layers.Dense(1)])
    model = keras.experimental.WideDeepModel(linear, deep, activation="tanh")
    model.compile(["sgd", "adam"], "mse")
    x = [array(3, 4), array(3, 2)]
    model.fit(x, array(3, 1), verbose=0)
    return model, x


def linear_model():
    model = keras.experimental.LinearModel(2, "tanh", kernel_regularizer="l2")
    model.compile("adam", "mse")
    x = [array(4, 4)]
    model.fit(x[0], array(4, 2), verbose=0)
    return model, x


def linear_of_two():
    model = keras.experimental.LinearModel(1)
    model.compile("adam", "mse")
    x = [array(4, 4), array(4, 2)]
    model.fit(x, array(4, 1), verbose=0)
    return model, x


def wide_deep_of_one():
    linear, deep = keras.experimental.LinearModel(1), keras.Sequential()
    deep.add(layers.BatchNormalization(name="a/b"))
    deep.add(layers.Dense(1))
    model = keras.experimental.WideDeepModel(linear, deep)
    model.compile("adam", "mse")
    x = [array(4, 4)]
    model.fit(x[0], array(4, 1), verbose=0)
    return model, x


def wide_deep_in_graph():
    linear = keras.experimental.LinearModel(1)
    deep = keras.Sequential([layers.Dense(3, activation="relu"), layers.Dense(1)])
    model = keras.experimental.WideDeepModel(linear, deep)
    return functional(lambda x, y: model([x, y]), (4,), (2,))


def added_weight():
    dense = layers.Dense(2, name="dense")
    dense.build((None, 4))
    dense.add_weight(name="more", shape=(3,), initializer="ones")
    return functional(lambda x: dense(x), (4,))


def embedding_of_ids():
    """Ids of rank 1, as in a recommender."""
    model = keras.Sequential([layers.Embedding(5, 3, name="ids")])
    x = np.array([1, 4, 0])
    model(x)
    return model, [x]


def only_input():
    return keras.Sequential([keras.Input((4,), name="x")]), [array(3, 4)]


def sequence_features():
    column = tf.feature_column.sequence_numeric_column("x")
    features = keras.experimental.SequenceFeatures([column], name="features")
    inputs = {"x": keras.Input((None,), sparse=True, name="x")}
    model = keras.Model(inputs, features(inputs)[0])
    return model, []


def lost_cell():
    """The steps are known in the model, not in the function of the layer."""
    return functional(lambda x: layers.RNN(Cell(name="cell"), name="rnn")(x), (4, 2))


def lost_keyword():
    scaled, scale = Scaled(name="scaled"), tf.constant([1.0, 3.0])
    return functional(lambda x: scaled(scaled(x, scale=scale), scale=2 * scale), (2,))


def lost_states():
    model, x = Decoder(), array(3, 5, 4)
    model.predict(x)
    return model, [x]


def custom_standardization():
    words = preprocessing.TextVectorization(standardize=shouted, name="words")
    words.set_vocabulary(["A", "B"])
    return keras.Sequential([keras.Input((1,), dtype=tf.string), words]), []


def shouted(text):
    return tf.strings.upper(text)


def normalization_of_items():
    """TensorFlow 2.4 gives a column."""
    x = array(5)
    norm = preprocessing.Normalization(name="norm")
    norm.adapt(x)
    inputs = keras.Input((), name="x")
    return keras.Model(inputs, layers.Dense(2)(norm(inputs))), [x]


def normalization_of_shared_items():
    x = array(5)
    norm = preprocessing.Normalization(name="norm")
    norm.adapt(x)
    inputs = keras.Input((), name="x")
    return keras.Model(inputs, [norm(inputs), layers.Activation("relu")(inputs)]), [x]


def normalization_of_rank_1():
    x = array(5)
    norm = preprocessing.Normalization(name="norm", axis=None)
    norm.adapt(x)
    inputs = keras.Input((), name="x")
    return keras.Model(inputs, norm(inputs)), [x]


def locally_connected(first, second, image="channels_last"):
    """A model with both locally connected layers, by these implementations."""
    options = {"implementation": first, "bias_regularizer": "l1", "data_format": image}
    conv = layers.LocallyConnected2D(3, (2, 1), (1, 2), activation="tanh", **options)
    x = keras.Input((3, 5, 2))
    inner = keras.Sequential([keras.Input((3, 5, 2)), conv], name="inner")
    y = layers.Permute((2, 1))(layers.Reshape((-1, 3))(inner(x)))
    options = {"implementation": second, "data_format": "channels_first"}
    y = layers.LocallyConnected1D(2, 2, kernel_regularizer="l2", **options)(y)
    model = keras.Model(x, layers.Dense(1)(layers.Flatten()(y)))
    for variable in model.variables:
        variable.assign(random.uniform(-1, 1, variable.shape))
    model.compile("adam", "mse")
    x = array(4, 3, 5, 2)
    model.fit(x, np.ones((4, 1)), verbose=0)
    return model, [x]


def locally_connected_by_parts():
    return locally_connected(1, 1)


def locally_connected_by_masks():
    return locally_connected(2, 2)


def locally_connected_channels_first():
    return locally_connected(1, 2, "channels_first")


def locally_connected_sparse():
    return locally_connected(3, 1)


def sharpness_aware():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(1)])
    model = keras.models.experimental.SharpnessAwareMinimization(model)
    model.compile("adam", "mse")
    x = array(3, 4)
    model.fit(x, np.ones((3, 1)), verbose=0)
    return model, [x]


def frozen_parts():
    """Frozen layers whose configs, or whose parts, do not say that these are frozen."""

    def call(x):
        x = layers.TimeDistributed(layers.Dense(3), trainable=False)(x)
        cells = [layers.GRUCell(2), layers.LSTMCell(3)]
        x = layers.RNN(cells, return_sequences=True, trainable=False)(x)
        heads = layers.MultiHeadAttention(2, 2, trainable=False, name="heads")
        return layers.Dense(1)(layers.Flatten()(heads(x, x)))

    model, _ = functional(call, (3, 2))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    return model, [array(4, 3, 2)]


def ragged_constant():
    rows = tf.ragged.constant([[1.0], [2.0, 3.0]])
    return functional(lambda x: rows * tf.reduce_sum(x), (4,))[0], []


def repeated_by_tensor():
    inputs = keras.Input((4,)), keras.Input((), dtype="int32")
    return keras.Model(inputs, tf.repeat(*inputs, axis=0)), []


CASES = (
    *(conv1d_extra_axis, conv2d_extra_axes, conv3d_extra_axis, conv1d_twice),
    *(conv1d_inside, base_layer, base_layer_in_sequential, base_layer_masked),
    *(resizing_area, resizing_area_uneven, resizing_area_larger, resizing_area_unsized),
    *(resizing_area_cropped, resizing_gaussian, resizing_mitchellcubic, add_constant),
    *(embedded_range, dense_of_constant, deferred_built),
    *(wide_deep_model, wide_deep_of_one, wide_deep_in_graph, linear_model),
    *(linear_of_two, added_weight, embedding_of_ids, only_input),
    *(sequence_features, custom_standardization, normalization_of_items),
    *(normalization_of_shared_items, normalization_of_rank_1, lost_states),
    *(lost_cell, lost_keyword, locally_connected_by_parts, locally_connected_by_masks),
    *(locally_connected_channels_first, locally_connected_sparse, sharpness_aware),
    *(ragged_constant, repeated_by_tensor, frozen_parts),
    *(resizing_bicubic, upsampling_bicubic, whole_numbers),
    *(whole_numbers_in_sequential, resizing_to_whole_numbers),
    batch_normalization_of_half,
)
# Cases whose SavedModel is of interest: the others open by the same config.
SAVED = (
    *(added_weight, embedding_of_ids, normalization_of_items, custom_standardization),
    *(lost_states, lost_cell, lost_keyword, locally_connected_by_parts),
)


def write(make, out):
    keras.backend.clear_session()
    random.seed(7)
    tf.random.set_seed(7)
    model, x = make()
    folder = os.path.join(out, tf.__version__, make.__name__)
    os.makedirs(folder)
    forms = {"model.h5": "h5", "model.keras": "keras", "saved_model": "tf"}
    for name, form in forms.items():
        if name == "model.keras" and not tf.__version__.startswith("2.15"):
            continue
        if name == "saved_model" and make not in SAVED:
            continue
        path = os.path.join(folder, name)
        try:
            model.save(path, save_format=form)
        except Exception as error:
            print("  ", name, repr(error)[:150])
            if os.path.isfile(path):
                os.remove(path)
    stored = {f"x_{i}": item for i, item in enumerate(x)}
    if x:
        outputs = tf.nest.flatten(model(x[0] if len(x) == 1 else x))
        stored.update({f"y_{i}": y.numpy() for i, y in enumerate(outputs)})
    if model.optimizer and not isinstance(model.optimizer, list):
        x = x[0] if len(x) == 1 else x
        model.fit(x, np.ones_like(stored["y_0"]), verbose=0)
        stored["trained"] = model(x).numpy()
    np.savez(os.path.join(folder, "expected.npz"), **stored)


def main(out, *names):
    for make in CASES:
        if names and make.__name__ not in names:
            continue
        print(tf.__version__, make.__name__)
        try:
            write(make, out)
        except Exception as error:
            print("   left out:", repr(error)[:200])


if __name__ == "__main__":
    main(*sys.argv[1:])
