"""Codes, colors, widths, and what the command line says about errors."""

import io
import json
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import types

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies._common import terminal
from keras_policies.cli.main import main
from keras_policies.legacy import descriptions
from keras_policies.legacy.base.codes import CODES
from keras_policies.legacy.base.outcomes import LeftOut, left_out

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
MODEL, H5 = str(SOURCE / "saved_model"), str(SOURCE / "model.h5")
SEQUENTIAL = str(legacy_files.CORPUS / "2.4.4" / "seq_dense_bf16" / "model.h5")
CUSTOM = legacy_files.folder("more") / "2.4.4" / "custom_layer"
HOSTILE = {*map(str, (legacy_files.FOLDER.parent / "hostile").glob("*/*"))}
pytestmark = pytest.mark.once("the command says the same on every backend")


def test_every_code_is_a_row_of_the_page_and_is_used():
    page = (ROOT / "docs/troubleshooting.md").read_text("utf8")
    rows = re.findall(r'^\| <a id="kp\d{3}"></a>KP\d{3} .*$', page, re.MULTILINE)
    assert rows == [
        f'| <a id="{name.lower()}"></a>{name} | {" | ".join(code)} |'
        for name, code in CODES.items()
    ]
    package = pathlib.Path(keras_policies.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.name != "codes.py"]
    texts = [path.read_text("utf8") for path in sources]
    used = {name for text in texts for name in re.findall(r'"(KP\d+)"', text)}
    assert used == {*CODES}


def test_explain_prints_a_code_or_all(capsys):
    assert main(["explain", "kp101"]) == 0
    code = CODES["KP101"]
    expected = f"KP101: {code.title}\n  {code.meaning}\n  {code.remedy}\n"
    assert capsys.readouterr().out == expected
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CODES)
    assert main(["explain", "KP999"]) == 2
    capsys.readouterr()
    assert main(["explain", "kp301", "KP999"]) == 2  # what is known is said
    said = capsys.readouterr()
    assert "KP301: Classes or functions are missing" in said.out
    assert "KP001: there is no code 'KP999'. Did you mean" in said.err


@pytest.mark.parametrize("path", sorted(HOSTILE), ids=lambda path: path[-40:])
def test_every_hostile_file_has_a_code(path, capsys):
    main(["inspect", path, "--json"])
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        assert row["code"] in (CODES if row["error"] else [None])
        assert row["code"] != "KP002", row["error"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["inspect", "none.h5"], "KP101"),
        (["inspect", "empty.h5"], "KP102"),
        (["inspect", "cut.h5"], "KP105"),
        (["inspect", "new.keras"], "KP103"),
        (["convert", H5, "new.keras"], "KP108"),
        (["convert", MODEL, "model.keras", "--signature", "other"], "KP109"),
        (["convert", str(CUSTOM / "model.h5"), "model.keras"], "KP301"),
        (["verify", H5, "none.npz"], "KP503"),
        (["verify", H5, "other.npz"], "KP502"),
        (["verify", H5, "unfit.npz"], "KP503"),
        (["verify", H5, "unfit.npz", "--no-plain"], "KP503"),
        (["convert", H5, "model.keras", "--verify", "unfit.npz"], "KP503"),
        (["convert", H5, "model.h5"], "KP001"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_error_has_the_code_of_its_kind(
    arguments, code, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("empty.h5").touch()
    pathlib.Path("cut.h5").write_bytes((SOURCE / "model.h5").read_bytes()[:3000])
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save("new.keras")
    stored = dict(np.load(SOURCE / "expected.npz"))
    np.savez("other.npz", x_0=stored["x_0"], y_0=stored["y_0"] + 0.1)
    np.savez("unfit.npz", x_0=stored["x_0"][..., :1], y_0=stored["y_0"])
    assert main(arguments) == (2 if code == "KP001" else 1)
    assert re.match(f"keras-policies: {code}: ", capsys.readouterr().err)


def test_parts_left_out_have_codes(tmp_path, capsys):
    source, new = str(CUSTOM / "saved_model"), str(tmp_path / "new.keras")
    assert main(["convert", source, new]) == 0
    assert "\nrebuilt: KP609: " in capsys.readouterr().out
    assert main(["convert", source, new, "--overwrite", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["outcome"] == "rebuilt"
    assert [part["code"] for part in row["parts"]] == ["KP609"]
    parts = [*left_out("KP601", ["a", LeftOut("b", "KP602")])]
    restored = pickle.loads(pickle.dumps(parts))
    assert restored == ["a", "b"]
    assert [part.code for part in restored] == ["KP601", "KP602"]


def test_files_that_fail_alike_are_one_line(tmp_path, capsys):
    for name in "abc":
        shutil.copy(H5, tmp_path / f"{name}.h5")
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / f"{name}.keras").touch()
    output = str(tmp_path / "new")
    assert main(["convert", str(tmp_path), "--output-dir", output]) == 1
    problem = "it already exists. --skip-existing converts the others; --overwrite "
    problem += "replaces it."
    first = tmp_path / "new" / "a.keras"
    error = f"keras-policies: KP108: {first} and 2 more: {problem}\n"
    assert capsys.readouterr().err == error


def test_python_and_the_shell_have_a_remedy_each(tmp_path, capsys):
    new = tmp_path / "new.keras"
    new.touch()
    with pytest.raises(keras_policies.LegacyModelError) as raised:
        keras_policies.convert_model(MODEL, new)
    assert raised.value.code == "KP108"
    assert raised.value.hint == "Choose another name, or pass overwrite=True."
    assert main(["convert", MODEL, str(new)]) == 1
    assert "overwrite=True" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mixed_flot16", "Did you mean 'mixed_float16'?"),
        ("bfloat", "Did you mean 'bfloat16'?"),
        ("x", "no such policy. Policies are mixed_float16, mixed_bfloat16"),
    ],
)
@pytest.mark.parametrize("command", ["convert", "diff", "code"])
def test_a_wrong_policy_names_the_option_and_the_nearest_one(
    command, name, told, capsys
):
    paths = {"convert": [H5, "x.keras"], "diff": [H5, H5], "code": [H5]}[command]
    assert main([command, *paths, "--policy", name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"keras-policies: KP001: --policy '{name}': ")
    assert told in error


@pytest.mark.parametrize("when", ["auto", "always", "never"])
def test_colors_are_as_asked_for_and_failed_rows_stand_out(
    when, tmp_path, monkeypatch, capsys
):
    for name in "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shutil.copy(H5, tmp_path / "a.h5")
    (tmp_path / "bad.h5").touch()
    command = ["inspect", str(tmp_path), "--color", when]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert ("\x1b[" in printed.out) == ("\x1b[" in printed.err) == (when == "always")
    if when == "always":
        (row,) = (line for line in printed.out.splitlines() if "bad.h5" in line)
        assert row.startswith("\x1b[1;31mbad.h5")
        assert "\x1b[32mcomplete" in printed.out
        monkeypatch.setenv("NO_COLOR", "1")
        assert main(command) == 1
        assert "31m" not in capsys.readouterr().out


NAMES = "layer_of_a_model_with_a_long_name", "GlobalAveragePooling2D", "CuDNNLSTM"


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_table_of_layers_fits_and_breaks_no_word(columns):
    values = {"loss_scale": None, "compute_dtype": "float16"}
    values |= {"variable_dtype": "float32", "policy": "mixed_bfloat16"}
    found = keras_policies.inspect_model(MODEL)
    changes = {"GlobalAveragePooling2D": "GlobalAveragePooling2D", "CuDNNLSTM": "LSTM"}
    changes |= {"Attention": "rebuilt from its traced function", "Mine": None}
    layers = [
        descriptions.LayerDescription(
            f"{NAMES[0]}/{NAMES[0]}/{number}",
            name,
            parameters=123_456_789,
            becomes=becomes,
            **values,
        )
        for number, (name, becomes) in enumerate(changes.items())
    ]
    model = types.SimpleNamespace(layers=layers, class_name="Functional", name="m")
    console = terminal.console(width=columns, file=io.StringIO())
    with console.capture() as captured:
        console.print(descriptions.layer_table(model, columns))
    text = captured.get()
    assert max(map(len, text.splitlines())) <= columns
    for word in (*NAMES[1:], "mixed_bfloat16", "float16,", "123,456,789", "function"):
        assert word in text.split()
    assert text.count("becomes") == 1
    assert found.layers[1].becomes == "Conv2D"


def test_one_release_has_one_name_in_each_format(capsys):
    for path in MODEL, H5:
        assert main(["inspect", path]) == 0
    first_lines = re.findall(r"^.*(?:SavedModel|H5), (.*)$", capsys.readouterr().out, 8)
    assert first_lines == ["TensorFlow 2.4.4", "TensorFlow 2.3 or 2.4"]


def test_verbose_prints_the_traceback_and_another_backend_is_refused(tmp_path, capsys):
    assert main(["inspect", "none.h5", "-v"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert main(["inspect", "none.h5", "-q"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    other = "jax" if keras.backend.backend() != "jax" else "torch"
    command = ["convert", H5, str(tmp_path / "new.keras"), "--backend", other]
    assert main(command) == 1
    assert f"--backend {other}: Keras already runs on" in capsys.readouterr().err


def test_a_message_of_jax_names_no_tracer():
    text = "input JitTracer(float32[8,12,12,3]) with name 'x'"
    error = keras_policies.legacy.assembly.explanations.explained("p", ValueError(text))
    assert error.reason == "p: ValueError: input float32[8,12,12,3] with name 'x'."


def test_a_shell_can_complete(monkeypatch):
    completed = []
    fake = types.SimpleNamespace(autocomplete=completed.append)
    monkeypatch.setitem(sys.modules, "argcomplete", fake)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main(["explain", "KP101"]) == 0
    assert [parser.prog for parser in completed] == ["keras-policies"]


@pytest.fixture
def models(tmp_path):
    """Return the paths of a model, a copy, and two that differ."""
    paths = [str(tmp_path / f"{name}.keras") for name in ("a", "b", "c", "d")]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="d")])
    for path in paths[:2]:
        model.save(path)
    model.layers[0].bias.assign([0.0, 0.5, 0.0])
    model.save(paths[2])
    wide = keras.layers.Dense(5, activation="relu", name="d")
    keras.Sequential([keras.Input((4,)), wide, keras.layers.ReLU(name="r")]).save(
        paths[3]
    )
    return paths


def test_diff_finds_what_differs(models, capsys):
    def found(new):
        code = main(["diff", models[0], new, "--json"])
        row = json.loads(capsys.readouterr().out)
        assert code == (0 if row["equal"] else 1)
        return row

    assert found(models[1])["layers"] == []
    other = found(models[2])
    assert [(row["layer"], row["weights"]) for row in other["layers"]] == [("d", 0.5)]
    assert other["outputs"] > 0.05
    wide = {row["layer"]: row for row in found(models[3])["layers"]}
    assert wide["d"]["weights"] is None
    assert wide["d"]["config"] == [
        'activation is "relu", was "linear"',
        "units is 5, was 3",
    ]
    assert wide["r"]["config"] == ["only in NEW"]
    assert main(["diff", models[0], models[2]]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^d +0\.5", printed, re.MULTILINE)
    assert printed.endswith("different: 1 layer\n")
    assert main(["diff", models[0], models[3]]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^d +other shapes +activation", printed, re.MULTILINE)
    assert re.search(r"^ +units is 5, was 3", printed, re.MULTILINE)
    assert "only in NEW: r\n" in printed


def test_diff_finds_a_nan_and_prints_json_of_results_alone(
    tmp_path, monkeypatch, capsys
):
    class Talking(keras.layers.Dense):
        def call(self, x):
            print("hello")
            return super().call(x)

    model = keras.Sequential([keras.Input((4,)), Talking(3, name="d")])
    for name, bias in ("old", 0.0), ("nan", float("nan")), ("inf", float("inf")):
        model.layers[0].bias.assign([0.0, bias, 0.0])
        model.save(tmp_path / f"{name}.keras")
    talking = types.SimpleNamespace(Talking=Talking)
    monkeypatch.setitem(sys.modules, "talking", talking)
    given = ["--custom-objects", "talking:Talking"]
    for name in "nan", "inf":
        new = str(tmp_path / f"{name}.keras")
        command = ["diff", str(tmp_path / "old.keras"), new, "--json", *given]
        assert main(command) == 1
        printed = capsys.readouterr()
        found = json.loads(printed.out, parse_constant=pytest.fail)
        (row,) = found["layers"]
        assert (row["layer"], row["weights"]) == ("d", name)
        assert "hello" in printed.err


def test_diff_of_unrelated_models_is_short(models, tmp_path, capsys):
    other, many = str(tmp_path / "other.keras"), str(tmp_path / "many.keras")
    layers = [keras.layers.Dense(1, name=f"n{index}") for index in range(8)]
    keras.Sequential([keras.Input((2,)), *layers]).save(other)
    assert main(["diff", models[0], other]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "outputs: not compared: no layer in common (1 in OLD, 8 in NEW)",
        "different",
    ]
    layers[0].name = "d"
    keras.Sequential([keras.Input((2,)), *layers]).save(many)
    assert main(["diff", models[0], many]) == 1
    printed = capsys.readouterr().out
    assert "only in NEW: n1, n2, n3, n4, n5, 2 more\n" in printed
    assert printed.endswith("different: 8 layers\n")


# Keras 3.8 adds casts to a Functional, and numbers them anew whenever it is made.
@pytest.mark.parametrize("path", [SEQUENTIAL, MODEL])
def test_diff_compares_a_legacy_model_with_its_conversion(path, tmp_path, capsys):
    new = str(tmp_path / "new.keras")
    assert main(["convert", path, new]) == 0
    capsys.readouterr()
    assert main(["diff", path, new]) == 0
    assert capsys.readouterr().out.endswith("\nequal\n")


def test_diff_knows_operations_by_their_places_in_place_of_their_names(
    tmp_path, capsys
):
    def saved(name, function):
        inputs = keras.Input((3,), name="i")
        keras.Model(inputs, function(inputs), name="net").save(tmp_path / name)
        return str(tmp_path / name)

    old = saved("old.keras", lambda x: keras.ops.relu(x + 1.0))
    same = saved("same.keras", lambda x: keras.ops.relu(x + 1.0))
    other = saved("other.keras", lambda x: keras.ops.relu(x - 1.0))
    last = saved("last.keras", lambda x: keras.ops.relu6(x + 1.0))
    assert main(["diff", old, same]) == 0
    assert main(["diff", old, other]) == 1
    printed = capsys.readouterr().out
    assert "the operation Subtract is called on 'i', only in NEW" in printed
    assert main(["diff", old, last]) == 1
    printed = capsys.readouterr().out
    assert re.search("the operation Relu6 is called on 'add.*', only in NEW", printed)


def test_diff_pairs_layers_by_the_graph_whatever_their_automatic_names_are(
    tmp_path, capsys
):
    def saved(name, first, units=(4, 2)):
        for _ in range(first):
            keras.layers.Dense(1)  # counts on
        x = inputs = keras.Input((3,))
        for width in units:
            x = keras.layers.Dense(width, kernel_initializer="ones")(x)
        model = keras.Model(inputs, keras.ops.relu(x), name="net")
        model.save(tmp_path / name)
        return str(tmp_path / name)

    old, same = saved("a.keras", 0), saved("b.keras", 5)
    assert main(["diff", old, same]) == 0
    capsys.readouterr()
    assert main(["diff", old, saved("c.keras", 1, (5, 2))]) == 1
    printed = capsys.readouterr().out
    assert "units is 5, was 4" in printed
    assert "only in" not in printed


def test_diff_prints_no_control_character_of_a_name(tmp_path, capsys):
    def saved(name, *layers):
        keras.Sequential([keras.Input((2,)), *layers]).save(tmp_path / name)
        return str(tmp_path / name)

    same, odd = keras.layers.Dense(1, name="d"), keras.layers.ReLU(name="a\x1b[2Jb")
    assert main(["diff", saved("a.keras", same), saved("b.keras", same, odd)]) == 1
    printed = capsys.readouterr().out
    assert r"only in NEW: a\x1b[2Jb" in printed
    assert "\x1b" not in printed


def test_diff_names_the_policies_that_differ(tmp_path, capsys):
    new = str(tmp_path / "new.keras")
    assert main(["convert", H5, new, "--policy", "float32"]) == 0
    capsys.readouterr()
    assert main(["diff", H5, new, "--json"]) == 1
    rows = {row["layer"]: row for row in json.loads(capsys.readouterr().out)["layers"]}
    expected = 'dtype.config.name is "float32", was "mixed_float16"'
    assert rows["conv_a"]["config"] == [expected]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            MODEL,
            ["--signature", "x"],
            "Choose one of them, or leave the signature out.",
        ),
        (H5, ["--signature", "x"], "only a SavedModel does. Leave the signature out."),
    ],
    ids=["SavedModel", "H5"],
)
def test_a_wrong_signature_has_a_remedy(path, options, message, tmp_path, capsys):
    new = tmp_path / "new.keras"
    assert main(["convert", path, str(new), *options]) == 1
    assert capsys.readouterr().err.endswith(f"{message}\n")
    assert not new.exists()


def test_an_unknown_backend_is_a_wrong_command_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["convert", H5, "new.keras", "--backends", "jax,nosuch"])
    expected = "expected names among jax, torch, tensorflow, separated by commas"
    assert expected in capsys.readouterr().err


def test_a_reader_that_has_ended_is_no_error(tmp_path):
    for number in range(40):
        shutil.copy(H5, tmp_path / f"{number}.h5")
    command = [sys.executable, "-m", "keras_policies_cli", "inspect", "--json"]
    with subprocess.Popen(
        [*command, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_an_error_of_keras_has_its_class_and_a_code(monkeypatch, capsys):
    def fail(*arguments, **options):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(keras_policies, "load_model", fail)
    assert main(["diff", H5, H5]) == 1
    assert capsys.readouterr().err.endswith("KP002: RuntimeError: out of luck\n")
