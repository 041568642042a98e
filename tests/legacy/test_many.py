"""Many files, some of which fail or end the process that converts them."""

import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

import keras
import legacy_files
import pytest

from keras_policies.cli import many, tasks

ROOT = str(pathlib.Path(__file__).parents[2])
MODELS = legacy_files.CORPUS / "2.4.4"
GOOD = str(MODELS / "func_multi_io" / "model.h5")
BAD = str(MODELS / "func_multi_io" / "expected.npz")  # no model
CUSTOM = str(legacy_files.folder("more") / "2.4.4" / "custom_layer" / "model.h5")


def ends():
    """Stands for a file that the system ends the process for."""
    os._exit(1)


def conversion(source, destination, custom_objects=dict):
    options = {"overwrite": False, "plain": False}
    return tasks.Conversion(source, destination, options, custom_objects, True)


@pytest.mark.parametrize("processes", [1, 2])
def test_outcomes_come_in_order_whatever_fails(tmp_path, processes):
    targets = [tmp_path / "new" / f"{number}.keras" for number in range(3)]
    given = [
        conversion(*pair) for pair in zip([BAD, GOOD, CUSTOM], targets, strict=True)
    ]
    bad, good, custom = many.run(given, processes, "Converting")
    assert [item.has_failed for item in (bad, good, custom)] == [True, False, True]
    assert "expected.npz" in bad.error
    assert "classes that Keras 3 does not have:\n  Scale" in custom.error
    assert good.as_dict() == {
        "path": GOOD,
        "status": "converted",
        "error": None,
        "code": None,
        "destination": str(targets[1]),
        "outcome": "complete",
        "parts": (),
        "largest_difference": None,
        "allowed_difference": None,
        "graph_difference": None,
        "not_checked": "only a SavedModel has one",
        "checked_on": None,
        "plain_difference": None,
        "not_plain": "it was not requested",
        "texts": None,
    }
    assert bad.as_dict().keys() == good.as_dict().keys()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["1.keras"]
    assert keras.models.load_model(targets[1], compile=False).count_params() == 245


def test_errors_of_a_process_name_options(tmp_path):
    custom = conversion(CUSTOM, tmp_path / "a.keras")
    (here,) = many.run([custom], 1, "Converting")
    assert "custom_objects={'Scale': ...}" in here.error
    good = conversion(GOOD, tmp_path / "b.keras")
    there, _ = many.run([custom, good], 2, "Converting")
    assert "--custom-objects Scale=MODULE:NAME" in there.error


def test_a_process_that_ends_takes_no_other_file_with_it(tmp_path):
    good = conversion(GOOD, tmp_path / "0.keras")
    last = conversion(BAD, tmp_path / "2.keras", ends)
    outcomes = many.run([last, good], 2, "Converting")
    assert outcomes[0].error == f"{BAD}: {many.ENDED}"
    assert outcomes[1].details["destination"] == str(tmp_path / "0.keras")


class EndsOnce(tasks.Conversion):
    """A conversion whose process ends when it has written its file, the first time."""

    def run(self):
        outcome = super().run()
        marker = self.destination.with_suffix(".once")
        if not marker.exists():
            marker.touch()
            os._exit(1)
        return outcome


def test_a_file_that_was_written_when_its_process_ended_is_written_again(tmp_path):
    once = EndsOnce(**vars(conversion(GOOD, tmp_path / "0.keras")))
    (outcome,) = many.run([once], 2, "Converting")
    assert (tmp_path / "0.once").exists()
    assert outcome.details["destination"] == str(tmp_path / "0.keras")


class Terminated:
    """Gets SIGTERM in its destructor, where Python drops what a handler raises."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


class LosesOnce(tasks.Conversion):
    """A conversion whose process loses a signal to end, the first time."""

    def run(self):
        marker = self.destination.with_suffix(".once")
        if not marker.exists():
            marker.touch()
            many.GRACE = 1
            Terminated()
            time.sleep(3600)
        return super().run()


@pytest.mark.posix("signals of other processes")
def test_a_process_ends_although_python_drops_what_its_handler_raised(tmp_path):
    once = LosesOnce(**vars(conversion(GOOD, tmp_path / "0.keras")))
    (outcome,) = many.run([once], 2, "Converting")
    assert (tmp_path / "0.once").exists()
    assert outcome.details["destination"] == str(tmp_path / "0.keras")


def test_a_file_that_was_there_before_is_not_written_over(tmp_path):
    once = EndsOnce(**vars(conversion(GOOD, tmp_path / "0.keras")))
    once.destination.write_bytes(b"somebody's")
    (outcome,) = many.run([once], 2, "Converting")
    assert "exists" in outcome.error
    assert once.destination.read_bytes() == b"somebody's"


def test_custom_objects_are_made_in_the_process_that_converts(tmp_path):
    objects = functools.partial(dict, Scale=legacy_files.Scale)
    given = [conversion(CUSTOM, tmp_path / "a.keras", objects)]
    (outcome,) = many.run(given, 1, "Converting")
    assert not outcome.has_failed


def test_a_file_of_keras_3_is_no_failure(tmp_path):
    new = tmp_path / "new.keras"
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(new)
    (outcome,) = many.run([tasks.Inspection(str(new))], 1, "Inspecting")
    assert outcome.status == "keras_3"
    assert not outcome.has_failed
    assert outcome.as_dict()["path"] == str(new)
    assert "written by Keras 3" in outcome.as_dict()["error"]


@pytest.mark.slow("processes that import Keras")
@pytest.mark.once("processes of their own")
def test_a_long_path_of_temporary_files_is_no_obstacle(tmp_path):
    """Sockets have short paths: a server of forks could not be reached there."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    other = str(MODELS / "rnn_dynamic" / "model.h5")
    files = GOOD, other, "--output-dir", str(tmp_path / "new")
    done = subprocess.run(
        [sys.executable, "-m", "keras_policies_cli", "convert", *files, "--jobs", "2"],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_no_more_processes_are_started_than_the_system_can_await(monkeypatch):
    asked = []
    monkeypatch.setattr(many, "MOST", 61)
    monkeypatch.setattr(
        many, "ProcessPoolExecutor", lambda count, *_: asked.append(count) or 1 / 0
    )
    for processes in 4, 200:
        with pytest.raises(ZeroDivisionError):
            many.run([tasks.Inspection(GOOD)], processes, "Inspecting")
    assert asked == [4, 61]
