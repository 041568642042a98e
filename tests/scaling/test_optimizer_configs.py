"""What a config or a file holds of a `LossScaleOptimizer`, and what is read from it."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import keras_policies as mp
from keras_policies import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleOptimizer,
    experimental,
)

Stock = keras.optimizers.LossScaleOptimizer
X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
NAN = np.full((8, 4), np.nan, "float32")


class Halving(LossScale):
    """The rule in the docstring of `LossScale`."""

    initial_loss_scale = 1024.0

    def after_step(self, scale, good_steps, finite):
        return ops.where(finite, scale, scale / 2), good_steps + 1

    def get_config(self):
        return {}


@keras.saving.register_keras_serializable("test_configs")
class Registered(Halving):
    def __init__(self, first):
        self.initial_loss_scale = first

    def get_config(self):
        return {"first": self.initial_loss_scale}


RULES = [
    FixedLossScale(128),
    FixedLossScale(1),
    DynamicLossScale(1024, 7),
    DynamicLossScale(1024, 2**31 - 1),
    DynamicLossScale(1024, 7, 4.0, minimum=8, maximum=4096),
    DynamicLossScale(0.5, 7, minimum=0.25),
    DynamicLossScale(0.5, 7),
    Registered(512.0),
]


def compiled(rule):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), rule)
    model.compile(optimizer, keras.losses.MeanSquaredError())
    optimizer.build(model.trainable_variables)
    return model


def json_of(optimizer):
    return json.loads(json.dumps(optimizer.get_config()))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_from_config_gives_the_same_rule(rule):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), rule, "mine")
    written = json_of(optimizer)
    read = LossScaleOptimizer.from_config(written)
    assert (read.rule, read.name) == (rule, "mine")
    assert read.get_config() == written == json_of(optimizer)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_file_gives_the_same_rule_and_a_scale_that_skips_goes_on_skipping(
    rule, suffix, tmp_path
):
    path = tmp_path / f"model.{suffix}"
    compiled(rule).save(path)
    model = mp.load_model(path)
    assert type(model.optimizer) is LossScaleOptimizer
    assert model.optimizer.rule == rule
    if suffix == "h5":  # stock Keras does not go on training with what it has restored
        inner = keras.optimizers.SGD(0.1)
        model.compile(LossScaleOptimizer(inner, model.optimizer.rule), "mse")
    model.train_on_batch(NAN, Y)
    weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
    assert np.isfinite(weights).all() == rule.skips_nonfinite


LOST = "A file cannot hold the loss scale Halving.*optimizer will move it as Dynamic"


@pytest.mark.parametrize("custom_objects", [None, {"Halving": Halving}])
def test_a_rule_that_keras_does_not_know_is_told_once_when_it_is_saved(
    custom_objects, tmp_path
):
    with pytest.warns(mp.KerasPoliciesWarning, match=LOST) as warned:
        compiled(Halving()).save(tmp_path / "model.keras")
    assert [w.category for w in warned].count(mp.KerasPoliciesWarning) == 1
    if custom_objects:
        model = mp.load_model(tmp_path / "model.keras", custom_objects)
        assert model.optimizer.rule == Halving()
    else:
        with pytest.warns(UserWarning, match="has an unknown class"):
            model = mp.load_model(tmp_path / "model.keras")
        assert model.optimizer.rule == DynamicLossScale(1024, 2**31 - 1)
    before = model.get_weights()
    model.train_on_batch(NAN, Y)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("error::keras_policies.KerasPoliciesWarning")
def test_the_scale_of_a_policy_is_dropped_silently(tmp_path):
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=Halving()))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", keras.losses.MeanSquaredError())
    assert model.optimizer.rule == Halving()
    model.save(tmp_path / "model.keras")
    assert "loss_scale" not in model.optimizer.get_config()["inner_optimizer"]


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_plain_keras_opens_a_file_with_a_rule(suffix, tmp_path, plain_keras):
    model = compiled(FixedLossScale(128))
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / f"model.{suffix}")
    outputs, _ = plain_keras(tmp_path / f"model.{suffix}", X)
    np.testing.assert_allclose(outputs[0], model.predict(X, verbose=0), rtol=1e-5)


def test_stock_keras_reads_what_it_knows_of_a_config():
    ours = LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicLossScale(64, 5, 4.0))
    stock = Stock.from_config(json_of(ours))
    assert type(stock) is Stock
    assert (stock.initial_scale, stock.dynamic_growth_steps) == (64.0, 5)
    assert "loss_scale" not in stock.get_config()["inner_optimizer"]


@pytest.mark.parametrize("steps", [2**31 - 1, 2**31, 0, -1])
def test_no_growth_period_of_stock_keras_stands_for_a_fixed_scale(steps):
    inner = keras.optimizers.serialize(keras.optimizers.SGD())
    config = {"initial_scale": 64.0, "dynamic_growth_steps": steps}
    read = LossScaleOptimizer.from_config({"inner_optimizer": inner, **config})
    assert read.rule == DynamicLossScale(64, 2**31 - 1)


@pytest.mark.parametrize(
    ("arguments", "keywords", "rule"),
    [
        pytest.param((), {}, DynamicLossScale(), id="default"),
        pytest.param(("dynamic",), {}, DynamicLossScale(), id="2.0-dynamic"),
        pytest.param((128,), {}, FixedLossScale(128), id="2.0-number"),
        pytest.param((Halving(),), {}, Halving(), id="2.0-rule"),
        pytest.param((True,), {}, DynamicLossScale(), id="true"),
        pytest.param((True, 1024), {}, DynamicLossScale(1024), id="true-scale"),
        pytest.param((True, 1024, 5), {}, DynamicLossScale(1024, 5), id="true-steps"),
        pytest.param((False, 128), {}, FixedLossScale(128), id="false"),
        pytest.param(
            (np.bool_(False),), {"initial_scale": 128}, FixedLossScale(128), id="numpy"
        ),
        pytest.param(
            (),
            {"dynamic": True, "initial_scale": 64, "dynamic_growth_steps": 5},
            DynamicLossScale(64, 5),
            id="2.4",
        ),
        pytest.param(
            (), {"dynamic": False, "initial_scale": 64}, FixedLossScale(64), id="fixed"
        ),
        pytest.param(
            (),
            {"initial_scale": 64.0, "dynamic_growth_steps": 5, "name": "mine"},
            DynamicLossScale(64, 5),
            id="keras-3",
        ),
    ],
)
def test_the_experimental_class_takes_the_arguments_of_all_releases(
    arguments, keywords, rule
):
    cls = experimental.LossScaleOptimizer
    optimizer = cls(keras.optimizers.SGD(), *arguments, **keywords)
    assert optimizer.rule == rule
    assert isinstance(optimizer, LossScaleOptimizer)
    assert "name" not in keywords or optimizer.name == keywords["name"]


def test_a_file_has_no_trace_of_the_experimental_class():
    inner = keras.optimizers.SGD()
    optimizer = experimental.LossScaleOptimizer(inner, False, 64)
    written = keras.saving.serialize_keras_object(optimizer)
    assert written["class_name"] == "LossScaleOptimizer"
    assert (written["module"], written["registered_name"]) == ("keras.optimizers", None)
    assert experimental.LossScaleOptimizer.from_config(written["config"]).rule == (
        FixedLossScale(64)
    )


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"loss_scale": 4, "dynamic": True}, "not both"),
        ({"dynamic": False}, "must be specified"),
        ({"loss_scale": False}, "must be specified"),
        ({"loss_scale": True, "dynamic": True}, "Pass dynamic once"),
        ({"loss_scale": np.ones(2), "initial_scale": 8}, "not both"),
        ({"dynamic": False, "initial_scale": 8, "dynamic_growth_steps": 2}, "be None"),
    ],
)
def test_arguments_of_old_releases_that_contradict_each_other(arguments, match):
    with pytest.raises(ValueError, match=match):
        experimental.LossScaleOptimizer(keras.optimizers.SGD(), **arguments)
