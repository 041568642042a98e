"""tf.keras's tests of models with policies."""

import keras
import numpy as np
import pytest
from keras import ops
from peer import (
    Add,
    Identity,
    dtype_of,
    fit,
    mean_output,
    model_of,
    numbers,
    stands_for,
)

import keras_policies as mp
from keras_policies import DynamicLossScale, LossScaleOptimizer

RATE = 2**-14  # of what a float16 variable of 1 would not change by
SGD = keras.optimizers.SGD


@keras.saving.register_keras_serializable("peers")
class Gate(keras.layers.Layer):
    """Gives what it gets, times a weight: 1, or such that the gradients are NaN."""

    def build(self, shape):
        self.factor = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, x):
        return x * ops.cast(self.factor, x.dtype)


def weight_of(model):
    (layer,) = (layer for layer in model.layers if isinstance(layer, Add))
    return float(layer.v.numpy())


@stands_for("model_test", "test_model")
@pytest.mark.parametrize("regularizer", [None, Identity()])
@pytest.mark.parametrize("through_config", [False, True])
@pytest.mark.parametrize("eager", [False, True])
def test_a_model_is_updated_in_float32(regularizer, through_config, eager):
    with mp.policy_scope(mp.Policy("mixed_float16", loss_scale=None)):
        model = model_of(Add(regularizer))
        if through_config:
            model = keras.Model.from_config(model.get_config())
        model.compile(SGD(RATE), mean_output, run_eagerly=eager)
    fit(model)
    assert weight_of(model) == 1 - RATE * (2 if regularizer else 1)


@stands_for("model_test", "test_model", "_test_saving")
@pytest.mark.parametrize("regularizer", [None, Identity()])
def test_a_saved_model_goes_on(regularizer, tmp_path):
    with mp.policy_scope(mp.Policy("mixed_float16", loss_scale=None)):
        model = model_of(Add(regularizer))
        model.compile(SGD(RATE), mean_output)
        fit(model)
        expected = weight_of(model)
        model.save(tmp_path / "model.keras")
        objects = {"mean_output": mean_output}
        for _ in range(2):
            read = keras.models.load_model(tmp_path / "model.keras", objects)
            assert weight_of(read) == expected
            fit(read)
            assert weight_of(read) == expected - RATE * (2 if regularizer else 1)
    (layer,) = (layer for layer in read.layers if isinstance(layer, Add))
    assert (layer.dtype, layer.dtype_policy.name) == ("float32", "mixed_float16")
    assert dtype_of(layer(np.ones((2, 1)))) == "float16"


@stands_for("model_test", "test_fixed_loss_scaling")
@pytest.mark.parametrize("eager", [False, True])
def test_fixed_loss_scaling(eager):
    model = model_of(Add(), batch=4)
    model.compile(LossScaleOptimizer(SGD(1.0), 8.0), mean_output, run_eagerly=eager)
    assert weight_of(model) == 1.0
    fit(model, batch=4)
    assert weight_of(model) == 0.0


@stands_for("model_test", "test_advanced_model")
@pytest.mark.parametrize("loss_scale", [None, 8.0])
@pytest.mark.parametrize("eager", [False, True])
def test_an_advanced_model(loss_scale, eager):
    layers = [
        Add(regularizer, autocast)
        for regularizer, autocast in [(Identity(), True), (None, False)] * 2
    ]
    with mp.policy_scope(mp.Policy("mixed_float16", loss_scale=loss_scale)):
        layers = [Add.from_config({**x.get_config(), "dtype": None}) for x in layers]
        model = model_of(*layers, batch=2)
        model.compile(SGD(RATE), mean_output, run_eagerly=eager)
    fit(model)
    found = [float(layer.v.numpy()) for layer in layers]
    assert found == [1 - 2 * RATE, 1 - RATE] * 2
    scaled = isinstance(model.optimizer, LossScaleOptimizer)
    assert scaled is (loss_scale is not None)


@stands_for("model_test", "test_dynamic_loss_scaling")
@pytest.mark.parametrize("where", ["policy", "optimizer"])
@pytest.mark.parametrize("through_config", [False, True])
@pytest.mark.parametrize("eager", [False, True])
def test_dynamic_loss_scaling(where, through_config, eager):
    rule = DynamicLossScale(2, 2)
    by_policy = where == "policy"
    policy = mp.Policy("mixed_float16", loss_scale=rule if by_policy else None)
    with mp.policy_scope(policy):
        model = model_of(Add(), Gate(), batch=4)
        if through_config:
            model = keras.Model.from_config(model.get_config())
        optimizer = SGD(1.0) if by_policy else LossScaleOptimizer(SGD(1.0), rule)
        model.compile(optimizer, mean_output, run_eagerly=eager)
    (gate,) = (layer for layer in model.layers if isinstance(layer, Gate))
    found = []
    for factor in 1.0, 1.0, 1.0, float("nan"), 1.0:
        gate.factor.assign(factor)
        fit(model, batch=4)
        found.append((weight_of(model), float(model.optimizer.loss_scale)))
    assert found == [(0.0, 2), (-1.0, 4), (-2.0, 4), (-2.0, 2), (-3.0, 2)]


@stands_for("model_test", "test_loss_scale_optimizer_overrides_policy_loss_scale")
@pytest.mark.filterwarnings("ignore:Creating a Policy with a loss scale")
@pytest.mark.filterwarnings("ignore:The optimizer passed to compile is already")
def test_the_scale_of_the_optimizer_wins():
    with mp.policy_scope(mp.Policy("float32", loss_scale=10.0)):
        model = model_of(Add())
        model.compile(LossScaleOptimizer(SGD(1.0), loss_scale=5.0), "mse")
    assert float(model.optimizer.loss_scale) == 5.0


@stands_for("model_test", "test_compile_wraps_with_loss_scale_optimizer")
@pytest.mark.parametrize(
    ("policy", "scale"),
    [
        (mp.Policy("mixed_float16"), 2.0**15),
        (mp.Policy("mixed_float16", loss_scale=10.0), 10.0),
        (mp.Policy("float16", loss_scale=10.0), 10.0),
    ],
)
@pytest.mark.parametrize("optimizer", ["sgd", SGD(1.0)], ids=["name", "object"])
def test_compile_takes_the_scale_of_the_policy(policy, scale, optimizer):
    with mp.policy_scope(policy):
        model = model_of(Add())
        model.compile(optimizer, "mse")
    assert float(model.optimizer.loss_scale) == scale
    if optimizer != "sgd":
        assert float(model.optimizer.learning_rate) == 1.0


@stands_for("model_test", "test_compile_wraps_with_loss_scale_optimizer")
def test_compile_wraps_no_wrapper_and_nothing_in_bfloat16():
    with mp.policy_scope("mixed_float16"):
        model = model_of(Add())
        optimizer = LossScaleOptimizer(SGD(1.0), mp.DynamicLossScale(1024, 2))
        model.compile(optimizer, "mse")
    assert model.optimizer is optimizer
    with mp.policy_scope("mixed_bfloat16"):
        model = model_of(Add())
        model.compile(SGD(1.0), "mse")
    assert isinstance(model.optimizer, SGD)


@stands_for("model_test", "test_pass_invalid_optimizer_with_loss_scaling")
def test_what_is_no_optimizer_is_refused_by_compile():
    with mp.policy_scope(mp.Policy("mixed_float16", loss_scale=10.0)):
        model = model_of(Add())
        with pytest.raises(ValueError, match="optimizer"):
            model.compile(object(), "mse")


@stands_for("model_test", "test_functional_model_loss_dtype")
def test_a_loss_is_not_cast_to_the_dtype_of_the_policy():
    class Losing(keras.layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(ops.cast(x, "float32")))
            return x

    with mp.policy_scope("float16"):
        model = model_of(Add(), Losing())
    model(np.ones((2, 1)))
    assert dtype_of(model.losses[0]) == "float32"


@stands_for("model_test", "test_save_weights_with_autocast_vars")
@pytest.mark.parametrize("name", ["m.weights.h5", "m.h5"])
def test_weights_are_saved_and_loaded(name, tmp_path):
    with mp.policy_scope("mixed_float16"):
        model = model_of(Add())
    model.set_weights([np.array(100.0)])
    (model.save_weights if "weights" in name else model.save)(tmp_path / name)
    for before, expected in (200.0, 201.0), (None, 101.0):
        if before is None:
            model.load_weights(tmp_path / name)
        else:
            model.set_weights([np.array(before)])
        assert numbers(model(np.ones((2, 1)))) == [[expected]] * 2


@stands_for("model_test", "test_save_slot_variables_with_autocast_vars")
def test_slots_are_saved_and_loaded(tmp_path):
    with mp.policy_scope(mp.Policy("mixed_float16", loss_scale=None)):
        model = model_of(Add())
        model.compile(SGD(1.0, momentum=1.0), mean_output)

    def slot():
        (found,) = (v for v in model.optimizer.variables if "momentum" in v.path)
        return float(found.numpy())

    fit(model)
    model.save_weights(tmp_path / "m.weights.h5")
    saved = slot()
    fit(model)
    assert slot() != saved
    model.load_weights(tmp_path / "m.weights.h5")
    assert slot() == saved


def trained_under_a_dynamic_scale():
    model = model_of(Add(), size=2, batch=2)
    rule = DynamicLossScale(1.0, 2.0, 2.0)
    model.compile(LossScaleOptimizer(SGD(1.0), rule), "mse")
    fit(model, size=2, steps=3)
    return model


def scale_and_count(model):
    optimizer = model.optimizer
    return float(optimizer.loss_scale), int(optimizer.dynamic_counter)


@stands_for("model_test", "test_save_weights_with_dynamic_loss_scaling")
def test_weights_keep_the_dynamic_scale(tmp_path):
    model = trained_under_a_dynamic_scale()
    assert scale_and_count(model) == (2.0, 1)
    model.save_weights(tmp_path / "m.weights.h5")
    fit(model, size=2)
    assert scale_and_count(model) == (4.0, 0)
    model.load_weights(tmp_path / "m.weights.h5")
    assert scale_and_count(model) == (2.0, 1)


@stands_for("model_test", "test_save_model_with_dynamic_loss_scaling")
def test_a_saved_model_keeps_the_scale_of_an_optimizer_of_ones_own(tmp_path):
    model = trained_under_a_dynamic_scale()
    expected = weight_of(model)
    model.save(tmp_path / "model.keras")
    fit(model, size=2)
    read = mp.load_model(tmp_path / "model.keras")
    assert weight_of(read) == expected
    assert scale_and_count(read) == (2.0, 1)
