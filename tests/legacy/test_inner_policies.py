"""Layers that a user's own classes make have the policy that the file records."""

import warnings

import keras
import legacy_files
import numpy as np
import pytest
from inner_classes import Block, Tower

import keras_policies
from keras_policies import LegacyModelError, load_model

FOLDER = legacy_files.FOLDER / "inner" / "2.4.4"
MIXED, FLOAT32 = "mixed_float16", "float32"
FILES = ["functional/saved_model", "functional/model.h5", "tower/saved_model"]


CUSTOM = {"Block": Block, "Tower": Tower}


def block_of(model):
    return next(item for item in model._flatten_layers() if isinstance(item, Block))


def policies_of(model):
    block = block_of(model)
    parts = block, block.first, block.late, block.exact
    return [part.dtype_policy.name for part in parts]


def predicted(model, path):
    stored = dict(np.load((FOLDER / path).parent / "expected.npz"))
    return np.asarray(model.predict(stored["x_0"], verbose=0)), stored["y_0"]


@pytest.mark.parametrize("around", [FLOAT32, MIXED])
@pytest.mark.parametrize("path", FILES)
def test_layers_of_a_class_of_ones_own_have_its_policy(path, around):
    with keras_policies.policy_scope(around):
        model = load_model(FOLDER / path, CUSTOM)
        assert keras.config.dtype_policy().name == around
    assert policies_of(model) == [MIXED, MIXED, MIXED, FLOAT32]
    assert {type(layer.dtype_policy) for layer in model._flatten_layers()} == {
        keras.DTypePolicy
    }
    found, wanted = predicted(model, path)
    np.testing.assert_allclose(found, wanted, atol=5e-3)


@pytest.mark.parametrize("path", FILES)
def test_another_policy_reaches_the_layers_of_ones_own_classes(path):
    with keras_policies.policy_scope(MIXED):
        model = load_model(FOLDER / path, CUSTOM, dtype_policy=FLOAT32)
    assert policies_of(model) == [FLOAT32, FLOAT32, FLOAT32, FLOAT32]


@pytest.mark.parametrize("path", FILES[:2])
def test_a_class_that_is_registered_gets_it_too(path):
    keras.saving.get_custom_objects()["Block"] = Block
    try:
        model = load_model(FOLDER / path)
    finally:
        del keras.saving.get_custom_objects()["Block"]
    assert policies_of(model) == [MIXED, MIXED, MIXED, FLOAT32]


class WithAFloat32Part(Block):
    """Gives a layer a dtype that the file's had not."""

    def __init__(self, units=4, **kwargs):
        super().__init__(units, **kwargs)
        self.first = keras.layers.Dense(
            units, activation="relu", dtype="float32", name="first"
        )


def test_a_dtype_of_the_users_own_code_stays_and_is_named():
    custom = {**CUSTOM, "Block": WithAFloat32Part}
    match = r"'block/first' \(float32, recorded mixed_float16\)"
    with pytest.warns(UserWarning, match=match) as caught:
        model = load_model(FOLDER / FILES[0], custom)
    ours = [each for each in caught if issubclass(each.category, UserWarning)]
    assert ours[0].filename == __file__
    assert policies_of(model) == [MIXED, FLOAT32, MIXED, FLOAT32]


class WithoutADtype(Block):
    """Forgets a dtype that the file's had."""

    def __init__(self, units=4, **kwargs):
        super().__init__(units, **kwargs)
        self.exact = keras.layers.Dense(units, name="exact")


def test_a_dtype_that_the_users_code_forgot_comes_from_the_saved_model():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = load_model(FOLDER / FILES[0], {"Block": WithoutADtype})
    assert policies_of(model) == [MIXED, MIXED, MIXED, FLOAT32]


class WithoutArguments(keras.layers.Layer):
    """Takes none of what its config has."""

    def __init__(self):
        super().__init__()


def test_a_class_that_does_not_take_its_config_is_named_with_the_cure():
    with pytest.raises(LegacyModelError) as caught:
        load_model(FOLDER / FILES[1], {"Block": WithoutArguments})
    text = str(caught.value)
    assert "the layer 'block': WithoutArguments cannot be made from its config" in text
    assert "['dtype', 'name', 'trainable', 'units']" in text
    assert "**kwargs that it passes to super().__init__(**kwargs)" in text


class WithRequired(Tower):
    """Takes an argument that the file does not record."""

    def __init__(self, width):
        super().__init__()


def test_an_argument_that_the_file_does_not_record_is_to_have_a_default():
    match = "'width'. The file does not record them: give them defaults in WithRequired"
    with pytest.raises(LegacyModelError, match=match):
        load_model(FOLDER / FILES[2], {"Tower": WithRequired})


def test_convert_says_that_the_new_file_does_not_record_such_policies(tmp_path):
    new = tmp_path / "new.keras"
    converted = keras_policies.convert_model(FOLDER / FILES[2], new, CUSTOM)
    (note,) = converted.left_out
    assert "'blocks/0/first' (mixed_float16)" in note
    assert "'blocks/0/exact'" not in note
    with keras_policies.policy_scope(MIXED):
        again = keras.models.load_model(new, CUSTOM, compile=False)
    assert policies_of(again) == [MIXED, MIXED, MIXED, FLOAT32]
