"""Compares a model with the one that its code builds, in a process of its own."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import math
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import keras

from keras_policies._common import comparing, files
from keras_policies._common.process import EndedError, Process
from keras_policies.source import answers, comparison
from keras_policies.source.errors import SourceError
from keras_policies.source.functions import common
from keras_policies.source.graphs import Module
from keras_policies.source.objects import Style, automatic

Result = TypeVar("Result")
SECONDS = 600  # for one answer
MOST = 1 << 30  # numbers in the inputs and outputs of layers; no larger model is called
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
        with contextlib.suppress(EndedError):  # `next_style` raises it
            process().start()  # most models import nothing

    def next_style(self, code: str, module: Module) -> tuple[Style, bool]:
        """Run a module; return its style if its model is equal, or the next to try.

        Also return whether outputs were compared. Raise SourceError if no style is
        left, or if the process ends.
        """
        other = process(module.imports)
        try:
            with other.lock:
                return self._next_style(code, module, other.ask)
        except EndedError as error:
            raise SourceError(
                f"The process that builds {self._model.name!r} from its source code "
                f"did not answer: {error}.",
                ENDED,
            ) from error

    def _next_style(
        self, code: str, module: Module, ask: Callable[..., Any]
    ) -> tuple[Style, bool]:
        style, model = module.style, self._model
        path = self._folder / "model.py"
        with files.in_temporary_folder():
            path.write_text(code, "utf-8")
        answer = ask("build", str(path), self._train)
        if isinstance(answer, str):  # an error, such as for two layers with one name
            named = {kind for kind, _ in module.names} - module.operations
            reason = answer
        else:
            lines, names, weights = answer
            expected, own = self._described
            reason = difference(expected, lines)
            pairs = zip(own, names, strict=False)
            wrong = [] if reason else [a for a, b in pairs if a != b]
            named = {kind for kind, _ in wrong}
            if wrong:
                kind, name = wrong[0]
                reason = f"its layer {name!r} ({kind}) gets another name"
        if not named <= style.named:
            return dataclasses.replace(style, named=style.named | named), False
        if not reason and weights != comparison.weights(model):
            reason = (
                "layers that several inner models share would have separate weights"
            )
        if not reason:
            has_loaded = not weights or (
                ask("load", self._weights) == comparison.digests(model)
            )
            is_equal = has_loaded and self._has_equal_outputs(ask, module.policies)
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
        try:
            with files.in_temporary_folder():
                save_weights(self._model, file)
        except ValueError as error:  # a name that HDF5 cannot hold
            raise SourceError(
                f"The weights of {self._model.name!r} cannot be saved, to compare "
                f"them: {error}."
            ) from error
        return str(file)

    @functools.cached_property
    def _example(self) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Seeded inputs and their outputs, or None if the model cannot be called."""
        for recipe in comparing.recipes(self._model.inputs):
            try:
                if sum(_sizes(self._model, recipe)) > MOST:
                    continue
                arrays = comparing.draw(self._model.inputs, recipe)
                return arrays, comparison.outputs(self._model, arrays)
            except Exception:  # such as for a text, or an axis that is too short
                continue
        return None

    def _has_equal_outputs(
        self, ask: Callable[..., Any], policies: Iterable[str]
    ) -> bool | None:
        """Compare outputs on seeded inputs; return None if there are none."""
        if self._example is None:
            return None
        arrays, expected = self._example
        found = ask("call", arrays)
        if isinstance(found, str) or len(found) != len(expected):
            return False  # only the new model refuses these inputs
        dtypes = (policy.rpartition("_")[2] for policy in policies)  # mixed_float16
        allowed = comparing.tolerance_here(dtypes).share
        pairs = zip(found, expected, strict=True)
        return all(comparing.relative_difference(*pair) <= allowed for pair in pairs)


def _sizes(model: keras.Model, recipe: comparing.Recipe) -> Iterator[int]:
    """Yield how many numbers each layer returns for such inputs, about."""
    waiting, seen, long = [(model, recipe.batch)], set[object](), max(recipe.lengths)
    yield from map(math.prod, comparing.shapes(model.inputs, recipe))
    while waiting:
        each, batch = waiting.pop()
        for op in getattr(each, "operations", each.layers):
            for x in keras.tree.flatten(getattr(op, "output", ())):
                first, *others = x.shape or [1]
                yield (first or batch) * math.prod(n or long for n in others)
            inner, examples = op, batch
            lengths = iter(getattr(getattr(op, "input", None), "shape", ())[1:])
            while isinstance(inner, keras.layers.TimeDistributed):
                inner, examples = inner.layer, examples * (next(lengths, None) or long)
            if hasattr(inner, "layers") and (id(inner), examples) not in seen:
                seen.add((id(inner), examples))
                waiting.append((inner, examples))


_processes = functools.cache(
    functools.partial(Process, answers.__file__, seconds=SECONDS)
)


def process(imports: Collection[Any] = ()) -> Process:
    """Return the process for code that imports these classes of the user."""
    needs = [answers.TENSORFLOW] * ("tensorflow" in sys.modules)
    return _processes(*needs, *[answers.USER_CODE] * bool(imports))


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
