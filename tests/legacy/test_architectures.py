"""Architectures in JSON and YAML with weights beside them (write_architectures.py)."""

import json
import math
import sys

import h5py
import keras
import legacy_files
import numpy as np
import pytest
import yaml

import keras_policies
from keras_policies import LegacyModelError
from keras_policies.cli.main import main
from keras_policies.legacy.guards import limits, yaml_values

ARCHIVE = legacy_files.FOLDER / "architectures.tar.xz"
KERAS_1 = legacy_files.FOLDER / "keras_1.tar.xz"
FILES = [
    f"{release}/{case}/model.{ending}"
    for release in ("2.0.0", "2.4.4", "2.15.1")
    for case in ("stack", "graph")
    for ending in (("json", "yaml") if release == "2.0.0" else ("json",))
]
pytestmark = pytest.mark.once("readers use numpy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [ARCHIVE, KERAS_1]
    return legacy_files.unpacked(tmp_path_factory.mktemp("architectures"), archives)


def check(model, case):
    with np.load(case / "expected.npz") as stored:
        inputs = legacy_files.in_order(stored, "x_")
        found = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
        np.testing.assert_allclose(found, stored["y_0"], 1e-5, 1e-6)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("weights", ["weights.h5", "checkpoint"])
def test_an_architecture_opens_with_its_weights(name, weights, folder):
    path = folder / name
    model = keras_policies.load_model(path, weights=path.parent / weights)
    check(model, path.parent)


@pytest.mark.parametrize("name", ["channels_first", "convolutions", "sequences"])
def test_an_architecture_of_keras_1_opens_with_its_weights(name, folder, tmp_path):
    # Keras 1 wrote the same dict to both places, and the same groups.
    with (
        h5py.File(folder / f"{name}.h5") as whole,
        h5py.File(tmp_path / "weights.h5", "w") as file,
    ):
        written = whole.attrs["model_config"]
        config = {**json.loads(written), "keras_version": "1.2.2"}
        for group in whole["model_weights"].values():
            whole.copy(group, file)
        file.attrs.update(whole["model_weights"].attrs)
    (tmp_path / "model.json").write_text(json.dumps(config))
    model = keras_policies.load_model(
        tmp_path / "model.json", weights=tmp_path / "weights.h5"
    )
    if name != "channels_first":  # TensorFlow has no kernels for it on processors
        stored = dict(np.load(folder / f"{name}.npz"))
        found = model.predict(stored["x"], verbose=0)
        np.testing.assert_allclose(found, stored["y"], rtol=1e-5, atol=1e-5)
    whole = keras_policies.load_model(folder / f"{name}.h5", compile=False)
    for found, wanted in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_inspect_shows_an_architecture(ending, folder, capsys):
    path = folder / "2.0.0" / "graph" / f"model.{ending}"
    found = keras_policies.inspect_model(path)
    assert (found.format, found.written_by) == (ending.upper(), "Keras 2.2.4-tf")
    assert (found.class_name, found.parameters) == ("Model", 0)
    paths = [layer.path for layer in found.layers]
    assert "inner/batch_normalization" in paths
    assert main(["inspect", str(path)]) == 0
    assert "batch_normalization" in capsys.readouterr().out


def test_convert_takes_weights_beside_an_architecture(folder, tmp_path, capsys):
    case, new = folder / "2.4.4" / "graph", tmp_path / "new.keras"
    command = ["convert", str(case / "model.json"), str(new), "--no-plain"]
    assert main([*command, "--quiet"]) == 1
    assert "but no weights. Pass the file with its weights" in capsys.readouterr().err
    weights = ["--weights", str(case / "weights.h5")]
    assert main([*command, *weights, "--verify", str(case / "expected.npz")]) == 0
    check(keras.models.load_model(new), case)
    assert main(["convert", str(case), *weights, "--output-dir", str(tmp_path)]) == 2
    assert "--weights is for one SOURCE" in capsys.readouterr().err


def test_an_architecture_alone_has_new_weights_and_takes_those_of_a_file(folder):
    case = folder / "2.4.4" / "graph"
    with pytest.warns(keras_policies.OutcomeWarning, match="all weights are new"):
        model = keras_policies.load_model(case / "model.json")
    keras_policies.load_weights(model, case / "weights.h5")
    check(model, case)


def test_weights_of_other_layers_are_refused(folder):
    path, other = folder / FILES[0], folder / "2.0.0" / "graph" / "weights.h5"
    with pytest.raises(LegacyModelError, match=r"weights\.h5: the model has 4 layers"):
        keras_policies.load_model(path, weights=other)


def test_a_file_with_weights_takes_no_others(folder):
    weights = folder / "2.4.4" / "stack" / "weights.h5"
    with pytest.raises(LegacyModelError, match="weights are only for an architecture"):
        keras_policies.load_model(folder / "convolutions.h5", weights=weights)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param({"a": 1}, r"no class_name and config, but \['a'\]", id="other"),
        pytest.param({"modelTopology": {}}, "a TensorFlow.js model", id="js"),
        pytest.param(
            {"module": "keras", "class_name": "Sequential", "config": {}},
            "that Keras 3 wrote.* keras.models.model_from_json",
            id="keras-3",
        ),
        pytest.param(
            {"class_name": "Lost", "config": {}, "keras_version": "2.4.0"},
            "Lost",
            id="missing-class",
        ),
    ],
)
def test_other_json_is_refused(written, message, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(written))
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.load_model(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param(
            "a.json", '{"a": ' + "[" * 100_000, "not readable as JSON", id="json"
        ),
        pytest.param("a.yaml", "a: " + "[" * 300, "201 deep, expected", id="yaml"),
    ],
)
def test_values_deep_in_each_other_are_refused(name, text, message, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(LegacyModelError, match=message):
        keras_policies.inspect_model(path)


def test_yaml_means_what_yaml_dump_wrote():
    text = b"""\
a: &id001 !!python/tuple [1, -2]
again: *id001
empty: {}
list: !!python/object/apply:WRAPPER
- - 3
none: [null, ~, Null]
number: [0.5, 1.0e-07, .5, 1e3, 012, .inf]
said: [yes, 'yes', "1", !!python/unicode relu, true_]
"""
    wrapper = b"tensorflow.python.training.tracking.data_structures.ListWrapper"
    assert yaml_values.decode(text.replace(b"WRAPPER", wrapper), "it") == {
        "a": (1, -2),
        "again": (1, -2),
        "empty": {},
        "list": [3],
        "none": [None, None, None],
        "number": [0.5, 1e-07, 0.5, "1e3", 12, math.inf],
        "said": [True, "yes", "1", "relu", "true_"],
    }


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(BOMB, "more than 2000000 values, aliases", id="bomb"),
        pytest.param("a: &a [*a]", "the alias 'a' has no anchor", id="cycle"),
        pytest.param(
            "a: !!python/object/apply:os.system ['true']",
            r"its tag .*os\.system' asks for a Python object.* as JSON",
            id="object",
        ),
        pytest.param(
            "a: !!python/name:os.system x", "asks for a Python object", id="name"
        ),
        pytest.param("a: !!python/tuple 3", "is not on a list", id="no-list"),
        pytest.param("[1]: 2", "a key is not a text", id="key"),
        pytest.param("- 1", "expected a mapping, found a list", id="no-mapping"),
        pytest.param("a: [1", "not readable as YAML", id="broken"),
        pytest.param("a: num_oov_indices: 3", "not readable as YAML", id="nested"),
        pytest.param(
            "a: {num_oov_indices: 9999999}", "expected at most 1000000", id="number"
        ),
        pytest.param(
            "a: " + "x" * limits.YAML_BYTES, "expected at most 2097152", id="long"
        ),
    ],
)
def test_yaml_of_strangers_is_refused(text, message):
    with pytest.raises(LegacyModelError, match=message):
        yaml_values.decode(text.encode(), "it")


@pytest.mark.parametrize("text", ['a: "\\ud800"', '"\\ud800": 1'])
def test_half_a_character_is_refused_by_yaml_without_libyaml(text, monkeypatch):
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    with pytest.raises(LegacyModelError, match=r"it: .* \(a lone surrogate\)"):
        yaml_values.decode(text.encode(), "it")


def test_yaml_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LegacyModelError, match="needs the package PyYAML.* pyyaml"):
        yaml_values.decode(b"a: 1", "it")
