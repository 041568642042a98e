"""Pairs every variable of a Keras 3 model with its weight in a legacy file.

Every weight on either side must find its partner; otherwise the error lists all layers
that do not fit.
"""

from collections.abc import Iterable, Mapping

import keras

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.names import layer_name, numbered
from keras_policies.legacy.build import cudnn, mismatches
from keras_policies.legacy.build.matching import match
from keras_policies.legacy.build.targets import Pairs, Target, targets

# The state of TensorFlow's random generators, which no other generator can take, and
# the statistics of batch renormalization.
WITHOUT_COUNTERPART = (
    "_state_var",
    "renorm_mean",
    "renorm_stddev",
    "moving_stddev",
)
Weights = tuple[LegacyWeight, ...]


def is_unknown(weight: LegacyWeight) -> bool:
    """Return whether Keras 3 has no such weight, such as a random generator's state."""
    name = (weight.path or weight.name).rpartition("/")[2]
    return name.partition(":")[0] in WITHOUT_COUNTERPART


def pair(model: keras.Model, by_layer: Mapping[str, Weights]) -> Pairs:
    """Return the variables of a whole model, each with its weight.

    Args:
        model: `keras.Model`, built.
        by_layer: `{layer name: weights}`. The name `""` stands for the model itself:
            for all its weights if it is the only name, else for those in no layer.

    Raises:
        LegacyModelError: naming every layer whose weights do not fit.
    """
    stored = {layer_name(name): weights for name, weights in by_layer.items()}
    held = _whole_model(model) if set(stored) == {""} else _by_layer(model)
    pairs, problems = [], []
    for name in dict.fromkeys((*held, *stored)):
        known = _known(stored.get(name, ()))
        matched = match(held.get(name, ()), known)
        if matched is not None:
            pairs += matched
            problems += mismatches.misfits(name or model.name, matched)
        elif name in held:
            problems.append(
                mismatches.difference(name or model.name, held[name], known)
            )
        else:
            problems.append(f"{name!r} is no layer of the model")
    if problems:
        raise LegacyModelError(
            "\n  ".join(
                ["the weights do not fit the model, so none was loaded:", *problems]
            )
        )
    return pairs


def _by_layer(model: keras.Model) -> dict[str, list[Target]]:
    """Return the targets of each layer; `""` has those that are in no layer."""
    inner = {id(item) for layer in model.layers for item in layer.weights}
    own = [target for target in targets(model) if id(target.variable) not in inner]
    return {**{layer.name: targets(layer) for layer in model.layers}, "": own}


def _whole_model(model: keras.Model) -> dict[str, list[Target]]:
    """Return the targets of a subclassed model, with their paths in a `.keras` file.

    That file lists the layers, `layers/dense_1/vars/0`, and has no attributes.
    """
    listed = {}
    names = numbered(type(layer).__name__ for layer in model.layers)
    for name, layer in zip(names, model.layers, strict=True):
        for target in targets(layer):
            paths = tuple(f"layers/{name}/{path}" for path in target.paths)
            listed[id(target.variable)] = paths
    return {
        "": [
            item._replace(paths=item.paths + listed.get(id(item.variable), ()))
            for item in targets(model)
        ]
    }


def _known(weights: Iterable[LegacyWeight]) -> Weights:
    """Return the weights that Keras 3 has too, in its layout."""
    return cudnn.as_keras([item for item in weights if not is_unknown(item)])


def by_model_names(
    model: keras.Model, by_layer: Mapping[str, Weights]
) -> Mapping[str, Weights]:
    """Return `by_layer` under the names of the model's layers.

    A checkpoint numbers the layers that have weights, and a model that is built again
    may number its layers differently (`dense_4`). Then the order of the layers decides,
    as in tf.keras; `pair` still compares the weights of each.

    Args:
        model: `keras.Model`, built.
        by_layer: `{layer name: weights}`; weights in no layer under `""`.

    Raises:
        LegacyModelError: if the file has more or fewer layers, naming the first that
            differ.
    """
    held = {layer.name: layer.weights for layer in model.layers if layer.weights}
    known = {name: _known(weights) for name, weights in by_layer.items() if name}
    stored = {name: weights for name, weights in known.items() if weights}
    if set(stored) <= set(held):
        return by_layer
    if len(stored) != len(held):
        raise LegacyModelError(
            mismatches.first_difference(held, stored),
            "Layers are compared by name where all names are known: call "
            "keras.utils.clear_session() before you build the model, so that Keras "
            "numbers its layers from the start.",
        )
    renamed = dict(zip(held, (by_layer[name] for name in stored), strict=True))
    return renamed | {name: by_layer[name] for name in by_layer if not name}
