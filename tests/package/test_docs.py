import doctest
import importlib
import pathlib
import pkgutil
import re
import shutil

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

README = pathlib.Path(__file__).parents[2] / "README.md"
# A backend is imported where it runs; running `__main__` is running the command.
NOT_IMPORTED = "keras_policies.backends", "keras_policies.__main__"
MODULES = [
    module.name
    for module in pkgutil.walk_packages(keras_policies.__path__, "keras_policies.")
    if not module.name.startswith(NOT_IMPORTED)
]
NAMES = {**vars(keras_policies), "keras": keras, "ops": keras.ops, "np": np}


@pytest.fixture
def old_files(tmp_path, monkeypatch):
    """Be where the docstrings' legacy files are."""
    source = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
    shutil.copytree(source / "saved_model", tmp_path / "model_of_2020")
    shutil.copy(source / "model.h5", tmp_path / "weights_of_2020.h5")
    monkeypatch.chdir(tmp_path)
    return {"x": np.zeros((4, 12, 12, 3), "float32")}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, old_files):
    module = importlib.import_module(name)
    public = {name: getattr(keras_policies, name) for name in keras_policies.__all__}
    globs = {**NAMES, **public, **vars(module), **old_files}
    results = doctest.testmod(module, globs=globs, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_public_names_are_documented():
    for name in set(keras_policies.__all__) - {"__version__"}:
        doc = getattr(keras_policies, name).__doc__
        assert doc, name
        assert "Example:" in doc, name


def test_readme_examples_run(old_files, capsys):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    own = "# KERAS_BACKEND=" + keras.backend.backend()
    assert sum(example.startswith(own) for example in examples) == 1
    for example in examples:
        if example.startswith("# KERAS_BACKEND=") and not example.startswith(own):
            continue
        keras.config.set_dtype_policy("float32")
        exec(compile(example, "README.md", "exec"), {})
