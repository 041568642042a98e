"""A program of stock Keras sees the same, with this package imported and without."""

import json
import os
import subprocess
import sys

import pytest
import stock_program

pytestmark = pytest.mark.slow("two processes that train and save", each_backend=True)


def start(*modules):
    """Start the program in a process that imports these modules first."""
    paths = [os.path.dirname(stock_program.__file__), os.environ.get("PYTHONPATH")]
    code = f"import {', '.join((*modules, 'stock_program'))}; stock_program.main()"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


@pytest.fixture(scope="module")
def seen():
    """Return what the program sees without the package, and with it."""
    processes = start(), start("keras_policies")
    return [json.loads(process.communicate()[0]) for process in processes]


@pytest.mark.parametrize("part", stock_program.PARTS)
def test_a_program_of_stock_keras_sees_no_difference(seen, part):
    without, with_us = seen
    assert with_us[part] == without[part]


def test_the_program_sees_the_loss_scale_optimizer_of_stock_keras(seen):
    for found in seen:
        classes = found["the_loss_scale_optimizer_of_keras"][:5]
        assert set(classes) == {
            "class keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer"
        }
        trainings = found["the_loss_scale_optimizer_over_a_nan"]
        assert 0.125 in trainings["four times"]["variables"]
        trained = trainings[str(2**31 - 1)]
        assert all(-1 < weight[0][0] < 1 for weight in trained["weights"][::2])


def test_the_program_sees_the_errors_of_stock_keras(seen):
    for found in seen:
        errors = [one for one in found["errors"] if one and one[0][:6] == "class "]
        assert len(errors) > 35
