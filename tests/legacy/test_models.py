"""Real legacy files open, predict, hold their weights, and train on as they did."""

import functools
import json
import re
import shutil
import warnings

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

pytestmark = [
    # jax without x64 says so for every float64 layer.
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64"),
]
# Releases that recorded no policies, so that their mixed models come back as float32.
UNRECORDED = "1.15.5", "2.0.0"


def opened(path):
    return keras_policies.load_model(path, legacy_files.CUSTOM_OBJECTS)


def parameters(folder):
    """Return the paths of the files in a folder that this backend opens."""
    names = map(legacy_files.name_of, legacy_files.artifacts(folder))
    return [
        pytest.param(folder / name, id=name)
        for name in legacy_files.on_this_backend(names)
    ]


@functools.lru_cache
def stock_calls_stacked_cells_with_a_mask():
    """Return whether this Keras can at all: 3.8 on jax cannot."""
    cells = [keras.layers.LSTMCell(3), keras.layers.GRUCell(2)]
    layers = [keras.layers.Masking(0.0), keras.layers.RNN(cells)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from 3.16 on, an RNN ends the mask
        model = keras.Sequential([keras.Input((5, 3)), *layers])
        try:
            model(np.zeros((2, 5, 3), "float32"))
        except TypeError:
            return False
    return True


@functools.lru_cache
def stock_pads_as_tensorflow_does():
    """Return whether transposed convolutions do: those of 3.12 on torch do not."""
    kernel = np.array([1, 2, 3], "float32").reshape(3, 1, 1)
    x = np.ones((1, 2, 1), "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 3.12 says so itself
        found = keras.ops.conv_transpose(x, kernel, strides=2, padding="same")
    return np.ravel(keras.ops.convert_to_numpy(found)).tolist() == [1, 2, 4, 2]


def runs(path):
    """Return whether stock Keras can run the layers of a file on this backend."""
    needs = {
        "conv_family": stock_pads_as_tensorflow_does,
        "recurrent": stock_calls_stacked_cells_with_a_mask,
    }
    return needs.get(path.parent.name, lambda: True)()


@pytest.mark.each_backend("the promise of README")
@pytest.mark.parametrize("path", parameters(legacy_files.CORPUS))
def test_a_model_of_the_corpus_is_the_recorded_one_and_so_is_its_next_step(path):
    model = keras_policies.load_model(path)  # once: jax and TensorFlow compile it
    assert_weights(model, path)
    assert_policies(model, path)
    assert_outputs(model, path)
    assert_step(model, path)


def assert_outputs(model, path):
    found = legacy_files.outputs(model, path)
    for output, wanted in zip(found, legacy_files.arrays(path, "y_"), strict=True):
        np.testing.assert_allclose(
            np.asarray(output, "float64"),
            np.asarray(wanted, "float64"),
            rtol=legacy_files.tolerance(path),
            atol=legacy_files.tolerance(path) / 2,
        )


def assert_weights(model, path):
    found = legacy_files.layer_weights(model)
    assert sum(map(len, ([layer.weights for layer in model.layers]))) == len(found)
    for name, weight in found.items():
        wanted = legacy_files.expected(path)[name].astype("float64")
        # jax keeps float64 weights as float32 unless told otherwise.
        np.testing.assert_allclose(weight, wanted, rtol=1e-7, err_msg=name)


def assert_step(model, path):
    if legacy_files.about(path)["stored"].get("slots") == 0 or not model.compiled:
        stored = {
            "model.h5": "h5",
            "saved_model": "saved_model",
            "model.keras": "keras",
        }
        assert legacy_files.about(path)["tf_version"] == "1.15.5"
        assert not legacy_files.about(path)["stored"][stored[path.name]]["slots"]
        return
    assert legacy_files.step_error(model, path) <= 0.03


@pytest.mark.parametrize(
    "path", [legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "saved_model"]
)
def test_a_fresh_optimizer_would_fail_the_comparison(path):
    model = keras_policies.load_model(path)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    assert legacy_files.step_error(model, path) > 0.3


def assert_policies(model, path):
    """Assert that each layer has its policy, as a plain one."""
    release = path.parts[-3]
    for recorded in legacy_files.about(path)["layers"]:
        layer = model.get_layer(recorded["name"])
        assert type(layer.dtype_policy) is keras.DTypePolicy
        if isinstance(layer, keras.layers.InputLayer | keras.Sequential):
            continue
        if release in UNRECORDED:
            assert layer.dtype_policy.name == recorded["variable_dtype"]
        else:
            assert layer.compute_dtype == recorded["compute_dtype"]
            assert layer.variable_dtype == recorded["variable_dtype"]
        assert layer.trainable == recorded["trainable"]


@pytest.mark.filterwarnings("ignore:(?s).*schedule of Nadam")
@pytest.mark.parametrize("path", parameters(legacy_files.folder("more")))
def test_another_model_predicts_what_was_recorded_and_so_is_its_next_step(path):
    model = opened(path)
    if not runs(path):
        return
    found = legacy_files.outputs(model, path)
    for output, wanted in zip(found, legacy_files.arrays(path, "y_"), strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)
    if path.parent.name == "stateful":  # it would go on where `predict` has ended
        model = opened(path)
    if path.parent.name not in NO_STEP:
        assert_next_step(model, path)


def closest(weight, others):
    """Return the smallest largest difference to one of `others` of the same shape."""
    return min(
        np.max(np.abs(weight - other))
        for other in others
        if other.shape == weight.shape
    )


# Keras changed Nadam's formula: test_training.py looks at its slots instead.
# Stock Keras cannot train a stateful RNN on torch: test_stock_cannot_either.
NO_STEP = {
    "nadam",
    *{"torch": ["stateful"]}.get(keras.backend.backend(), []),
    *["losses_by_name"] * (not legacy_files.MAKES_AUC),
}


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="torch alone cannot")
@pytest.mark.skipif(keras.__version__.startswith("3.12."), reason="3.12 can")
def test_stock_cannot_train_a_stateful_rnn_either():
    model = keras.Sequential(
        [keras.Input(batch_shape=(2, 4, 3)), keras.layers.LSTM(3, stateful=True)]
    )
    model.compile("sgd", "mse")
    x, y = np.ones((2, 4, 3), "float32"), np.ones((2, 3), "float32")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        model.fit(x, y, epochs=2, batch_size=2, verbose=0)


def assert_next_step(model, path):
    wanted_loss = legacy_files.expected(path)["loss"]
    found = model.train_on_batch(
        legacy_files.inputs(path), legacy_files.one(legacy_files.arrays(path, "ty_"))
    )
    np.testing.assert_allclose(np.ravel(found)[:1], wanted_loss, rtol=1e-5)
    weights = [np.asarray(weight) for weight in model.get_weights()]
    # Keras 3 lists the weights of some models in another order.
    for wanted in legacy_files.arrays(path, "after/"):
        assert closest(wanted, weights) <= 5e-5  # a whole step is 1e-2


def test_a_file_of_keras_3_goes_to_keras(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for name in "model.keras", "model.h5", "named_otherwise":
        written = tmp_path / ("x.keras" if name == "named_otherwise" else name)
        model.save(written)
        path = written.rename(tmp_path / name)
        again = keras_policies.load_model(path, compile=False)
        np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])


def test_the_content_decides_and_not_the_name(tmp_path):
    source = legacy_files.CORPUS / "2.15.1" / "seq_dense"
    for form, name in ("model.keras", "a.h5"), ("model.h5", "b.keras"):
        path = tmp_path / name
        path.write_bytes((source / form).read_bytes())
        model = keras_policies.load_model(path)
        assert model.name == "seq_dense"
    folder = tmp_path / "saved_model"
    folder.mkdir()
    for part in (source / "saved_model").rglob("*"):
        target = folder / part.relative_to(source / "saved_model")
        target.mkdir() if part.is_dir() else target.write_bytes(part.read_bytes())
    (folder / "config.json").write_text("{}")  # stock Keras takes it for its own
    (folder / "metadata.json").write_text("{}")
    assert keras_policies.load_model(folder).name == "seq_dense"


def test_plain_keras_opens_legacy_h5_files_with_policies():
    path = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "model.h5"
    model = keras.models.load_model(path)
    assert model.get_layer("conv_a").dtype_policy == keras.DTypePolicy("mixed_float16")
    assert legacy_files.step_error(model, path) <= 0.03


@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")  # Keras 3.16
def test_plain_from_config_opens_legacy_configs_with_policies():
    for case, owner in (
        ("2.4.4/rnn_dynamic", keras.Sequential),
        ("2.1.4/nested_model", keras.Model),
    ):
        path = legacy_files.CORPUS / case / "model.h5"
        with h5py.File(path) as file:
            config = json.loads(file.attrs["model_config"])["config"]
        before = json.dumps(config)
        model = owner.from_config(config)
        assert json.dumps(config) == before
        assert "mixed_float16" in {layer.dtype_policy.name for layer in model.layers}


def test_a_list_of_layers_is_a_sequential_of_old_keras(tmp_path):
    path = shutil.copy(
        legacy_files.CORPUS / "2.4.4" / "explicit_lso" / "model.h5", tmp_path
    )
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"] = config["config"]["layers"][1:]
        file.attrs["model_config"] = json.dumps(config)
    model = keras_policies.load_model(path)
    source = legacy_files.CORPUS / "2.4.4" / "explicit_lso" / "model.h5"
    (found,) = legacy_files.outputs(model, source)
    np.testing.assert_allclose(found, legacy_files.arrays(source, "y_")[0], atol=5e-3)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="jax counts compilations")
def test_loading_traces_and_compiles_nothing_but_the_check():
    import jax

    compiled = []

    def listen(event, duration, **details):
        if "/compile/" in event or "trace" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.clear_caches()
    for case in "func_conv_fixed/saved_model", "explicit_lso/model.h5":
        keras_policies.load_model(legacy_files.CORPUS / "2.4.4" / case, verify=False)
    assert compiled == []


NESTED = [
    "2.1.4/nested_model/model.h5",
    "2.1.4/nested_model/saved_model",
    "2.9.3/nested_model/saved_model",
    "2.15.1/nested_model/model.keras",
]


@pytest.mark.parametrize("path", NESTED)
def test_a_nested_model_has_its_own_policy_and_its_loss_is_scaled(path):
    model = keras_policies.load_model(legacy_files.CORPUS / path)
    inner = model.get_layer("inner")
    assert inner.dtype_policy == keras.DTypePolicy("mixed_float16")
    inner.compile("sgd", "mse")
    assert inner.optimizer.initial_scale == 2.0**15


@pytest.mark.parametrize("path", NESTED)
def test_another_policy_reaches_nested_models(path):
    path = legacy_files.CORPUS / path
    policy = keras_policies.Policy("mixed_float16", loss_scale=64)
    model = keras_policies.load_model(path, dtype_policy=policy, compile=False)
    inner = model.get_layer("inner")
    inner.compile("sgd", "mse")
    assert inner.optimizer.initial_scale == 64
    with keras_policies.policy_scope("mixed_bfloat16"):
        model = keras_policies.load_model(path, dtype_policy="float32")
    assert model.get_layer("inner").dtype_policy.name == "float32"


@pytest.mark.parametrize(
    "path", ["2.0.0/model.h5", "2.4.4/saved_model", "2.15.1/model.keras"]
)
def test_a_policy_that_replaces_float32_reaches_nested_models(path):
    release, form = path.split("/")
    source = legacy_files.folder("more") / release / "nested_twice" / form
    model = keras_policies.load_model(source, dtype_policy="mixed_float16")
    assert model.get_layer("inner").dtype_policy.name == "mixed_float16"


def test_load_model_takes_the_arguments_of_keras_under_its_names():
    path = legacy_files.CORPUS / "2.4.4/func_conv_fixed/model.h5"
    model = keras_policies.load_model(
        filepath=path, custom_objects=None, compile=False, safe_mode=True
    )
    assert not model.compiled
    with pytest.raises(TypeError, match="takes from 1 to 4 positional arguments"):
        keras_policies.load_model(path, None, True, True, "float32")


def test_the_error_of_keras_about_a_saved_model_names_what_opens_it(tmp_path):
    path = legacy_files.CORPUS / "2.4.4/func_conv_fixed/saved_model"
    for load in keras.saving.load_model, keras.models.load_model:
        with pytest.raises(ValueError, match="File format not supported") as caught:
            load(path)
        command = re.escape(f"use `keras_policies.load_model({str(path)!r})`.") + "$"
        (note,) = caught.value.__notes__
        assert re.search(command, note)
        with pytest.raises(ValueError, match="File format not supported") as caught:
            load(filepath=tmp_path)
        assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("name", ["func_multi_io", "seq_dense"])
def test_the_error_of_keras_about_a_file_of_keras_2_names_what_opens_it(tmp_path, name):
    path = legacy_files.CORPUS / "2.15.1" / name / "model.keras"
    command = re.escape(f"use `keras_policies.load_model({str(path)!r})`.") + "$"
    with pytest.raises((TypeError, ValueError), match=command):
        keras.models.load_model(path)
    (tmp_path / "new.keras").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="File not found|not supported") as caught:
        keras.models.load_model(tmp_path / "new.keras")
    assert "keras_policies" not in str(caught.value)
