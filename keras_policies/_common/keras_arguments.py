"""Reads which arguments the layers of Keras take, from their files, without importing.

Keras raises a TypeError or a ValueError for any other, when it creates the layer.
"""

import ast
import functools
import importlib.util
import pathlib
import re

from keras_policies._common import keras_names

IMPORTED = re.compile(r"^from ([\w.]+) import \(?\s*(\w+)", re.MULTILINE)
CONSTRUCTOR, FROM_CONFIG = "__init__", "from_config"


def accepted(class_name: str) -> frozenset[str] | None:
    """Return the arguments of a class of `keras.layers`, or None if they are not known.

    Example:
        >>> "units" in accepted("Dense"), "filters" in accepted("Dense")
        (True, False)
    """
    module = _modules().get(class_name)
    return None if module is None else _accepted(module, class_name)


@functools.cache
def _modules() -> dict[str, str]:
    """Return `{class: module that defines it}` of `keras.layers`."""
    folder = keras_names.folder()
    if folder is None:
        return {}
    text = (folder / "layers" / "__init__.py").read_text("utf-8")
    return {name: module for module, name in IMPORTED.findall(text)}


@functools.cache
def _accepted(module: str, class_name: str) -> frozenset[str] | None:
    """Return the arguments of a class, and of its bases if it passes others on."""
    tree = _parsed(module)
    named = {item.name: item for item in tree.body if isinstance(item, ast.ClassDef)}
    imported = {
        alias.asname or alias.name: (item.module or "", alias.name)
        for item in tree.body
        if isinstance(item, ast.ImportFrom)
        for alias in item.names
    }
    if class_name not in named:
        at = imported.get(class_name)
        return at and _accepted(*at)
    functions = {
        item.name: item
        for item in named[class_name].body
        if isinstance(item, ast.FunctionDef)
    }
    arguments, passes_on = set[str](), True
    if constructor := functions.get(CONSTRUCTOR):
        given = constructor.args
        arguments = {each.arg for each in (*given.args[1:], *given.kwonlyargs)}
        passes_on = given.kwarg is not None
    # Both may take further arguments out of what they are given.
    for name in (CONSTRUCTOR, FROM_CONFIG):
        arguments |= _texts(functions[name]) if name in functions else set()
    for base in named[class_name].bases if passes_on else ():
        inherited = _of_base(base, module, imported, {*named})
        arguments |= inherited or set()
    return frozenset(arguments)


def _of_base(
    base: ast.expr, module: str, imported: dict[str, tuple[str, str]], here: set[str]
) -> frozenset[str] | None:
    if not isinstance(base, ast.Name):  # such as BackendLayer, which takes none
        return None
    if base.id in here:
        return _accepted(module, base.id)
    return _accepted(*imported[base.id]) if base.id in imported else None


def _texts(function: ast.FunctionDef) -> set[str]:
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Constant))
    texts = (node.value for node in nodes if isinstance(node.value, str))
    return {text for text in texts if text.isidentifier()}


@functools.cache
def _parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module of Keras, empty if it has no file."""
    root, *parts = module.split(".")
    spec = importlib.util.find_spec(root)
    for top in (spec and spec.submodule_search_locations) or ():
        path = pathlib.Path(top, *parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return ast.parse(file.read_text("utf-8"))
    return ast.Module([], [])
