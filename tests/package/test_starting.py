"""When the command line imports Keras, and on which backend."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from keras_policies._common import keras_names
from keras_policies.cli import startup

# As `sys.argv` and `sys.orig_argv` are in processes that were started so.
STARTED = {
    "script": (["train.py"], ["python", "train.py"]),
    "command": (["/bin/keras-policies", "inspect"], ["python", "keras-policies"]),
    "module": (["-m", "inspect"], ["python", "-m", "keras_policies", "inspect"]),
}
IMPORT = """
import json, sys
sys.argv, sys.orig_argv = json.loads(sys.argv[1])
import keras_policies
assert "keras" in sys.modules
print(len(keras_policies.patches()), sorted(vars(keras_policies)))
"""


def printed(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow("three processes that import Keras")
@pytest.mark.once("processes of their own")
def test_the_import_does_the_same_however_the_process_was_started():
    outputs = {printed(IMPORT, json.dumps(argv)) for argv in STARTED.values()}
    assert len(outputs) == 1
    assert outputs.pop().startswith("18 [")


LATER = """
import sys
import keras_policies_cli
keras_policies_cli.create_package()
from keras_policies.cli import startup
assert "keras" not in sys.modules
startup.import_package()
import keras_policies
print(len(keras_policies.patches()), keras_policies.Policy("float16").compute_dtype)
"""


@pytest.mark.slow("a process that imports Keras")
@pytest.mark.once("a process of its own")
def test_a_command_that_builds_models_has_the_whole_package():
    assert printed(LATER) == "18 float16\n"


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
