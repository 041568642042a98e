"""Lookup layers inside a layer of a missing class stay so, with what they learned.

Written by write_lost_lookups.py: one is called by the layer, which holds it under
another name than its own, and one by a Sequential inside.
"""

import importlib.util

import legacy_files
import numpy as np
import pytest

import keras_policies

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="the lookup layers of Keras 3 cannot be made without TensorFlow",
)
ARCHIVE = legacy_files.FOLDER / "lost_lookups.tar.xz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("lookups")
    return legacy_files.unpacked(made, [ARCHIVE]) / "lost_lookups"


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")  # of jax
@pytest.mark.parametrize("release", ["2.4.4", "2.15.1"])
def test_a_lost_layer_looks_words_up_as_it_did(release, folder):
    path = folder / release / "saved_model"
    with pytest.warns(UserWarning, match="'item' \\(Item\\)"):
        model = keras_policies.load_model(path)
    inner = model.get_layer("item")
    classes = [type(inner.get_layer(name)).__name__ for name in ("kinds", "row")]
    assert classes == ["IntegerLookup", "Sequential"]
    assert inner.get_layer("kinds").get_vocabulary()[-1] in (7, 9)
    recorded = legacy_files.expected(path)
    found = model.predict(recorded["x"], verbose=0)
    np.testing.assert_allclose(found, recorded["y"], atol=1e-6)
