import contextlib
import json
import os
import subprocess
import sys
import warnings
import zipfile

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies as mp
from keras_policies import DynamicLossScale, LossScaleOptimizer

X = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
Y = X[:, :1] * 2


def policy(name, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mp.Policy(name, **kwargs)


def config_of(policy):
    return keras.saving.serialize_keras_object(policy)


@pytest.mark.parametrize(
    ("in_memory", "name"),
    [
        pytest.param(
            policy("mixed_float16", loss_scale=8), "mixed_float16", id="mixed"
        ),
        pytest.param(policy("mixed_bfloat16"), "mixed_bfloat16", id="bfloat16"),
        pytest.param(
            policy("infer", loss_scale=8).resolve("float16"), "float16", id="settled"
        ),
        pytest.param(policy("infer"), None, id="infer"),
        pytest.param(policy("infer_with_float32_vars"), None, id="infer32"),
        pytest.param(
            policy("float16_with_float32_vars"), "mixed_float16", id="f16-f32"
        ),
        pytest.param(
            policy("bfloat16_with_float32_vars"), "mixed_bfloat16", id="bf16-f32"
        ),
        pytest.param(policy("half"), "float16", id="half"),
        pytest.param(policy("float32_with_float32_vars"), "float32", id="f32-f32"),
    ],
)
def test_file_holds_the_plain_policy(in_memory, name):
    assert config_of(in_memory) == {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": name},
        "registered_name": None,
    }
    read = keras.saving.deserialize_keras_object(config_of(in_memory))
    assert type(read) is keras.DTypePolicy
    assert read.name == (name or "float32")


def test_policy_without_a_stock_name_warns():
    with pytest.warns(UserWarning, match="no policy with.*float64.*saved as 'float64'"):
        assert policy("float64_with_float32_vars").get_config() == {"name": "float64"}


@pytest.mark.parametrize("name", ["infer", "float16_with_float32_vars", "half"])
def test_unnamed_policy_follows_a_global_one_that_keras_has_no_name_for(name):
    mp.set_policy(policy(name))
    unnamed = {"class_name": "DTypePolicy", "config": {"name": None}}
    assert keras.dtype_policies.get(unnamed) is mp.global_policy()


def test_policy_map_keeps_the_names():
    policies = keras.dtype_policies.DTypePolicyMap(
        default_policy="float32",
        policy_map={"a": policy("mixed_float16", loss_scale=8), "b": policy("infer")},
    )
    config = config_of(policies)
    assert "keras_policies" not in json.dumps(config)
    names = {k: v["config"]["name"] for k, v in config["config"]["policy_map"].items()}
    assert names == {"a": "mixed_float16", "b": None}


def test_saving_a_policy_map_without_a_default_leaves_its_policies_alone():
    policies = keras.dtype_policies.DTypePolicyMap(
        policy_map={"a": policy("mixed_float16", loss_scale=8), "b": policy("infer")}
    )
    config = config_of(policies)
    assert "keras_policies" not in json.dumps(config)
    names = {k: v["config"]["name"] for k, v in config["config"]["policy_map"].items()}
    # Keras 3.16 writes no names, so that a loader takes its own global policy.
    is_named = legacy_files.KERAS < (3, 16)
    assert names == {"a": "mixed_float16" if is_named else None, "b": None}
    assert policies["a"] == policy("mixed_float16", loss_scale=8)


def small_model():
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)]
    )


def test_clone_has_plain_policies():
    mp.set_policy(policy("mixed_float16", loss_scale=8))
    model = small_model()
    clone = keras.models.clone_model(model)
    assert [type(x.dtype_policy) for x in clone.layers] == [keras.DTypePolicy] * 2
    assert [x.dtype_policy.name for x in clone.layers] == ["mixed_float16"] * 2


def test_no_file_names_the_package(tmp_path):
    for loss_scale, optimizer in (
        (8, "adam"),
        (None, LossScaleOptimizer(keras.optimizers.SGD(), 64)),
    ):
        mp.set_policy(policy("mixed_float16", loss_scale=loss_scale))
        model = small_model()
        model.compile(optimizer, keras.losses.MeanSquaredError())
        model.fit(X, Y, verbose=0)
        for name in "m.keras", "m.weights.h5", "m.h5":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (model.save_weights if "weights" in name else model.save)(
                    tmp_path / name
                )
        with zipfile.ZipFile(tmp_path / "m.keras") as archive:
            assert b"keras_policies" not in b"".join(
                map(archive.read, archive.namelist())
            )
        for name in "m.weights.h5", "m.h5":
            assert b"keras_policies" not in (tmp_path / name).read_bytes()
    assert "keras_policies" not in model.to_json()


def without_names(config):
    """Leave out counters of names, which depend on what else a process made."""
    if isinstance(config, dict):
        return {k: without_names(v) for k, v in config.items() if k not in NAMES}
    return [without_names(x) for x in config] if isinstance(config, list) else config


NAMES = "name", "shared_object_id", "input_layers", "output_layers"


def run(code, *arguments):
    """Run code in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Reads all models in one process: to start Keras takes longer than all else.
READ_WITHOUT_US = """
import json, pathlib, sys
sys.modules["keras_policies"] = None
import numpy as np, keras
for folder in pathlib.Path(sys.argv[1]).iterdir():
    truth = dict(np.load(folder / "truth.npz"))
    for global_policy in "float32", "mixed_float16":
        keras.config.set_dtype_policy(global_policy)
        def predicts(model):
            return bool((model.predict(truth["x"], verbose=0) == truth["y"]).all())
        model = keras.saving.load_model(folder / "m.keras")
        inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        state = [keras.ops.convert_to_numpy(v) for v in inner.variables]
        result = {
            "policies": sorted({l.dtype_policy.name for l in model.layers}),
            "optimizer": type(model.optimizer).__name__,
            "predicts": predicts(model),
            "h5_predicts": predicts(keras.saving.load_model(folder / "m.h5")),
            "state": len(state) == int(truth["count"]) and all(
                np.array_equal(v, truth[f"s{i}"]) for i, v in enumerate(state)),
        }
        model.fit(truth["x"], truth["t"], verbose=0)
        result["iterations"] = int(inner.iterations)
        print(json.dumps([folder.name, global_policy, result]))
layers = keras.layers
model = keras.Sequential([keras.Input((8,)), layers.Dense(4), layers.Dense(1)])
model.compile("sgd", "mse")
stock = keras.saving.serialize_keras_object(model)
print(json.dumps(["stock", "mixed_float16", stock]))
"""

SCALES = {
    "default": "auto",
    "fixed": 128,
    "dynamic": DynamicLossScale(1024, 3),
    "none": None,
}


def write_model(folder, loss_scale):
    """Save a model that was trained under `mixed_float16`, and what it predicts."""
    mp.set_policy(policy("mixed_float16", loss_scale=loss_scale))
    model = small_model()
    model.compile(keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError())
    model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
    inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    state = {
        f"s{i}": keras.ops.convert_to_numpy(v) for i, v in enumerate(inner.variables)
    }
    folder.mkdir()
    model.save(folder / "m.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(folder / "m.h5")
    y = model.predict(X, verbose=0)
    np.savez(folder / "truth.npz", x=X, y=y, t=Y, count=len(state), **state)
    return int(inner.iterations)


@pytest.fixture(scope="module")
def written_and_read(tmp_path_factory):
    """Return the steps of each model, and what stock Keras says of all models."""
    folder = tmp_path_factory.mktemp("saved")
    steps = {name: write_model(folder / name, scale) for name, scale in SCALES.items()}
    keras.config.set_dtype_policy("float32")
    lines = run(READ_WITHOUT_US, folder).splitlines()
    rows = [json.loads(line) for line in lines if line.startswith('["')]
    return steps, {(name, global_policy): said for name, global_policy, said in rows}


@pytest.mark.parametrize("global_policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("scale", SCALES)
def test_stock_keras_reads_model_and_optimizer(scale, global_policy, written_and_read):
    steps, said = written_and_read
    result = {**said[scale, global_policy]}
    wraps = global_policy == "mixed_float16" and scale != "none"
    # Overflows of the new scale may skip some of the step or two of the fit.
    assert result.pop("iterations") - steps[scale] in (0, 1)
    assert result == {
        "policies": ["mixed_float16"],
        "optimizer": "LossScaleOptimizer" if wraps else "Adam",
        "predicts": True,
        "h5_predicts": True,
        "state": True,
    }


def test_models_without_our_policy_have_the_same_file(written_and_read):
    keras.config.set_dtype_policy("mixed_float16")
    model = small_model()
    model.compile("sgd", "mse")
    ours = keras.saving.serialize_keras_object(model)
    theirs = written_and_read[1]["stock", "mixed_float16"]
    assert without_names(json.loads(json.dumps(ours))) == without_names(theirs)


@pytest.mark.parametrize("load", [mp.load_model, keras.models.load_model])
def test_explicit_loss_scale_optimizer_is_read_with_its_state(load, tmp_path):
    model = small_model()
    optimizer = LossScaleOptimizer(
        keras.optimizers.SGD(momentum=0.5), DynamicLossScale(2**20, 3)
    )
    model.compile(optimizer, keras.losses.MeanSquaredError())
    model.fit(X, Y, batch_size=8, verbose=0)
    model.save(tmp_path / "m.keras")
    again = load(tmp_path / "m.keras")
    if load is mp.load_model:
        assert type(again.optimizer) is LossScaleOptimizer
        assert again.optimizer.rule == DynamicLossScale(2**20, 3)
    else:
        assert type(again.optimizer) is keras.optimizers.LossScaleOptimizer
        assert again.optimizer.initial_scale == 2**20
    assert float(again.optimizer.dynamic_scale.value) == float(optimizer.loss_scale)
    assert again.optimizer.dynamic_growth_steps == 3
    assert int(again.optimizer.inner_optimizer.iterations) == int(optimizer.iterations)


def test_our_own_reading_restores_the_state_without_a_word(tmp_path):
    mp.set_policy(policy("mixed_float16", loss_scale=8))
    model = small_model()
    model.compile(keras.optimizers.Adam(), keras.losses.MeanSquaredError())
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert type(again.optimizer) is LossScaleOptimizer
    for a, b in zip(
        model.optimizer.inner_optimizer.variables,
        again.optimizer.inner_optimizer.variables,
        strict=True,
    ):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (a, b)))


LEGACY = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 128.0}}


@pytest.mark.parametrize("class_name", ["Policy", "PolicyV1"])
@pytest.mark.parametrize(
    "extra", [{}, {"loss_scale": LEGACY}, {"loss_scale": "dynamic"}]
)
@pytest.mark.parametrize(
    "outer", [{}, {"module": "keras.mixed_precision", "registered_name": None}]
)
def test_legacy_policies_are_read_as_the_plain_one(class_name, extra, outer):
    config = {
        "class_name": class_name,
        "config": {"name": "mixed_float16", **extra},
        **outer,
    }
    for read in keras.dtype_policies.get, keras.dtype_policies.deserialize:
        assert type(read(config)) is keras.DTypePolicy
        assert read(config).name == "mixed_float16"
    layer = keras.layers.Dense.from_config({"units": 2, "dtype": config})
    assert layer.dtype_policy == keras.DTypePolicy("mixed_float16")


def test_legacy_names_are_read_as_plain_ones():
    for name, plain in (
        ("float16_with_float32_vars", "mixed_float16"),
        ("_infer", "float32"),
    ):
        config = {"class_name": "PolicyV1", "config": {"name": name}}
        assert keras.dtype_policies.get(config) == keras.DTypePolicy(plain)


def test_a_users_own_policy_class_is_never_hijacked():
    class Policy(keras.layers.Layer):
        pass

    config = {"class_name": "Policy", "config": {"name": "mine"}}
    with keras.saving.custom_object_scope({"Policy": Policy}):
        assert type(keras.saving.deserialize_keras_object(config)) is Policy
    assert "Policy" not in keras.saving.get_custom_objects()


READERS = {
    "keras.saving": keras.saving.deserialize_keras_object,
    "keras.utils.legacy": keras.utils.legacy.deserialize_keras_object,
}
WRITTEN = {
    "PolicyV1": {"name": "mixed_float16", "loss_scale": {"class_name": "X"}},
    "Policy": {"name": "float16_with_float32_vars"},
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("class_name", WRITTEN)
def test_configs_of_old_policies_alone_are_read_as_the_plain_one(class_name, read):
    config = {"class_name": class_name, "config": dict(WRITTEN[class_name])}
    assert read(config) == keras.DTypePolicy("mixed_float16")


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_configs_that_keras_finds_or_that_are_of_no_policy_are_left_to_keras(read):
    class Policy:
        @classmethod
        def from_config(cls, config):
            return cls()

    config = {"class_name": "Policy", "config": {"name": "float32"}}
    assert type(read(config, custom_objects={"Policy": Policy})) is Policy
    for own in {"name": "mine"}, {"name": 3}, {"name": "float32", "units": 2}, {}:
        config = {"class_name": "Policy", "config": own}
        with pytest.raises((TypeError, ValueError), match="(locate|Unknown).*Policy"):
            read(config)


@pytest.mark.parametrize("name", ["infer", "infer_with_float32_vars"])
def test_the_config_of_a_deferred_policy_is_the_global_one(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = mp.Policy(name, loss_scale=8).get_config()
    mp.set_policy(mp.Policy("float16", loss_scale=64))
    assert mp.Policy.from_config(config) is mp.global_policy()
    keras.config.set_dtype_policy("bfloat16")
    assert mp.Policy.from_config(config) == mp.Policy("bfloat16")


@pytest.mark.parametrize("how", ["load_model", "wrapped again"])
def test_a_fixed_scale_is_read_as_fixed_and_goes_on(how, tmp_path):
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=None))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(LossScaleOptimizer(keras.optimizers.Adam(), 128), "mse")
    x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
    for _ in range(3):
        model.train_on_batch(x, y)
    model.save(tmp_path / "model.keras")
    if how == "load_model":
        read = mp.load_model(tmp_path / "model.keras")
    else:
        read = keras.models.load_model(tmp_path / "model.keras")
        assert type(read.optimizer) is keras.optimizers.LossScaleOptimizer
        read.compile(LossScaleOptimizer(read.optimizer.inner_optimizer, 128), "mse")
    assert type(read.optimizer) is LossScaleOptimizer
    assert read.optimizer.rule == mp.FixedLossScale(128)
    for trained in model, read:
        trained.train_on_batch(x, y)
    assert int(read.optimizer.iterations) == 4
    for one, other in zip(model.get_weights(), read.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def compiled_model():
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=DynamicLossScale(64, 3)))
    model = small_model()
    model.compile(keras.optimizers.Adam(name="adam"), keras.losses.MeanSquaredError())
    return model


def trained_model(epochs):
    model = compiled_model()
    model.fit(X, Y, batch_size=8, epochs=epochs, verbose=0)
    return model


def through_weights(model, other, folder):
    model.save_weights(folder / "m.weights.h5")
    other.load_weights(folder / "m.weights.h5")


def through_state_tree(model, other, folder):
    other.set_state_tree(model.get_state_tree(value_format="numpy_array"))


def through_tf_checkpoint(model, other, folder):
    tf = pytest.importorskip("tensorflow")
    path = tf.train.Checkpoint(model=model).save(folder / "checkpoint")
    tf.train.Checkpoint(model=other).restore(path)


WAYS = [through_weights]
if hasattr(keras.Model, "get_state_tree"):
    WAYS.append(through_state_tree)  # what Orbax saves
if keras.backend.backend() == "tensorflow":
    WAYS.append(through_tf_checkpoint)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_restores_the_optimizer_restores_the_current_scale_and_its_count(
    way, is_new, tmp_path
):
    model, other = trained_model(1), compiled_model() if is_new else trained_model(2)
    if way is not through_weights:  # which builds it itself
        other.optimizer.build(other.trainable_variables)
    way(model, other, tmp_path)
    # Four steps: the scale has grown after three, and one is counted since.
    assert float(other.optimizer.loss_scale) == 128.0
    assert int(other.optimizer.step_counter) == 1
    assert int(other.optimizer.iterations) == 4


def test_weights_of_a_model_that_was_not_trained_build_no_optimizer(tmp_path):
    other = compiled_model()
    through_weights(compiled_model(), other, tmp_path)
    assert not other.optimizer.built


@pytest.mark.filterwarnings("ignore:Skipping variable loading")
@pytest.mark.parametrize(
    ("case", "count"), [("frozen", 14), ("not built", 14), ("frozen in the file", 10)]
)
def test_a_state_that_does_not_fit_is_not_loaded_and_says_so(case, count, tmp_path):
    model, other = compiled_model(), compiled_model()
    # Adam has 10 variables for the whole model, as many as the file for half of it.
    model.layers[0].trainable = case != "frozen in the file"
    model.fit(X, Y, batch_size=8, verbose=0)
    if case == "frozen":
        other.layers[0].trainable = False
    elif case == "not built":
        other.optimizer.belongs_to(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.warns(
        UserWarning,
        match=f"the file has {count} variables, this LossScaleOptimizer has "
        r"\d+; .* The loss scale starts at 64.*model.optimizer.build",
    ):
        through_weights(model, other, tmp_path)
    assert float(other.optimizer.loss_scale) == 64.0


@pytest.mark.filterwarnings("ignore:Skipping variable loading")
def test_the_state_of_an_optimizer_without_a_scale_is_loaded_into_a_new_one(tmp_path):
    model, other = trained_model(1), compiled_model()
    model.optimizer = model.optimizer.inner_optimizer
    through_weights(model, other, tmp_path)
    assert int(other.optimizer.iterations) == 4
    assert float(other.optimizer.loss_scale) == 64.0


def test_a_saved_model_drops_the_current_scale(tmp_path):
    trained_model(1).save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert float(again.optimizer.loss_scale) == 64.0
    assert int(again.optimizer.iterations) == 4


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def test_backup_and_restore_resumes_at_the_current_scale(tmp_path):
    scales = []
    note = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: scales.append(
            (epoch, float(model.optimizer.loss_scale))
        )
    )
    for callbacks in [Stop()], []:
        backup = keras.callbacks.BackupAndRestore(tmp_path)
        model = trained_model(0)
        callbacks = [backup, note, *callbacks]
        with contextlib.suppress(KeyboardInterrupt):
            model.fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    assert scales == [(0, 64.0), (1, 128.0), (1, 128.0)]
