"""The source code of what `compile` was given."""

import inspect

import keras
import numpy as np
import pytest
from keras import layers

import keras_policies
from keras_policies._common import arguments

# By the class of the usual value of an argument: another value.
OTHER = {int: lambda n: n + 1, float: lambda _: 0.25, bool: lambda flag: not flag}
once = pytest.mark.once("the text depends on no backend")


def net():
    inputs = keras.Input((4,), name="x")
    return keras.Model(inputs, layers.Dense(3, name="y")(inputs))


def built_from(text):
    namespace = {}
    exec(compile(text, "model.py", "exec"), namespace)
    return namespace["build_model"]()


def parts_of_training():
    """Yield classes of losses, metrics and initializers, and their arguments.

    All but STFT, which needs scipy.
    """
    needed = {"num_classes": 3, "target_class_ids": [0], "fn": keras.losses.hinge}
    for module in keras.losses, keras.metrics, keras.initializers:
        for name, cls in vars(module).items():
            if isinstance(cls, type) and name == cls.__name__ != "STFT":
                parameters = inspect.signature(cls).parameters.values()
                given = {
                    p.name: needed.get(p.name, 0.5)
                    for p in parameters
                    if p.default is p.empty and p.kind is not p.VAR_KEYWORD
                }
                yield cls, given, parameters


@once
def test_no_argument_of_a_loss_a_metric_or_an_initializer_is_lost():
    unsaved = set()
    for cls, given, parameters in parts_of_training():
        for each in parameters:
            value = OTHER.get(type(each.default), lambda _: None)(each.default)
            if each.name == "dtype" and issubclass(cls, keras.losses.Loss):
                value = "float64"
            if value is None or value == each.default:
                continue
            part = cls(**given, **{each.name: value})
            if each.name not in part.get_config():
                unsaved.add((cls.__name__, each.name))
                assert not arguments.unsaved(cls(**given))
                assert arguments.unsaved(part)[each.name] == value
    assert {
        ("Huber", "delta"),
        ("Huber", "dtype"),
        ("CosineSimilarity", "axis"),
    } < unsaved


@once
def test_arguments_that_keras_does_not_save_are_written():
    inputs = keras.Input((3,))
    start = keras.initializers.Identity(gain=0.25)
    a = layers.Dense(3, kernel_initializer=start)(inputs)
    model = keras.Model(inputs, {"a": a, "b": layers.Dense(3)(inputs)})
    losses, cosine = keras.losses, keras.metrics.CosineSimilarity
    # Keras has one config for both, and one for these metrics.
    model.compile(
        loss={"a": losses.Huber(delta=0.5), "b": losses.Huber(delta=2.0)},
        metrics={"a": [cosine("c", axis=0), cosine("c", axis=1)], "b": [cosine("c")]},
    )
    text = keras_policies.to_source(model, compile=True, train=True)
    for line in (
        "kernel_initializer=keras.initializers.Identity(gain=0.25),",
        '"a": keras.losses.Huber(delta=0.5)',
        '"b": keras.losses.Huber(delta=2.0)',
        'keras.metrics.CosineSimilarity(name="c", axis=0)',
        'keras.metrics.CosineSimilarity(name="c", axis=1)',
        '"b": [keras.metrics.CosineSimilarity(name="c")]',
    ):
        assert line in text
    built, rows = built_from(text), [*np.ones((2, 2, 3))]
    for name, wanted in model.loss.items():
        assert built.loss[name](*rows) == wanted(*rows)


@keras.saving.register_keras_serializable()
class Measuring(layers.Layer):
    """It has a metric, which is among those of the model."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.own = keras.metrics.CosineSimilarity("c", axis=1)

    def call(self, x):
        return x


@once
def test_a_metric_of_a_layer_is_not_taken_for_one_of_compile():
    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, Measuring(name="m")(inputs))
    for before in [], ["mae"], ["mae", "mse"]:
        metric = keras.metrics.CosineSimilarity("c", axis=0)
        model.compile(loss="mse", metrics=[*before, metric])
        text = keras_policies.to_source(model, compile=True)
        assert 'keras.metrics.CosineSimilarity(name="c", axis=0)' in text
        assert "axis=1" not in text


@once
def test_losses_keep_their_names():
    model = net()
    for name in "huber", "huber_1", "huber_loss":
        model.compile(loss=keras.losses.Huber(name=name))
        text = keras_policies.to_source(model, compile=True)
        assert built_from(text).loss.name == name


@keras.saving.register_keras_serializable()
class Doubling(keras.losses.Loss):
    """Its config doubles its weight."""

    def __init__(self, weight, name="doubling"):
        super().__init__(name=name)
        self.weight = weight

    def call(self, y_true, y_pred):
        return self.weight * (y_true - y_pred)

    def get_config(self):
        return {"weight": 2 * self.weight, "name": self.name}


@once
def test_a_training_that_code_does_not_build_is_refused():
    model = net()
    model.compile(loss=Doubling(1.0))
    with pytest.raises(
        ValueError, match=r"Doubling\(4\.0\).*expected.*Doubling\(2\.0\)"
    ):
        keras_policies.to_source(model, compile=True)
    assert "build_model" in keras_policies.to_source(model)


@keras.saving.register_keras_serializable()
class Slower(keras_policies.DynamicLossScale):
    """Another rule, with the usual multiplier."""


@once
def test_a_loss_scale_becomes_that_of_plain_keras_or_is_refused():
    model, inner = net(), keras.optimizers.Adam()
    scale = keras_policies.DynamicLossScale(1024.0, 3)
    model.compile(keras_policies.LossScaleOptimizer(inner, scale), "mse")
    text = keras_policies.to_source(model, compile=True)
    built = built_from(text).optimizer
    assert type(built) is keras.optimizers.LossScaleOptimizer
    assert (built.initial_scale, built.dynamic_growth_steps) == (1024.0, 3)
    assert "keras_policies" not in text
    for scale in (
        keras_policies.FixedLossScale(16.0),
        keras_policies.DynamicLossScale(1024.0, 3, 4.0),
        Slower(1024.0, 3),
    ):
        optimizer = keras_policies.LossScaleOptimizer(keras.optimizers.Adam(), scale)
        model.compile(optimizer, "mse")
        kind = type(scale).__name__
        with pytest.raises(
            ValueError, match=rf"plain Keras has no {kind}\(.*compile=F"
        ):
            keras_policies.to_source(model, compile=True)
