"""Sequential and Functional models, the lost layers in them replaced."""

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import Config
from keras_policies.legacy.base.recorded import Recorded, RecordedLayer
from keras_policies.legacy.ops.op_layers import GRAPH_OP
from keras_policies.legacy.plan import graph
from keras_policies.legacy.plan.lost import recorded_layers, traces
from keras_policies.legacy.plan.lost.functional import FUNCTIONAL
from keras_policies.legacy.plan.lost.steps import Nest, Part, together

GRAPHS = FUNCTIONAL, "Model", "Network", "Sequential"
# Of the config of a layer, its number, its path, and how many tensors it is called on.
PartOf: TypeAlias = Callable[[Config, int | None, str, int | None], Part | None]


def replaced(
    recorded: Recorded, written: Config, number: int | None, path: str, part_of: PartOf
) -> Part | None:
    """Return a model in which the layers that have parts are those.

    None for a Sequential whose first layer takes several tensors: Keras 3 refuses it.
    """
    left = {} if number is None else recorded_layers.by_name(recorded, number)
    every = configs.inner_layers(written)
    names = {*left, *map(configs.name_of, every)}
    new: list[Config] = []
    parts: dict[str, Part] = {}
    for layer in every:
        child = recorded_layers.taken(recorded, left, layer)
        layer = _with_name(layer, recorded, child)
        if child is not None and layer.get("inbound_nodes"):
            child_layer = recorded.layers[child]
            nodes = _with_constants(layer["inbound_nodes"], child_layer, names)
            layer = {**layer, "inbound_nodes": nodes}
        name, nodes = configs.name_of(layer), layer.get("inbound_nodes") or ()
        count = len(graph.tensors(nodes[0], names)) if nodes else None
        part = part_of(layer, child, f"{path}/{name}" if path else name, count)
        if part is None:
            new.append(layer)
        else:
            parts[name] = part
            called = [graph.tensors(node, names, part.keywords) for node in nodes]
            new += _connected(layer, part, called)
    first = next(iter(parts.values()), None)
    is_sequence = bool(every) and "inbound_nodes" not in every[-1]
    if is_sequence and first is not None and (first.tensors or 1) > 1:
        return None
    inner = written["config"]
    inner = {"layers": new} if isinstance(inner, list) else {**inner, "layers": new}
    name, class_name = configs.name_of(written), written["class_name"]
    whole = Part(name, class_name, inner)
    if class_name not in GRAPHS and "input_layers" in inner:
        # A subclass with its whole config.
        count, lost = len(inner["input_layers"]), {path: class_name}
        whole = Part(name, FUNCTIONAL, inner, tensors=count, lost=lost)
    return together(whole, parts)


def _with_name(layer: Config, recorded: Recorded, number: int | None) -> Config:
    config = layer.get("config") or {}
    has_name = isinstance(config, list) or "name" in layer or "name" in config
    if number is None or has_name:
        return layer
    return {**layer, "config": {**config, "name": recorded.layers[number].name}}


def _with_constants(nodes: Nest, layer: RecordedLayer, names: Container[str]) -> Nest:
    """Return calls whose constant keywords are tensors where a trace takes such."""
    if isinstance(nodes, dict):
        specs = (spec for t in layer.traces for spec in traces.specs(t.inputs))
        taken = {spec.name for spec in specs} & nodes.keys()
        constants = {
            key
            for key in taken
            if nodes[key] is not None and not graph.tensors(nodes[key], names)
        }
        given = {key: [graph.CONSTANT, -1, nodes[key], {}] for key in constants}
        return {**nodes, **given}
    if isinstance(nodes, list | tuple):
        return [_with_constants(node, layer, names) for node in nodes]
    return nodes


def _connected(layer: Config, part: Part, nodes: Sequence[Nest]) -> list[Config]:
    """Return a part, called as the layer was, after the mask that it takes, if any."""
    if part.class_name == layer["class_name"]:
        return [{**layer, "config": part.config}]
    mask = f"{part.name}_mask"
    takes_mask = bool(nodes) and (part.tensors or 0) > len(nodes[0])
    called = enumerate(nodes)
    return [
        *([_mask_layer(mask, nodes)] if takes_mask else []),
        {
            "class_name": part.class_name,
            "config": part.config,
            "name": part.name,
            "inbound_nodes": [
                [*node, [mask, call, 0, {}]] if takes_mask else node
                for call, node in called
            ],
        },
    ]


def _mask_layer(name: str, nodes: Sequence[Nest]) -> Config:
    """Return the op layer that gives the masks of the tensors that a layer takes."""
    return {
        "class_name": GRAPH_OP,
        "name": name,
        "config": {"name": name, "node_def": {"op": "_Mask"}, "constants": {}},
        "inbound_nodes": [[node[0]] for node in nodes],
    }
