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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import keras

from keras_policies._common import comparing, files
from keras_policies._common.nests import of_kind
from keras_policies._common.process import EndedError, Process
from keras_policies.source import answers, comparison, live
from keras_policies.source.calls import tensors
from keras_policies.source.errors import SourceError
from keras_policies.source.functions import common
from keras_policies.source.graphs import Body, Module, Reader
from keras_policies.source.objects import Style, automatic, automatic_number

Result = TypeVar("Result")
SECONDS = 600  # for one answer
# Numbers in the inputs of a model and the outputs of its layers. With more than MOST,
# a model is not called; with more than MANY, it is called on one example, not on two;
# with more than SOME, on images of about SIDE x SIDE, if all its layers are of SPATIAL.
MOST, MANY, SOME = 1 << 30, 1 << 28, 1 << 26
SIDE = 64
# The layers of models that are called on smaller images. They compute each pixel by the
# same rule. Others, such as slices, wide croppings and norms over pixels, may drop from
# a small image what differs in a large one.
SPATIAL = re.compile(
    r"(Separable|Depthwise)?Conv[123]D(Transpose)?|(Global)?(Average|Max)Pooling[123]D|"
    r"(ZeroPadding|Cropping|UpSampling)[123]D|(Spatial)?Dropout([123]D)?|Activation|"
    r"BatchNormalization|Rescaling|Normalization|(Leaky|P)?ReLU|ELU|Dense|Reshape|"
    r"Flatten|Add|Subtract|Multiply|Average|Maximum|Minimum|Concatenate|InputLayer|"
    r"Functional|Sequential"
)
# Methods that `load_model` may replace, and that do not compute the outputs of these.
UNCOMPUTING = "compute_mask", "get_layer"
FOR_NAMES = 4096  # bytes of HDF5 for the groups and the name of a weight
ENDED = "KP003"


def apart(function: Callable[[], Result], configs: Iterable[Any]) -> Result:
    """Return the result of a function in a new thread, with Keras in its initial state.

    The global policy, the counters in layer names, and scopes of custom objects belong
    to a thread. The new one gets the caller's custom objects that configs name.
    """
    names = {text for config in configs for text in of_kind(config, str)}
    objects = {name: keras.saving.get_registered_object(name) for name in names}
    scope = {name: each for name, each in objects.items() if each is not None}

    def run() -> Result:
        keras.config.set_dtype_policy("float32")
        with keras.saving.custom_object_scope(scope):
            return function()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Comparison:
    """Compares a model with those that modules build.

    Args:
        model: the model.
        folder: of the modules' constants.
        reader: of the model.
        options: what `comparison.described` includes.
    """

    def __init__(
        self,
        model: keras.Model,
        folder: pathlib.Path,
        reader: Reader,
        **options: bool,
    ) -> None:
        self._model, self._folder, self._options = model, folder, options
        self._reader = reader

    def drafted(self, style: Style) -> tuple[Module, Body]:
        """Return a module and its draft, in this style or, if it does not do, another.

        Only a draft shows whether the model has policies, and how layers are numbered.
        """
        module = Module(style, self._reader)
        draft = module.draft(self._model, compile=self._options["compile"])
        wanted = dataclasses.replace(
            style,
            named=style.named | self._misnumbered(module.names),
            # Otherwise float32 layers would follow the global policy.
            typed=style.typed or bool(module.policies),
        )
        return (module, draft) if wanted == style else self.drafted(wanted)

    def _misnumbered(self, names: Sequence[tuple[str, str]]) -> frozenset[str]:
        """Return the classes with layers that need a name in the code.

        Keras numbers the layers of a class upwards, in the order of their creation,
        with gaps where layers create others. It gives no lower number later.
        """
        found, gaps, highest = set[str](), set[str](), dict[str, int]()
        counts = Counter[str]()
        for kind, name in names:
            number = automatic_number(kind, name)
            if number is not None:
                if number < highest.get(kind, 0):
                    found.add(kind)
                elif number != counts[automatic(kind)]:
                    gaps.add(kind)
                highest[kind] = number
                counts[automatic(kind)] += 1
        if gaps:
            written = Counter(automatic(kind) for kind, _ in names)
            parts = comparison.parts(self._model)
            created = Counter(automatic(type(each).__name__) for each in parts)
            others = created - written  # created by layers, or operations
            found |= {kind for kind in gaps if automatic(kind) not in others}
        return frozenset(found)

    def next_style(self, code: str, module: Module) -> tuple[Style, bool]:
        """Run a module; return its style if its model is equal, or the next to try.

        Also return whether outputs were compared. Raise SourceError if no style is
        left, or if the process ends.
        """
        path = self._folder / "model.py"
        with files.in_temporary_folder():
            path.write_text(code, "utf-8")
        try:
            described, *found = self._answer(module, str(path))
        except EndedError as error:
            raise SourceError(
                f"The process that builds {self._model.name!r} from its source code "
                f"did not answer: {error}.",
                ENDED,
            ) from error
        named, reason = self._unlike(described, module)
        style = module.style
        if not named <= style.named:
            return dataclasses.replace(style, named=style.named | named), False
        if not reason:
            if found and self._is_equal(found[0], module.policies):
                return style, self._example is not None
            reason = "its layers compute something other than their configs say"
        if not style.explicit:
            return dataclasses.replace(style, explicit=True), False
        check_names(module)
        raise SourceError(
            f"No source code builds a model equal to {self._model.name!r}: {reason}."
        )

    def _unlike(self, described: Any, module: Module) -> tuple[set[str], str]:
        """Return the classes of layers that need names, and how two models differ."""
        if isinstance(described, str):  # an error, such as for two layers with one name
            return {kind for kind, _ in module.names} - module.operations, described
        lines, names, weights = described
        if reason := difference(self._described.lines, lines):
            return set(), reason
        pairs = zip(self._described.names, names, strict=False)
        if wrong := [old for old, new in pairs if old != new]:
            kind, name = wrong[0]
            reason = f"its layer {name!r} ({kind}) gets another name"
        elif weights != self._described.weights:
            reason = (
                "layers that several inner models share would have separate weights"
            )
        return {kind for kind, _ in wrong}, reason

    def _answer(self, module: Module, path: str) -> Any:
        """Have a module's model built and called, and meanwhile call the other one."""
        other, calls = process(module.imports), concurrent.futures.Future[Any]()

        def asked() -> list[Any]:
            if error := other.ask("built", path, self._options):
                return [error]
            example = other.ask("example", path, *calls.result())
            return [other.ask("described", path, self._options), example]

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(asked)
            try:
                calls.set_result((self._weights, self._recipes))
                described, example = self._described, self._example
                answer = waiting.result()
            except BaseException:
                calls.cancel()
                other.close()  # do not wait for its answer
                raise
        if answer[0] != described:
            return answer[:1]
        match answer, example:
            case [described, (recipe, _)], (own, _) if recipe != own:
                # This process alone refuses some inputs, as where warnings are errors.
                return [described, other.ask("example", path, self._weights, [own])]
        return answer

    def _is_equal(self, found: Any, policies: Iterable[str]) -> bool:
        """Return whether a model has the same outputs, of the same example."""
        if isinstance(found, str):  # an error with the weights
            return False
        if self._example is None:
            return True
        own, expected = self._example
        recipe, outputs = found or (None, [])
        if recipe != own or len(outputs) != len(expected):
            return False  # only the new model refuses these inputs
        dtypes = (policy.rpartition("_")[2] for policy in policies)  # mixed_float16
        allowed = comparing.tolerance_here(dtypes).share
        pairs = zip(outputs, expected, strict=True)
        return all(comparing.relative_difference(*pair) <= allowed for pair in pairs)

    @functools.cached_property
    def _described(self) -> comparison.Description:
        """What has to be equal."""
        return comparison.described(self._model, reader=self._reader, **self._options)

    @functools.cached_property
    def _weights(self) -> str:
        """The file with the weights of the model."""
        file = self._folder / "weights"
        with files.in_temporary_folder():
            comparison.write_weights(self._model, file)
        return str(file)

    @functools.cached_property
    def _recipes(self) -> Sequence[comparing.Recipe]:
        """What the model may be called on, in the order to try."""
        return [*recipes(self._model, self._reader)]

    @functools.cached_property
    def _example(self) -> tuple[comparing.Recipe, Sequence[Any]] | None:
        """What the model was called on and its outputs, or None if it cannot be."""
        return comparison.example(self._model, self._recipes)


def recipes(model: keras.Model, reader: Reader) -> Iterator[comparing.Recipe]:
    """Yield recipes that do not need too much memory, first those that need less."""
    is_spatial = functools.cache(lambda: all(map(_is_spatial, comparison.parts(model))))
    for recipe in comparing.recipes(model.inputs):
        one = dataclasses.replace(recipe, batch=1)
        for each, most in (recipe, MANY), (one, MOST):
            if (numbers := numbers_in(model, each, reader)) <= most:
                if numbers > SOME and is_spatial():
                    yield from _smaller(model, each)
                yield each
                break


def _is_spatial(op: Any) -> bool:
    """Return whether an op is one of SPATIAL, and no method of it was replaced."""
    own = (x for key, x in vars(op).items() if callable(x) and key not in UNCOMPUTING)
    cropping = keras.tree.flatten(op.cropping) if hasattr(op, "cropping") else ()
    is_known = SPATIAL.fullmatch(type(op).__name__) and live.is_of_keras(type(op))
    return bool(
        is_known and all(map(live.is_of_keras, own)) and max(cropping, default=0) < 2
    )


def _smaller(
    model: keras.Model, recipe: comparing.Recipe
) -> Iterator[comparing.Recipe]:
    """Yield a recipe of smaller images, if an input has a fixed and longer side."""
    smaller = dataclasses.replace(recipe, side=SIDE)
    whole, shapes = (comparing.shapes(model.inputs, x) for x in (recipe, smaller))
    if shapes != whole:
        yield smaller


def numbers_in(model: keras.Model, recipe: comparing.Recipe, reader: Reader) -> int:
    """Return how many numbers the calls of layers return for such inputs, about.

    Attention has one for each head and each pair of a query and a key.
    """
    long = max(recipe.lengths)

    def count(shape: Iterable[int | None]) -> int:
        return math.prod(n or long for n in shape)

    @functools.cache
    def total(model: keras.Model, batch: int) -> int:
        found = 0
        for op, inputs, outputs in _calls(model, reader):
            for first, *others in (x.shape or [1] for x in outputs):
                found += (first or batch) * count(others)
            inner, examples = op, batch
            lengths = iter(inputs[0].shape[1:] if inputs else ())
            while isinstance(inner, keras.layers.TimeDistributed):
                inner, examples = inner.layer, examples * count([next(lengths, None)])
            if hasattr(inner, "layers"):
                found += total(inner, examples)
            if "Attention" in type(inner).__name__ and inputs:
                config = inner.get_config()
                heads = config.get("num_heads") or config.get("num_query_heads") or 1
                if isinstance(inner, keras.layers.AdditiveAttention):
                    heads = count(inputs[0].shape[-1:])
                places = [count(x.shape[1:-1]) for x in inputs]
                found += batch * heads * places[0] * max(places)
        return found

    given = sum(map(math.prod, comparing.shapes(model.inputs, recipe)))
    return given + total(model, recipe.batch)


def _calls(model: keras.Model, reader: Reader) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the layer, the inputs and the outputs of each call in a model."""
    if hasattr(model, "operations"):
        for call in reader.graph(model).calls(masks=False):
            yield call.op, tensors([call.args, call.kwargs]), tensors(call.outputs)
    else:
        for layer in model.layers:
            ends = getattr(layer, "input", ()), getattr(layer, "output", ())
            yield layer, *map(tensors, ends)


_processes = functools.cache(
    functools.partial(Process, answers.__file__, seconds=SECONDS)
)


def start() -> None:
    """Start the process for code that imports nothing, as that of most models."""
    with contextlib.suppress(EndedError):  # `next_style` raises it
        process().start()


def process(imports: Collection[Any] = ()) -> Process:
    """Return the process for code that imports these classes of the user."""
    needs = [answers.TENSORFLOW] * ("tensorflow" in sys.modules)
    return _processes(*needs, *[answers.USER_CODE] * bool(imports))


def save_weights(model: keras.Model, file: pathlib.Path) -> None:
    """Write the weights of a model; raise OSError if there is no room for them."""
    for_names = FOR_NAMES * (1 + len(model.weights))
    files.check_room(file, comparison.size_of_weights(model) + for_names)
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
