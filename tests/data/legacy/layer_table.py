"""Every layer class of TensorFlow 2.0 to 2.15, with arguments other than the defaults.

`LAYERS` is `{class: {variant: case}}`. A class of `tf.compat.v1` that differs from
the one of the same name in `tf.keras` has "_v1" behind its name.
"""

import collections

import tensorflow as tf

initializers = tf.keras.initializers
regularizers = tf.keras.regularizers
constraints = tf.keras.constraints

Input = collections.namedtuple("Input", "shape dtype low high pad values")
Of = collections.namedtuple("Of", "name args kwargs")  # a layer inside a layer
Case = collections.namedtuple(
    "Case",
    "inputs args kwargs since until call before after adapt spread fixed by last",
)

# What a case may say besides its layer's own arguments.
OPTIONS = {
    "since": (2, 0),  # first and last release that has these arguments
    "until": (2, 15),
    "call": {},  # keyword arguments of the call
    "before": None,  # a layer that each input goes through first
    "after": None,  # a layer behind this one
    "adapt": None,  # data for `adapt`
    "spread": False,  # the inputs are arguments of their own, no list
    "fixed": False,  # the batch size is part of the model
    # What the CPU cannot run is computed by another layer with the same weights:
    "by": None,  # this one,
    "last": False,  # or the same with channels_last.
}


def case(inputs, *args, **kwargs):
    options = {key: kwargs.pop(key, value) for key, value in OPTIONS.items()}
    inputs = inputs if isinstance(inputs, (list, dict)) else [inputs]
    return Case(inputs, args, kwargs, **options)


def of(name, *args, **kwargs):
    return Of(name, args, kwargs)


def x(*shape, low=-1.0, high=1.0, pad=None):
    """Floats; `pad` "right" or "left" zeroes steps at that end of some sequences."""
    return Input(shape, "float32", low, high, pad, None)


def ints(high, *shape, low=0, pad=None, dtype="int32"):
    return Input(shape, dtype, low, high, pad, None)


def given(*rows, dtype="string"):
    shape = tf.TensorShape(tf.constant(rows).shape).as_list()[1:]
    return Input(tuple(shape), dtype, None, None, None, rows)


def both(table, *names):
    """Cases for `names` (a function and its namesakes), in one table."""
    return {name: dict(table) for name in names}


L1_L2 = regularizers.l1_l2(0.01, 0.02)
L2 = regularizers.l2(0.03)
MAX_NORM = constraints.MaxNorm(1.5, axis=0)
NORMAL = initializers.RandomNormal(stddev=0.3)
HALF = initializers.Constant(0.5)
KERNEL = {"kernel_initializer": NORMAL, "bias_initializer": HALF}
HELD = {"kernel_regularizer": L1_L2, "bias_constraint": MAX_NORM, **KERNEL}
SEQUENCE, PADDED, LEFT = x(4, 3), x(4, 3, pad="right"), x(4, 3, pad="left")
ROW, IMAGE, VOLUME = x(7, 2), x(6, 5, 2), x(4, 5, 4, 2)
MASK = of("Masking", 0.0)
WORDS = given(["a", "zz"], ["b", "c"], ["", "a"])
VOCABULARY = ["a", "b", "c"]
NUMBERS = ints(8, 3, dtype="int64")
TEXT = given(["The cat, sat"], ["a dog sat on"], ["cat"])
TEXTS = [["the cat sat"], ["the dog ran"], ["a cat ran on"]]
COLUMN = tf.feature_column.numeric_column

ACTIVATIONS = {
    "elu": (2, 0),
    "exponential": (2, 0),
    "gelu": (2, 4),
    "hard_sigmoid": (2, 0),
    "linear": (2, 0),
    "mish": (2, 15),
    "relu": (2, 0),
    "selu": (2, 0),
    "sigmoid": (2, 0),
    "softmax": (2, 0),
    "softplus": (2, 0),
    "softsign": (2, 0),
    "swish": (2, 4),
    "tanh": (2, 0),
}
CORE = {
    "Activation": {
        name: case(SEQUENCE, name, since=since) for name, since in ACTIVATIONS.items()
    },
    "ActivityRegularization": {"l1_l2": case(x(3), l1=0.1, l2=0.2)},
    "Dense": {
        "relu_l1_l2": case(x(4), 3, activation="relu", **HELD),
        "no_bias_3d": case(
            SEQUENCE,
            5,
            use_bias=False,
            kernel_initializer="he_normal",
            kernel_constraint=constraints.NonNeg(),
            activity_regularizer="l2",
        ),
        "scaling": case(
            x(4),
            2,
            activation="softmax",
            kernel_initializer=initializers.VarianceScaling(
                2.0, mode="fan_out", distribution="uniform", seed=3
            ),
            kernel_constraint=constraints.MinMaxNorm(0.2, 0.9, rate=0.5, axis=1),
            bias_constraint=constraints.UnitNorm(axis=0),
        ),
        "orthogonal": case(
            x(4), 4, kernel_initializer=initializers.Orthogonal(gain=0.7, seed=1)
        ),
        "frozen": case(x(4), 3, trainable=False, dtype="float32"),
    },
    "Dropout": {
        "noise_shape": case(SEQUENCE, 0.4, noise_shape=(None, 1, 3), seed=5),
    },
    "EinsumDense": {
        "heads": case(
            SEQUENCE,
            "abc,cde->abde",
            output_shape=(None, 2, 5),
            bias_axes="de",
            activation="tanh",
            since=(2, 4),
            **KERNEL,
        ),
        "ellipsis": case(x(4, 3), "...x,xy->...y", output_shape=5, since=(2, 4)),
    },
    "Embedding": {
        "mask_zero": case(
            ints(6, 4, low=1, pad="right"), 6, 3, mask_zero=True, after=of("LSTM", 2)
        ),
        "input_length": case(
            ints(6, 4),
            6,
            3,
            input_length=4,
            embeddings_initializer=initializers.TruncatedNormal(0.1, 0.2, seed=2),
            embeddings_regularizer=L2,
            embeddings_constraint=constraints.UnitNorm(axis=1),
        ),
        "floats": case(x(4, low=0, high=5), 6, 2),
    },
    "Flatten": {
        "channels_first": case(IMAGE, data_format="channels_first"),
        "channels_last": case(IMAGE, data_format="channels_last"),
    },
    "Identity": {"plain": case(x(3))},
    "Lambda": {
        "python": case(x(3), lambda t: t * 2.0 + 1.0),
        "arguments": case(
            x(3), lambda t, by: t**by, output_shape=(3,), arguments={"by": 2.0}
        ),
    },
    "Masking": {
        "value": case(PADDED, mask_value=0.0, after=of("LSTM", 3)),
        "alone": case(PADDED, mask_value=0.0),
    },
    "Permute": {"turned": case(IMAGE, (3, 1, 2))},
    "RandomFourierFeatures": {
        "gaussian": case(x(3), 6, kernel_initializer="gaussian", scale=2.0),
        "laplacian": case(
            x(3), 6, kernel_initializer="laplacian", scale=0.5, trainable=True
        ),
        "initializer": case(x(3), 6, kernel_initializer=NORMAL),
    },
    "RepeatVector": {"three": case(x(4), 3)},
    "Reshape": {"unknown": case(x(4, 6), (2, -1, 3)), "flat": case(x(4, 6), (24,))},
}

ACTIVATION_LAYERS = {
    "ELU": {"alpha": case(SEQUENCE, alpha=0.5)},
    "LeakyReLU": {"alpha": case(SEQUENCE, alpha=0.1)},
    "PReLU": {
        "shared_axes": case(
            IMAGE,
            alpha_initializer=HALF,
            alpha_regularizer=L2,
            alpha_constraint=constraints.NonNeg(),
            shared_axes=[1, 2],
        ),
        "own": case(x(3)),
    },
    "ReLU": {
        "leaky": case(SEQUENCE, max_value=0.5, negative_slope=0.1, threshold=0.2),
        "six": case(x(3, low=-9, high=9), 6.0),
    },
    "Softmax": {
        "axis": case(SEQUENCE, axis=1),
        "axes": case(IMAGE, axis=[1, 2], since=(2, 4)),
        "masked": case(
            [SEQUENCE, given([[True, True, False]] * 4, dtype="bool")],
            spread=True,
            since=(2, 4),
        ),
    },
    "ThresholdedReLU": {"theta": case(SEQUENCE, theta=0.3)},
}

PLAIN_MERGE = {
    "three": case([x(3), x(3), x(3)]),
    "ranks": case([x(4, 3), x(1, 3)]),
    "masked": case([PADDED, PADDED], before=MASK, after=of("LSTM", 2)),
}
MERGE = {
    **both(PLAIN_MERGE, "Add", "Average", "Maximum", "Minimum", "Multiply"),
    "Subtract": {"two": case([x(4, 3), x(4, 3)])},
    "Concatenate": {
        "axis": case([x(2, 3), x(4, 3)], axis=1),
        "masked": case([PADDED, PADDED], axis=-1, before=MASK, after=of("GRU", 2)),
    },
    "Dot": {
        "axes": case([x(4, 3), x(5, 4)], axes=(1, 2)),
        "normalize": case([x(4), x(4)], axes=1, normalize=True),
        "negative": case([x(4, 3), x(5, 3)], axes=-1, normalize=True),
    },
}

QUERY_VALUE = [x(4, 3), x(5, 3)]
QUERY_VALUE_KEY = [x(4, 3), x(5, 2), x(5, 3)]
MASKED_PAIR = [PADDED, x(5, 3, pad="right")]
ATTENTION = {
    "Attention": {
        "scale": case(QUERY_VALUE, use_scale=True),
        "key": case(QUERY_VALUE_KEY),
        "causal": case(QUERY_VALUE, causal=True, until=(2, 10)),
        "causal_call": case(QUERY_VALUE, call={"use_causal_mask": True}, since=(2, 10)),
        "masked": case(MASKED_PAIR, before=MASK),
        "concat": case(QUERY_VALUE, score_mode="concat", use_scale=True, since=(2, 10)),
        "scores": case(
            QUERY_VALUE,
            dropout=0.3,
            call={"return_attention_scores": True},
            since=(2, 10),
        ),
    },
    "AdditiveAttention": {
        "scale": case(QUERY_VALUE, use_scale=True),
        "no_scale": case(QUERY_VALUE_KEY, use_scale=False),
        "causal": case(QUERY_VALUE, causal=True, until=(2, 10)),
        "causal_call": case(QUERY_VALUE, call={"use_causal_mask": True}, since=(2, 10)),
        "masked": case(MASKED_PAIR, before=MASK),
    },
    "MultiHeadAttention": {
        "sizes": case(
            QUERY_VALUE, 2, 3, value_dim=4, output_shape=5, spread=True, **HELD
        ),
        "key": case(QUERY_VALUE_KEY, 2, 2, use_bias=False, dropout=0.1, spread=True),
        "axes": case(
            [x(3, 4, 2), x(3, 5, 2)], 2, 2, attention_axes=(1, 2), spread=True
        ),
        "scores": case(
            QUERY_VALUE, 3, 2, spread=True, call={"return_attention_scores": True}
        ),
        "causal": case(
            [SEQUENCE, SEQUENCE],
            2,
            2,
            spread=True,
            call={"use_causal_mask": True},
            since=(2, 10),
        ),
        "masked": case(MASKED_PAIR, 2, 2, before=MASK, spread=True),
    },
}

# Rank -> inputs of the convolutions.
INPUTS = {1: ROW, 2: IMAGE, 3: VOLUME}
FIRST = {1: x(2, 7), 2: x(2, 6, 5), 3: x(2, 4, 5, 4)}


def convolutions(rank, since=(2, 0), depthwise=None):
    """Cases of Conv*D; `depthwise` (a dict) for a class without filters and kernel."""
    filters = () if depthwise else (3,)
    held = depthwise or HELD
    base = {
        "same_strides": case(
            INPUTS[rank], *filters, 3, strides=2, padding="same", since=since, **held
        ),
        "no_bias": case(
            INPUTS[rank],
            *filters,
            (2,) * rank,
            activation="relu",
            use_bias=False,
            data_format="channels_last",
            since=since,
        ),
        "channels_first": case(
            FIRST[rank],
            *filters,
            2,
            data_format="channels_first",
            last=True,
            since=since,
        ),
    }
    return base


def dilated(rank, *filters, **options):
    return case(INPUTS[rank], *filters, 2, dilation_rate=2, **options)


def transposes(rank, since=(2, 0)):
    return {
        **convolutions(rank, since),
        "output_padding": case(
            INPUTS[rank],
            3,
            3,
            strides=2,
            padding="same",
            output_padding=1,
            activation="tanh",
            since=since,
        ),
        "valid": case(INPUTS[rank], 3, 3, strides=2, padding="valid", since=since),
    }


GROUPS = {"groups": case(IMAGE, 4, 2, groups=2, since=(2, 10))}
DEPTHWISE = {
    "depth_multiplier": 2,
    "depthwise_initializer": NORMAL,
    "depthwise_regularizer": L1_L2,
    "depthwise_constraint": MAX_NORM,
}
SEPARABLE = {
    "depth_multiplier": 2,
    "depthwise_initializer": NORMAL,
    "pointwise_initializer": "he_uniform",
    "pointwise_regularizer": L1_L2,
    "pointwise_constraint": constraints.MaxNorm(2.0),
    "activation": "relu",
}


def locally(rank):
    return {
        "strides": case(INPUTS[rank], 3, 2, strides=2, activation="tanh", **HELD),
        "implementation_2": case(INPUTS[rank], 3, 2, implementation=2),
        "same": case(INPUTS[rank], 3, 2, padding="same", implementation=3),
        "channels_first": case(
            FIRST[rank], 3, 2, data_format="channels_first", implementation=2
        ),
    }


CONVOLUTIONAL = {
    "Conv1D": {
        **convolutions(1),
        "causal": case(ROW, 3, 2, padding="causal", dilation_rate=2, activation="elu"),
    },
    "Conv2D": {**convolutions(2), **GROUPS, "dilated": dilated(2, 3, padding="same")},
    "Conv3D": {**convolutions(3), "dilated": dilated(3, 2, activation="relu")},
    "Conv1DTranspose": transposes(1, (2, 4)),
    "Conv2DTranspose": transposes(2),
    "Conv3DTranspose": transposes(3),
    "DepthwiseConv1D": {
        **convolutions(1, depthwise=DEPTHWISE),
        "dilated": dilated(1, padding="same"),
    },
    "DepthwiseConv2D": {
        **convolutions(2, depthwise=DEPTHWISE),
        "dilated": dilated(2, since=(2, 4)),
    },
    "SeparableConv1D": {
        "held": case(ROW, 3, 3, strides=2, padding="same", **SEPARABLE),
        "causal": case(ROW, 3, 2, padding="causal", use_bias=False),
        "dilated": dilated(1, 3),
        "channels_first": case(FIRST[1], 3, 2, data_format="channels_first", last=True),
    },
    "SeparableConv2D": {
        "held": case(IMAGE, 3, 3, strides=2, padding="same", **SEPARABLE),
        "dilated": dilated(2, 3, padding="same", use_bias=False),
        "channels_first": case(FIRST[2], 3, 2, data_format="channels_first", last=True),
    },
    "LocallyConnected1D": locally(1),
    "LocallyConnected2D": locally(2),
}


def pools(rank):
    return {
        "same": case(INPUTS[rank], pool_size=3, strides=2, padding="same"),
        "valid": case(INPUTS[rank], pool_size=2, strides=1, padding="valid"),
        "channels_first": case(FIRST[rank], 2, data_format="channels_first", last=True),
    }


def global_pools(rank, keepdims=(2, 10)):
    return {
        "channels_first": case(FIRST[rank], data_format="channels_first"),
        "channels_last": case(INPUTS[rank], data_format="channels_last"),
        "keepdims": case(INPUTS[rank], keepdims=True, since=keepdims),
    }


# Rank -> uneven amounts on both ends of each axis.
ENDS = {1: (1, 2), 2: ((1, 0), (2, 1)), 3: ((1, 0), (0, 2), (1, 1))}
UNEVEN = {rank: case(INPUTS[rank], ENDS[rank]) for rank in (1, 2, 3)}
EDGES = {
    rank: {
        "uneven": UNEVEN[rank],
        "one": case(INPUTS[rank], 1),
        "channels_first": case(FIRST[rank], ENDS[rank], data_format="channels_first"),
    }
    for rank in (2, 3)
}
EDGES[1] = {"uneven": UNEVEN[1], "one": case(ROW, 1)}
SPATIAL = {
    **{"AveragePooling%dD" % rank: pools(rank) for rank in (1, 2, 3)},
    **{"MaxPooling%dD" % rank: pools(rank) for rank in (1, 2, 3)},
    **{"GlobalAveragePooling%dD" % rank: global_pools(rank) for rank in (1, 2, 3)},
    **{"GlobalMaxPooling%dD" % rank: global_pools(rank) for rank in (1, 2, 3)},
    **{"Cropping%dD" % rank: EDGES[rank] for rank in (1, 2, 3)},
    **{"ZeroPadding%dD" % rank: EDGES[rank] for rank in (1, 2, 3)},
    "UpSampling1D": {"three": case(ROW, 3)},
    "UpSampling2D": {
        "bilinear": case(IMAGE, (2, 3), interpolation="bilinear"),
        "nearest": case(IMAGE, 2),
        "channels_first": case(FIRST[2], (1, 3), data_format="channels_first"),
        "lanczos": case(IMAGE, 2, interpolation="lanczos3", since=(2, 10)),
    },
    "UpSampling3D": {
        "sizes": case(VOLUME, (2, 1, 3)),
        "channels_first": case(FIRST[3], 2, data_format="channels_first"),
    },
}
SPATIAL["GlobalAveragePooling1D"]["masked"] = case(PADDED, before=MASK)

NOISE = {
    "AlphaDropout": {"noise_shape": case(SEQUENCE, 0.3, noise_shape=(2, 1, 3), seed=1)},
    "GaussianDropout": {"rate": case(x(3), 0.3)},
    "GaussianNoise": {"stddev": case(x(3), 0.3)},
    "SpatialDropout1D": {"rate": case(ROW, 0.3)},
    "SpatialDropout2D": {"first": case(IMAGE, 0.3, data_format="channels_first")},
    "SpatialDropout3D": {"first": case(VOLUME, 0.3, data_format="channels_first")},
}

BATCH = {
    "settings": case(
        IMAGE,
        momentum=0.8,
        epsilon=0.01,
        beta_initializer=HALF,
        gamma_initializer=NORMAL,
        moving_mean_initializer="ones",
        moving_variance_initializer=HALF,
        beta_regularizer=L2,
        gamma_constraint=constraints.NonNeg(),
    ),
    "no_center": case(x(3), center=False),
    "no_scale": case(SEQUENCE, scale=False, epsilon=0.1),
    "axis_1": case(SEQUENCE, axis=1),
    "frozen": case(x(3), trainable=False),
}
BATCH_OPTIONS = {
    "not_fused": case(IMAGE, fused=False),
    "axis_list": case(IMAGE, axis=[1, 3], fused=False),
    "virtual": case(x(3), virtual_batch_size=None, until=(2, 10)),
    "renorm": case(
        x(3),
        renorm=True,
        renorm_momentum=0.7,
        renorm_clipping={"rmax": 3.0, "rmin": 0.3, "dmax": 5.0},
        until=(2, 10),
    ),
}
LAYER_NORM = {
    "axes": case(IMAGE, axis=[1, 3], epsilon=0.01),
    "settings": case(
        SEQUENCE,
        axis=-1,
        beta_initializer=HALF,
        gamma_initializer=NORMAL,
        gamma_regularizer=L1_L2,
        beta_constraint=constraints.NonNeg(),
    ),
    "no_scale": case(x(6), scale=False, epsilon=1e-5),
    "bare": case(x(6), scale=False, center=False),
}
NORMALIZATION = {
    "BatchNormalization": {**BATCH, **BATCH_OPTIONS},
    "BatchNormalization_v1": {**BATCH, **BATCH_OPTIONS},
    "SyncBatchNormalization": BATCH,
    "LayerNormalization": LAYER_NORM,
    "GroupNormalization": {
        "groups": case(x(4, 5, 6), groups=3, epsilon=0.01, gamma_initializer=NORMAL),
        "instance": case(x(4, 6), groups=-1, center=False),
        "axis": case(x(4, 5, 6), groups=2, axis=1, scale=False),
    },
    "UnitNormalization": {
        "axis": case(SEQUENCE, axis=1),
        "axes": case(IMAGE, axis=[1, 2]),
        "last": case(SEQUENCE),
    },
    "SpectralNormalization": {
        "dense": case(x(4), of("Dense", 3, activation="relu"), power_iterations=2),
        "conv": case(IMAGE, of("Conv2D", 3, 2, padding="same")),
    },
}


def recurrents(**more):
    """Cases that LSTM, GRU, SimpleRNN (and their v1 twins) have in common."""
    return {
        "held": case(
            SEQUENCE,
            3,
            activation="relu",
            kernel_regularizer=L1_L2,
            recurrent_regularizer=L2,
            recurrent_constraint=MAX_NORM,
            recurrent_initializer="glorot_normal",
            bias_initializer=HALF,
        ),
        "sequences_states": case(SEQUENCE, 3, return_sequences=True, return_state=True),
        "backwards": case(SEQUENCE, 3, go_backwards=True, return_sequences=True),
        "no_bias": case(SEQUENCE, 3, use_bias=False),
        "unroll": case(SEQUENCE, 3, unroll=True),
        "dropout": case(SEQUENCE, 3, dropout=0.2, recurrent_dropout=0.1),
        "stateful": case(SEQUENCE, 3, stateful=True, fixed=True),
        "masked": case(PADDED, 3, before=MASK, return_sequences=True),
        "masked_left": case(LEFT, 3, before=MASK),
        "cropped": case(
            x(6, 3), 2, return_sequences=True, after=of("Cropping1D", (1, 0))
        ),
        **more,
    }


STATE, STATES = [SEQUENCE, x(3)], [SEQUENCE, x(3), x(3)]
GATES = {
    "hard_sigmoid": case(SEQUENCE, 3, recurrent_activation="hard_sigmoid"),
    "implementation_1": case(SEQUENCE, 3, implementation=1),
    "time_major": case(x(2, 3), 3, time_major=True, return_sequences=True),
}
LSTMS = recurrents(
    initial_state=case(STATES, 3, return_state=True),
    forget=case(SEQUENCE, 3, unit_forget_bias=False, bias_initializer="ones"),
    **GATES,
)
GRUS = recurrents(
    initial_state=case(STATE, 3),
    reset_before=case(SEQUENCE, 3, reset_after=False),
    reset_before_backwards=case(
        SEQUENCE, 3, reset_after=False, go_backwards=True, use_bias=False
    ),
    reset_after=case(PADDED, 3, reset_after=True, before=MASK),
    **GATES,
)


def celled(*cells):
    """A class that is a cell, in an RNN that reads it from `cells`."""
    return {
        "rnn_%d" % number: case(
            SEQUENCE, cell, return_sequences=number % 2 == 0, return_state=number > 0
        )
        for number, cell in enumerate(cells)
    }


def gated(name, **own):
    return celled(
        of(name, 3, recurrent_activation="hard_sigmoid", **own),
        of(name, 2, use_bias=False, implementation=1, recurrent_dropout=0.2),
    )


CELLS = {
    "LSTMCell": gated("LSTMCell", unit_forget_bias=False),
    "LSTMCell_v1": gated("LSTMCell_v1", unit_forget_bias=False),
    "GRUCell": gated("GRUCell", reset_after=False),
    "GRUCell_v1": gated("GRUCell_v1", reset_after=True),
    "SimpleRNNCell": celled(
        of("SimpleRNNCell", 3, activation="relu", dropout=0.1),
        of("SimpleRNNCell", 2, use_bias=False),
    ),
    "StackedRNNCells": celled(
        of("StackedRNNCells", [of("LSTMCell", 3), of("GRUCell", 2)]),
        of("StackedRNNCells", [of("SimpleRNNCell", 3), of("SimpleRNNCell", 2)]),
    ),
    "PeepholeLSTMCell": celled(of("PeepholeLSTMCell", 3)),
}


def convolution_lstms(image):
    return {
        "states": case(
            image,
            2,
            2,
            padding="same",
            activation="relu",
            return_sequences=True,
            return_state=True,
            since=(2, 4),
            **KERNEL,
        ),
        "strides": case(
            image,
            2,
            2,
            strides=2,
            use_bias=False,
            recurrent_activation="sigmoid",
            go_backwards=True,
            dropout=0.2,
        ),
        "defaults": case(image, 2, 3, unit_forget_bias=False, return_sequences=True),
        "dilated": case(image, 2, 2, dilation_rate=2),
    }


RECURRENT = {
    "LSTM": LSTMS,
    "LSTM_v1": LSTMS,
    "GRU": GRUS,
    "GRU_v1": GRUS,
    "SimpleRNN": recurrents(initial_state=case(STATE, 3)),
    "RNN": {
        "list": case(SEQUENCE, [of("LSTMCell", 3), of("SimpleRNNCell", 2)]),
        "unroll": case(SEQUENCE, of("GRUCell", 3), unroll=True, go_backwards=True),
        "masked": case(PADDED, of("LSTMCell", 3), before=MASK, return_sequences=True),
        "stateful": case(SEQUENCE, of("SimpleRNNCell", 3), stateful=True, fixed=True),
        "time_major": case(x(2, 3), of("SimpleRNNCell", 3), time_major=True),
    },
    **CELLS,
    "ConvLSTM1D": convolution_lstms(x(3, 6, 2)),
    "ConvLSTM2D": convolution_lstms(x(3, 4, 5, 2)),
    "ConvLSTM3D": convolution_lstms(x(2, 3, 3, 3, 2)),
    "CuDNNLSTM_v1": {
        "sequences": case(
            SEQUENCE,
            3,
            unit_forget_bias=False,
            kernel_regularizer=L1_L2,
            return_sequences=True,
            by=of("LSTM", 3, return_sequences=True),
        ),
        "last": case(SEQUENCE, 3, by=of("LSTM", 3)),
    },
    "CuDNNGRU_v1": {
        "sequences": case(
            SEQUENCE,
            3,
            recurrent_constraint=MAX_NORM,
            return_sequences=True,
            by=of("GRU", 3, return_sequences=True),
        ),
        "states": case(
            SEQUENCE, 3, return_state=True, by=of("GRU", 3, return_state=True)
        ),
    },
}

BACKWARD = {"return_sequences": True, "go_backwards": True}
WRAPPERS = {
    "Bidirectional": {
        **{
            str(mode): case(
                SEQUENCE, of("GRU", 3, return_sequences=True), merge_mode=mode
            )
            for mode in ("sum", "mul", "ave", "concat", None)
        },
        "backward_layer": case(
            PADDED,
            of("LSTM", 3, return_sequences=True),
            backward_layer=of("GRU", 2, reset_after=False, **BACKWARD),
            before=MASK,
        ),
        "states": case(SEQUENCE, of("LSTM", 3, return_state=True)),
        "cell": case(SEQUENCE, of("RNN", of("LSTMCell", 2))),
    },
    "TimeDistributed": {
        "conv": case(x(3, 5, 4, 2), of("Conv2D", 3, 2, activation="relu")),
        "masked": case(
            PADDED, of("Dense", 2), before=MASK, after=of("LSTM", 2, dtype="float32")
        ),
        "norm": case(SEQUENCE, of("BatchNormalization", momentum=0.7)),
        "rnn": case(x(3, 4, 2), of("LSTM", 2)),
    },
}

NEW = (2, 10)
OLD = (2, 4)
ROWS = [[1.0, 2.0, 3.0], [4.0, -1.0, 0.5], [2.0, 2.0, 9.0]]
NORMALIZE = {
    "adapted": case(x(3), adapt=ROWS),
    "adapted_scalar": case(x(3), axis=None, adapt=ROWS),
    "adapted_axes": case(
        x(2, 3), axis=(1, 2), adapt=[[[1.0, 2, 3], [4, 5, 7]], [[0, 2, 1], [1, 9, 2]]]
    ),
    "given": case(x(3), mean=[0.5, 1.0, 2.0], variance=[1.0, 2.0, 0.25]),
    "given_scalar": case(x(3), axis=None, mean=0.5, variance=2.0),
    "invert": case(x(3), mean=1.5, variance=4.0, axis=None, invert=True, since=(2, 15)),
}
IMAGES = x(6, 6, 3, low=0, high=1)
INTERPOLATIONS = ("bilinear", "nearest", "bicubic", "area", "lanczos3")
TF_IDF = {"output_mode": "tf_idf", "idf_weights": [0.5, 1.5, 0.7], "since": NEW}
PREPROCESSING = {
    "Normalization": NORMALIZE,
    "Discretization": {
        "bins": case(x(3), bins=[-0.5, 0.0, 0.5], until=OLD),
        "boundaries": case(x(3), bin_boundaries=[-0.5, 0.0, 0.5], since=NEW),
        "adapted": case(x(3), num_bins=4, epsilon=0.05, adapt=ROWS, since=NEW),
        **{
            mode: case(
                x(3), bin_boundaries=[-0.5, 0.2], output_mode=mode, since=(2, 10)
            )
            for mode in ("multi_hot", "count")
        },
        "one_hot": case(
            x(1), bin_boundaries=[-0.5, 0.2], output_mode="one_hot", since=NEW
        ),
    },
    "CategoryEncoding": {
        "binary": case(NUMBERS, max_tokens=8, output_mode="binary", until=OLD),
        "count_old": case(NUMBERS, max_tokens=8, output_mode="count", until=OLD),
        "tf_idf": case(
            NUMBERS,
            max_tokens=8,
            output_mode="tf-idf",
            adapt=[[1, 2, 3], [3, 3, 0], [4, 5, 7]],
            until=OLD,
        ),
        "multi_hot": case(NUMBERS, 8, output_mode="multi_hot", since=NEW),
        "one_hot": case(ints(8, 1), 8, output_mode="one_hot", since=NEW),
        "count": case(NUMBERS, 8, output_mode="count", since=NEW),
        "sparse": case(NUMBERS, 8, output_mode="count", sparse=True, since=NEW),
    },
    "CategoryCrossing": {
        "pair": case([given(["a"], ["b"]), given(["c"], ["d"])], separator="-"),
        "depth": case(
            [given(["a"], ["b"]), given(["c"], ["d"]), given(["e"], ["f"])], depth=2
        ),
    },
    "Hashing": {
        "plain": case(WORDS, 5),
        "salt": case(WORDS, 5, salt=133),
        "salts": case(WORDS, 5, salt=[133, 137]),
        "mask_value": case(WORDS, 5, mask_value="", since=NEW),
        "integers": case(NUMBERS, num_bins=4),
        "one_hot": case(given(["a"], ["b"]), 4, output_mode="one_hot", since=NEW),
    },
    "HashedCrossing": {
        "words": case([given(["a"], ["b"]), given(["c"], ["d"])], 5),
        "one_hot": case(
            [given(["a"], ["b"]), given([3], [4], dtype="int64")],
            5,
            output_mode="one_hot",
        ),
    },
    "StringLookup": {
        "given": case(WORDS, vocabulary=VOCABULARY),
        "adapted": case(WORDS, adapt=[["a"], ["b"], ["a"], ["c"], ["c"], ["a"]]),
        "capped": case(WORDS, max_tokens=3, adapt=[["a"], ["b"], ["a"], ["c"], ["c"]]),
        "oov": case(WORDS, vocabulary=VOCABULARY, num_oov_indices=3, mask_token=""),
        "no_oov": case(
            given(["a", "b"], ["c", "a"]),
            vocabulary=VOCABULARY,
            num_oov_indices=0,
            mask_token=None,
        ),
        "invert": case(ints(4, 3, dtype="int64"), vocabulary=VOCABULARY, invert=True),
        "oov_token": case(
            WORDS, vocabulary=VOCABULARY, oov_token="<?>", mask_token="-", since=NEW
        ),
        **{
            mode: case(WORDS, vocabulary=VOCABULARY, output_mode=mode, since=NEW)
            for mode in ("multi_hot", "count")
        },
        "one_hot": case(
            given(["a"], ["zz"]),
            vocabulary=VOCABULARY,
            output_mode="one_hot",
            max_tokens=6,
            pad_to_max_tokens=True,
            since=NEW,
        ),
        "tf_idf": case(WORDS, vocabulary=VOCABULARY, **TF_IDF),
        "tf_idf_adapted": case(
            WORDS, output_mode="tf_idf", adapt=[["a", "b"], ["a", "c"]], since=NEW
        ),
    },
    "IntegerLookup": {
        "given": case(NUMBERS, vocabulary=[2, 5, 7]),
        "adapted": case(NUMBERS, adapt=[[2], [5], [2], [7], [7], [2]]),
        "oov": case(NUMBERS, vocabulary=[2, 5, 7], num_oov_indices=2),
        "mask_old": case(
            NUMBERS, vocabulary=[2, 5, 7], mask_value=1, oov_value=-5, until=OLD
        ),
        "mask": case(
            NUMBERS, vocabulary=[2, 5, 7], mask_token=1, oov_token=-5, since=NEW
        ),
        "invert": case(ints(4, 3, dtype="int64"), vocabulary=[2, 5, 7], invert=True),
        **{
            mode: case(NUMBERS, vocabulary=[2, 5, 7], output_mode=mode, since=NEW)
            for mode in ("multi_hot", "count")
        },
        "one_hot": case(
            ints(8, 1, dtype="int64"),
            vocabulary=[2, 5, 7],
            output_mode="one_hot",
            since=NEW,
        ),
        "tf_idf": case(NUMBERS, vocabulary=[2, 5, 7], **TF_IDF),
    },
    "TextVectorization": {
        "given": case(TEXT, vocabulary=["cat", "sat", "the"], since=OLD),
        "adapted": case(TEXT, adapt=TEXTS),
        "length": case(TEXT, output_sequence_length=6, max_tokens=5, adapt=TEXTS),
        "ngrams": case(
            TEXT, ngrams=(1, 2), output_mode="count", max_tokens=9, adapt=TEXTS
        ),
        "bigrams": case(TEXT, ngrams=2, adapt=TEXTS),
        "binary": case(TEXT, output_mode="binary", adapt=TEXTS, until=OLD),
        "multi_hot": case(TEXT, output_mode="multi_hot", adapt=TEXTS, since=NEW),
        "count": case(TEXT, output_mode="count", adapt=TEXTS),
        "tf_idf_old": case(TEXT, output_mode="tf-idf", adapt=TEXTS, until=OLD),
        "tf_idf": case(
            TEXT,
            output_mode="tf_idf",
            max_tokens=12,
            pad_to_max_tokens=True,
            adapt=TEXTS,
            since=NEW,
        ),
        "raw": case(TEXT, standardize=None, adapt=TEXTS),
        "lower": case(TEXT, standardize="lower", adapt=TEXTS, since=NEW),
        "characters": case(TEXT, split="character", adapt=TEXTS, since=NEW),
        "whole": case(
            TEXT, split=None, standardize="strip_punctuation", adapt=TEXTS, since=NEW
        ),
    },
    "Rescaling": {"offset": case(IMAGES, 1 / 127.5, offset=-1.0)},
    "Resizing": {
        **{
            mode: case(IMAGES, 4, 9, interpolation=mode, since=OLD)
            for mode in INTERPOLATIONS
        },
        "aspect": case(IMAGES, 4, 9, crop_to_aspect_ratio=True, since=NEW),
    },
    "CenterCrop": {
        "inside": case(IMAGES, 3, 4),
        "outside": case(IMAGES, 8, 4, since=NEW),
    },
    "RandomBrightness": {"range": case(IMAGES, 0.2, value_range=(0, 1), seed=1)},
    "RandomContrast": {"pair": case(IMAGES, (0.2, 0.4), seed=1)},
    "RandomCrop": {"inside": case(IMAGES, 3, 4, seed=1)},
    "RandomFlip": {"horizontal": case(IMAGES, "horizontal", seed=1)},
    "RandomHeight": {
        "pair": case(IMAGES, (-0.2, 0.3), interpolation="nearest", seed=1)
    },
    "RandomRotation": {
        "fill": case(
            IMAGES, 0.2, fill_mode="constant", fill_value=0.5, interpolation="nearest"
        )
    },
    "RandomTranslation": {"wrap": case(IMAGES, 0.2, (-0.1, 0.3), fill_mode="wrap")},
    "RandomWidth": {"pair": case(IMAGES, (-0.2, 0.3), seed=1)},
    "RandomZoom": {"both": case(IMAGES, 0.2, (0.1, 0.3), fill_mode="wrap", seed=1)},
}

FEATURES = {"a": x(1), "b": x(2)}
DENSE_FEATURES = {
    "numeric": case(FEATURES, [COLUMN("a"), COLUMN("b", shape=(2,))]),
}
LAYERS = {
    **CORE,
    **ACTIVATION_LAYERS,
    **MERGE,
    **ATTENTION,
    **CONVOLUTIONAL,
    **SPATIAL,
    **NOISE,
    **NORMALIZATION,
    **RECURRENT,
    **WRAPPERS,
    **PREPROCESSING,
    "DenseFeatures": DENSE_FEATURES,
    "DenseFeatures_v1": DENSE_FEATURES,
}

BASE = "a base class, without a call of its own"
NEEDS_SESSION = "adapts in a session of TensorFlow 1 only"
NOT_BUILT = {
    "AbstractRNNCell": BASE,
    "Layer": BASE,
    "PreprocessingLayer": BASE,
    "Wrapper": BASE,
    "InputLayer": "in every model, as keras.Input",
    "SequenceFeatures": "takes SparseTensors of parsed tf.Examples only",
    "LinearModel": "a model",
    "WideDeepModel": "a model",
    "CategoryEncoding_v1": NEEDS_SESSION,
    "IntegerLookup_v1": NEEDS_SESSION,
    "Normalization_v1": NEEDS_SESSION,
    "StringLookup_v1": NEEDS_SESSION,
    "TextVectorization_v1": NEEDS_SESSION,
}

RECURRENTS = ("GRU", "GRU_v1", "LSTM", "LSTM_v1", "RNN", "SimpleRNN")
MASKED = ("Attention", "AdditiveAttention", "GlobalAveragePooling1D")
SPARSE = ("implementation_2", "same", "channels_first")
# (first release, last release, why not mixed_float16, classes or variants of them)
NO_FLOAT16 = (
    ((2, 0), (2, 15), "no kernel for the CPU", ["AveragePooling3D", "MaxPooling3D"]),
    (
        (2, 0),
        (2, 4),
        "no sparse kernel for float16",
        ["LocallyConnected%dD-%s" % (rank, how) for rank in (1, 2) for how in SPARSE],
    ),
    (
        (2, 0),
        (2, 4),
        "its states are float32, its kernel float16",
        [name + "-stateful" for name in RECURRENTS],
    ),
    (
        (2, 0),
        (2, 15),
        "its states are float32, its kernel float16",
        [name + "-initial_state" for name in RECURRENTS],
    ),
    (
        (2, 0),
        (2, 4),
        "its mask is float32, its input float16",
        [name + how for name in MASKED for how in ("-masked", "-causal")],
    ),
    (
        (2, 0),
        (2, 4),
        "its frequencies are float32, its counts float16",
        ["CategoryEncoding-tf_idf", "TextVectorization-tf_idf_old"],
    ),
    (
        (2, 0),
        (2, 15),
        "its kernel is float32, its input float16",
        ["RandomFourierFeatures"],
    ),
    (
        (2, 0),
        (2, 0),
        "a constant or weight of it is float32, its input float16",
        [
            "AlphaDropout",
            "Bidirectional-backward_layer",
            "ConvLSTM2D",
            "GaussianDropout",
            "GaussianNoise",
            "LayerNormalization",
            "ReLU-leaky",
            "ThresholdedReLU",
        ],
    ),
)
