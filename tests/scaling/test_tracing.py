"""Loops of one's own, compiled; and what is said when one is wrong."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_policies as mp

BACKEND = keras.backend.backend()
on_jax = pytest.mark.skipif(BACKEND != "jax", reason="jax.jit: a loop of jax")


def built(loss_scale):
    w = keras.Variable([1.0])
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.5), loss_scale)
    optimizer.build([w])
    return w, optimizer


def compiled_step(optimizer, method, scoped):
    """Return a step under jax.jit whose loss is scaled in a scope, or not."""
    import jax

    def scaled(values, optimizer_variables):
        state = [*zip(optimizer.variables, optimizer_variables, strict=True)]
        with keras.StatelessScope(state_mapping=state if scoped else []):
            return getattr(optimizer, method)(ops.sum(values[0] * 2.0))

    @jax.jit
    def step(values, optimizer_variables):
        gradients = jax.grad(scaled)(values, optimizer_variables)
        return optimizer.stateless_apply(optimizer_variables, gradients, values)

    return step


@on_jax
def test_a_compiled_loop_sees_the_scale_move_in_a_scope_and_is_warned_outside():
    w, optimizer = built(mp.DynamicLossScale(8, increment_period=1))
    values, state = [w.value], [v.value for v in optimizer.variables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = compiled_step(optimizer, "scale_loss", scoped=True)
        for _ in range(3):
            values, state = step(values, state)
    assert np.asarray(values[0]).tolist() == [-2.0]  # three steps of 0.5 * 2
    step = compiled_step(optimizer, "scale_loss", scoped=False)
    with pytest.warns(UserWarning, match="scale_loss is compiled .* as a const"):
        step(values, state)


@on_jax
def test_the_methods_of_tf_keras_warn_too():
    import jax

    _, optimizer = built("dynamic")
    with pytest.warns(UserWarning, match="get_scaled_loss is compiled"):
        jax.jit(optimizer.get_scaled_loss)(np.float32(1))
    with pytest.warns(UserWarning, match="get_unscaled_gradients is compiled"):
        jax.jit(optimizer.get_unscaled_gradients)([np.float32(1)])


@on_jax
def test_reading_the_scale_or_applying_with_it_as_a_constant_warns_too():
    import jax

    w, optimizer = built(mp.DynamicLossScale(8))
    with pytest.warns(UserWarning, match="loss_scale is compiled .* as a constant"):
        jax.jit(lambda loss: loss * optimizer.loss_scale)(np.float32(1))
    state = [v.value for v in optimizer.variables]
    step = jax.jit(lambda g: optimizer.stateless_apply(state, [g], [w.value], True))
    with pytest.warns(UserWarning, match="loss_scale is compiled .* as a constant"):
        step(w.value)


@on_jax
@pytest.mark.parametrize("method", ["scale_loss", "loss_scale"])
def test_gradients_that_are_not_compiled_need_no_scope(method):
    import jax

    w, optimizer = built("dynamic")

    def scaled(value):
        loss = ops.sum(value * 2.0)
        scales_itself = method == "loss_scale"
        return (
            optimizer.loss_scale * loss if scales_itself else optimizer.scale_loss(loss)
        )

    assert np.asarray(jax.grad(scaled)(w.value)).tolist() == [2.0**16]


@on_jax
def test_a_fixed_scale_may_be_a_constant():
    w, optimizer = built(128)
    step = compiled_step(optimizer, "scale_loss", scoped=False)
    values, _ = step([w.value], [v.value for v in optimizer.variables])
    assert np.asarray(values[0]).tolist() == [0.0]


@pytest.mark.parametrize("use_ema", [False, True])
def test_an_error_in_a_loss_is_seen_as_it_is(use_ema):
    mp.set_policy("mixed_float16")
    calls = []

    def loss(y_true, y_pred):
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("a bug in my loss")
        return ops.mean((y_true - y_pred) ** 2, -1)

    dense = keras.layers.Dense(3, dtype="float32")
    model = keras.Sequential([keras.Input((8,)), dense])
    optimizer = keras.optimizers.SGD(0.1, use_ema=use_ema)
    model.compile(optimizer, loss, run_eagerly=BACKEND == "tensorflow")
    x, y = np.ones((16, 8)), np.ones((16, 3))
    with pytest.raises(ValueError, match="a bug in my loss"):
        model.fit(x, y, epochs=2, verbose=0)


def test_the_short_name_of_the_learning_rate_reads_and_sets_it():
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.5), 128)
    assert float(optimizer.lr) == 0.5
    optimizer.lr = 0.25
    assert float(optimizer.learning_rate) == 0.25
    assert float(optimizer.inner_optimizer.learning_rate) == 0.25


def test_an_optimizer_says_what_it_is():
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.5), 128)
    assert repr(optimizer) == "<LossScaleOptimizer of SGD, FixedLossScale(128.0)>"


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("get_layer_policy", "is layer.dtype_policy"),
        ("enable_mixed_precision_graph_rewrite", 'set_policy."mixed_float16".'),
    ],
)
def test_a_name_of_tf_keras_is_answered_with_its_new_one(name, now):
    with pytest.raises(AttributeError, match=f"{now}.*docs/porting-reference.md"):
        getattr(mp, name)
    assert not hasattr(mp, "no_such_name")


class OnJax(keras.Model):
    def train_step(self, state, data):
        import jax

        weights, others, optimizer_variables, metrics = state
        x, y = data

        def scaled_loss(weights):
            predicted, after = self.stateless_call(weights, others, x, training=True)
            mapping = [*zip(self.optimizer.variables, optimizer_variables, strict=True)]
            loss = ops.mean((predicted - y) ** 2)
            with keras.StatelessScope(state_mapping=mapping):
                return self.optimizer.scale_loss(loss), (loss, after)

        gradients, (loss, others) = jax.grad(scaled_loss, has_aux=True)(weights)
        weights, optimizer_variables = self.optimizer.stateless_apply(
            optimizer_variables, gradients, weights
        )
        return {"loss": loss}, (weights, others, optimizer_variables, metrics)


class OnTensorFlow(keras.Model):
    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            scaled_loss = self.optimizer.scale_loss(loss)
        weights = self.trainable_weights
        self.optimizer.apply(tape.gradient(scaled_loss, weights), weights)
        return {"loss": loss}


class OnTorch(keras.Model):
    def train_step(self, data):
        import torch

        x, y = data
        self.zero_grad()
        loss = torch.mean((self(x, training=True) - y) ** 2)
        self.optimizer.scale_loss(loss).backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([w.value.grad for w in weights], weights)
        return {"loss": loss.detach()}


@on_jax
@pytest.mark.parametrize("loss_scale", [8, "dynamic"])
def test_a_train_step_that_scales_outside_of_a_scope_is_told(loss_scale):
    class Outside(keras.Sequential):
        def train_step(self, state, data):
            return self.optimizer.scale_loss(1.0), state

    model = Outside([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(mp.LossScaleOptimizer(keras.optimizers.SGD(), loss_scale), "mse")
    with pytest.raises(ValueError, match="scale_loss finds no .*keras.StatelessScope"):
        model.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="AutoGraph: TensorFlow only")
@pytest.mark.parametrize("method", ["scale_loss", "get_scaled_loss"])
def test_autograph_converts_a_whole_step(method, caplog):
    import tensorflow as tf

    w, optimizer = built("dynamic")

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = getattr(optimizer, method)(tf.reduce_sum(w.value * 2.0))
        gradients = tape.gradient(loss, [w.value])
        if method == "get_scaled_loss":
            gradients = optimizer.get_unscaled_gradients(gradients)
            optimizer.apply_gradients(zip(gradients, [w], strict=True))
        else:
            optimizer.apply(gradients, [w])

    tf.get_logger().addHandler(caplog.handler)
    try:
        step()
    finally:
        tf.get_logger().removeHandler(caplog.handler)
    assert caplog.messages == []
    assert w.numpy().tolist() == [0.0]


def test_a_train_step_of_ones_own_is_scaled():
    mp.set_policy(mp.Policy("mixed_float16", mp.DynamicLossScale(2.0**9, 5)))
    kind = {"jax": OnJax, "tensorflow": OnTensorFlow, "torch": OnTorch}[BACKEND]
    inputs = keras.Input((8,))
    model = kind(inputs, keras.layers.Dense(1, dtype="float32")(inputs))
    model.compile(keras.optimizers.SGD(0.05))
    x, y = np.ones((16, 8), "float32"), np.ones((16, 1), "float32")
    history = model.fit(x, y, epochs=10, verbose=0, callbacks=[mp.LossScaleLogger()])
    assert history.history["loss"][-1] < 0.1
    assert history.history["loss_scale"] == [512] * 4 + [1024] * 5 + [2048]
