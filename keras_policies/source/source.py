"""The source code of a model."""

import contextlib
import dataclasses
import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_policies._common.types import Path
from keras_policies.source import checking
from keras_policies.source.graphs import Module
from keras_policies.source.layout import call, laid_out
from keras_policies.source.objects import Style

OFTEN = 3  # policies that are named once if so many layers have them
TRIES = 6  # styles, until the module builds an equal model


def to_source(
    model: keras.Model,
    *,
    origin: Path | None = None,
    constants: Path | None = None,
    compile: bool = False,
    train: bool = False,
) -> str:
    """Return Python source code whose `build_model()` builds an equal model.

    The code imports Keras alone (NumPy for arrays; your modules for registered classes
    of yours), and was run once: what it builds has the same config. It has no weights:
    `model.save_weights` writes those, and `build_model().load_weights` reads them.

    Args:
        model: a Functional or Sequential model that has been built.
        origin: str or path of the file that the model comes from, for the docstring.
        constants: str or path of an `.npz` file, which is written if the model has
            constants of more than 64 numbers. The code loads it from its own folder.
        compile: bool, whether to also write the call of `compile`.
        train: bool, whether to write initializers, which do not matter once weights
            are loaded.

    Returns:
        The text of a module, formatted as by ruff.

    Raises:
        TypeError: if `model` is not a model.
        ValueError: if the model, or a layer that the message names, has no form as
            source code; or constants are needed, and there is no file for them.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        >>> print(to_source(model).splitlines()[-1].strip())
        return keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    """
    _check(model)
    with _float32():
        value = keras.saving.serialize_keras_object(model)
        style = Style(train=train)
        for _ in range(TRIES):
            module = Module(style)
            module.add(model, value, "build_model")
            better = _restyled(style, module)
            if better == style:
                text = _text(module, model, origin, constants, compile=compile)
                better = checking.next_style(text, model, value, module, constants)
            if better == style:
                return text
            style = better
    raise ValueError(f"No source code builds a model equal to {model.name!r}.")


def _check(model: keras.Model) -> None:
    """Raise if a model has no layers that are listed in its config."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"Expected a Functional or Sequential model, received {model!r}."
        )
    is_graph = hasattr(model, "operations") or isinstance(model, keras.Sequential)
    if not is_graph:
        raise ValueError(
            f"{model.name!r} is a subclassed model ({type(model).__name__}): its "
            "source code is its class. Expected a Functional or Sequential model."
        )
    if not model.built:
        raise ValueError(
            f"{model.name!r} has not been built, so its input is not known. Call it "
            "once, or give it a keras.Input."
        )


@contextlib.contextmanager
def _float32() -> Iterator[None]:
    """Build models as a fresh process does: in float32 where nothing else is said."""
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


def _restyled(style: Style, module: Module) -> Style:
    """Return a style that suits what was written.

    Names are left out if they are `dense`, `dense_1`, … in the order of writing, as
    Keras gives them. A policy that most layers have is named once.
    """
    numbers = dict[str, list[int]]()
    for kind, number in module.objects.automatic:
        numbers.setdefault(kind, []).append(number)
    named = {kind for kind, each in numbers.items() if each != sorted({*each})}
    policies = Counter(module.objects.policies).most_common(1)
    often = [name for name, count in policies if count >= OFTEN]
    return dataclasses.replace(
        style, named=style.named | named, dtype=often[0] if often else None
    )


def _text(
    module: Module,
    model: keras.Model,
    origin: Path | None,
    constants: Path | None,
    *,
    compile: bool,
) -> str:
    """Return the text of the module, and write its constants."""
    if compile:
        _compiled(module, model)
    functions = [
        "\n".join([f"def {name}():", *lines])
        for name, lines in module.functions.items()
    ]
    body = "\n\n\n".join(functions)
    head = []
    if module.style.dtype:
        head.append(f'DTYPE = "{module.style.dtype}"')
    if module.objects.constants:
        head.append(_save(module, constants))
    imports = ["import keras"]
    if module.objects.constants:
        imports.append("import numpy as np")
    imports += sorted(each for each in module.objects.imports if each not in imports)
    short = [name for name in ("layers", "ops") if re.search(rf"\b{name}\.", body)]
    if short:
        at = sum(each.startswith("import ") for each in imports)
        imports.insert(at, f"from keras import {', '.join(short)}")
    if module.objects.constants:
        imports = ["import pathlib", "", *imports]
    top = "\n\n".join([_docstring(model, origin), "\n".join(imports), *head])
    return f"{top}\n\n\n{body}\n"


def _docstring(model: keras.Model, origin: Path | None) -> str:
    source = f", from {os.path.basename(os.fspath(origin))}" if origin else ""
    text = re.sub(r"[^\w .,:()-]", "_", f"Keras model {model.name}{source}")
    return f'"""{text[:78]}."""'


def _save(module: Module, constants: Path | None) -> str:
    """Write the constants, and return the statement that loads them."""
    if constants is None:
        names = ", ".join(map(repr, module.objects.constants))
        raise ValueError(
            f"The model has constants of more than 64 numbers: {names}. Pass "
            'constants="model.npz", a file for them beside the module.'
        )
    path = pathlib.Path(constants)
    np.savez(path, **module.objects.constants)
    name = call(
        ("np.load",), [(f'pathlib.Path(__file__).with_name("{path.name}")',)], {}
    )
    return laid_out(("CONSTANTS = ", *name), 0)


def _compiled(module: Module, model: keras.Model) -> None:
    """Let `build_model` compile the model as it was compiled."""
    config: Any = model.get_compile_config()
    if not config:
        raise ValueError(f"{model.name!r} has not been compiled. Pass compile=False.")
    lines = module.functions["build_model"]
    kwargs = {
        key: module.objects.value(value)
        for key, value in config.items()
        if value is not None
    }
    lines[-1] = lines[-1].replace("    return ", "    model = ", 1)
    lines.append("    " + laid_out(call(("model.compile",), [], kwargs), 4))
    lines.append("    return model")
