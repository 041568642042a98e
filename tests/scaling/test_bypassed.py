"""The warning that a wrapper never calls a method that an inner optimizer overrides."""

import inspect
import warnings

import keras
import pytest
from keras import ops

import keras_policies as mp
from keras_policies import LossScaleOptimizer

HAS_STATELESS = keras.backend.backend() != "tensorflow"
METHODS = ["apply_gradients", "scale_loss", *["stateless_apply"] * HAS_STATELESS]
calls = []


def calling(name):
    """Return an SGD that notes each call of a method."""

    def method(self, *args, **kwargs):
        calls.append(name)
        return getattr(keras.optimizers.SGD, name)(self, *args, **kwargs)

    return type("Own", (keras.optimizers.SGD,), {name: method})(1.0)


def use(optimizer):
    """Call what a loop may call of an optimizer."""
    w = keras.Variable([4.0])
    optimizer.build([w])
    gradient = optimizer.scale_loss(ops.convert_to_tensor([1.0]))
    optimizer.apply([gradient], [w])
    optimizer.apply_gradients([(gradient, w)])
    if HAS_STATELESS:
        values = [ops.convert_to_tensor(v) for v in optimizer.variables]
        optimizer.stateless_apply(values, [gradient], [ops.convert_to_tensor(w)])


@pytest.mark.parametrize("name", METHODS)
def test_an_override_that_the_wrapper_never_calls_is_warned_of(name):
    match = f"Own overrides {name}, which LossScaleOptimizer does not call: .* apply "
    with pytest.warns(UserWarning, match=match) as caught:
        optimizer = LossScaleOptimizer(calling(name), 8)
    assert caught[0].filename == __file__
    calls.clear()
    use(optimizer)
    assert calls == []
    use(calling(name))
    assert name in calls


@pytest.mark.parametrize("name", METHODS)
def test_a_method_patched_on_an_optimizer_is_warned_of(name):
    inner = keras.optimizers.SGD(1.0)
    setattr(inner, name, lambda *args, **kwargs: calls.append(name))
    with pytest.warns(UserWarning, match=f"SGD overrides {name}, which Loss.* apply "):
        LossScaleOptimizer(inner, 8)


@pytest.mark.parametrize("name", ["apply", "update_step"])
def test_an_override_that_the_wrapper_calls_is_not(name):
    calls.clear()
    use(LossScaleOptimizer(calling(name), 8))
    assert calls == [name] * (2 + HAS_STATELESS)


def test_compile_warns_too():
    model = keras.Sequential([keras.layers.Dense(1, dtype="float32")])
    model.dtype_policy = mp.Policy("mixed_float16")
    with pytest.warns(UserWarning, match="Own overrides apply_gradients"):
        model.compile(calling("apply_gradients"), "mse")


OPTIMIZERS = [
    cls
    for _, cls in inspect.getmembers(keras.optimizers, inspect.isclass)
    if issubclass(cls, keras.optimizers.Optimizer)
    and cls not in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer)
]


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_the_optimizers_of_keras_override_nothing_of_that_kind(cls):
    given = [{".*": keras.optimizers.SGD()}] if cls.__name__ == "MultiOptimizer" else []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LossScaleOptimizer(cls(*given), 8)
