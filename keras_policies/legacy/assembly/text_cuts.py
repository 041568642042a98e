"""Cuts the text layers off a model, which then takes the numbers that they returned.

    title (InputLayer of texts) -> words (StringLookup) -> Embedding
    title (InputLayer of int64) -> Embedding

Text layers are never created, because they need TensorFlow; `texts/` computes the same.
Where Keras would call one, it gets a new input of the model.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly import makers
from keras_policies.legacy.assembly.calls import SequenceWithCalls
from keras_policies.legacy.assembly.makers import Make, Maker
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import is_program, keras_object, layer_name
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.texts.arguments import ARGUMENTS
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.texts.layers import Shape, TextLayer

STRING = "string"
PART = "<part>"  # stands for a model that is the first layer of a Sequential
ALWAYS = "StringLookup", "TextVectorization"  # read texts, whatever the config
RESHAPES = {"ExpandDims", "Flatten", "Reshape", "Squeeze"}  # in Keras, and in `tf`
RESHAPES |= {"expand_dims", "reshape", "squeeze"}
ONE = (), (1,)  # shapes of single texts, without the batch
HINT = hints.Hint(
    "Pass a signature that takes numbers, or leave {} out and set "
    "KERAS_BACKEND=tensorflow.",
    (hints.OUTSIDE,),
    "KP306",
)


class Feed(NamedTuple):
    """An input of a model without text layers."""

    source: int  # the number of the original input
    layer: TextLayer | None  # converts that to numbers; None if it is unchanged
    tensor: Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class _Read:
    """A text that a layer or an inner model reads, and the new input for it."""

    text: Tensor
    reader: str
    number: int  # of the input of the reader
    layer: TextLayer
    tensor: Tensor


class TextCuts:
    """The text layers that are cut off while Keras builds a model.

    `inputs` converts the texts of the model to numbers; it is None if there are none.
    """

    def __init__(self) -> None:
        self.inputs: TextInputs | None = None
        self._reads: list[_Read] = []

    def maker(self, config: Config, *, is_root: bool) -> Make | None:
        """Return the maker of a text layer in a graph, or of a model with texts."""
        inner = config.get("config")
        if _is_text_layer(config):
            is_in_graph = "inbound_nodes" in config
            return (lambda _: self.layer(config)) if is_in_graph else None
        if is_program(config) or not isinstance(inner, dict):
            return None
        own, is_graph = config.get("registered_name"), "input_layers" in inner
        if not takes_texts(config) and (own or not is_graph):
            return None
        kind = "Model" if is_graph else str(config.get("class_name"))
        stock = getattr(keras, kind, None)
        cls = keras.saving.get_registered_object(own) if own else stock
        bases = keras.Model if is_graph else (keras.Sequential, SequenceWithCalls)
        if not (isinstance(cls, type) and issubclass(cls, bases)):
            return None
        make = self._functional if is_graph else self._sequential
        return lambda settings: make(settings, cls, is_root)

    def layer(self, config: Config) -> Any:
        """Return the layer of a config, or the stand-in for a text layer."""
        if _is_text_layer(config):
            return _TextCall(self, config)
        return keras.saving.deserialize_keras_object(config)

    def read(self, text: Tensor, reader: str, number: int, layer: TextLayer) -> Tensor:
        """Return the input that replaces a text, which `reader` converts by `layer`."""
        text = _source(text, layer)
        for read in self._reads:
            if (read.reader, read.number) == (reader, number) and read.text is text:
                return read.tensor
        shape, dtype = layer.output(tuple(text.shape))
        tensor = keras.Input(batch_shape=shape, dtype=dtype)
        self._reads.append(_Read(text, reader, number, layer, tensor))
        return tensor

    def model(
        self,
        inputs: Any,
        outputs: Any,
        *,
        is_root: bool,
        cls: type[keras.Model] = keras.Model,
        **options: Any,
    ) -> keras.Operation:
        """Return a model without its text layers; inside of another model, its call."""
        tensors: list[Tensor] = keras.tree.flatten(inputs)
        feeds = [
            feed
            for number, x in enumerate(tensors)
            for feed in ([] if x.dtype == STRING else [Feed(number, None, x)])
            + [Feed(number, r.layer, r.tensor) for r in self._reads if r.text is x]
        ]
        texts = [x for x in tensors if x.dtype == STRING]
        if not (any(feed.layer for feed in feeds) or (is_root and texts)):
            return cls(inputs, outputs, **options)
        if not feeds:
            reason = "nothing reads its inputs, which are texts."
            raise LegacyModelError(reason, code="KP306")
        made_by = _made_by(outputs)
        if any(keras_internals.maker_of(x) in made_by for x in texts):
            is_output = any(x.dtype == STRING for x in keras.tree.flatten(outputs))
            how = "returns its texts" if is_output else "also reads its texts otherwise"
            raise LegacyModelError(f"it {how}.", HINT)
        is_dict = is_root and isinstance(inputs, dict)
        names = sorted(inputs) if is_dict else [x.name for x in tensors]
        self._rename(feeds, names, made_by)
        new = [feed.tensor for feed in feeds]
        keys = (x.tensor.name if x.layer else names[x.source] for x in feeds)
        given = dict(zip(keys, new, strict=True)) if is_dict else makers.one_or_all(new)
        model = cls(given, outputs, **options)
        sources = [
            (name, tuple(x.shape) if x.dtype == STRING else None)
            for name, x in zip(names, tensors, strict=True)
        ]
        return self._made(model, sources, feeds, is_root=is_root, is_dict=is_dict)

    def _rename(
        self,
        feeds: Sequence[Feed],
        names: Sequence[str],
        made_by: Iterable[keras.Operation],
    ) -> None:
        """Name the new inputs like their texts, and append the readers if needed."""
        readers = {id(read.tensor): read.reader for read in self._reads}
        taken = {x.name for x in made_by if not isinstance(x, keras.layers.InputLayer)}
        kept = [feed for feed in feeds if feed.layer is None]
        taken |= {n for x in kept for n in (x.tensor.name, names[x.source])}
        sources = [feed.source for feed in feeds]
        for feed in (each for each in feeds if each.layer):
            name = names[feed.source]
            if sources.count(feed.source) > 1:
                name = f"{name}_{readers[id(feed.tensor)]}"
            name = layer_name(name)
            while name in taken:
                name += "_"
            taken.add(name)
            layer: Any = keras_internals.maker_of(feed.tensor)
            layer.name = feed.tensor.name = name

    def _made(
        self,
        model: keras.Model,
        sources: Sequence[tuple[str, Shape | None]],
        feeds: Sequence[Feed],
        *,
        is_root: bool,
        is_dict: bool = False,
    ) -> keras.Operation:
        if not is_root:
            return _PartCall(self, model, len(sources), feeds)
        unique = dict.fromkeys(feed.layer for feed in feeds if feed.layer)
        layers = {layer: number for number, layer in enumerate(unique)}
        targets = (
            (x.name, i, layers[f]) if f else (sources[i][0], i, None)
            for i, f, x in feeds
        )
        self.inputs = TextInputs((*sources,), (*targets,), (*layers,), is_dict)
        return model

    def _functional(
        self, config: Config, cls: type[keras.Model], is_root: bool
    ) -> keras.Operation:
        _check_readers(config["layers"])
        inside = {x["name"] for x in config["layers"] if _is_part(x)}
        ends = _counted_from_0(config["output_layers"], inside)

        def model(**options: Any) -> keras.Operation:
            return self.model(is_root=is_root, cls=cls, **options)

        new = {**config, "output_layers": ends}
        return makers.subclass(cls, model).from_config(new)

    def _sequential(self, config: Config, cls: Any, is_root: bool) -> keras.Operation:
        """Return a Sequential whose first layer takes texts."""
        layers = config["layers"]
        first, *others = layers[layers[0]["class_name"] == "InputLayer" :]
        if len(layers) == 1 + len(others):
            raise unreadable("a layer called on several tensors, or of any shape,")
        options = layers[0]["config"]
        shape, name = tuple(options["batch_shape"]), options["name"]
        reader = self.layer(first)
        if not isinstance(reader, _PartCall | _TextCall):
            with located(layer=reader.name, code="KP306"):
                raise unreadable(type(reader).__name__)
        is_part = isinstance(reader, _PartCall)
        feeds = reader.feeds if is_part else [reader.feed(shape)]
        if len(feeds) != 1:
            raise unreadable("more than one layer of a Sequential")
        ((_, layer, spec),) = feeds
        new = {"batch_shape": spec.shape, "dtype": spec.dtype, "name": name}
        identity = {"name": f"{name}_output"}
        kept = [keras_object("keras.layers", "InputLayer", new)]
        kept += [keras_object(None, PART, {}, PART)] if is_part else []
        if not is_part and not others:
            kept.append(keras_object("keras.layers", "Identity", identity))
        kept += others
        part = Maker(lambda _: reader.part)
        with keras_internals.custom_object_scope({PART: part}):
            model = cls.from_config({**config, "layers": kept})
        feed = Feed(0, layer, model.inputs[0])
        return self._made(model, [(name, shape)], [feed], is_root=is_root)


class _TextCall(keras_internals.LayerCall):
    """Stands for a text layer; on numbers, it calls the layer."""

    def __init__(self, cuts: TextCuts, config: Config) -> None:
        super().__init__(name=config["config"]["name"])
        self.cuts, self.config = cuts, config

    def _layer(self) -> TextLayer:
        return TextLayer(self.name, self.config["class_name"], self.config["config"])

    def feed(self, shape: Shape) -> Feed:
        """Return the new input for texts of a shape."""
        layer = self._layer()
        return Feed(0, layer, keras.KerasTensor(*layer.output(shape)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the input that replaces the output."""
        texts = keras.tree.flatten([args, kwargs])
        if any(x.dtype == STRING for x in texts):
            if len(texts) != 1:
                raise unreadable("a layer called on several tensors, or of any shape,")
            with located(layer=self.name, code="KP306"):
                return self.noted(self.cuts.read(texts[0], self.name, 0, self._layer()))
        return self.noted(self._stock(*args, **kwargs))

    @functools.cached_property
    def _stock(self) -> keras.Layer:
        cls = getattr(keras.layers, self.config["class_name"])
        return cls.from_config(self.config["config"])


class _PartCall(keras_internals.LayerCall):
    """Calls an inner model, which takes numbers in place of texts."""

    def __init__(
        self, cuts: TextCuts, model: keras.Model, count: int, feeds: Sequence[Feed]
    ) -> None:
        super().__init__(name=model.name)
        self.cuts, self.part, self.count, self.feeds = cuts, model, count, feeds

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model on new inputs in place of texts."""
        tensors = keras.tree.flatten([args, kwargs])
        with located(layer=self.name, code="KP306"):
            if len(tensors) != self.count:
                raise unreadable(type(self.part).__name__)
            new = [
                tensors[feed.source]
                if feed.layer is None
                else self.cuts.read(tensors[feed.source], self.name, i, feed.layer)
                for i, feed in enumerate(self.feeds)
            ]
        return self.noted(self.part(makers.one_or_all(new)))


def unreadable(what: str) -> LegacyModelError:
    """Return the error for a layer that reads texts and cannot be cut off."""
    return LegacyModelError(
        f"{what} reads texts; only {', '.join(ARGUMENTS)} can read them outside of the "
        "model.",
        HINT,
    )


def takes_texts(config: Config) -> bool:
    """Return whether a layer or a model takes texts, by its config."""
    inner = config.get("config")
    if is_program(config):
        return any(spec.dtype == STRING for spec in config["config"]["program"].inputs)
    if not isinstance(inner, dict):
        return False
    if config.get("class_name") in ALWAYS:
        return not inner.get("invert")
    layers = inner.get("layers")
    if not isinstance(layers, list):
        return False
    inputs = [x["config"] for x in layers if x.get("class_name") == "InputLayer"]
    first = [] if "input_layers" in inner else layers[len(inputs) :][:1]
    are_texts = any(x.get("dtype") == STRING for x in inputs)
    return are_texts or any(map(takes_texts, first))


def _is_text_layer(config: Config) -> bool:
    is_stock = config.get("module") == "keras.layers" and "config" in config
    return is_stock and config["class_name"] in ARGUMENTS


def is_cut(layer: keras.Operation) -> bool:
    """Return whether a layer is cut off: it returns texts, or numbers for texts."""
    outputs = getattr(layer, "outputs", None) or []
    gives_texts = bool(outputs) and all(x.dtype == STRING for x in outputs)
    return gives_texts or isinstance(layer, _TextCall)


def _is_part(config: Config) -> bool:
    """Return whether a Functional in a model takes texts."""
    return "input_layers" in config["config"] and takes_texts(config)


def _counted_from_0(ends: Any, names: set[str]) -> Any:
    """Count the calls of some Functionals in `output_layers` like those of layers."""
    if isinstance(ends, dict):
        return {key: _counted_from_0(end, names) for key, end in ends.items()}
    if ends and isinstance(ends[0], str):
        name, call, index = ends
        return [name, call - (name in names), index]
    return [_counted_from_0(end, names) for end in ends]


def _check_readers(layers: Sequence[Config]) -> None:
    """Raise an error if a layer that has to stay in the model reads texts."""
    inputs = (layer for layer in layers if layer["class_name"] == "InputLayer")
    texts = {layer["name"] for layer in inputs if layer["config"]["dtype"] == STRING}
    for layer in layers:
        taken = {n for node in layer["inbound_nodes"] for n, _ in node.get("taken", ())}
        name = layer["config"].get("op", layer["class_name"])
        reads = _is_text_layer(layer) or is_program(layer) or takes_texts(layer)
        if texts & taken and not reads and name.rpartition(".")[2] not in RESHAPES:
            with located(layer=layer["name"], code="KP306"):
                raise unreadable(name)


def _source(text: Tensor, layer: TextLayer) -> Tensor:
    """Return the input that a text comes from.

    TextVectorization takes `(n,)` as `(n, 1)`, so ops that reshape single texts for it,
    such as those of AutoKeras, are skipped.
    """
    source, maker = text, keras_internals.maker_of(text)
    while layer.config.get("split") is not None and _is_reshape(maker):
        (source,) = keras_internals.inputs_of(source)
        maker = keras_internals.maker_of(source)
    is_input = isinstance(maker, keras.layers.InputLayer)
    if not is_input or (source is not text and tuple(source.shape[1:]) not in ONE):
        raise unreadable(type(keras_internals.maker_of(text)).__name__)
    return source


def _is_reshape(maker: keras.Operation | None) -> bool:
    """Return whether an operation only changes the shape of its one tensor."""
    inside = getattr(maker, "operations", None)
    if inside is None:
        return type(maker).__name__ in RESHAPES
    return all(isinstance(x, keras.layers.InputLayer) or _is_reshape(x) for x in inside)


def _made_by(outputs: Any) -> set[keras.Operation]:
    tensors = keras.tree.flatten(outputs)
    return {one for x in tensors for one in keras_internals.operations_before(x)}
