"""`to_source`: writes the source code of a model."""

import ast
import functools
import itertools
import os
import pathlib
import re
import shutil
from collections import Counter
from collections.abc import Sequence

import keras
import numpy as np

from keras_policies._common import collector, files
from keras_policies._common.types import Path
from keras_policies._common.warnings import warn
from keras_policies.source import checking, gate
from keras_policies.source.errors import CannotWriteError, SourceError
from keras_policies.source.graphs import Module, Reader
from keras_policies.source.layout import lines
from keras_policies.source.objects import Style
from keras_policies.source.tree import Node, Policy, dotted, literal, replaced

OFTEN = 3  # layers with one policy for which it becomes the constant DTYPE


def to_source(
    model: keras.Model,
    *,
    origin: Path | None = None,
    constants: Path | None = None,
    compile: bool = False,
    train: bool = False,
) -> str:
    """Return Python source code whose `build_model()` builds an equal model.

    The code imports only Keras, NumPy if the model has constants, and the modules of
    your own registered classes. Before it returns the code, this function runs it and
    compares its model with `model`: their configs, and their outputs of random inputs,
    which are smaller images where a large model takes them. The code does not contain
    weights: save them with `model.save_weights`, and load them with
    `build_model().load_weights`.

    Args:
        model: a Functional or Sequential model that has been built.
        origin: str or path of the file that the model came from, for the docstring.
            None: the file that `load_model` of this package opened, if it did.
        constants: str or path of an `.npz` file, which is written if the model has
            constants of more than 64 numbers, and replaced if it exists. The code loads
            it from its own folder.
        compile: bool, whether to also write the call of `compile`.
        train: bool, whether to write initializers, which do not matter once weights
            are loaded.

    Returns:
        The text of a module, formatted as by ruff.

    Raises:
        TypeError: if `model` is not a model.
        ValueError: if the model, or a layer that the message names, cannot be written
            as source code; or if it has large constants and `constants` is None.
        OSError: if `constants` or the temporary folder cannot be written.

    Example:
        >>> inputs = keras.Input((4,), name="x")
        >>> model = keras.Model(inputs, keras.layers.Dense(3, name="y")(inputs))
        >>> print(to_source(model).splitlines()[-2].strip())
        outputs = layers.Dense(3, name="y")(inputs)
    """
    _check(model)
    path = None if constants is None else pathlib.Path(constants)
    if path and path.suffix != ".npz":
        raise ValueError(f"constants must end in '.npz', received {constants!r}.")

    checking.start()
    reader = Reader()

    def code() -> tuple[str, bool]:
        with files.temporary_folder() as folder:
            file = path and folder / path.name
            compared = checking.Comparison(
                model, folder, reader, train=train, compile=compile
            )
            style = Style(train=train, typed=keras.config.floatx() != "float32")
            while True:
                with collector.paused():
                    module, draft = compared.drafted(style)
                    tree = module.tree(draft)
                    groups = _module(module, tree, _title(model, origin), file)
                    text = "\n\n".join("\n".join(lines(x)) for x in groups) + "\n"
                    gate.check(text, [*itertools.chain(*groups)], module.imports)
                style, is_compared = compared.next_style(text, module)
                if style == module.style:
                    if path and file and module.constants:
                        with files.writing(path, overwrite=True) as new:
                            shutil.copyfile(file, new)
                    return text, is_compared

    try:
        parts = getattr(model, "operations", model.layers)
        configs = (reader.held(each).config for each in parts)
        text, is_compared = checking.apart(code, configs)
    except (CannotWriteError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError)
        reason = "its parts are nested too deeply" if is_deep else error
        raise SourceError(
            f"{model.name!r} cannot be written as source code: {reason}."
        ) from error
    if not is_compared:
        warn(
            f"The outputs of {model.name!r} were not compared with those of its source "
            "code, because it cannot be called on random inputs, or needs more than 4 "
            "GiB of memory for that. Compare them on your own inputs."
        )
    return text


def _check(model: keras.Model) -> None:
    """Raise if the config of a model does not list its layers."""
    if not isinstance(model, keras.Model):
        expected = "Expected a Functional or Sequential model"
        raise TypeError(f"{expected}, received {model!r}.")
    if not (hasattr(model, "operations") or isinstance(model, keras.Sequential)):
        raise SourceError(
            f"{model.name!r} is a subclassed model ({type(model).__name__}): its "
            "source code is its class. Expected a Functional or Sequential model."
        )
    if not getattr(model, "inputs", None):
        raise SourceError(
            f"The input of {model.name!r} is not known. Call the model once, or begin "
            "it with a keras.Input."
        )


def _title(model: keras.Model, origin: Path | None) -> str:
    file = origin or vars(model).get("keras_policies_file")  # set by load_model
    source = f", from {os.path.basename(os.path.abspath(file))}" if file else ""
    return re.sub(r"[^\w .,:()-]", "_", f"Keras model {model.name}{source}")[:78]


def _module(
    module: Module,
    functions: Sequence[ast.stmt],
    title: str,
    constants: pathlib.Path | None,
) -> list[list[ast.stmt]]:
    """Return the statements of the module, by paragraph, and write its constants."""
    (policy, count), *_ = [*Counter(module.policies).most_common(1), ("", 0)]
    common = policy if count >= OFTEN else None
    functions = replaced([*functions], functools.partial(_policy, common=common))
    before, top = list[list[ast.stmt]](), list[list[ast.stmt]]()
    if common is not None:
        top.append([ast.Assign([dotted("DTYPE", ast.Store())], literal(common))])
    if module.constants:
        top.append([_saved(module, constants)])
        before = [[ast.Import([ast.alias("pathlib")])]]
    nodes = (x for each in functions for x in ast.walk(each))
    read = {x.id for x in nodes if isinstance(x, ast.Name)}
    imports: list[ast.stmt] = [ast.Import([ast.alias("keras")])]
    if module.constants or "np" in read:
        imports.append(ast.Import([ast.alias("numpy", "np")]))
    short = [ast.alias(name) for name in ("layers", "ops") if name in read]
    own = [("keras", short)] * bool(short)
    for (file, name), new in module.imports.items():
        own.append((file, [ast.alias(name, None if new == name else new)]))
    found = (ast.ImportFrom(file, names, 0) for file, names in own)
    imports += sorted(found, key=ast.unparse)
    doc = ast.Expr(literal(f"{title}."))
    groups: list[list[ast.stmt]] = [[doc], *before, imports, *top]
    groups[-1] += functions
    return groups


def _policy(node: Node, common: str | None) -> Node | None:
    """Return a policy as a text, or as the constant DTYPE where it is common."""
    is_dtype = isinstance(node, ast.keyword) and node.arg == "dtype"
    if is_dtype and isinstance(node.value, Policy) and node.value.name == common:
        return ast.keyword("dtype", dotted("DTYPE"))
    return literal(node.name) if isinstance(node, Policy) else None


def _saved(module: Module, path: pathlib.Path | None) -> ast.stmt:
    """Write the constants, and return the statement that loads them."""
    if path is None:
        names = ", ".join(map(repr, module.constants))
        raise SourceError(
            f"The model has constants of more than 64 numbers: {names}. Pass "
            'constants="model.npz", the file to write them to, beside the module.'
        )
    with files.in_temporary_folder():
        np.savez(path, **module.constants)
    return gate.reading(path.name)
