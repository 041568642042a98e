"""`keras-policies code`, and the page about it."""

import os
import pathlib
import re

import keras
import legacy_files
import lost_files
import numpy as np
import pytest
from keras import layers

import keras_policies
from keras_policies.cli.main import main

MODEL = str(legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "model.h5")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "source-code.md"
pytestmark = pytest.mark.once("the command does the same on every backend")


def run(path):
    """Return the model that a module builds."""
    namespace = {"__name__": "model", "__file__": str(path)}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), namespace)
    return namespace["build_model"]()


def test_the_command_writes_the_code_and_the_weights(tmp_path, capsys):
    code, weights = tmp_path / "model.py", tmp_path / "model.weights.h5"
    assert main(["code", MODEL, "-o", str(code), "--weights", str(weights)]) == 0
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [code.name, weights.name]
    assert code.read_text("utf8").startswith(
        '"""Keras model conv_fixed, from model.h5."""'
    )
    model = run(code)
    model.load_weights(weights)
    x = np.ones((2, 12, 12, 3), "float32")
    wanted = keras_policies.load_model(MODEL, compile=False).predict(x, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0), wanted, atol=1e-3)


def test_the_docstring_names_the_file_that_load_model_opened(tmp_path):
    new = tmp_path / "new.keras"
    for path, name in (MODEL, "model.h5"), (new, "new.keras"):
        model = keras_policies.load_model(path, compile=False)
        text = keras_policies.to_source(model)
        assert text.startswith(f'"""Keras model conv_fixed, from {name}."""\n')
        model.save(new)
    stock = keras.models.load_model(new, compile=False)
    assert keras_policies.to_source(stock).startswith('"""Keras model conv_fixed."""')
    text = keras_policies.to_source(model, origin="folder/")
    assert text.startswith('"""Keras model conv_fixed, from folder."""')


def test_a_model_of_a_class_without_a_hash_can_be_loaded(tmp_path):
    @keras.saving.register_keras_serializable()
    class Unhashable(keras.Sequential):
        def __eq__(self, other):
            return self is other

    Unhashable([keras.Input((4,)), layers.Dense(3)]).save(tmp_path / "model.keras")
    assert len(keras_policies.load_model(tmp_path / "model.keras").layers) == 1


def test_the_command_prints_the_code_of_a_keras_3_model(tmp_path, capsys):
    path = tmp_path / "model.keras"
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="net")
    keras.optimizers.SGD()  # the name of the next one has a number
    model.compile("sgd", "mse")
    model.save(path)
    assert main(["code", str(path), "--compile", "--train"]) == 0
    printed = capsys.readouterr().out
    assert "optimizer=keras.optimizers.SGD()," in printed
    assert "from keras import layers" in printed


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")  # jax of Keras 3.8
def test_the_code_can_be_of_a_model_without_its_layers_of_texts(tmp_path, capsys):
    archive = legacy_files.FOLDER / "texts.tar.xz"
    folder = legacy_files.unpacked(tmp_path, [archive]) / "texts"
    path = str(folder / "2.15.1" / "sentiment" / "model.keras")
    assert main(["code", path, "--texts", "outside"]) == 0
    printed = capsys.readouterr().out
    assert "TextVectorization" not in printed
    assert "layers.Embedding(" in printed


def test_large_constants_are_written_beside_the_code(tmp_path):
    inputs = keras.Input((9, 9))
    table = np.arange(81, dtype="float32").reshape(9, 9)
    keras.Model(inputs, inputs * table).save(tmp_path / "model.keras")
    code = tmp_path / "code.py"
    assert main(["code", str(tmp_path / "model.keras"), "-o", str(code)]) == 0
    assert (tmp_path / "code.npz").exists()
    found = run(code).predict(np.ones((1, 9, 9), "float32"), verbose=0)
    assert found.tolist() == [table.tolist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "code.txt"], "--output 'code.txt': expected a name that ends in '.py'"),
        (["--weights", "w.h5"], "--weights 'w.h5': expected a name that ends in '.wei"),
    ],
)
def test_a_wrong_command_line_is_told(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["code", MODEL, *options]) == 2
    assert message in capsys.readouterr().err
    assert not [*pathlib.Path().iterdir()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "there.py"], "KP108: there.py: it already exists."),
        (
            ["-o", "none/code.py"],
            f"KP108: none{os.sep}code.py: there is no folder 'none'",
        ),
        (["--weights", "w.weights.h5"], "KP108: w.weights.h5: it is a folder."),
    ],
)
def test_a_file_that_cannot_be_written_is_told(
    options, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("there.py").write_text("# mine\n")
    pathlib.Path("w.weights.h5").mkdir()
    assert main(["code", MODEL, *options]) == 1
    assert message in capsys.readouterr().err
    assert pathlib.Path("there.py").read_text("utf8") == "# mine\n"
    assert len([*pathlib.Path().iterdir()]) == 2


def test_a_file_that_exists_is_replaced_if_that_is_asked_for(tmp_path):
    code = tmp_path / "code.py"
    code.write_text("# mine\n")
    assert main(["code", MODEL, "-o", str(code), "--overwrite"]) == 0
    assert "def build_model():" in code.read_text("utf8")


def sources(folder):
    """Return `{name in the page: path}`."""
    legacy_files.unpacked(folder, lost_files.archives("2.15.1", [""]))
    legacy_files.unpacked(folder, [legacy_files.FOLDER / "lambdas.tar.xz"])
    return {
        "digits": legacy_files.FOLDER / "digits" / "conv",
        "lost_block": folder / "2.15.1" / "own_attention" / "model",
        "driving.h5": folder / "3.8" / "driving" / "model.h5",
    }


@pytest.mark.once("Keras 3.8 is given other operations", for_all_keras=True)
@pytest.mark.skipif(legacy_files.KERAS < (3, 15), reason="shapes are lists in configs")
@pytest.mark.filterwarnings("ignore::keras_policies.KerasPoliciesWarning")
def test_the_examples_of_the_page_are_what_is_written(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    paths = sources(tmp_path)
    assert len(blocks) == len(paths) == 3
    for block, (origin, path) in zip(blocks, paths.items(), strict=True):
        keras.utils.clear_session()
        model = keras_policies.load_model(path, compile=False, verify=False)
        assert block == keras_policies.to_source(model, origin=origin)
        assert block.count("\n") < 60
