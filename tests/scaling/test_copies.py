"""Copies of an optimizer, by `copy.deepcopy` and through `pickle`."""

import copy
import pickle

import keras
import numpy as np
import pytest
from keras import ops

import keras_policies as mp
from keras_policies import DynamicLossScale, FixedLossScale, LossScaleOptimizer

# For tests whose gradients are those of no loss.
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")

RULES = [DynamicLossScale(64, 3, 4.0, minimum=2, maximum=256), FixedLossScale(8)]


class Subclass(LossScaleOptimizer):
    pass


class Unregistered(DynamicLossScale):
    pass


def deepcopied(optimizer):
    return copy.deepcopy(optimizer)


def pickled(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


HOW = pytest.mark.parametrize("copied_by", [deepcopied, pickled])


def numpy(x):
    return ops.convert_to_numpy(x)


def tensor(x):
    return ops.convert_to_tensor(x, dtype="float32")


@HOW
@pytest.mark.parametrize("rule", [*RULES, Unregistered(8)], ids=repr)
@pytest.mark.parametrize("cls", [LossScaleOptimizer, Subclass])
def test_a_copy_has_the_class_the_rule_and_the_inner_optimizer(cls, rule, copied_by):
    optimizer = cls(keras.optimizers.Adam(0.25, beta_1=0.5, clipnorm=2.0), rule, "lso")
    copied = copied_by(optimizer)
    assert type(copied) is cls
    assert copied.rule == rule
    with keras.saving.custom_object_scope({"Unregistered": Unregistered}):
        assert copied.get_config() == optimizer.get_config()
    assert type(copied.inner_optimizer) is type(optimizer.inner_optimizer)
    assert copied.inner_optimizer is not optimizer.inner_optimizer
    assert not copied.built
    assert [float(copied.learning_rate), copied.beta_1] == [0.25, 0.5]


@HOW
def test_the_optimizer_of_a_policy_is_still_saved_as_the_users_own(copied_by):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1)],
    )
    model.dtype_policy = mp.Policy("mixed_float16", loss_scale=RULES[0])
    model.compile("sgd", "mse")
    copied = copied_by(model.optimizer)
    assert copied.rule == RULES[0]
    assert copied.saved_as_inner


INNER = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "ema": lambda: keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True),
    "accumulation": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}


@hand_made
@HOW
@pytest.mark.parametrize("inner", INNER)
def test_a_copy_of_a_built_optimizer_goes_on_from_its_state(inner, copied_by):
    optimizer = LossScaleOptimizer(INNER[inner](), RULES[0])
    weights = [keras.Variable([1.0, 2.0]), keras.Variable(3.0)]

    def step(of, variables, bad=1.0):
        of.apply([tensor([64.0 * bad, 32.0]), tensor(16.0)], variables)

    for bad in 1.0, float("inf"), 1.0:
        step(optimizer, weights, bad)
    copied = copied_by(optimizer)
    assert float(copied.loss_scale) == 16.0
    assert [int(copied.applied_steps), int(copied.skipped_steps)] == [2, 1]
    for ours, theirs in zip(copied.variables, optimizer.variables, strict=True):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs))
    # A deep copy has the same weights; a pickle gets them with its first gradients.
    same = [keras.Variable(w) for w in weights] if copied_by is pickled else weights
    before = [numpy(w) for w in weights]
    step(copied, same)
    ours = [numpy(w) for w in same]
    for weight, value in zip(weights, before, strict=True):
        weight.assign(value)
    step(optimizer, weights)
    for a, b in zip(ours, weights, strict=True):
        np.testing.assert_array_equal(a, numpy(b))
    assert float(copied.loss_scale) == float(optimizer.loss_scale)


def test_a_pickle_is_not_applied_to_weights_of_other_shapes():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), 8)
    optimizer.build([keras.Variable([1.0, 2.0])])
    copied = pickled(optimizer)
    with pytest.raises(ValueError, match="Unknown variable"):
        copied.apply([tensor([1.0])], [keras.Variable([1.0])])


@HOW
def test_a_state_that_only_the_inner_optimizer_has_is_copied(copied_by):
    inner, variable = keras.optimizers.SGD(1.0, momentum=0.5), keras.Variable([1.0])
    inner.apply([tensor([1.0])], [variable])
    copied = copied_by(LossScaleOptimizer(inner, 8))
    assert not copied.built
    assert int(copied.applied_steps) == 1


def test_set_weights_sets_the_inner_optimizers_too():
    first, second = (LossScaleOptimizer(INNER["adam"](), 8) for _ in range(2))
    for optimizer in first, second:
        optimizer.build([keras.Variable([1.0, 2.0])])
    first.apply([tensor([8.0, 16.0])], are_scaled=True)
    weights = [numpy(v) for v in first.variables]
    second.set_weights(weights)
    for ours, theirs in zip(second.variables, weights, strict=True):
        np.testing.assert_array_equal(numpy(ours), theirs)
    with pytest.raises(ValueError, match="each of the 8 variables.*Received: 7 values"):
        second.set_weights(weights[:7])


@HOW
def test_a_model_trains_on_with_a_copy(copied_by):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(LossScaleOptimizer(keras.optimizers.SGD(0.1), RULES[0]), "mse")
    x, y = np.ones((8, 2)), np.ones((8, 1))
    model.fit(x, y, epochs=2, verbose=0)
    model.compile(copied_by(model.optimizer), "mse")
    model.fit(x, y, verbose=0)
    assert int(model.optimizer.applied_steps) == 3
    assert float(model.optimizer.loss_scale) == 256.0
