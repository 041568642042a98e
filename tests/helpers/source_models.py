"""Models whose source code is written in tests, and some that have none."""

import keras
import legacy_files
import numpy as np
from keras import layers, ops

Input = keras.Input


def shared_layer():
    left, right, dense = Input((4,)), Input((4,)), layers.Dense(3, name="a dense:1")
    return keras.Model(
        [left, right],
        layers.Concatenate()([dense(left), dense(right), dense(ops.relu(left))]),
    )


def states():
    x = Input((5, 4))
    outputs, h, c = layers.LSTM(3, return_state=True, return_sequences=True)(x)
    y = layers.LSTM(3)(outputs, initial_state=[h, c])
    return keras.Model(x, {"y": y, "h": h})


def inner_model_twice():
    i, a, b = Input((4,)), Input((4,)), Input((4,))
    inner = keras.Model(i, [layers.Dense(2)(i), layers.Dense(2)(i)], name="encoder")
    (p, q), (r, s) = inner(a), inner(b)
    return keras.Model([a, b], [p + r, q * s])


def inner_model_of_dicts():
    i, a = Input((4,)), Input((4,), name="a")
    inner = keras.Model(i, {"p": layers.Dense(2)(i), "q": layers.Dense(3)(i)})
    first, second = inner(a), inner(a * 2)
    return keras.Model({"a": a}, [first["p"] + second["p"], first["q"]])


def inner_model_of_a_list():
    a, b = Input((3,)), Input((3,))
    inner = keras.Model([a], [layers.Dense(2)(a)], name="inner")
    found = inner(b)
    return keras.Model([b], [found[0] if isinstance(found, list) else found])


def masks():
    i = Input((6,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(i)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.TimeDistributed(layers.Dense(2))(x)
    both = [layers.GlobalAveragePooling1D()(x), layers.LSTM(2)(x)]
    return keras.Model(i, layers.Concatenate()(both))


def mask_given():
    x, mask = Input((5, 4)), Input((5,), dtype="bool")
    return keras.Model([x, mask], layers.LSTM(3)(x, mask=mask))


def equal_names():
    i, x = Input((4,)), Input((4,))
    inner = keras.Model(i, layers.Dense(4)(ops.relu(i)), name="dense")
    return keras.Model(x, layers.Dense(2, name="dense_1")(inner(x)))


def attention():
    query, value, mask = Input((5, 4)), Input((6, 4)), Input((5, 6), dtype="bool")
    layer = layers.MultiHeadAttention(2, 3, value_dim=5, output_shape=7, dropout=0.1)
    outputs, scores = layer(
        query=query, value=value, attention_mask=mask, return_attention_scores=True
    )
    causal = layers.MultiHeadAttention(2, 3)(query, query, use_causal_mask=True)
    return keras.Model([query, value, mask], [outputs, scores, causal])


def operations():
    x = Input((4, 6))
    a, b, c = ops.split(x, 3, axis=-1)
    s = ops.stack([a, b, c], axis=1)
    e = ops.einsum("bijk,bijk->bi", s, s)
    first, _, third, _ = ops.unstack(x, axis=1)
    found = [ops.top_k(e, 2)[0], first, third, x[..., ::2], x[:, None, 1, -2:]]
    found += [-x, x**2, 2**x, x / 3, 3 - x, x % 2, ops.where(x > 0, x, 0.0)]
    found += [ops.pad(x, ((0, 0), (1, 1), (0, 0))), *ops.moments(x, axes=(1,))]
    return keras.Model(x, [*found, ops.clip(x, -float("inf"), 1e-7) * 1e30])


def constants():
    x = Input((3,))
    y = x * np.arange(3, dtype="float32") + ops.convert_to_tensor([1e-5, 0.1, 2.0])
    return keras.Model(x, ops.subtract(np.array([1, 2, 3], "int32"), y + 3.5))


def large_constant():
    x = Input((10, 10))
    return keras.Model(x, x * np.arange(100, dtype="float32").reshape(10, 10))


def names():
    x = Input((3,), name="inputs")
    odd = "class", "größe 名 前", "x", 'q"uo', "it's", "a" * 150, "b" * 90
    found = [x]
    for name in odd:
        found.append(layers.Dense(2, name=name)(found[-1]))
    return keras.Model(x, [found[1], found[2], found[-1] + found[1]], name="my model")


def policies():
    x = Input((3,))
    y = layers.Dense(2, dtype="mixed_float16")(x)
    y = layers.Dense(2, dtype="mixed_bfloat16", trainable=False)(y)
    policy = keras.dtype_policies.DTypePolicyMap(default_policy="mixed_float16")
    policy["last"] = "float32"
    return keras.Model(x, layers.Dense(2, name="last", dtype=policy)(y))


def input_kinds():
    a, b, c = Input((3,), batch_size=2), Input(batch_shape=(2, None)), Input(())
    return keras.Model([a, b, c], [layers.Dense(2)(a), b, c * 2])


def no_layers():
    x = Input((3,))
    return keras.Model(x, x)


def inner_sequentials():
    last = layers.Dense(4, activation="relu")
    inner = keras.Sequential([layers.Dense(3), last], name="inner")
    return keras.Sequential([Input((4,)), inner, layers.Dense(2)], name="outer")


def model_in_a_wrapper():
    i, x = Input((4,)), Input((5, 4))
    inner = keras.Model(i, layers.Dense(2)(i))
    return keras.Model(x, layers.TimeDistributed(inner)(x))


def cells():
    x = Input((5, 4))
    cells = [layers.LSTMCell(3), layers.GRUCell(2, kernel_regularizer="l2")]
    return keras.Model(x, layers.RNN(cells, return_state=True)(x))


def two_directions():
    x = Input((5, 4))
    backward = layers.LSTM(3, go_backwards=True, return_state=True, dropout=0.2)
    layer = layers.Bidirectional(
        layers.LSTM(3, return_state=True), backward_layer=backward, merge_mode="sum"
    )
    return keras.Model(x, layer(x))


def training_settings():
    dense = layers.Dense(
        *(3, "gelu"),
        kernel_regularizer=keras.regularizers.L1L2(1e-5, 2e-3),
        kernel_constraint=keras.constraints.MaxNorm(3),
        activity_regularizer="l2",
    )
    return keras.Sequential([Input((4,)), dense, layers.GaussianNoise(0.1, seed=3)])


def frozen_base():
    i, x = Input((4,)), Input((4,))
    base = keras.Model(i, layers.Dense(2)(layers.BatchNormalization()(i)), name="base")
    base.trainable = False
    return keras.Model(x, layers.Dense(2)(base(x, training=False)))


def images():
    return keras.Sequential(
        [
            *(Input((16, 16, 3)), layers.Rescaling(1 / 255), layers.RandomFlip()),
            layers.Conv2D(8, (3, 5), strides=(2, 1), padding="same", use_bias=False),
            layers.SeparableConv2D(4, 3, depth_multiplier=2),
            layers.Conv2DTranspose(4, 3, strides=2, output_padding=1),
            *(layers.MaxPooling2D(3, strides=2), layers.Reshape((-1, 4))),
            *(layers.LeakyReLU(0.2), layers.PReLU(), layers.Normalization()),
        ]
    )


def unused_input():
    a, b = Input((3,), name="a"), Input((3,), name="b")
    y = layers.Dense(2)(a)
    return keras.Model([a, b], [y, y, a])


def learned_vocabulary():
    look_up = layers.IntegerLookup()
    look_up.adapt(np.array([1, 5, 7, 7]))
    x = Input((1,), dtype="int64")
    return keras.Model(x, look_up(x))


def transformer():
    tokens, mask = Input((6,), dtype="int32"), Input((6,), dtype="bool", name="mask")
    x = layers.Embedding(20, 8, name="tokens")(tokens)
    for i in range(4):
        y = layers.LayerNormalization(name=f"layer_{i}_norm")(x)
        attention = layers.MultiHeadAttention(2, 4, name=f"layer_{i}_attention")
        y = attention(y, y, attention_mask=mask[:, None])
        x = layers.Add(name=f"layer_{i}_add")([x, y])
        y = layers.LayerNormalization(name=f"layer_{i}_norm_2")(x)
        y = layers.Dense(16, "gelu", name=f"layer_{i}_in")(y)
        y = layers.Dense(8, name=f"layer_{i}_out")(y)
        x = layers.Add(name=f"layer_{i}_add_2")([x, y])
    return keras.Model([tokens, mask], x[:, 0], name="transformer")


def residual_stages():
    inputs = Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", name="stem")(inputs)
    for stage, filters in enumerate((8, 16), 2):
        for block in range(1, 4):
            name, skip = f"conv{stage}_block{block}", x
            if block == 1:
                options = {"strides": 2, "padding": "same", "name": f"{name}_0_conv"}
                skip = layers.Conv2D(filters, 1, **options)(x)
            options = {"strides": 2 if block == 1 else 1, "padding": "same"}
            x = layers.Conv2D(filters, 3, name=f"{name}_1_conv", **options)(x)
            x = layers.BatchNormalization(name=f"{name}_1_bn")(x)
            x = layers.ReLU(name=f"{name}_1_relu")(x)
            x = layers.Conv2D(filters, 3, padding="same", name=f"{name}_2_conv")(x)
            x = layers.Add(name=f"{name}_add")([skip, x])
            x = layers.ReLU(name=f"{name}_out")(x)
    return keras.Model(inputs, layers.GlobalMaxPooling2D()(x), name="residual")


def inverted_residuals():
    x = inputs = Input((8, 8, 4))
    for i in range(3, 8):
        y = layers.Conv2D(16, 1, use_bias=False, name=f"block_{i}_expand")(x)
        y = layers.BatchNormalization(name=f"block_{i}_expand_BN")(y)
        y = layers.ReLU(6.0)(y)
        y = layers.DepthwiseConv2D(3, padding="same", name=f"block_{i}_depthwise")(y)
        y = layers.ReLU(6.0)(y)
        y = layers.Conv2D(4, 1, use_bias=False, name=f"block_{i}_project")(y)
        x = layers.Add(name=f"block_{i}_add")([x, y])
    return keras.Model(inputs, x, name="inverted")


def equal_layers():
    stack = [layers.Dense(4, "relu", name=f"dense {i}") for i in range(3, 9)]
    return keras.Sequential([Input((4,)), *stack, layers.Dense(2)], name="stack")


def inner_blocks():
    x = inputs = Input((4,))
    for i in range(6):
        a = Input((4,))
        block = keras.Model(a, layers.Dense(4)(ops.relu(a)) + a, name=f"block_{i}")
        x = block(x)
    return keras.Model(inputs, x, name="blocks")


def two_states():
    x = Input((5, 4))
    outputs, h, c = layers.LSTM(4, return_sequences=True, return_state=True)(x)
    for _ in range(3):
        layer = layers.LSTM(4, return_sequences=True, return_state=True)
        outputs, h, c = layer(outputs, initial_state=[h, c])
    return keras.Model(x, [outputs, h], name="states")


def skips():
    x = Input((8, 4))
    found = [x]
    for i in range(4):  # each is needed later, so this is no loop
        found.append(layers.Dense(4, name=f"down_{i}")(found[-1]))
    y = found[-1]
    for i in range(4):
        y = layers.Dense(4, name=f"up_{i}")(layers.Add()([y, found[3 - i]]))
    return keras.Model(x, y, name="skips")


def shared_in_loop():
    x = inputs = Input((4,))
    dense = layers.Dense(4, name="shared")
    for _ in range(4):
        x = layers.Add()([dense(ops.relu(x)), x, inputs])
    return keras.Model(inputs, [x, inputs * 2], name="recurrence")


def odd_numbers():
    x = inputs = Input((4,))
    for i in (1, 2, 4, 8, 16):  # no rule that a loop could count by
        x = layers.Dense(4, name=f"a{i}")(x)
    for i in range(6):
        x = layers.Dense(4, name=f"b{{{i}}}_0{i}_{3 * i + 2}")(x)
    for i in range(6):
        x = layers.Dense(4, name=f"{{c}}_{3 * i + 2}_{3 * i}")(x)
    return keras.Model(inputs, x, name="odd")


def encoder_decoder():
    inputs, mask = Input((6, 4)), Input((6,), dtype="bool", name="mask")

    def block(x, name):
        x = layers.LayerNormalization(name=f"{name}_norm")(x)
        attention = layers.MultiHeadAttention(2, 4, name=f"{name}_attention")
        wide = mask[:, None]
        y = layers.Add(name=f"{name}_add")([x, attention(x, x, attention_mask=wide)])
        x = layers.Dense(8, "gelu", name=f"{name}_in")(y)
        x = layers.Dense(4, name=f"{name}_out")(layers.Dropout(0.1)(x))
        return layers.Add(name=f"{name}_add_2")([x, y])

    x = layers.Conv1D(4, 3, padding="same", name="middle")(block(inputs, "encoder"))
    return keras.Model([inputs, mask], block(x, "decoder{0}"), name="net")


def two_towers():
    left, right, found = Input((4,)), Input((4,)), []
    for x, name in (left, "left"), (right, "right"):
        for i in range(3):
            y = layers.Dense(4, name=f"{name}_{i}_dense")(x)
            y = ops.relu(y)
            x = layers.Add(name=f"{name}_{i}_add")([x, y])
        x = layers.LayerNormalization(name=f"{name}_norm")(x)
        x = ops.tanh(x) * x
        x = layers.Dropout(0.1)(x)
        found += [layers.Dense(1, name=f"{name}_score")(x), x]
    return keras.Model([left, right], found, name="net")


def two_words():
    x = inputs = Input((4,))
    for one, other in ("a", "b"), ("c", "d"), ("e", "f"):
        for n in range(4):
            name = one if n < 2 else other
            x = layers.Dense(4, name=f"{name}_{'xy'[n % 2]}")(x)
        x = ops.relu(layers.Dense(5, name=f"{other}_{one}")(x))
        x = layers.Dense(ord(one) % 7 + 4, name=f"{one}_last")(x)
        x = layers.Dense(4, name=f"{other}_last")(x)
    return keras.Model(inputs, x, name="net")


_MADE = [shared_layer, states, inner_model_twice, inner_model_of_dicts, masks]
_MADE += [inner_model_of_a_list, mask_given, attention, operations, constants, names]
_MADE += [large_constant, policies, input_kinds, no_layers, inner_sequentials, cells]
_MADE += [model_in_a_wrapper, two_directions, training_settings, frozen_base, images]
_MADE += [unused_input, equal_names]
_UNUSED = [no_layers, unused_input, input_kinds]  # inputs that no layer uses
REPEATED = [transformer, residual_stages, inverted_residuals, equal_layers, skips]
REPEATED += [inner_blocks, two_states, shared_in_loop, odd_numbers, encoder_decoder]
REPEATED += [two_towers, two_words]
_MADE += REPEATED
MODELS = {
    make.__name__: make
    for make in _MADE
    if legacy_files.TAKES_UNUSED_INPUTS or make not in _UNUSED
}


class Custom(keras.layers.Layer):
    """A layer that is not registered, in a class that has no place of its own."""

    def call(self, inputs):
        return inputs


Custom.__qualname__ = Custom.__name__ = "Elsewhere"


class Subclassed(keras.Model):
    """A model that is not a graph."""

    def call(self, inputs):
        return inputs


def _lambda():
    x = Input((3,))
    return keras.Model(x, layers.Lambda(lambda t: t + 1, name="plus one")(x))


def _custom():
    x = Input((3,))
    return keras.Model(x, Custom(name="odd")(x))


def _quantized():
    dense = layers.Dense(3, name="small")
    model = keras.Sequential([Input((4,)), dense])
    dense.quantize("int8")
    return model


def _shared_with_an_inner_model():
    dense, i, x = layers.Dense(4), Input((4,)), Input((4,))
    return keras.Model(x, dense(keras.Model(i, dense(i))(x)))


def _name_of_an_operation():
    x = Input((3,))
    x + x  # takes the name in this process, so the next sum has another one
    return keras.Model(x, layers.Dense(3, name="add")(x) + x)


def _changed():
    layer = layers.LeakyReLU(0.5)
    layer.call = lambda inputs: inputs * 2
    return keras.Sequential([Input((3,)), layer])


# Name -> how to make it, the class of the error, and a part of its message.
REFUSED = {
    "no-model": (lambda: "a model", TypeError, "Sequential model, received 'a model'"),
    "unbuilt": (
        lambda: keras.Sequential([layers.Dense(2)], name="net"),
        *(ValueError, "The input of 'net' is not known. Call the model once"),
    ),
    "subclassed": (
        lambda: Subclassed(name="net"),
        *(ValueError, r"'net' is a subclassed model \(Subclassed\)"),
    ),
    "lambda": (_lambda, ValueError, r"'plus one' \(Lambda\): the source code of a lam"),
    "class": (_custom, ValueError, r"'odd' \(Elsewhere\): 'Elsewhere' cannot be imp"),
    "quantized": (_quantized, ValueError, r"'small' \(Dense\): QuantizedDTypePolicy"),
    "shared": (
        _shared_with_an_inner_model,
        *(
            ValueError,
            "layers that several inner models share would have separate weights",
        ),
    ),
    "name": (_name_of_an_operation, ValueError, r"layer 'add' \(Dense\) to an operat"),
    "changed": (_changed, ValueError, "something other than their configs say"),
}
