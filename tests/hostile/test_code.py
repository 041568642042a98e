"""What a file says never becomes code, whatever its strings look like."""

import ast
import importlib
import random
import subprocess
import sys

import costs
import hostile_code
import keras
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_policies
from keras_policies._common import comparing
from keras_policies._common.process import START, Process
from keras_policies.source import answers, checking, comparison, gate, live, loops
from keras_policies.source.errors import SourceError
from keras_policies.source.graphs import Module, Reader
from keras_policies.source.objects import Style
from keras_policies.source.tree import Label, Statement, call

pytestmark = [
    pytest.mark.once("the code depends on no backend"),
    # Models with such arguments cannot be called, and outputs are not compared.
    pytest.mark.filterwarnings("ignore::keras_policies.KerasPoliciesWarning"),
]


@pytest.mark.parametrize("name", hostile_code.CARRIERS)
def test_strings_that_look_like_code_do_not_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile_code.CARRIERS[name](tmp_path / name)
    model = keras_policies.load_model(tmp_path / name)
    text = keras_policies.to_source(model, compile="loss" in name)
    assert hostile_code.foreign(text) == set()
    assert not (tmp_path / hostile_code.CANARY).exists()


def test_a_dict_without_a_module_is_written_as_a_dict(tmp_path):
    hostile_code.of_module(tmp_path / "model.keras", module=None)
    model = keras_policies.load_model(tmp_path / "model.keras")
    text = keras_policies.to_source(model)
    assert '"class_name": "Popen",' in text


def test_a_large_constant_may_belong_to_a_layer_called_file(tmp_path):
    ends = [float(n) for n in range(65)]
    layer = keras.layers.Discretization(bin_boundaries=ends, name="file")
    model = keras.Sequential([keras.Input((3,)), layer])
    text = keras_policies.to_source(model, constants=tmp_path / "model.npz")
    assert 'CONSTANTS["file_2"].tolist()' in text


def test_a_name_that_no_file_of_weights_can_hold_is_written():
    layer = keras.layers.Dense(2, name="a\0b")
    model = keras.Sequential([keras.Input((3,)), layer], name="net")
    assert 'layers.Dense(2, name="a\\x00b")' in keras_policies.to_source(model)


def test_a_text_that_is_long_costs_its_own_length(tmp_path):
    texts = ["a" * 1_000_000, *["b"] * 1000]
    model = keras.Sequential([keras.Input((3,)), keras.layers.ELU(alpha=texts)])
    text = keras_policies.to_source(model)
    assert len(text) < 1_100_000


@pytest.mark.parametrize("value", [[[1, 2], 3] * 40, [None] * 70, [2**70] * 70])
def test_a_list_that_is_no_array_is_written_as_a_list(value):
    model = keras.Sequential([keras.Input((3,)), keras.layers.ELU(alpha=value)])
    assert "CONSTANTS" not in keras_policies.to_source(model)


def test_more_tensors_than_a_constant_has_numbers_may_be_one_argument():
    inputs = [keras.Input((1,), name=f"i{n}") for n in range(65)]
    model = keras.Model(inputs, keras.layers.Concatenate(name="all")(inputs))
    assert 'layers.Concatenate(name="all")' in keras_policies.to_source(model)


def test_a_layer_may_have_the_name_of_a_function_in_the_code():
    start, layer = keras.Input((3,)), keras.layers.Dense(3, name="build_b")
    one = keras.Model(start, layer(layer(start)), name="a")
    start = keras.Input((3,))
    two = keras.Model(start, keras.layers.Dense(2)(start), name="b")
    start = keras.Input((3,))
    text = keras_policies.to_source(keras.Model(start, two(one(start)), name="m"))
    assert "layer_build_b = " in text


def summed(size):
    """Return a model that repeats a vector, and returns the mean."""
    layers = [keras.layers.RepeatVector(size), keras.layers.GlobalAveragePooling1D()]
    return keras.Sequential([keras.Input((3,)), *layers])


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        ((1 << 40,), keras.layers.ELU()),
        ((3,), keras.layers.RepeatVector(1 << 32)),
        ((1 << 20, 3), keras.layers.TimeDistributed(summed(1 << 16))),
    ],
)
def test_a_model_whose_outputs_are_huge_is_not_called(shape, layer, monkeypatch):
    monkeypatch.setattr(comparison, "outputs", pytest.fail)
    model = keras.Sequential([keras.Input(shape), layer])
    with pytest.warns(keras_policies.KerasPoliciesWarning, match="not compared"):
        keras_policies.to_source(model)


@pytest.mark.parametrize(
    ("called", "least"),
    [
        (lambda x: keras.layers.MultiHeadAttention(8, 4)(x, x), 2 * 8 * 9000**2),
        (lambda x: keras.layers.AdditiveAttention()([x, x]), 2 * 5 * 9000**2),
        (lambda x: keras.layers.TimeDistributed(looking())(x), 2 * 9000 * 7**2),
    ],
    ids=["heads", "dimensions", "in an inner model"],
)
def test_the_scores_of_attention_count_for_the_size_of_a_model(called, least):
    shape = (9000, 7, 5) if least < 9000**2 else (9000, 5)
    x = keras.Input(shape)
    model = keras.Model(x, called(x))
    recipe = next(comparing.recipes(model.inputs))
    count = checking.numbers_in(model, recipe, Reader())
    assert least < count < least + 9000 * 7 * 5 * 100


def looking():
    """Return a model in which a sequence looks at itself."""
    x = keras.Input((7, 5))
    return keras.Model(x, keras.layers.Attention()([x, x]))


def test_each_call_counts_for_the_size_of_a_model():
    x = i = keras.Input((1 << 20,))
    layer = keras.layers.ReLU()
    for _ in range(10):
        x = layer(x)
    inner, i = keras.Model(i, x), keras.Input((1 << 20,))
    model = keras.Model(i, inner(inner(i)))
    recipe = next(comparing.recipes(model.inputs))
    # The input, the outputs of both calls, and ten in each.
    assert checking.numbers_in(model, recipe, Reader()) == 23 << 21


class Drawn:
    """Draws words with hypothesis."""

    def __init__(self, data):
        self.data = data

    def choice(self, count):
        return self.data.draw(st.integers(0, count - 1))

    def __call__(self):
        return self.data.draw(st.sampled_from(hostile_code.WORDS) | st.text(max_size=9))


@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
@pytest.mark.parametrize("trains", [False, True], ids=["of layers", "of training"])
@pytest.mark.slow("fifteen files", one_of=1)
def test_words_in_every_name_key_and_value_stay_data(trains, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    drawing = hostile_code.drawing(Drawn(data), 4, trains)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        reason, _ = hostile_code.problem(folder, *drawing)
    assert reason == ""
    assert not (folder / hostile_code.CANARY).exists()


BODY = "import keras\n\n\ndef build_model():\n    return {}\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("open('x')", "the name 'open'"),
        ("keras.utils.get_file('x')", "the attribute 'keras.utils.get_file'"),
        ("keras.Model.__init__", "the attribute 'keras.Model.__init__'"),
        ("(lambda: 1)()", "it has a Lambda"),
        ("[x for x in range(3)]", "it has a ListComp"),
        ("float(**{})", "keywords without names"),
        ("keras", "the name 'keras'"),
        ("'a'.format(1)", "the attribute"),
    ],
)
def test_what_is_not_on_the_list_does_not_run(code, message):
    text = BODY.format(code)
    with pytest.raises(SourceError, match="it has|keywords") as raised:
        gate.check(text, ast.parse(text).body, {})
    assert message in str(raised.value)
    assert raised.value.code == "KP406"


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from os import system",
        "from keras import utils",
        "x = 1",
        "with np.load('a') as file:\n    CONSTANTS = dict(file)",
        "class A:\n    pass",
        "@float\ndef build_x():\n    return 1",
        "def build_x(a=open('x')):\n    return 1",
        "def build_x():\n    keras = 1",
        "def build_x() -> open('x'):\n    return 1",
        "def build_x():\n    keras.layers.Dense = 1",
        "def build_x():\n    DTYPE[0] = 1",
    ],
)
def test_a_module_has_nothing_else_at_its_top(line):
    text = f"{line}\n{BODY.format('keras.Input()')}"
    with pytest.raises(SourceError, match="The code is not run, because"):
        gate.check(text, ast.parse(text).body, {})


def test_a_text_that_is_not_its_tree_does_not_run():
    text = BODY.format("keras.Input()")
    with pytest.raises(SourceError, match="its text is another tree"):
        gate.check(text, ast.parse(BODY.format("keras.Input(())")).body, {})


@pytest.mark.slow("400 layers", one_of=1)
def test_layers_that_are_wired_at_random_take_linear_time():
    models = {}
    for size in 50, 400:
        draw, i = random.Random(0), keras.Input((3,), name="i")
        found = [i]
        for n in range(size):
            layer = keras.layers.Add(name=f"a{n}")
            found.append(layer([found[-1], draw.choice(found)]))
        models[size] = keras.Model(i, found[-1], name="m")
    assert costs.is_linear(lambda size: keras_policies.to_source(models[size]), 400)


def test_names_of_many_numbers_take_linear_time():
    def fold(size):
        names = ["_".join(str(k + n) for n in range(size)) for k in range(5)]
        calls = [call("layers.ReLU", [Label((name,))]) for name in names]
        added = [Statement(each, kind="") for each in calls]
        assert len(loops.folded(added, loops.Budget.of(added))) == 2

    assert costs.is_linear(fold, 20_000)


def test_a_wrapper_of_wrappers_costs_its_own_depth():
    calls = dict.fromkeys((8, 64), 0)
    for depth in calls:
        layer = keras.layers.Dense(2, name="d")
        for n in range(depth):
            layer = keras.layers.TimeDistributed(layer, name=f"t{n}")

        def count(frame, event, argument, depth=depth):
            calls[depth] += event == "call"

        module = Module(Style())
        held = live.Held(layer, live.config_of(layer))  # quadratic in Keras 3.8
        sys.setprofile(count)
        try:
            node = module.instance(held)
            names = {each.id for each in gate.nodes(node) if isinstance(each, ast.Name)}
        finally:
            sys.setprofile(None)
        assert names == set()
        assert ast.dump(node).count("TimeDistributed") == depth
    assert calls[64] < 10 * calls[8]


def test_a_function_of_the_user_may_have_a_name_that_code_needs(tmp_path, monkeypatch):
    (tmp_path / "names_of_mine.py").write_text(
        "import keras\n\n\n@keras.saving.register_keras_serializable()\n"
        "class name(keras.layers.Layer):\n    def call(self, x):\n        return -x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layer = importlib.import_module("names_of_mine").name
    i, x = keras.Input((3,)), keras.Input((3,))
    inner = keras.Model(i, layer(name="twice")(i), name="inner")
    text = keras_policies.to_source(keras.Model(x, inner(x), name="net"))
    assert "from names_of_mine import name as name_2" in text


def test_a_layer_keeps_its_name_beside_an_operation_of_its_kind():
    x = keras.Input((3,))
    added = keras.layers.Add(name="add_7")([x, x])
    text = keras_policies.to_source(keras.Model(x, added + x, name="net"))
    assert 'layers.Add(name="add_7")' in text


def test_masks_count_whatever_number_turns_them_on():
    x = keras.Input((5,), dtype="int32")
    words = keras.layers.Embedding(9, 4, mask_zero=1)(x)
    both = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))
    model = keras.Model(x, both(words))
    for layer in both.forward_layer, both.backward_layer:
        layer.zero_output_for_mask = False  # which cannot be written
    lines, *_ = comparison.described(model, train=False)
    assert any("zero_output_for_mask=False" in line for line in lines)


def test_a_process_imports_no_file_of_the_current_folder(tmp_path):
    for name in "runpy", "warnings", "types", "functools", "contextlib", "pkgutil":
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "main.file").write_text("print('started')")
    path = [each for each in sys.path if each]
    command = [sys.executable, "-W", "ignore", "-c", START, "main.file", "--", *path]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("started\n", "")


def test_a_process_that_does_not_answer_is_ended(monkeypatch):
    process = Process(answers.__file__, seconds=0)
    monkeypatch.setattr(checking, "process", lambda *_: process)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="net")
    with pytest.raises(SourceError, match="builds 'net' .* did not answer") as raised:
        keras_policies.to_source(model)
    assert raised.value.code == "KP003"
