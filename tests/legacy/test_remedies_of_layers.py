"""Follows the advice about classes, functions, texts and backends of models."""

import base64
import importlib.util
import json
import marshal
import re
import shutil
import sys
import warnings

import h5py
import inner_classes
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError, convert_model, load_model, load_weights
from keras_policies.cli.main import main
from keras_policies.legacy import new_files
from keras_policies.legacy.plan import lambdas

DENSE = legacy_files.CORPUS / "2.15.1" / "seq_dense"
H5 = legacy_files.folder("more") / "2.4.4" / "amsgrad" / "model.h5"
TOWER = legacy_files.FOLDER / "inner" / "2.4.4" / "tower" / "saved_model"
LOOK_UP = legacy_files.folder("lookups") / "2.15.1/StringLookup-adapted/model.keras"
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
NEEDS_TENSORFLOW = pytest.mark.skipif(not HAS_TENSORFLOW, reason="look-ups need it")
not_on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="advice about the other backends"
)
pytestmark = pytest.mark.once("advice is the same on each backend")


def opened(path, *args, **options):
    """Return a model, whatever is said of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load_model(path, *args, **options)


def is_called(model, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of Keras, about masks
        found = keras.tree.flatten(model(x))
    return all(np.isfinite(keras.ops.convert_to_numpy(each)).all() for each in found)


def ones(model):
    """Return inputs for a model."""
    return keras.tree.map_structure(
        lambda x: np.ones((2, *x.shape[1:]), "float32"), model.input
    )


def refused(advice, path, *args, **options):
    """Open a path, which has to end in an error with this advice; return the error."""
    with pytest.raises(LegacyModelError, match=advice) as caught:
        opened(path, *args, **options)
    return caught.value


class Other(legacy_files.Scale):
    """Computes something else than the class in the file."""

    def call(self, inputs):
        return super().call(inputs) + 0.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remedies")
    chosen = {
        "namesakes": ("2.15.1/loss/",),
        "layers/2.0.0": ("2.0.0/Attention-masked-float32",),
        "tables": ("tables/2.15.1/words",),
        "texts": ("texts/2.15.1/several",),
        "tensorflow_1": ("tensorflow_1/1.15.5/estimator_parsed",),
    }
    for archive, names in chosen.items():
        legacy_files.unpacked_models(folder, archive, names)
    return folder


def test_a_model_unlike_its_graph_opens_unverified_or_with_its_class():
    path = legacy_files.folder("more") / "2.4.4" / "custom_layer" / "saved_model"
    advice = r"Pass its classes \(custom_objects\), or .*; verify=False opens it as it"
    assert refused(advice, path, {"Scale": Other}).code == "KP501"
    for own, options in (Other, {"verify": False}), (legacy_files.Scale, {}):
        model = opened(path, {"Scale": own}, **options)
        assert is_called(model, ones(model))


def test_functions_unlike_the_signature_open_as_either(folder):
    path = folder / "2.0.0" / "Attention-masked-float32" / "saved_model"
    error = refused("gives other numbers than the functions of its layers", path)
    (name,) = re.findall(r"Pass signature='(\w+)' for what it does", error.hint)
    assert "verify=False opens it as its functions are" in error.hint
    for options in {"signature": name}, {"verify": False}:
        model = opened(path, **options)
        assert is_called(model, ones(model))


@pytest.mark.slow("plain Keras in a process of its own")
def test_a_file_that_plain_keras_computes_otherwise_is_written_anyway(
    tmp_path, monkeypatch
):
    def save(model, path):
        copy = keras.models.clone_model(model)
        copy.set_weights([2 * weight for weight in model.get_weights()])
        copy.save(path)

    monkeypatch.setattr(new_files, "save", save)
    new = tmp_path / "new.keras"
    with pytest.raises(LegacyModelError, match="plain=False writes it anyway") as found:
        convert_model(H5, new)
    assert found.value.code == "KP504"
    convert_model(H5, new, plain=False)
    assert is_called(keras.models.load_model(new), np.ones((2, 4), "float32"))


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_a_loss_that_was_registered_is_passed_under_its_name(folder, form):
    class MeanSquaredError(keras.losses.Loss):
        def call(self, true, predicted):
            return keras.ops.sum(keras.ops.square(true - predicted), axis=-1)

    path = folder / "2.15.1" / "loss" / form
    with pytest.warns(keras_policies.OutcomeWarning) as caught:
        assert not load_model(path).compiled
    (told,) = (str(w.message) for w in caught if hasattr(w.message, "parts"))
    (name,) = re.findall(r"custom_objects=\{'([^']+)': ", told)
    model = opened(path, {name: MeanSquaredError})
    assert isinstance(model.loss, MeanSquaredError)
    x = np.load(path.parent / "data.npz")["x"]
    assert model.evaluate(x, model.predict(x, verbose=0) + 1, verbose=0) > 1


LOSS = {"loss": "my_loss"}
METRIC = {"metrics": ["my_metric"]}
OPTIMIZER = {"optimizer_config": {"class_name": "MyOptimizer", "config": {}}}


class MyOptimizer(keras.optimizers.SGD):
    """An optimizer of somebody's own."""


def error_of(true, predicted):
    return keras.ops.mean(keras.ops.abs(true - predicted), axis=-1)


@pytest.mark.parametrize(
    ("change", "own"),
    [(LOSS, error_of), (METRIC, error_of), (OPTIMIZER, MyOptimizer)],
    ids=["loss", "metric", "optimizer"],
)
def test_what_a_model_was_compiled_with_is_passed_under_its_name(change, own, tmp_path):
    path = legacy_files.edited(
        H5, tmp_path / "edited.h5", "training_config", lambda w: w.update(change)
    )
    with pytest.warns(keras_policies.OutcomeWarning) as caught:
        load_model(path)
    (told,) = (str(w.message) for w in caught if hasattr(w.message, "parts"))
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", told)
    model = opened(path, {name: own})
    assert model.compiled
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)


def attention(path):
    """Write an architecture whose bias TensorFlow adds along the wrong axis."""
    config = {"name": "heads", "num_heads": 2, "key_dim": 1, "value_dim": 1}
    shape = {"name": "x", "batch_input_shape": [None, 2, 3], "dtype": "float32"}
    call = [[["x", 0, 0, {"value": ["x", 0, 0]}]]]
    layers = [
        {"class_name": "InputLayer", "config": shape, "name": "x", "inbound_nodes": []},
        {"class_name": "MultiHeadAttention", "config": config, "name": "heads"}
        | {"inbound_nodes": call},
    ]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["heads", 0, 0]]}
    config = {"name": "model", "layers": layers, **ends}
    written = {"class_name": "Functional", "config": config, "keras_version": "2.15.0"}
    path.write_text(json.dumps(written))
    return path


@not_on_tensorflow
def test_a_backend_that_computes_otherwise_is_left_out(tmp_path):
    path = attention(tmp_path / "model.json")
    error = refused(r"Pass backends=\('jax', 'torch'\) if the model is not for", path)
    assert error.code == "KP404"
    model = opened(path, backends=("jax", "torch"))
    assert is_called(model, np.ones((2, 2, 3), "float32"))


@pytest.mark.slow("TensorFlow")
@NEEDS_TENSORFLOW
def test_text_layers_whose_shapes_keras_gets_wrong_are_left_outside(folder):
    """The counts of a TextVectorization have an axis more than they have at a call."""
    path = folder / "texts" / "2.15.1" / "several" / "model.keras"
    error = refused("wrong shapes. With texts='outside', the model has none", path)
    assert (error.code, error.opens_if) == ("KP401", True)
    model = opened(path, texts="outside")
    assert is_called(model, keras_policies.text_inputs(model)(["great film", "a"]))


@pytest.mark.slow("TensorFlow")
@NEEDS_TENSORFLOW
def test_a_layer_that_needs_tensorflow_opens_where_it_is_installed(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name: None)
        found = keras_policies.inspect_model(LOOK_UP)
    assert (found.code, found.opens_if) == ("KP403", True)
    assert "Install TensorFlow (pip install tensorflow)" in found.problem
    assert "With texts='outside', text inputs do not need it" in found.problem
    assert keras_policies.inspect_model(LOOK_UP).problem is None
    assert opened(LOOK_UP).get_layer("layer").vocabulary_size() > 1


@pytest.mark.slow("TensorFlow")
@NEEDS_TENSORFLOW
def test_a_look_up_without_words_is_given_them_as_advised():
    inputs = keras.Input((2,), dtype="string")
    model = keras.Model(inputs, keras.layers.StringLookup(name="words")(inputs))
    with pytest.warns(UserWarning, match="of 'words', which is empty: call its set_v"):
        load_weights(model, LOOK_UP)
    words = opened(LOOK_UP).get_layer("layer").get_vocabulary()
    model.get_layer("words").set_vocabulary(words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_weights(model, LOOK_UP)
    assert model.get_layer("words").get_vocabulary() == words


def test_a_signature_of_the_tensors_after_the_parser_opens(folder):
    path = folder / "tensorflow_1" / "1.15.5" / "estimator_parsed" / "model"
    error = refused("Pass signature=.* to open another function of the file", path)
    ways = re.findall(r"signature='([^']+)'( and lost='numbers')?", error.hint)
    assert ways
    for name, numbers in ways:
        model = opened(path, signature=name, lost="numbers" if numbers else "rebuild")
        (x,) = model.inputs
        assert is_called(model, np.ones((2, *x.shape[1:]), x.dtype))


def test_a_class_takes_the_arguments_of_its_layer_as_advised(tmp_path):
    class WithRequired(inner_classes.Tower):
        def __init__(self, width):
            super().__init__()

    new = tmp_path / "new.keras"
    advice = r"Give ClosedTower.__init__ \*\*kwargs, and"
    with pytest.raises(LegacyModelError, match=advice):
        convert_model(TOWER, new, {"Tower": inner_classes.ClosedTower})
    refused("give them defaults in WithRequired", TOWER, {"Tower": WithRequired})
    custom = {"Tower": inner_classes.Tower, "Block": inner_classes.Block}
    convert_model(TOWER, new, custom, plain=False)
    model = keras.models.load_model(new, custom)
    assert is_called(model, np.load(TOWER.parent / "expected.npz")["x_0"])


RUNS = lambdas.runs_here("{}.{}".format(*sys.version_info))


@pytest.mark.skipif(not RUNS, reason="tf.keras wrote no code of this Python")
def test_names_that_trusted_code_uses_are_passed(tmp_path):
    def change(written):
        code = marshal.dumps((lambda x: theirs.doubled(x)).__code__)  # noqa: F821
        function = [base64.b64encode(code).decode(), None, None]
        settings = {"name": "out", "function": function, "function_type": "lambda"}
        written["config"]["layers"][-1] |= {"class_name": "Lambda", "config": settings}

    class Ours:
        doubled = staticmethod(lambda x: 2 * x)

    path = legacy_files.edited(H5, tmp_path / "m.h5", "model_config", change)
    with h5py.File(path, "r+") as file:
        file["model_weights"]["out"].attrs["weight_names"] = []
    options = {"safe_mode": False, "compile": False}
    error = refused("which the file does not hold. Pass custom_ob", path, **options)
    name = re.search(r"custom_objects=\{'(\w+)': ", error.hint)[1]
    model = opened(path, {name: Ours}, **options)
    assert is_called(model, np.ones((2, 4), "float32"))


def test_weights_without_names_are_loaded_by_their_order():
    model = keras.Sequential([keras.layers.Dense(3)])
    with pytest.raises(LegacyModelError, match="Call it on a batch, or model.build"):
        load_weights(model, H5)
    model = load_model(H5, compile=False)
    wanted = model.get_weights()
    model.set_weights([0 * weight for weight in wanted])
    path, options = H5.with_name("checkpoint"), {"skip_mismatch": True}
    with pytest.raises(LegacyModelError, match="Leave by_name out; skip_mismatch=True"):
        load_weights(model, path / "weights", by_name=True, **options)
    load_weights(model, path / "weights", **options)
    for found, weight in zip(model.get_weights(), wanted, strict=True):
        np.testing.assert_array_equal(found, weight)


def test_an_architecture_is_converted_with_its_weights_in_the_shell(tmp_path, capsys):
    with h5py.File(H5) as file:
        (tmp_path / "model.json").write_text(file.attrs["model_config"])
    shutil.copy(H5, tmp_path / "weights.h5")
    source, new = str(tmp_path / "model.json"), str(tmp_path / "sub" / "new.keras")
    assert main(["convert", source, new]) == 1
    said = capsys.readouterr().err
    assert "Create it first" in said
    (tmp_path / "sub").mkdir()
    assert main(["convert", source, new]) == 1
    (option,) = re.findall(r"--weights \S+\.h5", capsys.readouterr().err)
    option, name = option.split()
    command = ["convert", source, new, option, str(tmp_path / name), "--no-plain"]
    assert main(command) == 0
    assert is_called(keras.models.load_model(new), np.ones((2, 4), "float32"))


def test_recordings_are_written_as_advised(tmp_path):
    model, path = load_model(H5), tmp_path / "outputs.npz"
    x = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    new = tmp_path / "new.keras"

    def refused_with(advice):
        with pytest.raises(LegacyModelError, match=re.escape(advice)):
            convert_model(H5, new, verify=path, plain=False)

    record = 'np.savez("outputs.npz", x_0=x, y_0=model.predict(x))'
    np.savez(path, x=x)
    refused_with(record)
    path.write_bytes(b"x")
    refused_with(record)
    np.savez(path, x_0=0 * x, y_0=model.predict(0 * x, verbose=0))
    refused_with("Record outputs for inputs that differ more, or convert without comp")
    np.savez(path, x_0=x, y_0=model.predict(x, verbose=0))
    convert_model(H5, new, verify=path, plain=False)
    assert is_called(keras.models.load_model(new), x)


@pytest.mark.slow("TensorFlow")
@NEEDS_TENSORFLOW
@not_on_tensorflow
def test_recorded_texts_are_compared_outside_as_advised(tmp_path):
    folder = legacy_files.unpacked_models(
        tmp_path, "texts", ("texts/2.15.1/sentiment",)
    )
    path = folder / "texts" / "2.15.1" / "sentiment" / "model.keras"
    model = opened(path, texts="outside", compile=False)
    texts = np.array(["The cat!", "a dog sat", ""], dtype=str)
    y = model.predict(keras_policies.text_inputs(model)(texts), verbose=0)
    np.savez(tmp_path / "outputs.npz", x_0=texts, y_0=y)
    new, verify = tmp_path / "new.keras", tmp_path / "outputs.npz"
    advice = "Verify it there (KERAS_BACKEND=tensorflow), or pass texts='outside'"
    with pytest.raises(LegacyModelError, match=re.escape(advice)):
        convert_model(path, new, verify=verify)
    convert_model(path, new, verify=verify, texts="outside", plain=False)
    assert keras.models.load_model(new).name == model.name
