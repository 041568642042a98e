"""SavedModels without Keras metadata look words up as they did; see write_tables.py.

Models that take texts are called on every backend, as the comparison with the graph
does: outside of it, only TensorFlow has texts.
"""

import importlib.util
import shutil

import keras
import legacy_files
import numpy as np
import pytest
from graphs import change_graph, tensors
from models import called_by_name

from keras_policies import (
    LegacyModelError,
    keras_internals,
    load_model,
    load_weights,
    text_inputs,
)
from keras_policies.legacy import loading
from keras_policies.legacy.assembly import checking
from keras_policies.legacy.base.traced_functions import Table
from keras_policies.legacy.options import checked_options
from keras_policies.legacy.plan.reconstruction import concrete_functions
from keras_policies.legacy.plan.reconstruction.reference import Interpreter
from keras_policies.legacy.readers import readers
from keras_policies.legacy.readers.checkpoint import protos

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None,
        reason="the lookup layers of Keras 3 cannot be made without TensorFlow",
    ),
    pytest.mark.filterwarnings("ignore:.*classes of these layers"),
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype"),  # of jax
]
IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
ARCHIVE = legacy_files.FOLDER / "tables.tar.xz"
WORDS = ["de", "en", "fr", "naïve"]
TITLES = ["Alien", "Brazil", "Heat", "Ran", "Up", "Amélie"]
TEXT_OUTPUTS = {"labels": "name", "retrieval": "identifiers"}
TEXT_OUTPUTS["retrieval_by_numbers"] = "identifiers"
CASES = [
    *("bare", "buckets", "columns", "frozen", "labels", "lines", "mutable", "numbers"),
    *("of_constants", "retrieval", "retrieval_by_numbers", "retrieval_of_numbers"),
    "words",
]
NAMES = [f"2.4.4/{name}" for name in CASES]
NAMES += [f"2.15.1/{name}" for name in (*CASES, "export", "retrieval_export")]
NAMES.append("keras-3.15.1/export")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    return legacy_files.unpacked(made, [ARCHIVE]) / "tables"


def stored(path):
    """Return the recorded inputs and outputs of a case, by name, texts as objects."""
    with np.load(path.parent / "expected.npz") as file:
        arrays = {key: file[key] for key in file}
    for key, value in arrays.items():
        if value.dtype.kind == "U":
            arrays[key] = np.char.encode(value).astype(object)
    x = {key[2:]: value for key, value in arrays.items() if key.startswith("x/")}
    return x, {key[2:]: value for key, value in arrays.items() if key.startswith("y/")}


def lookups(model):
    """Return the lookup layers of a model, by name."""
    classes = keras.layers.StringLookup, keras.layers.IntegerLookup
    every = keras_internals.sublayers(model)
    return {layer.name: layer for layer in every if isinstance(layer, classes)}


@pytest.mark.parametrize("name", NAMES)
def test_it_predicts_what_tensorflow_did(name, folder):
    path = folder / name / "model"
    x, y = stored(path)
    text = None if IS_TENSORFLOW else TEXT_OUTPUTS.get(path.parent.name)
    model = load_model(path, lost="numbers" if text else "rebuild")
    found = called_by_name(model, x)
    if len(y) == 1:  # a signature's only output has no name in a model
        found = dict.fromkeys(y, *found.values())
    assert sorted(found) == sorted(y)
    for key in y.keys() - {text}:
        if y[key].dtype == object:
            np.testing.assert_array_equal(found[key], y[key])
        else:
            np.testing.assert_allclose(found[key], y[key], rtol=0, atol=1e-6)
    if text:
        words = {"labels": WORDS, "retrieval": TITLES}.get(path.parent.name)
        words = words or [*TITLES[:5], "Heat"]
        expected = [words[number] for number in found[text].ravel()]
        assert expected == [word.decode() for word in y[text].ravel()]


OF_TEXTS = "buckets", "columns", "lines", "retrieval", "retrieval_export", "words"


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.endswith((*OF_TEXTS, "15.1/export"))]
)
def test_with_its_texts_outside_it_predicts_what_tensorflow_did(name, folder):
    path = folder / name / "model"
    x, y = stored(path)
    model = load_model(path, lost="numbers", verify=True, texts="outside")
    found = model.predict(text_inputs(model)(x), verbose=0)
    if len(y) == 1:
        found = dict.fromkeys(y, next(iter(keras.tree.flatten(found))))
    assert sorted(found) == sorted(y)
    for key in y:
        expected = y[key]
        if expected.dtype == object:  # the numbers of texts
            expected = [[TITLES.index(x.decode()) for x in row] for row in expected]
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_graph_is_interpreted_and_agrees(name, folder):
    path = folder / name / "model"
    lost = "rebuild" if IS_TENSORFLOW else "numbers"
    chosen = checked_options(lost)
    built = loading.rebuild(path, None, chosen, verify=True)
    assert built.check.difference < 1e-6


@pytest.mark.once("readers use numpy")
@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_computes_what_tensorflow_did(name, folder):
    path = folder / name / "model"
    x, y = stored(path)
    with readers.read(path) as legacy:
        (trace,) = legacy.traced.layers[0].traces
        taken = [spec.name for spec in concrete_functions.specs(trace.inputs)]
        arrays = [x[name] for name in taken] if len(x) > 1 else [*x.values()]
        found = Interpreter(legacy.traced).run(trace, arrays)
    names = [spec.name for spec in concrete_functions.specs(trace.outputs)]
    for key, own in zip(names, found, strict=True):
        expected = y.get(key, next(iter(y.values())))
        assert own.dtype == expected.dtype
        if expected.dtype == object:
            np.testing.assert_array_equal(own, expected)
        else:
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-6)


@pytest.mark.skipif(IS_TENSORFLOW, reason="TensorFlow has texts")
def test_inputs_that_are_texts_are_named_when_the_model_is_opened(folder):
    said = "these inputs are texts, .* only: '.+'. .*texts='outside'.*KERAS_BACKEND=ten"
    with pytest.warns(UserWarning, match=said):
        load_model(folder / "2.15.1" / "words" / "model")


@pytest.mark.parametrize(
    ("name", "layer", "expected"),
    [
        ("words", "string_lookup", ["[UNK]", *WORDS]),
        ("lines", "string_lookup", ["[UNK]", *WORDS]),
        ("export", "string_lookup", ["", "[UNK]", *WORDS]),
        ("export", "integer_lookup", [-2, 5, -1, 7]),
        ("mutable", "integer_lookup", [-1, 3, 4, 6]),
        ("retrieval_of_numbers", "integer_lookup", [-1, 42, 7, 9]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_is_the_vocabulary_of_a_stock_layer(name, layer, expected, folder):
    model = load_model(folder / "2.15.1" / name / "model")
    assert lookups(model)[layer].get_vocabulary() == expected


@pytest.mark.skipif(IS_TENSORFLOW, reason="TensorFlow has texts")
@pytest.mark.parametrize("name", TEXT_OUTPUTS)
def test_texts_as_outputs_are_refused_with_what_gives_numbers(name, folder):
    message = "returns texts, .* string_lookup.*has no texts. Pass lost='numbers'"
    with pytest.raises(LegacyModelError, match=message):
        load_model(folder / "2.15.1" / name / "model")


@pytest.mark.parametrize(
    "name", ["words", "columns", "lines", "buckets", "export", "frozen"]
)
def test_what_is_saved_opens_in_stock_keras(
    name, folder, tmp_path, plain_keras_of_texts
):
    path = folder / "2.15.1" / name / "model"
    load_model(path).save(tmp_path / "model.keras")
    x, y = stored(path)
    x = x if len(x) > 1 else next(iter(x.values()))
    (found,), _ = plain_keras_of_texts(tmp_path / "model.keras", x)
    (expected,) = y.values()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_wrong_vocabulary_is_found(folder):
    path = folder / "2.15.1" / "retrieval_of_numbers" / "model"
    built = loading.rebuild(path, None, checked_options("rebuild"))
    lookups(built.model)["integer_lookup"].set_vocabulary([9, 7, 42])
    with pytest.raises(LegacyModelError, match="other numbers than its own graph"):
        checking.check(built.model, built.plan, None)


def test_keys_that_are_not_in_a_table_get_its_default():
    table = Table(np.array([b"a", b"b"], object), np.array([5, 7]))
    found = table.find(np.array([[b"b", b"c"]], object), np.int64(-1))
    assert found.tolist() == [[7, -1]]


def copied(folder, tmp_path, name):
    path = tmp_path / "model"
    shutil.copytree(folder / "2.15.1" / name / "model", path)
    return path


def test_a_file_of_words_that_is_missing_is_named(folder, tmp_path):
    path = copied(folder, tmp_path, "lines")
    (path / "assets" / "model.words.txt").unlink()
    with pytest.raises(LegacyModelError, match="model.words.txt is missing. Copy"):
        load_model(path)


def test_a_column_that_is_not_in_the_file_is_refused(folder, tmp_path):
    path = copied(folder, tmp_path, "columns")
    (path / "assets" / "model.columns.tsv").write_text("0\tde\n7\n")
    with pytest.raises(LegacyModelError, match="has no column 1 in each of its lines"):
        load_model(path)


def without_constants(meta_graph, graph):
    for number, data in enumerate(meta_graph.object_graph_def.concrete_functions):
        function = protos.parse("NamedConcreteFunction", data)
        if "initializer" in function.key:
            del function.value.bound_inputs[1:]
            functions = meta_graph.object_graph_def.concrete_functions
            functions[number] = function.SerializeToString()


def no_text(meta_graph, graph):
    for tensor in tensors(graph).values():
        if b"de" in tensor.string_val:
            tensor.string_val[0] = b"\xff\xfe"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            without_constants,
            "a table whose content is not in the file. Build the",
        ),
        (no_text, r"the token b'.xff.xfe': 'utf-8'"),
    ],
)
def test_a_broken_table_is_refused(change, message, folder, tmp_path):
    path = copied(folder, tmp_path, "words")
    change_graph(path, change)
    with pytest.raises(LegacyModelError, match=message):
        load_model(path)


def test_a_model_whose_table_is_lost_is_built_in_code_as_advised(folder, tmp_path):
    class Words(keras.Model):
        def __init__(self):
            super().__init__()
            self.words = keras.layers.StringLookup(
                vocabulary=["de", "en", "fr", "naïve"]
            )
            self.rows = self.add_weight(shape=(5, 3))
            self.kernel = self.add_weight(shape=(3, 2))

        def call(self, x):
            rows = keras.ops.take(self.rows, x, axis=0)
            return keras.ops.mean(rows, 1) @ self.kernel

    path = copied(folder, tmp_path, "words")
    change_graph(path, without_constants)
    advice = "with the attributes that it had and a keras.layers.StringLookup for each"
    with pytest.raises(LegacyModelError, match=advice) as told:
        load_model(path)
    assert told.value.code == "KP305"
    model, recorded = Words(), np.load(folder / "2.15.1/words/expected.npz")
    numbers = np.asarray(model.words(recorded["x/x"]))
    model(numbers)
    load_weights(model, path)
    np.testing.assert_allclose(model.predict(numbers), recorded["y/y"], atol=1e-6)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(LegacyModelError, match="Build the model with the layers, nam"):
        load_weights(other, path)  # it has no names of layers, and no weight fits


def test_a_function_without_signature_is_known_by_its_attribute(folder):
    path = folder / "2.15.1" / "bare" / "model"
    with readers.read(path) as legacy:
        assert list(legacy.traced.signatures) == ["predict"]
    model = load_model(path, signature="predict")
    assert [type(layer).__name__ for layer in model.layers] == ["InputLayer", "Dense"]
    with pytest.raises(LegacyModelError, match=r"there are \['predict'\]"):
        load_model(path, signature="call")


def test_constants_that_are_weights_of_layers_train(folder):
    model = load_model(folder / "2.15.1" / "frozen" / "model")
    found = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert found == {
        "conv2d/kernel": (3, 3, 2, 3),
        "conv2d/bias": (3,),
        "dense/kernel": (3, 2),
        "dense/bias": (2,),
    }
