"""`to_source`: writes the source code of a model."""

import dataclasses
import os
import pathlib
import re
import shutil
from collections import Counter
from collections.abc import Sequence

import keras
import numpy as np

from keras_policies._common import files
from keras_policies._common.types import Path
from keras_policies._common.warnings import warn
from keras_policies.source import checking
from keras_policies.source.graphs import Module
from keras_policies.source.layout import call, laid_out, literal
from keras_policies.source.objects import Style, config_of

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
    compares its model with `model`. The code does not contain weights: save them with
    `model.save_weights`, and load them with `build_model().load_weights`.

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

    def code() -> tuple[str, bool]:
        with files.temporary_folder() as folder:
            style = Style(train=train, typed=keras.config.floatx() != "float32")
            while True:
                module = Module(style)
                lines = [*module.text(model, compile=compile)]
                if module.policies and not style.typed:
                    # Otherwise float32 layers would follow the global policy.
                    style = dataclasses.replace(style, typed=True)
                    continue
                file = path and folder / path.name
                text = _text(module, lines, _title(model, origin), file)
                style, is_compared = checking.next_style(text, model, module, folder)
                if style == module.style:
                    if path and file and module.constants:
                        with files.writing(path, overwrite=True) as new:
                            shutil.copyfile(file, new)
                    return text, is_compared

    text, is_compared = checking.apart(code, config_of(model))
    if not is_compared:
        warn(
            f"The outputs of {model.name!r} were not compared with those of its source "
            "code, because it cannot be called on random inputs. Compare them on your "
            "own inputs."
        )
    return text


def _check(model: keras.Model) -> None:
    """Raise if the config of a model does not list its layers."""
    if not isinstance(model, keras.Model):
        expected = "Expected a Functional or Sequential model"
        raise TypeError(f"{expected}, received {model!r}.")
    if not (hasattr(model, "operations") or isinstance(model, keras.Sequential)):
        raise ValueError(
            f"{model.name!r} is a subclassed model ({type(model).__name__}): its "
            "source code is its class. Expected a Functional or Sequential model."
        )
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"The input of {model.name!r} is not known. Call the model once, or begin "
            "it with a keras.Input."
        )


def _title(model: keras.Model, origin: Path | None) -> str:
    file = origin or vars(model).get("keras_policies_file")  # set by load_model
    source = f", from {os.path.basename(os.path.abspath(file))}" if file else ""
    return re.sub(r"[^\w .,:()-]", "_", f"Keras model {model.name}{source}")[:78]


def _text(
    module: Module, lines: Sequence[str], title: str, constants: pathlib.Path | None
) -> str:
    """Return the text of the module, and write its constants."""
    body, imports, before, top = "\n".join(lines), {*module.imports}, [], []
    (policy, count), *_ = [*Counter(module.policies).most_common(1), ("", 0)]
    if count >= OFTEN:
        body = body.replace(f"dtype={policy}", "dtype=DTYPE")
        top = [f"DTYPE = {policy}"]
    if module.constants:
        top.append(_saved(module, constants))
        before = ["import pathlib"]
    if re.search(r"\bnp\.", "\n".join([body, *top])):
        imports.add("import numpy as np")
    if short := [name for name in ("layers", "ops") if re.search(rf"\b{name}\.", body)]:
        imports.add(f"from keras import {', '.join(short)}")
    own = "\n".join(sorted(imports, key=lambda line: (line[:4] == "from", line)))
    code = "\n".join(map(laid_out, body.split("\n")))
    return "\n\n".join([f'"""{title}."""', *before, own, *top]) + f"\n{code}\n"


def _saved(module: Module, path: pathlib.Path | None) -> str:
    """Write the constants, and return the statement that loads them."""
    if path is None:
        names = ", ".join(map(repr, module.constants))
        raise ValueError(
            f"The model has constants of more than 64 numbers: {names}. Pass "
            'constants="model.npz", the file to write them to, beside the module.'
        )
    with files.in_temporary_folder():
        np.savez(path, **module.constants)
    file = call("pathlib.Path(__file__).with_name", [literal(path.name)])
    return f"{laid_out(f'with np.load({file}) as file:')}\n    CONSTANTS = dict(file)"
