"""Ctrl-C and signals end a command and its processes, and leave no temporary files."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref

import legacy_files
import pytest

from keras_policies._common import leftovers
from keras_policies.cli import signals

pytestmark = pytest.mark.once("processes of their own")
PROC = pathlib.Path("/proc")
ROOT = str(pathlib.Path(__file__).parents[2])
# Waits where its config is saved, with the new file beside the destination.
WAITING = """
import glob, time, keras, legacy_files
class Scale(legacy_files.Scale):
    def get_config(self):
        if found := glob.glob("new/.*") + glob.glob(".*"):
            open(f"waiting{len(found)}", "w").close()
            time.sleep(3600)
        return super().get_config()
"""
ONE = ["a.h5", "new.keras"], "waiting1"
MANY = ["a.h5", "b.h5", "c.h5", "--output-dir", "new", "--jobs", "2"], "waiting2"
REST = ". Run the command again with --skip-existing to convert the rest."


@pytest.fixture(autouse=True)
def _not_ignored():
    """Let processes get signals that the tests were started without (`nohup ... &`)."""
    names = [name for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    before = [signal.signal(n, signal.default_int_handler) for n in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def folder():
    """Yield a folder with a short path, so that there can be sockets in it."""
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(os.path.realpath(name))


@contextlib.contextmanager
def converting(folder, arguments, waiting):
    """Yield a process that converts models with `Scale`, once it waits in them."""
    for name in "abc":
        source = legacy_files.folder("more") / "2.4.4/custom_layer/model.h5"
        shutil.copy(source, folder / f"{name}.h5")
    (folder / "slowly.py").write_text(WAITING)
    (folder / "t").mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "keras_policies_cli", "convert"]
    paths = os.pathsep.join([ROOT, os.path.dirname(legacy_files.__file__)])
    with subprocess.Popen(
        [*command, *arguments, "--custom-objects", "Scale=slowly:Scale"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(folder / "t")},
    ) as process:
        try:
            while not (folder / waiting).exists() and process.poll() is None:
                time.sleep(0.1)
            yield process
        finally:
            process.kill()


def processes_in(folder):
    """Return the commands of processes that work in a folder."""
    found = []
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_bytes())
    return found


def left_in(folder):
    """Return the temporary files and folders that are left."""
    hidden = [*folder.glob(".*"), *folder.glob("new/*"), *folder.glob("t/*")]
    return [str(path.relative_to(folder)) for path in hidden]


@pytest.mark.slow("processes that import Keras")
@pytest.mark.parametrize("command", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("SIGINT", "interrupted", 130),
        ("SIGTERM", "ended by SIGTERM", 143),
        ("SIGHUP", "ended by SIGHUP", 129),
    ],
)
def test_a_signal_ends_all_processes_and_leaves_no_file(
    name, said, code, command, folder
):
    if not hasattr(signal, name):
        pytest.skip("this system does not have the signal")
    with converting(folder, *command) as process:
        process.send_signal(getattr(signal, name))
        printed = process.communicate()[1]
    rest = REST if command is MANY else ""
    assert printed.splitlines()[-1] == f"keras-policies: {said}{rest}"
    assert "Traceback" not in printed
    assert process.returncode == code
    assert left_in(folder) == []


@pytest.mark.slow("processes that import Keras")
@pytest.mark.skipif(not PROC.exists(), reason="lists the processes of Linux")
@pytest.mark.parametrize("command", [ONE, MANY], ids=["one", "many"])
def test_processes_end_when_their_parent_was_killed(command, folder):
    with converting(folder, *command) as process:
        assert len(processes_in(folder)) >= (3 if command is MANY else 1)
        process.kill()
    while processes_in(folder):  # pytest's own limit ends this
        time.sleep(0.1)
    if command is ONE:
        assert left_in(folder) != []
        leftovers.remove_from(folder)  # as the next run does
    assert left_in(folder) == []


@pytest.mark.posix("signals of other processes")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_is_raised_again_if_python_drops_the_first(monkeypatch):
    monkeypatch.setattr(signals, "AGAIN", 1)
    dropped = set()
    kept = weakref.ref(dropped, lambda _: signal.raise_signal(signal.SIGTERM))

    @signals.raised()
    def drop():
        nonlocal dropped
        dropped = None
        assert kept() is None
        time.sleep(3600)

    with pytest.raises(signals.Ended, match="SIGTERM"):
        drop()
    assert signal.alarm(0) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
