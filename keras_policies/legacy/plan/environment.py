"""Checks what a plan needs of this machine, before anything is built."""

import importlib.util
from collections.abc import Iterator
from typing import Any

from keras_policies._common import keras_names
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.configs import LOOKUPS
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.plan import fixed_training, graph
from keras_policies.legacy.plan.plan import Plan

STOCK, TENSORFLOW = "keras.layers", "tensorflow"
# Layers that Keras 3 cannot create if TensorFlow is not installed.
NEED_TENSORFLOW = "HashedCrossing", "Hashing", *LOOKUPS


def check(plan: Plan) -> None:
    """Raise the error with which building the model would end here, if one is known."""
    with located(plan.legacy.path, code="KP401"):
        _check_texts(plan, keras_names.backend())
        for config in _configs(plan.config):
            settings = config.get("config")
            if configs.is_graph(config):
                if "input_layers" in configs.settings(config):
                    graph.in_order(configs.settings(config))
                continue
            if _reads_texts(config) and not plan.options.texts_outside:
                _check_tensorflow(config["class_name"])
            _check_arguments(config["class_name"], settings)


def reads_texts(plan: Plan) -> bool:
    """Return whether the model has layers that read texts."""
    is_inside = not plan.options.texts_outside
    return is_inside and any(map(_reads_texts, _configs(plan.config)))


def _reads_texts(config: Config) -> bool:
    return config["class_name"] in NEED_TENSORFLOW


def _check_texts(plan: Plan, backend: str) -> None:
    """Raise if the model returns texts, which this backend does not have."""
    if plan.reconstruction.texts and backend != TENSORFLOW:
        raise LegacyModelError(
            "it returns texts, which are looked up by "
            f"{', '.join(plan.reconstruction.texts)}, and {backend} has no texts.",
            hints.RETURNS_TEXTS,
        )


def _configs(value: Any) -> Iterator[Config]:
    """Yield the configs of models and of Keras's own layers, also in programs."""
    if isinstance(value, list):
        for item in value:
            yield from _configs(item)
    elif isinstance(value, dict):
        is_stock = value.get("module") == STOCK
        if isinstance(value.get("class_name"), str) and (
            is_stock or configs.is_graph(value)
        ):
            yield value
        for key in fixed_training.INNER:
            inner = configs.settings(value).get(key)
            if key == "layers" and isinstance(inner, dict):  # of a program
                inner = [*inner.values()]
            yield from _configs(inner)


def _check_tensorflow(class_name: str) -> None:
    if importlib.util.find_spec(TENSORFLOW) is None:
        reason = f"Keras 3 computes {class_name} with TensorFlow, not installed here."
        raise LegacyModelError(reason, hints.TENSORFLOW)


def _check_arguments(class_name: str, config: Any) -> None:
    """Raise if a class of Keras does not take the settings in the file."""
    known = keras_names.accepted(class_name)
    unknown = {*config} - known if known and isinstance(config, dict) else set()
    if unknown:
        named = ", ".join(map(repr, sorted(unknown)))
        raise LegacyModelError(
            f"Keras's {class_name} does not take {named}.",
            hints.namesake(class_name),
            suspects={class_name},
        )
