"""Counts how often Keras runs layers while it builds models that call each other."""

from typing import Any

from keras_policies.annotations import Config
from keras_policies.legacy.base.configs import inner_layers
from keras_policies.legacy.guards.limit import Limit

# A million would take Keras more than a minute.
MAX_RUNS = 60_000


def limit() -> Limit:
    """Return the limit on the runs of layers in a whole model."""
    return Limit(MAX_RUNS, "runs of layers in models that call each other")


def check(config: Any) -> None:
    """Raise `LegacyModelError` if a model would run its layers too often.

    Each call of a model runs its layers anew, so that 20 models in each other, of two
    calls each, run a million layers.
    """
    if isinstance(config, dict):
        limit().spend(_runs(config))


def _runs(layer: Config) -> int:
    """Return how many layers all calls of a layer run, itself or those in it."""
    config, nodes = layer.get("config"), layer.get("inbound_nodes")
    wrapped = config.get("layer") if isinstance(config, dict) else None
    inner = [wrapped] if isinstance(wrapped, dict) else inner_layers(layer)
    calls = len(nodes) if isinstance(nodes, list) else 1
    return max(1, calls) * max(1, sum(map(_runs, inner)))
