"""An overflow on one replica: all skip, and train on as one device does.

What must be set before a backend starts (devices, processes) is set by scripts in
distributed/, which print a record of each step; see distributed/common.py.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()
SCRIPTS = pathlib.Path(__file__).parent / "distributed"
HANGS = 300  # seconds; replicas that disagree would wait for each other for ever
# The variables of the scale after each of the six steps; a dynamic one grows after two.
EXPECTED = {
    "dynamic": {
        "loss_scale": [1024, 2048, 2048, 1024, 1024, 2048],
        "good_steps": [1, 0, 1, 0, 1, 0],
        "skipped_steps": [0, 0, 0, 1, 1, 1],
        "iterations": [1, 2, 3, 3, 4, 5],
    },
    "fixed": {
        "loss_scale": [64] * 6,
        "good_steps": [0] * 6,
        "skipped_steps": [0] * 6,
        "iterations": [1, 2, 3, 4, 5, 6],
    },
}
# float16 sums of the halves of a batch are rounded otherwise than those of the whole.
TOLERANCE = {"mixed_float16": 3e-3, "float32": 2e-6}


def only_on(backend):
    return pytest.mark.skipif(backend != BACKEND, reason=f"an engine of {backend}")


def printed(folder, script, *arguments):
    """Run a script once with each of the arguments, all at a time; return its JSONs."""
    env = {**os.environ, "KERAS_BACKEND": BACKEND, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with contextlib.ExitStack() as stack:
        processes = []
        for i, given in enumerate(arguments):
            # A process that waits for a full pipe would keep the others waiting.
            output = stack.enter_context((folder / str(i)).open("w"))
            command = [sys.executable, str(SCRIPTS / script), *given]
            process = subprocess.Popen(command, env=env, stdout=output)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        codes = [process.wait(HANGS) for process in processes]
    assert codes == [0] * len(arguments)
    texts = [(folder / str(i)).read_text("utf8") for i in range(len(arguments))]
    return [json.loads(text.splitlines()[-1]) for text in texts]


def printed_by_two(folder, script):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    return printed(folder, script, ["0", port], ["1", port])


def check(results, copies):
    """Compare each copy of each variable after each step with that of one device.

    Args:
        results: dict, as a script prints it.
        copies: dict, the name of a way of training -> how many copies of a variable
            the replicas that were seen hold.
    """
    assert {case.rsplit(", ", 2)[0] for case in results} == set(copies)
    for case, both in results.items():
        way, policy, rule = case.rsplit(", ", 2)
        steps = zip(both["alone"], both["distributed"], strict=True)
        for step, (alone, distributed) in enumerate(steps):
            for name, expected in EXPECTED[rule].items():
                assert alone[name] == [expected[step]], (case, step, name)
                assert set(distributed[name]) == {expected[step]}, (case, step, name)
            for (value,), (name, found) in zip(
                alone.values(), distributed.items(), strict=True
            ):
                assert len(found) in copies[way], (case, name)
                np.testing.assert_allclose(
                    found,
                    [value] * len(found),
                    rtol=TOLERANCE[policy],
                    atol=TOLERANCE[policy],
                    err_msg=f"{case}, step {step}, {name}",
                )


@only_on("jax")
def test_jax_devices_train_as_one(tmp_path):
    (results,) = printed(tmp_path, "jax_devices.py", [])
    copies = {"data": {8}, "data, eager": {8}, "model": {2, 8}}
    if keras.__version__.startswith("3.8."):
        # There a stock model with SGD trains otherwise under ModelParallel than alone.
        del copies["model"]
        results = {k: v for k, v in results.items() if not k.startswith("model")}
    # Of eight devices; sharded over four, each weight is there twice.
    check(results, copies)


@only_on("jax")
def test_jax_processes_train_as_one_device(tmp_path):
    for results in printed_by_two(tmp_path, "jax_processes.py"):
        check(results, {"data": {2}})


@only_on("tensorflow")
def test_mirrored_replicas_train_as_one_device(tmp_path):
    (results,) = printed(tmp_path, "tf_mirrored.py", [])
    stock = results.pop("stock")
    two = "Model.fit", "loop", "eager loop", "legacy loop", "loop without merging"
    two = *two, "loop that compiles each replica"
    check(results, {way: {2} for way in two} | {"Model.fit on one replica, XLA": {1}})
    # If one of these changes, look, and mend what docs/tested.md says of it.
    assert stock["overflow on the second replica"] == -np.inf
    assert "located in device" in stock["XLA on two devices"]
    assert "merge_call" in stock["without merging"]


@pytest.mark.slow("processes that train")
@only_on("torch")
def test_ddp_processes_train_as_one_device(tmp_path):
    for results in printed_by_two(tmp_path, "torch_ddp.py"):
        ways = "Model.fit", "loop", "bucket views", "no_sync"
        check(results, {way: {1} for way in ways})
