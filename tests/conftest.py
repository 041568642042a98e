import os

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.pop("COLUMNS", None)  # set by pytest-xdist; tables obey it

import float16_cpu  # before keras: it may turn oneDNN off
import keras
import pytest

import keras_policies  # noqa: F401 - installs the seams

collect_ignore = ["data"]


def pytest_report_header():
    return float16_cpu.report()


@pytest.fixture(autouse=True)
def _restored_globals():
    floatx = keras.config.floatx()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(floatx)
