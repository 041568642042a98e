"""Layers of `.keras` files by their numbers, written by write_numbers.py."""

import json
import shutil
import zipfile

import keras
import legacy_files
import numpy as np
import pytest
from keras import layers

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "numbers.tar.xz"
RELEASES = "2.12.1", "2.13.1", "2.14.1", "2.15.1"
pytestmark = pytest.mark.once("readers use numpy")


class Net(keras.Model):
    """The model of write_numbers.py."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.z = layers.Dense(3, activation="tanh")
        self.blocks = [layers.Dense(3) for _ in range(2)]
        self.a = layers.Dense(3)
        self._first = layers.Dense(3)

    def call(self, inputs):
        x = self.a(self.z(self._first(inputs)))
        for block in self.blocks:
            x = block(x)
        return x


class Listed(keras.Model):
    """The Functional model of write_numbers.py, with attributes."""

    def __init__(self, **kwargs):
        x = keras.Input((3,))
        first, last = layers.Dense(3), layers.Dense(3, activation="tanh")
        super().__init__(x, layers.Dense(3)(last(layers.Dense(3)(first(x)))), **kwargs)
        self.zero, self.before = first, last

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


class Coder(layers.Layer):
    """Functional models as attributes, which its config has under the same names."""

    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.between, self.decoder = encoder, layers.Dense(3), decoder

    def call(self, inputs):
        return self.decoder(self.between(self.encoder(inputs)))

    def get_config(self):
        models = {"encoder": self.encoder, "decoder": self.decoder}
        models = {
            key: keras.saving.serialize_keras_object(each)
            for key, each in models.items()
        }
        return {**super().get_config(), **models}

    @classmethod
    def from_config(cls, config):
        for key in ("encoder", "decoder"):
            if isinstance(config[key], dict):
                config[key] = keras.saving.deserialize_keras_object(config[key])
        return cls(**config)


class Around(Coder):
    """The first of them alone, under another name."""

    def __init__(self, model, **kwargs):
        layers.Layer.__init__(self, **kwargs)
        self.inner, self.after = model, layers.Dense(3)

    def call(self, inputs):
        return self.after(self.inner(inputs))

    def get_config(self):
        config = layers.Layer.get_config(self)
        return {**config, "model": keras.saving.serialize_keras_object(self.inner)}

    @classmethod
    def from_config(cls, config):
        if isinstance(config["model"], dict):
            config["model"] = keras.saving.deserialize_keras_object(config["model"])
        return cls(**config)


CLASSES = {f"numbers>{cls.__name__}": cls for cls in (Net, Listed, Coder, Around)}


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
    with pytest.warns(UserWarning, match="the sharing of .*kernel' by 2 layers"):
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
