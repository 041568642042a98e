"""How the process was started decides when Keras is imported, and on which backend."""

import importlib.util
import os
import sys

import pytest

from keras_policies._common import keras_names
from keras_policies.cli import startup


@pytest.mark.parametrize(
    ("argv", "original", "expected"),
    [
        (["/venv/bin/keras-policies", "inspect"], ["python"], True),
        (["keras-policies.exe"], ["python"], True),
        (
            ["-m", "inspect", "x"],
            ["python", "-m", "keras_policies", "inspect", "x"],
            True,
        ),
        (["-m"], ["python", "-W", "ignore", "-mkeras_policies"], True),
        (["-m"], ["python", "-m", "training"], False),
        (["-m", "keras_policies"], ["python", "-m", "pdb", "keras_policies"], False),
        (["keras-policies.py"], ["python", "keras-policies.py"], False),
        (["train.py", "keras-policies"], ["python", "train.py"], False),
        (["-c"], ["python", "-c", "import keras_policies"], False),
        ([], ["python"], False),
    ],
)
def test_only_the_command_line_imports_keras_late(
    monkeypatch, argv, original, expected
):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", original)
    assert startup.is_command() == expected


@pytest.fixture
def backends(monkeypatch):
    """Return a function that says which backends are installed."""
    monkeypatch.setattr(keras_names, "is_imported", lambda: False)
    monkeypatch.delenv("KERAS_BACKEND")

    def install(*names):
        found = names.__contains__
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: name if found(name) else None
        )

    return install


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (("tensorflow", "torch", "jax"), "jax"),
        (("tensorflow", "torch"), "torch"),
        (("tensorflow",), "tensorflow"),
        ((), None),
    ],
)
def test_the_lightest_backend_that_is_installed_is_chosen(backends, installed, chosen):
    backends(*installed)
    assert startup.choose_backend() == chosen
    assert os.environ.get("KERAS_BACKEND") == chosen


def test_a_backend_that_is_set_or_runs_is_never_changed(backends, monkeypatch):
    backends("jax")
    monkeypatch.setattr(keras_names, "is_imported", lambda: True)
    assert startup.choose_backend() is None
    monkeypatch.setattr(keras_names, "is_imported", lambda: False)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert startup.choose_backend() is None
    assert os.environ["KERAS_BACKEND"] == "torch"
