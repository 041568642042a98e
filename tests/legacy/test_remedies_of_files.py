"""Follows the advice about files that are packed, broken, or only a part of a model."""

import gzip
import http.server
import io
import lzma
import os
import pathlib
import shutil
import sys
import tarfile
import threading
import urllib.request
import zipfile

import fsspec
import h5py
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, convert_model, load_model, load_weights
from keras_policies._common import files
from keras_policies.cli.main import main

AMSGRAD = legacy_files.folder("more") / "2.4.4" / "amsgrad"
H5, SAVED_MODEL = AMSGRAD / "model.h5", AMSGRAD / "saved_model"
ARCHIVE = legacy_files.CORPUS / "2.15.1" / "seq_dense" / "model.keras"
pytestmark = pytest.mark.once("where a file comes from matters to no backend")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def opens(path):
    """Return whether a model opens and can be called."""
    model = load_model(path, compile=False)
    x = np.ones((2, *model.inputs[0].shape[1:]), "float32")
    found = keras.ops.convert_to_numpy(model(x)).astype("float32")
    return bool(np.isfinite(found).all())


def refused(advice, path):
    """Open a path, which has to end in an error with this advice."""
    with pytest.raises(LegacyModelError, match=advice):
        load_model(path)


def copied(source, folder):
    """Return the path of a copy of a file or a folder."""
    path = folder / source.name
    if source.is_file():
        shutil.copy(source, path)
    else:
        shutil.copytree(source, path)
    return path


def test_a_model_is_passed_in_place_of_what_was_made_of_it(tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    advice = "Lite model, .* Pass the model that it was converted from"
    refused(advice, tmp_path / "model.tflite")
    assert opens(H5)


@pytest.mark.parametrize("package", ["fsspec", "huggingface_hub"])
def test_what_needs_another_package_is_downloaded_by_hand(
    package, tmp_path, monkeypatch
):
    address = "memory://advised/model.h5" if package == "fsspec" else "hf://user/old"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, package, None)
        refused(f"Run pip install {package}", address)
    if package == "huggingface_hub":
        found = copied(SAVED_MODEL, tmp_path)
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: found)
        assert opens(address)
        return
    system = fsspec.filesystem("memory")
    system.pipe("/advised/model.h5", H5.read_bytes())
    try:
        system.get("/advised/model.h5", str(tmp_path / "model.h5"))
        assert opens(tmp_path / "model.h5")
        assert opens(address)
    finally:
        system.rm("/advised", recursive=True)


@pytest.mark.parametrize("name", ["aux.keras", "folder.keras"])
def test_a_file_is_written_under_another_name(name, tmp_path, monkeypatch):
    (tmp_path / "folder.keras").mkdir()
    with monkeypatch.context() as windows:
        windows.setattr(files, "IS_WINDOWS", name == "aux.keras")
        with pytest.raises(LegacyModelError, match="Choose another name"):
            convert_model(H5, tmp_path / name, plain=False)
    with pytest.raises(LegacyModelError, match="no folder .* Create it first"):
        convert_model(H5, tmp_path / "new" / "new.keras", plain=False)
    (tmp_path / "new").mkdir()
    convert_model(H5, tmp_path / "new" / "new.keras", plain=False)
    assert opens_in_keras(tmp_path / "new" / "new.keras")


VARIABLES = pathlib.Path("variables")
INDEX, DATA = VARIABLES / "variables.index", VARIABLES / "variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("source", "part", "content", "advice"),
    [
        (H5, "", POINTER, "Run git lfs pull in the clone, or download the file"),
        (ARCHIVE, "", POINTER, "Run git lfs pull in the clone"),
        (SAVED_MODEL, "saved_model.pb", POINTER, "Run git lfs pull in the clone"),
        (SAVED_MODEL, INDEX, POINTER, "Run git lfs pull in the clone"),
        (SAVED_MODEL, DATA, POINTER, "Run git lfs pull in the clone"),
        (H5, "", 0.5, "Copy it again from its source"),
        (ARCHIVE, "", 0.5, "Copy (it|the file) again"),
        (SAVED_MODEL, "saved_model.pb", 0.5, "Copy the file again"),
        (SAVED_MODEL, INDEX, 0.5, "Copy the file again"),
        (SAVED_MODEL, INDEX, None, "Copy the whole folder of the model"),
        (SAVED_MODEL, DATA, None, "Copy all files of the checkpoint, not only the in"),
        (SAVED_MODEL, DATA, "flip", "checksum of .* does not match.* Copy the file ag"),
    ],
)
def test_a_broken_part_is_copied_again(source, part, content, advice, tmp_path):
    path = copied(source, tmp_path)
    file, whole = path / part if part else path, (source / part).read_bytes()
    if content is None:
        file.unlink()
    elif content == "flip":  # the lowest bit of a weight
        file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    else:
        cut = int(len(whole) * content) if isinstance(content, float) else None
        file.write_bytes(content if cut is None else whole[:cut])
    refused(advice, path)
    file.write_bytes(whole)
    assert opens(path)


def zipped(path, names):
    """Return a zip with the same model under each of some names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.write(H5, name)
    return path


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (["a.h5", "b.h5"], "2 models in it.* Unpack it, and pass the path of one"),
        (["../model.h5"], "If you trust it, unpack it, and pass the model in it"),
        (["aux.h5"], "Unpack it under another name, and pass the model in it"),
    ],
    ids=["two-models", "outside", "name-of-windows"],
)
def test_an_archive_is_unpacked_by_hand(names, advice, tmp_path, monkeypatch):
    path = zipped(tmp_path / "old.zip", names)
    with monkeypatch.context() as windows:
        windows.setattr(files, "IS_WINDOWS", names == ["aux.h5"])
        refused(advice, path)
    with zipfile.ZipFile(path) as archive:
        (tmp_path / "by_hand.h5").write_bytes(archive.read(names[0]))
    assert opens(tmp_path / "by_hand.h5")


def test_several_streams_of_xz_are_unpacked_by_hand(tmp_path):
    with tarfile.open(tmp_path / "old.tar", "w") as archive:
        archive.add(H5, "model.h5")
    content = (tmp_path / "old.tar").read_bytes()
    halves = content[: len(content) // 2], content[len(content) // 2 :]
    path = tmp_path / "old.tar.xz"
    path.write_bytes(b"".join(map(lzma.compress, halves)))
    (tmp_path / "old.tar").unlink()
    refused(r"Unpack it \(tar -xf or xz -d\), and pass the model in it", path)
    with tarfile.open(path) as archive:  # as tar -xf does
        archive.extractall(tmp_path, **legacy_files.AS_DATA)
    assert opens(tmp_path / "model.h5")


def test_an_encrypted_archive_is_unpacked_with_its_password(tmp_path):
    path = legacy_files.FOLDER / "encrypted.zip"
    refused("encrypted. Unpack it with its password", path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path, pwd=b"secret")
    assert opens(tmp_path / "model.h5")


def repacked(source, path, **filters):
    """Copy an H5 file, and pack its weights anew, as h5repack does."""
    shutil.copy(source, path)
    with h5py.File(path, "r+") as file:
        found = []
        group = file["model_weights"]
        group.visit(found.append)
        for name in [x for x in found if isinstance(group[x], h5py.Dataset)]:
            values = group[name][()]
            del group[name]
            group.create_dataset(name, data=values, chunks=values.shape, **filters)
    return path


def test_weights_with_other_filters_are_unpacked(tmp_path):
    path = repacked(H5, tmp_path / "packed.h5", scaleoffset=4)
    refused("Unpack it with `h5repack -f NONE`", path)
    assert opens(repacked(path, tmp_path / "plain.h5"))


def test_what_is_no_path_is_passed_as_one(tmp_path):
    content = H5.read_bytes()
    refused(r"Pass io.BytesIO\(...\) of them", content)
    assert opens(io.BytesIO(content))
    path = copied(H5, tmp_path)
    refused(r"Pass os.fsdecode\(path\)", os.fsencode(path))
    assert opens(os.fsdecode(os.fsencode(path)))
    with path.open(encoding="latin-1") as file:
        refused("Open it with mode 'rb'", file)
    with path.open("rb") as file:
        assert opens(file)
    with h5py.File(path, "r") as file:
        refused("Pass its .file, if that is the model", file["model_weights"])
        assert opens(file["model_weights"].file)


def test_the_address_of_an_archive_is_passed_by_itself(tmp_path):
    system = fsspec.filesystem("memory")
    path = zipped(tmp_path / "old.zip", ["model.h5"])
    system.pipe("/advised/old.zip", path.read_bytes())
    try:
        advice = "Pass the address of the file or the archive itself"
        refused(advice, "zip://model.h5::memory://advised/old.zip")
        assert opens("memory://advised/old.zip")
    finally:
        system.rm("/advised", recursive=True)


class Host(http.server.BaseHTTPRequestHandler):
    """Gives a packed model, and only to those who know its password a plain one."""

    def do_GET(self):
        if self.path == "/private.h5" and "Authorization" not in self.headers:
            return self.send_error(401)
        is_packed = self.path == "/packed.h5"
        content = gzip.compress(H5.read_bytes()) if is_packed else H5.read_bytes()
        self.send_response(200)
        if is_packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def host():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_a_host_refuses_is_asked_for_otherwise(host, tmp_path):
    address = f"http://{host}/packed.h5"
    refused("Download it yourself, unpack it, and pass its path", address)
    with urllib.request.urlopen(address) as answer:
        (tmp_path / "model.h5").write_bytes(gzip.decompress(answer.read()))
    assert opens(tmp_path / "model.h5")
    refused("Check the address and your access to it", f"http://{host}/private.h5")
    assert opens(f"http://me:secret@{host}/private.h5")
    for shorten in pathlib.PurePosixPath, pathlib.PureWindowsPath:
        refused("Pass it as a str", shorten(f"http://{host}/model.h5"))
    assert opens(f"http://{host}/model.h5")


def test_a_checkpoint_is_named_without_its_ending(tmp_path):
    path = copied(AMSGRAD / "checkpoint", tmp_path)
    model = load_model(H5, compile=False)
    (index,) = path.glob("*.index")
    prefix = str(index.with_suffix(""))
    with pytest.raises(LegacyModelError, match="did you mean") as caught:
        load_weights(model, index)
    assert repr(prefix) in str(caught.value)
    model.set_weights([0 * weight for weight in model.get_weights()])
    load_weights(model, prefix)
    assert any(weight.any() for weight in model.get_weights())


@pytest.mark.parametrize("passes", ["h5", "weights"])
def test_the_search_through_a_folder_says_what_to_do_with_the_rest(
    passes, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    old = tmp_path / "old"
    old.mkdir()
    zipped(old / "packed.zip", ["model.h5"])
    with h5py.File(H5) as file:
        (old / "model.json").write_text(file.attrs["model_config"])
    shutil.copy(AMSGRAD / "weights.h5", tmp_path)
    (old / "pointer.h5").write_bytes(POINTER)
    assert main(["inspect", "old", "--recursive"]) != 0
    said = capsys.readouterr()
    said = said.out + said.err
    assert "Pass its path, or a glob that matches it" in said
    assert "Convert it alone, with --weights" in said
    assert "Run git lfs pull in the clone" in said
    if passes == "h5":
        command = ["convert", "old/packed.zip", "new.keras", "--no-plain"]
    else:
        command = ["convert", "old/model.json", "new.keras", "--no-plain"]
        command += ["--weights", "weights.h5"]
    assert main(command) == 0
    assert opens_in_keras(tmp_path / "new.keras")


def opens_in_keras(path):
    model = keras.models.load_model(path, compile=False)
    return bool(np.isfinite(model.predict_on_batch(np.ones((2, 4)))).all())
