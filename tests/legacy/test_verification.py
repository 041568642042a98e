"""Recorded outputs prove something, or the conversion is refused."""

import importlib.util
import re

import inner_classes
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, convert_model
from keras_policies.legacy import verification
from keras_policies.legacy.guards import paths

SOURCE = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "saved_model"
FLOAT32 = legacy_files.folder("more") / "2.4.4" / "amsgrad" / "model.h5"
TOWER = legacy_files.FOLDER / "inner" / "2.4.4" / "tower" / "saved_model"


def recorded(tmp_path, source=SOURCE, **changed):
    """Return the path of what was recorded, with some arrays changed; None is out."""
    stored = dict(np.load(source.parent / "expected.npz"))
    stored = {name: stored[name] for name in ("x_0", "y_0")} | changed
    path = tmp_path / "outputs.npz"
    np.savez(path, **{name: item for name, item in stored.items() if item is not None})
    return path


def stored(source, name):
    return np.load(source.parent / "expected.npz")[name]


def refused(tmp_path, source, match, **changed):
    verify = recorded(tmp_path, source, **changed)
    with pytest.raises(LegacyModelError, match=match):
        convert_model(source, tmp_path / "new.keras", verify=verify)
    assert not (tmp_path / "new.keras").exists()


@pytest.mark.parametrize(
    ("source", "share"), [(SOURCE, 1e-2), (FLOAT32, 1e-3)], ids=["float16", "float32"]
)
def test_the_allowed_difference_is_a_share_of_the_largest_output(
    tmp_path, source, share
):
    new, largest = tmp_path / "new.keras", np.max(np.abs(stored(source, "y_0")))
    found = convert_model(source, new, verify=recorded(tmp_path, source))
    assert found.allowed_difference == pytest.approx(share * largest, rel=1e-5)
    assert found.largest_difference <= share * largest
    off = stored(source, "y_0") + np.float32(1.5 * share * largest)
    refused_path = tmp_path / "refused"
    refused_path.mkdir()
    refused(
        refused_path, source, "differ from the recorded ones: .* allowed 0.0", y_0=off
    )


def test_rows_in_another_order_are_noticed(tmp_path):
    wrong = stored(SOURCE, "y_0")[::-1]
    refused(tmp_path, SOURCE, "its outputs differ from the recorded ones", y_0=wrong)


def test_other_inputs_are_noticed(tmp_path):
    other = np.random.default_rng(0).uniform(-3, 3, stored(SOURCE, "x_0").shape)
    refused(tmp_path, SOURCE, "its outputs differ from the recorded ones", x_0=other)


def test_outputs_that_hardly_vary_prove_nothing(tmp_path):
    x, y = stored(FLOAT32, "x_0"), stored(FLOAT32, "y_0")
    same = {"x_0": np.repeat(x[:1], 4, 0), "y_0": np.repeat(y[:1], 4, 0)}
    refused(
        tmp_path, FLOAT32, r"nothing can be proven: .* y_0 varies by only 0 ", **same
    )


def test_one_row_is_compared(tmp_path):
    one = {"x_0": stored(FLOAT32, "x_0")[:1], "y_0": stored(FLOAT32, "y_0")[:1]}
    found = convert_model(
        FLOAT32, tmp_path / "new.keras", verify=recorded(tmp_path, FLOAT32, **one)
    )
    assert found.largest_difference < 1e-5


def test_nan_is_no_output(tmp_path):
    wrong = stored(SOURCE, "y_0") * np.nan
    refused(tmp_path, SOURCE, "the largest difference is nan", y_0=wrong)


def test_arrays_that_would_not_be_used_are_refused(tmp_path):
    x = stored(SOURCE, "x_0")
    refused(tmp_path, SOURCE, "its number of inputs is 1; recorded: x_0, x_1", x_1=x)
    match = r"expected .* y_1, …, found \['labels', 'x_0'\]"
    refused(tmp_path, SOURCE, match, labels=np.ones(3), y_0=None)
    refused(tmp_path, SOURCE, r"found \['x_0', 'y_1'\]", y_0=None, y_1=x)


def test_inputs_of_another_shape_are_named(tmp_path):
    match = r"cannot be called on inputs of the shapes \[\(2, 3\)\] in plain Keras: Val"
    refused(tmp_path, SOURCE, match, x_0=np.ones((2, 3), "float32"))


def test_an_error_of_keras_is_told_without_the_values_of_a_tensor(tmp_path):
    source = legacy_files.CORPUS / "2.4.4" / "seq_dense_bf16" / "model.h5"
    # On torch the error of Keras has the values of the tensor.
    match = r"(?s)Invalid input shape for input (?!.*0\.5)"
    refused(tmp_path, source, match, x_0=np.full((8, 2, 2, 9), -0.5, "float32"))


def test_what_is_no_npz_says_how_to_record_one(tmp_path):
    np.save(tmp_path / "outputs.npy", np.ones(3))
    match = re.escape('np.savez("outputs.npz", x_0=x, y_0=model.predict(x))')
    with pytest.raises(LegacyModelError, match=match):
        convert_model(SOURCE, tmp_path / "new.keras", verify=tmp_path / "outputs.npy")


TEXT = legacy_files.folder("lookups") / "2.15.1" / "TextVectorization-tf_idf"


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="Keras makes no TextVectorization without TensorFlow",
)
def test_texts_are_compared_on_tensorflow_and_elsewhere_it_is_said(tmp_path):
    source = TEXT / "saved_model"
    if keras.backend.backend() != "tensorflow":
        refused(tmp_path, source, r"inputs are texts, .*\(KERAS_BACKEND=tensorflow\)")
        return
    new = tmp_path / "new.keras"
    found = convert_model(source, new, verify=recorded(tmp_path, source))
    assert found.largest_difference < 1e-5
    wrong = stored(source, "y_0")[::-1]
    new.unlink()
    refused(tmp_path, source, "outputs differ from the recorded ones", y_0=wrong)


def test_a_model_that_cannot_be_opened_again_is_not_written(tmp_path):
    given = r"Give ClosedTower.__init__ \*\*kwargs, and pass them on to"
    custom = {"Tower": inner_classes.ClosedTower}
    with pytest.raises(LegacyModelError, match=f"cannot be opened: .*{given}"):
        convert_model(TOWER, tmp_path / "new.keras", custom)
    assert list(tmp_path.iterdir()) == []


class Renamed(inner_classes.Tower):
    """Goes by another name in the program than in the file."""


def test_a_class_by_another_name_than_in_the_file_is_found_again(tmp_path):
    new, verify = tmp_path / "new.keras", recorded(tmp_path, TOWER)
    custom = {"Tower": Renamed}
    assert convert_model(TOWER, new, custom, verify=verify).largest_difference < 5e-3
    again = keras.models.load_model(new, {"Renamed": Renamed}, compile=False)
    assert isinstance(again, Renamed)


def test_a_recording_without_permission_is_not_called_missing(tmp_path, monkeypatch):
    path = recorded(tmp_path)

    def stat(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(paths.os, "stat", stat)
        with pytest.raises(LegacyModelError, match="not a readable .npz file: .*13"):
            verification.read(path)
