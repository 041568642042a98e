import functools
import shutil
import sysconfig
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_policies as mp
from keras_policies import DynamicLossScale, FixedLossScale, LossScaleOptimizer
from keras_policies.diagnostics import summary as summaries
from keras_policies.loss_scaling import status

BACKEND = keras.backend.backend()
Stock = keras.optimizers.LossScaleOptimizer
X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = X[:, :1] * 2


def sequential(**kwargs):
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(4, **kwargs),
            keras.layers.Dense(1, **kwargs),
        ]
    )


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        pytest.param(mp.Policy("mixed_float16"), DynamicLossScale(), id="default"),
        pytest.param(mp.Policy("mixed_float16", 128), FixedLossScale(128), id="fixed"),
        pytest.param(mp.Policy("float16", "dynamic"), DynamicLossScale(), id="float16"),
        pytest.param(mp.Policy("infer", 8), FixedLossScale(8), id="infer"),
        pytest.param(mp.Policy("mixed_float16", None), None, id="none"),
        pytest.param(mp.Policy("mixed_bfloat16"), None, id="bfloat16"),
        pytest.param(mp.Policy("float32"), None, id="float32"),
    ],
)
@pytest.mark.parametrize("where", ["global", "model"])
def test_optimizer_is_wrapped_as_the_models_policy_says(policy, rule, where):
    if where == "global":
        mp.set_policy(policy)
        model = sequential()
    else:
        model = Subclassed(dtype=policy)
    optimizer = keras.optimizers.SGD()
    model.compile(optimizer, "mse")
    if rule is None:
        assert model.optimizer is optimizer
        return
    assert type(model.optimizer) is LossScaleOptimizer
    assert model.optimizer.rule == rule
    assert model.optimizer.inner_optimizer is optimizer


def test_auto_scale_loss_false_means_no_wrapping():
    mp.set_policy("mixed_float16")
    model = sequential()
    model.compile("sgd", "mse", auto_scale_loss=False)
    assert isinstance(model.optimizer, keras.optimizers.SGD)


def test_an_input_layer_computes_nothing_that_a_scale_would_help():
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=1024))
    entry = keras.Input((4,))
    model = keras.Model(entry, keras.layers.Dense(1, dtype="float32")(entry))
    model.dtype_policy = keras.DTypePolicy("float32")
    model.compile("adam", "mse")  # without a warning, which would be an error here
    assert isinstance(model.optimizer, keras.optimizers.Adam)


def test_no_optimizer_is_no_trouble():
    mp.set_policy("mixed_float16")
    model = sequential()
    model.compile(optimizer=None, loss="mse")
    assert model.optimizer is None
    model.evaluate(X, Y, verbose=0)


@pytest.mark.parametrize("cls", [Stock, LossScaleOptimizer])
def test_optimizer_already_wrapped_is_kept(cls):
    optimizer = cls(keras.optimizers.SGD())
    mp.set_policy("mixed_float16")
    model = sequential()
    model.compile(optimizer, "mse")
    assert model.optimizer is optimizer
    mp.set_policy(mp.Policy("mixed_float16", 8))
    model = sequential()
    with pytest.warns(UserWarning, match="it is kept.*FixedLossScale\\(8.0\\)"):
        model.compile(optimizer, "mse")
    assert model.optimizer is optimizer
    mp.set_policy(mp.Policy("mixed_float16", None))
    model = sequential()
    model.compile(optimizer, "mse")
    assert model.optimizer is optimizer


@pytest.mark.parametrize("cls", [Stock, LossScaleOptimizer])
def test_a_policy_whose_scale_was_not_given_says_nothing_of_another(cls):
    optimizer = cls(keras.optimizers.SGD(), 4096)
    mp.set_policy(mp.Policy("mixed_float16"))
    model = sequential()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile(optimizer, "mse")
    assert model.optimizer is optimizer
    given = Subclassed(dtype=mp.Policy("mixed_float16", "dynamic"))
    with pytest.warns(UserWarning, match="policy.*is ignored"):
        given.compile(optimizer, "mse")


def test_layers_alone_never_cause_wrapping_and_compile_says_so_once():
    model = sequential(dtype=mp.Policy("mixed_float16", 8))
    with pytest.warns(UserWarning, match="not be scaled.*set_policy") as caught:
        model.compile("sgd", "mse")
    assert [warning.filename for warning in caught] == [__file__]
    assert isinstance(model.optimizer, keras.optimizers.SGD)


def test_compile_says_that_a_map_does_not_scale_the_loss():
    policies = keras.dtype_policies.DTypePolicyMap(
        default_policy=mp.Policy("mixed_float16", 8)
    )
    mp.set_policy(policies)
    for model in sequential(), Subclassed():
        with pytest.warns(UserWarning, match="FixedLossScale.*DTypePolicyMap.*set_pol"):
            model.compile("sgd", "mse")
        assert isinstance(model.optimizer, keras.optimizers.SGD)


def mixed_model_under_float32(how, tmp_path):
    mp.set_policy("mixed_float16")
    model = sequential()
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    mp.set_policy(None)
    if how == "clone":
        return keras.models.clone_model(model)
    return keras.models.load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("how", ["clone", "file"])
def test_a_copy_under_float32_is_compiled_and_trained_as_by_stock(how, tmp_path):
    model = mixed_model_under_float32(how, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.compile("sgd", "mse")
        model.fit(X, Y, verbose=0)
        model.train_on_batch(X, Y)
    assert isinstance(model.optimizer, keras.optimizers.SGD)
    assert "float16 without a loss scale" in str(summaries.rows_of(model)[0].risks)


def test_layers_warn_not_where_something_scales_or_the_user_said_no():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layers = sequential(dtype=mp.Policy("mixed_float16", 8))
        layers.compile(LossScaleOptimizer(keras.optimizers.SGD()), "mse")
        sequential(dtype=mp.Policy("mixed_float16", 8)).compile(
            "sgd", auto_scale_loss=False
        )
        sequential(dtype=mp.Policy("mixed_float16", None)).compile("sgd", "mse")
        keras.config.set_dtype_policy("mixed_float16")
        stock = sequential(dtype=mp.Policy("mixed_float16", 8))
        stock.compile("sgd", "mse")
        assert type(stock.optimizer) is Stock


def test_models_without_our_policy_are_scaled_and_compiled_by_stock():
    keras.config.set_dtype_policy("mixed_float16")
    model = sequential()
    model.compile("sgd", "mse")
    assert type(model.optimizer) is Stock
    assert "auto_scale_loss" not in model.get_compile_config()


def test_two_models_under_one_policy_share_nothing():
    mp.set_policy(mp.Policy("mixed_float16", DynamicLossScale(2.0**100)))
    models = [sequential(), sequential()]
    for model in models:
        model.compile(keras.optimizers.SGD(), "mse")
    models[0].train_on_batch(X, Y)
    models[1].optimizer.build(models[1].trainable_variables)
    assert [float(m.optimizer.loss_scale) for m in models] == [2.0**99, 2.0**100]


def test_recompiling_with_the_same_optimizer_keeps_its_state():
    mp.set_policy(mp.Policy("mixed_float16", 8))
    model, optimizer = sequential(), keras.optimizers.Adam()
    for steps in 1, 2:
        model.compile(optimizer, "mse")
        model.train_on_batch(X, Y)
        assert int(optimizer.iterations) == steps
    assert len(optimizer.variables) == 2 + 2 * 4


JIT = {"jax": [True, False], "tensorflow": [True, False]}.get(BACKEND, [False])


@pytest.mark.parametrize("jit_compile", JIT)
@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("loss_scale", [64, DynamicLossScale(2.0**18, 4)], ids=repr)
def test_fit_evaluate_and_predict(loss_scale, steps, run_eagerly, jit_compile):
    if run_eagerly and jit_compile:
        return  # Keras refuses that with a warning
    if steps > 1 and BACKEND == "torch":
        return  # Keras has no steps_per_execution there
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=loss_scale))
    model = sequential()
    model.compile(
        keras.optimizers.Adam(0.1),
        "mse",
        run_eagerly=run_eagerly,
        jit_compile=jit_compile,
        steps_per_execution=steps,
    )
    before = model.evaluate(X, Y, verbose=0)
    model.fit(X, Y, batch_size=8, epochs=6, verbose=0)
    assert model.evaluate(X, Y, verbose=0) < before / 4
    assert model.predict(X, verbose=0).dtype == np.float16
    optimizer = model.optimizer
    assert int(optimizer.skipped_steps) + int(optimizer.applied_steps) == 24
    assert (int(optimizer.skipped_steps) > 0) == (loss_scale != 64)


def ten_steps(jit_compile):
    """Return what ten steps do to the loss scale, and to the weights."""
    keras.utils.set_random_seed(1)
    mp.set_policy(mp.Policy("float32", loss_scale=DynamicLossScale(2.0**127, 3)))
    model = sequential()
    model.compile(keras.optimizers.Adam(), "mse", jit_compile=jit_compile)
    optimizer, scales = model.optimizer, []
    for _ in range(10):
        model.train_on_batch(X[:8], 100 + Y[:8])
        scales.append(float(optimizer.loss_scale))
    counts = int(optimizer.skipped_steps), int(optimizer.applied_steps)
    return scales, counts, model.get_weights()


HEADER = Path(sysconfig.get_path("include"), "Python.h")


COMPILERS = [
    "aot_eager",  # graphs and gradients, without kernels
    pytest.param("inductor", marks=pytest.mark.slow("it calls g++", weekly=True)),
]


@pytest.mark.slow("each step is compiled")
@pytest.mark.skipif(BACKEND != "torch", reason="torch.compile")
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.filterwarnings("ignore")  # torch's, of graph breaks in Keras
def test_steps_compiled_by_torch_skip_what_others_skip(compiler, monkeypatch):
    import torch

    if compiler == "inductor" and not (shutil.which("g++") and HEADER.exists()):
        pytest.skip("torch.compile calls g++, with Python's headers")
    compiled = functools.partial(torch.compile, backend=compiler)
    monkeypatch.setattr(torch, "compile", compiled)
    scales, counts, weights = ten_steps(jit_compile=False)
    assert min(counts) > 2
    compiled_scales, compiled_counts, compiled_weights = ten_steps(jit_compile=True)
    assert (compiled_scales, compiled_counts) == (scales, counts)
    for compiled, weight in zip(compiled_weights, weights, strict=True):
        np.testing.assert_allclose(compiled, weight, rtol=1e-5)


def fit_with_logger(loss_scale, target=Y, epochs=2, callbacks=()):
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=loss_scale))
    model = sequential()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    callbacks = [mp.LossScaleLogger(), *callbacks]
    return model.fit(
        X, target, batch_size=8, epochs=epochs, verbose=2, callbacks=callbacks
    )


def test_logger_counts_the_skipped_steps_of_each_epoch(capsys, tmp_path):
    csv = tmp_path / "log.csv"
    history = fit_with_logger(
        DynamicLossScale(2.0**120, 2000, 2.0**50),
        callbacks=[keras.callbacks.CSVLogger(csv)],
    )
    # 2^120, 2^70 and 2^20 overflow; 2^-30 would be below the minimum of 1.
    assert history.history["loss_scale"] == [1.0, 1.0]
    assert history.history["skipped_steps"] == [3, 0]
    shown = capsys.readouterr().out
    assert "loss_scale: " in shown
    assert "skipped_steps: " in shown
    assert csv.read_text("utf8").startswith("epoch,loss,loss_scale,skipped_steps")


def test_logger_warns_once_when_training_has_come_to_a_halt():
    nothing = np.full_like(Y, np.nan)
    with pytest.warns(
        UserWarning, match="Every step of epoch 1 was skipped.*1.0"
    ) as caught:
        history = fit_with_logger(DynamicLossScale(1.0), nothing, epochs=3)
    assert sum("Every step" in str(w.message) for w in caught) == 1
    assert history.history["skipped_steps"] == [4, 4, 4]


def test_logger_tells_weights_that_are_not_finite_from_gradients_that_are_not():
    mp.set_policy(mp.Policy("mixed_float16", DynamicLossScale(1.0)))
    model = sequential()
    model.compile("sgd", "mse")
    nothing = np.full_like(Y, np.nan)
    with pytest.warns(UserWarning, match="a log, a division or an epsilon that is"):
        model.fit(X, nothing, verbose=0, callbacks=[mp.LossScaleLogger()])
    model.layers[0].bias.assign([np.nan] * 4)
    with pytest.warns(
        UserWarning, match="1.0. 1 of 4 weights hold inf or NaN, so no"
    ) as caught:
        model.fit(X, Y, verbose=0, callbacks=[mp.LossScaleLogger()])
    ours = [warning for warning in caught if "1 of 4 weights" in str(warning.message)]
    assert [warning.filename for warning in ours] == [__file__]


def test_logger_warns_once_when_a_fixed_scale_has_lost_the_weights():
    mp.set_policy(mp.Policy("mixed_float16", 2.0**24))
    model = sequential()
    model.compile("sgd", "mse")
    with pytest.warns(
        UserWarning,
        match=r"The loss of epoch 1 is nan. FixedLossScale\(16777216.0\) never skips a "
        "step.*; now 4 of 4 weights hold inf or NaN.*'dynamic' or a lower one",
    ) as caught:
        model.fit(
            X, Y, batch_size=8, epochs=3, verbose=0, callbacks=[mp.LossScaleLogger()]
        )
    assert sum("never skips" in str(w.message) for w in caught) == 1


def test_logger_warns_of_a_loss_that_is_not_finite_though_the_weights_are():
    logger = mp.LossScaleLogger()
    mp.set_policy(mp.Policy("mixed_float16", 2))
    model = sequential()
    model.compile("sgd", "mse")
    logger.set_model(model)
    logger.on_train_begin()
    logger.on_epoch_end(0)
    logger.on_epoch_end(1, {"loss": 1.0})
    with pytest.warns(
        UserWarning, match="epoch 3 is inf.*all of them are still finite"
    ):
        logger.on_epoch_end(2, {"loss": np.float32(np.inf)})


class TwoOptimizers(keras.Model):
    """As a GAN of the tutorials: `compile` wraps the default optimizer, unused here."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.dense.build((None, 4))
        self.built = True

    def call(self, x):
        return self.dense(x)

    def compile(self, d_optimizer):
        super().compile()
        self.d_optimizer = d_optimizer

    def train_step(self, *args):
        return {"loss": 1.0} if BACKEND != "jax" else ({"loss": 1.0}, args[0])


def test_logger_logs_no_scale_that_multiplied_nothing():
    mp.set_policy("mixed_float16")
    model = TwoOptimizers()
    model.compile(keras.optimizers.Adam())
    logger = mp.LossScaleLogger()
    with pytest.warns(
        UserWarning,
        match="logs no loss scale: model.optimizer made no step.*has self.d_optimizer",
    ) as caught:
        history = model.fit(X, epochs=2, verbose=0, callbacks=[logger])
    assert np.isnan(history.history["loss_scale"]).tolist() == [True, True]
    assert sum("logs no loss scale" in str(w.message) for w in caught) == 1


def test_summary_names_optimizers_that_scale_nothing():
    mp.set_policy("mixed_float16")
    model = TwoOptimizers()
    model.compile(keras.optimizers.Adam())
    risks = summaries.rows_of(model)[0].risks
    assert any("self.d_optimizer (Adam) scales no loss" in risk for risk in risks)
    assert str(status.scaling_of(model)) == "dynamic, 32768 (of model.optimizer)"
    model.compile(LossScaleOptimizer(keras.optimizers.Adam()))
    assert not any("scales no loss" in r for r in summaries.rows_of(model)[0].risks)


def test_fit_warns_if_its_last_step_was_skipped_at_the_lowest_scale():
    mp.set_policy(mp.Policy("mixed_float16", DynamicLossScale(2.0)))
    model = sequential()
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="loss scale 1, its min.*minimum=") as caught:
        model.fit(X, np.full_like(Y, np.nan), batch_size=8, verbose=0)
    (said,) = [str(w.message) for w in caught if "fit ended" in str(w.message)]
    assert "applied 0 steps and skipped 4" in said
    model.fit(X, Y, batch_size=8, verbose=0)  # steps are applied again: no warning


def test_a_scale_that_still_falls_is_not_warned_of():
    mp.set_policy(mp.Policy("mixed_float16", DynamicLossScale(2.0**10)))
    model = sequential()
    model.compile("sgd", "mse")
    model.fit(X, np.full_like(Y, np.nan), batch_size=8, verbose=0)
    assert float(model.optimizer.loss_scale) == 64.0


def test_logger_shows_a_fixed_scale():
    history = fit_with_logger(128)
    assert history.history["loss_scale"] == [128.0, 128.0]
    assert history.history["skipped_steps"] == [0, 0]


def test_logger_says_when_nothing_is_scaled():
    model = sequential()
    model.compile("sgd", "mse")
    logger = mp.LossScaleLogger()
    with pytest.warns(
        UserWarning,
        match="LossScaleLogger has nothing to log.*SGD, not.*set_policy.*"
        r"compile it with keras_policies.LossScaleOptimizer\(model.optimizer\)",
    ):
        history = model.fit(X, Y, epochs=2, verbose=0, callbacks=[logger])
    assert sorted(history.history) == ["loss"]
    model.fit(X, Y, verbose=0, callbacks=[logger])  # says so once


@pytest.mark.parametrize("make", [keras.Sequential.from_config, None])
def test_a_model_read_under_a_policy_without_a_scale_asks_for_none(make):
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=None))
    model = sequential()
    copied = make(model.get_config()) if make else keras.models.clone_model(model)
    copied.compile("sgd", "mse")  # a warning would fail the test
    assert isinstance(copied.optimizer, keras.optimizers.SGD)
    copied.layers[0].dtype_policy = mp.Policy("mixed_float16", loss_scale=8)
    with pytest.warns(UserWarning, match=r"FixedLossScale\(8.0\).*has a loss sc"):
        copied.compile("sgd", "mse")


@pytest.mark.parametrize("policy", ["mixed_float16", "float16", "mixed_bfloat16"])
@pytest.mark.parametrize("floatx", ["float32", "float16"])
def test_an_activity_regularizer_trains_in_any_dtype(policy, floatx):
    keras.config.set_floatx(floatx)
    regularizer = keras.regularizers.L2(0.125)
    model = sequential(dtype=mp.Policy(policy), activity_regularizer=regularizer)
    model.dtype_policy = mp.Policy(policy)
    model.set_weights([np.full(w.shape, 0.5) for w in model.get_weights()])
    model.compile("sgd", "mse")
    history = model.fit(np.ones((8, 4)), np.full((8, 1), 6.5), verbose=0)
    # The outputs are 2.5 four times, and 5.5. Keras 3.8 adds the losses of the examples
    # up; newer ones take their mean.
    layer = keras.layers.ActivityRegularization(l2=1, dtype="float32")
    layer(np.ones((8, 1)))
    count = float(layer.losses[0])
    expected = (6.5 - 5.5) ** 2 + 0.125 * count * (4 * 2.5**2 + 5.5**2)
    assert history.history["loss"] == [pytest.approx(expected, 1e-2)]


def stock_model(how, tmp_path):
    if how == "set_policy":
        mp.set_policy(keras.DTypePolicy("mixed_float16"))
    else:
        keras.config.set_dtype_policy("mixed_float16")
    model = sequential()
    model.compile("sgd", "mse")
    if how != "file":
        return model
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("how", ["keras.config", "set_policy", "file"])
def test_the_loss_is_scaled_by_stock_keras_where_it_wraps(how, tmp_path):
    model = stock_model(how, tmp_path)
    assert type(model.optimizer) is Stock
    assert not hasattr(model.optimizer, "get_scaled_loss")
    assert model.optimizer.dynamic_growth_steps == 2000
    history = model.fit(X, Y, verbose=0, callbacks=[mp.LossScaleLogger()])
    scale = float(model.optimizer.dynamic_scale.value)
    assert history.history["loss_scale"] == [scale]


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        pytest.param((), {}, (2.0**15, 2000), id="defaults"),
        pytest.param((64.0, 5), {}, (64.0, 5), id="position"),
        pytest.param(
            (),
            {"initial_scale": 64, "dynamic_growth_steps": 5},
            (64, 5),
            id="names",
        ),
        pytest.param((64, 2**31 - 1), {}, (64, 2**31 - 1), id="never-grows"),
        pytest.param((False, 64), {}, (False, 64), id="2.4"),
    ],
)
@pytest.mark.parametrize("module", [keras.optimizers, keras.mixed_precision])
def test_keras_own_names_of_the_class_create_stocks(
    module, arguments, settings, expected
):
    inner = keras.optimizers.SGD(1.0)
    optimizer = module.LossScaleOptimizer(inner, *arguments, **settings, name="mine")
    assert type(optimizer) is module.LossScaleOptimizer is Stock
    assert (optimizer.inner_optimizer, optimizer.name) == (inner, "mine")
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == expected
    module.LossScaleOptimizer(inner, *arguments, **settings)  # stock wraps twice


def test_stock_keras_still_refuses_what_it_refused():
    inner = keras.optimizers.SGD(1.0)
    with pytest.raises(ValueError, match="no longer supports `dynamic=False`"):
        Stock(inner, dynamic=False, initial_scale=64)


NAN_FIRST = np.where(np.arange(32)[:, None] < 8, np.nan, X).astype("float32")


@pytest.mark.parametrize("every_step", [False, True])
@pytest.mark.parametrize("steps", [2**31 - 1, 2**31, 0, -1])
def test_a_stock_scale_that_never_grows_still_skips_and_is_logged(steps, every_step):
    model = sequential()
    optimizer = Stock(keras.optimizers.SGD(0.1), 1024.0, dynamic_growth_steps=steps)
    model.compile(optimizer, "mse")
    logger = mp.LossScaleLogger(every_step)
    fit = {"batch_size": 8, "shuffle": False, "verbose": 0, "callbacks": [logger]}
    history = model.fit(NAN_FIRST, Y, **fit, epochs=2)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert history.history["loss_scale"] == [512.0, 256.0]
    assert history.history["skipped_steps"] == [1, 1]
    by_step = history.params["loss_scale_by_step"]["skipped_steps"]
    assert by_step == ([1, 0, 0, 0] * 2 if every_step else [])


def test_a_subclass_of_the_stock_class_stays_as_it_is():
    class Mine(keras.optimizers.LossScaleOptimizer):
        pass

    model = sequential()
    model.compile(Mine(keras.optimizers.SGD(), 64.0), "mse")
    assert type(model.optimizer) is Mine
    assert model.optimizer.initial_scale == 64.0
    history = model.fit(X, Y, verbose=0, callbacks=[mp.LossScaleLogger()])
    assert history.history["loss_scale"] == [64.0]
    assert history.history["skipped_steps"] == [0]


@keras.saving.register_keras_serializable("test_compile")
class RecordsItsDtype(Subclassed):
    def get_config(self):
        return super().get_config()


@pytest.mark.parametrize("how", ["file", "clone"])
def test_subclassed_models_resume_with_the_global_policys_loss_scale(how, tmp_path):
    rule = DynamicLossScale(64, 2)
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=rule))
    model = RecordsItsDtype()
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0)
    if how == "file":
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
    else:
        model = keras.models.clone_model(model)
        model.compile("sgd", "mse")
    assert model.optimizer.rule == rule
    assert model.dtype_policy == mp.global_policy()
    history = model.fit(X, Y, verbose=0, callbacks=[mp.LossScaleLogger()])
    assert history.history["loss_scale"] == [64.0]


def test_models_that_are_read_keep_other_dtypes_than_those_of_the_global_policy():
    config = keras.saving.serialize_keras_object(RecordsItsDtype(dtype="float16"))
    mp.set_policy("mixed_float16")
    read = keras.saving.deserialize_keras_object(config)
    assert read.dtype_policy == keras.DTypePolicy("float16")


def test_logger_asks_the_device_once_an_epoch(monkeypatch):
    calls = []
    original = mp.LossScaleLogger._steps
    monkeypatch.setattr(
        mp.LossScaleLogger, "_steps", lambda self: calls.append(1) or original(self)
    )
    fit_with_logger(128, epochs=3)
    assert len(calls) == 1 + 3
    hooks = [n for n in vars(mp.LossScaleLogger) if "batch" in n]
    assert hooks == ["on_train_batch_end"]  # counts, and Keras need not wait for it
    assert mp.LossScaleLogger().async_safe
    assert not mp.LossScaleLogger(every_step=True).async_safe
