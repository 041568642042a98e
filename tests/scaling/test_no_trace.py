"""An overflow, in each gradient of a model in turn, leaves no trace in training."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_policies import DynamicLossScale, Policy

OPTIONS = {
    "plain": {},
    "ema": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "accumulation": {"gradient_accumulation_steps": 2},
}


class Mixed(keras.Model):
    """A model of many kinds of weights, with `poison` added to each one's gradient."""

    def __init__(self):
        super().__init__(
            dtype=Policy("mixed_float16", loss_scale=DynamicLossScale(64, 3))
        )
        self.embedding = layers.Embedding(5, 4, dtype="mixed_float16")
        self.normal = layers.BatchNormalization(dtype="mixed_float16")
        self.dropout = layers.Dropout(0.5, seed=1)
        self.narrow = layers.Dense(3, dtype="float16")
        self.brain = layers.Dense(3, dtype="mixed_bfloat16")
        self.whole = layers.Dense(1, dtype="float32")
        self.factor = self.add_weight(shape=(), initializer="ones", dtype="float32")

    def build(self, shape):
        pass

    def call(self, inputs, training=False):
        tokens, poison = inputs
        hidden = self.normal(self.embedding(tokens), training=training)
        hidden = ops.mean(self.dropout(hidden, training=training), axis=1)
        hidden = ops.cast(self.narrow(hidden), "float32") + ops.cast(
            self.brain(hidden), "float32"
        )
        if self.trainable_variables:
            row = ops.cast(poison[0], "float32")
            self.add_loss(
                sum(
                    row[i] * ops.sum(ops.cast(weight.value, "float32"))
                    for i, weight in enumerate(self.trainable_variables)
                )
            )
        return self.whole(hidden) * self.factor


COUNT = 10  # trainable weights
TOKENS = np.array([[0, 1, 2], [2, 3, 4]])
Y = np.array([[1.0], [2.0]])


def poison(place=None, number=0.0):
    found = np.zeros((2, COUNT), "float32")
    if place is not None:
        found[:, place] = number
    return found


def trained(options):
    """Return a model, compiled and trained for three steps."""
    model = Mixed()
    model([TOKENS, poison()])
    assert len(model.trainable_variables) == COUNT
    model.compile(keras.optimizers.Adam(0.1, **options), "mse")
    for _ in range(3):
        model.train_on_batch([TOKENS, poison()], Y)
    return model


def state(model):
    """Return what a step changes: of the optimizer all but the loss scale."""
    optimizer = model.optimizer
    groups = {
        "weights": model.trainable_variables,
        "optimizer": optimizer.inner_optimizer.variables,
        "forward": model.non_trainable_variables,
    }
    return {name: [v.numpy() for v in group] for name, group in groups.items()}


def same(one, other):
    for before, after in zip(one, other, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("options", OPTIONS)
def test_an_overflow_in_any_gradient_leaves_no_trace(options):
    model = trained(OPTIONS[options])
    before = state(model)
    assert float(model.optimizer.loss_scale) == 128
    model.optimizer.dynamic_scale.assign(2.0**60)
    for place in range(COUNT):
        for number in np.nan, np.inf, -np.inf:
            model.train_on_batch([TOKENS, poison(place, number)], Y)
            now = state(model)
            same(before["weights"], now["weights"])
            same(before["optimizer"], now["optimizer"])
    assert float(model.optimizer.loss_scale) == 2.0**30
    assert int(model.optimizer.skipped_steps) == 3 * COUNT
    assert int(model.optimizer.applied_steps) == 3


def test_what_the_forward_pass_does_stays():
    """Batch normalization's statistics and the seeds of dropout: as in tf.keras."""
    skipped, applied = trained({}), trained({})
    for one, other in zip(skipped.variables, applied.variables, strict=True):
        one.assign(other.numpy())
    before = state(skipped)
    skipped.train_on_batch([TOKENS, poison(0, np.inf)], Y)
    applied.train_on_batch([TOKENS, poison()], Y)
    same(state(skipped)["forward"], state(applied)["forward"])
    assert not np.array_equal(before["forward"][0], state(skipped)["forward"][0])
    assert int(skipped.optimizer.skipped_steps) == 1
