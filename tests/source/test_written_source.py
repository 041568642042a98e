"""The source code of models, as it is written."""

import concurrent.futures
import gc
import importlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers, ops
from source_models import MODELS, REFUSED

import keras_policies
from keras_policies._common import comparing, process
from keras_policies._common.comparing import Recipe
from keras_policies._common.process import Process
from keras_policies.source import answers, checking, comparison
from keras_policies.source.graphs import Reader

once = pytest.mark.once("the text depends on no backend")


def body(model, **options):
    """Return the lines of `build_model`, without its head and indentation."""
    text = keras_policies.to_source(model, **options)
    lines = text.partition("def build_model():\n")[2].splitlines()
    return [line[4:] for line in lines]


def chain():
    inputs = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(16, (3, 3), strides=(2, 2), activation="relu", name="a")(inputs)
    x = layers.Flatten(name="b")(x)
    return keras.Model(inputs, layers.Dense(10, name="c")(x), name="net")


def residual():
    inputs = keras.Input((4,), name="in")
    first = layers.Dense(4, name="first")(inputs)
    x = layers.Dense(4, name="second")(first)
    return keras.Model(inputs, ops.relu(x + first) * 0.5, name="net")


def shared():
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    encoder = layers.Dense(2, name="encoder")
    return keras.Model([left, right], encoder(left) - encoder(right), name="net")


WRITTEN = {
    "chain": (
        chain,
        [
            'inputs = keras.Input((8, 8, 3), name="image")',
            'x = layers.Conv2D(16, 3, strides=2, activation="relu", name="a")(inputs)',
            'x = layers.Flatten(name="b")(x)',
            'outputs = layers.Dense(10, name="c")(x)',
            'return keras.Model(inputs, outputs, name="net")',
        ],
    ),
    "residual": (
        residual,
        [
            'inputs = keras.Input((4,), name="in")',
            'first = layers.Dense(4, name="first")(inputs)',
            'x = layers.Dense(4, name="second")(first)',
            "x = x + first",
            "x = ops.relu(x)",
            "outputs = x * 0.5",
            'return keras.Model(inputs, outputs, name="net")',
        ],
    ),
    "shared": (
        shared,
        [
            'left = keras.Input((4,), name="left")',
            'right = keras.Input((4,), name="right")',
            'encoder = layers.Dense(2, name="encoder")',
            "encoder_2 = encoder(left)",
            "x = encoder(right)",
            "outputs = encoder_2 - x",
            'return keras.Model([left, right], outputs, name="net")',
        ],
    ),
}


@once
@pytest.mark.parametrize("name", WRITTEN)
def test_a_model_is_written_as_somebody_would_write_it(name):
    model, lines = WRITTEN[name]
    assert body(model()) == lines


@once
def test_a_frozen_inner_model_is_a_function_that_freezes_it():
    base = keras.Sequential(
        [keras.Input((4,), name="i"), layers.Dense(3, name="d")], name="base"
    )
    base.trainable = False
    inputs = keras.Input((4,), name="in")
    text = keras_policies.to_source(keras.Model(inputs, base(inputs), name="net"))
    assert text.split("\n\n\n")[1].splitlines() == [
        "def build_base():",
        "    model = keras.Sequential(",
        '        [keras.Input((4,), name="i"), layers.Dense(3, name="d")],',
        '        name="base",',
        "    )",
        "    model.trainable = False",
        "    return model",
    ]


@once
def test_a_policy_that_many_layers_have_is_named_once():
    model = keras.Sequential([keras.Input((4,), name="i")], name="net")
    for name in "abc":
        model.add(layers.Dense(2, dtype="mixed_float16", name=name))
    model.add(layers.Dense(2, name="d"))
    text = keras_policies.to_source(model)
    assert text.count("mixed_float16") == 1
    assert 'layers.Dense(2, name="c", dtype=DTYPE),' in text
    assert 'layers.Dense(2, name="d", dtype="float32"),' in text


@once
def test_the_policies_of_a_mixed_model_do_not_depend_on_the_global_one():
    inputs = keras.Input((4,), name="i")
    x = layers.Dense(3, dtype="mixed_float16", name="a")(inputs)
    text = keras_policies.to_source(keras.Model(inputs, layers.Softmax(name="b")(x)))
    keras.config.set_dtype_policy("mixed_bfloat16")
    namespace = {}
    exec(text, namespace)
    built = namespace["build_model"]()
    policies = [layer.dtype_policy.name for layer in built.layers[1:]]
    assert policies == ["mixed_float16", "float32"]
    assert built.outputs[0].dtype == "float32"


@once
def test_the_code_does_not_depend_on_the_default_dtype():
    keras.config.set_floatx("float16")
    try:
        inputs = keras.Input((4,), dtype="float32", name="i")
        x = layers.Dense(3, dtype="float32", name="a")(inputs)
        x = layers.Dense(3, dtype="float16", name="b")(x)
        text = keras_policies.to_source(keras.Model(inputs, x))
    finally:
        keras.config.set_floatx("float32")
    namespace = {}
    exec(text, namespace)
    built = namespace["build_model"]()
    assert [layer.compute_dtype for layer in built.layers[1:]] == ["float32", "float16"]
    assert built.inputs[0].dtype == "float32"


@once
def test_a_class_that_only_a_scope_knows_is_imported_from_its_module(
    tmp_path, monkeypatch
):
    (tmp_path / "layers_of_mine.py").write_text(
        "import keras\n\n\nclass Doubled(keras.layers.Layer):\n"
        "    def call(self, x):\n        return 2 * x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("layers_of_mine").Doubled
    inputs, i = keras.Input((5, 4)), keras.Input((4,))
    inner = keras.Model(i, cls(name="doubled")(i), name="inner")
    with keras.saving.custom_object_scope({"Doubled": cls}):
        model = keras.Model(inputs, layers.TimeDistributed(inner)(inputs))
        text = keras_policies.to_source(model)
    assert "from layers_of_mine import Doubled" in text
    assert "outputs = Doubled()(inputs)" in text


@once
def test_states_of_recurrent_layers_are_no_part_of_the_code():
    inputs = keras.Input(batch_shape=(3, 5, 4))
    gru = layers.GRU(2, return_sequences=True, stateful=True)
    lstm = layers.LSTM(3, stateful=True)
    model = keras.Model(inputs, lstm(layers.Bidirectional(gru)(inputs)))
    model(np.ones((3, 5, 4), "float32"))
    states = [keras.ops.convert_to_numpy(x).tolist() for x in lstm.states]
    assert "layers.LSTM(3, stateful=True" in keras_policies.to_source(model)
    assert [keras.ops.convert_to_numpy(x).tolist() for x in lstm.states] == states
    assert np.any(states)


@once
@pytest.mark.parametrize("mask_zero", [False, True])
def test_what_bidirectional_does_with_masks_counts_if_there_is_one(mask_zero):
    inputs = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=mask_zero)(inputs)
    both = layers.Bidirectional(layers.GRU(2, return_sequences=True))
    for layer in both.forward_layer, both.backward_layer:
        layer.zero_output_for_mask = False  # as before Keras 2.3; it cannot be written
    model = keras.Model(inputs, both(x))
    if mask_zero:
        with pytest.raises(ValueError, match="zero_output_for_mask=True"):
            keras_policies.to_source(model)
    else:
        assert "layers.Bidirectional(" in keras_policies.to_source(model)


@once
def test_outputs_that_cannot_be_compared_are_told():
    inputs = keras.Input((None,))  # it has to be seven
    model = keras.Model(inputs, layers.Reshape((7, 1))(inputs), name="week")
    with pytest.warns(
        keras_policies.KerasPoliciesWarning,
        match="outputs of 'week' were not compared with those of its source code",
    ):
        text = keras_policies.to_source(model)
    assert "layers.Reshape((7, 1)" in text


@once
def test_the_order_of_layers_counts_since_weights_are_saved_in_it():
    lines, names, _ = comparison.described(chain(), train=False)
    assert "[0, 1, 2, 3]" in lines
    assert names == [
        ("InputLayer", "image"),
        *(("Conv2D", "a"), ("Flatten", "b"), ("Dense", "c"), ("Functional", "net")),
    ]


@once
def test_automatic_names_are_left_out_where_a_new_process_gives_them():
    keras.utils.clear_session()
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2)])
    last = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    expected = "[keras.Input((4,)), layers.Dense(3), layers.Dense(2)]"
    assert body(model) == [f"return keras.Sequential({expected})"]
    assert 'layers.Dense(2, name="dense_2")' in keras_policies.to_source(last)


@once
def test_defaults_are_left_out_for_a_class_whose_config_must_be_complete():
    layer = layers.Rescaling(0.5, name="half")
    text = keras_policies.to_source(keras.Sequential([keras.Input((4,)), layer]))
    assert 'layers.Rescaling(0.5, name="half")]' in text
    assert "dtype" not in text


@once
def test_initializers_are_written_for_training_alone():
    dense = layers.Dense(3, kernel_initializer="zeros", kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((4,)), dense])
    assert "initializer" not in keras_policies.to_source(model)
    assert "regularizers.L2()" in keras_policies.to_source(model)
    text = keras_policies.to_source(model, train=True)
    assert "kernel_initializer=keras.initializers.Zeros()" in text


@once
def test_the_call_of_compile_is_written_if_asked_for():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="net")
    model.compile(keras.optimizers.Adam(1e-4), "mse", metrics=["mae"])
    assert "compile" not in keras_policies.to_source(model)
    assert body(model, compile=True)[-6:] == [
        "model.compile(",
        "    optimizer=keras.optimizers.Adam(learning_rate=0.0001),",
        '    loss="mse",',
        '    metrics=["mae"],',
        ")",
        "return model",
    ]


@once
def test_metrics_are_written_as_objects_and_not_as_their_configs():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="net")
    metrics = [keras.metrics.Precision(thresholds=0.3, name="p"), "mae"]
    weighted = [keras.metrics.AUC(num_thresholds=5, name="a")]
    model.compile("sgd", "mse", metrics=metrics, weighted_metrics=weighted)
    lines = body(model, compile=True)
    precision = 'keras.metrics.Precision(thresholds=0.3, name="p")'
    assert f'    metrics=[{precision}, "mae"],' in lines
    assert (
        '    weighted_metrics=[keras.metrics.AUC(num_thresholds=5, name="a")],' in lines
    )


@once
def test_a_dict_in_compile_that_keras_would_take_for_an_object_is_refused():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="net")
    popen = {"class_name": "Popen", "module": "subprocess", "config": {}}
    model.compile("sgd", "mse", loss_weights=popen)
    with pytest.raises(ValueError, match="argument of `compile` looks like the config"):
        keras_policies.to_source(model, compile=True)


@once
def test_compile_needs_a_model_that_was_compiled():
    with pytest.raises(ValueError, match="has not been compiled. Pass compile=False"):
        keras_policies.to_source(chain(), compile=True)


@once
def test_the_docstring_names_the_file():
    text = keras_policies.to_source(chain(), origin='folder/old "model".h5')
    assert text.startswith(
        '"""Keras model net, from old _model_.h5."""\n\nimport keras\n'
    )


@once
@pytest.mark.parametrize("size", [64, 65])
def test_constants_of_more_than_64_numbers_need_a_file(size, tmp_path):
    inputs = keras.Input((size,))
    model = keras.Model(inputs, inputs * np.arange(size, dtype="float32"))
    if size == 64:
        assert "63.0" in keras_policies.to_source(model)
        return
    with pytest.raises(ValueError, match=r"more than 64 numbers: 'multiply.*npz"):
        keras_policies.to_source(model)
    text = keras_policies.to_source(model, constants=tmp_path / "big.npz")
    assert 'np.load(pathlib.Path(__file__).with_name("big.npz"))' in text
    with np.load(tmp_path / "big.npz") as file:
        (array,) = file.values()
    assert array.tolist() == [*range(65)]


FAILING = {
    "an error while it gets weights": lambda recipe, outputs: "OSError: no file",
    "no recipe that it takes": lambda recipe, outputs: None,
    "another recipe": lambda recipe, outputs: (Recipe(batch=7), outputs),
    "other outputs": lambda recipe, outputs: (recipe, [x + 1 for x in outputs]),
}


@once
@pytest.mark.parametrize("what_fails", FAILING)
def test_a_model_that_fails_where_the_first_one_works_is_refused(
    what_fails, monkeypatch
):
    ask = Process.ask

    def asked(process, name, *request):
        answer = ask(process, name, *request)
        return FAILING[what_fails](*answer) if name == "example" else answer

    monkeypatch.setattr(Process, "ask", asked)
    with pytest.raises(ValueError, match="compute something other than their configs"):
        keras_policies.to_source(chain())


@once
def test_a_metric_whose_config_has_no_name_gets_none(tmp_path, monkeypatch):
    (tmp_path / "metrics_of_mine.py").write_text(
        "import keras\n\n\nclass Half(keras.metrics.Mean):\n"
        "    def __init__(self):\n        super().__init__()\n\n"
        "    def get_config(self):\n        return {}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("metrics_of_mine").Half
    model = chain()
    model.compile(loss="mse", metrics=[cls()])
    text = keras_policies.to_source(model, compile=True)
    assert "metrics=[Half()]" in text


@once
def test_inputs_that_this_process_alone_refuses_are_not_compared(monkeypatch):
    calls, outputs = [], comparison.outputs

    def called(model, arrays, call):
        calls.append(arrays[0].dtype.name)
        if len(calls) == 1:
            raise UserWarning("a warning that is an error")
        return outputs(model, arrays, call)

    monkeypatch.setattr(comparison, "outputs", called)
    assert "build_model" in keras_policies.to_source(chain())
    assert len(calls) == 2


@once
def test_metrics_keep_the_names_that_histories_show():
    model = chain()
    named = keras.metrics.Precision(name="precision_1")
    plain = keras.metrics.MeanSquaredError()
    model.compile(loss="mse", metrics=[named, plain])
    text = keras_policies.to_source(model, compile=True)
    assert 'keras.metrics.Precision(name="precision_1")' in text
    assert "keras.metrics.MeanSquaredError()" in text


def after_attention(x):
    return layers.Dropout(0.5, name="dropout_1")(layers.MultiHeadAttention(2, 3)(x, x))


# Layers with the names that Keras gave them somewhere else -> their code. Attention has
# a Dropout of its own, which is the first one.
NUMBERED = {
    "a lower number later": (
        lambda x: layers.Dense(2, name="dense")(layers.Dense(3, name="dense_1")(x)),
        ['layers.Dense(3, name="dense_1")', 'layers.Dense(2, name="dense")'],
    ),
    "after those of another model": (
        lambda x: layers.Dense(2, name="dense_8")(layers.Dense(3, name="dense_7")(x)),
        ['layers.Dense(3, name="dense_7")', 'layers.Dense(2, name="dense_8")'],
    ),
    "after one in another layer": (after_attention, ["layers.Dropout(0.5)"]),
    "after an operation": (
        lambda x: layers.Add(name="add_1")([x, x + 1.0]),
        ["layers.Add()"],
    ),
    "in a Bidirectional": (
        lambda x: layers.Dense(2)(layers.Bidirectional(layers.GRU(3))(x)),
        ["layers.Bidirectional(layers.GRU(3))(", "layers.Dense(2)("],
    ),
}


@once
@pytest.mark.parametrize("kind", NUMBERED)
def test_one_module_is_written_where_keras_numbers_layers_otherwise(kind, monkeypatch):
    ask, requests = Process.ask, []

    def asked(process, *request):
        requests.append(request[0])
        return ask(process, *request)

    monkeypatch.setattr(Process, "ask", asked)
    make, expected = NUMBERED[kind]
    keras.backend.clear_session()
    inputs = keras.Input((5, 4), name="i")
    text = keras_policies.to_source(keras.Model(inputs, make(inputs), name="net"))
    assert [each for each in expected if each not in text] == []
    assert requests == ["built", "example", "described"]


@once
def test_the_code_does_not_depend_on_how_long_its_comparison_takes(monkeypatch):
    monkeypatch.setattr(process, "IDLE", 0)  # each request gets a new process
    inputs = keras.Input((4,), name="i")
    outputs = layers.BatchNormalization(name="b")(inputs)
    model = keras.Model(inputs, outputs, name="net")
    model.trainable = False
    assert body(model)[-2:] == ["model.trainable = False", "return model"]


def shapes_of_examples(model, monkeypatch):
    """Return the shapes of all arrays that a model is called on as it is compared."""
    shapes, outputs = [], comparison.outputs

    def called(model, arrays, call):
        shapes.extend(x.shape for x in arrays)
        return outputs(model, arrays, call)

    monkeypatch.setattr(comparison, "outputs", called)
    keras_policies.to_source(model)
    return shapes


@once
@pytest.mark.parametrize(("limit", "batch"), [(1 << 12, 2), (1 << 3, 1)])
def test_an_expensive_model_is_compared_on_one_example(limit, batch, monkeypatch):
    model = chain()
    for_one = checking.numbers_in(model, Recipe(batch=1), Reader())
    monkeypatch.setattr(checking, "MANY", limit)
    monkeypatch.setattr(checking, "MOST", for_one)  # two examples need more
    assert shapes_of_examples(model, monkeypatch) == [(batch, 8, 8, 3)]


def twice(x):
    return 2 * x


class ELU(layers.ELU):
    """A class of the user, with the name of one of Keras."""


def relu_of(shape):
    inputs = keras.Input(shape)
    return keras.Model(inputs, layers.ReLU()(inputs))


# What follows a convolution of an image of 331 x 150 -> the sizes that are tried. What
# is cut off, or is the same for few places, could hide how others are computed.
SMALLER, WHOLE = (2, 75, 86, 3), (2, 331, 150, 3)
LARGE = {
    "any size": (lambda x: x, [SMALLER]),
    "one size": (lambda x: layers.Flatten()(x), [SMALLER, WHOLE]),
    "too small to pool": (lambda x: layers.AveragePooling2D(40)(x), [SMALLER, WHOLE]),
    "an edge is cut off": (lambda x: layers.Cropping2D(1)(x), [SMALLER]),
    "more is cut off": (lambda x: layers.Cropping2D(((0, 2), (0, 0)))(x), [WHOLE]),
    "a slice": (lambda x: x[:, 80:], [WHOLE]),
    "groups": (lambda x: layers.GroupNormalization(2)(x), [WHOLE]),
    "a function": (lambda x: layers.Activation(twice)(x), [WHOLE]),
    "a class of the user": (lambda x: ELU()(x), [WHOLE]),
    "a model": (lambda x: relu_of(x.shape[1:])(x), [SMALLER, WHOLE]),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_model_is_compared_on_smaller_images_if_it_takes_them(
    kind, monkeypatch
):
    middle, expected = LARGE[kind]
    inputs = keras.Input((331, 150, 3), name="image")
    x = layers.Conv2D(4, 3, strides=2, padding="same", name="a")(inputs)
    x = layers.Dense(2, name="b")(middle(x))
    if len(x.shape) == 4:
        x = layers.GlobalAveragePooling2D(name="c")(x)
    with keras.saving.custom_object_scope({"twice": twice, "ELU": ELU}):
        model = keras.Model(inputs, x, name="net")
        assert shapes_of_examples(model, monkeypatch) == [WHOLE]
        monkeypatch.setattr(checking, "SOME", 1 << 10)
        assert shapes_of_examples(model, monkeypatch) == expected


@once
def test_only_fixed_sides_of_images_become_smaller():
    specs = [
        keras.KerasTensor((None, 3, 480, 200), "float16"),
        keras.KerasTensor((None, None, 224, 3)),
        keras.KerasTensor((None, 99, 8)),
        keras.KerasTensor((None, 60, 480)),
        keras.KerasTensor((None, 480, 2), "int32"),
        keras.KerasTensor((None, 480)),
        keras.KerasTensor(()),
    ]
    found = comparing.shapes(specs, Recipe(lengths=(224,), side=64))
    assert found == [
        (2, 3, 64, 200),
        (2, 224, 64, 3),
        (2, 67, 8),
        (2, 60, 480),
        (2, 480, 2),
        (2, 480),
        (),
    ]


@once
def test_a_layer_that_was_changed_is_called_on_whole_images(monkeypatch):
    monkeypatch.setattr(checking, "SOME", 1 << 10)
    inputs = keras.Input((128, 128, 3), name="image")
    changed = layers.LeakyReLU(0.5, name="a")
    x = layers.GlobalMaxPooling2D(name="b")(changed(inputs))
    changed.call = lambda x: x * (2 if x.shape[1] > 100 else 1)
    with pytest.raises(ValueError, match="something other than their configs say"):
        keras_policies.to_source(keras.Model(inputs, x, name="net"))


@once
@pytest.mark.parametrize("base", ["keras.Model", "keras.Sequential"])
def test_a_model_of_the_user_is_compared_if_its_call_takes_no_training(
    base, tmp_path, monkeypatch
):
    """Its layer has an argument that is not in its config, which only outputs show."""
    (tmp_path / "models_of_mine.py").write_text(
        "import keras\n\n\nclass Times(keras.layers.Layer):\n"
        "    def __init__(self, factor=1, **options):\n"
        "        super().__init__(**options)\n        self.of = factor\n\n"
        "    def get_config(self):\n        return {'name': self.name}\n\n"
        "    def call(self, x):\n        return self.of * x\n\n\n"
        f"class Net({base}):\n"
        "    def call(self, inputs):\n        return super().call(inputs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "models_of_mine", raising=False)
    mine = importlib.import_module("models_of_mine")

    def net(layer):
        inputs = keras.Input((3,), name="x")
        if base == "keras.Sequential":
            return mine.Net([inputs, layer], name="net")
        return mine.Net(inputs, layer(inputs), name="net")

    with keras.saving.custom_object_scope({"Times": mine.Times, "Net": mine.Net}):
        assert "Times(" in keras_policies.to_source(net(mine.Times()))
        with pytest.raises(ValueError, match="something other than their configs say"):
            keras_policies.to_source(net(mine.Times(3)))


@once
def test_the_garbage_collector_runs_again_after_a_model_is_written(monkeypatch):
    seen, tree = [], checking.Module.tree

    def observed(*args):
        seen.append(gc.isenabled())
        return tree(*args)

    monkeypatch.setattr(checking.Module, "tree", observed)
    keras_policies.to_source(chain())
    inputs = keras.Input((65,))
    refused = keras.Model(inputs, inputs * np.arange(65, dtype="float32"))
    with pytest.raises(ValueError, match="constants of more than 64 numbers"):
        keras_policies.to_source(refused)
    assert seen[0] is False
    assert gc.isenabled()
    gc.disable()
    try:
        keras_policies.to_source(chain())
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.once("it is about torch, which 3.8 is not tried with", for_all_keras=True)
def test_the_process_imports_the_compiler_of_torch_only_for_other_code():
    """Keras imports it, which takes a second, to keep two functions from it."""
    program = (
        "import os, runpy, sys; os.environ['KERAS_BACKEND'] = 'torch'\n"
        f"runpy.run_path({answers.__file__!r})['start']()\n"
        "print([x for x in sys.modules if x.startswith('torch._dynamo')])\n"
        "import torch._dynamo, keras\n"
        "torch._dynamo.reset()\n"
        "images, moves = keras.ops.ones((1, 4, 4, 1)), keras.ops.ones((1, 8))\n"
        "print(keras.ops.image.affine_transform(images, moves).shape)\n"
        "print(keras.random.normal((2, 3)).shape)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    shapes = ["torch.Size([1, 4, 4, 1])", "torch.Size([2, 3])"]
    assert found.stdout.splitlines() == ["[]", *shapes], found.stderr


@once
def test_no_constants_are_written_for_a_model_that_is_refused(tmp_path, monkeypatch):
    def refuse(*args):
        raise ValueError("it builds another model")

    monkeypatch.setattr(checking.Comparison, "next_style", refuse)
    inputs = keras.Input((65,))
    model = keras.Model(inputs, inputs * np.arange(65, dtype="float32"))
    with pytest.raises(ValueError, match="another model"):
        keras_policies.to_source(model, constants=tmp_path / "big.npz")
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ValueError, match=r"constants must end in '.npz', received 'b'"):
        keras_policies.to_source(model, constants="b")


@once
def test_the_global_policy_and_automatic_names_stay_as_they_were(monkeypatch):
    keras.utils.clear_session()
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    changes = []
    monkeypatch.setattr(keras.config, "set_floatx", changes.append)
    assert "dtype=" in keras_policies.to_source(model)
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    assert layers.Dense(3).name == "dense_1"
    assert changes == []


@once
def test_other_threads_keep_their_global_policy_while_a_model_is_written(monkeypatch):
    seen, checked = [], checking.Comparison.next_style

    def next_style(*args):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(keras.config.dtype_policy).result().name)
        return checked(*args)

    monkeypatch.setattr(checking.Comparison, "next_style", next_style)
    keras.config.set_floatx("float16")  # what a new thread begins with
    try:
        text = keras_policies.to_source(chain())
    finally:
        keras.config.set_floatx("float32")
    assert seen[0] == "float16"
    assert 'keras.Input((8, 8, 3), dtype="float16", name="image")' in text


@once
def test_the_order_of_axes_is_written_if_it_is_not_the_usual_one():
    keras.config.set_image_data_format("channels_first")
    try:
        pooling = layers.GlobalMaxPooling2D(name="pool")
        model = keras.Sequential([keras.Input((3, 8, 8)), pooling])
        text = keras_policies.to_source(model)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert 'layers.GlobalMaxPooling2D(data_format="channels_first"' in text


def loops(model):
    """Return the loops of `build_model`, without its indentation."""
    lines = body(model)
    kept = [n for n, x in enumerate(lines) if x.startswith(("for ", "    ", ")"))]
    return [lines[n] for n in kept]


LOOPS = {
    "equal_layers": [
        "for i in range(3, 9):",
        '    model.add(layers.Dense(4, activation="relu", name=f"dense {i}"))',
    ],
    "inverted_residuals": [
        "for i in range(3, 8):",
        '    y = layers.Conv2D(16, 1, use_bias=False, name=f"block_{i}_expand")(x)',
        '    y = layers.BatchNormalization(name=f"block_{i}_expand_BN")(y)',
        "    y = layers.ReLU(max_value=6.0)(y)",
        "    y = layers.DepthwiseConv2D("
        '3, padding="same", name=f"block_{i}_depthwise")(y)',
        "    y = layers.ReLU(max_value=6.0)(y)",
        '    y = layers.Conv2D(4, 1, use_bias=False, name=f"block_{i}_project")(y)',
        '    x = layers.Add(name=f"block_{i}_add")([x, y])',
    ],
    "inner_blocks": ["for i in range(6):", '    x = build_block_0(f"block_{i}")(x)'],
    "transformer": [
        "for i in range(4):",
        "    layer_normalization = "
        'layers.LayerNormalization(name=f"layer_{i}_norm")(x)',
        "    y = mask[:, None]",
        '    y = layers.MultiHeadAttention(2, 4, name=f"layer_{i}_attention")(',
        "        layer_normalization,",
        "        layer_normalization,",
        "        attention_mask=y,",
        "    )",
        '    add = layers.Add(name=f"layer_{i}_add")([x, y])',
        '    x = layers.LayerNormalization(name=f"layer_{i}_norm_2")(add)',
        '    x = layers.Dense(16, activation="gelu", name=f"layer_{i}_in")(x)',
        '    x = layers.Dense(8, name=f"layer_{i}_out")(x)',
        '    x = layers.Add(name=f"layer_{i}_add_2")([add, x])',
    ],
    "skips": [],
}


@once
@pytest.mark.parametrize("name", LOOPS)
def test_equal_blocks_become_a_loop_if_no_later_statement_needs_each(name):
    keras.utils.clear_session()
    assert loops(MODELS[name]()) == LOOPS[name]


@once
def test_each_stage_of_a_residual_network_has_a_loop():
    keras.utils.clear_session()
    found = loops(MODELS["residual_stages"]())
    assert found.count("for i in range(2, 4):") == 2
    assert '    x = layers.ReLU(name=f"conv3_block{i}_out")(x)' in found


@once
def test_inner_models_that_differ_in_their_names_alone_share_a_function():
    keras.utils.clear_session()
    text = keras_policies.to_source(MODELS["inner_blocks"]())
    assert text.split("\n\n\n")[1].splitlines() == [
        "def build_block_0(name):",
        "    inputs = keras.Input((4,))",
        "    x = ops.relu(inputs)",
        "    x = layers.Dense(4)(x)",
        "    outputs = x + inputs",
        "    return keras.Model(inputs, outputs, name=name)",
    ]


@once
def test_blocks_that_do_not_follow_each_other_share_a_function():
    keras.utils.clear_session()
    text = keras_policies.to_source(MODELS["encoder_decoder"]())
    assert [part.splitlines() for part in text.split("\n\n\n")[1:]] == [
        [
            "def apply_block(inputs, inputs_2, name):",
            "    layer_normalization = "
            'layers.LayerNormalization(name=f"{name}_norm")(inputs)',
            "    x = inputs_2[:, None]",
            '    x = layers.MultiHeadAttention(2, 4, name=f"{name}_attention")(',
            "        layer_normalization,",
            "        layer_normalization,",
            "        attention_mask=x,",
            "    )",
            '    add = layers.Add(name=f"{name}_add")([layer_normalization, x])',
            '    x = layers.Dense(8, activation="gelu", name=f"{name}_in")(add)',
            "    x = layers.Dropout(0.1)(x)",
            '    x = layers.Dense(4, name=f"{name}_out")(x)',
            '    return layers.Add(name=f"{name}_add_2")([x, add])',
        ],
        [
            "def build_model():",
            "    input_layer = keras.Input((6, 4))",
            '    mask = keras.Input((6,), dtype="bool", name="mask")',
            '    x = apply_block(input_layer, mask, "encoder")',
            '    x = layers.Conv1D(4, 3, padding="same", name="middle")(x)',
            '    outputs = apply_block(x, mask, "decoder{0}")',
            '    return keras.Model([input_layer, mask], outputs, name="net")',
        ],
    ]


@once
def test_a_shared_function_may_have_a_loop_and_two_results():
    keras.utils.clear_session()
    text = keras_policies.to_source(MODELS["two_towers"]())
    function, main = text.split("\n\n\n")[1:]
    assert function.splitlines()[:3] == [
        "def apply_block(inputs, name):",
        "    x = inputs",
        "    for i in range(3):",
    ]
    assert '        y = layers.Dense(4, name=f"{name}_{i}_dense")(x)' in function
    assert function.endswith("\n    return dropout, x")
    assert '    dropout_1, right_score = apply_block(input_layer_1, "right")' in main


@once
def test_blocks_that_differ_in_two_words_share_no_function():
    text = keras_policies.to_source(MODELS["two_words"]())
    assert "apply_block" not in text
    assert 'name="d_c"' in text


@once
def test_names_without_a_rule_are_written_out():
    text = keras_policies.to_source(MODELS["odd_numbers"]())
    assert all(f'name="a{n}"' in text for n in (1, 2, 4, 8, 16))
    assert all(f'name="b{{{n}}}_0{n}_{3 * n + 2}"' in text for n in range(6))
    assert "for i in range(2, 20, 3):" in text
    assert 'name=f"{{c}}_{i}_{i - 2}"' in text


@once
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_source_code_is_refused_by_name(name):
    make, error, message = REFUSED[name]
    model = make()
    with pytest.raises(error, match=message):
        keras_policies.to_source(model)


@pytest.mark.slow("writes the source of all models")
@pytest.mark.once("the text depends on no backend", for_all_keras=True)
def test_ruff_would_not_format_it_otherwise(tmp_path):
    for name, make in MODELS.items():
        text = keras_policies.to_source(make(), constants=tmp_path / "constants.npz")
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--isolated",
        "--diff",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert re.search(rf"^{len(MODELS)} files already formatted", done.stderr)


@once
def test_layers_compute_again_what_they_keep_of_their_weights():
    adapted = layers.Normalization(name="n")
    adapted.adapt(np.arange(12.0).reshape(4, 3))
    inner = keras.Sequential([keras.Input((3,)), adapted], name="inner")
    inputs = keras.Input((5, 3), name="i")
    outputs = layers.TimeDistributed(inner, name="t")(inputs)
    model = keras.Model(inputs, layers.Dense(2, name="d")(outputs), name="net")
    assert 'layers.Normalization(name="n")' in keras_policies.to_source(model)
