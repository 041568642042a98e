"""Cuts the layers of texts off a model, which then takes the numbers that they gave.

    title (InputLayer of texts) -> words (StringLookup) -> Embedding
    title (InputLayer of int64) -> Embedding

It works on configs of Keras 3: layers of texts are never made, which takes TensorFlow.
`texts/` has what they computed.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import (
    KERAS_TENSOR,
    is_program,
    keras_object,
    keras_tensor,
)
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.program import Program
from keras_policies.legacy.plan.sequential import as_sequence
from keras_policies.legacy.plan.text_programs import ProgramOfTexts
from keras_policies.legacy.plan.text_reads import (
    HINT,
    STRING,
    Feed,
    Part,
    Reads,
    Specs,
    one_or_all,
    renamed,
    unreadable,
)
from keras_policies.legacy.texts.arguments import ARGUMENTS
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.texts.layers import TextLayer

RESHAPES = {
    *("ExpandDims", "Flatten", "Reshape", "Squeeze"),
    *("tf.expand_dims", "tf.reshape", "tf.squeeze"),
}
ONE = (), (1,)  # shapes of single texts, without the batch


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
        return [*map(renamed, program.inputs, named)]
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


def _model(config: Config, specs: Specs, *, is_root: bool = False) -> Part:
    """Return a model that takes some texts, without its layers of texts."""
    if is_program(config):
        is_dict = is_root and _is_dict(config)
        return ProgramOfTexts(config, specs, _part).part(config, is_dict=is_dict)
    if "input_layers" in config["config"]:
        return _functional(config, specs, is_root=is_root)
    return _sequential(config, specs)


def _part(name: str, config: Config, arguments: Specs) -> Part:
    """Return a layer that is called on arguments of which some are texts."""
    inner = config["config"]
    if is_program(config) and inner["program"].is_layer:
        return _part(name, next(iter(inner["layers"].values())), arguments)
    with located(layer=name, code="KP306"):
        if config.get("module") == "keras.layers" and config["class_name"] in ARGUMENTS:
            layer = TextLayer(name, config["class_name"], inner)
            if len(arguments) != 1 or arguments[0].shape is None:
                raise unreadable("a layer called on several tensors, or of any shape,")
            shape, dtype = layer.output(arguments[0].shape)
            return Part(None, (Feed(0, layer, TensorSpec(shape, dtype, name)),))
        if not _is_model(config):
            raise unreadable(inner.get("op") or config["class_name"])
        own = _inputs(config)
        if len(own) != len(arguments):
            raise unreadable(config["class_name"])
        pairs = zip(own, arguments, strict=True)
        specs = [renamed(x, s.name) if x.dtype == STRING else s for s, x in pairs]
        return _model(config, specs)


def _sequential(config: Config, specs: Specs) -> Part:
    """Return a Sequential whose first layer takes texts."""
    layers = config["config"]["layers"]
    first, *others = layers[layers[0]["class_name"] == "InputLayer" :]
    part = _part(str(first["config"].get("name")), first, specs)
    if len(part.feeds) != 1:
        raise unreadable("more than one layer of a Sequential")
    source, layer, spec = part.feeds[0]
    feed = Feed(source, layer, renamed(spec, specs[0].name))
    kept = [] if part.config is None else [part.config]
    layers = as_sequence([_input_layer(feed.spec), *kept, *others])
    return Part({**config, "config": {**config["config"], "layers": layers}}, (feed,))


def _input_layer(spec: TensorSpec) -> Config:
    shape = [*(spec.shape or ())]
    config = {"batch_shape": shape, "dtype": spec.dtype, "name": spec.name}
    return keras_object("keras.layers", "InputLayer", config)


def _functional(config: Config, specs: Specs, *, is_root: bool) -> Part:
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
    kept |= {spec.name for spec in specs if spec.dtype != STRING}
    reads = Reads(specs, calls, kept, _part)
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
        "input_layers": inputs if is_dict else one_or_all([*inputs.values()]),
        "output_layers": _replaced_ends(inner["output_layers"], moved, texts),
    }
    return Part({**config, "config": inner}, reads.feeds)


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
                moved[layer["name"], 0, 0] = keras_tensor(name)
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
    reads: Reads,
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
        args = [keras_tensor(x.name) if isinstance(x, TensorSpec) else x for x in given]
        if name in reads.gone:
            moved[name, len(nodes), 0] = args[0]
        kwargs = {k: v for k, v in node["kwargs"].items() if not [*_tensors(v)]}
        nodes.append({**node, "args": [one_or_all(args)], "kwargs": kwargs})
    part = reads.parts[name].config or layer
    return {**part, "name": name, "inbound_nodes": nodes}


def _history(tensor: Config) -> tuple[Any, ...]:
    return tuple(tensor["config"]["keras_history"])


def _sources(tensors: Iterable[Config], texts: Mapping[str, int]) -> list[int | None]:
    """Return the number of the text that each tensor is, or None."""
    return [texts.get(_history(tensor)[0]) for tensor in tensors]


def _tensors(nest: Any) -> Iterator[Config]:
    """Yield the tensors in the arguments of a call, in Keras's order."""
    if isinstance(nest, dict) and nest.get("class_name") == KERAS_TENSOR:
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
        if nest.get("class_name") == KERAS_TENSOR:
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
