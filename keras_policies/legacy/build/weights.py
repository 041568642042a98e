"""Finds the variable of a Keras 3 model for every weight of a legacy file.

Both sides are described by layer, by the attributes that lead to a variable, and
by its name. Attributes decide where the file records them (SavedModel, `.keras`);
names do in HDF5, from the longest ending that tells all weights of a layer apart
down to the last part, in which equal names count in order. Position alone never
decides, and every weight on either side must find its partner.
"""

import collections
import itertools
import re

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.names import layer_name, numbered
from keras_policies.legacy.build import cudnn
from keras_policies.legacy.build.targets import targets

NAME_PARTS = (3, 2, 1)
# The state of a random generator of TensorFlow, which no other one can take, and the
# statistics of batch renormalization.
WITHOUT_COUNTERPART = (
    "_state_var",
    "renorm_mean",
    "renorm_stddev",
    "moving_stddev",
)
# Variables that Keras 3 calls otherwise (in DepthwiseConv1D and 2D).
RENAMED = {"depthwise_kernel": "kernel"}


def _ending(name, parts):
    """Return the last parts of a name; unnamed variables are called alike."""
    parts = name.split("/")[-parts:]
    parts[-1] = re.sub(r"^(variable)_\d+$", r"\1", parts[-1].lower())
    return "/".join(parts)


def _in_order(keys):
    """Return the keys, each with the number of times it came before."""
    seen, numbered_keys = collections.Counter(), []
    for key in keys:
        numbered_keys.append((key, seen[key]))
        seen[key] += 1
    return numbered_keys


def _normal(path):
    """Return a path in which a `/` of a layer's name is as the others."""
    return "_".join(part.lstrip("_") for part in path.split("/"))


def match(held, weights):
    """Return `[(variable, LegacyWeight), …]` for a layer, or None if they differ.

    Args:
        held: list of `Target`, the layer's, in the order of its weights.
        weights: tuple of `LegacyWeight`.
    """
    if len(held) != len(weights):
        return None
    paths = [_normal(weight.path) for weight in weights]
    by_path = {_normal(path): item for item in held for path in item.paths}
    if all(path in by_path for path in paths) and len(set(paths)) == len(paths):
        return [
            (by_path[path].variable, weight)
            for path, weight in zip(paths, weights, strict=True)
        ]
    names = [weight.name or weight.path for weight in weights]
    by_whole_name = _by_whole_name(held, names)
    if by_whole_name is not None:
        return list(zip(by_whole_name, weights, strict=True))
    renamed = [RENAMED.get(name.rpartition("/")[2], name) for name in names]
    for names, parts in [(names, parts) for parts in NAME_PARTS] + [(renamed, 1)]:
        keys = _in_order(_ending(name, parts) for name in names)
        own = _in_order(_ending(item.name, parts) for item in held)
        by_key = dict(zip(own, held, strict=True))
        if set(keys) == set(by_key):
            return [
                (by_key[key].variable, weight)
                for key, weight in zip(keys, weights, strict=True)
            ]
    return None


def _by_whole_name(held, names):
    """Return the variables by their names but for the model around, or None.

    `conv1/bn/gamma` of a layer `conv1/bn` is `model/conv1_bn/gamma` in Keras 3.
    """
    wanted = [layer_name(name.partition(":")[0]).lower() for name in names]
    own = {
        layer_name(item.name.partition("/")[2]).lower(): item.variable for item in held
    }
    is_plain = len(set(wanted)) == len(wanted) == len(own)
    return (
        [own[name] for name in wanted] if is_plain and set(wanted) == set(own) else None
    )


def _also_by_layers(model, found):
    """Return targets of a subclassed model with the paths of a `.keras` file added.

    There its layers are listed, `layers/dense_1/vars/0`, and not by attribute.
    """
    added = {}
    stored = numbered(type(layer).__name__ for layer in model.layers)
    for name, layer in zip(stored, model.layers, strict=True):
        for target in targets(layer):
            added[id(target.variable)] = [f"layers/{name}/{p}" for p in target.paths]
    return [
        item._replace(paths=(*item.paths, *added.get(id(item.variable), ())))
        for item in found
    ]


def _own(model):
    """Return the part of a subclassed model that is in none of its layers."""
    inner = {id(item) for layer in model.layers for item in layer.weights}
    return [target for target in targets(model) if id(target.variable) not in inner]


def _known(weights):
    """Return the weights that Keras 3 has too, laid out as it has them."""
    kept = (item for item in weights if not is_unknown(item))
    return cudnn.as_keras(tuple(kept))


def is_unknown(weight):
    """Return whether Keras 3 has no such weight, such as the state of a generator."""
    name = (weight.path or weight.name).rpartition("/")[2]
    return name.partition(":")[0] in WITHOUT_COUNTERPART


def match_model(model, by_layer, where):
    """Return `[(variable, LegacyWeight), …]` for a whole model.

    Args:
        model: `keras.Model`, built.
        by_layer: `{layer name: (LegacyWeight, …)}`. Under `""` are those of a model
            that is taken as a whole, or those in none of its layers.
        where: str, the file, for errors.

    Raises:
        LegacyModelError: naming every layer whose weights do not fit.
    """
    by_layer = {layer_name(name): by_layer[name] for name in by_layer}
    if set(by_layer) == {""}:
        found = {"": _also_by_layers(model, targets(model))}
    else:
        found = {layer.name: targets(layer) for layer in model.layers}
        found[""] = _own(model)
    pairs, problems = [], []
    for name in dict.fromkeys((*found, *by_layer)):
        held, weights = found.get(name), _known(by_layer.get(name, ()))
        if held is None:
            problems += [f"{name!r} is no layer of the model"] if weights else []
            continue
        matched = match(held, weights)
        if matched is None:
            problems.append(_difference(name or model.name, held, weights))
            continue
        pairs += matched
        problems += _misfits(name or model.name, matched)
    if problems:
        raise LegacyModelError(
            f"{where}: the weights do not fit the model, so none was loaded:\n  "
            + "\n  ".join(problems)
        )
    return pairs


def in_order(model, by_layer, where):
    """Return `by_layer` under the names of the model's layers.

    A checkpoint numbers the layers that have weights, and a model built anew may
    number its layers differently (`dense_4`): then their order tells, as it did in
    tf.keras, and `match_model` still compares the weights of each.

    Raises:
        LegacyModelError: if one has more layers, naming the first that differ.
    """
    held = {layer.name: layer.weights for layer in model.layers if layer.weights}
    known = {name: _known(weights) for name, weights in by_layer.items() if name}
    stored = {name: weights for name, weights in known.items() if weights}
    if set(stored) <= set(held):
        return by_layer
    if len(stored) != len(held):
        raise LegacyModelError(f"{where}: {_first_difference(held, stored)}")
    renamed = dict(zip(held, (by_layer[name] for name in stored), strict=True))
    return renamed | {name: by_layer[name] for name in by_layer if not name}


def _first_difference(held, stored):
    """Return what differs first between the layers of a model and of a file."""
    pairs = itertools.zip_longest(held.items(), stored.items(), fillvalue=("none", ()))
    own, other = next(
        (own, other)
        for own, other in pairs
        if sorted(tuple(item.shape) for item in own[1])
        != sorted(item.shape for item in other[1])
    )
    shapes = [[tuple(item.shape) for item in weights] for _, weights in (own, other)]
    return (
        f"the model has {len(held)} layers with weights, the file {len(stored)}, so "
        f"none was loaded. The first that differ: {own[0]!r} with {shapes[0]}, in the "
        f"file {other[0]!r} with {shapes[1]}. Names are compared where they fit: "
        "keras.utils.clear_session() before the model is built has Keras count anew."
    )


def _kind(dtype):
    """Return what a dtype's numbers are: float, int, bool, or something else."""
    name = str(dtype)
    kinds = ("float", "bfloat", "uint", "int", "bool")
    found = next((kind for kind in kinds if name.startswith(kind)), name)
    return {"bfloat": "float", "uint": "int"}.get(found, found)


def fits(variable, weight):
    """Return whether a weight can be the value of a variable: shape, kind of dtype."""
    same_kind = _kind(weight.dtype) == _kind(variable.dtype)
    return same_kind and tuple(variable.shape) == weight.shape


def _misfits(name, matched):
    return [
        f"{name!r}: {variable.path} has the shape {tuple(variable.shape)}, the file's "
        f"{weight.name or weight.path} has {weight.shape}"
        + ("" if tuple(variable.shape) != weight.shape else f" of {weight.dtype}")
        for variable, weight in matched
        if not fits(variable, weight)
    ]


def _difference(name, held, weights):
    has = ", ".join(f"{item.name} {tuple(item.variable.shape)}" for item in held)
    holds = ", ".join(str(weight) for weight in weights)
    return (
        f"{name!r} has the weights [{has or 'none'}], the file holds "
        f"[{holds or 'none'}]"
    )


def value_for(variable, weight):
    """Return a weight's value as its variable takes it, read now.

    A copy: some backends would go on sharing the memory-mapped file.
    """
    return backend.place(np.asarray(weight.read(), dtype=variable.dtype))


def assign(pairs, advance=lambda size: None):
    """Read the weights one at a time, and put them into their variables.

    Args:
        pairs: `[(variable, LegacyWeight), …]`.
        advance: callable, told the bytes of each tensor that is done.
    """
    for variable, weight in pairs:
        variable.assign(value_for(variable, weight))
        advance(int(np.prod(weight.shape)) * weight.dtype.itemsize)


def settle(model):
    """Let layers take up what they reckon from their weights, as Normalization does."""
    for layer in keras_internals.sublayers(model):
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
