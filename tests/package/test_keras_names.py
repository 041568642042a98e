"""What is read from the files of Keras is what Keras has, and nothing imports it."""

import importlib

import keras
import numpy as np
import pytest

from keras_policies._common import keras_names
from keras_policies.legacy.plan import training

pytestmark = pytest.mark.once("the names are those of Keras")
FOLDER = keras_names.folder()
HIDDEN = "src", "api", "_tf_keras"
MODULES = sorted(
    ".".join(["keras", *file.parent.relative_to(FOLDER).parts])
    for file in FOLDER.rglob("__init__.py")
    if not {*file.relative_to(FOLDER).parts} & {*HIDDEN}
    and file.parent != FOLDER  # its own file does more than import
)


@pytest.fixture
def not_imported(monkeypatch):
    monkeypatch.setattr(keras_names, "is_imported", lambda: False)


@pytest.mark.parametrize("module", MODULES)
def test_the_names_read_are_those_of_keras(module):
    found = vars(importlib.import_module(module))
    public = {
        name: keras_names.CLASS if isinstance(value, type) else keras_names.OTHER
        for name, value in found.items()
        if not name.startswith("_")
    }
    assert keras_names.names(*module.split(".")[1:]) == public


def test_the_modules_with_layers_and_losses_are_among_those_compared():
    assert {"keras.layers", "keras.losses", "keras.optimizers.schedules"} < {*MODULES}


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "imported"])
def test_a_name_is_a_class_something_else_or_nothing(monkeypatch, is_read):
    monkeypatch.setattr(keras_names, "is_imported", lambda: not is_read)
    assert keras_names.kind("keras.layers", "Dense") == "class"
    assert keras_names.kind("keras.layers", "Input") == "other"
    assert keras_names.kind("keras", "layers") == "other"
    assert keras_names.kind("keras.losses", "mean_squared_error") == "other"
    assert keras_names.kind("keras.layers", "CuDNNLSTM") is None
    assert keras_names.kind("keras.src.layers", "Dense") is None
    assert keras_names.kind("os", "system") is None
    assert keras_names.kind("keras./etc", "passwd") is None


def is_abstract(kind, name):
    """Return whether Keras finds a class by a name, and cannot make an object of it."""
    try:
        getattr(keras, kind).get(name)
    except (ValueError, TypeError) as error:
        return isinstance(error, TypeError)
    return False


@pytest.mark.parametrize("kind", ["losses", "metrics"])
def test_losses_and_metrics_are_known_by_the_names_by_which_keras_gets_them(
    monkeypatch, kind
):
    public = keras_names.names(kind)
    asked = {*public, *(name.lower() for name in public), *training.SAME_WORDS}
    asked |= {*training.BY_NAME[kind], "kld", "f1_score", "acc", "no_such_thing"}
    # Not objects, and one that Keras 3.15 has but does not get by its name.
    asked -= {"deserialize", "get", "serialize", "loss", "metric"}
    asked = {name for name in asked if "generalized" not in name.lower()}
    # Nor what needs arguments, and so has no name that stands for it.
    asked -= {name for name in asked if is_abstract(kind, name)}
    by_keras = {name: training.is_known(kind, name) for name in asked}
    monkeypatch.setattr(keras_names, "is_imported", lambda: False)
    assert {name: training.is_known(kind, name) for name in asked} == by_keras
    assert by_keras["mse"]
    assert not by_keras["no_such_thing"]


@pytest.mark.parametrize("dtype", [*sorted(keras_names.DTYPES), "float99", "policy"])
def test_a_dtype_is_known_if_keras_knows_it(not_imported, dtype):
    try:
        expected = keras.backend.standardize_dtype(dtype)
    except ValueError:
        with pytest.raises(ValueError, match=f"received {dtype!r}"):
            keras_names.standard_dtype(dtype)
    else:
        assert keras_names.standard_dtype(dtype) == expected == dtype


def test_every_dtype_of_numpy_that_keras_knows_is_in_the_table():
    for name in (np.dtype(code).name for code in np.typecodes["AllInteger"] + "efdFD?"):
        assert name in keras_names.DTYPES


def test_nothing_is_registered_with_a_keras_that_is_not_imported(monkeypatch):
    with keras.saving.custom_object_scope({"Mine": object}):
        assert keras_names.registered("Mine") is object
        monkeypatch.setattr(keras_names, "is_imported", lambda: False)
        assert keras_names.registered("Mine") is None


def test_without_the_files_of_keras_it_is_asked_itself(monkeypatch, not_imported):
    monkeypatch.setattr(keras_names, "folder", lambda: None)
    assert keras_names.kind("keras.layers", "Dense") == "class"
    assert training.is_known("losses", "mse")
