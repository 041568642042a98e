"""Arguments that Keras 3 layers no longer take, or take by another name: data.

Each entry was a setting of tf.keras. `DROPPED` holds, by class, the values that
Keras 3 stands for without being told; any other value is an error that names it.
`ANY` marks settings that never changed what a layer computes.
"""

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

DROPPED = {
    "Attention": {"causal": (False,)},
    "AdditiveAttention": {"causal": (False,)},
    "BatchNormalization": {
        "renorm": (False,),
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
    "DepthwiseConv2D": {**OF_CONVOLUTIONS, "filters": ANY},
    "MultiHeadAttention": {"query_shape": ANY, "key_shape": ANY, "value_shape": ANY},
    "Embedding": {"input_length": ANY},
    "InputLayer": {"ragged": (False, None)},
    "RNN": {"time_major": (False,), "input_shape": ANY, "implementation": ANY},
    "SimpleRNN": {"time_major": (False,), "implementation": ANY},
    "LSTM": {"time_major": (False,), "implementation": ANY},
    "GRU": {"time_major": (False,), "implementation": ANY},
    "LSTMCell": {"implementation": ANY},
    "GRUCell": {"implementation": ANY},
    "ConvLSTM2D": {"implementation": ANY, "time_major": (False,)},
}

RENAMED = {
    "InputLayer": {"batch_input_shape": "batch_shape"},
    "LeakyReLU": {"alpha": "negative_slope"},
    "ReLU": {"theta": "threshold"},  # of ThresholdedReLU
}

# Functions that Keras 3 computes by another formula, and where that of tf.keras is
# registered (serialization.py).
CHANGED_ACTIVATIONS = {"hard_sigmoid": "keras_policies>hard_sigmoid"}

# Initializers of 2.0 wrote a dtype, which Keras 3 takes from the variable.
INITIALIZER_DROPPED = ("dtype",)
