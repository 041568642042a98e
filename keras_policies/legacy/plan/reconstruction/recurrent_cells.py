"""The formulas of recurrent layers, and the settings that these may have."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.plan.arguments import OF_KERAS_3
from keras_policies.legacy.values.rules import RULES

Activation = Callable[[Array], Array]
Weights = Mapping[str, Array]
States = Sequence[Array]


# As tf.keras names them, or Keras 3 for another function. The usual ones come first.
ACTIVATIONS: Mapping[str, Any] = {
    "tanh": np.tanh,
    "sigmoid": RULES["sigmoid"].arrays,
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    OF_KERAS_3 + "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "relu": RULES["relu"].arrays,
    "linear": lambda x: x,
    "softsign": RULES["softsign"].arrays,
    "softplus": RULES["softplus"].arrays,
    "elu": RULES["elu"].arrays,
    "selu": RULES["selu"].arrays,
    "swish": RULES["silu"].arrays,
    "exponential": np.exp,
}


class Products(NamedTuple):
    """A row and the first state, multiplied by their kernels."""

    x: Array
    h: Array


def _simple(
    products: Products, states: States, weights: Weights, config: Config
) -> States:
    outer, _ = _activations(config)
    return [outer(products.x + products.h + weights.get("bias", 0))]


def _lstm(
    products: Products, states: States, weights: Weights, config: Config
) -> States:
    outer, gate = _activations(config)
    c, inner = states[1], products.x + products.h + weights.get("bias", 0)
    i, f, new, o = np.split(inner, 4, axis=-1)
    c = gate(f) * c + gate(i) * outer(new)
    return [gate(o) * outer(c), c]


def _gru(
    products: Products, states: States, weights: Weights, config: Config
) -> States:
    outer, gate = _activations(config)
    (h,), recurrent = states, weights["recurrent_kernel"]
    units, is_after = h.shape[1], config["reset_after"]
    biases = np.broadcast_to(weights.get("bias", 0), (2, 3 * units))
    z, r, new = np.split(products.x + biases[0], 3, axis=-1)
    inner = products.h + (biases[1] if is_after else 0)
    inner_z, inner_r, inner_new = np.split(inner, 3, axis=-1)
    z, r = gate(z + inner_z), gate(r + inner_r)
    inner_new = r * inner_new if is_after else (r * h) @ recurrent[:, 2 * units :]
    return [z * h + (1 - z) * outer(new + inner_new)]


def _activations(config: Config) -> tuple[Activation, Activation]:
    outer, gate = config["activation"], config.get("recurrent_activation", "linear")
    return ACTIVATIONS[outer], ACTIVATIONS[gate]


class Cell(NamedTuple):
    """A formula from a row and states to new states; the first is the output."""

    class_name: str
    formula: Callable[[Products, States, Weights, Config], States]
    states: int


# Width of the kernels, in units of the state's width -> the layer.
CELLS = {
    1: Cell("SimpleRNN", _simple, 1),
    3: Cell("GRU", _gru, 1),
    4: Cell("LSTM", _lstm, 2),
}


def settings(cell: Cell, bias: Array | None) -> Iterator[Config]:
    """Yield the settings that a layer may have, the usual ones first."""
    names = [*ACTIVATIONS]
    if cell.class_name == "SimpleRNN":
        yield from ({"activation": name} for name in names)
        return
    pairs = itertools.product(names, names)
    for outer, gate in sorted(pairs, key=lambda pair: sum(map(names.index, pair))):
        config = {"activation": outer, "recurrent_activation": gate}
        if cell.class_name == "LSTM":
            yield config
            continue
        for is_after in (True, False):
            if bias is None or (bias.ndim == 2) == is_after:
                yield {**config, "reset_after": is_after}
