"""Turns the premade models in a `.keras` file into Functional models.

    LinearModel      the sum of a Dense for each input; the last one has the bias
    WideDeepModel    the sum of the outputs of a LinearModel and any other model

An activation follows. Weights are stored by attribute: `vars/0` is the bias,
`layers/dense_1/vars/0` the kernel of the second input.
Source: keras/premade_models of Keras 2.15.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import optree

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import LAYER_GROUPS, layer_paths
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.guards import budget, limits

LINEAR, WIDE = "LinearModel", "WideDeepModel"
LINEAR_PART = "linear_model"  # the attribute of a WideDeepModel
OF_KERNEL = "dtype", "trainable", "units", "kernel_initializer", "kernel_regularizer"
OF_BIAS = "use_bias", "bias_initializer", "bias_regularizer"


def listed(root: Config, weights: LayerWeights) -> tuple[Config, LayerWeights]:
    """Return the config of a model that lists all layers, and its weights by layer."""
    premade: dict[str, Config] = {}
    converted = _listed(root, "", premade)
    if not premade:
        return root, weights
    names = [configs.name_of(layer) for layer in configs.inner_layers(converted)]
    grouped: dict[str, list[LegacyWeight]] = collections.defaultdict(list)
    triples = [
        (name, f"{name}/{each.path}" if name else each.path, each)
        for name, layer in weights.items()
        for each in layer
    ]
    budget.work(budget.ITEM * len(premade) * len(triples))
    converters = {
        start: _paths(model, [path.removeprefix(start) for _, path, _ in triples])
        for start, model in premade.items()
    }
    layer_of = configs.beginnings_among({*names})
    for name, path, weight in triples:
        for start, convert in converters.items():
            if path.startswith(start):
                path = start + convert(path.removeprefix(start))
        name = name or next((n for n in layer_of(path) if n != path), "")
        below = path.removeprefix(f"{name}/")
        grouped[name].append(dataclasses.replace(weight, path=below))
    return converted, {name: tuple(layer) for name, layer in grouped.items()}


def _listed(written: Config, path: str, premade: dict[str, Config]) -> Config:
    """Return the config of a layer; add the premade models in it to `premade`."""
    functional = _functional(written)
    if functional is not None:
        premade[path] = written
        return {**written, "class_name": "Functional", "config": functional}
    if not configs.is_graph(written) or not isinstance(written["config"], dict):
        return written
    layers = [
        _listed(layer, f"{path}{configs.name_of(layer)}/", premade)
        if isinstance(layer, dict)
        else layer
        for layer in written["config"]["layers"]
    ]
    return {**written, "config": {**written["config"], "layers": layers}}


def _functional(written: Config) -> Config | None:
    """Return the config of a premade model as a Functional, or None for others."""
    class_name, config = written.get("class_name"), written.get("config")
    shapes = (written.get("build_config") or {}).get("input_shape")
    is_keras = str(written.get("module")).startswith("keras.")  # not a user's class
    if class_name not in (LINEAR, WIDE) or not is_keras or not shapes:
        return None
    is_named = isinstance(shapes, dict)
    if not isinstance(config, dict) or (class_name == WIDE and is_named):
        return None  # nothing says how the other model takes a dict
    leaves, nest = optree.tree_flatten(shapes, is_leaf=_is_shape)
    numbers = range(1, len(leaves) + 1)
    names = sorted(shapes) if is_named else [f"input_{i}" for i in numbers]
    inputs: Any = optree.tree_unflatten(nest, names)
    layers = [
        _layer("InputLayer", name, (), batch_input_shape=shape, dtype="float32")
        for name, shape in zip(names, leaves, strict=True)
    ]
    if class_name == LINEAR:
        summands = _kernels(config, names)
    else:
        is_pair = isinstance(inputs, list) and len(inputs) == 2
        parts = inputs if is_pair else (inputs, inputs)
        models = config["linear_model"], config["dnn_model"]
        summands = [
            {**model, **_call(configs.name_of(model), optree.tree_leaves(part))}
            for model, part in zip(models, parts, strict=True)
        ]
        summands[0] = _listed(summands[0], "", {})
    layers += summands
    if len(summands) > 1:
        layers.append(_layer("Add", "sum", [layer["name"] for layer in summands]))
    if config.get("activation") not in (None, "linear"):
        activation, last = config["activation"], layers[-1]["name"]
        layers.append(_layer("Activation", "activation", [last], activation=activation))
    return {
        "name": config.get("name"),
        "trainable": config.get("trainable", True),
        "layers": layers,
        "input_layers": optree.tree_map(_tensor, inputs),
        "output_layers": [_tensor(layers[-1]["name"])],
    }


def _kernels(config: Config, inputs: Sequence[str]) -> list[Config]:
    """Return the layers of a LinearModel that multiply its inputs with kernels."""
    names = configs.numbered(["Dense"] * len(inputs))
    kernels = {key: config[key] for key in OF_KERNEL if key in config}
    bias = {key: config[key] for key in OF_BIAS if key in config}
    return [
        _layer("Dense", name, [source], **kernels, **bias_arguments)
        for name, source in zip(names, inputs, strict=True)
        for bias_arguments in [bias if name == names[-1] else {"use_bias": False}]
    ]


def _paths(written: Config, paths: Sequence[str]) -> Callable[[str], str]:
    """Return the function that converts the paths of a model's weights in the file.

    `paths` are those of all weights.
    """
    if written["class_name"] == LINEAR:
        shapes = written["build_config"]["input_shape"]
        inputs = optree.tree_leaves(shapes, is_leaf=_is_shape)
        last = configs.numbered(["Dense"] * len(inputs))[-1]
        bias = f"{last}/vars/1"
        return lambda stored: bias if _inside(stored) == "vars/0" else _inside(stored)
    linear, deep = written["config"]["linear_model"], written["config"]["dnn_model"]
    of_linear = _paths(linear, paths)
    below = collections.defaultdict[str, set[str]](set)  # group -> names in it
    for path in paths:
        outer, *parts = _inside(path).split("/")[: limits.ARCHIVE_DEPTH]
        for number, part in enumerate(parts if outer != LINEAR_PART else ()):
            below["/".join(parts[:number])].add(part)
    of_deep = layer_paths(deep, below.__getitem__)

    def convert(stored: str) -> str:
        part, _, rest = _inside(stored).partition("/")
        if part == LINEAR_PART:
            return f"{configs.name_of(linear)}/{of_linear(rest)}"
        return f"{configs.name_of(deep)}/{of_deep(rest)}"

    return convert


def _inside(stored: str) -> str:
    """Return a path without the group that lists the layers of a model."""
    first, _, rest = stored.partition("/")
    return rest if first in LAYER_GROUPS else stored


def _is_shape(value: Any) -> bool:
    is_list = isinstance(value, list)
    return is_list and not any(isinstance(n, list | dict) for n in value)


def _tensor(name: str) -> list[Any]:
    return [name, 0, 0]


def _call(name: str, sources: Sequence[str]) -> Config:
    nodes = [[[*_tensor(source), {}] for source in sources]] if sources else []
    return {"name": name, "inbound_nodes": nodes}


def _layer(class_name: str, name: str, sources: Sequence[str], **config: Any) -> Config:
    written = {"class_name": class_name, "config": {"name": name, **config}}
    return {**written, **_call(name, sources)}
