"""Writes small models with Keras 1.2.2, whose layers had other arguments.

    KERAS_BACKEND=tensorflow python write_keras_1.py OUTDIR

Under Keras 1.2.2 on TensorFlow 1.14 (Python 3.6). A case goes to OUTDIR/<case>.h5, its
inputs `x` and outputs `y` to OUTDIR/<case>.npz.
"""

import os
import sys

import numpy as np
from keras.constraints import maxnorm
from keras.layers import (
    GRU,
    LSTM,
    Activation,
    AveragePooling1D,
    BatchNormalization,
    Bidirectional,
    Convolution1D,
    Convolution2D,
    Cropping2D,
    Deconvolution2D,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePooling2D,
    Input,
    Lambda,
    MaxPooling1D,
    MaxPooling2D,
    PReLU,
    SeparableConvolution2D,
    SimpleRNN,
    TimeDistributed,
    UpSampling2D,
    ZeroPadding2D,
    merge,
)
from keras.models import Model, Sequential
from keras.regularizers import l2

RANDOM = np.random.RandomState(4)


def draw(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def convolutions():
    model = Sequential()
    model.add(Lambda(lambda x: x / 127.5 - 1.0, input_shape=(9, 10, 3)))
    model.add(Cropping2D(cropping=((1, 0), (0, 0))))
    model.add(Convolution2D(4, 3, 2, subsample=(2, 1), W_regularizer=l2(0.01)))
    model.add(BatchNormalization())
    model.add(PReLU())
    model.add(ZeroPadding2D((1, 2)))
    model.add(MaxPooling2D((2, 2), border_mode="same"))
    model.add(Dropout(0.3))
    model.add(Convolution2D(3, 2, 2, border_mode="same", init="he_normal", bias=False))
    model.add(Flatten())
    model.add(Dense(2, activation="tanh", b_regularizer=l2(0.1)))
    model.compile("adam", "mse")
    model.fit(draw(4, 9, 10, 3), draw(4, 2), nb_epoch=2, verbose=0)
    return model


def more_convolutions():
    x = Input((6, 6, 2))
    a = SeparableConvolution2D(3, 3, 3, border_mode="same", depth_multiplier=2)(x)
    b = Deconvolution2D(3, 3, 3, (None, 6, 6, 3), border_mode="same")(x)
    c = Convolution2D(3, 1, 1)(UpSampling2D((2, 1))(MaxPooling2D((2, 1))(x)))
    y = merge([a, b, c], mode="sum")
    y = merge([y, a], mode="mul")
    y = merge([y, x], mode="concat", concat_axis=-1)
    return Model(x, Dense(2)(GlobalAveragePooling2D()(y)))


def sequences():
    x = Input((8,), dtype="int32")
    y = Embedding(6, 5, dropout=0.0)(x)
    y = Convolution1D(6, 3, border_mode="same", activation="relu")(y)
    y = MaxPooling1D(2, stride=1)(AveragePooling1D(2, border_mode="same")(y))
    y = LSTM(4, return_sequences=True, dropout_W=0.1, dropout_U=0.1)(y)
    y = GRU(3, return_sequences=True, inner_activation="sigmoid")(y)
    y = TimeDistributed(Dense(4))(y)
    y = Bidirectional(LSTM(2, return_sequences=True))(y)
    y = Bidirectional(GRU(2, return_sequences=True), merge_mode="sum")(y)
    z = SimpleRNN(2)(y)
    w = LSTM(2, consume_less="gpu")(y)
    v = merge([z, w], mode="ave")
    u = merge([z, w], mode="max")
    t = merge([u, v], mode="dot", dot_axes=1)
    return Model(x, Activation("softmax")(merge([u, v, t], mode="concat")))


def channels_first():
    th = {"dim_ordering": "th"}
    x = Input((2, 6, 6))
    y = Convolution2D(3, 3, 2, W_constraint=maxnorm(2), **th)(x)
    y = ZeroPadding2D((1, 1), **th)(MaxPooling2D((1, 2), **th)(y))
    y = Deconvolution2D(2, 2, 2, (None, 2, 7, 5), **th)(y)
    return Model(x, Dense(2)(Flatten()(y)))


def nested():
    inner = Sequential(name="inner")
    inner.add(Convolution1D(4, 2, activation="relu", input_shape=(5, 3)))
    inner.add(LSTM(3))
    x = Input((5, 3))
    return Model(x, Dense(2)(inner(x)))


INPUTS = {"sequences": RANDOM.randint(0, 6, (3, 8)).astype("int32")}

if __name__ == "__main__":
    for make in (convolutions, more_convolutions, sequences, channels_first, nested):
        model = make()
        for layer in model.layers:
            shapes = [weight.shape for weight in layer.get_weights()]
            drawn = [draw(*shape) for shape in shapes]
            if "batchnormalization" in layer.name:
                drawn[3] = np.abs(drawn[3]) + 0.5
            layer.set_weights(drawn)
        name = make.__name__
        x = INPUTS.get(name)
        if x is None:
            x = draw(3, *model.input_shape[1:])
        path = os.path.join(sys.argv[1], name)
        model.save(path + ".h5")
        np.savez(path + ".npz", x=x, y=model.predict(x))
