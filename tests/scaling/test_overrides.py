"""Subclasses that override `get_scaled_loss` and `get_unscaled_gradients`."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_policies import DynamicLossScale, LossScaleOptimizer


def tensor(x):
    return ops.convert_to_tensor(x, dtype="float32")


class Unscales(LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        return [None if g is None else g / self.loss_scale for g in grads]


class Clips(LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        return [ops.clip(g, -1, 1) for g in super().get_unscaled_gradients(grads)]


class CallsScaleLoss(LossScaleOptimizer):
    def get_scaled_loss(self, loss):
        return 2 * self.scale_loss(loss)


def test_an_override_that_would_call_itself_is_refused():
    optimizer = CallsScaleLoss(keras.optimizers.SGD(1.0), 128)
    with pytest.raises(TypeError, match=r"Call super\(\).get_scaled_loss there"):
        optimizer.get_scaled_loss(tensor([1.0]))


class Both(Unscales):
    """Multiplies the loss by twice the scale, and divides by as much."""

    def get_scaled_loss(self, loss):
        return loss * self.loss_scale * 2

    def get_unscaled_gradients(self, grads):
        return [g / 2 for g in super().get_unscaled_gradients(grads)]


class Mixin:
    def get_unscaled_gradients(self, grads):
        return [g / self.loss_scale for g in grads]


class Mixed(Mixin, LossScaleOptimizer):
    pass


@pytest.mark.parametrize("cls", [Unscales, Clips, Mixed])
def test_gradients_that_an_override_has_unscaled_are_applied_as_they_are(cls):
    optimizer = cls(keras.optimizers.SGD(1.0), 128)
    variable = keras.Variable([1.0])
    scaled = optimizer.get_scaled_loss(tensor([1.0]))
    assert ops.convert_to_numpy(scaled).tolist() == [128.0]
    unscaled = optimizer.get_unscaled_gradients(x for x in [scaled])
    optimizer.apply_gradients(zip(unscaled, [variable], strict=True))
    assert variable.numpy().tolist() == [0.0]


def test_an_override_says_for_scaled_gradients_how_they_are_unscaled():
    optimizer = Clips(keras.optimizers.SGD(1.0), DynamicLossScale(8))
    variable, seen = keras.Variable([4.0]), []
    for gradient in [80.0, 80.0, float("inf"), 4.0]:
        optimizer.scale_loss(tensor(1.0))
        optimizer.apply([tensor([gradient])], [variable])
        seen.append((float(variable.numpy()[0]), float(optimizer.loss_scale)))
    # The override clips infinity to 1, so that no step is skipped.
    assert seen == [(3.0, 8.0), (2.0, 8.0), (1.0, 8.0), (0.5, 8.0)]


def test_gradients_stay_scaled_after_an_override_has_unscaled_them():
    optimizer = Unscales(keras.optimizers.SGD(1.0), 8)
    variable = keras.Variable([4.0])
    optimizer.scale_loss(tensor(1.0))
    for expected in 3.0, 2.0:
        optimizer.apply([tensor([8.0])], [variable])
        assert variable.numpy().tolist() == [expected]


def model_after_fit(optimizer):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 2)), rng.normal(size=(16, 1))
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.parametrize("cls", [Unscales, Both, Mixed])
def test_fit_uses_the_overrides(cls):
    plain = model_after_fit(keras.optimizers.SGD(0.1))
    ours = model_after_fit(cls(keras.optimizers.SGD(0.1), 128))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
