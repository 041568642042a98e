"""Cuts the text layers off a model, which then takes the numbers that they returned.

    title (InputLayer of texts) -> words (StringLookup) -> Embedding
    title (InputLayer of int64) -> Embedding

Text layers are never created, because they need TensorFlow; `texts/` computes the same.
Where one would be called, the model gets a new input.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.assembly import graphs
from keras_policies.legacy.assembly.nodes import Node, one_or_all
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import call_outputs, is_program, layer_name
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.texts.layers import ARGUMENTS, Shape, TextLayer

STRING = "string"
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
    """The text layers that are cut off while a model is built.

    `inputs` converts the texts of the model to numbers; it is None if there are none.
    """

    def __init__(self) -> None:
        self.inputs: TextInputs | None = None
        self._reads: list[_Read] = []

    def call(self, config: Config) -> "_TextCall | None":
        """Return the node of a text layer, or None for the config of another layer."""
        return _TextCall(self, config) if _is_text_layer(config) else None

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
    ) -> Node:
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
        given = dict(zip(keys, new, strict=True)) if is_dict else one_or_all(new)
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

    def check_readers(self, layers: Sequence[Config]) -> None:
        """Raise an error if a layer that has to stay in the model reads texts."""
        inputs = [layer for layer in layers if layer["class_name"] == "InputLayer"]
        texts = {x["name"] for x in inputs if x["config"]["dtype"] == STRING}
        for layer in layers:
            taken = {each.layer for each in call_outputs(layer["inbound_nodes"])}
            name = layer["config"].get("op", layer["class_name"])
            reads = _is_text_layer(layer) or is_program(layer) or takes_texts(layer)
            if texts & taken and not reads and name.rpartition(".")[2] not in RESHAPES:
                with located(layer=layer["name"], code="KP306"):
                    raise unreadable(name)

    def sequence(
        self,
        model: keras.Sequential,
        layers: Sequence[Config],
        make: Callable[[Config], Any],
        *,
        is_root: bool,
    ) -> Node:
        """Return a Sequential whose first layer takes texts."""
        if [layer["class_name"] for layer in layers[:1]] != ["InputLayer"]:
            raise unreadable("a layer called on several tensors, or of any shape,")
        start, reader, *others = map(make, layers)
        if not is_cut(reader):
            with located(layer=reader.name, code="KP306"):
                raise unreadable(str(layers[1]["class_name"]))
        reader(start.output)
        reads = [read for read in self._reads if read.text is start.output]
        if len(reads) != 1:
            raise unreadable("more than one layer of a Sequential")
        (read,), name = reads, start.name
        new: Any = keras_internals.maker_of(read.tensor)
        new.name = read.tensor.name = name
        if isinstance(reader, _PartCall):
            others = [reader.part, *others]
        others = others or [keras.layers.Identity(name=f"{name}_output")]
        filled: Any = graphs.sequential(model, [new, *others])
        feed = Feed(0, read.layer, filled.inputs[0])
        sources = [(name, tuple(start.batch_shape))]
        return self._made(filled, sources, [feed], is_root=is_root)


class _TextCall:
    """Stands for a text layer; on numbers, it calls the layer."""

    def __init__(self, cuts: TextCuts, config: Config) -> None:
        self.name = config["config"]["name"]
        self.cuts, self.config = cuts, config

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the input that replaces the output."""
        texts = keras.tree.flatten([args, kwargs])
        if any(x.dtype == STRING for x in texts):
            if len(texts) != 1:
                raise unreadable("a layer called on several tensors, or of any shape,")
            settings = self.config["class_name"], self.config["config"]
            layer = TextLayer(self.name, *settings)
            with located(layer=self.name, code="KP306"):
                return self.cuts.read(texts[0], self.name, 0, layer)
        return self.layer()(*args, **kwargs)

    @functools.cached_property
    def _stock(self) -> keras.Layer:
        cls = getattr(keras.layers, self.config["class_name"])
        return cls.from_config(self.config["config"])

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        return self._stock


class _PartCall:
    """Calls an inner model, which takes numbers in place of texts."""

    def __init__(
        self, cuts: TextCuts, model: keras.Model, count: int, feeds: Sequence[Feed]
    ) -> None:
        self.name = model.name
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
        return self.part(one_or_all(new))

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        return self.part


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


def is_cut(node: Node) -> bool:
    """Return whether a node is a text layer, or a model without its text layers."""
    return isinstance(node, _TextCall | _PartCall)


def gives_texts(node: Node) -> bool:
    """Return whether a node is cut off: it returns texts, or numbers for texts."""
    outputs = getattr(node, "outputs", None) or []
    are_texts = bool(outputs) and all(x.dtype == STRING for x in outputs)
    return are_texts or isinstance(node, _TextCall)


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
