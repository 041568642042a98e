"""Checkpoints that hold several objects, written by write_objects.py."""

import keras
import legacy_files
import numpy as np
import pytest
from keras import layers

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "objects.tar.xz"
RELEASES = "2.4.4", "2.15.1"
pytestmark = pytest.mark.once("readers use numpy")


def generator(units=8):
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(units),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Reshape((2, 2, units // 4)),
            layers.Conv2DTranspose(1, 3, 2, padding="same", activation="tanh"),
        ]
    )


def discriminator():
    convolution = layers.Conv2D(2, 3)
    parts = [keras.Input((4, 4, 1)), convolution, layers.Flatten(), layers.Dense(1)]
    return keras.Sequential(parts)


def tower(units):
    return keras.Sequential([layers.Dropout(0.1), layers.Dense(units)])


class Ranking(keras.Model):
    """The layout of a ranking model of TensorFlow Recommenders."""

    def __init__(self):
        super().__init__()
        self.towers = [tower(4), tower(4)]
        self.ratings = keras.Sequential([layers.Dense(3), tower(1)])

    def call(self, inputs):
        return self.ratings(self.towers[0](inputs) * self.towers[1](inputs))


def nested():
    x = keras.Input((3,))
    inner = keras.Model(x, layers.Dense(2)(layers.ReLU()(layers.Dense(4)(x))))
    y = keras.Input((3,))
    middle = keras.Model(y, layers.Dense(3)(inner(y)))
    z = keras.Input((3,))
    return keras.Model(z, middle(layers.Dense(3)(z)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("objects"), [ARCHIVE])


def check(model, case):
    with np.load(case / "expected.npz") as stored:
        found = keras.ops.convert_to_numpy(model(stored["x"]))
        np.testing.assert_allclose(found, stored["y"], 1e-5, 1e-6)


@legacy_files.needs_transposes
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("root", [None, "generator"])
def test_the_generator_of_a_gan_is_found(release, root, folder):
    model, case = generator(), folder / release / "gan"
    keras_policies.load_weights(model, case / "checkpoint-1", root=root)
    check(model, case)


@pytest.mark.parametrize("release", RELEASES)
def test_of_two_equal_models_the_root_tells_which(release, folder):
    case = folder / release / "twins"
    message = r"fit the model: \['one', 'other'\].* Pass .* root='other'"
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.load_weights(discriminator(), case / "checkpoint-1")
    model = discriminator()
    keras_policies.load_weights(model, case / "checkpoint-1", root="other")
    check(model, case)
    keras_policies.load_weights(model, case / "checkpoint-1", root="one")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(model, case)


@pytest.mark.parametrize("release", RELEASES)
def test_layers_of_models_in_a_ranking_model_are_found_by_their_numbers(
    release, folder
):
    model, case = Ranking(), folder / release / "ranking"
    model(np.zeros((1, 3), "float32"))
    with pytest.warns(UserWarning, match=r"without .*seen/total"):
        keras_policies.load_weights(model, case / "checkpoint")
    check(model, case)


@pytest.mark.parametrize("release", RELEASES)
def test_a_tower_of_a_ranking_model_is_a_root(release, folder):
    case, model = folder / release / "ranking", keras.Sequential([keras.Input((4,))])
    model.add(layers.Dense(3))
    model.add(tower(1))
    keras_policies.load_weights(model, case / "checkpoint", root="ratings")
    whole = Ranking()
    whole(np.zeros((1, 3), "float32"))
    with pytest.warns(UserWarning, match=r"without .*seen/total"):
        keras_policies.load_weights(whole, case / "checkpoint")
    for found, wanted in zip(model.weights, whole.ratings.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (found, wanted)))


@pytest.mark.parametrize("release", RELEASES)
def test_layers_of_models_in_models_are_found_by_their_numbers(release, folder):
    model, case = nested(), folder / release / "nested"
    keras_policies.load_weights(model, case / "checkpoint")
    check(model, case)


def test_if_no_object_fits_they_are_listed(folder):
    path = folder / "2.15.1" / "gan" / "checkpoint-1"
    message = r"no object .* fits the model: \['discriminator', .*'generator'"
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.load_weights(generator(4), path)


def test_the_error_of_a_root_names_the_layers(folder):
    path = folder / "2.15.1" / "gan" / "checkpoint-1"
    with pytest.raises(LegacyModelError, match=r"\(3, 4\), the file's .* \(3, 8\)"):
        keras_policies.load_weights(generator(4), path, root="generator")


def test_an_unknown_root_is_refused_with_the_list(folder):
    path = folder / "2.15.1" / "gan" / "checkpoint-1"
    message = r"no object 'critic' .* tracks \['discriminator', .*'generator'"
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.load_weights(generator(), path, root="critic")


def test_an_h5_file_has_no_root(folder, tmp_path):
    path = next(legacy_files.folder("more").rglob("*weights*.h5"))
    with pytest.raises(LegacyModelError, match="no objects; received root='model'"):
        keras_policies.load_weights(generator(), path, root="model")
