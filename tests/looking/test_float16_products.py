import os
import pathlib
import subprocess
import sys

import keras
import pytest

from keras_policies import float16_products


@pytest.fixture(autouse=True)
def _forgotten():
    """Let each test compute the products anew."""
    float16_products.wrong_products.cache_clear()
    yield
    float16_products.wrong_products.cache_clear()


def test_this_machine_computes_float16_products_as_numpy_does():
    """The suite depends on it: where TensorFlow does not, conftest turns oneDNN off."""
    assert float16_products.wrong_products() == ()
    assert float16_products.advice() == ""


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
    monkeypatch.setitem(float16_products.PRODUCTS, "einsum", broken)
    assert float16_products.wrong_products() == expected


def test_the_advice_names_the_product_and_what_helps(monkeypatch):
    monkeypatch.setitem(
        float16_products.PRODUCTS, "einsum", lambda x, y: keras.ops.matmul(x, y) * 2
    )
    advice = float16_products.advice()
    assert f"{keras.backend.backend()} computes einsum of float16 wrongly" in advice
    helps = "TF_ENABLE_ONEDNN_OPTS=0" in advice
    assert helps == (keras.backend.backend() == "tensorflow")


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
