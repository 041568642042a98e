"""Compares a model with the one that its code builds, in a process of its own."""

import concurrent.futures
import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import numpy as np

from keras_policies._common import files
from keras_policies.source import comparison, plain
from keras_policies.source.errors import SourceError
from keras_policies.source.functions import common
from keras_policies.source.graphs import Module
from keras_policies.source.objects import Style, automatic

Result = TypeVar("Result")
LENGTHS = 5, 64  # to try for axes of unknown length
FOR_NAMES = 4096  # bytes of HDF5 for the groups and the name of a weight
ENDED = "KP003"


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


class Comparison:
    """Compares a model with those that modules build; `folder` has their constants."""

    def __init__(
        self, model: keras.Model, folder: pathlib.Path, *, train: bool
    ) -> None:
        self._model, self._folder, self._train = model, folder, train

    def next_style(self, code: str, module: Module) -> tuple[Style, bool]:
        """Run a module; return its style if its model is equal, or the next to try.

        Also return whether outputs were compared. Raise SourceError if no style is
        left, or if the process ends.
        """
        with plain.shared.lock:
            try:
                return self._next_style(code, module)
            except plain.EndedError as error:
                raise SourceError(
                    f"The process that builds {self._model.name!r} from its source "
                    f"code did not answer: {error}.",
                    ENDED,
                ) from error

    def _next_style(self, code: str, module: Module) -> tuple[Style, bool]:
        style, model = module.style, self._model
        path = self._folder / "model.py"
        with files.in_temporary_folder():
            path.write_text(code, "utf-8")
        mode = plain.WHOLE if module.imports else plain.PLAIN
        ask = functools.partial(plain.shared.ask, mode)
        answer = ask("build", str(path), self._train)
        if isinstance(answer, str):  # an error, such as for two layers with one name
            reason, wrong = answer, module.names
        else:
            lines, names, weights = answer
            expected, own = self._described
            reason = difference(expected, lines)
            pairs = zip(own, names, strict=False)
            wrong = [] if reason else [a for a, b in pairs if a != b]
        named = style.named | ({kind for kind, _ in wrong} - module.operations)
        if named > style.named:
            return dataclasses.replace(style, named=named), False
        if not reason and weights != comparison.weights(model):
            reason = (
                "layers that several inner models share would have separate weights"
            )
        if not reason:
            has_loaded = ask("load", self._weights) == comparison.digests(model)
            is_equal = self._has_equal_outputs(ask) if has_loaded else False
            if is_equal is not False:
                return style, is_equal is True
            reason = "its layers compute something other than their configs say"
        if not style.explicit:
            return dataclasses.replace(style, explicit=True), False
        check_names(module)
        raise SourceError(
            f"No source code builds a model equal to {model.name!r}: {reason}."
        )

    @functools.cached_property
    def _described(self) -> tuple[list[str], list[tuple[str, str]]]:
        return comparison.described(self._model, train=self._train)

    @functools.cached_property
    def _weights(self) -> str:
        """The file with the weights of the model."""
        file = self._folder / "model.weights.h5"
        with files.in_temporary_folder():
            save_weights(self._model, file)
        return str(file)

    @functools.cached_property
    def _example(self) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Random inputs and their outputs, or None if the model cannot be called."""
        for length in LENGTHS:
            arrays = [_example(x, length) for x in self._model.inputs]
            try:
                return arrays, comparison.outputs(self._model, arrays)
            except Exception:  # such as for a text, or an axis that is too short
                continue
        return None

    def _has_equal_outputs(self, ask: Callable[..., Any]) -> bool | None:
        """Compare outputs on random inputs; return None if there are none."""
        if self._example is None:
            return None
        arrays, expected = self._example
        found = ask("call", arrays)
        if isinstance(found, str) or [*map(np.shape, found)] != [
            *map(np.shape, expected)
        ]:
            return False  # only the new model refuses these inputs
        pairs = zip(expected, found, strict=True)
        return all(np.allclose(a, b, 1e-3, equal_nan=True) for a, b in pairs)


def save_weights(model: keras.Model, file: pathlib.Path) -> None:
    """Write the weights of a model; raise OSError if there is no room for them."""
    sizes = [keras.ops.convert_to_numpy(w.value).nbytes for w in model.weights]
    files.check_room(file, sum(sizes) + FOR_NAMES * (1 + len(sizes)))
    model.save_weights(file, overwrite=True)


def difference(old: list[str], new: list[str]) -> str:
    """Return a text about the first difference of two descriptions, or ""."""
    for pair in itertools.zip_longest(old, new):
        if pair[0] != pair[1]:
            texts = [*map(str, pair)]
            start = max(0, len(common(texts)) - 40)
            wanted, found = (text[start : start + 100] for text in texts)
            return f"{found!r}, expected {wanted!r}"
    return ""


def check_names(module: Module) -> None:
    """Raise if a layer has a name that Keras may give to an operation."""
    names = {automatic(kind) for kind in module.operations}
    for kind, name in module.names:
        if kind not in module.operations and re.sub(r"_\d+$", "", name[-80:]) in names:
            raise SourceError(
                f"Keras gives the name of the layer {name!r} ({kind}) to an operation, "
                "and code cannot name operations. Give the layer another name."
            )


def _example(x: keras.KerasTensor, length: int) -> Any:
    """Return an input: normally distributed numbers, texts, or zeros and ones."""
    sizes = [2 if n is None and at == 0 else n for at, n in enumerate(x.shape)]
    shape = [length if n is None else n for n in sizes]
    numbers = np.random.default_rng(0).normal(size=shape)
    if x.dtype == "string":
        return np.where(numbers > 0, "some text", "1")
    values = numbers if "float" in x.dtype else numbers > 0
    return keras.ops.convert_to_numpy(keras.ops.cast(values, x.dtype))
