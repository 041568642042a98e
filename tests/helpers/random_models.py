"""Random models of layers with weights, frozen at random, for tf.keras and Keras 3.

`write_orders.py` writes them under old TensorFlow; `test_weight_orders.py` builds them
again, and finds each weight by the attributes that lead to it.
"""

import random

import numpy as np

# Kind -> releases that have it, as a number: 2.15 is 215.
KINDS = {
    **dict.fromkeys(("dense", "lstm", "gru", "simple_rnn", "both", "both_gru"), 200),
    **dict.fromkeys(("steps", "batch", "norm", "conv1d", "separable1d", "prelu"), 200),
    **dict.fromkeys(("cell", "cells", "embedding"), 200),
    **dict.fromkeys(("conv2d", "depthwise2d", "separable2d", "transposed2d"), 200),
    **dict.fromkeys(("conv_lstm", "conv3d", "transposed3d", "local1d"), 200),
    **dict.fromkeys(("pair", "mixed", "blocks", "named", "net"), 200),
    **dict.fromkeys(
        ("heads", "einsum", "transposed1d", "encoder", "scaled", "additive"), 204
    ),
    **{"depthwise1d": 209, "groups": 211, "spectral": 213},
}
MODELS = "functional", "sequential", "steps_model", "around_model"
# Names of variables in tf.keras -> in Keras 3, as attributes.
OWN = """
kernel depthwise_kernel pointwise_kernel recurrent_kernel bias gamma beta moving_mean
moving_variance embeddings alpha scale vector_u extra statistic
"""
PARTS = """
layer forward_layer backward_layer cell cells _query_dense _key_dense _value_dense
_output_dense first second inner before after table blocks heads norms
"""


def drawn(draw, release, depth=0):
    """Return the spec of a layer, [kind, flag, flags of parts, specs inside, seed]."""
    kinds = [kind for kind, since in KINDS.items() if since <= release]
    is_model = depth < 3 and (depth == 0 or draw.random() < 0.35)
    kind = draw.choice(MODELS[:2] if depth == 0 else MODELS) if is_model else None
    kind = kind or draw.choice(kinds)
    count = draw.randint(2, 4) if is_model else 0
    inside = [drawn(draw, release, depth + 1) for _ in range(count)]
    if inside and draw.random() < 0.2:
        inside.append(["again", None, 0, [], 0])  # the first layer once more
    # None, frozen when it is made, or frozen when the model is built.
    flag = draw.choice([None, None, "before", "after", "after", "thawed"])
    return [
        kind,
        flag if depth else None,
        draw.random() < 0.15,
        inside,
        draw.randint(0, 9),
    ]


def spec(seed, release):
    """Return the spec of a random model."""
    return drawn(random.Random(seed), release)


def classes(keras):
    """Return `{name: class}`, layers and a model that make their layers in code."""
    layers = keras.layers

    class Shaped:
        if not hasattr(keras, "version"):  # tf.keras needs it in TimeDistributed

            def compute_output_shape(self, shape):
                return shape

    class Same(Shaped, layers.Layer):
        pass

    class Pair(Same):
        def __init__(self, seed=0, **kwargs):
            super().__init__(**kwargs)
            self.seed = seed
            self.first = layers.Dense(4, trainable=seed % 3 != 0)
            self.second = layers.Dense(4)

        def call(self, x):
            return self.second(self.first(x))

        def get_config(self):
            return dict(super().get_config(), seed=self.seed)

    class Mixed(Pair):
        """Weights of its own, of both kinds, and layers that its build makes."""

        def build(self, shape):
            self.statistic = self.add_weight(
                name="statistic", shape=(4,), trainable=False
            )
            self.extra = self.add_weight(name="extra", shape=(4,))
            self.after = layers.BatchNormalization()
            self.built = True

        def call(self, x):
            return self.after(super().call(x)) + self.extra * self.statistic

    class Blocks(Same):
        """Layers in lists that are filled later, and in a dict."""

        def __init__(self, seed=0, **kwargs):
            super().__init__(**kwargs)
            self.seed, self.blocks, self.norms = seed, [], []
            self.first = layers.Dense(4)
            for _ in range(2 + seed % 2):
                self.blocks.append(layers.Dense(4))
                self.norms.append(layers.LayerNormalization())
            self.table = {"b": layers.Dense(4), "a": layers.Dense(4)}

        def call(self, x):
            x = self.table["a"](self.table["b"](self.first(x)))
            for block, norm in zip(self.blocks, self.norms):  # noqa: B905 (Python 3.7)
                x = norm(block(x))
            return x

        def get_config(self):
            return dict(super().get_config(), seed=self.seed)

    class Named(Same):
        def __init__(self, seed=0, **kwargs):
            super().__init__(**kwargs)
            self.seed = seed
            self.second = layers.Dense(4, name="last")
            self.first = layers.Dense(4, name="start")

        def call(self, x):
            return self.second(self.first(x))

        def get_config(self):
            return dict(super().get_config(), seed=self.seed)

    class Encoder(Same):
        def __init__(self, seed=0, **kwargs):
            super().__init__(**kwargs)
            self.seed = seed
            self.inner = layers.MultiHeadAttention(1, 4)
            self.before = layers.LayerNormalization()
            self.first = layers.Dense(4)
            self.second = layers.Dense(4)
            self.after = layers.LayerNormalization()

        def call(self, x):
            x = self.before(x + self.inner(x, x))
            return self.after(x + self.second(self.first(x)))

        def get_config(self):
            return dict(super().get_config(), seed=self.seed)

    class Net(Shaped, keras.Model):
        def __init__(self, seed=0, **kwargs):
            super().__init__(**kwargs)
            self.seed = seed
            self.first = layers.Dense(4)
            self.inner = layers.BatchNormalization()
            self.second = layers.Dense(4)

        def build(self, shape):
            self.extra = self.add_weight(name="extra", shape=(4,))
            self.built = True

        def call(self, x):
            return self.second(self.inner(self.first(x))) * self.extra

        def get_config(self):
            return {"seed": self.seed, "name": self.name}

        @classmethod
        def from_config(cls, config, custom_objects=None):
            return cls(**config)

    class Around(Same):
        """A layer around one that is passed to it."""

        def __init__(self, inner, **kwargs):
            super().__init__(**kwargs)
            self.before, self.inner, self.after = (
                layers.Dense(4),
                inner,
                layers.Dense(4),
            )

        def call(self, x):
            return self.after(self.inner(self.before(x)))

        def get_config(self):
            inner = keras.layers.serialize(self.inner)
            return dict(super().get_config(), layer=inner)

        @classmethod
        def from_config(cls, config):
            inner = config.pop("layer")
            if isinstance(inner, dict):
                inner = keras.layers.deserialize(inner)
            return cls(inner=inner, **config)

    made = Pair, Mixed, Blocks, Named, Encoder, Net, Around
    return {cls.__name__: cls for cls in made}


class Maker:
    """Makes the model of a spec, with `keras` of TensorFlow or Keras 3."""

    def __init__(self, keras):
        self.keras, self.layers, self.objects = keras, keras.layers, classes(keras)
        self.is_new = hasattr(keras, "version")
        self.flagged = []  # layers, each with its spec

    def model(self, spec):
        """Return the model, frozen as its spec says."""
        model = self._layer(spec)
        model(np.zeros((1, 4, 4), "float32"))
        for layer, (_, flag, has_parts, _, seed) in self.flagged:
            if flag in ("after", "thawed"):
                layer.trainable = flag == "thawed"
            draw = random.Random(seed)
            for part in [part for _, part in parts_of(layer)] if has_parts else ():
                part.trainable = draw.random() < 0.5
        return model

    def _layer(self, spec):
        """Return the layer of a spec; a list if others reshape its input and output."""
        kind, flag, _, inside, seed = spec
        if kind in MODELS:
            made = [self._layer(each) for each in inside if each[0] != "again"]
            made += made[:1] * (len(inside) - len(made))
            layer = self._model(kind, made)
        else:
            layer = self._made(kind, seed)
        if kind == "steps_model":
            layer = self.layers.TimeDistributed(layer)
        if kind == "around_model":
            layer = self.objects["Around"](layer)
        if flag == "before":
            layer.trainable = False
        self.flagged.append((layer, spec))
        return self._reshaped(kind, layer)

    def _model(self, kind, made):
        flat = [
            each
            for item in made
            for each in (item if isinstance(item, list) else [item])
        ]
        shape = (4, 4)
        is_row = len({*map(id, flat)}) == len(flat) and not any(
            map(takes_several, flat)
        )
        if kind == "sequential" and is_row:
            make = self.keras.Input if self.is_new else self.layers.InputLayer
            return self.keras.Sequential([make(shape), *flat])
        inputs = x = self.keras.Input(shape)
        for layer in flat:
            several = takes_several(layer)
            x = layer(x, x) if several == 2 else layer([x, x]) if several else layer(x)
        return self.keras.Model(inputs, x)

    def _made(self, kind, seed):
        layers, same = self.layers, {"padding": "same"}
        sequences = {"return_sequences": True}
        custom = {
            **{"pair": "Pair", "mixed": "Mixed", "blocks": "Blocks", "named": "Named"},
            **{"encoder": "Encoder", "net": "Net"},
        }
        if kind in custom:
            return self.objects[custom[kind]](seed=seed)
        makers = {
            "dense": lambda: layers.Dense(4, use_bias=seed % 3 > 0),
            "lstm": lambda: layers.LSTM(4, **sequences),
            "gru": lambda: layers.GRU(4, reset_after=seed % 2 > 0, **sequences),
            "simple_rnn": lambda: layers.SimpleRNN(4, **sequences),
            "both": lambda: layers.Bidirectional(layers.LSTM(2, **sequences)),
            "both_gru": lambda: layers.Bidirectional(
                layers.GRU(4, **sequences), merge_mode="sum"
            ),
            "steps": lambda: layers.TimeDistributed(layers.Dense(4)),
            "batch": lambda: layers.BatchNormalization(scale=seed % 3 > 0),
            "norm": lambda: layers.LayerNormalization(),
            "conv1d": lambda: layers.Conv1D(4, 3, **same),
            "separable1d": lambda: layers.SeparableConv1D(4, 2, **same),
            "depthwise1d": lambda: layers.DepthwiseConv1D(2, **same),
            "transposed1d": lambda: layers.Conv1DTranspose(4, 2, **same),
            "prelu": lambda: layers.PReLU(),
            "cell": lambda: layers.RNN(layers.GRUCell(4), **sequences),
            "cells": lambda: layers.RNN(
                [layers.LSTMCell(4), layers.GRUCell(4), layers.LSTMCell(4)], **sequences
            ),
            "scaled": lambda: layers.Attention(use_scale=True),
            "additive": lambda: layers.AdditiveAttention(),
            "heads": lambda: layers.MultiHeadAttention(1, 4),
            "einsum": lambda: einsum(self.keras)(
                # Keras 3 knows no size that it is not told; PReLU needs them all.
                "abc,cd->abd",
                (4 if self.is_new else None, 4),
                bias_axes="d",
            ),
            "embedding": lambda: layers.Embedding(4, 4),
            "conv2d": lambda: layers.Conv2D(1, 3, **same),
            "depthwise2d": lambda: layers.DepthwiseConv2D(3, **same),
            "separable2d": lambda: layers.SeparableConv2D(1, 3, **same),
            "transposed2d": lambda: layers.Conv2DTranspose(1, 3, **same),
            "conv_lstm": lambda: layers.ConvLSTM2D(1, 2, **same),
            "conv3d": lambda: layers.Conv3D(1, 2, **same),
            "transposed3d": lambda: layers.Conv3DTranspose(1, 2, **same),
            "groups": lambda: layers.GroupNormalization(2),
            "spectral": lambda: layers.SpectralNormalization(layers.Dense(4)),
            "local1d": lambda: layers.LocallyConnected1D(4, 1),
        }
        return makers[kind]()

    def _reshaped(self, kind, layer):
        shapes = {
            **dict.fromkeys(("conv2d", "depthwise2d", "separable2d"), (4, 4, 1)),
            **{"transposed2d": (4, 4, 1), "conv3d": (4, 4, 1, 1)},
            "steps_model": (1, 4, 4),
            **{"transposed3d": (4, 4, 1, 1), "conv_lstm": (1, 4, 4, 1)},
        }
        if kind == "embedding":
            return [self.layers.GlobalAveragePooling1D(), layer]
        if kind not in shapes:
            return layer
        return [self.layers.Reshape(shapes[kind]), layer, self.layers.Reshape((4, 4))]


def einsum(keras):
    """Return the class EinsumDense, which 2.4 had elsewhere."""
    if hasattr(keras.layers, "EinsumDense"):
        return keras.layers.EinsumDense
    return keras.layers.experimental.EinsumDense


def takes_several(layer):
    """Return 2 if a layer takes its input twice, 1 if as a list of two, else 0."""
    names = {"MultiHeadAttention": 2, "Attention": 1, "AdditiveAttention": 1}
    return names.get(type(layer).__name__, 0)


def parts_of(layer):
    """Yield `(attribute, layer)` for the layers that another one has in attributes."""
    for name in PARTS.split():
        value = getattr(layer, name, None)
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", value[key]) for key in sorted(value))
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}/{number}", item) for number, item in enumerate(value))
        elif hasattr(value, "trainable") and not (
            name == "layer" and hasattr(layer, "forward_layer")
        ):
            yield name, value


def variables(layer, path=""):
    """Yield `(path, variable)` for all weights in a layer, by their attributes."""
    # Recurrent layers lead to the weights of their cells, too.
    names = (
        ["vector_u"]
        if hasattr(layer, "cell") or hasattr(layer, "layer")
        else OWN.split()
    )
    for name in names:
        value = getattr(layer, name, None)
        if hasattr(value, "assign"):
            is_old = name == "depthwise_kernel" and not hasattr(
                layer, "pointwise_kernel"
            )
            yield path + ("kernel" if is_old else name), value
    inner = getattr(layer, "layers", None)
    if inner is not None and type(layer).__name__ != "Net":
        held = [each for each in inner if each.weights]
        for number, each in enumerate(held):
            # Keras 3 has a model around what a locally connected layer becomes.
            is_same = len(held) == 1 and each.name == layer.name
            yield from variables(each, path if is_same else f"{path}{number}/")
    else:
        for name, part in parts_of(layer):
            yield from variables(part, f"{path}{name}/")
