import os
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.pop("COLUMNS", None)  # set by pytest-xdist; tables obey it
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one process has compiled, the others, which inherit this, need not.
    _compiled = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import keras
import pytest

import keras_policies  # noqa: F401 - installs the seams

collect_ignore = ["data"]


@pytest.fixture(autouse=True)
def _restored_globals():
    floatx = keras.config.floatx()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(floatx)
