"""The warning that a training loop never scales its loss."""

import copy
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_policies as mp
from keras_policies import DynamicLossScale, LossScaleOptimizer

BACKEND = keras.backend.backend()
LINES = (
    r"divides the gradients by the loss scale, which is 8 at first, [\s\S]*"
    r"scaled_loss = optimizer.get_scaled_loss\(loss\)\s+"
    r"gradients = optimizer.get_unscaled_gradients\(gradients\)"
)


def tensor(x):
    return ops.convert_to_tensor(x, dtype="float32")


DYNAMIC = DynamicLossScale(8)


def optimizer_of(loss_scale=DYNAMIC, cls=LossScaleOptimizer, **settings):
    return cls(keras.optimizers.SGD(1.0, **settings), loss_scale)


@pytest.fixture
def w():
    return keras.Variable([4.0])


@pytest.fixture
def optimizer():
    return optimizer_of()


def steps(optimizer, variable, count=3):
    for _ in range(count):
        optimizer.apply([tensor([8.0])], [variable])


def test_a_loop_that_never_scales_is_warned_once_at_its_second_step(optimizer, w):
    steps(optimizer, w, 1)
    with pytest.warns(UserWarning, match=LINES) as caught:
        optimizer.apply_gradients([(tensor([8.0]), w)])
    assert [warning.filename for warning in caught] == [__file__]
    steps(optimizer, w)
    assert w.numpy().tolist() == [-1.0]


def test_one_step_that_creates_the_slots_is_not_warned(optimizer, w):
    optimizer.apply([tensor([0.0])], [w])
    optimizer.scale_loss(tensor(1.0))
    steps(optimizer, w)
    assert w.numpy().tolist() == [1.0]


class OwnScaling(LossScaleOptimizer):
    def get_scaled_loss(self, loss):
        return loss * 8.0

    def get_unscaled_gradients(self, grads):
        return [g / 8.0 for g in grads]


ASK = {
    "scale_loss": lambda optimizer: optimizer.scale_loss(tensor(1.0)),
    "get_scaled_loss": lambda optimizer: optimizer.get_scaled_loss(tensor(1.0)),
}


@pytest.mark.parametrize("cls", [LossScaleOptimizer, OwnScaling])
@pytest.mark.parametrize("ask", ASK)
def test_a_loop_that_asks_for_the_scale_is_not_warned(ask, cls, w):
    optimizer = optimizer_of(cls=cls)
    optimizer.build([w])
    for _ in range(3):
        ASK[ask](optimizer)
        steps(optimizer, w, 1)
    assert int(optimizer.applied_steps) == 3


class OwnUnscaling(LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        return [g / 8.0 for g in grads]


def test_a_subclass_that_unscales_in_its_own_way_is_warned_too(w):
    optimizer = optimizer_of(cls=OwnUnscaling)
    steps(optimizer, w, 1)
    with pytest.warns(UserWarning, match=LINES):
        steps(optimizer, w, 1)


def test_a_dynamic_scale_is_missing_until_the_optimizer_is_built(optimizer):
    with pytest.raises(AttributeError, match="no attribute 'dynamic_scale'"):
        optimizer.dynamic_scale  # noqa: B018
    assert not hasattr(optimizer, "dynamic_scale")


def test_one_loss_may_serve_two_groups_of_weights(optimizer):
    groups = [keras.Variable([4.0]), keras.Variable([4.0])]
    optimizer.build(groups)
    for _ in range(2):
        optimizer.scale_loss(tensor(1.0))
        for variable in groups:
            steps(optimizer, variable, 1)
    assert [v.numpy().tolist() for v in groups] == [[2.0], [2.0]]


@pytest.mark.parametrize("accumulated", [None, 2])
def test_accumulation_is_not_warned(accumulated, w):
    optimizer = optimizer_of(gradient_accumulation_steps=accumulated)
    for _ in range(4):
        scaled = [optimizer.scale_loss(tensor([0.5])) for _ in range(2)]
        optimizer.apply([scaled[0] + scaled[1]], [w])
    assert w.numpy().tolist() == [0.0 if accumulated is None else 2.0]


def test_of_two_optimizers_the_one_that_never_scales_is_warned(optimizer, w):
    other, variable = optimizer_of(), keras.Variable([4.0])
    optimizer.scale_loss(tensor(1.0))
    steps(optimizer, w)
    steps(other, variable, 1)
    with pytest.warns(UserWarning, match=LINES):
        steps(other, variable, 1)


def test_a_copy_is_asked_for_itself(optimizer, w):
    optimizer.scale_loss(tensor(1.0))
    steps(optimizer, w)
    copied = copy.deepcopy(optimizer)
    steps(copied, w, 1)
    with pytest.warns(UserWarning, match=LINES):
        steps(copied, w, 1)


def test_a_scale_of_one_needs_no_scaling(w):
    optimizer = optimizer_of(1)
    steps(optimizer, w)
    assert int(optimizer.applied_steps) == 3


@pytest.mark.parametrize("accumulated", [None, 2])
def test_fit_is_not_warned(accumulated):
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=8))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    sgd = keras.optimizers.SGD(0.1, gradient_accumulation_steps=accumulated)
    model.compile(sgd, "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, epochs=2, verbose=0)
    model.train_on_batch(np.ones((3, 2)), np.ones((3, 1)))
    assert isinstance(model.optimizer, LossScaleOptimizer)


class Unscaled(keras.Model):
    """Its `train_step` takes the gradients of the loss as it is."""

    def train_step(self, *given):
        x, y = given[-1]
        return getattr(self, "on_" + BACKEND)(x, y, *given[:-1])

    def on_jax(self, x, y, state):
        import jax

        weights, others, optimizer_variables, metrics = state

        def loss_of(weights):
            predicted, after = self.stateless_call(weights, others, x)
            return ops.mean((predicted - y) ** 2), after

        (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
        weights, optimizer_variables = self.optimizer.stateless_apply(
            optimizer_variables, gradients, weights
        )
        return {"loss": loss}, (weights, others, optimizer_variables, metrics)

    def on_tensorflow(self, x, y):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x) - y) ** 2)
        weights = self.trainable_weights
        gradients = tape.gradient(loss, weights)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss}

    def on_torch(self, x, y):
        import torch

        self.zero_grad()
        loss = torch.mean((self(x) - y) ** 2)
        loss.backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([w.value.grad for w in weights], weights)
        return {"loss": loss.detach()}


@pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])
def test_a_train_step_that_never_scales_is_warned_whoever_looks_on(eager):
    mp.set_policy(mp.Policy("mixed_float16", DynamicLossScale(8)))
    inputs = keras.Input((2,))
    model = Unscaled(inputs, keras.layers.Dense(1, dtype="float32")(inputs))
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=eager)
    mp.summary(model, print_fn=lambda text: None)
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    with pytest.warns(UserWarning, match=LINES) as caught:
        model.fit(x, y, epochs=3, verbose=0, callbacks=[mp.LossScaleLogger()])
    ours = [one for one in caught if one.category is mp.KerasPoliciesWarning]
    assert [warning.filename for warning in ours] == [__file__]


@pytest.mark.skipif(BACKEND == "torch", reason="torch runs Python at each step")
def test_compiled_code_asks_once_for_all_steps(w):
    optimizer = optimizer_of(8)
    if BACKEND == "jax":
        import jax

        scale = jax.jit(optimizer.scale_loss)
    else:
        import tensorflow as tf

        scale = tf.function(optimizer.scale_loss)
    for _ in range(3):
        optimizer.apply([scale(tensor([1.0]))], [w])
    assert w.numpy().tolist() == [1.0]


@pytest.mark.skipif(BACKEND == "torch", reason="torch runs Python at each step")
def test_a_compiled_step_that_never_scales_is_warned_when_it_is_compiled(optimizer, w):
    optimizer.build([w])
    if BACKEND == "jax":
        import jax

        step = jax.jit(optimizer.stateless_apply)
        given = [v.value for v in optimizer.variables], [tensor([8.0])], [w.value]
    else:
        import tensorflow as tf

        given = ()

        @tf.function
        def step():
            optimizer.apply_gradients([(tensor([8.0]), w)])

    with pytest.warns(UserWarning, match=LINES) as caught:
        step(*given)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(*given)


def clip(optimizer, weights, grads):
    import torch

    torch.nn.utils.clip_grad_norm_([w.value for w in weights], 1.0)
    optimizer.apply(grads, weights)


def mean_over_batches(optimizer, weights, grads):
    for grad in grads:
        grad /= 2
    optimizer.apply(grads, weights, are_scaled=True)


def clip_unscaled(optimizer, weights, grads):
    unscaled = optimizer.get_unscaled_gradients(grads)
    clip_(unscaled)
    optimizer.apply_gradients(zip(unscaled, weights, strict=True))


def clip_(grads):
    for grad in grads:
        grad.clamp_(-1.0, 1.0)


def apply(optimizer, weights, grads):
    optimizer.apply(grads, weights)


@pytest.mark.skipif(BACKEND != "torch", reason="torch alone has a .grad to change")
@pytest.mark.parametrize("passes", [1, 2], ids=["one-pass", "accumulated"])
@pytest.mark.parametrize(
    ("step", "is_warned"),
    [
        pytest.param(clip, True, id="clipped"),
        pytest.param(apply, False, id="as-they-are"),
        pytest.param(mean_over_batches, False, id="said-to-be-scaled"),
        pytest.param(clip_unscaled, False, id="unscaled-first"),
    ],
)
def test_gradients_changed_in_place_while_scaled_are_warned_of_once(
    step, is_warned, passes
):
    import torch

    # Its kernel is used three times: autograd itself adds up in place.
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.SimpleRNN(2)])
    weights = model.trainable_variables
    optimizer = optimizer_of()
    optimizer.build(weights)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            model.zero_grad()
            for _ in range(passes):
                loss = ops.mean(model(np.ones((4, 3, 2), "float32")) ** 2)
                optimizer.scale_loss(loss).backward()
            with torch.no_grad():
                step(optimizer, weights, [w.value.grad for w in weights])
    ours = [w for w in caught if "changed in place between" in str(w.message)]
    assert len(ours) == is_warned
