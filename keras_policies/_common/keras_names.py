"""What Keras has, by name: asked of Keras itself, or read without importing it.

Importing Keras takes seconds and needs a backend, and describing a legacy file should
need neither. So where nothing has imported Keras, the names in its public modules are
read from their files, which consist of lines `from … import Name`. Nothing can be
registered with a Keras that is not imported.
"""

import ast
import contextlib
import functools
import importlib.metadata
import importlib.util
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from keras_policies._common import syntax
from keras_policies._common.lazy_keras import keras

# The files of Keras's public modules are in the first of these folders that has them.
FOLDERS = "api", "."
IMPORTED = re.compile(r"^from [\w.]+ import \(?\s*(\w+)(?: as (\w+))?", re.MULTILINE)
CLASS, OTHER = "class", "other"
# Functions that are spelled like classes, and the module that consists of such.
INPUT, MODELS = "Input", "applications"
DTYPES = {
    *("bool", "string", "float16", "float32", "float64", "bfloat16"),
    *("float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


def is_imported() -> bool:
    """Return whether this process has imported Keras."""
    return "keras" in sys.modules


def can_be_read() -> bool:
    """Return whether names are read: Keras is not imported, and its files are there."""
    return not is_imported() and folder() is not None


def backend() -> str:
    """Return the name of Keras's backend, or of the one that it is told to take."""
    if is_imported():
        return str(keras.backend.backend())
    return os.environ.get("KERAS_BACKEND") or "tensorflow"


def version() -> tuple[int, ...]:
    """Return the first two numbers of Keras's version."""
    if can_be_read():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return _numbers(importlib.metadata.version("keras"))
    return _numbers(keras.__version__)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")[:2]))


def registered(name: str | None) -> Any:
    """Return the object that a user registered under a name, or None."""
    return keras.saving.get_registered_object(name) if is_imported() else None


def kind(module: str, name: str) -> str | None:
    """Return `"class"` or `"other"` for a name in a public module, or None."""
    root, *parts = module.split(".")
    if root != "keras" or "src" in (*parts, name):
        return None
    if can_be_read():
        return names(*parts).get(name)
    current: Any = keras
    for part in (*parts, name):
        current = getattr(current, part, None)
    return None if current is None else CLASS if isinstance(current, type) else OTHER


def is_class(module: str, name: str) -> bool:
    """Return whether a public module of Keras has a class of this name."""
    return kind(module, name) == CLASS


def standard_dtype(name: str) -> str:
    """Return the name of a dtype in Keras, or raise ValueError if it has none."""
    if is_imported():
        return str(keras.backend.standardize_dtype(name))
    if name not in DTYPES:
        raise ValueError(f"Expected one of {sorted(DTYPES)}, received {name!r}.")
    return name


@functools.cache
def folder() -> pathlib.Path | None:
    """Return the folder with the files of Keras's public modules, or None."""
    spec = importlib.util.find_spec("keras")
    tops = (spec and spec.submodule_search_locations) or ()
    places = (pathlib.Path(top, folder) for top in tops for folder in FOLDERS)
    return next((p for p in places if (p / "layers" / "__init__.py").is_file()), None)


@functools.cache
def names(*parts: str) -> Mapping[str, str]:
    """Read `{name: kind}` of the public module `keras.<parts>`, empty for none."""
    top = folder()
    if top is None or not all(map(str.isidentifier, parts)):
        return {}
    file = top.joinpath(*parts, "__init__.py")
    text = file.read_text("utf-8") if file.is_file() else ""
    imported = IMPORTED.findall(text)
    has_classes = parts[:1] != (MODELS,)
    return {
        public or name: CLASS if is_class and name != INPUT else OTHER
        for name, public in imported
        for is_class in [has_classes and name[0].isupper()]
    }


@functools.cache
def accepted(class_name: str, module: str = "keras.layers") -> frozenset[str] | None:
    """Return the arguments of a class in a module, or None if they are not known.

    Keras raises a TypeError or a ValueError for any other, when it creates a layer.

    Example:
        >>> "units" in accepted("Dense"), "filters" in accepted("Dense")
        (True, False)
    """
    body = _parsed(module).body
    classes = {x.name: x for x in body if isinstance(x, ast.ClassDef)}
    if class_name not in classes:
        for item in (each for each in body if isinstance(each, ast.ImportFrom)):
            for alias in item.names:
                if class_name == (alias.asname or alias.name):
                    return accepted(alias.name, item.module or "")
        return None
    cls = classes[class_name]
    functions = {x.name: x for x in cls.body if isinstance(x, ast.FunctionDef)}
    arguments, passes_on = set[str](), True
    if constructor := functions.get("__init__"):
        given = constructor.args
        arguments = {each.arg for each in (*given.args[1:], *given.kwonlyargs)}
        passes_on = given.kwarg is not None
    # Both may take further arguments out of what they are given.
    both = (functions[x] for x in ("__init__", "from_config") if x in functions)
    nodes = (node for function in both for node in ast.walk(function))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    arguments |= {x for x in texts if isinstance(x, str) and x.isidentifier()}
    for base in cls.bases if passes_on else ():
        if isinstance(base, ast.Name):
            arguments |= accepted(base.id, module) or set()
        elif isinstance(base, ast.Attribute):  # `layers.Layer`
            arguments |= accepted(base.attr) or set()
    return frozenset(arguments)


@functools.cache
def _parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module of Keras, empty if it has no file."""
    root, *parts = module.split(".")
    spec = importlib.util.find_spec(root)
    tops = (spec and spec.submodule_search_locations) or ()
    for top, inside in itertools.product(tops, FOLDERS):
        path = pathlib.Path(top, inside, *parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return syntax.parse(file.read_text("utf-8"))
    return ast.Module([], [])
