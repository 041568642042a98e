"""A program of stock Keras sees the same, with this package imported and without."""

import json
import os
import subprocess
import sys

import pytest
import stock_program

pytestmark = [
    pytest.mark.slow("two processes that train and save"),
    pytest.mark.each_backend("stock Keras is compared"),
]


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


def test_a_program_of_stock_keras_sees_no_difference():
    """One test, since the programs see all parts in two processes."""
    processes = start(), start("keras_policies")
    seen = [json.loads(process.communicate()[0]) for process in processes]
    assert seen[0].keys() == seen[1].keys() == set(stock_program.PARTS)
    for part in stock_program.PARTS:
        assert seen[1][part] == seen[0][part], part
    for found in seen:
        assert_it_saw_the_loss_scale_optimizer_of_stock_keras(found)
        errors = [one for one in found["errors"] if one and one[0][:6] == "class "]
        assert len(errors) > 35


def assert_it_saw_the_loss_scale_optimizer_of_stock_keras(found):
    classes = found["the_loss_scale_optimizer_of_keras"][:5]
    assert set(classes) == {
        "class keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer"
    }
    trainings = found["the_loss_scale_optimizer_over_a_nan"]
    assert 0.125 in trainings["four times"]["variables"]
    trained = trainings[str(2**31 - 1)]
    assert all(-1 < weight[0][0] < 1 for weight in trained["weights"][::2])
