"""Models whose texts are read outside of them give what TensorFlow gave.

Written by write_texts.py: TensorFlow's own layers of texts on hard ones, and models.
"""

import json

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import TextInputs, load_model, text_inputs
from keras_policies.legacy.texts.layers import TextLayer

ARCHIVE = legacy_files.FOLDER / "texts.tar.xz"
RELEASES = "2.4.4", "2.9.3", "2.15.1"
LOST = "ranking/model.keras"  # holds no functions that its lost class becomes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("texts")
    return legacy_files.unpacked(made, [ARCHIVE]) / "texts"


@pytest.fixture(scope="module")
def sentiment(folder):
    return load_model(folder / "2.15.1/sentiment/model.keras", texts="outside")


def recorded(folder):
    stored = np.load(folder / "expected.npz")
    count = sum(name.startswith("x_") for name in stored)
    return [stored[f"x_{number}"] for number in range(count)], stored["y_0"]


@legacy_files.once
@pytest.mark.parametrize("release", RELEASES)
def test_a_layer_gives_what_tensorflow_gave_for_hard_texts(release, folder):
    stored = json.loads((folder / f"{release}.json").read_text())
    assert len(stored["cases"]) == (42 if release == "2.4.4" else 126)
    for case in stored["cases"]:
        texts = [text.encode("latin-1") for text in stored[case["x"]]]
        x = np.array(texts, object).reshape(case["shape"])
        y = TextLayer("layer", case["class_name"], case["config"])(x)
        assert y.shape == np.shape(case["y"]), case
        np.testing.assert_allclose(y, case["y"], 1e-6, err_msg=str(case["config"]))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.filterwarnings("ignore:.*classes of these layers", "ignore:.*not checked")
def test_a_model_predicts_what_tensorflow_predicted(release, folder):
    artifacts = legacy_files.artifacts(folder)
    paths = [p for p in artifacts if p.parts[-3] == release and LOST not in str(p)]
    assert len(paths) == {"2.4.4": 10, "2.9.3": 12, "2.15.1": 20}[release]
    for path in paths:
        x, y = recorded(path.parent)
        model = load_model(path, texts="outside")
        found = model.predict(text_inputs(model)(*x), verbose=0)
        np.testing.assert_allclose(found, y, 1e-4, 1e-5, err_msg=str(path))


@pytest.mark.parametrize("case", ["towers", "hashed", "shared", "mixed"])
def test_the_new_file_predicts_the_same_in_plain_keras(case, folder, tmp_path):
    path, new = folder / "2.15.1" / case / "saved_model", tmp_path / "model.keras"
    outputs = path.parent / "expected.npz"
    done = keras_policies.convert_model(path, new, verify=outputs, texts="outside")
    assert done.largest_difference <= 1e-4
    x, y = recorded(path.parent)
    texts = TextInputs.from_json((tmp_path / "model.texts.json").read_text())
    model = keras.models.load_model(new)
    assert not any("string" in str(tensor.dtype) for tensor in model.inputs)
    np.testing.assert_allclose(model.predict(texts(*x), verbose=0), y, 1e-4, 1e-5)
