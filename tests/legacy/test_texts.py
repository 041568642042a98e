"""Models whose texts are read outside of them give what TensorFlow gave.

Written by write_texts.py: TensorFlow's own layers of texts on hard ones, and models.
"""

import copy
import json
import os
import pickle
import subprocess
import sys
import zipfile

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError, TextInputs, load_model, text_inputs
from keras_policies.cli.main import main
from keras_policies.legacy import loading
from keras_policies.legacy.options import checked_options
from keras_policies.legacy.texts.layers import TextLayer

pytestmark = [
    pytest.mark.each_backend("TensorFlow alone has texts"),
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype"),  # of jax
]
ARCHIVE = legacy_files.FOLDER / "texts.tar.xz"
RELEASES = "2.4.4", "2.9.3", "2.15.1"
# Files without functions, which lost classes could become.
LOST = "ranking/model.keras", "expanded/model.keras"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("texts")
    return legacy_files.unpacked(made, [ARCHIVE]) / "texts"


@pytest.fixture(scope="module")
def sentiment(folder):
    return load_model(folder / "2.15.1/sentiment/model.keras", texts="outside")


def recorded(folder):
    stored = dict(np.load(folder / "expected.npz"))
    count = sum(name.startswith("x_") for name in stored)
    return [stored[f"x_{number}"] for number in range(count)], stored["y_0"]


@legacy_files.once
@pytest.mark.parametrize("release", RELEASES)
def test_a_layer_gives_what_tensorflow_gave_for_hard_texts(release, folder):
    stored = json.loads((folder / f"{release}.json").read_text("utf8"))
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
    paths = [
        p for p in artifacts if p.parts[-3] == release and not str(p).endswith(LOST)
    ]
    assert len(paths) == {"2.4.4": 12, "2.9.3": 15, "2.15.1": 24}[release]
    for path in paths:
        x, y = recorded(path.parent)
        model = load_model(path, texts="outside")
        texts = text_inputs(model)
        given = texts({name: x[i] for i, (name, _) in enumerate(texts.sources)})
        found = model.predict(given, verbose=0)
        np.testing.assert_allclose(found, y, 1e-4, 1e-5, err_msg=str(path))


@pytest.mark.parametrize("case", ["towers", "hashed", "nested", "mixed"])
def test_the_new_file_predicts_the_same_in_plain_keras(case, folder, tmp_path):
    path, new = folder / "2.15.1" / case / "saved_model", tmp_path / "model.keras"
    outputs = path.parent / "expected.npz"
    done = keras_policies.convert_model(path, new, verify=outputs, texts="outside")
    assert done.largest_difference <= 1e-4
    x, y = recorded(path.parent)
    texts = TextInputs.from_json((tmp_path / "model.texts.json").read_text("utf8"))
    model = keras.models.load_model(new)
    assert not any("string" in str(tensor.dtype) for tensor in model.inputs)
    given = texts({name: x[i] for i, (name, _) in enumerate(texts.sources)})
    np.testing.assert_allclose(model.predict(given, verbose=0), y, 1e-4, 1e-5)


WITHOUT_TENSORFLOW = """
import sys

sys.modules["tensorflow"] = sys.modules["tf_keras"] = None  # importing them raises
import numpy as np
import keras_policies

for path in sys.argv[1:]:
    stored = dict(np.load(path + "/../expected.npz"))
    model = keras_policies.load_model(path, texts="outside", verify=True)
    texts = keras_policies.text_inputs(model)
    x = {name: stored[f"x_{i}"] for i, (name, _) in enumerate(texts.sources)}
    y = model.predict(texts(x), verbose=0)
    np.testing.assert_allclose(y, stored["y_0"], 1e-4, 1e-5)
print("opened", len(sys.argv) - 1)
"""


@pytest.mark.slow("a process that opens eleven models")
@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="Keras itself imports TensorFlow"
)
def test_texts_outside_need_no_tensorflow(folder):
    paths = sorted(str(path) for path in folder.glob("2.15.1/*/saved_model"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_TENSORFLOW, *paths],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "opened 11" in done.stdout


def rebuilt(path):
    chosen = checked_options("rebuild", texts="outside")
    return loading.rebuild(path, None, chosen, verify=True)


@pytest.mark.parametrize("case", ["towers", "hashed", "shared", "nested", "ranking"])
def test_a_model_is_compared_with_its_own_graph_by_its_texts(case, folder):
    check = rebuilt(folder / "2.15.1" / case / "saved_model").check
    assert check.difference <= 1e-5


def test_a_graph_that_splits_texts_is_not_said_to_be_compared(folder):
    path = folder / "2.15.1/sentiment/saved_model"
    with pytest.warns(UserWarning, match="not checked .*'StaticRegexReplace' has no"):
        load_model(path, texts="outside", verify=True)


def test_a_table_that_is_not_what_the_graph_looks_up_is_noticed(folder, monkeypatch):
    call = TextLayer.__call__
    monkeypatch.setattr(TextLayer, "__call__", lambda *args: call(*args)[::-1])
    with pytest.raises(LegacyModelError, match="it gives other numbers than its own"):
        rebuilt(folder / "2.15.1/towers/saved_model")


def test_inputs_are_taken_by_position_in_a_list_and_by_name(folder):
    model = load_model(folder / "2.15.1/towers/model.keras", texts="outside")
    texts = text_inputs(model)
    assert texts.sources == (("user", (None,)), ("title", (None,)))
    users, titles = ["42", "x", "7"], np.array([b"Brazil", b"", b"Casablanca"])
    expected = [[2, 0, 1], [2, 0, 3]]
    for given in (
        texts(users, titles),
        texts([users, titles]),
        texts({"title": titles[:, None], "user": np.array(users, object)}),
    ):
        assert [each.tolist() for each in given] == expected
    assert [each.shape for each in texts([], [])] == [(0,), (0,)]


def test_a_dict_of_texts_and_numbers_becomes_a_dict(folder):
    model = load_model(folder / "2.15.1/mixed/model.keras", texts="outside")
    assert {*model.input} == {"city", "price", "title"}
    prices = np.ones((2, 2), "float32")
    given = {"city": ["Rome", "Ulm"], "price": prices, "title": ["great film", ""]}
    found = text_inputs(model)(given)
    assert found["city"].shape == (2, 1)
    assert found["city"][0, 0] == 4
    assert found["price"] is prices
    assert found["title"].sum(-1).tolist() == [2, 0]
    with pytest.raises(
        ValueError, match="takes a dict: pass one with the keys .'city'"
    ):
        text_inputs(model)(*given.values())


def test_an_input_that_several_layers_read_becomes_several(folder):
    model = load_model(folder / "2.15.1/several/model.keras", texts="outside")
    names = [tensor.name for tensor in model.inputs]
    assert names == ["review_words", "review_bins", "review_pairs"]
    words, bins, pairs = text_inputs(model)(["great film", "great"])
    assert words.tolist() == [[2, 3, 0, 0, 0], [2, 0, 0, 0, 0]]
    assert bins.shape == (2, 1)
    assert pairs.sum(-1).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, r"received 0 inputs, expected \['review'\]"),
        ([["a"], ["b"]], ValueError, "received 2 inputs, expected"),
        ([{"text": ["a"]}], ValueError, r"inputs \['review'\] are missing"),
        ([[["a", "b"]]], ValueError, r"'review' has the shape \(1, 2\), expected"),
        (["a"], ValueError, r"'review' has the shape \(\), expected \(None, 1\)"),
        ([[1.5]], TypeError, "'review' contains 1.5, expected texts"),
        ([[None]], TypeError, "'review' contains None, expected texts"),
        ([["a", ["b"]]], TypeError, r"'review' contains \['b'\], expected texts"),
    ],
)
def test_inputs_that_are_none_of_the_model(inputs, error, message, sentiment):
    with pytest.raises(error, match=message):
        text_inputs(sentiment)(*inputs)


def test_texts_go_through_json_pickle_and_copies(sentiment):
    texts = text_inputs(sentiment)
    expected = [[10, 3, 0, 0, 0, 0]]
    assert texts(["A film!"]).tolist() == expected
    for copied in (
        TextInputs.from_json(texts.to_json()),
        TextInputs.from_json(texts.to_json().encode()),
        pickle.loads(pickle.dumps(texts)),
        copy.deepcopy(texts),
    ):
        assert copied(["A film!"]).tolist() == expected
        assert copied.to_json() == texts.to_json()


def changed(values, change):
    change(values)
    return json.dumps(values)


CHANGES = {
    "version": (lambda v: v.update(keras_policies_texts=2), "or its version is not 1"),
    "no-layers": (lambda v: v.pop("layers"), "corrupt.*KeyError: 'layers'"),
    "layers": (lambda v: v.update(layers=[3]), "corrupt.*TypeError"),
    "pairs": (lambda v: v["targets"][0].pop(), "corrupt.*ValueError: not enough"),
    "class": (lambda v: v["layers"][0].update(class_name="Dense"), "'Dense' is no"),
    "target": (lambda v: v["targets"][0].__setitem__(1, 7), "do not match"),
    "negative": (lambda v: v["targets"][0].__setitem__(2, -1), "do not match"),
    "no-text": (lambda v: v["sources"][0].__setitem__(1, None), "do not match"),
    "no-target": (lambda v: v.update(targets=[]), "do not match"),
    "shape": (lambda v: v["sources"][0].__setitem__(1, ["a"]), "do not match"),
}
ARGUMENTS = {
    "vocabulary": (["a", 3], "'vocabulary'|its vocabulary is"),
    "output_mode": ("ints", "its output_mode is 'ints'"),
    "ngrams": (10**9, "its ngrams is '1000000000'"),
    "output_sequence_length": (10**18, "its output_sequence_length is"),
    "max_tokens": (3, "11 tokens, more than its max_tokens"),
    "standardize": ({"config": "lowered"}, "its standardize is 'lowered'"),
    "split": ("words", "its split is 'words'; .*None, 'whitespace', 'character'"),
    "ragged": (True, "its ragged is 'True'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_json_that_is_none_of_texts(name, sentiment):
    change, message = CHANGES[name]
    values = json.loads(text_inputs(sentiment).to_json())
    with pytest.raises(LegacyModelError, match=message):
        TextInputs.from_json(changed(values, change))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_json_with_an_argument_that_no_layer_has(name, sentiment):
    value, message = ARGUMENTS[name]
    values = json.loads(text_inputs(sentiment).to_json())
    values["layers"][0]["config"][name] = value
    with pytest.raises(LegacyModelError, match=f"the layer 'words': .*{message}"):
        TextInputs.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100000, '{"a": 1}'])
def test_json_of_something_else(text):
    with pytest.raises(
        LegacyModelError, match="texts of a model|not the JSON of TextInp"
    ):
        TextInputs.from_json(text)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"vocabulary": ["a", "a"]}, "its vocabulary has a token twice"),
        (
            {"vocabulary": ["a", ""], "mask_token": ""},
            "its vocabulary has a token twice",
        ),
        ({"vocabulary": []}, "its vocabulary is"),
        ({"vocabulary": "words.txt"}, "its vocabulary is 'words.txt'"),
        ({"vocabulary": ["a"], "num_oov_indices": 2**40}, "its num_oov_indices is"),
        (
            {"vocabulary": ["a"], "output_mode": "tf_idf"},
            "corrupt: 1 tokens, with 0 idf",
        ),
        ({"vocabulary": ["a"], "invert": True}, "its invert is 'True'"),
        ({"vocabulary": ["a"], "sparse": True}, "its sparse is 'True'"),
    ],
)
def test_a_lookup_that_tensorflow_has_not_either(config, message):
    with pytest.raises(LegacyModelError, match=f"the layer 'words': {message}"):
        TextLayer("words", "StringLookup", config)


def test_a_text_that_has_no_index():
    layer = TextLayer(
        "words", "StringLookup", {"vocabulary": ["a"], "num_oov_indices": 0}
    )
    assert layer(np.array([b"a"], object)).tolist() == [0]
    with pytest.raises(ValueError, match="'words' has no index for the text b'b'"):
        layer(np.array([b"a", b"b"], object))


def test_special_tokens_may_be_in_the_vocabulary():
    config = {"vocabulary": ["", "[UNK]", "a", "b"], "mask_token": ""}
    for vocabulary in (config["vocabulary"], ["a", "b"]):
        layer = TextLayer("words", "StringLookup", {**config, "vocabulary": vocabulary})
        words = np.array([b"", b"[UNK]", b"a", b"b", b"c"], object)
        assert layer(words).tolist() == [0, 1, 2, 3, 1]


class Letters(keras.layers.Layer):
    """Takes texts, and is none of the layers that can be moved out."""


def test_what_else_reads_texts_is_named(folder):
    path = folder / "2.9.3/expanded/saved_model"
    with pytest.raises(
        LegacyModelError, match="_dim': ExpandLastDim reads texts; .*KER"
    ):
        load_model(path, {"ExpandLastDim": Letters}, texts="outside")


class OwnModel(keras.Model):
    """A class that a user derived from Functional models."""


class OwnSequence(keras.Sequential):
    """A class that a user derived from Sequential."""


def architecture(class_name, between=()):
    """Return a model of TextVectorization and Embedding, with layers in between."""
    entry = {"batch_input_shape": [None, 1], "dtype": "string", "name": "review"}
    words = {"name": "words", "vocabulary": ["great", "bad"]}
    words |= {"output_mode": "int", "output_sequence_length": 3, "ngrams": None}
    words |= {"standardize": "lower_and_strip_punctuation", "split": "whitespace"}
    layers = [
        {"class_name": "InputLayer", "config": entry},
        *between,
        {"class_name": "TextVectorization", "config": words},
        {
            "class_name": "Embedding",
            "config": {"name": "rows", "input_dim": 4, "output_dim": 2},
        },
    ]
    config = {"name": "own", "layers": layers}
    if class_name != "OwnModel":
        return {"class_name": class_name, "config": config}
    before = None
    for layer in layers:
        layer["name"] = layer["config"]["name"]
        layer["inbound_nodes"] = [[[before, 0, 0, {}]]] if before else []
        before = layer["name"]
    ends = {"input_layers": [["review", 0, 0]], "output_layers": [["rows", 0, 0]]}
    return {"class_name": class_name, "config": {**config, **ends}}


@pytest.mark.parametrize("cls", [OwnModel, OwnSequence])
@pytest.mark.filterwarnings("ignore:.*all weights are new")
def test_texts_are_read_outside_of_models_of_own_classes(cls, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(architecture(cls.__name__)))
    model = load_model(path, {cls.__name__: cls}, texts="outside")
    assert type(model) is cls
    assert "words" not in {layer.name for layer in model.layers}
    numbers = text_inputs(model)([["great, or not"]])
    assert numbers.tolist() == [[2, 1, 1]]
    assert model(numbers).shape == (1, 3, 2)


@legacy_files.needs_unused_inputs
@pytest.mark.filterwarnings("ignore:.*all weights", "ignore:.*providing `inputs`")
def test_inputs_without_texts_keep_their_keys_in_a_dict(tmp_path):
    path, written = tmp_path / "model.json", architecture("OwnModel")
    config = written["config"]
    price = {"name": "price_1", "batch_input_shape": [None, 2], "dtype": "float32"}
    layer = {"class_name": "InputLayer", "config": price, "name": "price_1"}
    config["layers"].append({**layer, "inbound_nodes": []})
    config["input_layers"] = {"text": ["review", 0, 0], "price": ["price_1", 0, 0]}
    config["output_layers"].append(["price_1", 0, 0])
    path.write_text(json.dumps({**written, "class_name": "Functional"}))
    model = load_model(path, texts="outside")
    given = text_inputs(model)({"text": [["bad"]], "price": np.ones((1, 2))})
    assert sorted(given) == ["price", "text"]
    assert [x.shape for x in model(given)] == [(1, 3, 2), (1, 2)]


# lambda x: x * 2, of Python 3.11
TWICE = (
    "4wEAAAAAAAAAAAAAAAIAAAADAAAA8wwAAACXAHwAZAF6BQAAUwApAk7pAgAAAKkAKQHaAXhzAQAAACD6"
    "CDxzdHJpbmc++gg8bGFtYmRhPnIGAAAAAQAAAHMKAAAAgACIIYhhiSWAAPMAAAAA"
)


@pytest.mark.filterwarnings("ignore:.*all weights are new")
def test_texts_are_read_outside_of_a_sequential_with_a_lambda(tmp_path):
    written = architecture("Sequential")
    path = tmp_path / "model.json"
    function = {"function": [TWICE, None, None], "function_type": "lambda"}
    written["config"]["layers"].append(
        {"class_name": "Lambda", "config": {"name": "twice", **function}}
    )
    path.write_text(json.dumps(written))
    model = load_model(path, texts="outside")
    assert [layer.name for layer in model.layers] == ["rows", "twice"]
    assert text_inputs(model)([["bad"]]).tolist() == [[3, 0, 0]]


def test_what_else_reads_the_texts_of_a_sequential_is_named(tmp_path):
    path = tmp_path / "model.json"
    shaped = {"name": "shaped", "dtype": "string", "target_shape": [1]}
    between = [{"class_name": "Reshape", "config": shaped}]
    path.write_text(json.dumps(architecture("Sequential", between)))
    told = (
        "'shaped': Reshape reads texts; .* or leave texts='outside' out and set KERAS"
    )
    with pytest.raises(LegacyModelError, match=told):
        load_model(path, texts="outside")
    if keras.backend.backend() == "tensorflow":
        with pytest.warns(UserWarning, match="all weights are new"):
            model = load_model(path)
        assert model(keras.ops.convert_to_tensor([["bad"]])).shape[0] == 1


def test_a_function_of_the_user_that_standardizes_is_named(folder, tmp_path):
    path = tmp_path / "model.keras"
    source = folder / "2.15.1/sentiment/model.keras"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                assert content.count(b'"lower_and_strip_punctuation"') == 1
                content = content.replace(b"lower_and_strip_punctuation", b"tidy")
            new.writestr(name, content)
    told = "'words': its standardize is 'tidy'.* Leave texts='outside' out, and set KER"
    own = {"tidy": lambda texts: texts}
    with pytest.raises(LegacyModelError, match=told):
        load_model(path, own, texts="outside")
    if keras.backend.backend() == "tensorflow":
        model = load_model(path, own)
        assert model(keras.ops.convert_to_tensor([["great"]])).shape[0] == 1


def test_a_model_that_reads_its_texts_itself_has_none_outside(sentiment):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="has no TextInputs: it takes no texts"):
        text_inputs(model)
    path = legacy_files.CORPUS / "2.4.4/func_conv_fixed/model.h5"
    with pytest.raises(ValueError, match="has no TextInputs"):
        text_inputs(load_model(path, texts="outside"))
    with pytest.raises(ValueError, match="texts must be one of .* received 'beside'"):
        load_model(path, texts="beside")


def test_the_command_writes_the_texts_beside_the_model(folder, tmp_path, capsys):
    source, new = folder / "2.15.1/towers/model.h5", tmp_path / "new.keras"
    arguments = ["convert", "--texts", "outside", str(source), str(new)]
    outputs = str(source.parent / "expected.npz")
    assert main([*arguments, "--no-plain", "--verify", outputs]) == 0
    assert f"{tmp_path}/new.texts.json, which reads" in capsys.readouterr().out
    assert main(["verify", "--texts", "outside", str(source), outputs]) == 0
    assert main(["verify", "--texts", "outside", str(new), outputs]) == 0
    assert main(["verify", "--no-plain", str(new), outputs]) == 1
    new.unlink()
    assert main(arguments) == 1
    assert "new.texts.json: it already exists" in capsys.readouterr().err
    assert not new.exists()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="has texts")
def test_a_look_up_made_in_code_is_created_as_advised(folder):
    def ranking(number):
        class Ranking(keras.Model):
            def __init__(self, **options):
                super().__init__(**options)
                self.words = keras.layers.StringLookup(num_oov_indices=number)
                self.rows = keras.layers.Embedding(4, 3)
                self.others = keras.layers.Embedding(5, 3)
                self.top = keras.layers.Dense(2)

            def call(self, inputs):
                words = self.words(keras.tree.flatten(inputs)[1])
                return self.top(self.rows(words) + self.others(words))

        return Ranking

    path = folder / "2.15.1" / "ranking" / "saved_model"
    with pytest.raises(LegacyModelError, match="'words'.* Create it with the num_oov_"):
        load_model(path, {"Ranking": ranking(5)})
    model = load_model(path, {"Ranking": ranking(1)}, verify=False)
    assert model.words.vocabulary_size() > 1


@pytest.mark.parametrize("release", RELEASES)
def test_texts_that_the_code_of_a_class_reads_stay_inside(release, folder):
    pytest.importorskip("tensorflow", reason="StringLookup of Keras needs it")

    class Ranking(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.words = keras.layers.StringLookup(vocabulary=["Alien", "Brazil"])

        def call(self, inputs):
            return self.words(inputs["title"])

    path = folder / release / "ranking" / "saved_model"
    with pytest.raises(
        LegacyModelError,
        match=r"(?s)the class 'Ranking' reads texts; only .* can read them outside",
    ) as caught:
        load_model(path, {"Ranking": Ranking}, texts="outside")
    assert caught.value.code == "KP306"
