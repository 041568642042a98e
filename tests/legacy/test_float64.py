"""A converted model keeps the float64 weights of its file on every backend."""

import zipfile

import h5py
import legacy_files
import numpy as np
import pytest

from keras_policies import convert_model

SOURCE = legacy_files.CORPUS / "1.15.5/infer_only/model.h5"


def arrays(file, group):
    """Return the float64 arrays in a group of an HDF5 file."""
    found = []

    def add(_, item):
        if isinstance(item, h5py.Dataset) and item.dtype == "float64":
            found.append(item[()])

    with h5py.File(file) as opened:
        opened[group].visititems(add)
    return found


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_a_converted_file_has_the_float64_weights_of_its_source(tmp_path):
    new = tmp_path / "new.keras"
    converted = convert_model(SOURCE, new, plain=False)
    with zipfile.ZipFile(new) as archive:
        archive.extract("model.weights.h5", tmp_path)
    before = arrays(SOURCE, "model_weights")
    after = arrays(tmp_path / "model.weights.h5", "layers")
    assert len(before) == len(after) == 4
    for wanted in before:
        assert any(np.array_equal(wanted, found) for found in after)
    assert any((x != x.astype("float32")).any() for x in before)
    assert not any("float64" in part for part in converted.left_out)
