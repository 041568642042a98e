"""Models in archives, folders, open files and at addresses; hostile archives."""

import bz2
import contextlib
import fnmatch
import functools
import gzip
import http.server
import io
import json
import lzma
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import warnings
import zipfile

import fsspec
import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import (
    LegacyModelError,
    convert_model,
    inspect_model,
    load_model,
    load_weights,
)
from keras_policies.cli.main import main
from keras_policies.legacy.guards import limits, packed
from keras_policies.legacy.readers import downloads

SOURCE = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
SAVED_MODEL, H5 = SOURCE / "saved_model", SOURCE / "model.h5"
ROOT = pathlib.Path(keras_policies.__file__).parents[1]


def packed_folder(folder, kind, top, source=SAVED_MODEL):
    """Return an archive of a file or a folder, in the folder `top` of the archive."""
    content = folder / "content"
    if source.is_dir():
        shutil.copytree(source, content / top, dirs_exist_ok=True)
    else:
        os.makedirs(content / top)
        shutil.copy(source, content / top)
    name = folder / "old"
    forms = {".zip": "zip", ".tgz": "gztar", ".tar.gz": "gztar"}
    forms |= {".tar.xz": "xztar", ".tar.bz2": "bztar"}
    written = shutil.make_archive(str(name), forms[kind], content)
    shutil.rmtree(content)
    return pathlib.Path(written).rename(f"{name}{kind}")


@pytest.mark.parametrize("top", [".", "model/1"])
@pytest.mark.parametrize("kind", [".zip", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"])
def test_a_packed_model_opens_as_the_model_does(tmp_path, kind, top):
    path = packed_folder(tmp_path, kind, top)
    found = inspect_model(path)
    assert (found.path, found.name) == (str(path), "conv_fixed")
    expected = load_model(SAVED_MODEL)
    model = load_model(path)
    for weight, wanted in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert int(model.optimizer.iterations) == 5
    assert os.listdir(tmp_path) == [path.name]


def test_nothing_unpacked_is_left(tmp_path, monkeypatch):
    path = packed_folder(tmp_path, ".zip", "model")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    load_model(path)
    inspect_model(path)
    with pytest.raises(LegacyModelError, match="dtype_policy is for legacy"):
        load_model(packed_keras_3(tmp_path), dtype_policy="float32")
    assert list(folder.iterdir()) == []


def packed_keras_3(folder):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(folder / "new.keras")
    with zipfile.ZipFile(folder / "new.zip", "w") as archive:
        archive.write(folder / "new.keras", "deep/new.keras")
    os.remove(folder / "new.keras")
    return folder / "new.zip"


def test_a_packed_model_of_keras_3_is_opened_by_keras(tmp_path):
    assert load_model(packed_keras_3(tmp_path)).count_params() == 3


@pytest.mark.parametrize("loss", ["mse", "MAE", "kld", "binary_crossentropy"])
def test_hdf5_files_of_keras_3_open_whatever_loss_compiled_them(loss, tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", loss, metrics=["mse", "accuracy"])
    x, y = np.ones((2, 4)), np.ones((2, 1))
    expected = model.evaluate(x, y, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "m.h5")
    opened = load_model(tmp_path / "m.h5")
    assert opened.evaluate(x, y, verbose=0) == pytest.approx(expected)


def test_files_of_macos_in_a_zip_are_no_models(tmp_path):
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.write(H5, "model.h5")
        archive.writestr("__MACOSX/._model.h5", "")
        archive.writestr("._model.h5", "")
    assert inspect_model(tmp_path / "old.zip").name == "conv_fixed"


def test_a_packed_model_is_converted(tmp_path, monkeypatch, capsys):
    path = packed_folder(tmp_path, ".tar.gz", "model")
    assert convert_model(path, tmp_path / "a.keras").source.path == str(path)
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", "old.tar.gz"]) == 0
    output = ["--output-dir", "new", "--jobs", "1"]
    assert main(["convert", "old.tar.gz", *output]) == 0
    assert os.listdir("new") == ["old.keras"]


def test_an_error_names_the_file_in_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("deep/model.h5", "no model")
    problem = r"old\.zip/deep/model\.h5: no model: it begins with b'no model'"
    with pytest.raises(LegacyModelError, match=problem):
        load_model(tmp_path / "old.zip")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param([], "no model in it: no saved_model.pb", id="none"),
        pytest.param(
            ["a.h5", "deep/b.h5"], "2 models in it, expected one: 'a.h5', 'deep", id="2"
        ),
    ],
)
def test_an_archive_has_one_model(tmp_path, names, problem):
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("readme.txt", "")
        for name in names:
            archive.write(H5, name)
    with pytest.raises(LegacyModelError, match=problem):
        load_model(tmp_path / "old.zip")


def test_a_folder_may_hold_one_model_a_level_down(tmp_path):
    kaggle = tmp_path / "deep" / "kaggle"
    shutil.copytree(SAVED_MODEL, kaggle / "1")
    assert inspect_model(kaggle).name == "conv_fixed"
    assert load_model(kaggle).name == "conv_fixed"
    assert main(["inspect", str(kaggle)]) == 0
    with pytest.raises(LegacyModelError, match="a folder without saved_model.pb"):
        load_model(tmp_path)
    shutil.copy(H5, kaggle)
    model = load_model(H5)
    several = (
        r"kaggle: 2 models in it, expected one: '1', 'model.h5'\. Pass the path of"
    )
    for call in load_model, inspect_model, functools.partial(load_weights, model):
        with pytest.raises(LegacyModelError, match=several):
            call(kaggle)


WEIGHTS = legacy_files.folder("more") / "2.4.4" / "amsgrad"


@pytest.fixture
def zeros():
    """A model whose weights are zero."""
    model = load_model(WEIGHTS / "model.h5", compile=False)
    model.set_weights([0 * weight for weight in model.get_weights()])
    return model


@pytest.mark.parametrize("kind", [".zip", ".tgz"])
@pytest.mark.parametrize("name", ["weights.h5", "checkpoint", "saved_model"])
def test_weights_load_from_an_archive(tmp_path, zeros, name, kind):
    path = packed_folder(tmp_path, kind, "deep", WEIGHTS / name)
    load_weights(zeros, path)
    expected = load_model(WEIGHTS / "model.h5", compile=False).get_weights()
    for weight, wanted in zip(zeros.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)


def test_weights_load_from_the_only_file_in_a_folder(tmp_path, zeros):
    shutil.copy(WEIGHTS / "weights.h5", tmp_path)
    load_weights(zeros, tmp_path)
    assert any(weight.any() for weight in zeros.get_weights())


def test_a_file_of_keras_3_is_none_of_legacy_weights(tmp_path, zeros):
    zeros.save(tmp_path / "new.keras")
    problem = r"new\.keras: written by Keras 3.*Open it with keras.models.load_model"
    with pytest.raises(LegacyModelError, match=problem):
        load_weights(zeros, tmp_path / "new.keras")


def test_a_saved_model_that_was_not_copied_whole_is_named(tmp_path):
    shutil.copy(SAVED_MODEL / "saved_model.pb", tmp_path)
    problem = r"variables\.index is missing beside it\. Copy the whole folder"
    with pytest.raises(LegacyModelError, match=problem):
        load_model(tmp_path)


def zip_with(path, name, mode=0o644, content=b"x", times=1):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(times):
            archive.NameToInfo.clear()  # it warns of names that come twice
            info = zipfile.ZipInfo(name.format(number))
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def tar_with(path, name, kind=tarfile.REGTYPE, content=b"x", times=1):
    with tarfile.open(path, "w:gz") as archive:
        for number in range(times):
            info = tarfile.TarInfo(name.format(number))
            info.type, info.linkname, info.size = kind, "/etc/passwd", len(content)
            archive.addfile(info, io.BytesIO(content))


OUTSIDE = "its path leads out of the folder"
LINK = "it is a link or a device"
ZEROS = bytes(40_000_000)
HOSTILE = {
    "zip-above": (zip_with, {"name": "../evil.h5"}, OUTSIDE),
    "zip-absolute": (zip_with, {"name": "/tmp/evil.h5"}, OUTSIDE),
    "zip-within-above": (zip_with, {"name": "a/../../evil.h5"}, OUTSIDE),
    "zip-of-windows": (zip_with, {"name": "a\\..\\..\\evil.h5"}, OUTSIDE),
    "zip-drive": (zip_with, {"name": "C:evil.h5"}, OUTSIDE),
    "zip-link": (zip_with, {"name": "a.h5", "mode": stat.S_IFLNK | 0o777}, LINK),
    "zip-pipe": (zip_with, {"name": "a.h5", "mode": stat.S_IFIFO | 0o777}, LINK),
    "zip-bomb": (zip_with, {"name": "a.h5", "content": ZEROS}, "claims 40000000 bytes"),
    "zip-twice": (
        zip_with,
        {"name": "a.h5", "times": 2},
        "'a.h5' is in the archive twice",
    ),
    "zip-many": (
        zip_with,
        {"name": "{}.h5", "times": limits.ARCHIVE_ENTRIES + 1},
        "more than 10000 files and folders in the archive",
    ),
    "zip-deep": (zip_with, {"name": "a/" * 40 + "a.h5"}, "too long or too deep"),
    "zip-long": (zip_with, {"name": "a" * 300 + ".h5"}, "too long or too deep"),
    "tar-above": (tar_with, {"name": "../evil.h5"}, OUTSIDE),
    "tar-absolute": (tar_with, {"name": "/tmp/evil.h5"}, OUTSIDE),
    "tar-link": (tar_with, {"name": "a.h5", "kind": tarfile.SYMTYPE}, LINK),
    "tar-hard-link": (tar_with, {"name": "a.h5", "kind": tarfile.LNKTYPE}, LINK),
    "tar-device": (tar_with, {"name": "a.h5", "kind": tarfile.CHRTYPE}, LINK),
    "tar-pipe": (tar_with, {"name": "a.h5", "kind": tarfile.FIFOTYPE}, LINK),
    "tar-bomb": (tar_with, {"name": "a.h5", "content": ZEROS}, "the archive claims"),
    "tar-many": (
        tar_with,
        {"name": "{}.h5", "times": limits.ARCHIVE_ENTRIES + 1, "content": b""},
        "more than 10000 files and folders in the archive",
    ),
    "tar-header": (
        tar_with,
        {"name": "a.h5", "kind": tarfile.XHDTYPE, "content": os.urandom(9_000_000)},
        r"a header of the archive has \d+ bytes or more, expected at most 8388608",
    ),
}


@pytest.mark.once("unpacking knows no backend")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused(tmp_path, monkeypatch, case):
    write, arguments, problem = HOSTILE[case]
    path = tmp_path / "evil.zip"
    write(path, **arguments)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(LegacyModelError, match=problem) as caught:
        load_model(path)
    assert str(caught.value).startswith(str(path))
    assert sorted(os.listdir(tmp_path)) == ["evil.zip", "temporary"]
    assert list(folder.iterdir()) == []
    assert not os.path.exists("/tmp/evil.h5")


def test_a_header_that_is_read_in_pieces_has_the_same_limit(tmp_path):
    path = tmp_path / "model.tar"
    path.write_bytes(bytes(9_000_000))
    with packed.SmallReads(path) as file:
        read = functools.partial(file.read, 1_000_000)
        assert len([*iter(read, b"")]) == 9
        file.header = file.seek(500_000)
        with pytest.raises(LegacyModelError, match="has 8500000 bytes or more"):
            list(iter(read, b""))


def test_a_central_directory_that_would_fill_memory_is_refused(tmp_path):
    path = tmp_path / "evil.zip"
    zip_with(path, "{}" + "a" * 60_000, times=150, content=b"")
    with pytest.raises(LegacyModelError, match="a header of the archive has 9"):
        load_model(path)


def test_a_file_that_is_shorter_than_the_archive_says_is_refused(tmp_path):
    path = tmp_path / "short.zip"
    zip_with(path, "a.h5", content=b"x" * 100)
    data = path.read_bytes()
    size_at = data.index(b"PK\x01\x02") + 24  # in the central directory
    size = (101).to_bytes(4, "little")
    path.write_bytes(data[:size_at] + size + data[size_at + 4 :])
    with pytest.raises(LegacyModelError, match="ends in the middle of a file"):
        load_model(path)


def test_the_sum_of_all_files_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", 1000)
    path = packed_folder(tmp_path, ".zip", ".")
    with pytest.raises(LegacyModelError, match="expected at most 1000"):
        load_model(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            b"PK\x03\x04no zip", "not a readable .zip or .keras file", id="zip"
        ),
        pytest.param(b"\x1f\x8bno gzip", "corrupt", id="gzip"),
        pytest.param(
            gzip.compress(b"no tar" * 200), "without a readable .tar file", id="tar"
        ),
        pytest.param(gzip.compress(b"x" * 10_000)[:-20], "corrupt", id="cut"),
    ],
)
def test_a_damaged_archive_is_named(tmp_path, content, problem):
    path = tmp_path / "old.tgz"
    path.write_bytes(content)
    with pytest.raises(LegacyModelError, match=problem):
        load_model(path)


def test_a_sparse_file_and_an_encrypted_one_are_refused(tmp_path):
    path = tmp_path / "old.zip"
    zip_with(path, "a.h5")
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the flags of the file
    data[data.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(data)
    with pytest.raises(
        LegacyModelError, match="encrypted. Unpack it with its password"
    ):
        load_model(path)
    tar_with(path, "a.h5", kind=tarfile.GNUTYPE_SPARSE)
    with pytest.raises(LegacyModelError, match=LINK):
        load_model(path)


OPEN = """
import keras_policies, sys
model = keras_policies.load_model(sys.argv[1])
print(model.name, keras_policies.inspect_model(sys.argv[1]).path)
"""


def run(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


def write_cache(cache):
    """Write a repository into a cache as the hub does: links from names to blobs."""
    folder, commit = cache / "models--user--old", "0" * 40
    snapshot = folder / "snapshots" / commit
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    (folder / "blobs").mkdir()
    files = [path for path in SAVED_MODEL.rglob("*") if path.is_file()]
    for number, path in enumerate(files):
        blob = shutil.copy(path, folder / "blobs" / f"blob{number}")
        link = snapshot / path.relative_to(SAVED_MODEL)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (snapshot / "README.md").write_text("a model card")


@pytest.mark.posix("Windows does not let everybody create links")
@pytest.mark.slow("processes that import Keras and huggingface_hub")
@pytest.mark.once("where a file comes from")
def test_a_model_of_the_hub_opens_from_the_cache(tmp_path):
    write_cache(tmp_path)
    done = run(OPEN, "hf://user/old", HF_HUB_CACHE=str(tmp_path), HF_HUB_OFFLINE="1")
    assert done.stdout == "conv_fixed hf://user/old\n", done.stderr[-2000:]


def test_weights_load_from_the_hub(monkeypatch, zeros):
    def download(repository, allow_patterns):
        for name in "weights.index", "weights.data-00000-of-00001":
            assert any(fnmatch.fnmatch(name, each) for each in allow_patterns)
        assert repository == "user/old"
        return WEIGHTS / "checkpoint"

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    load_weights(zeros, "hf://user/old")
    assert any(weight.any() for weight in zeros.get_weights())


class Hub(http.server.BaseHTTPRequestHandler):
    """The hub, as far as a download needs it, with one repository."""

    commit = "0" * 40

    def do_GET(self):
        name = self.path.partition("?")[0]
        if name.startswith("/api/models/user/old"):
            paths = SAVED_MODEL.rglob("*.*")
            names = [path.relative_to(SAVED_MODEL).as_posix() for path in paths]
            siblings = [{"rfilename": name} for name in [*names, "README.md"]]
            found = {"id": "user/old", "sha": self.commit, "siblings": siblings}
            if "/tree/" in name:
                found = [
                    {"type": "file", "path": n, "size": 1, "oid": "0"} for n in names
                ]
            return self.answer(json.dumps(found).encode(), "application/json")
        path = SAVED_MODEL / name.partition(f"/resolve/{self.commit}/")[2]
        if not path.is_file():
            return self.send_error(404)
        return self.answer(path.read_bytes(), "application/octet-stream")

    def do_HEAD(self):
        self.do_GET()

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"' + self.path.replace("/", "") + '"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.mark.slow("processes that import Keras and huggingface_hub")
@pytest.mark.once("where a file comes from")
def test_a_model_of_the_hub_is_downloaded(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    environment = {"HF_ENDPOINT": address, "HF_HUB_CACHE": str(tmp_path)}
    try:
        done = run(OPEN, "hf://user/old", **environment)
        lost = run(OPEN, "hf://user/nothing", **environment)
    finally:
        server.shutdown()
        server.server_close()
    assert done.stdout == "conv_fixed hf://user/old\n", done.stderr[-2000:]
    assert "hf://user/nothing: it cannot be downloaded" in lost.stderr


def test_without_the_extra_the_error_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    problem = "hf://user/old: .* not installed. Run pip install huggingface_hub"
    for call in load_model, inspect_model:
        with pytest.raises(LegacyModelError, match=problem):
            call("hf://user/old")
    assert main(["convert", "hf://user/old", "new.keras"]) == 1
    assert "Run pip install huggingface_hub." in capsys.readouterr().err


OPENED = {
    "bytes": lambda path: io.BytesIO(path.read_bytes()),
    "file": lambda path: path.open("rb"),
    "h5py": lambda path: h5py.File(path, "r"),
    "h5py-of-bytes": lambda path: h5py.File(io.BytesIO(path.read_bytes()), "r"),
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_an_open_file_opens_as_the_model_does(opened):
    file = opened(H5)
    model = load_model(file)
    expected = load_model(H5).get_weights()
    for weight, wanted in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert inspect_model(file).name == "conv_fixed"
    file.close()


def test_a_file_that_was_just_written_is_read_from_its_start(tmp_path):
    file = io.BytesIO()
    file.write(packed_folder(tmp_path, ".zip", "model").read_bytes())
    assert load_model(file).name == "conv_fixed"


def test_weights_load_from_an_open_file(zeros):
    load_weights(zeros, io.BytesIO((WEIGHTS / "weights.h5").read_bytes()))
    assert any(weight.any() for weight in zeros.get_weights())


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("", r"an empty path\. Pass a path", id="empty"),
        pytest.param(b"abc", r"3 bytes, expected a file\. Pass io\.BytesIO", id="raw"),
        pytest.param(io.StringIO("a"), "open as text.*with mode 'rb'", id="text"),
        pytest.param(3, r"a builtins\.int, expected a file\. Pass a path", id="int"),
        pytest.param(None, r"a builtins\.NoneType, expected a file", id="none"),
        pytest.param(
            io.BytesIO(b"no model"), "no model: it begins with b'no model'", id="other"
        ),
        pytest.param(
            pathlib.Path("https://host/model.h5"),
            "an address as a pathlib.Path.*Pass it as a str",
            id="path",
        ),
        pytest.param("nosuch://host/m.h5", "it cannot be read: .*nosuch", id="scheme"),
        pytest.param("memory://none.h5", "there is no such file", id="missing"),
    ],
)
def test_what_is_no_model_is_refused_by_name(source, problem):
    with pytest.raises(LegacyModelError, match=problem):
        load_model(source)


def test_the_current_folder_can_be_a_model(monkeypatch):
    monkeypatch.chdir(SAVED_MODEL)
    assert load_model(".").name == "conv_fixed"


def test_a_group_of_an_h5_file_is_refused_by_name():
    with h5py.File(H5, "r") as file:
        problem = r"an h5py\.Group, expected an h5py\.File\. Pass its \.file"
        with pytest.raises(LegacyModelError, match=problem):
            load_model(file["model_weights"])


@pytest.fixture
def memory():
    """A file system of fsspec without files."""
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.mark.parametrize("source", [SAVED_MODEL, H5], ids=["folder", "file"])
def test_a_model_opens_at_an_address(memory, source):
    memory.put(str(source), "/bucket/old", recursive=True)
    assert inspect_model("memory://bucket/old").path == "memory://bucket/old"
    model = load_model("memory://bucket/old")
    expected = load_model(source).get_weights()
    for weight, wanted in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)


def test_an_archive_opens_at_an_address(memory, tmp_path):
    path = packed_folder(tmp_path, ".tar.xz", "model")
    memory.put(str(path), "/old.tar.xz")
    assert load_model("memory://old.tar.xz").name == "conv_fixed"


def test_more_than_the_limit_is_not_downloaded(memory, monkeypatch):
    memory.put(str(H5), "/old.h5")
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", 1000)
    with pytest.raises(LegacyModelError, match="more than 1000 bytes at the address"):
        load_model("memory://old.h5")


class Growing(io.RawIOBase):
    """A file that somebody writes to for as long as it is read."""

    def read(self, size=-1):
        return b"\x89HDF\r\n\x1a\n" * (size // 8)


def test_a_file_without_end_is_read_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", 10_000_000)
    with pytest.raises(LegacyModelError, match="more than 10000000 bytes in the file"):
        load_model(Growing())


def test_a_folder_of_several_models_at_an_address_is_refused_with_their_names(memory):
    for name in ("a.h5", "b.h5"):
        memory.put(str(H5), f"/bucket/{name}")
    with pytest.raises(LegacyModelError, match=r"^memory://bucket: 2 models in it"):
        load_model("memory://bucket")


REDIRECTS = {
    **{"/to": "/old.h5", "/round": "/round"},
    **{"/away": f"file://{H5}", "/ftp": "ftp://host/a.h5"},
}


class Site(http.server.BaseHTTPRequestHandler):
    """A host of models; some of its answers do not end, or not as they say."""

    is_given_up = threading.Event()

    def do_GET(self):
        path, content = self.path.partition("?")[0], H5.read_bytes()
        if path in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[path])
            self.end_headers()
            return
        if path == "/list/":
            content = b'<a href="old.h5">old.h5</a>'
        if path == "/packed.h5":
            content = gzip.compress(content)
        known = ("/old.h5", "/list/", "/short.h5", "/endless.h5", "/packed.h5", "/slow")
        self.send_response(200 if path in known else 404)
        if path == "/packed.h5":
            self.send_header("Content-Encoding", "gzip")
        if path != "/endless.h5":
            more = 9 if path == "/short.h5" else 0
            self.send_header("Content-Length", len(content) + more)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            for _ in range(6_000 if path == "/slow" else 0):
                if self.is_given_up.wait(0.05):
                    break
                self.wfile.write(b"a")
            while path in known:
                self.wfile.write(content)
                if path != "/endless.h5":
                    break

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    """The address of a host."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["/old.h5", "/old.h5?token=1", "/to"])
def test_a_model_opens_at_the_address_of_a_host(site, path):
    expected = load_model(H5).get_weights()
    model = load_model(site + path)
    for weight, wanted in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/none.h5", r"/none.h5: there is no such file .* Check the address and your"),
        ("/round", "/round: it cannot be read: .*infinite loop"),
        (
            "/away",
            "/away: it cannot be read: .*Redirection to url 'file://.* not allow",
        ),
        ("/ftp", "/ftp: the host redirects to 'ftp://host/a.h5', expected an address"),
        ("/packed.h5", r"/packed.h5: the host packs the file .*gzip'\), although"),
        ("/short.h5", "/short.h5: it cannot be read: EOFError: it ends 9 bytes too"),
        ("/list/", "/list/: no model: it begins with b'<a href"),
        ("/endless.h5", "/endless.h5: the file has more than 10000000 bytes at the"),
    ],
)
def test_what_a_host_answers_is_refused_by_name(site, path, problem, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_BYTES", 10_000_000)
    with pytest.raises(LegacyModelError, match=f"^{site}{problem}"):
        load_model(site + path)


def test_a_host_that_sends_a_byte_now_and_then_is_not_waited_for(site, monkeypatch):
    monkeypatch.setattr(limits, "DOWNLOAD_SECONDS", 0.4)
    problem = r"/slow: \d+ bytes came in \d+ s, expected"
    with pytest.raises(LegacyModelError, match=problem):
        load_model(f"{site}/slow")
    Site.is_given_up.set()


def test_a_host_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(limits, "DOWNLOAD_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/old.h5"
        with pytest.raises(LegacyModelError, match=r"0 bytes came in \d+ s, expect"):
            load_model(address)


def test_a_name_and_a_password_are_sent_to_the_host_alone():
    request = downloads._request("https://me:a%20b@host/a%20b c?x=1#part")
    assert request.full_url == "https://host/a%20b%20c?x=1"
    assert request.unredirected_hdrs == {"Authorization": "Basic bWU6YSBi"}
    assert request.headers == {"Accept-encoding": "identity"}


@pytest.mark.parametrize("scheme", ["file", "local", "FILE"])
def test_a_file_address_is_read_as_the_path_in_it(scheme):
    assert inspect_model(f"{scheme}://{H5}").path == f"{scheme}://{H5}"
    with pytest.raises(LegacyModelError, match="did you mean|Pass the folder"):
        inspect_model(f"{scheme}://{SAVED_MODEL / 'saved_model.pb'}")


@pytest.mark.posix("Windows does not let everybody create links")
@pytest.mark.parametrize("scheme", ["file://", "local://", ""])
def test_no_address_follows_a_link_out_of_a_folder(tmp_path, monkeypatch, scheme):
    folder = tmp_path / "model"
    shutil.copytree(SAVED_MODEL, folder)
    (folder / "saved_model.pb").rename(tmp_path / "secret")
    (folder / "saved_model.pb").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(tmp_path)
    for path in (folder, "model"):
        with pytest.raises(LegacyModelError, match="a link to a file outside of"):
            load_model(f"{scheme}{path}")


@pytest.mark.posix("Windows has no FIFOs")
@pytest.mark.parametrize("scheme", ["file://", "local://", ""])
def test_no_address_opens_a_named_pipe(tmp_path, scheme):
    os.mkfifo(tmp_path / "model.h5")
    with pytest.raises(LegacyModelError, match=r"a named pipe \(FIFO\), expected"):
        load_model(f"{scheme}{tmp_path / 'model.h5'}")


def test_several_addresses_in_one_are_refused():
    with pytest.raises(LegacyModelError, match="several addresses in one"):
        load_model(f"simplecache::file://{H5}")


def test_an_address_without_fsspec_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(LegacyModelError, match="Run pip install fsspec"):
        load_model("s3://bucket/model")


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("xz", lzma.compress(b"x" * 10_000)[:-20], "ends in the middle"),
        ("xz", 2 * lzma.compress(b"x"), r"several \.xz streams.*xz -d"),
        ("xz", lzma.compress(b"no tar" * 200), r"without a readable \.tar file"),
        ("bz2", bz2.compress(b"x" * 10_000)[:-20], "corrupt"),
        ("bz2", bz2.compress(b"x" * 10**8), "the archive claims"),
        ("xz", lzma.compress(b"x" * 10**8), "the archive claims"),
    ],
)
def test_a_damaged_xz_or_bz2_file_is_named(tmp_path, kind, content, problem):
    path = tmp_path / f"old.tar.{kind}"
    path.write_bytes(content)
    with pytest.raises(LegacyModelError, match=problem):
        load_model(path)


def test_an_xz_file_that_needs_much_memory_is_refused(tmp_path, monkeypatch):
    path = packed_folder(tmp_path, ".tar.xz", "model")
    monkeypatch.setattr(limits, "XZ_BYTES", 2**16)
    with pytest.raises(LegacyModelError, match="Memory usage limit"):
        load_model(path)
