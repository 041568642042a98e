"""Counts how often Keras runs layers while it builds models that call each other."""

from typing import Any

from keras_policies.annotations import Config
from keras_policies.legacy.base.configs import inner_layers
from keras_policies.legacy.guards.limit import Limit

# A million would take Keras more than a minute.
MAX_RUNS = 60_000


def check(config: Any) -> None:
    """Raise `LegacyModelError` if Keras would run the layers of a model too often.

    Keras runs the layers of a model once to build it, and again for each call of it: 20
    models in each other, each calling the next one twice, run a million layers.
    """
    if isinstance(config, dict):
        _runs(config, Limit(MAX_RUNS, "runs of layers in models that call each other"))


def _runs(layer: Config, left: Limit) -> int:
    """Return how many layers all calls of a layer run, itself or those in it."""
    config, nodes = layer.get("config"), layer.get("inbound_nodes")
    wrapped = config.get("layer") if isinstance(config, dict) else None
    inner = [wrapped] if isinstance(wrapped, dict) else inner_layers(layer)
    size = sum(_runs(one, left) for one in inner)
    left.spend(size)
    calls = len(nodes) if isinstance(nodes, list) else 1
    return max(1, calls) * max(1, size)
