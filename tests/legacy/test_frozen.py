"""Models with frozen parts, by write_frozen.py, get each weight where it was."""

import frozen_models
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies.legacy.assembly.keras_differences import frozen_parts

ARCHIVE = legacy_files.FOLDER / "frozen.tar.xz"
OBJECTS = {"Pair": frozen_models.pair(keras)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("frozen"), [ARCHIVE])


def check(model, case):
    with np.load(case / "expected.npz") as stored:
        found = model.predict(stored["x"], verbose=0)
        np.testing.assert_allclose(found, stored["y"], 1e-4, 1e-5)


@pytest.mark.filterwarnings("ignore:.*it trains differently")  # predictions alone
@pytest.mark.parametrize("release", legacy_files.by_release(["2.4.4", "2.15.1"]))
@pytest.mark.parametrize("name", frozen_models.MODELS)
def test_a_model_with_frozen_parts_computes_what_it_did(name, release, folder):
    case = folder / release / name
    check(keras_policies.load_model(case / "model.h5", OBJECTS, compile=False), case)


@pytest.mark.parametrize("form", ["weights.h5", "model.h5"])
@pytest.mark.parametrize("release", legacy_files.by_release(["2.4.4", "2.15.1"]))
@pytest.mark.parametrize("name", frozen_models.MODELS)
def test_its_weights_are_loaded_into_layers_with_other_numbers(
    name, release, form, folder
):
    keras.layers.Dense(1), keras.layers.LSTM(1), keras.layers.DepthwiseConv2D(1)
    model = frozen_models.MODELS[name][1](keras)
    keras_policies.load_weights(model, folder / release / name / form)
    check(model, folder / release / name)


@pytest.mark.parametrize("release", legacy_files.by_release(["2.4.4", "2.15.1"]))
def test_layers_in_lists_that_are_filled_late_get_their_weights(release, folder):
    model = frozen_models.listed(keras)
    keras_policies.load_weights(model, folder / release / "listed" / "weights.h5")
    check(model, folder / release / "listed")


@pytest.mark.parametrize("name", frozen_models.MODELS)
def test_its_weights_are_loaded_where_nothing_is_frozen(name, folder):
    model = frozen_models.MODELS[name][1](keras)
    # On TensorFlow, Keras ignores a flag that is equal to the model's own.
    model.trainable = False
    model.trainable = True
    keras_policies.load_weights(model, folder / "2.15.1" / name / "weights.h5")
    check(model, folder / "2.15.1" / name)


def fine_tuned(units, name="dense"):
    """Return the model of the case, with another last layer."""
    model = frozen_models.fine_tuned(keras)
    last = keras.layers.Dense(units, name=name)
    return keras.Model(model.input, last(model.layers[-2].output))


def base_agrees(model, folder):
    whole = frozen_models.fine_tuned(keras)
    keras_policies.load_weights(whole, folder / "2.15.1" / "fine_tuned" / "weights.h5")
    found, expected = (each.layers[1].get_weights() for each in (model, whole))
    return all(map(np.array_equal, found, expected)) and len(found) == 13


def test_layers_are_loaded_by_name_and_the_others_are_listed(folder):
    model = fine_tuned(1, "head")
    message = r"without these: 'head' is no layer of the file; 'dense' is no layer of"
    with pytest.warns(UserWarning, match=message):
        keras_policies.load_weights(
            model, folder / "2.15.1" / "fine_tuned" / "weights.h5", by_name=True
        )
    assert base_agrees(model, folder)


@pytest.mark.parametrize("by_name", [False, True])
def test_weights_of_another_shape_are_skipped_and_listed(by_name, folder):
    path, model = folder / "2.15.1" / "fine_tuned" / "weights.h5", fine_tuned(2)
    hint = r"(?s)dense/kernel has the shape \(3, 2\), the file's dense/kernel has "
    hint += r"\(3, 1\) of float32.*Pass "
    hint += (
        "skip_mismatch=True" if by_name else "by_name=True .* and skip_mismatch=True"
    )
    with pytest.raises(keras_policies.LegacyModelError, match=hint):
        keras_policies.load_weights(model, path, by_name=by_name)
    with pytest.warns(UserWarning, match=r"dense/kernel .* \(3, 2\).*dense/bias"):
        keras_policies.load_weights(model, path, by_name=by_name, skip_mismatch=True)
    assert base_agrees(model, folder)


def test_nothing_is_loaded_if_no_name_is_that_of_a_layer(folder):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="other")])
    with pytest.raises(keras_policies.LegacyModelError, match="none was loaded"):
        keras_policies.load_weights(
            model, folder / "2.15.1" / "fine_tuned" / "weights.h5", by_name=True
        )


class Block(keras.layers.Layer):
    def __init__(self, inner):
        super().__init__(trainable=False)
        self.inner = inner

    def call(self, inputs):
        return self.inner(inputs)


@pytest.mark.once("no backend matters")
def test_a_part_of_a_frozen_layer_is_trained_where_a_trainable_layer_has_it_too():
    """As tf.keras 2.15 does, whose `trainable_weights` are those of `shared` alone."""
    x = keras.Input((3,))
    shared, own = (keras.layers.Dense(3, name=name) for name in ("shared", "own"))
    model = keras.Model(x, Block(own)(Block(shared)(shared(x))))
    told = [*frozen_parts.freeze(model)]
    assert [each.path for each in model.trainable_weights] == [
        "shared/kernel",
        "shared/bias",
    ]
    assert len(told) == 1
