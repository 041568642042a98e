import doctest
import importlib
import pathlib
import pkgutil
import re

import keras
import numpy as np
import pytest

import keras_policies

README = pathlib.Path(__file__).parent.parent / "README.md"
MODULES = [
    m.name
    for m in pkgutil.iter_modules(keras_policies.__path__, "keras_policies.")
    if m.name != "keras_policies.backends"
]
NAMES = {**vars(keras_policies), "keras": keras, "ops": keras.ops, "np": np}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    globs = {**NAMES, **vars(module)}
    results = doctest.testmod(module, globs=globs, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_public_names_are_documented():
    for name in set(keras_policies.__all__) - {"__version__"}:
        doc = getattr(keras_policies, name).__doc__
        assert doc, name
        assert "Example:" in doc, name


def test_readme_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) >= 5
    for example in examples:
        keras.config.set_dtype_policy("float32")
        exec(compile(example, "README.md", "exec"), {})
