"""Layers that only lead to an added loss are left out, with their weights.

Written by write_added.py: a VAE whose loss takes the layers inside its encoder, and by
`tf.math.lgamma`, which Keras does not have; and a model with a loss of its own inside
another. Both were trained for a step.
"""

import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "added.tar.xz"
# File -> the steps of its optimizer that come back. A .keras file numbers the variables
# of its optimizer, which are others without the layers that are left out.
FILES = {
    "2.4.4/of_inner_layers/model.h5": 1,
    "2.4.4/inside/model.h5": 1,
    "2.15.1/of_inner_layers/saved_model": 1,
    "2.15.1/of_inner_layers/model.keras": 1,
    "2.15.1/inside/model.keras": 0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("added"), [ARCHIVE]) / "added"


@pytest.mark.parametrize("name", FILES)
def test_a_model_opens_without_the_layers_of_its_added_loss(name, folder):
    with pytest.warns(UserWarning, match="a loss or a metric of a tensor"):
        model = keras_policies.load_model(folder / name)
    names = [layer.name for layer in model.layers]
    assert names[1:] == ["encoder", "out"]
    assert [layer.name for layer in model.layers[1].layers[1:]] in (
        ["hidden", "mean"],
        ["code"],
    )
    recorded = legacy_files.expected(folder / name)
    found = model.predict(recorded["x"], verbose=0)
    np.testing.assert_allclose(found, recorded["y"], atol=1e-6)
    assert int(model.optimizer.iterations) == FILES[name]
