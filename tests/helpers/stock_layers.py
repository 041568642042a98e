"""How to make and call every layer class of `keras.layers`."""

import keras
import numpy as np
from keras import layers

VECTOR, SEQUENCE, IMAGE = (2, 4), (2, 5, 4), (2, 8, 8, 3)
VOLUME, FRAMES = (2, 6, 6, 6, 2), (2, 3, 6, 6, 2)

# Classes that no policy can be tested on, and why.
NOT_RUN = {
    "Layer": "abstract",
    "Wrapper": "abstract",
    "InputLayer": "is never called",
    "JaxLayer": "runs foreign code that knows no policy",
    "FlaxLayer": "runs foreign code that knows no policy",
    "TorchModuleWrapper": "runs foreign code that knows no policy",
    "TFSMLayer": "runs foreign code that knows no policy",
    "Pipeline": "takes layers, has no computation of its own",
}


def floats(shape, dtype):
    values = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    return keras.ops.convert_to_tensor(values, dtype=dtype)


def integers(shape, dtype):
    return keras.ops.convert_to_tensor(np.arange(np.prod(shape)).reshape(shape) % 3)


def strings(shape, dtype):
    return np.array([["a", "b"], ["b", "c"]])[:, : shape[1]]


def on(shape, make=floats, count=1):
    """Return a function from a dtype to the positional arguments of a call."""

    def inputs(dtype):
        tensors = [make(shape, dtype) for _ in range(count)]
        return tensors[0] if count == 1 else tensors

    return inputs


def boxes(dtype):
    return {
        "images": floats(IMAGE, dtype),
        "labels": floats((2, 3), dtype),
    }


def cell_inputs(dtype):
    return floats(VECTOR, dtype)


def same(cls, *args, **kwargs):
    return lambda policy: getattr(layers, cls)(*args, **kwargs, dtype=policy)


def wrapping(cls, inner, **kwargs):
    return lambda policy: getattr(layers, cls)(inner(policy), dtype=policy, **kwargs)


def normalization(policy):
    return layers.Normalization(mean=0.5, variance=2.0, dtype=policy)


# The default, orthogonal, cannot be made in float16 everywhere: see SimpleRNN.
GLOROT = {"recurrent_initializer": "glorot_uniform"}

TABLE = {
    "Activation": (same("Activation", "relu"), on(VECTOR)),
    "ActivityRegularization": (same("ActivityRegularization", 0.1), on(VECTOR)),
    "Add": (same("Add"), on(VECTOR, count=2)),
    "AdditiveAttention": (same("AdditiveAttention"), on(SEQUENCE, count=2)),
    "AlphaDropout": (same("AlphaDropout", 0.5), on(VECTOR)),
    "Attention": (same("Attention", use_scale=True), on(SEQUENCE, count=2)),
    "Average": (same("Average"), on(VECTOR, count=2)),
    "BatchNormalization": (same("BatchNormalization"), on(IMAGE)),
    "Bidirectional": (
        wrapping("Bidirectional", same("LSTM", 2, **GLOROT)),
        on(SEQUENCE),
    ),
    "CategoryEncoding": (same("CategoryEncoding", 3), on((2, 4), integers)),
    "CenterCrop": (same("CenterCrop", 4, 4), on(IMAGE)),
    "Concatenate": (same("Concatenate"), on(VECTOR, count=2)),
    "Discretization": (same("Discretization", [0.3, 0.6]), on(VECTOR)),
    "Dense": (same("Dense", 3), on(VECTOR)),
    "Dot": (same("Dot", 1), on(VECTOR, count=2)),
    "Dropout": (same("Dropout", 0.5), on(VECTOR)),
    "ELU": (same("ELU"), on(VECTOR)),
    "EinsumDense": (same("EinsumDense", "ab,bc->ac", output_shape=3), on(VECTOR)),
    "Embedding": (same("Embedding", 4, 2), on(VECTOR, integers)),
    "Flatten": (same("Flatten"), on(IMAGE)),
    "GRU": (same("GRU", 2, **GLOROT), on(SEQUENCE)),
    "GRUCell": (wrapping("RNN", same("GRUCell", 2, **GLOROT)), on(SEQUENCE)),
    "GaussianDropout": (same("GaussianDropout", 0.5), on(VECTOR)),
    "GaussianNoise": (same("GaussianNoise", 0.5), on(VECTOR)),
    "GroupNormalization": (same("GroupNormalization", 1), on(IMAGE)),
    "GroupQueryAttention": (
        same("GroupQueryAttention", 2, 2, 1),
        on(SEQUENCE, count=2),
    ),
    "HashedCrossing": (same("HashedCrossing", 5), on((2,), integers, 2)),
    "Hashing": (same("Hashing", 5, output_mode="one_hot"), on(VECTOR, integers)),
    "Identity": (same("Identity"), on(VECTOR)),
    "IntegerLookup": (
        same("IntegerLookup", vocabulary=[0, 1, 2]),
        on(VECTOR, integers),
    ),
    "LSTM": (same("LSTM", 2, **GLOROT), on(SEQUENCE)),
    "LSTMCell": (wrapping("RNN", same("LSTMCell", 2, **GLOROT)), on(SEQUENCE)),
    "Lambda": (lambda p: layers.Lambda(keras.ops.relu, dtype=p), on(VECTOR)),
    "LayerNormalization": (same("LayerNormalization"), on(VECTOR)),
    "LeakyReLU": (same("LeakyReLU"), on(VECTOR)),
    "Masking": (same("Masking"), on(SEQUENCE)),
    "MaxNumBoundingBoxes": (same("MaxNumBoundingBoxes", 2), boxes),
    "Maximum": (same("Maximum"), on(VECTOR, count=2)),
    "MelSpectrogram": (
        same("MelSpectrogram", fft_length=64, sequence_stride=16, sampling_rate=1000),
        on((2, 128)),
    ),
    "Minimum": (same("Minimum"), on(VECTOR, count=2)),
    "MixUp": (same("MixUp", seed=1), boxes),
    "CutMix": (same("CutMix", seed=1), boxes),
    "MultiHeadAttention": (same("MultiHeadAttention", 2, 2), on(SEQUENCE, count=2)),
    "Multiply": (same("Multiply"), on(VECTOR, count=2)),
    "Normalization": (normalization, on(VECTOR)),
    "PReLU": (same("PReLU"), on(VECTOR)),
    "Permute": (same("Permute", (2, 1)), on(SEQUENCE)),
    "RMSNormalization": (same("RMSNormalization"), on(VECTOR)),
    "RNN": (wrapping("RNN", same("SimpleRNNCell", 2, **GLOROT)), on(SEQUENCE)),
    "RandomCrop": (same("RandomCrop", 4, 4, seed=1), on(IMAGE)),
    "ReLU": (same("ReLU"), on(VECTOR)),
    "RepeatVector": (same("RepeatVector", 2), on(VECTOR)),
    "Rescaling": (same("Rescaling", 0.5), on(VECTOR)),
    "Reshape": (same("Reshape", (2, 2)), on(VECTOR)),
    "Resizing": (same("Resizing", 4, 4), on(IMAGE)),
    "ReversibleEmbedding": (same("ReversibleEmbedding", 4, 2), on(VECTOR, integers)),
    "STFTSpectrogram": (
        same("STFTSpectrogram", frame_length=32, frame_step=16, fft_length=32),
        on((2, 128, 1)),
    ),
    "SimpleRNN": (same("SimpleRNN", 2), on(SEQUENCE)),
    "SimpleRNNCell": (
        wrapping("RNN", same("SimpleRNNCell", 2, **GLOROT)),
        on(SEQUENCE),
    ),
    "Softmax": (same("Softmax"), on(VECTOR)),
    "SpectralNormalization": (
        wrapping("SpectralNormalization", same("Dense", 3)),
        on(VECTOR),
    ),
    "StackedRNNCells": (
        lambda p: layers.RNN(
            layers.StackedRNNCells(
                [layers.SimpleRNNCell(2, dtype=p, **GLOROT) for _ in range(2)], dtype=p
            ),
            dtype=p,
        ),
        on(SEQUENCE),
    ),
    "StringLookup": (same("StringLookup", vocabulary=["a", "b"]), on((2, 2), strings)),
    "Subtract": (same("Subtract"), on(VECTOR, count=2)),
    "TextVectorization": (
        same("TextVectorization", output_mode="multi_hot", vocabulary=["a", "b"]),
        on((2, 1), strings),
    ),
    "TimeDistributed": (wrapping("TimeDistributed", same("Dense", 3)), on(SEQUENCE)),
    "UnitNormalization": (same("UnitNormalization"), on(VECTOR)),
    # Image preprocessing with arguments of its own.
    "AugMix": (same("AugMix", (0, 1), seed=1), on(IMAGE)),
    "AutoContrast": (same("AutoContrast", (0, 1)), on(IMAGE)),
    "ContrastLimitedAdaptiveHistogramEqualization": (
        same(
            "ContrastLimitedAdaptiveHistogramEqualization",
            (0, 1),
            tile_grid_size=(2, 2),
        ),
        on(IMAGE),
    ),
    "Equalization": (same("Equalization", (0, 1)), on(IMAGE)),
    "RandAugment": (same("RandAugment", (0, 1), seed=1), on(IMAGE)),
    "RandomBrightness": (same("RandomBrightness", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomColorDegeneration": (
        same("RandomColorDegeneration", 0.2, (0, 1), seed=1),
        on(IMAGE),
    ),
    "RandomColorJitter": (same("RandomColorJitter", (0, 1), 0.2, seed=1), on(IMAGE)),
    "RandomContrast": (same("RandomContrast", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomElasticTransform": (
        same("RandomElasticTransform", 0.2, 0.2, value_range=(0, 1), seed=1),
        on(IMAGE),
    ),
    "RandomErasing": (same("RandomErasing", 0.2, seed=1), on(IMAGE)),
    "RandomFlip": (same("RandomFlip", seed=1), on(IMAGE)),
    "RandomGaussianBlur": (
        same("RandomGaussianBlur", 1.0, value_range=(0, 1), seed=1),
        on(IMAGE),
    ),
    "RandomGrayscale": (same("RandomGrayscale", seed=1), on(IMAGE)),
    "RandomHue": (same("RandomHue", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomInvert": (same("RandomInvert", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomPerspective": (same("RandomPerspective", 0.2, seed=1), on(IMAGE)),
    "RandomPosterization": (same("RandomPosterization", 4, (0, 1), seed=1), on(IMAGE)),
    "RandomRotation": (same("RandomRotation", 0.2, seed=1), on(IMAGE)),
    "RandomSaturation": (same("RandomSaturation", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomSharpness": (same("RandomSharpness", 0.2, (0, 1), seed=1), on(IMAGE)),
    "RandomShear": (same("RandomShear", 0.2, seed=1), on(IMAGE)),
    "RandomTranslation": (same("RandomTranslation", 0.2, 0.2, seed=1), on(IMAGE)),
    "RandomZoom": (same("RandomZoom", 0.2, seed=1), on(IMAGE)),
    "Solarization": (same("Solarization", value_range=(0, 1), seed=1), on(IMAGE)),
}
for _rank, _shape in ("1D", SEQUENCE), ("2D", IMAGE), ("3D", VOLUME):
    for _name, _args in {
        "AdaptiveAveragePooling": (2,),
        "AdaptiveMaxPooling": (2,),
        "AveragePooling": (2,),
        "Conv": (2, 2),
        "ConvTranspose": (2, 2),
        "Cropping": (1,),
        "GlobalAveragePooling": (),
        "GlobalMaxPooling": (),
        "MaxPooling": (),
        "SpatialDropout": (0.5,),
        "UpSampling": (),
        "ZeroPadding": (),
    }.items():
        _cls = f"Conv{_rank}Transpose" if _name == "ConvTranspose" else _name + _rank
        TABLE[_cls] = (same(_cls, *_args), on(_shape))
for _rank, _shape in ("1D", SEQUENCE), ("2D", IMAGE):
    TABLE[f"DepthwiseConv{_rank}"] = (same(f"DepthwiseConv{_rank}", 2), on(_shape))
    TABLE[f"SeparableConv{_rank}"] = (same(f"SeparableConv{_rank}", 2, 2), on(_shape))
for _rank, _shape in ("1D", (2, 3, 6, 2)), ("2D", FRAMES), ("3D", (2, 2, 4, 4, 4, 2)):
    TABLE[f"ConvLSTM{_rank}"] = (same(f"ConvLSTM{_rank}", 2, 2, **GLOROT), on(_shape))

# Since Keras 3.16.
NEWER = {
    "Mosaic": (same("Mosaic", seed=1), on(IMAGE)),
    "TernaryDense": (same("TernaryDense", 3), on(VECTOR)),
}
TABLE |= {name: case for name, case in NEWER.items() if hasattr(layers, name)}
if hasattr(layers, "GroupedQueryAttention"):  # its name since Keras 3.16
    TABLE["GroupedQueryAttention"] = TABLE.pop("GroupQueryAttention")


def classes():
    """Return the name of every layer class in `keras.layers`, aliases once."""
    found = {}
    for name in dir(layers):
        value = getattr(layers, name)
        if isinstance(value, type) and issubclass(value, keras.Layer):
            own = value.__name__
            found[value] = own if hasattr(layers, own) else name
    return sorted(found.values())


def call(layer, inputs, **kwargs):
    """Call `layer`, unpacking the arguments of attention layers."""
    if isinstance(inputs, list) and layer.__class__.__name__ in (
        "MultiHeadAttention",
        "GroupedQueryAttention",
    ):
        return layer(*inputs, **kwargs)
    return layer(inputs, **kwargs)
