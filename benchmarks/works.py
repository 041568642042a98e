"""The models that the benchmarks train, and their optimizers."""

import keras
import numpy as np
from keras import layers, ops

import keras_policies
from benchmarks import devices

BACKEND = devices.BACKEND
# float16 is slow on a CPU, and what people train with on a GPU.
MIXED = "mixed_bfloat16" if devices.gpu() is None else "mixed_float16"


class Scalars(keras.Model):
    """The model of TensorFlow's loss_scale_benchmark.py, with only scalar weights."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def build(self, input_shape):
        for i in range(self.count):
            self.add_weight(shape=(), initializer="ones", name=f"scalar_{i}")

    def call(self, inputs):
        return inputs * ops.sum(ops.stack([weight.value for weight in self.weights]))


def _normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def scalars(count=200):
    """A. 200 scalar variables, float32: the cost of an optimizer besides arithmetic."""
    return Scalars(count), np.ones((1, 1), "float32"), np.ones((1, 1), "float32")


def dense(width=256, depth=8, batch=32):
    """B. 8 dense layers of 256, batch 32, in mixed precision."""
    stack = [layers.Dense(width, "relu", dtype=MIXED) for _ in range(depth)]
    model = keras.Sequential([keras.Input((width,)), *stack])
    return model, _normal(batch, width), _normal(batch, width)


def transformer(width=320, depth=8, heads=5, length=32, batch=8):
    """C. 8 transformer blocks, 9.9 million parameters, in mixed precision."""
    policy = {"dtype": MIXED}
    outputs = inputs = keras.Input((length, width))
    for _ in range(depth):
        normal = layers.LayerNormalization(**policy)(outputs)
        attention = layers.MultiHeadAttention(heads, width // heads, **policy)
        outputs = layers.Add(**policy)([outputs, attention(normal, normal)])
        inner = layers.LayerNormalization(**policy)(outputs)
        inner = layers.Dense(4 * width, "gelu", **policy)(inner)
        inner = layers.Dense(width, **policy)(inner)
        outputs = layers.Add(**policy)([outputs, inner])
    data = _normal(batch, length, width)
    return keras.Model(inputs, outputs), data, data


def convolutions(batch=32):
    """D. Three convolutions with batch normalization, in mixed precision."""
    policy = {"dtype": MIXED}
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (32, 64, 128):
        model.add(layers.Conv2D(filters, 3, padding="same", **policy))
        model.add(layers.BatchNormalization(**policy))
        model.add(layers.ReLU(**policy))
        model.add(layers.MaxPooling2D(**policy))
    model.add(layers.GlobalAveragePooling2D(**policy))
    model.add(layers.Dense(10, dtype="float32"))
    return model, _normal(batch, 32, 32, 3), _normal(batch, 10)


def large_dense():
    """F. B for a GPU: 134 million parameters, batch 4096."""
    return dense(width=4096, batch=4096)


def large_transformer():
    """G. C for a GPU: 101 million parameters, 32 texts of 512."""
    return transformer(width=1024, heads=16, length=512, batch=32)


WORKS = {
    "A": (scalars, 1),
    "B": (dense, 1),
    "C": (transformer, 1),
    "D": (convolutions, 1),
    "E": (dense, 8),  # B, with steps_per_execution=8, which torch does not have
    "F": (large_dense, 1),
    "G": (large_transformer, 1),
}
VARIANTS = "none", "fixed", "dynamic", "stock"


def optimizer(variant, make_inner=keras.optimizers.Adam):
    """Return an optimizer: no loss scaling, ours fixed or dynamic, or stock Keras's."""
    inner = make_inner()
    if variant == "stock":
        return keras.optimizers.LossScaleOptimizer(inner)
    if variant == "none":
        return inner
    scale = 128 if variant == "fixed" else "dynamic"
    return keras_policies.LossScaleOptimizer(inner, scale)


def compiled(work, variant):
    """Return `(model, x, y)`; the model has the optimizer of a variant."""
    make, steps_per_execution = WORKS[work]
    model, x, y = make()
    model.compile(optimizer(variant), "mse", steps_per_execution=steps_per_execution)
    return model, x, y
