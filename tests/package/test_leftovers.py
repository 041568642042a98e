"""Temporary folders of processes that were killed are removed by the next one."""

import os
import subprocess
import sys

import pytest

from keras_policies._common import leftovers

pytestmark = pytest.mark.once("no Keras", for_all_keras=True)
OLD = leftovers.DAY + 60


@pytest.fixture
def ended():
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


@pytest.mark.skipif(sys.platform == "win32", reason="cannot ask for a process")
def test_a_folder_of_an_ended_process_is_removed(tmp_path, ended):
    own = tmp_path / f"{leftovers.prefix()}0123abc_"
    left = tmp_path / own.name.replace(f"-{os.getpid()}-", f"-{ended}-")
    impossible = tmp_path / own.name.replace(f"-{os.getpid()}-", f"-{10**30}-")
    for folder in own, left, impossible:
        folder.mkdir()
        (folder / "new.keras").touch()
    leftovers.remove_from(tmp_path)
    assert [*tmp_path.iterdir()] == [own]


@pytest.mark.parametrize(
    ("age", "stays"), [(0, True), (OLD, False)], ids=["new", "old"]
)
def test_a_folder_of_another_computer_is_removed_after_a_day(
    tmp_path, ended, age, stays
):
    folder = tmp_path / f".kp-00000000-{ended}-0123abcd"
    folder.mkdir()
    now = folder.stat().st_mtime
    os.utime(folder, (now - age, now - age))
    leftovers.remove_from(tmp_path)
    assert folder.exists() == stays


def test_nothing_else_is_removed(tmp_path, ended):
    name = f"{leftovers.prefix()}0123abc_".replace(f"-{os.getpid()}-", f"-{ended}-")
    (tmp_path / name).touch()  # a file
    for other in ".kp-0123abcd", f"x{name}", f"{name}.keras":
        (tmp_path / other).mkdir()
        os.utime(tmp_path / other, (0, 0))
    leftovers.remove_from(tmp_path)
    assert len([*tmp_path.iterdir()]) == 4
