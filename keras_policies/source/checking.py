"""Runs the source code of a model, and compares the result with the model."""

import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

import keras
import numpy as np

from keras_policies._common import files
from keras_policies.source.functions import common
from keras_policies.source.graphs import Module
from keras_policies.source.objects import Style, automatic

Result = TypeVar("Result")
LENGTHS = 5, 64  # to try for axes of unknown length
FOR_NAMES = 4096  # bytes of HDF5 for the groups and the name of a weight
# Code that passes a mask, or that may create one for the next layer of a Sequential.
MASKS = re.compile(r"\bmask=|mask_zero=True|Masking\(|Sequential\(")


def apart(function: Callable[[], Result], config: Any = None) -> Result:
    """Return the result of a function in a new thread, with Keras in its initial state.

    The global policy, the counters in layer names, and scopes of custom objects belong
    to a thread. The new one gets the caller's custom objects that a config names.
    """
    texts = (x for x in keras.tree.flatten(config) if isinstance(x, str))
    objects = {text: keras.saving.get_registered_object(text) for text in texts}
    scope = {name: each for name, each in objects.items() if each is not None}

    def run() -> Result:
        keras.config.set_dtype_policy("float32")
        with keras.saving.custom_object_scope(scope):
            return function()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def next_style(
    code: str, model: keras.Model, module: Module, folder: pathlib.Path
) -> tuple[Style, bool]:
    """Run a module; return its style if it builds an equal model, or the next to try.

    Also return whether outputs were compared. `folder` has the module's constants; a
    file of weights is written there. Raise ValueError if no style is left.
    """
    style, is_equal = module.style, None

    def build() -> keras.Model:
        file = os.path.join(folder, "model.py")
        namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
        exec(compile(code, "model.py", "exec"), namespace)
        return namespace["build_model"]()

    try:
        built = apart(build)
        (old, names), (new, others) = (_described(x, style) for x in (model, built))
    except Exception as error:  # such as two layers with one name
        reason, wrong = f"{type(error).__name__}: {error}", module.names
    else:
        reason = _difference(old, new)
        pairs = zip(names, others, strict=False)
        wrong = [] if reason else [a for a, b in pairs if a != b]
    named = style.named | ({kind for kind, _ in wrong} - module.operations)
    if named > style.named:
        return dataclasses.replace(style, named=named), False
    if not reason and _weights(built) != _weights(model):
        reason = "layers that several inner models share would have separate weights"
    if not reason:
        has_loaded = _loads(built, model, folder / "model.weights.h5")
        is_equal = _has_equal_outputs(built, model) if has_loaded else False
        if is_equal is not False:
            return style, is_equal is True
        reason = "its layers compute something other than their configs say"
    if not style.explicit:
        return dataclasses.replace(style, explicit=True), False
    _check_names(module)
    raise ValueError(
        f"No source code builds a model equal to {model.name!r}: {reason}."
    )


def _difference(old: list[Any], new: list[Any]) -> str:
    """Return a text about the first difference of two descriptions, or ""."""
    for pair in itertools.zip_longest(old, new):
        if pair[0] != pair[1]:
            texts = [str(each).replace("\0", "") for each in pair]
            start = max(0, len(common(texts)) - 40)
            wanted, found = (text[start : start + 100] for text in texts)
            return f"{found!r}, expected {wanted!r}"
    return ""


def _check_names(module: Module) -> None:
    """Raise if a layer has a name that Keras may give to an operation."""
    names = {automatic(kind) for kind in module.operations}
    for kind, name in module.names:
        if kind not in module.operations and re.sub(r"_\d+$", "", name) in names:
            raise ValueError(
                f"Keras gives the name of the layer {name!r} ({kind}) to an operation, "
                "and code cannot name operations. Give the layer another name."
            )


def _described(model: keras.Model, style: Style) -> tuple[list[Any], list[Any]]:
    """Return what must be equal for equal models, and the names of the layers."""
    module = Module(dataclasses.replace(style, explicit=True, full=True))
    text = "\n".join(module.text(model))
    if not MASKS.search(text):  # set by Bidirectional, and unused without masks
        text = re.sub(r", zero_output_for_mask=\w+", "", text)
    constants = (np.array(value).tobytes() for value in module.constants.values())
    return [*text.split("\n"), *constants], module.names


def _weights(model: keras.Model) -> list[Any]:
    frozen = {id(weight) for weight in model.non_trainable_weights}
    return [(tuple(w.shape), w.dtype, id(w) in frozen) for w in model.weights]


def save_weights(model: keras.Model, file: pathlib.Path) -> None:
    """Write the weights of a model; raise OSError if there is no room for them."""
    sizes = [keras.ops.convert_to_numpy(w.value).nbytes for w in model.weights]
    files.check_room(file, sum(sizes) + FOR_NAMES * (1 + len(sizes)))
    model.save_weights(file, overwrite=True)


def _loads(built: keras.Model, model: keras.Model, file: pathlib.Path) -> bool:
    """Return whether loading the weights of `model` into `built` makes them equal."""
    with files.in_temporary_folder():
        save_weights(model, file)
    built.load_weights(file)
    old, new = (
        [keras.ops.convert_to_numpy(w.value).tobytes() for w in each.weights]
        for each in (model, built)
    )
    return old == new


def _has_equal_outputs(built: keras.Model, model: keras.Model) -> bool | None:
    """Compare outputs on random inputs; return None if `model` cannot be called."""
    for length in LENGTHS:
        try:
            arrays = [_example(x, length) for x in model.inputs]
            is_one = isinstance(model, keras.Sequential)
            structure = None if is_one else model.input
            nest = keras.tree.pack_sequence_as(structure, arrays)
            expected = _outputs(model, model, nest)
        except Exception:  # such as for a text, or an axis that is too short
            continue
        try:
            pairs = zip(expected, _outputs(built, model, nest), strict=True)
            return all(np.allclose(a, b, 1e-3, equal_nan=True) for a, b in pairs)
        except Exception:  # only `built` refuses these inputs, or its shapes differ
            return False
    return None


def _example(x: keras.KerasTensor, length: int) -> Any:
    """Return an input: normally distributed numbers, texts, or zeros and ones."""
    sizes = [2 if n is None and at == 0 else n for at, n in enumerate(x.shape)]
    shape = [length if n is None else n for n in sizes]
    numbers = np.random.default_rng(0).normal(size=shape)
    if x.dtype == "string":
        return keras.ops.convert_to_tensor(np.where(numbers > 0, "some text", "1"))
    return keras.ops.cast(numbers if "float" in x.dtype else numbers > 0, x.dtype)


class _Start(keras.StatelessScope):  # type: ignore[misc]
    """Gives variables other values; others, such as states of RNNs, are 0."""

    def get_current_value(self, variable: Any) -> Any:
        value = super().get_current_value(variable)
        return keras.ops.zeros(variable.shape) if value is None else value


def _outputs(model: keras.Model, other: keras.Model, nest: Any) -> list[Any]:
    """Return a model's outputs with the variables of another; change neither."""
    variables = (
        x.trainable_variables + x.non_trainable_variables for x in (model, other)
    )
    with _Start([*zip(*variables, strict=True)]):
        outputs = keras.tree.flatten(model(nest, training=False))
        floats = [keras.ops.cast(x, "float32") for x in outputs]
    return [*map(keras.ops.convert_to_numpy, floats)]
