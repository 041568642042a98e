"""Arguments that Keras 3 layers no longer take, or take by another name: data.

Each entry was a setting of tf.keras. `DROPPED` holds, by class, the values that
Keras 3 stands for without being told; any other value is an error that names it.
`ANY` marks settings that never changed what a layer computes.
"""

from keras_policies.annotations import Config
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import LegacyModelError

ANY = object()

# Of every layer.
COMMON = {
    "batch_input_shape": ANY,  # becomes an InputLayer
    "dynamic": (False,),
    "autocast": (True,),
    "expects_training_arg": ANY,
}

# What depthwise and separable convolutions wrote of the convolution they derive from.
OF_CONVOLUTIONS = {
    "groups": (1,),
    "kernel_initializer": ANY,
    "kernel_regularizer": ANY,
    "kernel_constraint": ANY,
}

OF_RECURRENT = {"time_major": (False,), "implementation": ANY}

# What TextVectorization and its like wrote of a vocabulary that they have anyhow.
OF_LOOKUPS = {
    "has_input_vocabulary": ANY,
    "has_static_table": ANY,
    "vocabulary_size": ANY,
}

DROPPED = {
    "Attention": {"causal": ANY},  # becomes an argument of the call
    "AdditiveAttention": {"causal": ANY},
    "BatchNormalization": {
        "renorm": ANY,  # it plays no part once trained
        "renorm_clipping": ANY,
        "renorm_momentum": ANY,
        "fused": ANY,
        "virtual_batch_size": (None,),
        "adjustment": (None,),
    },
    "Conv1DTranspose": {"groups": (1,)},
    "Conv2DTranspose": {"groups": (1,)},
    "Conv3DTranspose": {"groups": (1,)},
    "SeparableConv1D": OF_CONVOLUTIONS,
    "SeparableConv2D": OF_CONVOLUTIONS,
    "DepthwiseConv1D": {**OF_CONVOLUTIONS, "filters": ANY},
    "DepthwiseConv2D": {**OF_CONVOLUTIONS, "filters": ANY},
    "SpatialDropout1D": {"trainable": ANY, "noise_shape": ANY},
    "SpatialDropout2D": {"trainable": ANY, "noise_shape": ANY},
    "SpatialDropout3D": {"trainable": ANY, "noise_shape": ANY},
    "MultiHeadAttention": {"query_shape": ANY, "key_shape": ANY, "value_shape": ANY},
    "Embedding": {"input_length": ANY},
    "InputLayer": {"ragged": (False, None)},
    "StringLookup": OF_LOOKUPS,
    "IntegerLookup": OF_LOOKUPS,
    "TextVectorization": OF_LOOKUPS,
    "Discretization": {"trainable": ANY},
    "RNN": {**OF_RECURRENT, "input_shape": ANY},
    "SimpleRNN": OF_RECURRENT,
    "LSTM": OF_RECURRENT,
    "GRU": OF_RECURRENT,
    "LSTMCell": {"implementation": ANY},
    "GRUCell": {"implementation": ANY},
    "ConvLSTM1D": OF_RECURRENT,
    "ConvLSTM2D": OF_RECURRENT,
    "ConvLSTM3D": OF_RECURRENT,
}

RENAMED = {
    "InputLayer": {"batch_input_shape": "batch_shape"},
    "CategoryEncoding": {"max_tokens": "num_tokens"},
    "Discretization": {"bins": "bin_boundaries"},
    "IntegerLookup": {
        "max_values": "max_tokens",
        "mask_value": "mask_token",
        "oov_value": "oov_token",
    },
    "LeakyReLU": {"alpha": "negative_slope"},
    "ReLU": {"theta": "threshold"},  # of ThresholdedReLU
}

# Settings that became arguments of each call: by class, the name in the call.
OF_CALLS = {
    "Attention": {"causal": "use_causal_mask"},
    "AdditiveAttention": {"causal": "use_causal_mask"},
}

# Settings of training that Keras 3 does without, where they are on.
LEFT_OUT = {"BatchNormalization": {"renorm": "the batch renormalization"}}

# Values that Keras 3 takes no longer.
REFUSED = {
    "Resizing": {"interpolation": ("area", "gaussian", "mitchellcubic")},
    "SeparableConv1D": {"padding": ("causal",)},
}

# Functions that Keras 3 computes by another formula: the stock layers that compute the
# old one, where Keras takes layers for an activation, and where it is registered
# (serialization.py), for a Keras that does not. It was clip(0.2 x + 0.5, 0, 1).
CHANGED_ACTIVATIONS = {
    "hard_sigmoid": (
        ("Rescaling", {"scale": 0.2, "offset": 0.5}),
        ("ReLU", {"max_value": 1.0}),
    )
}
REGISTERED_ACTIVATIONS = {"hard_sigmoid": "keras_policies>hard_sigmoid"}

# Initializers of 2.0 wrote a dtype, which Keras 3 takes from the variable.
INITIALIZER_DROPPED = ("dtype",)


def stock_arguments(class_name: str, config: Config) -> Config:
    """Return the arguments of a stock layer as Keras 3 takes them.

    Args:
        class_name: str, the class in Keras 3.
        config: dict, as written.

    Raises:
        LegacyModelError: if an argument has a value that Keras 3 does not take.
    """
    renamed = RENAMED.get(class_name, {})
    dropped = {**COMMON, **DROPPED.get(class_name, {})}
    refused = REFUSED.get(class_name, {})
    kept = {}
    for name, value in config.items():
        settles = dropped.get(name, ANY)
        if value in refused.get(name, ()) or (
            settles is not ANY and value not in settles
        ):
            raise LegacyModelError(
                f"a {class_name} made with {name}={value!r}, which Keras 3 cannot do.",
                remedies.pass_custom_object(class_name),
            )
        if name in renamed or name not in dropped:
            kept[renamed.get(name, name)] = value
    return kept


def left_out(class_name: str, config: Config) -> list[str]:
    """Return what a layer did in training and Keras 3 does not, in words."""
    settings = LEFT_OUT.get(class_name, {})
    return [words for name, words in settings.items() if config.get(name)]


def custom_arguments(config: Config) -> Config:
    """Return the arguments of a user's layer without those that Keras 3 dropped."""
    return {name: value for name, value in config.items() if name not in COMMON}
