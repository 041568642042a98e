"""An input of unknown size has the size that a Normalization has learned."""

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import input_sizes

FOLDER = legacy_files.FOLDER / "unsized"
FILES = [
    "2.4.4/sequential/saved_model",
    "2.4.4/functional/model.h5",
    "2.15.1/functional/saved_model",
    "2.15.1/functional/model.keras",
    "2.15.1/sequential/model.keras",
]


@pytest.mark.parametrize("path", FILES)
def test_a_learned_mean_tells_the_size_of_the_input(path):
    model = keras_policies.load_model(FOLDER / path)
    assert model.input_shape == (None, 3)
    (found,) = legacy_files.outputs(model, FOLDER / path)
    np.testing.assert_allclose(
        found, legacy_files.arrays(FOLDER / path, "y_")[0], atol=1e-5
    )


@pytest.mark.parametrize("path", FILES)
def test_the_converted_file_opens_in_stock_keras(path, tmp_path):
    recorded = (FOLDER / path).parent / "expected.npz"
    keras_policies.convert_model(FOLDER / path, tmp_path / "new.keras", verify=recorded)
    model = keras.models.load_model(tmp_path / "new.keras")
    assert model.input_shape == (None, 3)


def sized(shape, axis, mean):
    """Return the shapes of an input and a Normalization after it."""
    given = {"batch_input_shape": shape}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", **given}},
        {"class_name": "Normalization", "config": {"name": "n", "axis": axis, **given}},
        {"class_name": "Dense", "config": {"name": "d"}},
    ]
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": layers}}
    weight = LegacyWeight("mean", "n/mean", mean, np.dtype("float32"), lambda: None)
    found = input_sizes.with_sizes(model, {"n": (weight,)})
    return [x["config"].get("batch_input_shape") for x in found["config"]["layers"]]


@pytest.mark.parametrize(
    ("axis", "mean", "expected"),
    [
        ([-1], (3,), [None, 5, None, 3]),
        (-1, (3,), [None, 5, None, 3]),
        ([3, 2], (4, 3), [None, 5, 4, 3]),
        ([1], (7,), [None, 5, None, None]),  # a known size stays
        ([-1], (4, 3), [None, 5, None, None]),  # a mean of other axes says nothing
        ([-1], (), [None, 5, None, None]),
        ([9], (3,), [None, 5, None, None]),
        (None, (), [None, 5, None, None]),
    ],
)
def test_the_sizes_are_those_of_the_axes_that_the_mean_keeps(axis, mean, expected):
    found = sized([None, 5, None, None], axis, mean)
    assert found == [expected, expected, None]
