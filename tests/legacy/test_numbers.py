"""Layers of `.keras` files by their numbers, written by write_numbers.py."""

import json
import shutil
import zipfile

import keras
import legacy_files
import numbered_models
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "numbers.tar.xz"
RELEASES = "2.12.1", "2.13.1", "2.14.1", "2.15.1"
pytestmark = pytest.mark.once("readers use numpy")
MODELS = numbered_models.classes(keras)
CLASSES = {f"numbers>{name}": cls for name, cls in MODELS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("numbers"), [ARCHIVE])


def check(model, case):
    with np.load(case / "expected.npz") as stored:
        found = keras.ops.convert_to_numpy(model(stored["x"]))
        np.testing.assert_allclose(found, stored["y"], 1e-5, 1e-6)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["row", "nested", "net", "listed", "coder", "around"])
def test_layers_are_found_whatever_numbers_they_have(release, name, folder):
    case = folder / release / name
    check(keras_policies.load_model(case / "model.keras", CLASSES), case)


@pytest.mark.parametrize(
    ("release", "name"),
    [
        (release, name)
        for release in RELEASES
        for name in ("shared", "shared_first", "wrapped")
        if (release, name) != ("2.12.1", "shared_first")
    ],
)
def test_a_layer_that_is_stored_once_is_in_each_place(release, name, folder):
    """tf.keras opens none of them since 2.13."""
    case = folder / release / name
    with pytest.warns(UserWarning, match="the sharing of the layer 'dense"):
        model = keras_policies.load_model(case / "model.keras")
    check(model, case)


def test_a_call_on_an_input_of_another_model_is_refused(folder):
    path = folder / "2.12.1" / "shared_first" / "model.keras"
    with pytest.raises(LegacyModelError, match="tf.keras cannot open it either"):
        keras_policies.load_model(path)


@pytest.fixture
def changed(folder, tmp_path):
    """Return a function that changes the config of a file."""

    def change(case, edit):
        path = tmp_path / "model.keras"
        shutil.copyfile(case / "model.keras", path)
        with zipfile.ZipFile(case / "model.keras") as old:
            members = {name: old.read(name) for name in old.namelist()}
        config = json.loads(members["config.json"])
        edit(config["config"]["layers"])
        members["config.json"] = json.dumps(config).encode()
        with zipfile.ZipFile(path, "w") as new:
            for name, content in members.items():
                new.writestr(name, content)
        return path

    return change


def test_without_the_mark_of_a_shared_layer_the_file_is_refused(folder, changed):
    """Nothing says which of three layers is the one that is stored elsewhere."""

    def unmark(listed):
        for layer in listed:
            layer.pop("shared_object_id", None)

    path = changed(folder / "2.15.1" / "shared", unmark)
    message = r"the file holds \[none\]"
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.load_model(path)


@pytest.mark.parametrize("release", RELEASES)
def test_a_shared_layer_whose_name_two_layers_have_is_refused(release, folder):
    path = folder / release / "namesakes" / "model.keras"
    with pytest.raises(LegacyModelError, match=r"'a' has .* the file holds \[none\]"):
        keras_policies.load_model(path)
