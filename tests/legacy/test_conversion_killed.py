"""`convert` leaves a whole file or none, whatever happens to it."""

import contextlib
import errno
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import zipfile

import keras
import legacy_files
import pytest

from keras_policies import LegacyModelError, convert_model

pytestmark = [
    pytest.mark.once("processes on numpy"),
    pytest.mark.slow("processes; Keras on numpy needs jax"),
    pytest.mark.posix("it forks, and kills"),
]
# KILLS=100 for the long form.
KILLS = int(os.environ.get("KILLS", "6"))
SOURCE = legacy_files.folder("more") / "2.15.1" / "amsgrad"
# Forks itself for every conversion, so that Keras is imported once.
SERVER = """
import os, sys
import keras_policies
keras_policies.convert_model(sys.argv[1], sys.argv[2] + ".warm.keras")
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        keras_policies.convert_model(sys.argv[1], sys.argv[2], overwrite=True)
        os._exit(0)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


def digest(path):
    """Return a digest of all files below a path, with their names and times."""
    path = pathlib.Path(path)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        found.update(f"{file} {file.stat().st_mtime_ns}".encode() + content)
    return found.hexdigest()


def is_whole(path):
    with zipfile.ZipFile(path) as archive:
        names = ["metadata.json", "config.json", "model.weights.h5"]
        return archive.testzip() is None and archive.namelist() == names


@pytest.fixture
def server(tmp_path):
    """Forks a conversion for each line; it runs on numpy, which has no threads."""
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    environment["PYTHONPATH"] = str(pathlib.Path(__file__).parents[2])
    command = [sys.executable, "-W", "ignore", "-c", SERVER]
    arguments = [str(SOURCE / "model.keras"), str(tmp_path / "new.keras")]
    with subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def converted(server, seconds=None):
    """Convert in a fork, killed after some seconds; return how long it took."""
    server.stdin.write("go\n")
    child, start = int(server.stdout.readline()), time.perf_counter()
    if seconds is not None:
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):  # it was done
            os.kill(child, signal.SIGKILL)
    status = int(server.stdout.readline())
    assert status in ((0,) if seconds is None else (0, signal.SIGKILL))
    return time.perf_counter() - start


def test_killed_at_any_moment_it_leaves_a_whole_file_or_none(server, tmp_path):
    rng, new = random.Random(0), tmp_path / "new.keras"
    before, whole = digest(SOURCE / "model.keras"), converted(server)
    for number in range(KILLS):
        existed = number % 2 == 0
        if not existed:
            new.unlink(missing_ok=True)
        converted(server, rng.random() * whole * 1.2)
        assert not (existed and not new.exists())
        if new.exists():
            assert is_whole(new)
        else:
            converted(server)
    assert is_whole(new)
    assert digest(SOURCE / "model.keras") == before


def test_the_source_is_not_written(tmp_path):
    before = digest(SOURCE)
    for form in "saved_model", "model.h5", "model.keras":
        convert_model(SOURCE / form, tmp_path / f"{form}.keras")
    assert digest(SOURCE) == before


def test_a_destination_that_is_the_source_is_replaced_only_if_told(tmp_path):
    path = tmp_path / "model.keras"
    path.write_bytes((SOURCE / "model.keras").read_bytes())
    before = digest(path)
    with pytest.raises(LegacyModelError, match="it already exists"):
        convert_model(path, path)
    assert digest(path) == before
    convert_model(path, path, overwrite=True)
    assert keras.models.load_model(path, compile=False).count_params() == 37


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    class FullDisk(zipfile.ZipFile):
        def writestr(self, *args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        open = writestr

    new = tmp_path / "new.keras"
    new.write_bytes(b"precious")
    monkeypatch.setattr(zipfile, "ZipFile", FullDisk)
    with pytest.raises(LegacyModelError, match="cannot be written: .*No space left"):
        convert_model(SOURCE / "model.h5", new, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["new.keras"]
    assert new.read_bytes() == b"precious"


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    if os.geteuid() == 0:  # to whom no folder is closed

        def closed(path, mode=0o777):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

        monkeypatch.setattr(os, "mkdir", closed)
    with pytest.raises(LegacyModelError, match="is not writable: .*denied"):
        convert_model(SOURCE / "model.h5", folder / "new.keras")
    assert list(folder.iterdir()) == []
