import collections
import contextlib
import gc
import importlib.util
import os
import pathlib
import pkgutil
import shutil
import sys
import tempfile
import zlib

# The extra `test` has torch, which compiles nothing; the lowest Keras is tried on jax.
os.environ.setdefault(
    "KERAS_BACKEND", "torch" if importlib.util.find_spec("torch") else "jax"
)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.pop("COLUMNS", None)  # set by pytest-xdist; tables obey it

import compile_quickly  # noqa: F401 - before jax reads its flags
import float16_cpu  # before keras: it may turn oneDNN off
import keras
import legacy_files
import pytest
from legacy_files import IS_LOWEST_KERAS

import keras_policies  # noqa: F401 - installs the patches
from keras_policies import cli
from keras_policies.legacy import plain_keras as plain

collect_ignore = ["data"]
NOBODY = 65534  # the id of a user without any rights


# Folders whose tests are about files. Their turns: see `_wait_for_turn`.
IN_TURN = "legacy", "source"


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what -m does not choose
def pytest_collection_modifyitems(items):
    backend = keras.backend.backend()
    _leave_most_cases_to_the_week(items)
    for item in items:
        _skip_what_is_run_once(item, backend)
        for mark in item.iter_markers("posix") if sys.platform == "win32" else ():
            item.add_marker(pytest.mark.skip(reason=f"not on Windows: {mark.args[0]}"))
        if backend != "torch" and item.path.parent.name in IN_TURN:
            _wait_for_turn(item, backend)


def pytest_collection_finish():
    # Or the garbage collector would look through Keras and all tests again and again,
    # which takes a fifth of the time. They live to the end anyway.
    gc.collect()
    gc.freeze()


def _skip_what_is_run_once(item, backend):
    """Skip a test marked `once` on all backends but one.

    That is torch, which compiles nothing, if the mark names no other. The lowest Keras
    is tried on jax alone; it runs them there unless they need no Keras.
    """
    for mark in item.iter_markers("once"):
        chosen = "jax" if IS_LOWEST_KERAS else mark.kwargs.get("backend", "torch")
        if backend != chosen or (IS_LOWEST_KERAS and mark.kwargs.get("for_all_keras")):
            reason = f"once is enough, on {chosen}: {mark.args[0]}"
            item.add_marker(pytest.mark.skip(reason=reason))


def _wait_for_turn(item, backend):
    """Mark a test weekly if it is not this backend's turn.

    A file is read, and its model planned and built, in the same way on each backend.
    So each case is run daily on torch and on one of jax and TensorFlow, and one in four
    on the lowest Keras. What is about a backend is run on each: tests marked
    `each_backend`, and those that say for themselves when to skip.
    """
    if any(item.get_closest_marker(name) for name in ("each_backend", "skipif")):
        return
    turns, own = (4, 0) if IS_LOWEST_KERAS else (2, int(backend == "tensorflow"))
    if _number(item) % turns != own:
        item.add_marker(pytest.mark.slow("another backend's turn", weekly=True))


def _leave_most_cases_to_the_week(items):
    """Mark the cases of a test weekly, except one of as many as its mark says.

    They are in no order, so that the others are not all of one release or format.
    """
    cases = collections.defaultdict(list)
    for item in sorted(items, key=_number):
        for mark in item.iter_markers("slow"):
            if "one_of" in mark.kwargs:
                cases[item.nodeid.partition("[")[0]].append((item, mark))
    for own in cases.values():
        for position, (item, mark) in enumerate(own):
            if position % mark.kwargs["one_of"]:
                item.add_marker(pytest.mark.slow(*mark.args, weekly=True))


def _number(item):
    """Return a number for a case: the same for all tests that have it.

    So tests of a module that share a model have their turn together.
    """
    name = item.callspec.id if hasattr(item, "callspec") else item.name
    return zlib.crc32(name.encode())


def pytest_report_header():
    return float16_cpu.report()


@pytest.fixture(autouse=True)
def _restored_globals():
    floatx = keras.config.floatx()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(floatx)


@pytest.fixture(scope="session")
def plain_keras():
    """Return a function that calls a saved model in a process with Keras alone."""
    return plain.shared


@pytest.fixture(scope="session")
def plain_keras_of_texts(plain_keras):
    """Return the same on TensorFlow, the only backend that has texts."""
    if keras.backend.backend() == "tensorflow":
        yield plain_keras
        return
    with contextlib.closing(plain.Process("tensorflow")) as call:
        yield call


@pytest.fixture
def unprivileged():
    """Yield an empty folder, as a user whom permissions stop, which root is not.

    Beside it is a model, since only root may be able to read those of the repository.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "work")
        os.chmod(folder, 0o755)
        shutil.copy(legacy_files.folder("more") / "2.4.4/amsgrad/model.h5", folder)
        path.mkdir()
        if sys.platform == "win32":
            pytest.skip("Windows has other permissions")
        is_root = os.geteuid() == 0
        if is_root:
            # What is imported later may be in a folder that only root may read.
            for module in pkgutil.iter_modules(cli.__path__, f"{cli.__name__}."):
                importlib.import_module(module.name)
            os.chown(path, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield path
        finally:
            if is_root:
                os.seteuid(0)
            os.chmod(path, 0o700)
            for locked in path.iterdir():
                os.chmod(locked, 0o700)
