import json

import keras
import numpy as np
import pytest
from keras import ops
from semantics import DATA, SEMANTICS

import keras_policies as mp
from keras_policies import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleOptimizer,
)

# For tests whose gradients are those of no loss.
hand_made = pytest.mark.filterwarnings("ignore:LossScaleOptimizer divides")

BACKEND = keras.backend.backend()
on_tensorflow = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="tf.IndexedSlices, tf.function: TensorFlow only"
)


def numpy(x):
    return ops.convert_to_numpy(x)


def tensor(x, dtype="float32"):
    return ops.convert_to_tensor(x, dtype=dtype)


def state(optimizer, variables):
    return [numpy(v) for v in [*optimizer.inner_optimizer.variables, *variables]]


def step(how, optimizer, grads, variables):
    """Apply gradients of a scaled loss in one of the ways Keras has."""
    if how == "apply":
        optimizer.apply(grads, variables)
    elif how == "apply_gradients":
        optimizer.apply_gradients(zip(grads, variables, strict=True))
    else:
        if not optimizer.built:
            optimizer.build(variables)
        values = [v.value for v in variables], [v.value for v in optimizer.variables]
        function = optimizer.stateless_apply
        if how == "jit":
            import jax

            function = jax.jit(function)
        new_variables, new_state = function(values[1], grads, values[0])
        for v, value in zip(variables, new_variables, strict=True):
            v.assign(value)
        for v, value in zip(optimizer.variables, new_state, strict=True):
            v.assign(value)


# Keras refuses stateless_apply on TensorFlow.
STATELESS = {"jax": ["stateless", "jit"], "torch": ["stateless"]}
WAYS = ["apply", "apply_gradients", *STATELESS.get(BACKEND, [])]
INNER = {
    "sgd": lambda **k: keras.optimizers.SGD(0.5, momentum=0.9, **k),
    "adam": lambda **k: keras.optimizers.Adam(0.1, **k),
}
INNER_OPTIONS = {
    "plain": {},
    "clipnorm": {"clipnorm": 0.1},
    "global_clipnorm": {"global_clipnorm": 0.1},
    "ema": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "accumulation": {"gradient_accumulation_steps": 2},
    "weight-decay": {"weight_decay": 0.1},
}


@hand_made
@pytest.mark.parametrize("options", INNER_OPTIONS)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("how", WAYS)
def test_scaled_training_is_unscaled_training(how, inner, options):
    rng = np.random.default_rng(0)
    gradients = [[rng.normal(size=3), rng.normal(size=())] for _ in range(4)]
    plain = INNER[inner](**INNER_OPTIONS[options])
    scaled = LossScaleOptimizer(INNER[inner](**INNER_OPTIONS[options]), 64)
    ours = [keras.Variable([1.0, 2.0, 3.0]), keras.Variable(4.0)]
    theirs = [keras.Variable(v) for v in ours]
    for pair in gradients:
        plain.apply([tensor(g) for g in pair], theirs)
        step(how, scaled, [tensor(64 * g) for g in pair], ours)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), rtol=2e-6, atol=1e-6)
    assert int(scaled.iterations) == int(plain.iterations)


@hand_made
@pytest.mark.parametrize("options", INNER_OPTIONS)
@pytest.mark.parametrize("how", WAYS)
def test_overflow_leaves_no_trace(how, options):
    optimizer = LossScaleOptimizer(
        INNER["adam"](**INNER_OPTIONS[options]), DynamicLossScale(64, 3)
    )
    variables = [keras.Variable([1.0, 2.0]), keras.Variable(3.0)]
    step(how, optimizer, [tensor([64.0, 64.0]), tensor(64.0)], variables)
    before = state(optimizer, variables)
    for number, bad in enumerate([float("nan"), float("inf"), -float("inf")], 1):
        step(how, optimizer, [tensor([64.0, 64.0]), tensor(bad)], variables)
        for a, b in zip(before, state(optimizer, variables), strict=True):
            np.testing.assert_array_equal(a, b)
        assert float(optimizer.loss_scale) == 64 / 2**number
        counts = int(optimizer.skipped_steps), int(optimizer.applied_steps)
        assert counts == (number, 1)


def test_training_in_which_every_step_overflows_leaves_the_weights():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    inner = keras.optimizers.SGD(0.1, use_ema=True)
    model.compile(LossScaleOptimizer(inner, DynamicLossScale(8)), "mse")
    before = [numpy(weight) for weight in model.weights]
    model.fit(np.full((4, 1), np.inf), np.zeros((4, 1)), verbose=0)
    for one, other in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(one, numpy(other))


@hand_made
@pytest.mark.parametrize("how", WAYS)
def test_scale_grows_after_its_period(how):
    optimizer = LossScaleOptimizer(
        keras.optimizers.SGD(0.0), DynamicLossScale(8, 3, 4.0)
    )
    variables = [keras.Variable([1.0])]
    scales = []
    for gradient in [1, 1, 1, 1, float("nan"), 1, 1, 1]:
        step(how, optimizer, [tensor([gradient])], variables)
        scales.append(float(optimizer.loss_scale))
    assert scales == [8.0, 8.0, 32.0, 32.0, 8.0, 8.0, 8.0, 32.0]
    assert float(optimizer.scale_loss(tensor(2.0))) == 64.0


def test_fixed_scale_neither_checks_nor_skips():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 8)
    variable = keras.Variable([1.0, 1.0])
    optimizer.apply([tensor([8.0, float("inf")])], [variable])
    assert numpy(variable).tolist() == [0.0, -float("inf")]
    assert float(optimizer.loss_scale) == 8.0
    assert int(optimizer.iterations) == 1
    assert not optimizer.dynamic


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_gradients_are_unscaled_without_underflow(dtype):
    # 2^-24 / 2^15 is nothing in float16, yet is what the variable must get.
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(2.0**30), FixedLossScale(2**15))
    variable = keras.Variable([0.0])
    optimizer.apply([tensor([2.0**-14], dtype)], [variable])
    assert numpy(variable).tolist() == [-2.0]


@hand_made
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_narrow_variables_accumulate(how, dtype):
    inner = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer = LossScaleOptimizer(inner, DynamicLossScale(8))
    variable = keras.Variable([0.0], dtype=dtype)
    for gradient in 8.0, 24.0:
        step(how, optimizer, [tensor([gradient], dtype)], [variable])
    assert keras.backend.standardize_dtype(variable.dtype) == dtype
    assert numpy(variable).tolist() == [-2.0]


def test_scale_above_float16_is_no_trouble():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), FixedLossScale(2.0**20))
    variable = keras.Variable([1.0])
    optimizer.apply([tensor([2.0**10], "float16")], [variable])
    assert numpy(variable).tolist() == [1 - 2.0**-10]
    assert float(optimizer.scale_loss(tensor(1.0, "float16"))) == 2.0**20


def test_none_gradients_are_left_out():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
    variables = [
        keras.Variable([1.0], name="used"),
        keras.Variable([1.0], name="lonely"),
    ]
    with pytest.warns(UserWarning, match="Gradients do not exist for.*lonely"):
        optimizer.apply([tensor([8.0]), None], variables)
    assert [numpy(v).tolist() for v in variables] == [[0.0], [1.0]]


def test_variables_that_take_their_gradient_as_value_are_not_unscaled():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
    variables = [keras.Variable([1.0]), keras.Variable([1.0])]
    variables[1].overwrite_with_gradient = True
    optimizer.apply([tensor([8.0]), tensor([24.0])], variables)
    assert [numpy(v).tolist() for v in variables] == [[0.0], [24.0]]


@hand_made
def test_schedules_do_not_advance_on_skipped_steps():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 0.5])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(schedule), DynamicLossScale(8))
    variable = keras.Variable([4.0])
    values = []
    for gradient in [float("nan"), 4.0, 4.0]:
        optimizer.apply([tensor([gradient])], [variable])
        values.append(float(numpy(variable)[0]))
    assert values == [4.0, 3.0, 2.5]


def test_subset_of_the_variables_may_be_applied():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
    variables = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer.build(variables)
    optimizer.apply([tensor([8.0])], variables[1:])
    assert [numpy(v).tolist() for v in variables] == [[1.0], [0.0]]


def test_a_step_without_variables_does_nothing():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 8)
    variable = keras.Variable([1.0])
    optimizer.apply([], [])
    optimizer.apply([tensor([8.0])], [variable], are_scaled=True)
    assert numpy(variable).tolist() == [0.0]


class Unending(LossScale):
    initial_loss_scale = float("inf")

    def after_step(self, scale, good_steps, finite):
        return scale, good_steps

    def get_config(self):
        return {}


class TestConstructor:
    @pytest.mark.parametrize(
        ("arguments", "rule"),
        [
            pytest.param(("dynamic",), DynamicLossScale(), id="name"),
            pytest.param((), DynamicLossScale(), id="default"),
            pytest.param((128,), FixedLossScale(128), id="number"),
            pytest.param((np.float32(128),), FixedLossScale(128), id="numpy"),
            pytest.param((DynamicLossScale(4, 3),), DynamicLossScale(4, 3), id="value"),
        ],
    )
    def test_forms(self, arguments, rule):
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(), *arguments)
        assert optimizer.rule == rule
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        assert float(optimizer.loss_scale) == rule.initial_loss_scale

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            pytest.param(
                {"loss_scale": "abc"}, ValueError, "Could not interpret", id="abc"
            ),
            pytest.param(
                {"loss_scale": None}, ValueError, "nothing to scale", id="none"
            ),
            pytest.param(
                {"loss_scale": True}, ValueError, "cannot be a bool.*experim", id="bool"
            ),
            pytest.param(
                {"dynamic": False, "initial_scale": 64},
                ValueError,
                "`dynamic`, `initial_scale`. Pass the loss scale as loss_scale.*experi",
                id="of-tf-keras",
            ),
            pytest.param(
                {"loss_scale": Unending()},
                ValueError,
                "must be positive and finite in float32. Received: .*=inf of Unending",
                id="own-rule",
            ),
            pytest.param(
                {"clipnorm": 1.0}, ValueError, "on the `inner_optimizer`", id="clipnorm"
            ),
            pytest.param(
                {"foo": 1, "bar": 2}, ValueError, "arguments: `foo`, `bar`", id="others"
            ),
            pytest.param(
                {"inner_optimizer": "sgd"}, TypeError, "optimizers.get", id="name"
            ),
            pytest.param(
                {"inner_optimizer": LossScaleOptimizer(keras.optimizers.SGD())},
                TypeError,
                "scaled twice",
                id="nested",
            ),
        ],
    )
    def test_bad_arguments(self, arguments, error, match):
        with pytest.raises(error, match=match):
            LossScaleOptimizer(
                **{"inner_optimizer": keras.optimizers.SGD(), **arguments}
            )

    def test_loss_scale_factor_of_the_inner_optimizer_loses(self):
        inner = keras.optimizers.SGD(1.0, loss_scale_factor=4.0)
        with pytest.warns(
            UserWarning, match="loss_scale_factor=4.0.*The loss scale is used"
        ):
            optimizer = LossScaleOptimizer(inner, 8)
        variable = keras.Variable([1.0])
        optimizer.apply([tensor([8.0])], [variable])
        assert numpy(variable).tolist() == [0.0]

    def test_inner_optimizer_that_is_built_keeps_its_state(self):
        inner, variable = keras.optimizers.SGD(1.0, momentum=0.5), keras.Variable([1.0])
        inner.apply([tensor([1.0])], [variable])
        slots = len(inner.variables)
        optimizer = LossScaleOptimizer(inner, 8)
        optimizer.apply([tensor([8.0])], [variable])
        assert len(inner.variables) == slots
        assert numpy(variable).tolist() == [-1.5]


class TestConfig:
    def test_is_that_of_the_stock_optimizer(self):
        ours = LossScaleOptimizer(
            keras.optimizers.SGD(0.5), DynamicLossScale(64, 5), "lso"
        )
        # The class itself creates ours; a subclass is as stock Keras made it.
        subclass = type("Stock", (keras.optimizers.LossScaleOptimizer,), {})
        stock = subclass(
            keras.optimizers.SGD(0.5),
            initial_scale=64.0,
            dynamic_growth_steps=5,
            name="lso",
        )
        stock.inner_optimizer.name = ours.inner_optimizer.name
        assert ours.get_config() == stock.get_config()
        assert keras.saving.serialize_keras_object(ours) == {
            "module": "keras.optimizers",
            "class_name": "LossScaleOptimizer",
            "config": stock.get_config(),
            "registered_name": None,
        }

    def test_fixed_scale_never_grows_in_stock_keras(self):
        config = LossScaleOptimizer(keras.optimizers.SGD(), 64).get_config()
        stock = config["initial_scale"], config["dynamic_growth_steps"]
        assert stock == (64.0, 2**31 - 1)

    def test_from_config_leaves_the_config_alone(self):
        config = LossScaleOptimizer(
            keras.optimizers.SGD(), DynamicLossScale(64, 5)
        ).get_config()
        before = dict(config)
        assert LossScaleOptimizer.from_config(config).rule == DynamicLossScale(64, 5)
        assert config == before


class TestLegacyLoop:
    """get_scaled_loss, get_unscaled_gradients, then unscaled gradients applied."""

    @pytest.fixture
    def optimizer(self):
        return LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))

    def test_unscaled_gradients_are_applied_as_they_are(self, optimizer):
        variable = keras.Variable([4.0, 4.0])
        for expected in [[3.0, 2.0], [2.0, 0.0]]:
            unscaled = optimizer.get_unscaled_gradients([tensor([8.0, 16.0])])
            optimizer.apply_gradients([(unscaled[0], variable)])
            assert numpy(variable).tolist() == expected

    def test_clipped_gradients_are_applied_as_they_are(self, optimizer):
        variable = keras.Variable([4.0])
        (unscaled,) = optimizer.get_unscaled_gradients([tensor([80.0])])
        optimizer.apply_gradients([(ops.clip(unscaled, -1, 1), variable)])
        assert numpy(variable).tolist() == [3.0]

    def test_scaled_gradients_are_recognized(self, optimizer):
        variable, scaled = keras.Variable([4.0]), tensor([8.0])
        optimizer.get_unscaled_gradients([scaled])
        with pytest.raises(ValueError, match="takes unscaled gradients.*are_scaled=Tr"):
            optimizer.apply_gradients([(scaled, variable)])
        optimizer.apply_gradients([(scaled, variable)], are_scaled=True)
        assert numpy(variable).tolist() == [3.0]

    def test_scale_loss_returns_to_scaled_gradients(self, optimizer):
        variable = keras.Variable([4.0])
        optimizer.get_unscaled_gradients([tensor([8.0])])
        optimizer.scale_loss(tensor(1.0))
        optimizer.apply([tensor([8.0])], [variable])
        assert numpy(variable).tolist() == [3.0]

    def test_a_generator_of_gradients_is_unscaled(self, optimizer):
        given = (tensor([x]) for x in (8.0, 16.0))
        unscaled = optimizer.get_unscaled_gradients(given)
        assert [numpy(gradient).tolist() for gradient in unscaled] == [[1.0], [2.0]]

    def test_overflow_is_skipped(self, optimizer):
        variable = keras.Variable([4.0])
        unscaled = optimizer.get_unscaled_gradients([tensor([float("inf")])])
        optimizer.apply_gradients(zip(unscaled, [variable], strict=True))
        assert numpy(variable).tolist() == [4.0]
        assert float(optimizer.loss_scale) == 4.0

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    def test_dtypes_are_as_recorded(self, optimizer, dtype):
        recorded = SEMANTICS["2.4.4"]["unscaled"]
        truth = recorded[f"get_scaled_loss / get_unscaled_gradients, {dtype}"]
        loss = optimizer.get_scaled_loss(tensor(2.0, dtype))
        assert [float(loss), keras.backend.standardize_dtype(loss.dtype)] == truth[
            "scaled_loss"
        ]
        gradient, nothing = optimizer.get_unscaled_gradients(
            [tensor(16.0, dtype), None]
        )
        assert [
            float(gradient),
            keras.backend.standardize_dtype(gradient.dtype),
            nothing,
        ] == truth["unscaled"]
        assert (
            float(optimizer.get_scaled_loss(lambda: tensor(2.0, dtype))())
            == truth["callable"]
        )


@on_tensorflow
class TestTensorFlow:
    @pytest.mark.parametrize("clip", [False, True])
    @pytest.mark.parametrize(
        "split", [False, True], ids=["one-function", "two-functions"]
    )
    @pytest.mark.parametrize("compiled", ["eager", "function", "xla"])
    def test_legacy_custom_loop_runs_unchanged(self, compiled, split, clip):
        import tensorflow as tf

        optimizer = LossScaleOptimizer(
            keras.optimizers.SGD(0.25), DynamicLossScale(8, 2)
        )
        variable = keras.Variable([4.0])

        def gradients(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable.value * x)
                scaled_loss = optimizer.get_scaled_loss(loss)
            scaled = tape.gradient(scaled_loss, [variable.value])
            unscaled = optimizer.get_unscaled_gradients(scaled)
            return tf.clip_by_global_norm(unscaled, 1.0)[0] if clip else unscaled

        def apply(grads):
            optimizer.apply_gradients(zip(grads, [variable], strict=True))

        def train(x):
            apply(gradients(x))

        wrap = {
            "eager": lambda f: f,
            "function": tf.function,
            "xla": lambda f: tf.function(f, jit_compile=True),
        }[compiled]
        if split:
            get = wrap(gradients)
            optimizer.build([variable])
            run = lambda x: apply(get(x))  # noqa: E731
        else:
            optimizer.build([variable])
            run = wrap(train)
        seen = []
        for x in [2.0, 2.0, float("inf"), 2.0]:
            run(tf.constant([x]))
            seen.append((float(variable.numpy()[0]), float(optimizer.loss_scale)))
        d = 0.25 if clip else 0.5
        assert seen == [
            (4 - d, 8.0),
            (4 - 2 * d, 16.0),
            (4 - 2 * d, 8.0),
            (4 - 3 * d, 8.0),
        ]

    @hand_made
    def test_scaled_gradients_and_new_values_meet_in_a_graph(self):
        import tensorflow as tf

        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
        variables = [keras.Variable([4.0]), keras.Variable([4.0])]
        variables[1].overwrite_with_gradient = True
        optimizer.build(variables)

        @tf.function
        def train(x):
            optimizer.apply([8 * x, 2 * x], variables)

        for x, expected in [(1.0, [3.0, 2.0]), (float("inf"), [3.0, 2.0])]:
            train(tf.constant([x]))
            assert [float(numpy(v)[0]) for v in variables] == expected

    @hand_made
    def test_sparse_gradients(self):
        import tensorflow as tf

        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
        table = keras.Variable(np.ones((3, 2), "float32"))
        for value, expected in [(8.0, 0.0), (float("nan"), 0.0)]:
            gradient = tf.IndexedSlices(
                tf.fill((1, 2), value), tf.constant([1]), (3, 2)
            )
            optimizer.apply([gradient], [table])
            assert numpy(table).tolist() == [[1, 1], [expected, expected], [1, 1]]
        assert float(optimizer.loss_scale) == 4.0

    @pytest.mark.parametrize(
        ("scale", "values", "indices", "skipped", "expected"),
        [
            # The largest number of float16 is 65504.
            pytest.param(1, [64000] * 2, [0, 0], 1, [0, 0], id="sum-overflows"),
            pytest.param(
                8, [64000] * 2, [0, 0], 0, [-16000, 0], id="quotient-does-not"
            ),
            pytest.param(1, [64000] * 2, [0, 1], 0, [-64000] * 2, id="two-rows"),
            pytest.param(1, [64000, 64000, -64000], [0] * 3, 0, [-64000, 0], id="less"),
            pytest.param(1, [8, np.nan], [0, 1], 1, [0, 0], id="nan"),
        ],
    )
    @pytest.mark.parametrize("jit_compile", [False, True])
    @pytest.mark.parametrize("legacy", [False, True])
    @hand_made
    def test_float16_rows_of_one_index_are_added_up_before_they_are_checked(
        self, scale, values, indices, skipped, expected, jit_compile, legacy
    ):
        import tensorflow as tf

        rule = DynamicLossScale(scale)
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), rule)
        table = keras.Variable([[0.0], [0.0]], dtype="float16")
        optimizer.build([table])
        rows = tf.constant([[value] for value in values], "float16")

        def train():
            gradients = [tf.IndexedSlices(rows, tf.constant(indices), (2, 1))]
            if legacy:
                gradients = optimizer.get_unscaled_gradients(gradients)
            optimizer.apply_gradients(zip(gradients, [table], strict=True))

        tf.function(train, jit_compile=jit_compile)()
        assert int(optimizer.skipped_steps) == skipped
        assert numpy(table).ravel().tolist() == expected

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    @hand_made
    def test_sparse_gradients_in_a_legacy_loop(self, dtype):
        import tensorflow as tf

        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
        table = keras.Variable(np.ones((3, 2), "float32"))
        gradient = tf.IndexedSlices(
            tf.fill((1, 2), tf.cast(8.0, dtype)), tf.constant([1]), (3, 2)
        )
        unscaled = optimizer.get_unscaled_gradients([gradient])
        optimizer.apply_gradients(zip(unscaled, [table], strict=True))
        assert numpy(table).tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.skipif(BACKEND != "jax", reason="a jax BCOO array: jax only")
@pytest.mark.parametrize("rows", [3, 3000])
@pytest.mark.parametrize("compiled", [False, True])
@hand_made
def test_sparse_gradients_of_jax(rows, compiled):
    import jax
    from jax.experimental.sparse import BCOO

    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicLossScale(8))
    table = keras.Variable(np.ones((rows, 2), "float32"))
    optimizer.build([table])

    def train(state, value):
        entries = jax.numpy.full((1, 2), value)
        gradient = BCOO((entries, jax.numpy.array([[1]])), shape=(rows, 2))
        return optimizer.stateless_apply(state[1], [gradient], state[0])

    run = jax.jit(train) if compiled else train
    state = [table.value], [v.value for v in optimizer.variables]
    for value in 8.0, float("nan"):
        state = run(state, value)
        expected = [[1, 1], [0, 0], [1, 1]]
        assert numpy(state[0][0])[:3].tolist() == expected
    names = [variable.path.split("/")[-1] for variable in optimizer.variables]
    assert float(state[1][names.index("dynamic_scale")]) == 4.0


TF24 = json.loads((DATA / "training_tf24.json").read_text("utf8"))["cases"]


@pytest.mark.parametrize("name", TF24)
def test_twenty_steps_as_in_tensorflow_2_4(name):
    case = TF24[name]
    x, y = np.float32(case["x"]), np.float32(case["y"])
    loss_scale, optimizer = {
        "fixed": (128, keras.optimizers.SGD(0.05, momentum=0.5)),
        "dynamic": (
            DynamicLossScale(2.0**20, 3, 2.0),
            keras.optimizers.SGD(0.05, momentum=0.5),
        ),
    }[name]
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=loss_scale))
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.set_weights([np.float32(w) for w in case["initial"]])
    model.compile(optimizer, "mse")
    scales = []
    for truth in case["steps"]:
        model.train_on_batch(x, y)
        scales.append(float(model.optimizer.loss_scale))
        for ours, theirs in zip(model.get_weights(), truth["weights"], strict=True):
            # Activations round to 2**-11 of their size, of about 4.
            np.testing.assert_allclose(ours, theirs, atol=2e-3)
    assert scales == [truth["loss_scale"] for truth in case["steps"]]
    overflows = sum(b < a for a, b in zip([2.0**20, *scales], scales, strict=False))
    assert overflows >= (5 if name == "dynamic" else 0)
