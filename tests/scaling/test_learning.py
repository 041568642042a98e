"""What underflows in float16 is learned with a loss scale. Digits: `learning.py`."""

import keras
import numpy as np
import pytest

from keras_policies import DynamicLossScale, FixedLossScale, Policy

ROWS, OUTPUTS = 256, 64


def underflowing(loss_scale):
    """Fit outputs of 1e-4 by a layer that begins with zeros, and return the losses.

    The gradient of each output, 2 * 1e-4 / (256 * 64), is 1.2e-8: in float16 less than
    half its least number, 2^-24, so it is rounded to zero on its way through the first
    cast. (That gradients of real networks are so small: Micikevicius et al., 2018,
    Mixed Precision Training, figure 3.)
    """
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 8)).astype("float32")
    y = 1e-4 * np.sign(x @ rng.normal(size=(8, OUTPUTS))).astype("float32")
    policy = Policy("mixed_float16", loss_scale=loss_scale)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(OUTPUTS, kernel_initializer="zeros", dtype=policy),
        ]
    )
    model.dtype_policy = policy
    model.compile(keras.optimizers.Adam(1e-5, epsilon=1e-12), "mse")
    history = model.fit(x, y, batch_size=ROWS, epochs=60, shuffle=False, verbose=0)
    return model, history.history["loss"]


def test_gradients_that_underflow_teach_nothing_without_a_loss_scale():
    model, losses = underflowing(None)
    assert all((weight.numpy() == 0).all() for weight in model.trainable_weights)
    assert losses[-1] == losses[0]


@pytest.mark.parametrize(
    "loss_scale",
    [FixedLossScale(2.0**14), DynamicLossScale(2.0**30, increment_period=20)],
)
def test_gradients_that_underflow_teach_with_a_loss_scale(loss_scale):
    _, losses = underflowing(loss_scale)
    assert losses[-1] < losses[0] / 2
