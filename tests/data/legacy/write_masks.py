"""Writes the models of `tests/data/legacy/masks.tar.xz`, with the running TensorFlow.

    python write_masks.py OUTDIR

Under TensorFlow 2.4.4 and 2.15.1; the case `both_ways` also under Keras 2.3.1 (TensorFlow
1.15.5), whose folder is `keras-2.3.1`. A case goes to OUTDIR/<release>/<case>/: `model.h5`,
`model.keras` (2.15) and `expected.npz`, with the inputs `x_*` and the outputs `y_*`: what
the layers of the case give, and what a recurrent layer makes of it and of its mask. Two
inputs are padded, at other places; a third has no mask.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

IS_STANDALONE = tf.__version__.startswith("1.")
if IS_STANDALONE:
    import keras
else:
    keras = tf.keras
layers = keras.layers
RELEASE = "keras-" + keras.__version__ if IS_STANDALONE else tf.__version__


def goes_on(a, b, c):
    """A decoder: it begins with the states of another layer."""
    _, h, s = layers.LSTM(4, return_state=True)(a)
    return layers.LSTM(4, return_sequences=True)(b, initial_state=[h, s])


def goes_on_both_ways(a, b, c):
    h = layers.GRU(4)(a)
    gru = layers.GRU(4, return_sequences=True)
    return layers.Bidirectional(gru)(b, initial_state=[h, h])


def both_ways(a, b, c):
    lstm = layers.LSTM(4, return_sequences=True)
    gru = layers.GRU(4, return_sequences=True)
    both = [layers.Bidirectional(lstm)(a), layers.Bidirectional(gru)(b)]
    return layers.Concatenate()([*both, c])


def nested(a, b, c):
    x, y = keras.Input((5, 4)), keras.Input((5, 4))
    inner = layers.Multiply()([layers.Add()([x, y]), y])
    return keras.Model([x, y], inner)([a, b])


def nested_decoder(a, b, c):
    rows, state = keras.Input((5, 4)), keras.Input((4,))
    gru = layers.GRU(4, return_sequences=True)(rows, initial_state=state)
    _, _, last = layers.LSTM(4, return_state=True)(b)
    return keras.Model([rows, state], gru)([a, last])


def nested_both_ways(a, b, c):
    rows, state = keras.Input((5, 4)), keras.Input((4,))
    gru = layers.Bidirectional(layers.GRU(4, return_sequences=True))
    both = gru(rows, initial_state=[state, state])
    return keras.Model([rows, state], both)([a, layers.GRU(4)(b)])


def close(c):
    """Which rows are close to each other: several are not even to themselves."""
    return tf.matmul(c, c, transpose_b=True) > 2.5


def heads_with_scores(a, b, c):
    heads = layers.MultiHeadAttention(2, 2)
    rows, scores = heads(c, c, attention_mask=close(c), return_attention_scores=True)
    scores = layers.Reshape((5, 10))(layers.Permute((2, 1, 3))(scores))
    return layers.Concatenate()([rows, scores])


def heads_that_see_nothing(a, b, c):
    return layers.MultiHeadAttention(2, 2, dropout=0.5)(c, b, attention_mask=close(c))


def heads_with_key_that_see_nothing(a, b, c):
    heads = layers.MultiHeadAttention(2, 2, dropout=0.5)
    return heads(c, c, b, attention_mask=close(c)[:, :1])


def heads_that_look_back(a, b, c):
    heads = layers.MultiHeadAttention(2, 2, dropout=0.5)
    return heads(c, b, attention_mask=close(c), use_causal_mask=True)


def heads_with_one_mask_for_all(a, b, c):
    """A mask of two axes, by which the first position sees nothing."""
    places = tf.range(tf.shape(c)[1])
    heads = layers.MultiHeadAttention(2, 2, dropout=0.5)
    return heads(c, c, attention_mask=places[:, None] > places[None])


def heads_with_a_mask_each(a, b, c):
    """A mask of four axes: what one head sees, the other does not."""
    heads, seen = layers.MultiHeadAttention(2, 2), close(c)
    seen = tf.stack([seen, tf.logical_not(seen)], 1)
    rows, scores = heads(c, c, attention_mask=seen, return_attention_scores=True)
    scores = layers.Reshape((5, 10))(layers.Permute((2, 1, 3))(scores))
    return layers.Concatenate()([rows, scores])


def heads_that_see_all_or_nothing(a, b, c):
    heads = layers.MultiHeadAttention(2, 2, dropout=0.5)
    return heads(c, c, attention_mask=close(c)[:, :, :1])


def heads_of_padded_that_see_nothing(a, b, c):
    """Rows of a padded query that see nothing, without those that are padding."""
    heads = layers.MultiHeadAttention(2, 2, dropout=0.5)
    rows = heads(a, c, attention_mask=close(c))
    return layers.RepeatVector(5)(layers.GlobalAveragePooling1D()(rows))


def heads_over_a_grid(a, b, c):
    grid, seen = layers.Reshape((5, 2, 2))(c), close(c)[:, :, None, :, None]
    seen = tf.tile(seen, [1, 1, 2, 1, 2])
    rows = layers.MultiHeadAttention(2, 2)(grid, grid, attention_mask=seen)
    return layers.Reshape((5, 4))(rows)


def softmax_that_sees_nothing(a, b, c):
    rows = layers.Softmax()(c, mask=close(c)[:, :, :4])
    return layers.Reshape((5, 4))(rows)  # ends the mask, which is none of rows


def flattened(a, b, c):
    """Padding becomes data: written as a SavedModel too."""
    rows = layers.MultiHeadAttention(2, 2, dropout=0.5)(a, a)
    return layers.Reshape((1, 20))(layers.Flatten()(rows))


CASES = {
    "add": lambda a, b, c: layers.Add()([a, b]),
    "add_of_unmasked": lambda a, b, c: layers.Add()([a, c]),
    "both_ways": both_ways,
    "average": lambda a, b, c: layers.Average()([a, b, c]),
    "subtract": lambda a, b, c: layers.Subtract()([c, a]),
    "multiply": lambda a, b, c: layers.Multiply()([a, b]),
    "multiply_by_one": lambda a, b, c: layers.Multiply()([a, layers.Dense(1)(b)]),
    "maximum": lambda a, b, c: layers.Maximum()([a, b]),
    "minimum_of_unmasked": lambda a, b, c: layers.Minimum()([c, b]),
    "concatenate": lambda a, b, c: layers.Concatenate()([a, b]),
    "concatenate_unmasked": lambda a, b, c: layers.Concatenate()([a, c]),
    "concatenate_rows": lambda a, b, c: layers.Concatenate(axis=1)([a, b]),
    "goes_on": goes_on,
    "goes_on_both_ways": goes_on_both_ways,
    "nested": nested,
    "nested_both_ways": nested_both_ways,
    "nested_decoder": nested_decoder,
    "relu": lambda a, b, c: layers.ReLU()(a),
    "thresholded_relu": lambda a, b, c: layers.ThresholdedReLU(0.1)(a),
    "heads": lambda a, b, c: layers.MultiHeadAttention(2, 2)(a, a),
    "heads_of_unmasked": lambda a, b, c: layers.MultiHeadAttention(2, 2)(c, a),
    "heads_with_key": lambda a, b, c: layers.MultiHeadAttention(2, 2)(a, c, b),
    "heads_with_scores": heads_with_scores,
    "softmax_that_sees_nothing": softmax_that_sees_nothing,
    "heads_that_see_nothing": heads_that_see_nothing,
    "heads_with_key_that_see_nothing": heads_with_key_that_see_nothing,
    "heads_with_one_mask_for_all": heads_with_one_mask_for_all,
    "heads_with_a_mask_each": heads_with_a_mask_each,
    "heads_that_see_all_or_nothing": heads_that_see_all_or_nothing,
    "heads_of_padded_that_see_nothing": heads_of_padded_that_see_nothing,
    "heads_over_a_grid": heads_over_a_grid,
}
if tf.__version__.startswith("2.15"):
    CASES["flattened"] = flattened
    CASES["heads_that_look_back"] = heads_that_look_back
    CASES["identity"] = lambda a, b, c: layers.Identity()(a)
    CASES["rescaling"] = lambda a, b, c: layers.Rescaling(0.5)(a)
# Of ids (2, 5): a step is a sequence of its own.
STEPS = {
    "steps_of_sequences": lambda x: layers.TimeDistributed(layers.LSTM(3))(
        layers.TimeDistributed(layers.Embedding(10, 4, mask_zero=True))(x)
    ),
    "steps_of_padding": lambda x: layers.TimeDistributed(
        layers.Bidirectional(layers.GRU(2))
    )(layers.Embedding(10, 4, mask_zero=True)(x)),
}
PADDED = [[1, 2, 3, 0, 0], [4, 5, 0, 6, 1], [2, 0, 0, 0, 0]]
OTHERS = [[3, 0, 1, 2, 0], [7, 8, 9, 0, 0], [1, 1, 0, 2, 0]]


def write(make, folder):
    keras.backend.clear_session()
    random = np.random.RandomState(7)
    ids = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    c = keras.Input((5, 4))
    a, b = (layers.Embedding(10, 4, mask_zero=True)(x) for x in ids)
    rows = make(a, b, c)
    model = keras.Model([*ids, c], [rows, layers.SimpleRNN(3)(rows)])
    model.set_weights([random.normal(size=w.shape) * 0.6 for w in model.get_weights()])
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"))
    if tf.__version__.startswith("2.15"):
        model.save(os.path.join(folder, "model.keras"))
    if make.__name__ == "flattened":
        model.save(os.path.join(folder, "saved_model"))
    x = np.int32(PADDED), np.int32(OTHERS), np.float32(random.normal(size=(3, 5, 4)))
    stored = {f"x_{i}": item for i, item in enumerate(x)}
    outputs = model.predict(list(x))
    stored.update({f"y_{i}": y for i, y in enumerate(outputs)})
    np.savez(os.path.join(folder, "expected.npz"), **stored)


def write_steps(make, folder):
    keras.backend.clear_session()
    random = np.random.RandomState(7)
    ids = keras.Input((2, 5), dtype="int32")
    rows = make(ids)
    model = keras.Model(ids, [rows, layers.SimpleRNN(3)(rows)])
    model.set_weights([random.normal(size=w.shape) * 0.6 for w in model.get_weights()])
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"))
    if tf.__version__.startswith("2.15"):
        model.save(os.path.join(folder, "model.keras"))
    x = np.stack([PADDED, np.zeros_like(PADDED)], 1).astype("int32")
    stored = {f"y_{i}": y for i, y in enumerate(model.predict(x))}
    np.savez(os.path.join(folder, "expected.npz"), x_0=x, **stored)


def main(out):
    for name in {} if IS_STANDALONE else STEPS:
        write_steps(STEPS[name], os.path.join(out, RELEASE, name))
    for name in ["both_ways"] if IS_STANDALONE else CASES:
        write(CASES[name], os.path.join(out, RELEASE, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
