"""tf.keras's tests of `LossScaleOptimizer`, and those of TensorFlow's own wrapper.

They ran with and without a `MirroredStrategy`, in graphs and eagerly; so they do here
where the backend has these.
"""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops
from peer import (
    BACKEND,
    documented,
    minimize,
    numbers,
    scaled_gradients,
    stands_for,
    tensor,
)

import keras_policies as mp
from keras_policies.experimental import (
    DynamicLossScale,
    FixedLossScale,
    LossScaleOptimizer,
)

SGD = keras.optimizers.SGD
NAN, INF = float("nan"), float("inf")
WAYS = ["eager"]
if BACKEND == "tensorflow":
    WAYS += ["graph", "mirrored", "mirrored graph"]
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")


class Way:
    """Takes steps in one of the ways."""

    def __init__(self, name):
        self.name, self.strategy = name, None
        if "mirrored" in name:
            import tensorflow as tf

            self.strategy = tf.distribute.MirroredStrategy(["cpu:0"])

    def scope(self):
        return self.strategy.scope() if self.strategy else contextlib.nullcontext()

    def step(self, optimizer, loss, variables):
        """Take one step; return the scaled gradients."""
        optimizer.build(variables)
        made = []

        def run():
            made[:] = scaled_gradients(optimizer, loss, variables)
            kept = [ops.convert_to_tensor(gradient) + 0 for gradient in made]
            optimizer.apply(made, variables)
            return kept

        if self.strategy:
            result = self._compiled(lambda: self.strategy.run(run))()
        else:
            result = self._compiled(run)()
        return [numbers(gradient) for gradient in result]

    def _compiled(self, function):
        if "graph" not in self.name:
            return function
        import tensorflow as tf

        return tf.function(function)


@pytest.fixture(params=WAYS)
def way(request):
    return Way(request.param)


def value(variable):
    return numbers(variable.value)


@stands_for("optimizer_test", "testFixedLossScaleAppliedToLossWithMinimize")
@stands_for("rewrite_test", "testFixedLossScaleAppliedToLossWithMinimize")
def test_a_fixed_scale_is_applied_to_the_loss(way):
    with way.scope():
        weight = keras.Variable([5.0])
        optimizer = LossScaleOptimizer(SGD(2.0), 10.0)
        assert float(optimizer.loss_scale) == 10.0
        assert ops.is_tensor(optimizer.loss_scale)
        assert way.step(optimizer, lambda: weight + 0, [weight]) == [[10.0]]
        assert value(weight) == [3.0]


@stands_for("optimizer_test", "testFixedLossScaleAppliedToLossWithGetGradients")
@stands_for("rewrite_test", "testFixedLossScaleAppliedToLossWithGetGradients")
@documented("Removed by Keras 3", raises=AttributeError)
def test_get_gradients():
    LossScaleOptimizer(SGD(), 10.0).get_gradients(tensor(1.0), [keras.Variable(1.0)])


@stands_for("optimizer_test", "testDynamicAttrsWithFixedLossScale")
def test_a_fixed_scale_has_no_dynamic_attributes():
    optimizer = LossScaleOptimizer(SGD(), dynamic=False, initial_scale=2.0)
    assert optimizer.dynamic is False
    assert optimizer.dynamic_counter is None
    assert optimizer.dynamic_growth_steps is None


@stands_for("optimizer_test", "testGetScaledLoss")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_get_scaled_loss(dtype):
    optimizer = LossScaleOptimizer(SGD(), dynamic=False, initial_scale=2.0)
    loss = tensor(5.0, dtype)
    for scaled in (
        optimizer.get_scaled_loss(loss),
        optimizer.get_scaled_loss(lambda: loss)(),
    ):
        assert numbers(scaled) == 10.0
        assert scaled.dtype == loss.dtype


@stands_for("optimizer_test", "testGetUnscaledGradients")
def test_get_unscaled_gradients():
    optimizer = LossScaleOptimizer(SGD(), dynamic=False, initial_scale=2)
    scaled = [tensor(3.0), None, tensor(-4.0, "float16")]
    unscaled = optimizer.get_unscaled_gradients(scaled)
    assert [g if g is None else numbers(g) for g in unscaled] == [1.5, None, -2.0]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="IndexedSlices: TensorFlow only")
@stands_for("optimizer_test", "testGetUnscaledSparseGradients")
def test_get_unscaled_sparse_gradients():
    import tensorflow as tf

    optimizer = LossScaleOptimizer(SGD(), dynamic=False, initial_scale=2)
    scaled = tf.IndexedSlices(tf.constant([[4.0, 2.0], [8.0, 5.0]]), [1, 3], [5, 2])
    (unscaled,) = optimizer.get_unscaled_gradients([scaled])
    assert isinstance(unscaled, tf.IndexedSlices)
    assert unscaled.values.numpy().tolist() == [[2.0, 1.0], [4.0, 2.5]]


@stands_for("optimizer_test", "testDynamicLossScale")
@stands_for("rewrite_test", "testDynamicLossScale")
def test_a_dynamic_scale_is_applied_to_the_loss(way):
    with way.scope():
        weight = keras.Variable([5.0])
        optimizer = LossScaleOptimizer(
            SGD(2.0), initial_scale=2, dynamic_growth_steps=1
        )
        assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (2.0, 1)
        assert type(optimizer.initial_scale) is float
        assert type(optimizer.dynamic_growth_steps) is int
        for gradient, expected in [(2.0, 3.0), (4.0, 1.0)]:
            assert way.step(optimizer, lambda: weight + 0, [weight]) == [[gradient]]
            assert value(weight) == [expected]


@stands_for("optimizer_test", "testDynamicLossScaleDefaultValues")
def test_default_values():
    optimizer = LossScaleOptimizer(SGD())
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (2**15, 2000)
    assert float(optimizer.loss_scale) == 2**15


@stands_for("optimizer_test", "testClipping")
@pytest.mark.parametrize("clip", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_unscaled_gradients_are_clipped(clip, way):
    with way.scope():
        weight = keras.Variable([5.0])
        optimizer = LossScaleOptimizer(
            SGD(2.0, **{clip: 2.0}), initial_scale=2, dynamic_growth_steps=1
        )
        assert getattr(optimizer, clip) == 2.0
        way.step(optimizer, lambda: weight * 4, [weight])
        assert (value(weight), float(optimizer.loss_scale)) == ([1.0], 4.0)
        setattr(optimizer, clip, 3.0)
        way.step(optimizer, lambda: weight * 4, [weight])
        assert (value(weight), float(optimizer.loss_scale)) == ([-5.0], 8.0)
        # An infinite gradient is skipped, not clipped.
        way.step(optimizer, lambda: weight * INF, [weight])
        assert (value(weight), float(optimizer.loss_scale)) == ([-5.0], 4.0)


@stands_for(
    "optimizer_test", "testDynamicUpdate", "testDynamicLossScaleWithFloat16Loss"
)
@stands_for("rewrite_test", "testDynamicUpdate")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_finite_gradients_double_the_scale_and_nan_halves_it(dtype, way):
    with way.scope():
        weight = keras.Variable([1.0, 2.0])
        optimizer = LossScaleOptimizer(
            SGD(1.0), initial_scale=2, dynamic_growth_steps=1
        )
        way.step(optimizer, lambda: ops.cast(weight * 2, dtype), [weight])
        assert (value(weight), float(optimizer.loss_scale)) == ([-1.0, 0.0], 4.0)
        way.step(optimizer, lambda: ops.cast(weight * NAN, dtype), [weight])
        assert (value(weight), float(optimizer.loss_scale)) == ([-1.0, 0.0], 2.0)


@stands_for("optimizer_test", "testDynamicLossScaleWithSlots")
@stands_for("rewrite_test", "testDynamicLossScaleWithSlots")
@pytest.mark.parametrize("multiplier", [2, 4])
def test_slots(multiplier, way):
    with way.scope():
        weight = keras.Variable([1.0, 2.0])
        rule = DynamicLossScale(2, 1, multiplier)
        optimizer = LossScaleOptimizer(SGD(1.0, momentum=1.0), rule)
        for expected, scale in [
            ([0.0, 1.0], 2 * multiplier),
            ([-2.0, -1.0], 2 * multiplier**2),
        ]:
            way.step(optimizer, lambda: weight + 0, [weight])
            assert (value(weight), float(optimizer.loss_scale)) == (expected, scale)


@stands_for("optimizer_test", "testDynamicLossScaleWithSlots")
@documented("Variables", raises=AttributeError)
def test_slots_have_names():
    assert LossScaleOptimizer(SGD(momentum=1.0)).get_slot_names() == ["momentum"]


@stands_for("optimizer_test", "testIterations")
@documented("Removed by Keras 3", raises=AttributeError)
def test_the_iterations_are_set():
    LossScaleOptimizer(SGD(), 10.0).iterations = 7


@stands_for("optimizer_test", "testIterationsIncremented")
def test_a_step_counts_in_the_iterations(way):
    with way.scope():
        weight = keras.Variable([5.0])
        optimizer = LossScaleOptimizer(SGD(1.0))
        way.step(optimizer, lambda: weight * 2, [weight])
        assert (value(weight), int(optimizer.applied_steps)) == ([3.0], 1)
        assert numbers(optimizer.iterations) == 1


@stands_for("optimizer_test", "testIterationsIncremented")
@documented("Skipped steps")
def test_a_skipped_step_counts_in_the_iterations():
    weight = keras.Variable([5.0])
    optimizer = LossScaleOptimizer(SGD(1.0))
    minimize(optimizer, lambda: weight * NAN, [weight])
    assert int(optimizer.iterations) == 1


@stands_for("optimizer_test", "testWeightMethods")
@documented("Variables", raises=AttributeError)
@pytest.mark.parametrize("method", ["get_weights", "weights"])
def test_weight_methods(method):
    getattr(LossScaleOptimizer(SGD()), method)


@stands_for(
    "optimizer_test", "testHyperParametersExposed", "testHyperParametersExposedLSOV3"
)
@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        ("learning_rate", 1.0, 0.25),
        ("lr", 1.0, 2.0),
        ("beta_1", 0.5, 0.25),
        ("use_ema", False, True),
        ("ema_momentum", 0.99, 0.5),
    ],
)
def test_hyperparameters_are_those_of_the_inner_optimizer(name, first, then):
    inner = keras.optimizers.Adam(1.0, beta_1=0.5, beta_2=0.9)
    optimizer = LossScaleOptimizer(inner)
    inner_name = "learning_rate" if name == "lr" else name
    assert float(getattr(optimizer, name)) == first
    setattr(optimizer, name, then)
    assert float(getattr(inner, inner_name)) == float(getattr(optimizer, name)) == then
    setattr(inner, inner_name, first)
    assert float(getattr(optimizer, name)) == first


@stands_for("optimizer_test", "testHyperParametersExposed")
def test_the_loss_scale_cannot_be_set():
    with pytest.raises(AttributeError, match="loss_scale"):
        LossScaleOptimizer(SGD()).loss_scale = 2.0


@stands_for("optimizer_test", "testArbitraryAttributesNotExposed", "testDir")
@documented("Hyperparameters")
def test_what_was_no_hyperparameter_is_not_passed_on():
    optimizer = LossScaleOptimizer(SGD())
    assert "nesterov" in dir(optimizer.inner_optimizer)
    assert not hasattr(optimizer, "nesterov")


@stands_for("optimizer_test", "testArbitraryAttributesNotExposed")
def test_what_no_optimizer_has_is_missing():
    words = "'LossScaleOptimizer' object has no attribute 'nestrov'"
    with pytest.raises(AttributeError, match=words):
        LossScaleOptimizer(SGD()).nestrov  # noqa: B018


@stands_for("optimizer_test", "testDir")
def test_dir():
    names = dir(LossScaleOptimizer(SGD()))
    assert {"learning_rate", "lr", "loss_scale", "apply_gradients"} <= {*names}


@stands_for("optimizer_test", "testDir")
@documented("Removed by Keras 3")
def test_dir_has_minimize():
    assert "minimize" in dir(LossScaleOptimizer(SGD()))


@stands_for("optimizer_test", "testApplyGradientsGetsUnwrappedTensors")
@documented("An optimizer of your own", raises=UserWarning)
def test_apply_gradients_of_the_inner_optimizer_is_called():
    class Own(keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars, **kwargs):
            return super().apply_gradients(grads_and_vars, **kwargs)

    LossScaleOptimizer(Own(), 1)


@stands_for("optimizer_test", "testApplyGradientsGetsUnwrappedTensorsWithNewOptimizer")
def test_apply_of_the_inner_optimizer_gets_tensors(way):
    seen = []

    class Own(keras.optimizers.SGD):
        def apply(self, grads, trainable_variables=None):
            seen.extend(ops.is_tensor(gradient) for gradient in grads)
            return super().apply(grads, trainable_variables)

    with way.scope():
        weight = keras.Variable([5.0])
        way.step(LossScaleOptimizer(Own(1.0), 1), lambda: weight * 2, [weight])
        assert seen == [True]
        assert value(weight) == [3.0]


@stands_for("optimizer_test", "testCustomAggregater")
def test_a_step_of_which_one_gradient_is_nan_is_skipped():
    weights = [keras.Variable([1.0]), keras.Variable([2.0])]
    optimizer = LossScaleOptimizer(SGD(1.0), initial_scale=2, dynamic_growth_steps=2)
    minimize(optimizer, lambda: weights[0] * 2 + weights[1] * NAN, weights)
    assert [value(weight) for weight in weights] == [[1.0], [2.0]]
    assert float(optimizer.loss_scale) == 1.0


@stands_for("optimizer_test", "testLossScaleDelegationWithWrapper")
def test_the_learning_rate_goes_through_another_wrapper():
    class Wrapper(keras.optimizers.Optimizer):
        def __init__(self):
            super().__init__(learning_rate=0.0)
            self.wrapped = SGD(1.0)

        @property
        def learning_rate(self):
            return self.wrapped.learning_rate

        @learning_rate.setter
        def learning_rate(self, rate):
            self.wrapped.learning_rate = rate

    optimizer = LossScaleOptimizer(Wrapper())
    assert float(optimizer.learning_rate) == 1.0
    optimizer.learning_rate = 2.0
    assert float(optimizer.inner_optimizer.wrapped.learning_rate) == 2.0


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.train.Checkpoint")
@stands_for("optimizer_test", "testCheckpoint")
@stands_for("rewrite_test", "testCheckpoint")
@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoint(compiled, tmp_path):
    import tensorflow as tf

    weight = keras.Variable([2.0])
    optimizer = LossScaleOptimizer(
        SGD(1.0, momentum=1.0), DynamicLossScale(1.0, 2.0, 2.0)
    )
    step = lambda: minimize(optimizer, lambda: weight + 1, [weight])  # noqa: E731
    if compiled:
        way = Way("graph")
        step = lambda: way.step(optimizer, lambda: weight + 1, [weight])  # noqa: E731
    step()
    expected = [1.0], 1.0, 1, 1
    state = lambda: (  # noqa: E731
        value(weight),
        float(optimizer.loss_scale),
        int(optimizer.dynamic_counter),
        int(optimizer.iterations),
    )
    assert state() == expected
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, weight=weight)
    path = checkpoint.save(tmp_path / "checkpoint")
    step()
    assert state() == ([-1.0], 2.0, 0, 2)
    checkpoint.restore(path).assert_consumed()
    assert state() == expected


OLD_SGD = {
    "class_name": "SGD",
    "config": {
        "learning_rate": 2.0,
        "momentum": 0.5,
        "decay": 0.0,
        "nesterov": False,
        "name": "SGD",
    },
}
DYNAMIC = {"initial_loss_scale": 2.0, "increment_period": 3, "multiplier": 2.0}
FORMS = {
    "v2": lambda rule: LossScaleOptimizer(SGD(2.0, momentum=0.5), rule).get_config(),
    "tf2_3": lambda rule: {
        "optimizer": OLD_SGD,
        "loss_scale": {
            "class_name": type(rule).__name__,
            "config": rule.get_config(),
        },
    },
}


@stands_for("optimizer_test", "testGetConfigFixed", "testGetConfigDynamic")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", [FixedLossScale(2), DynamicLossScale(2, 3)], ids=repr)
def test_configs(form, rule):
    optimizer = LossScaleOptimizer.from_config(FORMS[form](rule))
    assert float(optimizer.learning_rate) == 2.0
    assert float(optimizer.inner_optimizer.learning_rate) == 2.0
    assert optimizer.inner_optimizer.momentum == 0.5
    assert float(optimizer.loss_scale) == optimizer.initial_scale == 2.0
    assert optimizer.dynamic is rule.skips_nonfinite
    steps = 3 if optimizer.dynamic else None
    assert optimizer.dynamic_growth_steps == steps
    weight = keras.Variable([5.0])
    assert minimize(optimizer, lambda: weight + 0, [weight]) == [[2.0]]
    assert value(weight) == [3.0]
    if optimizer.dynamic:
        assert int(optimizer.dynamic_counter) == 1


@stands_for("optimizer_test", "test_from_config_with_invalid_multiplier")
@documented("Multipliers")
def test_a_config_with_another_multiplier_is_refused():
    config = FORMS["tf2_3"](DynamicLossScale(2, 3, 4))
    with pytest.raises(ValueError, match="multiplier is not 2"):
        LossScaleOptimizer.from_config(config)


@stands_for("optimizer_test", "testSerializationWithBuiltInOptimizer")
@pytest.mark.parametrize("version", ["", "V1", "V3"])
def test_serialization(version):
    optimizer = LossScaleOptimizer(
        SGD(2.0, momentum=0.5), initial_scale=2.0, dynamic_growth_steps=3.0
    )
    config = keras.optimizers.serialize(optimizer)
    if version:  # Keras has no such class
        config = {**config, "class_name": "LossScaleOptimizer" + version}
        read = keras.optimizers.deserialize(config)
    else:
        read = LossScaleOptimizer.from_config(config["config"])
        stock = keras.optimizers.LossScaleOptimizer
        assert type(keras.optimizers.deserialize(config)) is stock
    assert isinstance(read, mp.LossScaleOptimizer)
    assert float(read.learning_rate) == 2.0
    assert read.inner_optimizer.momentum == 0.5
    assert read.rule == DynamicLossScale(2, 3)
    weight = keras.Variable([5.0])
    assert minimize(read, lambda: weight + 0, [weight]) == [[2.0]]
    assert (value(weight), int(read.dynamic_counter)) == ([3.0], 1)


@stands_for("optimizer_test", "testSerializationWithCustomOptimizer")
def test_serialization_with_an_optimizer_of_ones_own():
    class Own(keras.optimizers.SGD):
        attribute = 123

    optimizer = LossScaleOptimizer(
        Own(2.0, momentum=0.5), initial_scale=2.0, dynamic_growth_steps=3.0
    )
    config = keras.optimizers.serialize(optimizer)
    read = LossScaleOptimizer.from_config(config["config"], {"Own": Own})
    assert (read.inner_optimizer.attribute, read.rule) == (123, DynamicLossScale(2, 3))


@stands_for("optimizer_test", "testInvalidArgsWithFixedLossScale")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, '"initial_scale" must be specified if "dynamic" is False'),
        (
            {"initial_scale": 1, "dynamic_growth_steps": 2},
            '"dynamic_growth_steps" must be None if "dynamic" is False, but got: 2',
        ),
    ],
)
def test_arguments_that_do_not_go_with_a_fixed_scale(arguments, words):
    with pytest.raises(ValueError, match=words):
        LossScaleOptimizer(SGD(), dynamic=False, **arguments)


@stands_for("optimizer_test", "testDynamicMustBeBool")
@documented("A bool")
def test_the_second_argument_is_a_bool():
    with pytest.raises(TypeError, match="must be a bool"):
        LossScaleOptimizer(SGD(), "dynamic")


@stands_for("optimizer_test", "testInvalidConstructorArguments")
@pytest.mark.parametrize("kind", [TypeError, ValueError])
@pytest.mark.parametrize("given", [1, "sgd"])
def test_what_is_no_optimizer_is_refused(given, kind):
    with pytest.raises(kind, match='"inner_optimizer" must be an instance of .*Optimi'):
        LossScaleOptimizer(given, 10.0)


@stands_for("optimizer_test", "testInvalidConstructorArguments")
@documented("Clipping")
@pytest.mark.parametrize("clip", ["clipnorm", "clipvalue"])
def test_an_optimizer_that_clips_is_refused(clip):
    with pytest.raises(ValueError, match="does not support wrapping optimizers with"):
        LossScaleOptimizer(SGD(**{clip: 1.0}), 10.0)


@stands_for("rewrite_test", "testPassingNoneToLossScale")
def test_the_loss_scale_cannot_be_none():
    with pytest.raises(ValueError, match="loss_scale cannot be None"):
        LossScaleOptimizer(SGD(), None)


@stands_for("optimizer_test", "testScalingWarning")
@documented("Changed warnings", raises=UserWarning)
def test_the_words_if_nothing_is_scaled():
    weight = keras.Variable(1.0)
    optimizer = LossScaleOptimizer(SGD())
    optimizer.build([weight])
    optimizer.apply([tensor(1.0)], [weight])
    with pytest.warns(UserWarning, match="You forgot to call LossScaleOptimizer.get_s"):
        optimizer.apply([tensor(1.0)], [weight])


@stands_for("optimizer_test", "testScalingWarning")
def test_if_nothing_is_scaled_that_is_warned_of():
    weight = keras.Variable(1.0)
    optimizer = LossScaleOptimizer(SGD())
    optimizer.apply([tensor(1.0)], [weight])
    with pytest.warns(UserWarning, match="the loss was never multiplied by it"):
        optimizer.apply([tensor(1.0)], [weight])


@stands_for("optimizer_test", "testScalingNoWarning")
def test_a_loop_that_scales_is_not_warned():
    weight = keras.Variable(1.0)
    optimizer = LossScaleOptimizer(SGD(0.5), 2)
    for expected in 0.5, 0.0:
        optimizer.get_scaled_loss(tensor(1.0))
        gradients = optimizer.get_unscaled_gradients([tensor(2.0)])
        optimizer.apply_gradients(zip(gradients, [weight], strict=True))
        assert value(weight) == expected


@stands_for("optimizer_test", "testErrorWhenNesting")
def test_a_wrapper_is_not_wrapped():
    words = "LossScaleOptimizer cannot wrap another LossScaleOptimizer"
    with pytest.raises(TypeError, match=words):
        LossScaleOptimizer(LossScaleOptimizer(SGD()))


@stands_for("optimizer_test", "testErrorWrappingSameOptimizerMultipleTimes")
def test_an_optimizer_is_wrapped_once():
    inner = SGD()
    LossScaleOptimizer(inner)
    words = '"inner_optimizer" is already wrapped by a LossScaleOptimizer.'
    with pytest.raises(ValueError, match=words):
        LossScaleOptimizer(inner)


@stands_for("optimizer_test", "testIsInstance")
def test_what_stock_keras_creates_is_its_own():
    stock = keras.optimizers.LossScaleOptimizer
    assert type(stock(SGD())) is stock
    assert isinstance(LossScaleOptimizer(SGD()), stock)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")
@stands_for("optimizer_test", "apply_gradients in a cross-replica context")
@hand_made
def test_gradients_are_applied_in_a_replica():
    way = Way("mirrored")
    with way.scope():
        weight = keras.Variable([1.0])
        optimizer = LossScaleOptimizer(SGD())
        optimizer.build([weight])
        words = "must be called in a replica context"
        with pytest.raises(ValueError, match=words):
            optimizer.apply([tensor([1.0])], [weight])


# torch: one scaler for a loop; here one wrapper for each optimizer. -----------------

DATA = np.random.default_rng(0).normal(size=(4, 8, 8)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(4, 8, 8)).astype("float32")
SKIPPED = 2


def two_layers():
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(8)]
    )
    draw = np.random.default_rng(2)
    model.set_weights([draw.normal(size=w.shape) * 0.3 for w in model.get_weights()])
    return model


def gradients_of(model, optimizer, x, y, divided_by=1.0):
    """Return scaled gradients by the wrapper, or those of the loss without one."""
    variables = model.trainable_variables
    unscaled = optimizer or LossScaleOptimizer(SGD(), 1)

    def loss():
        return ops.mean((model(x) - tensor(y)) ** 2) / divided_by

    return scaled_gradients(unscaled, loss, variables)


def with_infinity(gradients):
    return [gradients[0], gradients[1] * INF, *gradients[2:]]


def run_case(change, unskipped, skipped, inner=lambda: SGD(0.5)):
    """Compare a training with a scale, and one step overflowing, with one without."""
    control, scaled = two_layers(), two_layers()
    plain, rule = inner(), DynamicLossScale(128, 1)
    optimizer = LossScaleOptimizer(inner(), rule)
    for i, (x, y) in enumerate(zip(DATA, TARGETS, strict=True)):
        change(i, x, y, control, plain, None)
        change(i, x, y, scaled, optimizer, optimizer)
    assert float(optimizer.loss_scale) == 128 * 2**unskipped / 2**skipped
    assert int(optimizer.skipped_steps) == skipped
    for one, other in zip(control.get_weights(), scaled.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def plain_step(i, x, y, model, optimizer, wrapper):
    gradients = gradients_of(model, wrapper, x, y)
    if i == SKIPPED and wrapper is None:
        return
    if i == SKIPPED:
        gradients = with_infinity(gradients)
    optimizer.apply(gradients, model.trainable_variables)


@stands_for(
    "grad_scaler", "test_grad_scaling_autocast", "test_grad_scaling_autocast_foreach"
)
@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(lambda: SGD(0.5), id="SGD"),
        pytest.param(lambda: keras.optimizers.Adam(0.01), id="Adam"),
        pytest.param(lambda: keras.optimizers.AdamW(0.01), id="AdamW"),
    ],
)
def test_a_scaled_training_is_the_unscaled_one_without_the_overflowing_step(inner):
    run_case(plain_step, unskipped=3, skipped=1, inner=inner)


@stands_for("grad_scaler", "test_grad_scaling_clipping")
def test_clipping_by_the_scale_times_the_norm():
    def step(i, x, y, model, optimizer, wrapper):
        gradients = gradients_of(model, wrapper, x, y)
        scale = float(wrapper.loss_scale) if wrapper else 1.0
        gradients = clipped(gradients, 0.2 * scale)
        if i == SKIPPED and wrapper is None:
            return
        if i == SKIPPED:
            gradients = with_infinity(gradients)
        optimizer.apply(gradients, model.trainable_variables)

    run_case(step, unskipped=3, skipped=1)


@stands_for("grad_scaler", "test_grad_scaling_clipping_separate_unscale")
def test_clipping_after_unscaling():
    def step(i, x, y, model, optimizer, wrapper):
        gradients = gradients_of(model, wrapper, x, y)
        if i == SKIPPED and wrapper is None:
            return
        if i == SKIPPED:
            gradients = with_infinity(gradients)
        said = {"are_scaled": False} if wrapper else {}
        if wrapper:
            gradients = wrapper.get_unscaled_gradients(gradients)
        gradients = clipped(gradients, 0.2)
        optimizer.apply(gradients, model.trainable_variables, **said)

    run_case(step, unskipped=3, skipped=1)


def clipped(gradients, norm):
    total = ops.sqrt(sum(ops.sum(gradient**2) for gradient in gradients))
    factor = ops.minimum(norm / total, 1.0)
    return [gradient * factor for gradient in gradients]


@stands_for("grad_scaler", "test_grad_scaling_accumulation")
def test_accumulation():
    held = {}

    def step(i, x, y, model, optimizer, wrapper):
        gradients = gradients_of(model, wrapper, x, y, divided_by=2.0)
        gradients = [ops.convert_to_tensor(g) + 0 for g in gradients]
        if i % 2 == 0:
            held[optimizer] = gradients
            return
        sums = [a + b for a, b in zip(held[optimizer], gradients, strict=True)]
        optimizer.apply(sums, model.trainable_variables)

    run_case(step, unskipped=2, skipped=0)


@stands_for("grad_scaler", "test_grad_scaling_multiple")
@documented("One scale for each optimizer")
def test_two_optimizers_share_a_scale():
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    rule = DynamicLossScale(128, 1)
    first, second = (LossScaleOptimizer(SGD(1.0), rule) for _ in weights)
    minimize(first, lambda: weights[0] + 0, weights[:1])
    minimize(second, lambda: weights[1] * INF, weights[1:])
    assert float(first.loss_scale) == float(second.loss_scale)


@stands_for("grad_scaler", "test_grad_scaling_multiple")
def test_two_optimizers_have_scales_of_their_own():
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    rule = DynamicLossScale(128, 1)
    first, second = (LossScaleOptimizer(SGD(1.0), rule) for _ in weights)
    minimize(first, lambda: weights[0] + 0, weights[:1])
    minimize(second, lambda: weights[1] * INF, weights[1:])
    assert (float(first.loss_scale), float(second.loss_scale)) == (256.0, 64.0)
    assert [value(weight) for weight in weights] == [[0.0], [1.0]]


@stands_for(
    "grad_scaler",
    "test_params_invalidated_with_grads_invalidated_between_unscale_and_step",
)
@documented("Gradients")
def test_gradients_that_are_spoilt_after_unscaling_spoil_the_weights():
    weight = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(SGD(1.0), DynamicLossScale(128))
    (unscaled,) = optimizer.get_unscaled_gradients([tensor([128.0])])
    optimizer.apply([unscaled * NAN], [weight], are_scaled=False)
    assert np.isnan(value(weight)).all()


@stands_for("grad_scaler", "test_grad_scaling_state_dict")
def test_state_goes_from_one_optimizer_to_another():
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    first = LossScaleOptimizer(SGD(1.0), DynamicLossScale(3, 2, 4))
    second = LossScaleOptimizer(SGD(1.0), DynamicLossScale(6, 1, 7))
    minimize(first, lambda: weights[0] + 0, weights[:1])
    second.build(weights[1:])
    store = {}
    first.save_own_variables(store)
    second.load_own_variables(store)
    assert (float(second.loss_scale), int(second.dynamic_counter)) == (3.0, 1)


@pytest.mark.skipif(BACKEND != "torch", reason="sparse tensors of torch")
@stands_for("grad_scaler", "test_grad_scaling_unscale_sparse")
@pytest.mark.parametrize(
    ("dtype", "indices", "values", "skipped"),
    [
        ("float32", [[0, 1, 1], [2, 0, 2]], [16.0, 32.0, 64.0], 0),
        ("float32", [[0, 1, 1], [2, 0, 2]], [16.0, 32.0, INF], 1),
        ("float32", [[0, 1, 1], [2, 0, 2]], [16.0, 32.0, NAN], 1),
        ("float16", [[0, 1, 1], [2, 0, 2]], [16.0, 32.0, 64.0], 0),
        # Each value is finite, and the sum of the two at one place is not.
        ("float16", [[0, 1, 0], [2, 0, 2]], [64000.0, 32.0, 64000.0], 1),
    ],
)
@hand_made
def test_sparse_gradients_of_torch(dtype, indices, values, skipped):
    import torch

    weight = keras.Variable(np.zeros((2, 3)), dtype=dtype)
    gradient = torch.sparse_coo_tensor(
        indices,
        torch.tensor(values, dtype=getattr(torch, dtype)),
        (2, 3),
        check_invariants=True,
    )
    optimizer = LossScaleOptimizer(SGD(1.0), DynamicLossScale(4))
    optimizer.apply([gradient], [weight])
    assert int(optimizer.skipped_steps) == skipped
    if not skipped:
        assert value(weight) == (-gradient.to_dense() / 4).tolist()
