"""Kinds of models that Keras 2.15's own tests save open; see write_suite.py."""

import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, load_model

pytestmark = pytest.mark.filterwarnings("ignore:.*classes of these layers")
ARCHIVE = legacy_files.FOLDER / "suite.tar.xz"
DILATED = {
    "dilated_1d": ("Conv1D", (2,), "valid"),
    "dilated_2d": ("Conv2D", (2, 2), "valid"),
    "dilated_2d_same": ("Conv2D", (2, 3), "same"),
    "dilated_causal": ("Conv1D", (4,), "valid"),
    "dilated_depthwise": ("DepthwiseConv2D", (2, 2), "same"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("suite")
    return legacy_files.unpacked(made, [ARCHIVE]) / "suite"


def compared(path):
    model = load_model(path)
    (found,) = legacy_files.called(model, legacy_files.arrays(path, "x_")[0])
    expected = legacy_files.arrays(path, "y_")[0]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5 * np.abs(expected).max())
    return model


@pytest.mark.parametrize(("name", "expected"), DILATED.items(), ids=DILATED)
def test_a_convolution_between_blocks_of_unknown_size_is_a_dilated_layer(
    folder, name, expected
):
    convolution = compared(folder / name / "saved_model").layers[-1]
    rates = convolution.dilation_rate
    assert (type(convolution).__name__, rates, convolution.padding) == expected
    assert convolution.use_bias


@pytest.mark.parametrize("name", ["locally_connected_2", "locally_connected_3"])
def test_locally_connected_layers_by_sparse_products_open_by_their_functions(
    folder, name
):
    assert len(compared(folder / name / "saved_model").trainable_weights) == 4


@pytest.mark.parametrize("form", ["model.h5", "saved_model"])
def test_names_of_3000_characters_are_kept(folder, form):
    model = compared(folder / "long_names" / form)
    assert model.layers[-1].name == "dense_" + 3000 * "y"


def test_a_layer_that_is_in_a_nested_model_too_opens_by_the_function_of_the_model(
    folder,
):
    assert len(compared(folder / "in_both" / "saved_model").weights) == 4


def test_without_a_function_the_error_names_the_call_that_tf_keras_lost(folder):
    message = "called on 'x', which is not a layer of this model.* call load_weights"
    with pytest.raises(LegacyModelError, match=message):
        load_model(folder / "in_both" / "model.h5")
