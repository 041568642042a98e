"""Models whose configs mean something else in Keras 3, written by write_configs.py."""

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "configs.tar.xz"
# Case, or its file alone -> what the error says.
REFUSED = {
    "conv1d_twice": "'conv': it is called on tensors of different ranks",
    "custom_standardization": "shouted .layers 'words'",
    "locally_connected_sparse": "with implementation=3, which Keras 3 cannot do",
    "normalization_of_shared_items": "to be kept must have a known shape",
    "ragged_constant": "'tf.math.multiply': it takes a constant that is Ragged, and",
    "repeated_by_tensor": r"'tf.repeat': .* \(pad to a known length, in code",
    "sequence_features": "no feature columns; it has FeatureSpace",
    "wide_deep_in_graph/model.h5": "no premade models; a SavedModel and a .keras file",
}
LOST = "the classes of these layers are not to be found"
WARNED = {
    "lost_cell": LOST,
    "added_weight": r"\(3,\), which is no weight of 'dense'",
    "lost_keyword": LOST,
    "lost_states": LOST,
    "wide_deep_model": "an optimizer for each part, because Keras 3 trains with one",
    "frozen_parts": "that 'heads' is frozen, in a file that you save",
    "sharpness_aware": "SharpnessAwareMinimization, so that the model in it trains by",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("configs"), [ARCHIVE])


def refusal(name):
    """Return what the error says of the file `release/case/form`, None if it opens."""
    _, case, form = name.split("/")
    return REFUSED.get(case) or REFUSED.get(f"{case}/{form}")


def names(kept):
    """Return the names `release/case/form` of some files."""
    found = [name for name in legacy_files.names(ARCHIVE) if kept(name)]
    if not legacy_files.RESIZES:  # what begins with a Resizing
        found = [name for name in found if "/whole_numbers" not in name]
    return legacy_files.on_this_backend(found)


def is_trained(name):
    """Return whether a file has a model that was compiled for these tests."""
    return name.split("/")[1].startswith(
        ("frozen", "linear", "locally", "wide_deep_of")
    )


def opened(path):
    match = WARNED.get(path.parent.name)
    if match is None:
        return keras_policies.load_model(path)
    with pytest.warns(UserWarning, match=match):
        return keras_policies.load_model(path)


def check(model, path, atol=1e-5):
    """Compare the outputs of a model with those that TensorFlow recorded."""
    arrays = legacy_files.arrays(path, "x_")
    found = legacy_files.called(model, legacy_files.one(arrays))
    for output, wanted in zip(found, legacy_files.arrays(path, "y_"), strict=True):
        assert output.shape == wanted.shape
        np.testing.assert_allclose(output, wanted, atol=atol)


@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")  # Keras 3.16
@pytest.mark.parametrize("name", names(lambda name: not refusal(name)))
def test_it_gives_what_tensorflow_recorded_and_so_does_the_converted_file(
    name, folder, tmp_path
):
    model = opened(folder / name)
    model.save(tmp_path / "new.keras")
    check(model, folder / name)
    check(keras.models.load_model(tmp_path / "new.keras"), folder / name)


@pytest.mark.parametrize("name", names(refusal))
def test_the_error_says_what_keras_lacks(name, folder):
    with pytest.raises(LegacyModelError, match=refusal(name)) as caught:
        keras_policies.load_model(folder / name)
    assert caught.value.hint


@pytest.mark.parametrize(
    "name", names(lambda name: is_trained(name) and not refusal(name))
)
def test_the_model_trains_on_as_in_tensorflow(name, folder):
    model = opened(folder / name)
    x = legacy_files.one(legacy_files.arrays(folder / name, "x_"))
    model.fit(x, np.ones((4, 1)), verbose=0)
    (expected,) = legacy_files.arrays(folder / name, "trained")
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)


@pytest.mark.once("no backend matters")
def test_an_average_that_begins_later_is_told(folder, tmp_path):
    def change(config):
        config["optimizer_config"]["config"]["use_ema"] = True

    source, path = folder / "2.15.1/frozen_parts/model.h5", tmp_path / "model.h5"
    legacy_files.edited(source, path, "training_config", change)
    with pytest.warns(match="the average of weights from before the first step"):
        keras_policies.load_model(path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_policy_map_says_what_a_resizing_computes_in(folder, dtype):
    path = folder / "2.15.1" / "resizing_bicubic" / "model.h5"
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    policies["another"] = keras.DTypePolicy("mixed_float16")
    policies["resizing"] = keras.DTypePolicy(dtype)
    model = keras_policies.load_model(path, dtype_policy=policies)
    assert keras.backend.standardize_dtype(model.output.dtype) == dtype


def test_an_embedding_by_itself_takes_ids_of_any_rank(folder):
    model = keras_policies.load_model(folder / "2.15.1/embedding_of_ids/model.h5")
    for shape in (4,), (4, 2), (4, 2, 1):
        assert model(np.zeros(shape, "int32")).shape == (*shape, 3)
    assert model.predict(np.zeros((4,), "int32"), verbose=0).shape == (4, 3)


def test_weights_that_a_program_gave_to_a_layer_are_refused_by_another_program(folder):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")])
    with pytest.raises(LegacyModelError, match=r"the file holds .*more .*\(3,\)"):
        keras_policies.load_weights(model, folder / "2.15.1/added_weight/model.h5")


def test_a_cell_of_ones_own_is_unrolled_where_the_model_says_how_often(folder):
    path = folder / "2.15.1/lost_cell/saved_model"
    for options in ({}, {"signature": "serving_default"}):
        with pytest.warns(UserWarning, match=LOST):
            model = keras_policies.load_model(path, **options)
        check(model, path)
