"""Arguments of losses, metrics and initializers that Keras leaves out of configs."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

# Of classes and functions, each of which is used many times.
signature: Callable[[Any], inspect.Signature] = functools.cache(inspect.signature)
Part = keras.losses.Loss | keras.metrics.Metric | keras.initializers.Initializer


def unsaved(thing: Any, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments of an object that its config lacks, without default ones.

    `config` is what its class writes, unless it is given.

    Keras 3 does not write `delta` of Huber, `axis` of CosineSimilarity, `gain` of
    Identity or the dtype of a loss, so a saved model gets the usual ones.

    Example:
        >>> unsaved(keras.losses.Huber(delta=0.5))
        {'delta': 0.5}
    """
    cls = type(thing)
    if not isinstance(thing, Part) or not cls.__module__.startswith("keras."):
        return {}
    config = cls.get_config(thing) if config is None else config
    kept = dict(vars(thing))
    for each in vars(thing).values():  # such as the arguments of the loss's function
        kept |= each if isinstance(each, dict) else {}
    if isinstance(thing, keras.losses.Loss) and thing.dtype != keras.config.floatx():
        kept["dtype"] = thing.dtype
    return {
        key: kept[key]
        for key, parameter in signature(cls).parameters.items()
        if key not in config and key in kept and np.any(kept[key] != parameter.default)
    }
