"""What scripts of tf.keras do with the optimizer, apart from training.

The configs are what `tf.keras.optimizers.serialize` gave under the releases named.
"""

import copy

import keras
import pytest
from keras import ops

from keras_policies import DynamicLossScale, FixedLossScale, LossScaleOptimizer
from keras_policies.experimental import get_layer_policy

# For tests whose gradients are those of no loss.
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")

SGD = {
    "class_name": "SGD",
    "config": {
        "name": "SGD",
        "learning_rate": 0.25,
        "decay": 0.0,
        "momentum": 0.5,
        "nesterov": False,
    },
}
OF_2_3 = {
    "class_name": "DynamicLossScale",
    "config": {
        "initial_loss_scale": 1024.0,
        "increment_period": 100,
        "multiplier": 4.0,
    },
}
FIXED_OF_2_3 = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 64.0}}
FIXED = {"dynamic": False, "initial_scale": 64.0, "dynamic_growth_steps": None}
DYNAMIC = {"dynamic": True, "initial_scale": 512.0, "dynamic_growth_steps": 30}
SCHEDULE = {
    "module": "keras.optimizers.schedules",
    "class_name": "ExponentialDecay",
    "config": {
        "initial_learning_rate": 0.25,
        "decay_steps": 100,
        "decay_rate": 0.5,
        "staircase": False,
        "name": None,
    },
    "registered_name": None,
}
OF_2_15 = {
    "module": "keras.optimizers.experimental",
    "class_name": "SGD",
    "config": {
        "name": "SGD",
        "weight_decay": None,
        "clipnorm": 2.0,
        "global_clipnorm": None,
        "clipvalue": None,
        "use_ema": False,
        "ema_momentum": 0.99,
        "ema_overwrite_frequency": None,
        "jit_compile": False,
        "is_legacy_optimizer": False,
        "learning_rate": SCHEDULE,
        "momentum": 0.5,
        "nesterov": False,
    },
    "registered_name": None,
}
MODULE_OF_2_15 = "keras.src.mixed_precision.loss_scale_optimizer"


def serialized(name, config, **more):
    return {"class_name": name, "config": config, **more}


# Release -> what it wrote, and the loss scale.
WRITTEN = {
    "2.0 to 2.3, dynamic": (
        serialized("LossScaleOptimizer", {"optimizer": SGD, "loss_scale": OF_2_3}),
        DynamicLossScale(1024, 100, 4),
    ),
    "2.0 to 2.3, fixed": (
        serialized(
            "LossScaleOptimizer", {"optimizer": SGD, "loss_scale": FIXED_OF_2_3}
        ),
        FixedLossScale(64),
    ),
    "2.4, dynamic": (
        serialized("LossScaleOptimizer", {"inner_optimizer": SGD, **DYNAMIC}),
        DynamicLossScale(512, 30),
    ),
    "2.4, experimental": (
        serialized("LossScaleOptimizerV1", {"inner_optimizer": SGD, **FIXED}),
        FixedLossScale(64),
    ),
    "2.15": (
        serialized(
            "LossScaleOptimizerV3",
            {"inner_optimizer": OF_2_15, **DYNAMIC},
            module=MODULE_OF_2_15,
            registered_name="LossScaleOptimizerV3",
        ),
        DynamicLossScale(512, 30),
    ),
}


@pytest.mark.parametrize("how", ["from_config", "of stock Keras", "deserialize"])
@pytest.mark.parametrize("release", WRITTEN)
def test_a_config_of_tf_keras_gives_the_optimizer_with_its_loss_scale(release, how):
    written, rule = copy.deepcopy(WRITTEN[release])
    if how == "deserialize":
        optimizer = keras.optimizers.deserialize(written)
    else:
        stock = keras.optimizers.LossScaleOptimizer
        cls = LossScaleOptimizer if how == "from_config" else stock
        optimizer = cls.from_config(written["config"])
    assert type(optimizer) is LossScaleOptimizer
    assert optimizer.rule == rule
    assert isinstance(optimizer.inner_optimizer, keras.optimizers.SGD)
    assert float(optimizer.learning_rate) == 0.25
    assert optimizer.momentum == 0.5
    assert optimizer.clipnorm == (2.0 if release == "2.15" else None)
    assert written["config"] == WRITTEN[release][0]["config"]


def test_a_config_of_tf_keras_may_wrap_an_optimizer_of_ones_own():
    class Own(keras.optimizers.SGD):
        pass

    config = {"optimizer": {**SGD, "class_name": "Own"}, "loss_scale": FIXED_OF_2_3}
    optimizer = LossScaleOptimizer.from_config(config, {"Own": Own})
    assert type(optimizer.inner_optimizer) is Own


def test_an_optimizer_is_wrapped_once():
    inner = keras.optimizers.SGD()
    first = LossScaleOptimizer(inner, 8)
    with pytest.raises(
        ValueError,
        match="is already wrapped by a LossScaleOptimizer.*Use the first one",
    ):
        LossScaleOptimizer(inner, 16)
    assert first.rule == FixedLossScale(8)


def of_a_file(inner):
    wrapper = LossScaleOptimizer(inner, 8)
    return LossScaleOptimizer.from_config(wrapper.get_config()).inner_optimizer


def of_compile(inner):
    model = keras.Sequential([keras.layers.Dense(1)], name="mixed")
    model.dtype_policy = keras.DTypePolicy("mixed_float16")
    for _ in range(2):  # each of them wraps it
        model.compile(inner, "mse")
    return model.optimizer.inner_optimizer


@pytest.mark.parametrize("made", [of_a_file, of_compile])
def test_what_a_file_or_compile_wrapped_may_get_another_loss_scale(made):
    inner = made(keras.optimizers.SGD())
    assert LossScaleOptimizer(inner, 16).inner_optimizer is inner
    with pytest.raises(ValueError, match="already wrapped"):
        LossScaleOptimizer(inner, 32)


@hand_made
def test_building_twice_changes_nothing():
    weight = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(momentum=0.5))
    optimizer.build([weight])
    paths = [variable.path for variable in optimizer.variables]
    optimizer.apply([ops.convert_to_tensor([float("nan")])], [weight])
    optimizer.build([weight])
    assert [variable.path for variable in optimizer.variables] == paths
    assert float(optimizer.loss_scale) == 2.0**14
    assert int(optimizer.skipped_steps) == 1


@hand_made
def test_the_counter_of_a_dynamic_scale_is_an_integer_from_the_start():
    weight = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())
    counts = []
    for gradient in 1.0, 1.0, float("nan"), 1.0:
        counts.append(int(optimizer.dynamic_counter))
        optimizer.apply([ops.convert_to_tensor([gradient])], [weight])
    assert counts == [0, 1, 2, 0]
    assert optimizer.dynamic_counter is optimizer.step_counter


def test_a_fixed_scale_has_neither_counter_nor_growth_steps():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), 8)
    optimizer.build([keras.Variable([1.0])])
    assert (optimizer.dynamic_counter, optimizer.dynamic_growth_steps) == (None, None)
    with pytest.raises(AttributeError, match=r"DynamicLossScale\(increment_period=5\)"):
        optimizer.dynamic_growth_steps = 5


def test_the_growth_steps_are_those_of_the_rule():
    rule = DynamicLossScale(64, 5)
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), rule)
    assert optimizer.dynamic_growth_steps == 5


def test_dir_lists_the_hyperparameters_that_are_passed_on():
    optimizer = LossScaleOptimizer(keras.optimizers.Adam())
    names = dir(optimizer)
    assert {"beta_1", "clipnorm", "learning_rate", "lr", "get_scaled_loss"} <= {*names}
    assert names == sorted(set(names))
    assert not {"momentum", "_learning_rate_of_adam"} & {*names}
    assert all(hasattr(optimizer, name) for name in ("beta_1", "epsilon", "amsgrad"))


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_what_is_not_an_optimizer_is_refused_as_in_all_releases(kind):
    # A ValueError up to 2.3, a TypeError since.
    with pytest.raises(
        kind, match="must be an instance of .*Optimizer, but got: .sgd."
    ):
        LossScaleOptimizer("sgd", 10.0)


def test_the_policy_of_what_is_not_a_layer_is_refused():
    with pytest.raises(ValueError, match="can only be called on a layer, but got: 1"):
        get_layer_policy(1)
