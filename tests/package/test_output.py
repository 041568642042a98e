"""What cannot be encoded is escaped, names forge no lines, a closed pipe is quiet."""

import errno
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import h5py
import legacy_files
import pytest

import keras_policies
from keras_policies import LegacyModelError, inspect_model, load_model
from keras_policies.cli import output
from keras_policies.cli.main import main

pytestmark = pytest.mark.once("the output is the same on every backend")
H5 = legacy_files.CORPUS / "2.4.4" / "seq_dense_bf16" / "model.h5"
SMALL = legacy_files.folder("more") / "2.15.1" / "amsgrad" / "model.h5"
FORGED = "\nkeras-policies: KP999: forged\x1b[31m\u202e"
ESCAPED = r"\nkeras-policies: KP999: forged\x1b[31m\u202e"


class Stream(io.TextIOWrapper):
    """A stdout or stderr in an encoding, as Windows gives to a pipe."""

    def __init__(self, encoding):
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")

    @property
    def text(self):
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture(params=["cp1252", "ascii", "utf-8"])
def replace(request, monkeypatch):
    """Return a function that replaces stdout and stderr.

    It returns another one, which writes a text as these streams should.
    """

    def replaced():
        for name in "stdout", "stderr":
            monkeypatch.setattr(sys, name, Stream(request.param))
        return lambda text: text.encode(*how).decode(how[0])

    how = request.param, "backslashreplace"
    return replaced


def test_a_table_is_printed_in_any_encoding(replace, tmp_path):
    escaped = replace()
    for name in "модель→✓.h5", "é.h5":
        shutil.copy(H5, tmp_path / name)
    (tmp_path / "leer✓.h5").touch()
    assert main(["inspect", str(tmp_path)]) == 1
    for name in "модель→✓.h5", "é.h5":
        assert escaped(name) in sys.stdout.text
    counts = sys.stdout.text.splitlines()[-2:]
    assert [line.split()[:2] for line in counts] == [["2", "complete"], ["1", "failed"]]
    assert f"{escaped('leer✓.h5')}: no model: the file has zero" in sys.stderr.text
    assert sys.stdout.errors == "strict"  # as it was


def test_a_conversion_is_reported_in_any_encoding(replace, tmp_path):
    escaped = replace()
    source, new = tmp_path / "→.h5", tmp_path / "✓.keras"
    shutil.copy(SMALL, source)
    assert main(["convert", str(source), str(new)]) == 0
    assert f"written: {escaped(str(new))}\n" in sys.stdout.text
    assert sys.stderr.text == ""


def test_printed_code_is_the_same_program_in_any_encoding(replace, tmp_path):
    replace()
    with h5py.File(shutil.copy(SMALL, tmp_path / "m.h5"), "r+") as file:
        config = file.attrs["model_config"]
        name = json.loads(config)["config"]["name"]
        file.attrs["model_config"] = config.replace(f'"{name}"', '"модель"', 1)
    assert main(["code", str(tmp_path / "m.h5")]) == 0
    namespace = {"__name__": "model"}
    exec(compile(sys.stdout.text, "model.py", "exec"), namespace)
    assert namespace["build_model"]().name == "модель"


@pytest.mark.parametrize("arguments", [["--help"], ["convert", "--help"]])
def test_help_is_printed_in_any_encoding(replace, arguments):
    replace()
    with pytest.raises(SystemExit, match="^0$"):
        main(arguments)
    assert "keras-policies" in sys.stdout.text


def lines_of(text):
    return [line for line in text.split("\n") if line.startswith("keras-policies:")]


@pytest.fixture
def forged(tmp_path):
    """Return a model and a broken file, with names that end a line."""
    if sys.platform == "win32":
        pytest.skip("Windows allows no such names")
    models = tmp_path / "models"
    models.mkdir()
    model, broken = models / f"a{FORGED}.h5", models / f"b{FORGED}.h5"
    shutil.copy(SMALL, model)
    broken.write_bytes(b"x")
    return model, broken


def test_a_name_forges_no_line_of_a_report(forged, tmp_path, capsys):
    model, broken = map(str, forged)
    new, dry = (str(tmp_path / f"{name}{FORGED}.keras") for name in ("new", "dry"))
    for arguments, code in (
        (["inspect", model], 0),
        (["inspect", broken], 1),
        (["inspect", str(tmp_path / "models"), "-v"], 1),
        (["inspect", f"{tmp_path}/none{FORGED}.h5"], 1),
        (["convert", model, new], 0),
        (["convert", model, new], 1),
        (["convert", model, broken, "--output-dir", str(tmp_path / "new")], 1),
        (["convert", model, broken, "--output-dir", dry, "--dry-run"], 1),
        (["diff", model, new], 0),
        (["verify", model, broken], 1),
        (["code", broken], 1),
    ):
        assert main([*arguments, *(["--jobs", "1"] * (arguments[0] == "convert"))]) == (
            code
        ), arguments
        printed = capsys.readouterr()
        assert len(lines_of(printed.err)) == (code == 1), printed.err
        assert lines_of(printed.out) == []
        assert not {"\x1b", "\u202e"}.intersection(printed.out + printed.err)
        if arguments[0] != "diff":
            assert ESCAPED in printed.out + printed.err


def test_a_name_forges_no_line_of_a_description_a_warning_or_an_error(forged):
    model, broken = forged
    described = inspect_model(model)
    for text in str(described), described._repr_html_():
        assert ESCAPED.replace("\x1b", "") in text
        assert not {"\x1b", "\u202e"}.intersection(text)
        assert lines_of(text) == []
    with pytest.raises(LegacyModelError, match=re.escape(ESCAPED)) as raised:
        load_model(broken)
    assert "\n" not in str(raised.value)
    with h5py.File(model) as file:
        model.with_suffix(".json").write_text(file.attrs["model_config"])
    with pytest.warns(match=re.escape(f"{ESCAPED}.json: the model was opened")):
        load_model(model.with_suffix(".json"))


def test_a_class_in_a_file_forges_no_line(tmp_path, capsys):
    path = shutil.copy(SMALL, tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        config = file.attrs["model_config"].replace('"Dense"', json.dumps(FORGED))
        file.attrs["model_config"] = config
    assert main(["inspect", str(path)]) == 3
    printed = capsys.readouterr().out
    assert ESCAPED in printed
    assert lines_of(printed) == []
    assert main(["convert", str(path), f"{tmp_path}/new.keras"]) == 1
    assert len(lines_of(capsys.readouterr().err)) == 1
    assert main(["convert", str(path), f"{tmp_path}/new.keras", "--dry-run"]) == 1
    assert len(lines_of(capsys.readouterr().err)) == 1


def test_a_pipe_whose_reader_has_ended_is_no_error():
    read, write = os.pipe()
    os.close(read)
    root = str(pathlib.Path(keras_policies.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "keras_policies_cli", "explain"],
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


class Closed(io.TextIOWrapper):
    """A stdout that Windows cannot write: it says that an argument is invalid."""

    is_closed = True

    def flush(self):
        if not self.is_closed:
            return super().flush()
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def test_a_closed_pipe_on_windows_is_told_from_a_wrong_argument(tmp_path, monkeypatch):
    invalid = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    with open(tmp_path / "out", "wb") as file:
        monkeypatch.setattr(sys, "stdout", Stream("utf-8"))
        assert not output.has_closed(invalid)
        stdout = Closed(file)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output.has_closed(PermissionError(errno.EACCES, ""))
        assert output.has_closed(invalid)
        os.write(file.fileno(), b"goes nowhere now")
        monkeypatch.undo()
        stdout.is_closed = False
        stdout.detach()
    assert (tmp_path / "out").read_bytes() == b""
