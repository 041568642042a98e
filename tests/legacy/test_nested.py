"""Models in models, frozen, shared or run over time steps; by write_nested.py."""

import re
import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "nested.tar.xz"
NAMES = legacy_files.on_this_backend(legacy_files.names(ARCHIVE))
UNLIKE = "(?s).*starts anew|.*now apart|.*each step has its own"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("nested"), [ARCHIVE])


def trains_otherwise(name):
    """Return whether a model does not train as it did.

    TensorFlow 2.4 did not write to H5 files that a model is not trained. Keras 3 cannot
    read a layer that several models share, and normalizes each step by itself.
    """
    return re.search("^2.4.4/frozen/model.h5|shared|normalized_steps", name)


def opened(path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=UNLIKE)
        return keras_policies.load_model(path)


@pytest.mark.parametrize("name", NAMES)
def test_it_predicts_what_tensorflow_did_and_so_does_the_converted_file(
    name, folder, tmp_path
):
    stored = legacy_files.expected(folder / name)
    model = opened(folder / name)
    model.save(tmp_path / "new.keras")
    for each in model, keras.models.load_model(tmp_path / "new.keras"):
        (y,) = legacy_files.called(each, stored["x"])
        np.testing.assert_allclose(y, stored["y"], atol=1e-5)


# Of the output that is not used.
@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")
@pytest.mark.parametrize("name", [name for name in NAMES if not trains_otherwise(name)])
def test_the_next_step_moves_the_weights_that_tensorflow_moved(name, folder):
    stored = legacy_files.expected(folder / name)
    model = opened(folder / name)
    model.train_on_batch(stored["x"], stored["t"])
    after = legacy_files.arrays(folder / name, "after_")
    # TensorFlow lists the weights of layers that do not train elsewhere.
    both = (sorted(each, key=np.shape) for each in (model.get_weights(), after))
    for weight, wanted in zip(*both, strict=True):
        np.testing.assert_allclose(weight, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("2.4.4/shared/saved_model", r"'dense\w*/kernel' by 2 layers"),
        ("2.15.1/shared/saved_model", "the layer 'dense' by several models"),
        ("2.15.1/shared/model.h5", "the layer 'dense' by several models"),
    ],
)
def test_a_layer_that_models_shared_is_named(file, told, folder):
    path = folder / file
    with pytest.warns(UserWarning, match=f"sharing of {told}"):
        keras_policies.load_model(path)
    parts = keras_policies.inspect_model(path).parts
    assert {part.code for part in parts if part.outcome.value != "complete"} == {
        "KP606"
    }


@pytest.mark.parametrize("release", ["2.4.4", "2.15.1"])
def test_batch_statistics_of_steps_are_told(release, folder):
    path = folder / release / "normalized_steps/model.h5"
    told = "statistics of all steps together in 'time_distributed'"
    with pytest.warns(UserWarning, match=told):
        keras_policies.load_model(path)


def test_a_variable_without_a_gradient_has_no_slot_and_is_named(folder):
    path = folder / "2.4.4/unused_output/model.h5"
    with pytest.warns(UserWarning, match="none of dense/kernel and dense/bias: it"):
        keras_policies.load_model(path)
