"""Whatever others do to the files meanwhile, there is a whole new file or none."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import legacy_files
import pytest

from keras_policies import (
    LegacyModelError,
    convert_model,
    inspect_model,
    load_model,
    load_weights,
)
from keras_policies.legacy.assembly import weights
from keras_policies.legacy.plan import plan

pytestmark = [
    pytest.mark.once("processes on numpy"),
    pytest.mark.slow("processes; Keras on numpy needs jax"),
]
SOURCES = legacy_files.folder("more") / "2.15.1" / "amsgrad"
FORMS = "model.h5", "model.keras", "saved_model", "checkpoint"
CHANGED = "it was changed while it was read. Open it again when no other program"
# Converts once for each line, when the line comes.
CONVERTER = """
import os, sys
import keras_policies
source, new, overwrite = sys.argv[1:]
keras_policies.convert_model(source, f"{new}.{os.getpid()}.warm.keras", plain=False)
print("ready", flush=True)
for line in sys.stdin:
    try:
        options = {"overwrite": overwrite == "True", "plain": False}
        keras_policies.convert_model(source, new, **options)
        print("converted", flush=True)
    except keras_policies.LegacyModelError as error:
        print(error.reason, flush=True)
"""


def largest(path):
    """Return the largest file at a path: of a SavedModel, its graph or its tensors."""
    files = [one for one in path.rglob("*") if one.is_file()] or [path]
    return max(files, key=lambda one: one.stat().st_size)


def tensors(path):
    """Return the file of a model or of a checkpoint that holds its tensors."""
    return next(path.rglob("*.data-*"), path)


def written_over(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replaced(path):
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.replace(new, path)


def truncated(path):
    os.truncate(path, 100)


CHANGES = written_over, replaced, truncated, pathlib.Path.unlink


def copied(form, folder):
    """Return the path of a copy of a model."""
    new = folder / "source" / form
    copy = shutil.copytree if (SOURCES / form).is_dir() else shutil.copyfile
    new.parent.mkdir()
    copy(SOURCES / form, new)
    return new


def before(monkeypatch, owner, name, action):
    """Let an action happen before the first call of a function."""
    stock, actions = getattr(owner, name), [action]

    def function(*args, **kwargs):
        while actions:
            actions.pop()()
        return stock(*args, **kwargs)

    monkeypatch.setattr(owner, name, function)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", FORMS[:3])
def test_a_source_that_changes_while_it_is_read_is_not_converted(
    monkeypatch, tmp_path, form, change
):
    source, output = copied(form, tmp_path), tmp_path / "output"
    output.mkdir()
    before(monkeypatch, plan, "make", lambda: change(tensors(source)))
    with pytest.raises(LegacyModelError, match=CHANGED) as raised:
        convert_model(source, output / "new.keras")
    assert raised.value.path == source
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("form", FORMS[:3])
def test_a_source_that_changes_while_it_is_read_is_not_described(
    monkeypatch, tmp_path, form
):
    source = copied(form, tmp_path)
    before(monkeypatch, plan, "make", lambda: replaced(largest(source)))
    with pytest.raises(LegacyModelError, match=CHANGED):
        inspect_model(source)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", [FORMS[0], *FORMS[2:]])
def test_weights_that_change_while_they_are_read_change_no_model(
    monkeypatch, tmp_path, form, change
):
    model = load_model(SOURCES / "model.h5", compile=False)
    old = [value.tobytes() for value in model.get_weights()]
    source = copied(form, tmp_path)
    before(monkeypatch, weights, "pair", lambda: change(tensors(source)))
    prefix = source if form != "checkpoint" else next(source.glob("*.index"))
    with pytest.raises(LegacyModelError, match=CHANGED):
        load_weights(model, str(prefix).removesuffix(".index"))
    assert [value.tobytes() for value in model.get_weights()] == old


def a_file(path):
    path.write_bytes(b"precious")


def a_link_to_nothing(path):
    path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize(
    ("appear", "match"),
    [
        (a_file, "it already exists"),
        (a_link_to_nothing, "it already exists"),
        (pathlib.Path.mkdir, "it already exists"),
        (lambda path: path.parent.rmdir(), "cannot be written: .*No such file"),
    ],
    ids=["file", "link", "folder", "no-folder-for-it"],
)
def test_what_appears_in_the_meantime_is_kept(monkeypatch, tmp_path, appear, match):
    new = tmp_path / "output" / "new.keras"
    new.parent.mkdir()
    before(monkeypatch, plan, "make", lambda: appear(new))
    with pytest.raises(LegacyModelError, match=match):
        convert_model(SOURCES / "model.h5", new)
    left = [*new.parent.iterdir()] if new.parent.exists() else []
    assert left == ([new] if match == "it already exists" else [])
    assert not new.is_file() or new.read_bytes() == b"precious"
    assert not new.is_dir() or not [*new.iterdir()]


def test_a_folder_that_appears_in_the_meantime_is_not_overwritten(
    monkeypatch, tmp_path
):
    new = tmp_path / "new.keras"
    before(monkeypatch, plan, "make", lambda: (new.mkdir(), a_file(new / "a")))
    with pytest.raises(LegacyModelError, match="cannot be written: .*directory"):
        convert_model(SOURCES / "model.h5", new, overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["new.keras", "a"]


@pytest.fixture
def converters(tmp_path):
    """Start three processes that convert to one file, the last two overwriting it."""
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    environment["PYTHONPATH"] = str(pathlib.Path(__file__).parents[2])
    command = [sys.executable, "-W", "ignore", "-c", CONVERTER]
    arguments = [str(SOURCES / "model.keras"), str(tmp_path / "new.keras")]
    started = [
        subprocess.Popen(
            [*command, *arguments, overwrite],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        for overwrite in ("False", "False", "True")
    ]
    yield started
    for process in started:
        with process:
            process.stdin.close()


def test_processes_that_convert_to_one_file_leave_a_whole_one(converters, tmp_path):
    assert [process.stdout.readline() for process in converters] == ["ready\n"] * 3
    for warm in tmp_path.iterdir():
        warm.unlink()
    found = set()
    for _ in range(5):
        for process in converters:
            process.stdin.write("go\n")
        ends = [process.stdout.readline().strip() for process in converters]
        assert ends[2] == "converted"
        assert {*ends[:2]} <= {"converted", "it already exists."}
        assert ends[:2] != ["converted", "converted"]
        assert [path.name for path in tmp_path.iterdir()] == ["new.keras"]
        with zipfile.ZipFile(tmp_path / "new.keras") as archive:
            assert archive.testzip() is None
            names = ["metadata.json", "config.json", "model.weights.h5"]
            assert archive.namelist() == names
        (tmp_path / "new.keras").unlink()
        found.update(ends[:2])
    assert "it already exists." in found
