"""Follows each advice of an error, from the file to a model that can be called."""

import pathlib
import re
import shutil

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError, convert_model, load_model, load_weights
from keras_policies.cli.main import main

CUSTOM = legacy_files.MORE / "2.4.4" / "custom_layer"
AMSGRAD = legacy_files.MORE / "2.4.4" / "amsgrad" / "model.h5"
DENSE = legacy_files.CORPUS / "2.15.1" / "seq_dense"
CHECKPOINTS = legacy_files.FOLDER / "checkpoints.tar.xz"
pytestmark = pytest.mark.once("errors are the same on each backend")


def is_called(model):
    """Return whether a model gives finite numbers for ones."""
    shapes = [(2, *(size or 3 for size in x.shape[1:])) for x in model.inputs]
    arrays = [np.ones(shape, "float32") for shape in shapes]
    found = model(arrays if len(arrays) > 1 else arrays[0])
    outputs = map(keras.ops.convert_to_numpy, keras.tree.flatten(found))
    return all(np.isfinite(each.astype("float32")).all() for each in outputs)


def advice(call):
    """Return the error of a call, which has to give advice."""
    with pytest.raises(LegacyModelError) as caught:
        call()
    assert caught.value.hint
    return str(caught.value)


def test_a_missing_class_is_passed_under_the_name_in_the_error():
    path = CUSTOM / "model.h5"
    (name,) = re.findall(
        r"custom_objects=\{'(\w+)': ", advice(lambda: load_model(path))
    )
    assert is_called(load_model(path, {name: legacy_files.Scale}))


def test_a_class_that_shares_the_name_of_one_of_keras_is_passed(tmp_path):
    path = legacy_files.edited(
        AMSGRAD, tmp_path / "edited.h5", "model_config", legacy_files.as_other_class
    )
    said = advice(lambda: load_model(path))
    found = keras_policies.inspect_model(path)
    assert found.code == "KP303"
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", said)
    assert name in found.problem

    class Mine(keras.layers.Dense):
        def __init__(self, gain, **kwargs):
            super().__init__(**kwargs)

    assert is_called(load_model(path, {name: Mine}, compile=False))


def test_an_architecture_takes_its_weights(tmp_path):
    model = load_model(AMSGRAD, compile=False)
    with h5py.File(AMSGRAD) as file:
        (tmp_path / "model.json").write_text(file.attrs["model_config"])
    shutil.copy(AMSGRAD, tmp_path / "weights.h5")
    source, new = tmp_path / "model.json", tmp_path / "new.keras"
    said = advice(lambda: convert_model(source, new, plain=False))
    assert 'weights="weights.h5"' in said
    weights = tmp_path / "weights.h5"
    convert_model(source, new, plain=False, weights=weights)
    opened = keras.models.load_model(new, compile=False)
    for one, other in zip(opened.weights, model.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_weights_that_do_not_fit_are_skipped_and_nothing_tried_is_advised():
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(3, name="other")])
    said = advice(lambda: load_weights(model, AMSGRAD))
    assert "by_name=True" in said
    assert "skip_mismatch=True" in said
    said = advice(lambda: load_weights(model, AMSGRAD, skip_mismatch=True))
    assert "skip_mismatch" not in said
    both = {"by_name": True, "skip_mismatch": True}
    said = advice(lambda: load_weights(model, AMSGRAD, **both))
    assert said.endswith(
        "Build the model with the layers, names and shapes of the file."
    )
    same = keras.models.clone_model(load_model(AMSGRAD, compile=False))
    load_weights(same, AMSGRAD)
    assert is_called(same)


def test_weights_are_loaded_from_a_keras_file():
    path = next(DENSE.glob("*.keras"))
    wanted = load_model(path, compile=False)
    model = keras.models.clone_model(wanted)
    load_weights(model, path)
    for one, other in zip(model.weights, wanted.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert is_called(model)


def test_a_folder_of_checkpoints_is_its_latest(tmp_path):
    for name in "ckpt-1", "ckpt-2":
        for ending in ".index", ".data-00000-of-00001":
            (tmp_path / f"{name}{ending}").touch()
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/old/ckpt-1"\n')
    latest = str(tmp_path / "ckpt-1")
    for path in tmp_path, tmp_path / "checkpoint":
        assert f"load_weights(model, {latest!r})" in advice(
            lambda p=path: load_model(p)
        )


def test_a_part_of_a_model_is_exchanged_for_the_whole():
    folder = CUSTOM / "saved_model"
    said = advice(lambda: load_model(folder / "saved_model.pb"))
    (named,) = re.findall("Pass the folder '(.*)'", said)
    assert pathlib.Path(named) == folder
    with pytest.warns(keras_policies.OutcomeWarning, match="were rebuilt from"):
        assert is_called(load_model(named))


def test_a_file_that_exists_is_replaced(tmp_path):
    new = tmp_path / "new.keras"
    new.touch()
    said = advice(lambda: convert_model(AMSGRAD, new, plain=False))
    assert "overwrite=True" in said
    convert_model(AMSGRAD, new, plain=False, overwrite=True)
    assert is_called(keras.models.load_model(new, compile=False))


def test_a_lost_loss_is_passed_under_the_name_in_the_warning(tmp_path):
    path = legacy_files.edited(
        AMSGRAD,
        tmp_path / "edited.h5",
        "training_config",
        lambda w: w.update(loss="my_loss"),
    )
    with pytest.warns(keras_policies.OutcomeWarning) as caught:
        assert not load_model(path).compiled
    (told,) = (w.message for w in caught if hasattr(w.message, "parts"))
    assert told.outcome is keras_policies.Outcome.LOST
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", str(told))
    model = load_model(path, {name: keras.losses.mean_squared_error})
    assert model.compiled
    assert is_called(model)


def test_the_shell_is_advised_in_its_own_words(tmp_path, capsys):
    new = str(tmp_path / "new.keras")
    assert main(["convert", str(CUSTOM / "model.h5"), new]) == 1
    (option,) = re.findall(r"--custom-objects \w+=MODULE:NAME", capsys.readouterr().err)
    given = option.split()[1].replace("MODULE:NAME", "legacy_files:Scale")
    source = str(CUSTOM / "model.h5")
    assert main(["convert", source, new, "--custom-objects", given, "--no-plain"]) == 0
    capsys.readouterr()
    assert main(["convert", source, new, "--custom-objects", given]) == 1
    assert "--overwrite" in capsys.readouterr().err
