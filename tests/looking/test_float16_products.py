import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_policies import LegacyModelError
from keras_policies.backends import hardware
from keras_policies.diagnostics import risks
from keras_policies.legacy import verification


@pytest.fixture(autouse=True)
def _forgotten():
    """Let each test compute the products anew."""
    hardware.wrong_products.cache_clear()
    yield
    hardware.wrong_products.cache_clear()


def test_this_machine_computes_float16_products_as_numpy_does():
    """The suite depends on it: where TensorFlow does not, conftest turns oneDNN off."""
    assert hardware.wrong_products() == ()
    assert hardware.problem() == ""


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        pytest.param(lambda x, y: keras.ops.matmul(x, y) * 1.2, ("einsum",), id="off"),
        pytest.param(
            lambda x, y: keras.ops.matmul(x, y) * float("nan"), ("einsum",), id="nan"
        ),
        pytest.param(
            lambda x, y: keras.ops.matmul(x, y) * 1.001, (), id="rounded-otherwise"
        ),
    ],
)
def test_a_product_that_differs_from_numpy_is_named(monkeypatch, broken, expected):
    monkeypatch.setitem(hardware.PRODUCTS, "einsum", broken)
    assert hardware.wrong_products() == expected


def test_the_problem_names_the_product_and_what_helps(monkeypatch):
    monkeypatch.setitem(
        hardware.PRODUCTS, "einsum", lambda x, y: keras.ops.matmul(x, y) * 2
    )
    problem = hardware.problem()
    assert f"{keras.backend.backend()} computes einsum of float16 wrongly" in problem
    helps = "TF_ENABLE_ONEDNN_OPTS=0" in problem
    assert helps == (keras.backend.backend() == "tensorflow")


@pytest.mark.slow("a suite of its own, on TensorFlow")
@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
def test_the_suite_runs_without_onednn_where_tensorflow_is_wrong():
    root = pathlib.Path(__file__).parents[2]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "KERAS_POLICIES_WRONG_FLOAT16": "einsum",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "tests/looking/test_float16_products.py"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "wrongly on this CPU, so the suite runs with TF_ENABLE" in done.stdout
    assert "oneDNN custom operations are on" not in done.stderr


@pytest.fixture
def _wrong_einsum(monkeypatch):
    def broken(x, y):
        return keras.ops.matmul(x, y) * 2

    monkeypatch.setitem(hardware.PRODUCTS, "einsum", broken)


@pytest.mark.parametrize(
    ("layer", "dtype", "expected"),
    [
        pytest.param(
            lambda dtype: keras.layers.EinsumDense("ab,bc->ac", 3, dtype=dtype),
            "mixed_float16",
            True,
            id="EinsumDense",
        ),
        pytest.param(
            lambda dtype: keras.layers.MultiHeadAttention(2, 2, dtype=dtype),
            "mixed_float16",
            True,
            id="MultiHeadAttention",
        ),
        pytest.param(
            lambda dtype: keras.layers.EinsumDense("ab,bc->ac", 3, dtype=dtype),
            "mixed_bfloat16",
            False,
            id="bfloat16",
        ),
        pytest.param(
            lambda dtype: keras.layers.Dense(3, dtype=dtype),
            "mixed_float16",
            False,
            id="Dense",
        ),
    ],
)
@pytest.mark.usefixtures("_wrong_einsum")
def test_summary_warns_of_layers_that_this_machine_computes_wrongly(
    layer, dtype, expected
):
    found = risks.of_layer(layer(dtype), None, None)
    assert (
        any("computes einsum of float16 wrongly" in risk for risk in found) is expected
    )


@pytest.mark.usefixtures("_wrong_einsum")
def test_a_failed_comparison_in_float16_names_the_machine():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Rescaling(2.0)])
    x = np.array([[1.0], [3.0]], "float32")
    predict = verification.predict_here(model)
    recorded = verification.Recording([x], [x])
    with pytest.raises(LegacyModelError, match="machine may be at fault: .* einsum"):
        verification.compare(predict, recorded, 1e-2, 1)
    with pytest.raises(LegacyModelError, match=r"allowed 0.003.$"):
        verification.compare(predict, recorded, 1e-3, 1)
