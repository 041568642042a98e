"""Tests of loss scales: TensorFlow's, torch's and jmp's."""

import keras
import numpy as np
import pytest
from peer import BACKEND, documented, minimize, numbers, stands_for, tensor

from keras_policies import DynamicLossScale, FixedLossScale, LossScaleOptimizer
from keras_policies.loss_scaling.loss_scale import get

FLOAT32_MAX = float(np.finfo("float32").max)
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")


def walked(rule, finite):
    """Return the scales after steps with finite gradients or not."""
    scale, steps, scales = rule.initial_loss_scale, 0, []
    for is_finite in finite:
        scale, steps = rule.after_step(scale, steps, is_finite)
        scale, steps = float(scale), int(steps)
        scales.append(scale)
    return scales


def trained(rule, finite):
    """Return the same, of an optimizer that takes these steps."""
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), rule)
    weight, scales = keras.Variable([0.0]), []
    for is_finite in finite:
        gradient = tensor([0.0 if is_finite else float("nan")])
        optimizer.apply([gradient], [weight])
        scales.append(float(optimizer.loss_scale))
    return scales


G, B = True, False  # good and bad gradients


@stands_for("loss_scale_test", "DynamicLossScaleTest")
@pytest.mark.parametrize("walk", [walked, trained])
@pytest.mark.parametrize(
    ("rule", "finite", "expected"),
    [
        pytest.param((1, 2), [G] * 6, [1, 2, 2, 4, 4, 8], id="test_increase"),
        pytest.param(
            (FLOAT32_MAX / 4, 2),
            [G] * 8,
            [FLOAT32_MAX / 4] + [FLOAT32_MAX / 2] * 2 + [FLOAT32_MAX] * 5,
            id="test_keep_increasing_until_capped",
        ),
        pytest.param(
            (1024, 2),
            [B] * 6,
            [512, 256, 128, 64, 32, 16],
            id="test_decrease_every_step",
        ),
        pytest.param(
            (16, 2), [B] * 6, [8, 4, 2, 1, 1, 1], id="test_keep_decreasing_until_one"
        ),
        pytest.param(
            (1, 2), [G, G, G, B, G], [1, 2, 2, 1, 1], id="test_nan_clear_good_step"
        ),
        pytest.param(
            (1, 1),
            [G, G, G, B, G, G],
            [2, 4, 8, 4, 8, 16],
            id="test_trigger_loss_scale_update_each_step",
        ),
        pytest.param(
            (1, 1),
            [G, B] * 4 + [G],
            [2, 1, 2, 1, 2, 1, 2, 1, 2],
            id="test_alternating_good_and_bad_gradients_trigger_each_step",
        ),
        pytest.param(
            (32, 2),
            [G, B] * 3 + [G],
            [32, 16, 16, 8, 8, 4, 4],
            id="test_alternating_good_and_bad_gradients_trigger_every_other_step",
        ),
        pytest.param(
            (4, 2, 3),
            [G, G, B, G, G],
            [4, 12, 4, 4, 12],
            id="test_nondefault_multiplier",
        ),
        pytest.param(
            (4, 2),
            [B, G, G, G, B, G, B, G, G, G, B],
            [2, 2, 4, 4, 2, 2, 1, 1, 2, 2, 1],
            id="test_random_mix_good_and_bad_gradients",
        ),
    ],
)
@hand_made
def test_a_dynamic_scale_moves(rule, finite, expected, walk):
    assert walk(DynamicLossScale(*rule), finite) == expected


@stands_for("loss_scale_test", "test_single_tensor_gradient")
@hand_made
def test_a_scalar_gradient_is_applied():
    weight = keras.Variable(1.0)
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicLossScale(2))
    optimizer.apply([tensor(4.0)], [weight])
    assert numbers(weight) == 0.0


@stands_for("loss_scale_test", "test_update_with_none_gradients")
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@hand_made
def test_a_gradient_may_be_none():
    weights = [keras.Variable(1.0), keras.Variable(1.0)]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicLossScale(2, 1))
    optimizer.apply([None, tensor(4.0)], weights)
    assert [numbers(weight) for weight in weights] == [1.0, 0.0]
    assert float(optimizer.loss_scale) == 4.0


@stands_for("loss_scale_test", "FixedLossScaleTest.test_basic")
@pytest.mark.parametrize("finite", [True, False])
def test_a_fixed_scale_stays_and_always_applies(finite):
    rule = FixedLossScale(1000)
    assert not rule.skips_nonfinite
    assert rule.after_step(1000.0, 3, finite) == (1000.0, 3)


@stands_for("loss_scale_test", "test_serialization")
@pytest.mark.parametrize(
    "rule", [FixedLossScale(123), DynamicLossScale(1, 2, 3)], ids=repr
)
def test_serialization(rule):
    assert type(rule).from_config(rule.get_config()) == rule
    config = {"class_name": type(rule).__name__, "config": rule.get_config()}
    assert get(config) == rule


@stands_for("loss_scale_test", "test_get", "FixedLossScaleTest.test_serialization")
def test_get():
    assert get("dynamic") == DynamicLossScale(2**15, 2000, 2.0)
    assert get(123) == FixedLossScale(123.0)
    assert get(None) is None


@stands_for("loss_scale_test", "test_call_type")
@documented("Loss scales", raises=TypeError)
@pytest.mark.parametrize("rule", [FixedLossScale(123), DynamicLossScale()], ids=repr)
def test_a_loss_scale_is_called(rule):
    assert float(rule()) == rule.initial_loss_scale


@stands_for("grad_scaler", "test_grad_scaling_update_scale")
def test_growth_after_two_steps_and_a_larger_backoff():
    # torch's backoff is a setting of its own, 1/4; ours is one over the growth.
    rule = DynamicLossScale(4, 2, 4)
    scale, steps = rule.after_step(4.0, 0, True)
    assert (float(scale), int(steps)) == (4.0, 1)
    scale, steps = rule.after_step(scale, steps, True)
    assert (float(scale), int(steps)) == (16.0, 0)
    scale, steps = rule.after_step(8.0, 0, False)
    assert (float(scale), int(steps)) == (2.0, 0)


@stands_for("grad_scaler", "test_grad_scale_will_not_overflow")
def test_a_scale_near_the_end_of_float32_does_not_become_infinite():
    weight = keras.Variable([0.5])
    rule = DynamicLossScale(1e38, 1, 2**4)
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), rule)
    minimize(optimizer, lambda: (weight * 1e-30) ** 2, [weight])
    assert float(optimizer.loss_scale) == float(np.float32(1e38))


@stands_for("jmp.loss_scale_test", "test_static_loss_scale")
@pytest.mark.parametrize("make", [FixedLossScale, DynamicLossScale])
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_scaling_and_unscaling_are_inverse(make, scale):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), make(scale))
    assert numbers(optimizer.scale_loss(tensor(1.0))) == scale
    assert numbers(optimizer.get_unscaled_gradients([tensor(float(scale))])[0]) == 1.0


@stands_for("jmp.loss_scale_test", "test_dynamic_loss_scale_adjust_increases_on_finite")
@pytest.mark.parametrize(("period", "factor"), [(20, 2), (30, 3)])
def test_the_scale_grows_after_a_whole_period(period, factor):
    rule = DynamicLossScale(10, period, factor)
    assert walked(rule, [G] * period) == [10.0] * (period - 1) + [10.0 * factor]
    assert [int(rule.after_step(10.0, n, True)[1]) for n in range(period)] == [
        *range(1, period),
        0,
    ]


@stands_for(
    "jmp.loss_scale_test",
    "test_dynamic_loss_scale_adjust_reduce_on_non_finite",
    "test_dynamic_loss_scale_explicit_min_loss_scale",
)
@pytest.mark.parametrize(
    ("period", "factor", "minimum"),
    [(20, 2, 1), (30, 3, 1), (20, 2, 0.3125), (30, 3, 0.37)],
)
def test_the_scale_falls_to_its_minimum(period, factor, minimum):
    rule = DynamicLossScale(10, period, factor, minimum=minimum)
    expected = [max(minimum, 10 / factor ** (i + 1)) for i in range(100)]
    np.testing.assert_allclose(walked(rule, [B] * 100), expected, rtol=1e-5)


@stands_for("jmp.loss_scale_test", "test_dynamic_loss_scale_explicit_min_loss_scale")
@documented("A minimum of 0", raises=ValueError)
def test_the_minimum_may_be_zero():
    DynamicLossScale(10, 5.0, 2.0, minimum=0.0)


@stands_for("jmp.loss_scale_test", "test_dynamic_loss_scale_no_warnings")
def test_a_python_float_is_not_warned_of():
    DynamicLossScale(2.0**15)  # a warning would fail the test


@stands_for(
    "jmp.loss_scale_test",
    "test_dynamic_loss_scale_raises_type_error_on_int_loss_scale",
    "test_dynamic_loss_scale_raises_type_error_on_int_min_loss_scale",
)
@documented("Removed warnings")
@pytest.mark.parametrize("settings", [{}, {"minimum": 1}])
def test_integers_are_warned_of(settings):
    with pytest.warns(Warning, match="Expected floating type"):
        DynamicLossScale(1, **settings)


@stands_for("jmp.loss_scale_test", "test_all_finite")
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("place", [0, 1])
@hand_made
def test_all_gradients_must_be_finite(value, place):
    gradients = [tensor(1.0), tensor(1.0)]
    gradients[place] = tensor(value)
    weights = [keras.Variable(1.0), keras.Variable(1.0)]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), DynamicLossScale(2))
    optimizer.apply(gradients, weights)
    assert [numbers(weight) for weight in weights] == [1.0, 1.0]
    assert int(optimizer.skipped_steps) == 1


@pytest.mark.skipif(BACKEND != "jax", reason="a pytree: jax only")
@stands_for(
    "jmp.loss_scale_test", "test_dynamic_loss_scale_tree", "test_static_empty_trees"
)
def test_the_state_of_the_scale_goes_through_jax_transformations():
    import jax

    weight = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), DynamicLossScale(8, 1))
    optimizer.build([weight])
    state = [variable.value for variable in optimizer.variables]
    same = jax.tree_util.tree_map(lambda x: x, state)
    step = jax.jit(optimizer.stateless_apply)
    with pytest.warns(UserWarning, match="the loss was never multiplied by it"):
        _, state = step(same, [tensor([8.0])], [weight.value])
    assert 16.0 in [float(value) for value in state]
