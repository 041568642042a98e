"""Preprocessing layers keep what they have learned: vocabularies, frequencies, bins.

The outputs of the models are compared in stock Keras on TensorFlow, which opens what
this backend saved: strings are tensors there alone.
"""

import importlib.util
import json
import shutil
import zipfile

import h5py
import keras
import legacy_files
import numpy as np
import pytest
from graphs import change_graph, tensors

from keras_policies import LegacyModelError, inspect_model, load_model
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.plan import preprocessing
from keras_policies.legacy.readers import readers
from keras_policies.legacy.readers.checkpoint import protos

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="the lookup layers of Keras 3 cannot be made without TensorFlow",
)

LOOKUPS = legacy_files.folder("lookups")
OLD, NEW = LOOKUPS / "2.4.4", LOOKUPS / "2.15.1"


class Held(keras.layers.Layer):
    """A custom layer with a lookup layer, which it makes empty."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.table = keras.layers.StringLookup()

    def call(self, inputs):
        return self.table(inputs)


class Sub(keras.Model):
    """A subclassed model with a lookup layer, which it makes empty."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.vectorize = keras.layers.TextVectorization()

    def call(self, inputs):
        return self.vectorize(inputs)


CUSTOM_OBJECTS = {"Held": Held, "Sub": Sub}
# What names its vocabulary by the path of a file, or holds custom classes.
NOT_ALONE = "StringLookup-file/model.h5", "StringLookup-file/model.keras", "Held-"
ARTIFACTS = [
    path
    for path in legacy_files.artifacts(LOOKUPS)
    if not any(part in legacy_files.name_of(path) for part in NOT_ALONE)
]


def test_what_is_saved_opens_in_stock_keras_with_the_outputs_of_then(
    tmp_path, plain_keras_of_texts
):
    assert ARTIFACTS
    for path in ARTIFACTS:
        model = load_model(path)
        model.save(tmp_path / "model.keras")
        stored = dict(np.load(path.parent / "expected.npz"))
        x = [stored[f"x_{i}"] for i in range(len(model.inputs))]
        found, _ = plain_keras_of_texts(
            tmp_path / "model.keras", x if len(x) > 1 else x[0]
        )
        for i, output in enumerate(found):
            expected = stored[f"y_{i}"]
            assert output.shape == expected.shape
            if expected.dtype.kind == "U":
                assert (np.char.decode(output.astype("S")) == expected).all()
            else:
                np.testing.assert_allclose(output, expected, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (OLD / "StringLookup-oov/saved_model", ["", *3 * ["[UNK]"], "a", "b", "c"]),
        (OLD / "StringLookup-invert/saved_model", ["", "a", "b", "c"]),
        (OLD / "IntegerLookup-mask_old/saved_model", [1, -5, 2, 5, 7]),
        (LOOKUPS / "2.10.1/StringLookup-given/saved_model", ["[UNK]", "a", "b", "c"]),
        (NEW / "StringLookup-adapted/saved_model", ["[UNK]", "a", "c", "b"]),
        (NEW / "StringLookup-adapted/model.keras", ["[UNK]", "a", "c", "b"]),
        (NEW / "StringLookup-file/saved_model", ["[UNK]", "a", "b", "c"]),
        (NEW / "IntegerLookup-adapted/model.keras", [-1, 2, 7, 5]),
    ],
    ids=lambda item: legacy_files.name_of(item) if hasattr(item, "parts") else "",
)
def test_vocabulary(path, expected):
    assert load_model(path).get_layer("layer").get_vocabulary() == expected


@pytest.mark.parametrize("form", ["saved_model", "model.keras"])
def test_vocabularies_of_nested_models(form):
    model = load_model(NEW / "Lookup-nested" / form)
    words = model.get_layer("encoder").get_layer("words")
    assert words.get_vocabulary() == ["[UNK]", "a", "c", "b"]
    config = model.get_layer(index=-1).get_layer("text").get_config()
    assert config["vocabulary"][:4] == ["", "[UNK]", "the", "cat"]


@pytest.mark.parametrize("form", ["saved_model", "model.keras"])
def test_frequencies_are_in_the_config(form):
    model = load_model(NEW / "StringLookup-tf_idf_adapted" / form)
    weights = model.get_layer("layer").get_config()["idf_weights"]
    expected = [0.632373, 0.510826, 0.693147, 0.693147]
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_an_inverted_table_of_2_4_has_no_index_for_what_is_not_in_it():
    layer = load_model(OLD / "StringLookup-invert" / "saved_model").get_layer("layer")
    assert layer.num_oov_indices == 0


def test_tf_idf_of_category_encoding_becomes_an_integer_lookup():
    layer = load_model(OLD / "CategoryEncoding-tf_idf/saved_model").get_layer("layer")
    assert isinstance(layer, keras.layers.IntegerLookup)
    assert layer.get_vocabulary() == list(range(8))


@pytest.mark.parametrize("form", ["saved_model", "model.keras"])
def test_bins_that_were_found(form):
    layer = load_model(NEW / "Discretization-adapted" / form).get_layer("layer")
    np.testing.assert_allclose(layer.bin_boundaries, [0.625, 2.0, 2.75])


@pytest.mark.parametrize(
    ("case", "attribute", "expected"),
    [
        ("Held-layer", "table", ["[UNK]", "a", "b"]),
        ("Held-model", "vectorize", ["", "[UNK]", "the", "cat"]),
    ],
)
@pytest.mark.parametrize("form", ["saved_model", "model.keras"])
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="Keras traces a custom call with strings on TensorFlow alone",
)
def test_lookup_layers_of_custom_layers(case, attribute, expected, form):
    model = load_model(NEW / case / form, CUSTOM_OBJECTS)
    layer = model if case == "Held-model" else model.get_layer("layer")
    assert getattr(layer, attribute).get_vocabulary()[:4] == expected
    stored = dict(np.load(NEW / case / "expected.npz"))
    given = keras.ops.convert_to_tensor(stored["x_0"])
    np.testing.assert_array_equal(model(given), stored["y_0"])


def copied(tmp_path, path):
    target = tmp_path / path.name
    shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    return target


def test_a_file_that_is_not_in_the_model_is_not_read():
    path = NEW / "StringLookup-file" / "model.h5"
    with pytest.raises(LegacyModelError, match=r"'layer': its vocabulary was the file"):
        load_model(path)
    assert inspect_model(path).layers[-1].class_name == "StringLookup"


def test_a_file_that_is_trusted_is_read(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("x\ny\n")
    path = copied(tmp_path, NEW / "StringLookup-file" / "model.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1]["config"]["vocabulary"] = str(words)
        file.attrs["model_config"] = json.dumps(config)
    layer = load_model(path, safe_mode=False).get_layer("layer")
    assert layer.get_vocabulary() == ["[UNK]", "x", "y"]


def test_a_missing_asset(tmp_path):
    path = copied(tmp_path, NEW / "StringLookup-file" / "saved_model")
    words = path / "assets" / "words.txt"
    content = words.read_bytes()
    words.unlink()
    with pytest.raises(LegacyModelError, match="'layer'.*words.txt is missing. Copy"):
        load_model(path)
    words.write_bytes(content)
    assert load_model(path).get_layer("layer").vocabulary_size() > 1


def with_assets(tmp_path, source, change):
    """Copy a `.keras` file, its assets changed, or left out for None."""
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            content = change(content) if name.startswith("assets/") else content
            if content is not None:
                new.writestr(name, content)
    return path


def test_an_archive_without_its_vocabulary(tmp_path):
    source = NEW / "StringLookup-adapted" / "model.keras"
    path = with_assets(tmp_path, source, lambda content: None)
    with pytest.raises(LegacyModelError, match="would be empty:\n  'layer': the file"):
        load_model(path)


def test_a_vocabulary_in_a_newer_table_than_its_layer(tmp_path):
    source = NEW / "IntegerLookup-adapted" / "model.keras"
    path = with_assets(tmp_path, source, lambda content: b"-1\ntwo")
    with pytest.raises(LegacyModelError, match="'layer': the token b'two': invalid"):
        load_model(path)


def fewer_strings(meta_graph, graph):
    del tensors(graph)["Const_1"].string_val[-1]


def fewer_bytes(meta_graph, graph):
    tensors(graph)["Const"].tensor_content = b"\1\2\3"


def another_shape(meta_graph, graph):
    tensors(graph)["Const"].tensor_shape.dim[0].size = -(2**62)


def another_type(meta_graph, graph):
    tensors(graph)["Const"].dtype = 2


def no_constant(meta_graph, graph):
    del graph.node[:]


def no_object(meta_graph, graph):
    functions = meta_graph.object_graph_def.concrete_functions
    for number, data in enumerate(functions):
        function = protos.parse("NamedConcreteFunction", data)
        if "_initializer_" in function.key and len(function.value.bound_inputs) == 3:
            function.value.bound_inputs[1] = 10**6
            functions[number] = function.SerializeToString()


def equal_indices(meta_graph, graph):
    tensors(graph)["Const"].tensor_content = 3 * (1).to_bytes(8, "little")


def far_indices(meta_graph, graph):
    indices = (1, 2, 2**62)
    data = b"".join(index.to_bytes(8, "little") for index in indices)
    tensors(graph)["Const"].tensor_content = data


def no_text(meta_graph, graph):
    tensors(graph)["Const_1"].string_val[0] = b"\xff\xfe"


def a_graph_of_noise(meta_graph, graph):
    for number in range(len(meta_graph.object_graph_def.concrete_functions)):
        meta_graph.object_graph_def.concrete_functions[number] = b"\xff\xff\xff"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fewer_strings, r"Const_1: corrupt: 2 values for the shape \(3,\)"),
        (fewer_bytes, r"Const: corrupt: 0 values for the shape \(3,\)"),
        (another_shape, "Const: corrupt: 3 values for the shape"),
        (another_type, "Const: corrupt: values of type float64, expected"),
        (no_constant, "the graph has no constant 'Const_1'"),
        (
            no_object,
            "'layer': corrupt: the function .* captures missing objects",
        ),
        (equal_indices, "'layer': corrupt: 3 tokens for 1 indices"),
        (far_indices, "'layer': its vocabulary does not follow the special tokens"),
        (no_text, r"'layer': the token b'.xff.xfe': 'utf-8'"),
        (a_graph_of_noise, "not a TensorFlow NamedConcreteFunction"),
    ],
)
def test_a_broken_table(tmp_path, change, message):
    path = copied(tmp_path, NEW / "StringLookup-adapted" / "saved_model")
    change_graph(path, change)
    with pytest.raises(LegacyModelError, match=message):
        load_model(path)


@pytest.mark.parametrize("name", ["../words.txt", "/etc/passwd", "..", ""])
def test_an_asset_outside_of_the_model_is_not_read(tmp_path, name):
    path = copied(tmp_path, NEW / "StringLookup-file" / "saved_model")

    def elsewhere(meta_graph, graph):
        meta_graph.asset_file_def[0].filename = name

    change_graph(path, elsewhere)
    with pytest.raises(LegacyModelError, match="corrupt: its vocabulary is in"):
        load_model(path)


def test_the_reader_gives_indices_and_keeps_frequencies_apart():
    path = NEW / "StringLookup-tf_idf_adapted" / "saved_model"
    with readers.read(path) as legacy:
        found = legacy.vocabularies["layer"]
        assert found.tokens == {1: b"a", 2: b"c", 3: b"b"}
        assert [weight.path for weight in found.weights] == [
            "idf_weights",
            "num_documents",
        ]
        assert legacy.weights["layer"] == ()


def test_a_vocabulary_of_2_5_may_be_one_longer_than_it_says():
    config = {"max_tokens": 3, "mask_token": None, "oov_token": "[UNK]"}
    config |= {"num_oov_indices": 1, "output_mode": "int", "vocabulary": None}
    learned = Vocabulary({1: b"a", 2: b"b", 3: b"c"})
    found = preprocessing.lookup_arguments("StringLookup", config, learned, True)
    assert found["vocabulary"] == ["[UNK]", "a", "b", "c"]
    assert found["max_tokens"] == 4
    assert config["max_tokens"] == 3
