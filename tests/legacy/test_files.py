"""Files are finished or not written at all, whatever the file system refuses."""

import contextlib
import errno
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import keras
import legacy_files
import numpy as np
import pytest
import refusing_files

import keras_policies
from keras_policies import LegacyModelError, convert_model, load_model
from keras_policies._common import files
from keras_policies.cli import folders
from keras_policies.cli.main import main
from keras_policies.legacy import atomic_file, keras_files
from keras_policies.legacy.guards import packed

pytestmark = pytest.mark.once("it is about files")
CASE = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
SMALL = legacy_files.folder("more") / "2.15.1" / "amsgrad"
# What Google Drive, FAT, SMB and FUSE answer.
REFUSALS = [
    pytest.param("link", errno.ENOSYS, id="link-is-no-function"),
    pytest.param("link", errno.EPERM, id="link-is-not-permitted"),
    pytest.param("link", errno.ENOTSUP, id="link-is-not-supported"),
    pytest.param("fsync", errno.EINVAL, id="fsync-is-invalid"),
    pytest.param("fsync", errno.ENOTSUP, id="fsync-is-not-supported"),
]


def refuse(monkeypatch, name, number):
    """Let a function of `os` raise an error; return the list of its calls."""
    calls = []

    def refused(*args, **kwargs):
        calls.append(args)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, refused)
    return calls


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("name", "number"), REFUSALS)
def test_a_file_is_written_whatever_is_refused(
    tmp_path, monkeypatch, name, number, overwrite
):
    calls, new = refuse(monkeypatch, name, number), tmp_path / "new.keras"
    with files.writing(new, overwrite) as path:
        path.write_bytes(b"content")
        assert path.name == "new.keras"
        assert not new.exists()
    assert new.read_bytes() == b"content"
    assert names_in(tmp_path) == ["new.keras"]
    uses_links = not (overwrite or files.IS_WINDOWS)
    assert len(calls) == (uses_links if name == "link" else 1)


@pytest.mark.parametrize(("name", "number"), REFUSALS)
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, name, number):
    refuse(monkeypatch, name, number)
    new = tmp_path / "new.keras"
    with contextlib.ExitStack() as ending:
        path = ending.enter_context(files.writing(new, overwrite=False))
        path.write_bytes(b"content")
        new.write_bytes(b"another program's")
        with pytest.raises(FileExistsError, match="new.keras"):
            ending.close()
    assert new.read_bytes() == b"another program's"
    assert names_in(tmp_path) == ["new.keras"]


@pytest.mark.posix("Windows renames, without links")
def test_without_links_a_move_that_fails_leaves_nothing(tmp_path, monkeypatch):
    refuse(monkeypatch, "link", errno.ENOSYS)
    refuse(monkeypatch, "replace", errno.EACCES)
    writing = files.writing(tmp_path / "new.keras", False)
    with pytest.raises(PermissionError, match="Permission denied"), writing as path:
        path.touch()
    assert names_in(tmp_path) == []


def test_a_disk_that_fails_at_the_end_is_no_success(tmp_path, monkeypatch):
    refuse(monkeypatch, "fsync", errno.EIO)
    writing = files.writing(tmp_path / "new.keras", False)
    with pytest.raises(OSError, match="Input/output error"), writing as path:
        path.touch()
    assert names_in(tmp_path) == []


def test_on_windows_a_file_is_renamed_and_synced_while_open_for_writing(
    tmp_path, monkeypatch
):
    renamed = []

    def rename(old, new):
        renamed.append(new)
        os.replace(old, new)

    monkeypatch.setattr(files, "IS_WINDOWS", True)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "fsync", lambda number: os.write(number, b"!"))
    refuse(monkeypatch, "link", errno.EPERM)
    new = tmp_path / "a.py"
    with files.writing(new, False) as path:
        path.touch()
    assert renamed == [new]
    assert new.read_bytes() == b"!"


def test_a_folder_that_nothing_can_be_created_in_is_tried_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: True)
    calls = refuse(monkeypatch, "mkdir", errno.EACCES)
    problem = "is not writable: Permission denied"
    with pytest.raises(LegacyModelError, match=problem) as raised:
        atomic_file.check(tmp_path / "new.keras", overwrite=False)
    assert raised.value.code == "KP108"
    assert len(calls) == 1


def test_a_try_leaves_nothing(tmp_path):
    atomic_file.check(tmp_path / "new.keras", overwrite=False)
    atomic_file.check(tmp_path / "a" / "b" / "new.keras", False, makes_folder=True)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["n" * 247 + ".keras", "n." + "m" * 245 + ".keras", "名" * 80 + ".keras"]
)
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path, name):
    new = tmp_path / name
    atomic_file.check(new, overwrite=False)
    with atomic_file.writing(new, overwrite=False) as path:
        path.touch()
    assert path.suffix == ".keras"
    assert names_in(tmp_path) == [name]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(errno.EINVAL, "a:b.keras", id="not-allowed"),
        pytest.param(
            errno.ENAMETOOLONG,
            "n" * 300 + ".keras",
            id="too-long",
            marks=pytest.mark.posix("Windows calls it invalid"),
        ),
    ],
)
def test_a_name_that_the_system_refuses_is_known_before_the_work(
    tmp_path, monkeypatch, number, name
):
    if number == errno.EINVAL:
        refuse(monkeypatch, "lstat", number)
    problem = f"cannot be written: .*{os.strerror(number)}"
    with pytest.raises(LegacyModelError, match=problem):
        convert_model(SMALL / "model.h5", tmp_path / name)


@pytest.mark.parametrize(
    ("name", "is_forbidden"),
    [
        ("model.keras", False),
        ("con.tent.keras", True),
        ("contents.keras", False),
        ("NUL", True),
        ("lpt9.h5", True),
        ("com0.h5", False),
        ("a?.keras", True),
        ("a:b.keras", True),
        ("a\n.keras", True),
        ("a.", True),
        ("a ", True),
    ],
)
def test_names_that_windows_forbids_are_known(
    tmp_path, monkeypatch, name, is_forbidden
):
    monkeypatch.setattr(files, "IS_WINDOWS", False)
    assert not files.is_forbidden(name)
    packed.check_entry(name.replace(":", "?"), 0)
    monkeypatch.setattr(files, "IS_WINDOWS", True)
    assert files.is_forbidden(name) == is_forbidden
    if is_forbidden:
        with pytest.raises(LegacyModelError, match="Windows does not allow"):
            atomic_file.check(tmp_path / name, overwrite=False)
        with pytest.raises(LegacyModelError, match="Windows does not allow"):
            packed.check_entry(name.replace(":", "?"), 0)


@pytest.mark.parametrize(
    ("absolute", "expected"),
    [
        pytest.param("C:\\a\\new.keras", "new.keras", id="short"),
        pytest.param("C:\\" + "a" * 250, "\\\\?\\C:\\" + "a" * 250, id="long"),
        pytest.param(
            "\\\\server\\a\\" + "a" * 250,
            "\\\\?\\UNC\\server\\a\\" + "a" * 250,
            id="long-on-a-share",
        ),
        pytest.param("\\\\?\\C:\\" + "a" * 250, "new.keras", id="it-has-no-limit"),
    ],
)
def test_a_long_path_on_windows_has_no_limit(monkeypatch, absolute, expected):
    monkeypatch.setattr(files, "IS_WINDOWS", True)
    monkeypatch.setattr(os.path, "abspath", lambda path: absolute)
    assert str(files.unlimited(pathlib.Path("new.keras"))) == expected


@pytest.mark.parametrize("without", [["symlink"], ["symlink", "link"]])
def test_a_file_of_keras_3_opens_under_any_name_without_links(
    tmp_path, monkeypatch, without
):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(tmp_path / "model.keras")
    (tmp_path / "model.keras").rename(tmp_path / "model.bin")
    for name in without:
        refuse(monkeypatch, name, errno.EPERM)
    assert load_model(tmp_path / "model.bin").count_params() == 8
    with keras_files.named_for_keras(tmp_path / "model.bin") as named:
        assert named.samefile(tmp_path / "model.bin") == (without == ["symlink"])


# A full disk, for each file that the process writes.
@contextlib.contextmanager
def full(bytes_left=1000):
    import resource  # POSIX

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def packed_models(folder):
    """Return archives of a model, and a Keras 2 file, whose weights are unpacked."""
    with zipfile.ZipFile(folder / "m.zip", "w") as file:
        file.write(CASE / "model.h5", "model.h5")
    for kind in "gz", "xz":
        with tarfile.open(folder / f"m.tar.{kind}", f"w:{kind}") as file:
            file.add(CASE / "model.h5", "model.h5")
    shutil.copy(SMALL / "model.keras", folder)
    return [folder / name for name in ("m.zip", "m.tar.gz", "m.tar.xz", "model.keras")]


@pytest.mark.posix("Windows has no limit for the sizes of files")
def test_a_full_temporary_folder_is_not_the_fault_of_a_model(tmp_path):
    folder = tempfile.gettempdir()
    problem = f"the temporary folder '{folder}' cannot be written: .*TMPDIR"
    for path in packed_models(tmp_path):
        with full(), pytest.raises(LegacyModelError, match=problem) as raised:
            load_model(path)
        assert raised.value.code == "KP110"
        assert str(raised.value.path) == str(path)
    content = io.BytesIO((CASE / "model.h5").read_bytes())
    with full(), pytest.raises(LegacyModelError, match=problem):
        load_model(content)


class Full(io.BytesIO):
    """A file on a full disk; its buffer is written again when it is closed."""

    def write(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self):
        if not self.closed:
            super().close()
            self.write(b"")


def test_a_full_temporary_folder_is_named_although_closing_fails_too():
    problem = "the temporary folder '.*' cannot be written: .*No space left"
    with pytest.raises(files.TemporaryFolderError, match=problem), Full() as file:
        files.fill(file, [b"x"])


@pytest.mark.posix("Windows has no limit for the sizes of files")
def test_a_full_temporary_folder_stops_a_download(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    shutil.copy(CASE / "model.h5", tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", lambda *args, **kwargs: tmp_path)
    refuse(monkeypatch, "link", errno.EXDEV)
    problem = "^hf://user/old: the temporary folder '.*' cannot be written"
    with full(), pytest.raises(LegacyModelError, match=problem):
        load_model("hf://user/old")
    assert load_model("hf://user/old").name == "conv_fixed"


@pytest.mark.posix("Windows has no limit for the sizes of files")
def test_a_full_temporary_folder_stops_source_code_and_hdf5_works_afterwards(tmp_path):
    model = load_model(CASE / "model.h5", compile=False)
    with full(), pytest.raises(OSError, match="^the temporary folder '.*TMPDIR"):
        keras_policies.to_source(model)
    model.save_weights(tmp_path / "model.weights.h5")
    model.load_weights(tmp_path / "model.weights.h5")


@pytest.mark.posix("Windows has no limit for the sizes of files")
def test_a_full_disk_writes_no_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras_policies.load_model(CASE / "model.h5").save("model.keras")
    arguments = ["model.keras", "-o", "model.py", "--weights", "model.weights.h5"]
    monkeypatch.setattr(keras_policies, "to_source", lambda *args, **kwargs: "code")
    with full():
        assert main(["code", *arguments]) == 1
    assert "KP108: model.weights.h5: cannot be written: " in capsys.readouterr().err
    assert names_in(tmp_path) == ["model.keras", "model.py"]


def test_without_a_temporary_folder_the_error_says_so(monkeypatch):
    def none(*args):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(tempfile, "mkdtemp", none)
    with pytest.raises(LegacyModelError, match="a temporary folder cannot be written"):
        load_model(io.BytesIO((CASE / "model.h5").read_bytes()))


def test_constants_are_complete_or_not_written(tmp_path, monkeypatch):
    inputs = keras.Input((100,))
    outputs = keras.ops.multiply(inputs, np.arange(100, dtype="float32"))
    model, new = keras.Model(inputs, outputs), tmp_path / "model.npz"
    new.write_bytes(b"precious")
    monkeypatch.setattr(shutil, "copyfile", lambda a, b: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        keras_policies.to_source(model, constants=new)
    assert new.read_bytes() == b"precious"
    monkeypatch.undo()
    keras_policies.to_source(model, constants=new)
    assert names_in(tmp_path) == ["model.npz"]
    assert [value.shape for value in np.load(new).values()] == [(100,)]


@pytest.mark.parametrize(("name", "number"), [*REFUSALS[:2], REFUSALS[3]])
def test_commands_write_where_a_function_is_refused(
    tmp_path, monkeypatch, name, number
):
    (tmp_path / "zoo").mkdir()
    shutil.copy(SMALL / "model.h5", tmp_path / "zoo")
    monkeypatch.chdir(tmp_path)
    calls = refuse(monkeypatch, name, number)
    for command, code in (
        ("convert zoo/model.h5 new.keras --no-plain --quiet", 0),
        ("convert zoo/model.h5 new.keras --no-plain --quiet", 1),
        ("convert zoo/model.h5 new.keras --no-plain --quiet --overwrite", 0),
        ("convert zoo --recursive --output-dir many --no-plain --quiet --jobs 1", 0),
        ("code zoo/model.h5 -o model.py --weights model.weights.h5", 0),
    ):
        assert main(command.split()) == code
    links = 0 if files.IS_WINDOWS else 4
    assert len(calls) == (links if name == "link" else 5)
    assert names_in(tmp_path / "many") == ["model.keras"]
    written = ["model.py", "model.weights.h5", "new.keras"]
    assert names_in(tmp_path) == ["many", *written, "zoo"]


# One process runs all, and ends: nothing is left that works in the folder.
PROGRAM = """
import sys
from keras_policies.cli.main import main
print("codes", *[main(line.split()) for line in sys.stdin])
"""
COMMANDS = """\
convert ../zoo/c.h5 new.keras --no-plain
convert ../zoo/c.h5 new.keras --no-plain
convert ../zoo/c.h5 new.keras --overwrite --no-plain
convert ../zoo/c.h5 new:er.keras --no-plain
convert ../zoo --recursive --output-dir many --jobs 2 --no-plain
convert ../zoo --recursive --output-dir many --jobs 2 --overwrite --no-plain
convert ../zoo --recursive --output-dir many --jobs 2 --skip-existing --no-plain
code ../zoo/c.h5 -o model.py --weights model.weights.h5
"""


def exit_codes(folder, customized=""):
    """Return the exit codes of the commands in a folder.

    `customized` is run first in each process.
    """
    zoo = folder.with_name("zoo")
    zoo.mkdir()
    for name in "A.h5", "a.h5", "c.h5":
        shutil.copy(SMALL / "model.h5", zoo / name)
    folder.with_name("sitecustomize.py").write_text(customized)
    paths = [str(folder.parent), str(pathlib.Path(keras_policies.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        input=COMMANDS,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.rpartition("codes ")[2].split()


@pytest.fixture
def mounted(request, tmp_path):
    """A folder that refuses something."""
    if not refusing_files.is_possible():
        pytest.skip("needs /dev/fuse, fusermount and the package fusepy")
    root, mount = tmp_path / "root", tmp_path / "mount"
    root.mkdir()
    mount.mkdir()
    program = [sys.executable, refusing_files.__file__, root, mount, request.param]
    process = subprocess.Popen(program)
    while not os.path.ismount(mount):
        assert process.poll() is None, "it could not be mounted"
        time.sleep(0.1)
    yield mount
    # Processes that the commands started end a moment after them.
    while subprocess.run(["fusermount", "-u", mount]).returncode:
        time.sleep(0.1)
    process.wait()


WRITTEN = ["many", "model.py", "model.weights.h5", "new.keras"]


@pytest.mark.posix("Windows takes a.h5 for A.h5, and a colon for no name")
@pytest.mark.skipif(sys.platform == "darwin", reason="it takes a.h5 for A.h5")
@pytest.mark.slow("it starts processes", one_of=3)
@pytest.mark.parametrize(
    ("name", "number"), [("link", "ENOSYS"), ("link", "EPERM"), ("fsync", "EINVAL")]
)
def test_processes_write_where_a_function_is_refused(tmp_path, name, number):
    lines = "import errno, os", "def refused(*args, **kwargs):"
    lines += f"    raise OSError(errno.{number}, 'refused')", f"os.{name} = refused"
    (tmp_path / "new").mkdir()
    assert exit_codes(tmp_path / "new", "\n".join(lines)) == [*"01000000"]
    assert names_in(tmp_path / "new") == [*WRITTEN, "new:er.keras"]
    assert names_in(tmp_path / "new/many") == ["A.keras", "a.keras", "c.keras"]


@pytest.mark.slow("it mounts a file system, and starts processes", one_of=2)
@pytest.mark.parametrize(
    ("mounted", "expected"),
    [
        *[(name, "01000000") for name in ("link=ENOSYS", "link=EPERM", "chmod=EPERM")],
        ("fsync=EINVAL", "01000000"),
        ("colon", "01010000"),
        ("nocase", "01001110"),
    ],
    indirect=["mounted"],
)
def test_commands_write_to_a_file_system_that_refuses(mounted, expected):
    assert exit_codes(mounted) == [*expected]
    colon, case = expected[3] == "0", expected[4] == "0"
    assert names_in(mounted) == [*WRITTEN, *["new:er.keras"] * colon]
    names = ["A.keras", *["a.keras"] * case, "c.keras"]
    assert names_in(mounted / "many") == names


@pytest.mark.parametrize(
    "ignores_case",
    [pytest.param(False, marks=pytest.mark.posix("paths of Windows are alike")), True],
)
def test_no_two_models_have_one_new_file(tmp_path, monkeypatch, ignores_case):
    upper = tmp_path.with_name(tmp_path.name.upper())
    assert files.ignores_case(tmp_path / "new") == upper.exists()
    monkeypatch.setattr(files, "ignores_case", lambda folder: ignores_case)
    sources = "zoo/A.h5", "zoo/a.h5", "user/b", "hf://user/b", "Zoo/c.h5", "zoo/c.h5"
    new = folders.destinations(".", sources, tmp_path / "new")
    expected = ["", "zoo/A.h5", "", "user/b", "", "Zoo/c.h5"]
    wanted = expected if ignores_case else ["", "", "", "user/b", "", ""]
    assert folders.sharing(sources, new) == wanted


@pytest.mark.parametrize("option", ["--quiet", "--overwrite", "--skip-existing"])
def test_a_second_model_does_not_replace_the_first(
    tmp_path, monkeypatch, capsys, option
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "ignores_case", lambda folder: True)
    monkeypatch.setattr(folders, "models", lambda paths, recursive: paths)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.keras").write_bytes(b"precious")
    for name in "zoo/a.h5", "zoo/A.h5":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(SMALL / "model.h5", tmp_path / name)
    many = ["convert", "zoo/a.h5", "zoo/A.h5", "--output-dir", "new", "--jobs", "1"]
    assert main([*many, "--no-plain", option]) == 1
    problem = "A.keras: its new file is the same as that of 'zoo/a.h5'. Rename one of"
    assert problem in capsys.readouterr().err
    is_kept = (tmp_path / "new/a.keras").read_bytes() == b"precious"
    assert is_kept == (option != "--overwrite")
