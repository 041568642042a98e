"""Finds calls with a fixed `training`, which Keras up to 3.15 overrides in a graph."""

from collections.abc import Iterator
from typing import Any

from keras_policies._common import keras_names
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.outcomes import LeftOut, Outcome
from keras_policies.legacy.plan import classes

KEEPS = 3, 16  # the first Keras that obeys `training` in a graph
NORMALIZATION = "BatchNormalization"
# The settings by which a layer does something else in training, unless they are 0.
RATES = "rate", "stddev", "dropout", "recurrent_dropout"
# Classes that do, whatever their settings are: with random numbers, or by their code.
ALWAYS = "Lambda", "SpectralNormalization"
RANDOM = "Random"  # what the names of layers that augment images begin with
INNER = "layer", "backward_layer", "forward_layer", "cell", "cells", "layers"


def parts(config: Config) -> Iterator[LeftOut]:
    """Yield the parts of a model that Keras calls with another `training`.

    A layer is not named if it does the same in training, and is COMPLETE if it does so
    because it is frozen.
    """
    if keras_names.version() >= KEEPS:
        return
    for training in False, True:
        found: dict[str, set[str]] = {}
        for layer in _called(config, training):  # models may have layers of one name
            found.setdefault(configs.name_of(layer), set()).update(_changing(layer))
        start = f"training={training} in the calls of "
        ends = f", which Keras up to 3.15 overrides when it {_WHEN[training]}"
        if changing := [name for name in found if {*found[name]} - {FROZEN}]:
            code = "KP605", None if training is False else Outcome.LOST
            yield LeftOut(f"{start}{_listed(changing)}{ends}{_REMEDY[training]}", *code)
        if frozen := [name for name in found if found[name] == {FROZEN}]:
            now = "; as they are frozen, it makes no difference before you train them"
            text = f"{start}{_listed(frozen)}{ends}{now}"
            yield LeftOut(text, "KP605", Outcome.COMPLETE)


FROZEN = "frozen"
_WHEN = {False: "trains", True: "predicts"}
_REMEDY = {
    False: " (set trainable=False in their BatchNormalization, and the rates of their "
    "dropouts to 0)",
    True: " (call the model with training=True instead)",
}


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _called(config: Config, training: bool) -> Iterator[Config]:
    """Yield the layers that a model, or one in it, calls with a `training`."""
    for layer in configs.inner_layers(config):
        yield from _called(layer, training)
        if _has(layer.get("inbound_nodes"), training):
            yield layer


def _has(value: Any, training: bool) -> bool:
    if isinstance(value, dict):
        if value.get("training") is training:
            return True
        value = [*value.values()]
    is_list = isinstance(value, list | tuple)
    return is_list and any(_has(item, training) for item in value)


def _changing(written: Any, *, is_frozen: bool = False) -> Iterator[str]:
    """Yield the classes that do something else in training, FROZEN for frozen ones."""
    if isinstance(written, list | tuple):
        for item in written:
            yield from _changing(item, is_frozen=is_frozen)
    if not isinstance(written, dict) or "class_name" not in written:
        return
    name, inner = str(written["class_name"]), written.get("config")
    config = inner if isinstance(inner, dict) else {"layers": inner}
    is_frozen |= config.get("trainable") is False
    stock = classes.RENAMED_CLASSES.get(name, name)
    is_stock = classes.is_in("keras.layers", stock) and not classes.is_registered(
        written
    )
    if stock == NORMALIZATION:
        yield FROZEN if is_frozen else stock
    elif not (is_stock or stock in classes.GRAPHS):
        yield name
    elif stock in ALWAYS or stock.startswith(RANDOM) or any(map(config.get, RATES)):
        yield stock
    for key in INNER:
        yield from _changing(config.get(key), is_frozen=is_frozen)
