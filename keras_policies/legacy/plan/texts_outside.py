"""Cuts the layers of texts off a model, which then takes the numbers that they gave.

    title (InputLayer of texts) -> words (StringLookup) -> Embedding
    title (InputLayer of int64) -> Embedding

It works on configs of Keras 3: layers of texts are never made, which takes TensorFlow.
`texts/` has what they computed.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import is_program, keras_object, layer_name
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.plan.layers import as_sequence
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.program import Program
from keras_policies.legacy.texts.arguments import ARGUMENTS
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.texts.layers import TextLayer

STRING, TENSOR = "string", "__keras_tensor__"
UNKNOWN = TensorSpec(None, "", "")  # an argument that is no text
HINT = (
    "Pass a signature that takes numbers, or leave texts='outside' out and set "
    "KERAS_BACKEND=tensorflow."
)
RESHAPES = {
    *("ExpandDims", "Flatten", "Reshape", "Squeeze"),
    *("tf.expand_dims", "tf.reshape", "tf.squeeze"),
}
ONE = (), (1,)  # shapes of single texts, without the batch
Specs: TypeAlias = Sequence[TensorSpec]
# Number of the source, consumer, number of the consumer's input.
Read: TypeAlias = tuple[int, str, int]
# A layer's name, its config, and the numbers of the texts that it is called on.
Call: TypeAlias = tuple[str, Config, Sequence[int | None]]


class _Feed(NamedTuple):
    """An input of a model without layers of texts."""

    source: int  # the number of the input that it was
    layer: TextLayer | None  # what turns that into numbers; None if it is as it was
    spec: TensorSpec


class _Part(NamedTuple):
    """A layer that takes texts, without its layers of texts."""

    config: Config | None  # None if it is a layer of texts itself
    feeds: tuple[_Feed, ...]


def cut(config: Config) -> tuple[Config, TextInputs | None]:
    """Return the config of a model without layers of texts, and what they did.

    That is None if the model takes no texts.

    Raises:
        LegacyModelError: if something else reads the texts.
    """
    specs = _inputs(config)
    if not any(spec.dtype == STRING for spec in specs):
        return config, None
    new, feeds = _model(config, specs, is_root=True)
    assert new is not None
    layers: dict[TextLayer, int] = {}
    for layer in (feed.layer for feed in feeds if feed.layer):
        layers.setdefault(layer, len(layers))
    texts = TextInputs(
        tuple((s.name, s.shape if s.dtype == STRING else None) for s in specs),
        tuple((s.name, i, layers[x] if x else None) for i, x, s in feeds),
        tuple(layers),
        _is_dict(config),
    )
    return new, texts


def _is_model(config: Config) -> bool:
    inner = config["config"]
    return is_program(config) or isinstance(inner.get("layers"), list)


def _is_dict(config: Config) -> bool:
    inner = config["config"]
    starts = inner["program"].starts if is_program(config) else None
    return isinstance(starts or inner.get("input_layers"), dict)


def _inputs(config: Config) -> list[TensorSpec]:
    """Return the inputs of a model, with the names by which it takes them."""
    inner = config["config"]
    if is_program(config):
        program: Program = inner["program"]
        starts = program.starts if isinstance(program.starts, dict) else {}
        keys = {value: key for key, value in starts.items() if _is_argument(value)}
        named = (keys.get(ir.Argument(i), s.name) for i, s in enumerate(program.inputs))
        return [*map(_renamed, program.inputs, named)]
    if not _is_model(config):
        return []
    by_name = {layer["config"].get("name"): layer for layer in inner["layers"]}
    if "input_layers" in inner:
        ends = _ends(inner["input_layers"])
        return [_spec(by_name[name], key) for key, name in ends]
    first, *others = inner["layers"] or [{}]
    if first.get("class_name") == "InputLayer" and others:
        shape, dtype, name = _spec(first, first["config"]["name"])
        return [TensorSpec(shape, STRING if _is_of_texts(others[0]) else dtype, name)]
    return [TensorSpec(None, STRING if _is_of_texts(first) else "", "texts")]


def _renamed(item: TensorSpec, name: str) -> TensorSpec:
    return item._replace(name=name)


def _is_argument(value: Any) -> bool:
    return isinstance(value, ir.Argument)


def _spec(layer: Config, name: str) -> TensorSpec:
    config = layer["config"]
    return TensorSpec(tuple(config["batch_shape"]), str(config["dtype"]), name)


def _ends(nest: Any) -> list[tuple[str, str]]:
    """Return `(key, layer)` of the inputs of a Functional; the key is its name too."""
    if isinstance(nest, dict):
        return [(key, nest[key][0]) for key in sorted(nest)]
    entries = [nest] if nest and isinstance(nest[0], str) else nest
    return [(name, name) for name, *_ in entries]


def _is_of_texts(config: Config) -> bool:
    """Return whether a layer takes texts alone."""
    return config.get("class_name") in ("StringLookup", "TextVectorization")


def _model(config: Config, specs: Specs, *, is_root: bool = False) -> _Part:
    """Return a model that takes some texts, without its layers of texts."""
    if is_program(config):
        return _program(config, specs, is_root=is_root)
    if "input_layers" in config["config"]:
        return _functional(config, specs, is_root=is_root)
    return _sequential(config, specs)


def _part(name: str, config: Config, arguments: Specs) -> _Part:
    """Return a layer that is called on arguments of which some are texts."""
    inner = config["config"]
    if is_program(config) and inner["program"].is_layer:
        return _part(name, next(iter(inner["layers"].values())), arguments)
    with located(layer=name):
        if config.get("module") == "keras.layers" and config["class_name"] in ARGUMENTS:
            layer = TextLayer(name, config["class_name"], inner)
            if len(arguments) != 1 or arguments[0].shape is None:
                raise _unread("a layer called on several tensors, or of any shape,")
            shape, dtype = layer.output(arguments[0].shape)
            return _Part(None, (_Feed(0, layer, TensorSpec(shape, dtype, name)),))
        if not _is_model(config):
            raise _unread(inner.get("op") or config["class_name"])
        own = _inputs(config)
        if len(own) != len(arguments):
            raise _unread(config["class_name"])
        pairs = zip(own, arguments, strict=True)
        specs = [_renamed(x, s.name) if x.dtype == STRING else s for s, x in pairs]
        return _model(config, specs)


def _unread(what: str) -> LegacyModelError:
    return LegacyModelError(
        f"{what} reads texts; what reads them outside of the model are "
        f"{', '.join(ARGUMENTS)}.",
        HINT,
    )


class _Reads:
    """What reads the texts of a model.

    Args:
        specs: the inputs of the model.
        calls: the layers that it calls, with their configs and, for each tensor that
            they take, the number of the input that it is, or None.
        taken: the names that no new input may have.
    """

    def __init__(self, specs: Specs, calls: Sequence[Call], taken: set[str]) -> None:
        self.specs = specs
        self.parts: dict[str, _Part] = {}
        reads: dict[Read, _Feed] = {}
        for name, config, sources in calls:
            if all(source is None for source in sources):
                continue
            if name not in self.parts:
                arguments = [UNKNOWN if i is None else specs[i] for i in sources]
                self.parts[name] = _part(name, config, arguments)
            for number, feed in enumerate(self.parts[name].feeds):
                source = sources[feed.source]
                if feed.layer is not None and source is not None:
                    reads[source, name, number] = feed
        for name, config, sources in calls:
            part = self.parts.get(name, _Part(None, ()))
            if any(x.layer and sources[x.source] is None for x in part.feeds):
                with located(layer=name):
                    raise _unread(f"a {config['class_name']} that is called twice")
        self.gone = {name for name, part in self.parts.items() if not part.config}
        self.new = self._named(reads, taken - self.gone)
        self.feeds = tuple(self._feeds(reads))
        if not self.feeds:
            raise LegacyModelError("nothing reads its inputs, which are texts.")

    def _named(
        self, reads: Mapping[Read, _Feed], taken: set[str]
    ) -> dict[Read, TensorSpec]:
        """Return the inputs that take the place of texts, by what reads these.

        The only one of a text has its name, others that of their layer behind it.
        """
        counts, found = collections.Counter(source for source, *_ in reads), {}
        for read, feed in reads.items():
            name = self.specs[read[0]].name
            name = name if counts[read[0]] == 1 else f"{name}_{read[1]}"
            name = layer_name(name)
            while name in taken:
                name += "_"
            taken.add(name)
            found[read] = _renamed(feed.spec, name)
        return found

    def _feeds(self, reads: Mapping[Read, _Feed]) -> Iterator[_Feed]:
        """Yield the inputs of the model, in the order of those that it had."""
        by_source = collections.defaultdict(list)
        for read, feed in reads.items():
            by_source[read[0]].append(_Feed(read[0], feed.layer, self.new[read]))
        for source, spec in enumerate(self.specs):
            unread = [] if spec.dtype == STRING else [_Feed(source, None, spec)]
            yield from unread + by_source[source]

    def arguments(
        self, name: str, sources: Sequence[int | None], values: Sequence[Any]
    ) -> list[Any]:
        """Return what a part takes in place of some values: these, or new inputs."""
        return [
            values[feed.source]
            if feed.layer is None
            else self.new[sources[feed.source] or 0, name, number]
            for number, feed in enumerate(self.parts[name].feeds)
        ]


def _sequential(config: Config, specs: Specs) -> _Part:
    """Return a Sequential whose first layer takes texts."""
    layers = config["config"]["layers"]
    first, *others = layers[layers[0]["class_name"] == "InputLayer" :]
    part = _part(str(first["config"].get("name")), first, specs)
    if len(part.feeds) != 1:
        raise _unread("more than one layer of a Sequential")
    source, layer, spec = part.feeds[0]
    feed = _Feed(source, layer, _renamed(spec, specs[0].name))
    kept = [] if part.config is None else [part.config]
    layers = as_sequence([_input_layer(feed.spec), *kept, *others])
    return _Part({**config, "config": {**config["config"], "layers": layers}}, (feed,))


def _input_layer(spec: TensorSpec) -> Config:
    shape = [*(spec.shape or ())]
    config = {"batch_shape": shape, "dtype": spec.dtype, "name": spec.name}
    return keras_object("keras.layers", "InputLayer", config)


def _functional(config: Config, specs: Specs, *, is_root: bool) -> _Part:
    """Return a Functional some of whose inputs are texts."""
    inner, layers = config["config"], config["config"]["layers"]
    ends = dict(_ends(inner["input_layers"]))
    texts = {n: i for i, n in enumerate(ends.values()) if specs[i].dtype == STRING}
    single = {name for name, i in texts.items() if (specs[i].shape or ())[1:] in ONE}
    layers = _without_reshapes(layers, single)
    calls = [
        (layer["name"], layer, _sources(taken, texts))
        for layer in layers
        for taken in _taken(layer)
    ]
    kept = {layer["name"] for layer in layers} - texts.keys()
    reads = _Reads(specs, calls, kept | {s.name for s in specs if s.dtype != STRING})
    inputs = {
        x.spec.name: [x.spec.name if x.layer else ends[x.spec.name], 0, 0]
        for x in reads.feeds
    }
    is_dict = is_root and _is_dict(config)
    moved: dict[tuple[Any, ...], Config] = {}
    wired = [_wired(layer, reads, texts, moved) for layer in layers]
    added = [
        {**_input_layer(x), "name": x.name, "inbound_nodes": []}
        for x in reads.new.values()
    ]
    gone = texts.keys() | reads.gone
    left = [layer for layer in wired if layer["name"] not in gone]
    inner = {
        **inner,
        "layers": [*added, *_replaced(left, moved)],
        "input_layers": inputs if is_dict else _one_or_all([*inputs.values()]),
        "output_layers": _replaced_ends(inner["output_layers"], moved, texts),
    }
    return _Part({**config, "config": inner}, reads.feeds)


def _without_reshapes(layers: list[Config], texts: set[str]) -> list[Config]:
    """Return layers without those that reshape single texts to be split.

    TextVectorization takes `(n,)` as `(n, 1)`. AutoKeras expands the last axis, too.
    """
    moved: dict[tuple[Any, ...], Config] = {}
    readers = collections.defaultdict(list)
    for layer in layers:
        for tensor in _tensors(layer["inbound_nodes"]):
            readers[_history(tensor)[0]].append(layer)
    for name in [*texts]:
        for layer in readers[name]:
            behind = readers[layer["name"]]
            if behind and _is_reshape(layer) and all(map(_splits, behind)):
                moved[layer["name"], 0, 0] = _tensor(name)
    left = [layer for layer in layers if (layer["name"], 0, 0) not in moved]
    return [*_replaced(left, moved)]


def _is_reshape(layer: Config) -> bool:
    """Return whether a layer only changes the shape of its one tensor."""
    ops = [layer["config"].get("op") or layer["class_name"]]
    if is_program(layer):
        steps = layer["config"]["program"].steps
        ops = [step.op if isinstance(step, ir.OpStep) else "" for step in steps]
    return len(layer["inbound_nodes"]) == 1 and {*ops} <= RESHAPES


def _splits(layer: Config) -> bool:
    is_vectorization = layer["class_name"] == "TextVectorization"
    return is_vectorization and layer["config"].get("split", "") is not None


def _wired(
    layer: Config,
    reads: _Reads,
    texts: Mapping[str, int],
    moved: dict[tuple[Any, ...], Config],
) -> Config:
    """Return a layer that is called on new inputs where it was called on texts.

    For a layer of texts, enter what takes the place of its outputs into `moved`.
    """
    name, nodes = layer["name"], list[Config]()
    if name not in reads.parts:
        return layer
    for taken, node in zip(_taken(layer), layer["inbound_nodes"], strict=True):
        given = reads.arguments(name, _sources(taken, texts), taken)
        args = [_tensor(x.name) if isinstance(x, TensorSpec) else x for x in given]
        if name in reads.gone:
            moved[name, len(nodes), 0] = args[0]
        kwargs = {k: v for k, v in node["kwargs"].items() if not [*_tensors(v)]}
        nodes.append({**node, "args": [_one_or_all(args)], "kwargs": kwargs})
    part = reads.parts[name].config or layer
    return {**part, "name": name, "inbound_nodes": nodes}


def _tensor(name: str) -> Config:
    history = {"shape": [], "dtype": "float32", "keras_history": [name, 0, 0]}
    return {"class_name": TENSOR, "config": history}


def _history(tensor: Config) -> tuple[Any, ...]:
    return tuple(tensor["config"]["keras_history"])


def _sources(tensors: Iterable[Config], texts: Mapping[str, int]) -> list[int | None]:
    """Return the number of the text that each tensor is, or None."""
    return [texts.get(_history(tensor)[0]) for tensor in tensors]


def _tensors(nest: Any) -> Iterator[Config]:
    """Yield the tensors in the arguments of a call, in Keras's order."""
    if isinstance(nest, dict) and nest.get("class_name") == TENSOR:
        yield nest
    elif isinstance(nest, dict | list | tuple):
        for key in sorted(nest) if isinstance(nest, dict) else range(len(nest)):
            yield from _tensors(nest[key])


def _taken(layer: Config) -> Iterator[list[Config]]:
    """Yield the tensors of each call of a layer, for a program in its order."""
    first = layer["config"]["program"].arguments if is_program(layer) else ()
    for node in layer["inbound_nodes"]:
        kwargs = node["kwargs"]
        names = dict.fromkeys([*first, *sorted(kwargs)])
        yield [*_tensors([node["args"], *map(kwargs.get, names)])]


def _replaced(nest: Any, moved: Mapping[tuple[Any, ...], Config]) -> Any:
    """Return a nest of calls with other tensors in place of some."""
    if isinstance(nest, dict):
        if nest.get("class_name") == TENSOR:
            return moved.get(_history(nest), nest)
        return {key: _replaced(value, moved) for key, value in nest.items()}
    return [_replaced(item, moved) for item in nest] if isinstance(nest, list) else nest


def _replaced_ends(
    nest: Any, moved: Mapping[tuple[Any, ...], Config], texts: Mapping[str, int]
) -> Any:
    """Return the outputs of a Functional with others in place of some."""
    if isinstance(nest, dict):
        return {key: _replaced_ends(x, moved, texts) for key, x in nest.items()}
    if not isinstance(nest[0], str):
        return [_replaced_ends(item, moved, texts) for item in nest]
    if nest[0] in texts:
        raise LegacyModelError(f"it returns the texts {nest[0]!r}.", HINT)
    other = moved.get(tuple(nest))
    return nest if other is None else [*_history(other)]


def _program(config: Config, specs: Specs, *, is_root: bool) -> _Part:
    """Return a program some of whose arguments are texts."""
    inner, program = config["config"], config["config"]["program"]
    steps: Sequence[ir.Step] = program.steps

    def sources(values: Iterable[ir.Value]) -> list[int | None]:
        numbers = (x.number if isinstance(x, ir.Argument) else None for x in values)
        return [
            n if n is not None and specs[n].dtype == STRING else None for n in numbers
        ]

    if any(source is not None for source in sources(ir.values_in(program.ends))):
        raise LegacyModelError("it returns its texts.", HINT)
    ops = {x.name: x.op for x in steps if isinstance(x, ir.OpStep)}
    layers = inner["layers"] | {
        n: {"class_name": op, "config": {}} for n, op in ops.items()
    }
    calls = [(x.name, layers[x.name], sources(ir.inputs_of(x))) for x in steps]
    kept = {s.name for s in specs if s.dtype != STRING} | {step.name for step in steps}
    reads = _Reads(specs, calls, kept)
    at = {feed.spec.name: ir.Argument(i) for i, feed in enumerate(reads.feeds)}
    unread = {x.source: at[x.spec.name] for x in reads.feeds if x.layer is None}
    moved: dict[int, ir.Value] = {}  # number of a step -> what it gives now
    left: list[ir.Step] = []

    def value(old: ir.Value) -> ir.Value:
        if isinstance(old, ir.Argument):
            return unread[old.number]
        if not isinstance(old, ir.StepOutput):
            return old
        new = moved[old.step]
        if isinstance(new, ir.StepOutput):
            return ir.StepOutput(new.step, old.position)
        return new

    for number, step in enumerate(steps):
        taken = ir.inputs_of(step)
        if step.name in reads.parts:
            given = reads.arguments(step.name, sources(taken), taken)
            args = [
                at[x.name] if isinstance(x, TensorSpec) else value(x) for x in given
            ]
            moved[number] = args[0]
            assert isinstance(step, ir.CallStep)
            step = dataclasses.replace(step, argument=_one_or_all(args), kwargs={})
        elif isinstance(step, ir.OpStep):
            step = dataclasses.replace(step, inputs=tuple(map(value, taken)))
        else:
            argument, kwargs = ir.mapped(value, [step.argument, dict(step.kwargs)])
            step = dataclasses.replace(step, argument=argument, kwargs=kwargs)
        if step.name not in reads.gone:
            moved[number] = ir.StepOutput(len(left))
            left.append(step)
    inputs = [x.spec if x.layer else program.inputs[x.source] for x in reads.feeds]
    new = dataclasses.replace(
        program,
        inputs=tuple(inputs),
        steps=tuple(left),
        starts=at if is_root and _is_dict(config) else [*at.values()],
        ends=ir.mapped(value, program.ends),
        arguments=(),
    )
    parts = {n: p.config for n, p in reads.parts.items()}
    layers = {
        n: parts.get(n, x) for n, x in inner["layers"].items() if n not in reads.gone
    }
    return _Part(
        {**config, "config": {**inner, "program": new, "layers": layers}}, reads.feeds
    )


def _one_or_all(items: list[Any]) -> Any:
    return items if len(items) > 1 else items[0]
