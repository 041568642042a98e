"""The command line, and `convert_model` behind it."""

import contextvars
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import zipfile

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError, convert_model, inspect_model
from keras_policies._common import terminal
from keras_policies.cli import commands, folders, many, startup, tasks
from keras_policies.cli.main import main
from keras_policies.legacy.base import hints

SOURCE = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
MORE = legacy_files.folder("more")
MODEL = (SOURCE / "saved_model").as_posix()


@pytest.fixture
def capsys(capsys):
    """Return `capsys`; paths have slashes, also where Windows prints backslashes."""

    def readouterr():
        out, err = map(with_slashes, capsys.readouterr())
        return types.SimpleNamespace(out=out, err=err)

    return types.SimpleNamespace(readouterr=readouterr)


def with_slashes(text):
    return text if os.sep == "/" else re.sub(r"\\{1,2}", "/", text)


def test_inspect_describes_without_building():
    found = inspect_model(MODEL)
    assert found.format == "SavedModel"
    assert found.written_by == "TensorFlow 2.4.4"
    assert (found.class_name, found.name) == ("Functional", "conv_fixed")
    assert (found.policy, found.becomes_policy) == ("mixed_float16", "mixed_float16")
    assert found.loss_scale == keras_policies.FixedLossScale(128.0)
    assert not found.keeps_loss_scale
    assert (found.optimizer, found.iterations, found.slots) == ("Adam", 5, 16)
    assert found.parameters == 684
    assert found.missing == ()
    conv = found.layers[1]
    assert (conv.path, conv.class_name, conv.becomes) == ("conv_a", "Conv2D", "Conv2D")
    assert (conv.compute_dtype, conv.variable_dtype) == ("float16", "float32")
    assert (conv.parameters, conv.loss_scale) == (168, found.loss_scale)
    with pytest.raises(AttributeError):
        found.policy = "float32"


def test_inspect_names_the_layers_of_nested_models():
    path = legacy_files.CORPUS / "2.1.4" / "nested_model" / "model.h5"
    paths = [layer.path for layer in inspect_model(path).layers]
    assert paths[:3] == ["features", "inner", "inner/inner_1"]


def test_inspect_says_that_tf_2_0_recorded_no_policy(capsys):
    path = legacy_files.CORPUS / "2.0.0" / "seq_dense" / "model.h5"
    assert main(["inspect", str(path)]) == 0
    assert "policy: not recorded" in capsys.readouterr().out


def test_inspect_prints_a_table(capsys):
    assert main(["inspect", MODEL]) == 0
    printed = capsys.readouterr().out
    for text in (
        "SavedModel, TensorFlow 2.4.4",
        "loss scale: fixed, 128 (not kept: it is part of the policy)",
        "bn_a",
        "BatchNormalization",
        "float16, float32",
        "168",
    ):
        assert text in printed


def test_names_are_no_markup(tmp_path, capsys):
    path = shutil.copy(MORE / "2.4.4/amsgrad/model.h5", tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["name"] = "a[/b]"
        config["config"]["layers"][0]["name"] = "blk[red]"
        config["config"]["layers"][0]["config"]["name"] = "blk[red]"
        config["config"]["layers"][1]["inbound_nodes"][0][0][0] = "blk[red]"
        config["config"]["input_layers"][0][0] = "blk[red]"
        file.attrs["model_config"] = json.dumps(config)
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "a[/b]" in printed
    assert "blk[red]" in printed


def test_a_description_is_printed_as_a_table(capsys):
    found = inspect_model(MODEL)
    assert main(["inspect", MODEL]) == 0
    assert f"{found}\n" == capsys.readouterr().out
    assert repr(found).startswith("ModelDescription(path=")


def test_a_notebook_shows_a_description_without_the_tags_in_its_names():
    found = inspect_model(MODEL)
    html = dataclasses.replace(found, name="<script>", policy="<b>")._repr_html_()
    assert "<tr><td>conv_a</td><td>Conv2D</td><td>mixed_float16</td>" in html
    assert "policy: &lt;b&gt;, becomes mixed_float16<br>" in html
    assert "<script>" not in html


def test_inspect_as_json(capsys):
    assert main(["inspect", MODEL, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["layers"][1]["policy"] == "mixed_float16"
    assert found["loss_scale"] == "FixedLossScale(128.0)"
    assert found["layers"][1]["loss_scale"] == "FixedLossScale(128.0)"
    described = json.loads(json.dumps(inspect_model(MODEL).as_dict()))
    assert found == {"status": "opens", "error": None, "code": None, **described}


def test_inspect_ends_with_3_if_a_class_is_missing(capsys):
    path = MORE / "2.4.4" / "custom_layer" / "model.h5"
    assert main(["inspect", str(path)]) == 3
    assert "missing: Scale" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_ends_with_1(tmp_path, capsys):
    for command in ["inspect"], ["convert"]:
        rest = [str(tmp_path / "x.keras")] if command == ["convert"] else []
        assert main([*command, str(tmp_path / "nothing"), *rest]) == 1
        printed = capsys.readouterr()
        assert "keras-policies: " in printed.err
        assert "there is no such file or folder" in printed.err


def test_convert_writes_a_file_for_stock_keras(tmp_path, capsys):
    new = tmp_path / "new.keras"
    recorded = str(SOURCE / "expected.npz")
    assert main(["convert", MODEL, str(new), "--verify", recorded]) == 0
    printed = capsys.readouterr().out
    assert "verified: largest difference 0.000" in printed
    assert re.search(r"difference 0\.000\d+, allowed 0\.00\d+, from ", printed)
    assert f"written: {new.as_posix()}" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["new.keras"]
    code = (
        "import sys, keras; model = keras.models.load_model(sys.argv[1]);"
        "assert 'keras_policies' not in sys.modules;"
        "print(model.optimizer.iterations.numpy() if hasattr("
        "model.optimizer.iterations, 'numpy') else model.optimizer.iterations)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(new)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "5" in done.stdout


def test_a_model_is_converted_under_the_names_that_it_has_alone(tmp_path):
    source = legacy_files.CORPUS / "2.0.0" / "seq_dense" / "model.h5"
    number = int(keras.layers.InputLayer((1,)).name.partition("input_layer_")[2] or 0)
    configs = []
    for name in "a.keras", "b.keras":
        convert_model(source, tmp_path / name, plain=False)
        with zipfile.ZipFile(tmp_path / name) as archive:
            configs.append(archive.read("config.json").decode())
    assert configs[0] == configs[1]  # also the name of the optimizer
    # The user's own names go on.
    assert keras.layers.InputLayer((1,)).name == f"input_layer_{number + 1}"


def test_convert_replaces_only_what_it_is_told_to(tmp_path, capsys):
    new = tmp_path / "new.keras"
    new.write_text("precious")
    assert main(["convert", MODEL, str(new)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert new.read_text("utf8") == "precious"
    assert main(["convert", MODEL, str(new), "--overwrite"]) == 0
    assert keras.models.load_model(new, compile=False).name == "conv_fixed"


def test_convert_leaves_nothing_if_the_outputs_differ(tmp_path, capsys):
    stored = dict(np.load(SOURCE / "expected.npz"))
    other = tmp_path / "other.npz"
    np.savez(other, x_0=stored["x_0"], y_0=stored["y_0"] + 0.1)
    new = tmp_path / "new.keras"
    assert main(["convert", MODEL, str(new), "--verify", str(other)]) == 1
    printed = capsys.readouterr().err
    assert "recorded ones: the largest difference is 0.1, allowed 0.0" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["other.npz"]


def test_convert_leaves_nothing_if_saving_fails(tmp_path, monkeypatch):
    def fail(self, path, **options):
        with open(path, "w") as file:
            file.write("half of it")
        raise OSError("disk full")

    monkeypatch.setattr(keras.Model, "save", fail)
    with pytest.raises(LegacyModelError, match="cannot be written: disk full"):
        convert_model(MODEL, tmp_path / "new.keras")
    assert list(tmp_path.iterdir()) == []


def test_convert_under_another_policy_and_with_custom_objects(tmp_path, monkeypatch):
    new = tmp_path / "new.keras"
    assert main(["convert", MODEL, str(new), "--policy", "float32"]) == 0
    model = keras.models.load_model(new, compile=False)
    assert {layer.dtype_policy.name for layer in model.layers} == {"float32"}
    source = str(MORE / "2.4.4" / "custom_layer" / "model.h5")
    custom = ["--custom-objects", "legacy_files:Scale"]
    assert main(["convert", source, str(tmp_path / "custom.keras"), *custom]) == 0


def test_convert_refuses_lost_classes_and_takes_a_signature(tmp_path, capsys):
    lost = str(MORE / "2.4.4" / "custom_layer" / "saved_model")
    new = str(tmp_path / "new.keras")
    assert main(["convert", lost, new, "--lost", "refuse"]) == 1
    assert "--custom-objects Scale=MODULE:NAME" in capsys.readouterr().err
    with pytest.raises(LegacyModelError, match="classes that Keras 3 does not have"):
        convert_model(lost, new, lost="refuse")
    with pytest.raises(LegacyModelError, match="'nothing'"):
        convert_model(MODEL, new, signature="nothing")
    assert main(["convert", MODEL, new, "--signature", "serving_default"]) == 0
    assert "the model itself is rebuilt from its traced f" in capsys.readouterr().out


LOST = MORE / "2.4.4" / "custom_layer" / "saved_model"
MODULE = legacy_files.CORPUS / "2.4.4" / "no_metadata" / "saved_model"
NAMED = legacy_files.FOLDER.parent / "hostile" / "module_in_a_call" / "model.h5"


def test_an_error_or_a_note_about_a_class_names_the_option(tmp_path, capsys):
    new = str(tmp_path / "new.keras")
    assert main(["convert", str(LOST), new]) == 0
    told = capsys.readouterr().out
    assert "To use a class, pass --custom-objects Scale=MODULE:NAME.\n" in told
    assert main(["convert", str(NAMED), f"{new}.keras"]) == 1
    told = capsys.readouterr().err
    assert "Pass it: --custom-objects payload=MODULE:NAME. A class dec" in told
    with pytest.warns(UserWarning, match=r"pass custom_objects=\{'Scale': \.\.\.\}\.$"):
        keras_policies.load_model(LOST)
    with pytest.raises(LegacyModelError, match=r"custom_objects=\{'payload': \.\.\.\}"):
        keras_policies.load_model(NAMED)


def test_a_model_that_had_no_class_asks_for_none(tmp_path):
    parts = convert_model(MODULE, tmp_path / "new.keras").parts
    assert parts[-1].endswith("in inference, their mean is used.")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["new.h5"], "the destination must end in .keras"),
        (["nowhere/new.keras"], "there is no folder 'nowhere'"),
        (["new.keras", "--policy", "float99"], "float99"),
        (["new.keras", "--custom-objects", "Scale"], "expected module:name"),
        (["new.keras", "--custom-objects", "a=Scale"], "or layer=module:name"),
        (["new.keras", "--custom-objects", "no_module:Scale"], "No module named"),
        (["new.keras", "--custom-objects", "broken:Scale"], "ZeroDivisionError"),
        (
            ["new.keras", "--custom-objects", "math:pi"],
            "expected a class or a function",
        ),
        (["new.keras", "--verify", "none.npz"], "no recorded outputs 'none.npz'"),
        (["new.keras", "--base", "."], "--base needs --output-dir"),
    ],
)
def test_a_wrong_argument_names_itself(
    tmp_path, monkeypatch, capsys, arguments, reason
):
    elsewhere = tmp_path / "modules"
    elsewhere.mkdir()
    (elsewhere / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(elsewhere)
    tmp_path = tmp_path / "work"
    tmp_path.mkdir()
    monkeypatch.chdir(tmp_path)
    cannot_be_read = "nowhere/new.keras", "none.npz"
    code = 1 if arguments[-1] in cannot_be_read else 2
    assert main(["convert", MODEL, *arguments]) == code
    assert reason in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_wrong_command_line_ends_with_2(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["transmute"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "keras-policies convert model_of_2020 model.keras" in capsys.readouterr().out


@pytest.mark.once("a process of its own, or no backend at all")
@pytest.mark.parametrize("module", ["keras_policies", "keras_policies_cli"])
def test_the_module_is_the_command(module):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, "inspect", MODEL],
        capture_output=True,
        text=True,
        cwd=os.path.dirname(os.path.dirname(keras_policies.__file__)),
    )
    assert done.returncode == 0
    assert "conv_fixed" in done.stdout


PACKAGE = os.path.dirname(os.path.dirname(keras_policies.__file__))


def run_command(*arguments, cwd=PACKAGE, **environment):
    """Run the command line in a process; return what it printed, and its imports."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "keras_policies_cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": PACKAGE} | environment,
    )
    lines = [line for line in process.stderr.splitlines() if "import time:" in line]
    return process, {line.rpartition("|")[2].strip() for line in lines}


HEAVY = {"keras", "jax", "tensorflow", "torch", "matplotlib", "sklearn"}
H5 = str(SOURCE / "model.h5")


@pytest.mark.once("a process of its own, or no backend at all")
@pytest.mark.parametrize(
    ("arguments", "not_needed"),
    [
        (["--help"], {"numpy", "h5py", "rich", "google.protobuf"}),
        (["--version"], {"numpy", "h5py", "rich", "google.protobuf"}),
        (["explain", "KP101"], {"numpy", "h5py", "rich", "google.protobuf"}),
        (["inspect", MODEL], {"h5py", "multiprocessing"}),
        (["inspect", H5], {"google.protobuf", "multiprocessing"}),
        (["inspect", str(SOURCE), "--json"], {"rich"}),
        (["convert", MODEL, "no_ending"], {"numpy.testing"}),
    ],
    ids=["help", "version", "explain", "saved-model", "h5", "many", "wrong"],
)
def test_what_takes_seconds_is_not_imported_to_look(arguments, not_needed):
    process, imported = run_command(*arguments, KERAS_BACKEND="not_installed")
    assert "keras_policies.cli.main" in imported
    assert imported & (HEAVY | not_needed) == set()
    assert process.returncode == (2 if arguments[0] == "convert" else 0)


def unpacked_models():
    """Return every legacy model of two folders."""
    found = []
    for folder in (legacy_files.CORPUS, MORE):
        found += folders.models([str(folder)], recursive=True)
    return found


@pytest.mark.once("a process of its own, or no backend at all")
def test_descriptions_made_without_keras_are_those_made_with_it():
    paths = unpacked_models()
    process, imported = run_command("inspect", "--json", *paths)
    assert "keras" not in imported
    found = [json.loads(line) for line in process.stdout.splitlines()]
    given = [tasks.Inspection(path) for path in paths]
    context = contextvars.copy_context()
    context.run(hints.name_options)
    results = context.run(many.run, given, 1, "Inspecting")
    with_keras = [result.as_dict() for result in results]
    assert len(paths) > 50
    for each in with_keras:  # Keras 3.8 takes no layers as activations, as it finds out
        parts = each["parts"]
        each["parts"] = parts and [p for p in parts if p["code"] != "KP611"]
    assert found == json.loads(json.dumps(with_keras))


@pytest.mark.slow("it chooses jax, which has to be there")
@pytest.mark.once("a process of its own, or no backend at all")
@pytest.mark.parametrize(
    "command",
    [["convert", MODEL, "new.keras"], ["code", MODEL, "-o", "new.py"]],
    ids=["convert", "code"],
)
def test_a_process_that_can_choose_takes_the_lightest_backend(command, tmp_path):
    process, imported = run_command(*command, cwd=tmp_path, KERAS_BACKEND="")
    assert process.returncode == 0
    assert "backend: jax (--backend chooses another)" in process.stderr
    # Saving and serializing would import TensorFlow, to ask whether it is needed.
    assert imported & {"jax", "tensorflow", "torch"} == {"jax"}
    assert (tmp_path / command[-1]).exists()


@pytest.mark.once("a process of its own, or no backend at all")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_unknown_backend_has_a_remedy(tmp_path, jobs):
    for name in "ab":
        shutil.copy(H5, tmp_path / f"{name}.h5")
    command = "convert", str(tmp_path), "--output-dir", "new", "--jobs", jobs
    process, _ = run_command(*command, cwd=tmp_path, KERAS_BACKEND="nosuch")
    assert process.returncode == 2
    (error,) = re.findall("^keras-policies: .*", process.stderr, re.MULTILINE)
    assert error.endswith(
        "Set KERAS_BACKEND to jax, torch or tensorflow, or pass --backend."
    )


def test_a_backend_that_is_not_installed_is_named_once(zoo, capsys, monkeypatch):
    def missing():
        reason = "Keras is set to the backend 'torch', which is not installed."
        raise commands.NotInstalledError(reason)

    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setattr(startup, "is_installed", lambda name: name != "torch")
    monkeypatch.setattr(commands, "_import_keras", missing)
    convert = "convert", "zoo", "--recursive", "--output-dir", "new", "--jobs", "2"
    assert main(convert) == 1
    expected = "Keras is set to the backend 'torch', which is not installed."
    assert capsys.readouterr().err == f"keras-policies: KP004: {expected}\n"


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """Be above a folder of models: two that open, a lost one, a new one, a bad one."""
    monkeypatch.chdir(tmp_path)
    zoo = tmp_path / "zoo"
    shutil.copytree(SOURCE, zoo / "a")
    shutil.copy(MORE / "2.4.4/custom_layer/model.h5", zoo / "b.h5")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(zoo / "new.keras")
    (zoo / "bad.h5").write_bytes(b"")
    return zoo


INSPECTED = """\
model in zoo   written by     policy         parameters  result
───────────────────────────────────────────────────────────────────────────
b.h5           TF 2.3 or 2.4  -                      14  opens if …
bad.h5                                                   failed
new.keras                                                Keras 3
a/model.h5     TF 2.3 or 2.4  mixed_float16         684  complete
a/saved_model  TF 2.4.4       mixed_float16         684  complete
2  complete    KP620  Nothing has to be done.
1  opens if …         Do what the error says.
1  Keras 3     KP103  There is nothing to convert.
1  failed             Read the errors.
"""


def without_ends(text):
    """Return a text without the spaces at the ends of its lines."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


@pytest.mark.parametrize("columns", [80, 120])
def test_inspect_lists_a_folder_with_a_line_for_each_model(
    zoo, capsys, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["inspect", "--recursive", "zoo"]) == 1
    printed = capsys.readouterr()
    assert without_ends(printed.out) == INSPECTED
    assert "keras-policies: KP102: zoo/bad.h5: no model: the file" in printed.err


CUT = {
    80: """\
model in zoo        written by     policy         parameters  result
────────────────────────────────────────────────────────────────────────────────
a/model.h5          TF 2.3 or 2.4  mixed_float16         684  complete
networ…_f/model.h5  TF 2.3 or 2.4  mixed_float16         684  complete
2  complete  KP620  Nothing has to be done.
""",
    120: """\
model in zoo                                                written by     policy         parameters  result
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
a/model.h5                                                  TF 2.3 or 2.4  mixed_float16         684  complete
networks of the year 2…xed.precision.large.tiny_f/model.h5  TF 2.3 or 2.4  mixed_float16         684  complete
2  complete  KP620  Nothing has to be done.
""",  # noqa: E501
}


@pytest.mark.parametrize("columns", [80, 120])
def test_paths_are_cut_in_their_middle(zoo, capsys, monkeypatch, columns):
    deep = zoo / "networks of the year 2020/mixed.precision.large.tiny_f"
    shutil.copytree(SOURCE, deep, ignore=shutil.ignore_patterns("saved_model"))
    for other in [*zoo.glob("*.*"), zoo / "a/saved_model"]:
        (shutil.rmtree if other.is_dir() else os.remove)(other)
    free = terminal.console().legacy_windows  # rich leaves one column free there
    monkeypatch.setenv("COLUMNS", str(columns + free))
    assert main(["inspect", "--recursive", "zoo"]) == 0
    assert without_ends(capsys.readouterr().out) == CUT[columns]


COUNTED = """
1  complete  KP620  Nothing has to be done.
1  rebuilt   KP621  Use it as it is, or pass the classes (`--custom-objects`) to have them in the model.
1  skipped          The new file exists.
1  Keras 3   KP103  There is nothing to convert.
2  failed           Read the errors.
"""  # noqa: E501
CONVERTED = """\
model in zoo   result
─────────────────────────────────
bad.h5         failed
a/saved_model  skipped
b.h5           failed
lost           rebuilt
new.keras      Keras 3
a/model.h5     complete
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_convert_goes_on_past_a_model_that_fails(zoo, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    shutil.copytree(MORE / "2.4.4/custom_layer/saved_model", zoo / "lost")
    (zoo.parent / "new" / "a").mkdir(parents=True)
    (zoo.parent / "new" / "a" / "saved_model.keras").write_text("precious")
    command = ["convert", "--recursive", "zoo", "--output-dir", "new"]
    assert main([*command, "--jobs", "1", "--skip-existing", "--quiet"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "zoo/b.h5: classes that Keras 3 does not have:\n  Scale" in printed.err
    for name in "a/model", "lost":
        os.remove(f"new/{name}.keras")
    command += ["--jobs", "1", "--policy", "float32", "--skip-existing"]
    assert main(command) == 1
    printed = capsys.readouterr()
    table, rebuilt, total = without_ends(printed.out).partition("zoo/lost: rebuilt: ")
    assert table == CONVERTED
    assert rebuilt
    assert total.endswith(COUNTED)
    assert (zoo.parent / "new/a/saved_model.keras").read_text("utf8") == "precious"
    model = keras.models.load_model("new/a/model.keras", compile=False)
    assert model.dtype_policy.name == "float32"


def test_files_that_exist_are_named_once_with_the_option_that_skips_them(zoo, capsys):
    (zoo.parent / "new/a").mkdir(parents=True)
    for name in "a/model.keras", "b.keras":
        (zoo.parent / "new" / name).touch()
    command = ["convert", "zoo/a/model.h5", "zoo/b.h5", "--output-dir", "new"]
    assert main([*command, "--base", "zoo"]) == 1
    assert capsys.readouterr().err == (
        "keras-policies: KP108: new/a/model.keras and 1 more: it already exists. "
        "--skip-existing converts the others; --overwrite replaces it.\n"
    )
    assert main([*command, "--base", "zoo", "--skip-existing"]) == 0
    assert capsys.readouterr().out.endswith("2  skipped    The new file exists.\n")


def test_a_line_is_printed_as_soon_as_a_model_is_ready(zoo, capsys, monkeypatch):
    printed = []

    def run(task):
        printed.append(capsys.readouterr().out)
        return tasks.Result(task.path, tasks.OPENS, dict.fromkeys(task.KEYS))

    monkeypatch.setattr(tasks.Inspection, "run", run)
    assert main(["inspect", "zoo/b.h5", "zoo/bad.h5", "zoo/new.keras", "--json"]) == 0
    assert printed[0] == ""
    paths = [json.loads(text)["path"] for text in printed[1:]]
    assert paths == ["zoo/b.h5", "zoo/bad.h5"]
    printed.clear()
    assert main(["inspect", "zoo/b.h5", "zoo/bad.h5"]) == 0
    assert "b.h5" in printed[1]
    left = capsys.readouterr().out
    assert left.startswith("bad.h5 ")
    assert re.search(r" opens\n2  opens\n$", left)


def test_ctrl_c_reports_what_was_done(zoo, capsys, monkeypatch):
    def run(task):
        if task.path == "zoo/bad.h5":
            raise KeyboardInterrupt
        return tasks.Result(task.path, tasks.OPENS, dict.fromkeys(task.KEYS))

    monkeypatch.setattr(tasks.Inspection, "run", run)
    assert main(["inspect", "zoo/b.h5", "zoo/bad.h5", "zoo/new.keras"]) == 130
    printed = capsys.readouterr()
    assert re.search(r"\n1  opens\n2  not tried\n$", printed.out)
    assert printed.err == "keras-policies: interrupted\n"


def test_a_note_about_many_models_is_printed_once(zoo, capsys):
    shutil.copy("zoo/b.h5", "zoo/c.h5")
    assert main(["inspect", "zoo/b.h5", "zoo/c.h5"]) == 3
    printed = capsys.readouterr()
    assert "KP301: zoo/b.h5 and 1 more: classes that Keras 3 does not" in printed.err
    assert printed.out.splitlines()[-1].startswith("2  opens if …")


def test_strict_ends_with_3_if_something_is_lost(zoo, capsys):
    rebuilt = str(zoo / "rebuilt")
    shutil.copytree(MORE / "2.4.4/custom_layer/saved_model", rebuilt)
    whole, lost = str(zoo / "a" / "model.h5"), str(zoo / "lost.h5")
    shutil.copy(MORE / "2.4.4/amsgrad/model.h5", lost)
    with h5py.File(lost, "r+") as file:
        written = json.loads(file.attrs["training_config"])
        file.attrs["training_config"] = json.dumps(written | {"loss": "my_loss"})
    assert main(["convert", lost, "lost.keras", "--strict"]) == 3
    assert main(["convert", lost, "lost.keras", "--overwrite"]) == 0
    capsys.readouterr()
    output = ["--output-dir", "new", "--strict", "--jobs", "1"]
    assert main(["convert", rebuilt, whole, *output]) == 0
    counts = "1  complete  KP620  Nothing has to be done.\n1  rebuilt   KP621  Use"
    assert counts in capsys.readouterr().out
    assert main(["convert", lost, *output]) == 3
    assert "lost: KP602: losses: 'my_loss', pass --custom" in capsys.readouterr().out


def test_a_dry_run_says_where_to_and_writes_nothing(zoo, capsys):
    before = sorted(zoo.parent.rglob("*"))
    command = ["convert", "--recursive", "zoo", "--output-dir", "new", "--dry-run"]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "a/model.h5     new/a/model.keras        would convert" in printed.out
    assert "zoo/b.h5: classes that Keras 3 does not have:\n  Scale (la" in printed.err
    assert re.search(r"\n2  would convert\n1  Keras 3 .*\n2  failed", printed.out)
    given = "--custom-objects", "Scale=legacy_files:Scale"
    assert main(["convert", "zoo/b.h5", "b.keras", "--dry-run", *given]) == 0
    assert main(["convert", MODEL, "zoo/new.keras", "--dry-run"]) == 1
    assert sorted(zoo.parent.rglob("*")) == before


def test_base_decides_where_a_model_is_written_whatever_else_is(zoo):
    command = ["convert", "zoo/a/model.h5", "--output-dir", "new", "--jobs", "1"]
    assert main([*command, "--base", "zoo"]) == 0
    assert (zoo.parent / "new/a/model.keras").is_file()
    assert main([*command, "--base", "new"]) == 2


def test_verify_compares_a_file_or_a_folder(zoo, capsys, monkeypatch):
    recorded = str(SOURCE / "expected.npz")
    assert main(["convert", MODEL, "new.keras"]) == 0
    for model in "new.keras", MODEL:
        assert main(["verify", model, recorded]) == 0
        assert re.search(r" 0\.00\d+ +0\.00\d+  verified", capsys.readouterr().out)
    os.makedirs("recorded/a")
    shutil.copy(recorded, "recorded/a/saved_model.npz")
    stored = dict(np.load(recorded))
    np.savez("recorded/a/model.npz", x_0=stored["x_0"], y_0=stored["y_0"] + 0.1)
    command = ["verify", "--recursive", "zoo", "recorded", "--jobs", "1", "--json"]
    assert main(command) == 1
    printed = capsys.readouterr()
    rows = {row["path"]: row for row in map(json.loads, printed.out.splitlines())}
    assert [row["status"] for row in rows.values()] == [
        *("not_recorded", "failed", "not_recorded", "failed", "verified")
    ]
    assert len({tuple(row) for row in rows.values()}) == 1
    assert "recorded ones: the largest difference is 0.1" in printed.err
    assert "zoo/b.h5: there are no recorded outputs 'recorded/b.npz'" in printed.err


def documented_keys(command):
    """Return the keys of a command's rows by the table in the documentation."""
    page = (pathlib.Path(__file__).parents[2] / "docs/command-line.md").read_text(
        "utf8"
    )
    section = page.split("## JSON\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE)
    return [key for key, commands in rows if commands == "all" or command in commands]


def test_json_has_the_same_keys_whatever_happened(zoo, capsys):
    convert = ["convert", "--recursive", "zoo", "--output-dir", "new", "--jobs", "1"]
    statuses = {}
    for command in ["inspect", "--recursive", "zoo"], convert:
        assert main([*command, "--json"]) == 1
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {tuple(row) for row in rows} == {tuple(documented_keys(command[0]))}
        statuses[command[0]] = [row["status"] for row in rows]
        assert [row["error"] is None for row in rows] == [
            row["status"] in ("opens", "converted") for row in rows
        ]
    assert statuses == {
        "inspect": ["opens_if", "failed", "keras_3", "opens", "opens"],
        "convert": ["failed", "failed", "keras_3", "converted", "converted"],
    }
    for command in ["inspect", "none.h5"], ["convert", "none.h5", "none.keras"]:
        assert main([*command, "--json"]) == 1
        (line,) = capsys.readouterr().out.splitlines()
        assert list(json.loads(line)) == documented_keys(command[0])
    assert list(tasks.Verification.KEYS) == documented_keys("verify")[4:]


def test_a_folder_of_folders_asks_for_recursive(zoo, capsys):
    shutil.move(zoo, zoo.parent / "deep" / "zoo")
    assert main(["inspect", "deep"]) == 2
    problem = "deep: no model directly in it; 5 below. Add --recursive."
    assert problem in capsys.readouterr().err


@pytest.mark.once("a process of its own, or no backend at all")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(["none.h5", "x.keras"], "there is no such file", id="source"),
        pytest.param([MODEL, "zoo/new.keras"], "it already exists", id="destination"),
        pytest.param(
            [MODEL, "--output-dir", "zoo/b.h5"],
            "--output-dir 'zoo/b.h5': expected a folder, found a file",
            id="output-dir-is-a-file",
        ),
        pytest.param(
            [MODEL, "--output-dir", "zoo/b.h5/new"],
            "'zoo/b.h5' is a file, not a folder",
            id="output-dir-in-a-file",
        ),
        pytest.param(["zoo/bad.h5", "x.keras"], "has zero bytes", id="empty-file"),
    ],
)
def test_what_can_be_known_is_told_before_keras_is_imported(zoo, arguments, reason):
    process, imported = run_command("convert", *arguments, cwd=zoo.parent)
    assert process.returncode in (1, 2)
    assert reason in with_slashes(process.stderr)
    assert process.stdout == ""
    assert "keras" not in imported
    assert "Traceback" not in process.stderr


def test_a_parent_that_may_not_be_written_to_is_named(unprivileged, capsys):
    unprivileged.chmod(0o500)
    model, locked = f"{unprivileged.parent}/model.h5", unprivileged / "new"
    assert main(["convert", model, "--output-dir", str(locked)]) == 1
    assert main(["convert", model, f"{unprivileged}/new.keras"]) == 1
    errors = capsys.readouterr().err.splitlines()
    problem = f"the folder '{unprivileged}' is not writable: Permission denied."
    assert [line.endswith(problem) for line in errors] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a.h5"], "convert takes a SOURCE and a DEST.keras, received ['a.h5']"),
        (["a.h5", "b.h5", "c.h5"], "--output-dir DIR to convert any"),
        (["a.h5", "--output-dir", "d", "--verify", "x.npz"], "--verify is for one"),
        (["a.h5", "--output-dir", "d", "--jobs", "0"], "--jobs 0: expected 1 or more"),
        (["a.h5", "--output-dir", "d", "--custom-objects", "S"], "module:name"),
    ],
)
def test_what_convert_cannot_do_with_many_is_said(arguments, reason, capsys):
    assert main(["convert", *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_the_command_says_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == keras_policies.__version__


def test_custom_objects_do_not_swallow_paths_and_take_names_of_layers(tmp_path):
    source = str(MORE / "2.4.4" / "custom_layer" / "model.h5")
    custom = "--custom-objects", "Scale=legacy_files:Scale"
    assert main(["convert", *custom, source, str(tmp_path / "new.keras")]) == 0


def test_inspect_says_that_a_subclassed_model_is_rebuilt(capsys):
    path = MORE / "2.4.4" / "subclassed" / "saved_model"
    assert main(["inspect", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the model itself is rebuilt from its traced function" in printed


def test_inspect_says_of_a_subclassed_model_that_its_layers_are_not_in_the_file(capsys):
    path = MORE / "2.15.1" / "subclassed" / "model.keras"
    assert main(["inspect", str(path)]) == 3
    assert "subclassed: its layers come from your code" in capsys.readouterr().out


def test_inspect_says_which_layers_need_tensorflow(capsys):
    lookups = legacy_files.folder("lookups")
    path = lookups / "2.15.1/TextVectorization-tf_idf/saved_model"
    is_there = importlib.util.find_spec("tensorflow") is not None
    assert main(["inspect", str(path)]) == (0 if is_there else 3)
    printed = capsys.readouterr().out
    assert "need TensorFlow, on any backend" in printed
    assert "pip install tensorflow" in printed
