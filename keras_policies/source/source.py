"""The source code of a model."""

import contextlib
import dataclasses
import inspect
import os
import pathlib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_policies._common.types import Path
from keras_policies.source import checking
from keras_policies.source.graphs import Module, statement
from keras_policies.source.layout import call, laid_out, literal
from keras_policies.source.objects import Style, is_model

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

    The code imports only Keras, NumPy if the model has constants, and the modules of
    your own registered classes. Before it is returned, it is run, and the result is
    compared with the model. Weights are not part of it: save them with
    `model.save_weights`, and load them with `build_model().load_weights`.

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
        >>> inputs = keras.Input((4,), name="x")
        >>> model = keras.Model(inputs, keras.layers.Dense(3, name="y")(inputs))
        >>> print(to_source(model).splitlines()[-2].strip())
        outputs = layers.Dense(3, name="y")(inputs)
    """
    _check(model)
    target = None if constants is None else pathlib.Path(constants)
    if target and target.suffix != ".npz":
        raise ValueError(f"constants must end in '.npz', received {constants!r}.")
    with _float32(), tempfile.TemporaryDirectory() as folder:
        draft = target and pathlib.Path(folder, target.name)
        value = keras.saving.serialize_keras_object(model)
        _keep_vocabularies(model, value)
        style = Style(train=train)
        for _ in range(TRIES):
            module = Module(style)
            module.add(model, value, "build_model")
            better = _restyled(module)
            if better == style:
                code = _text(module, model, origin, draft, compile=compile)
                better = checking.next_style(code, model, value, module, draft)
            if better == style:
                if target and draft and module.constants:
                    shutil.copyfile(draft, target)
                return code
            style = better
    raise ValueError(f"No source code builds a model equal to {model.name!r}.")


def _check(model: keras.Model) -> None:
    """Raise if a model has no layers that are listed in its config."""
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
            f"The input of {model.name!r} is not known. Call the model once, or let it "
            "begin with a keras.Input."
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


def _keep_vocabularies(model: Any, value: Any) -> None:
    """Enter what look-up layers have learned into their configs, which lack it."""
    live = {op.name: op for op in getattr(model, "operations", model.layers)}
    for layer in value["config"]["layers"]:
        own, op = layer["config"], live.get(layer["config"].get("name"))
        if is_model(layer):
            _keep_vocabularies(op, layer)
        elif "vocabulary" in own and own["vocabulary"] is None and op is not None:
            words = op.get_vocabulary(include_special_tokens=False)
            own["vocabulary"] = np.array(words).tolist() or None


def _restyled(module: Module) -> Style:
    """Return a style that suits what was written.

    Names are left out if they are `dense`, `dense_1`, … in the order of writing, as
    Keras gives them. A policy that many layers have is named once.
    """
    style, numbers = module.style, module.automatic
    named = {kind for kind, each in numbers.items() if each != sorted({*each})}
    (policy, count), *_ = [*Counter(module.policies).most_common(1), (None, 0)]
    return dataclasses.replace(
        style,
        named=(style.named | named) - module.operations,
        dtype=policy if count >= OFTEN else None,
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
        _compile(module, model)
    functions = [
        "\n".join([f"def {name}():", *lines])
        for name, lines in module.functions.items()
    ]
    body, imports, top = "\n\n\n".join(functions), {"import keras", *module.imports}, []
    if module.style.dtype:
        top.append(f'DTYPE = "{module.style.dtype}"')
    if module.constants:
        top.append(_saved(module, constants))
        imports.add("import numpy as np")
    short = [name for name in ("layers", "ops") if re.search(rf"\b{name}\.", body)]
    if short:
        imports.add(f"from keras import {', '.join(short)}")
    path = ["import pathlib"] * bool(module.constants)
    lines = "\n".join(sorted(imports, key=lambda line: (line[:4] == "from", line)))
    source = f", from {os.path.basename(os.fspath(origin))}" if origin else ""
    title = re.sub(r"[^\w .,:()-]", "_", f"Keras model {model.name}{source}")[:78]
    return "\n\n".join([f'"""{title}."""', *path, lines, *top, f"\n{body}\n"])


def _saved(module: Module, constants: Path | None) -> str:
    """Write the constants, and return the statement that loads them."""
    if constants is None:
        names = ", ".join(map(repr, module.constants))
        raise ValueError(
            f"The model has constants of more than 64 numbers: {names}. Pass "
            'constants="model.npz", a file for them beside the module.'
        )
    path = pathlib.Path(constants)
    np.savez(path, **module.constants)
    file = call("pathlib.Path(__file__).with_name", [(literal(path.name),)])
    load = laid_out(("with ", *call("np.load", [file]), " as file:"), 0)
    return f"{load}\n    CONSTANTS = dict(file)"


def _compile(module: Module, model: keras.Model) -> None:
    """Let `build_model` compile the model as it was compiled."""
    config: Any = model.get_compile_config()
    if not config:
        raise ValueError(f"{model.name!r} has not been compiled. Pass compile=False.")
    lines = module.functions["build_model"]
    # `jit_compile` is what Keras chose for this backend.
    defaults = inspect.signature(keras.Model.compile).parameters
    given = {
        key: module.value(value)
        for key, value in config.items()
        if key != "jit_compile" and value != defaults[key].default
    }
    last = lines.pop().replace("    return ", "    model = ", 1)
    lines += [] if last == "    model = model" else [last]
    lines += [statement("", call("model.compile", [], given)), "    return model"]
