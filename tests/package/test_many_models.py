"""The programs of docs/many-models.md convert every model of a folder."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import keras
import legacy_files
import pytest

pytestmark = pytest.mark.once("processes of their own")
SHELL = pytest.mark.posix("it runs programs of the shell")
ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/many-models.md").read_text("utf8")
AT_ONCE, LIST, XARGS, SLURM = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
(RAY,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
FORKING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-1]
MODELS = {"a/dense.h5": "seq_dense_bf16/model.h5", "rnn.h5": "rnn_dynamic/model.h5"}
CONVERTED = ["a/dense.keras", "rnn.keras"]
MAIN = """
if __name__ == "__main__":
    import torch

    torch.ones(1000, 1000) @ torch.ones(1000, 1000)  # starts its threads
    convert_all([("zoo/a/dense.h5", "dense.keras"), ("zoo/rnn.h5", "rnn.keras")])
"""


@pytest.fixture
def zoo(tmp_path):
    """Return a folder in which `zoo` has two models, and a file that is none."""
    for name, source in MODELS.items():
        path = tmp_path / "zoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(legacy_files.CORPUS / "2.4.4" / source, path)
    models = "".join(f"zoo/{name}\n" for name in MODELS)
    (tmp_path / "models.txt").write_text(models)
    return tmp_path


def run(folder, command, *arguments, **environment):
    """Run a command where the programs `python` and `keras-policies` are ours."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    module = f'exec "{sys.executable}" -W ignore -m keras_policies_cli "$@"'
    for name, line in {
        "keras-policies": module,
        "python": f'exec "{sys.executable}" "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    path = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=os.environ | path | environment,
        capture_output=True,
        text=True,
    )


def converted(folder):
    return sorted(
        path.relative_to(folder / "converted").as_posix()
        for path in (folder / "converted").rglob("*.keras")
    )


@SHELL
def test_the_list_has_every_model(zoo):
    (zoo / "zoo/bad.h5").write_bytes(b"")
    done = run(zoo, "bash", "-ec", LIST)
    assert done.returncode == 0, done.stderr
    listed = (zoo / "models.txt").read_text("utf8").splitlines()
    assert listed == ["zoo/bad.h5", "zoo/rnn.h5", "zoo/a/dense.h5"]


@SHELL
@pytest.mark.slow("processes that import Keras")
@pytest.mark.parametrize("program", [AT_ONCE, XARGS], ids=["at-once", "xargs"])
def test_a_command_converts_all(program, zoo):
    done = run(zoo, "bash", "-ec", program)
    assert done.returncode == 0, done.stderr
    assert converted(zoo) == CONVERTED


@SHELL
@pytest.mark.slow("processes that import Keras")
def test_a_slurm_array_converts_all_and_goes_on_when_submitted_again(zoo):
    for task, expected in (1, CONVERTED[:1]), (0, CONVERTED), (0, CONVERTED):
        variables = {"ARRAY_TASK_ID": task, "ARRAY_TASK_COUNT": 2, "CPUS_PER_TASK": 2}
        named = {f"SLURM_{name}": str(value) for name, value in variables.items()}
        (zoo / "models.txt").write_text("zoo/rnn.h5\nzoo/a/dense.h5\n")
        done = run(zoo, "bash", "-ec", SLURM, **named)
        assert done.returncode == 0, done.stderr
        assert converted(zoo) == expected
    (line,) = (zoo / "converted-1.jsonl").read_text("utf8").splitlines()
    assert json.loads(line)["status"] == "skipped"


@pytest.mark.slow("processes that import Keras")
def test_processes_are_started_after_torch_has_started_threads(zoo):
    (zoo / "program.py").write_text(FORKING + MAIN)
    done = run(zoo, sys.executable, "-W", "ignore", "program.py")
    assert done.returncode == 0, done.stderr
    assert keras.models.load_model(zoo / "rnn.keras", compile=False).built


@pytest.mark.slow("Ray, which the extras do not have", weekly=True)
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_ray_converts_all_and_reports_errors(zoo):
    (zoo / "zoo/bad.h5").write_bytes(b"")
    (zoo / "models.txt").open("a").write("zoo/bad.h5\n")
    (zoo / "program.py").write_text(RAY)
    done = run(zoo, sys.executable, "-W", "ignore", "program.py")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[-3:]
    assert said[:2] == ["zoo/a/dense.h5 converted", "zoo/rnn.h5 converted"]
    assert said[2].startswith("zoo/bad.h5 failed: KP102: ")
    assert converted(zoo) == CONVERTED
