"""The formulas of recurrent layers, and the settings that these may have."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.plan.arguments import OF_KERAS_3
from keras_policies.legacy.plan.reconstruction import proofs

Weights = Mapping[str, Array]
States = Sequence[Array]


class Activation(NamedTuple):
    """A function as tf.keras names it, or as Keras 3 does if it means another one.

    `bend` is the key of the function that stands for its op that bends, if any.
    """

    name: str
    formula: Callable[[Array], Array]
    bend: tuple[Any, ...] | None = None


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _clipped(
    name: str, low: float, high: float, slope: float = 1, shift: float = 0, by: int = 1
) -> Activation:
    key = proofs.CLIP, float(low), float(high)
    bend = proofs.bend(*key)
    return Activation(name, lambda x: bend(slope * x + shift) / by, key)


def _bent(name: str, op: str) -> Activation:
    return Activation(name, proofs.bend(op), (op,))


# The usual ones come first.
ACTIVATIONS: Sequence[Activation] = (
    Activation("tanh", np.tanh),
    Activation("sigmoid", _sigmoid),
    *(  # the slope as each dtype has it
        _clipped("hard_sigmoid", 0, 1, float(np.asarray(0.2, dtype)), 0.5)
        for dtype in proofs.FLOATS
    ),
    _clipped(OF_KERAS_3 + "hard_sigmoid", 0, 6, 1, 3, 6),
    _clipped("relu", 0, math.inf),
    Activation("linear", lambda x: x),
    _bent("softsign", "Softsign"),
    Activation("softplus", lambda x: np.logaddexp(x, 0)),
    _bent("elu", "Elu"),
    _bent("selu", "Selu"),
    Activation("swish", lambda x: x * _sigmoid(x)),
    Activation("exponential", np.exp),
)


class Products(NamedTuple):
    """A row and the first state, multiplied by their kernels."""

    x: Array
    h: Array


def _simple(
    products: Products, states: States, weights: Weights, settings: "Settings"
) -> States:
    inner = products.x + products.h + weights.get("bias", 0)
    return [settings.outer.formula(inner)]


def _lstm(
    products: Products, states: States, weights: Weights, settings: "Settings"
) -> States:
    outer, gate = settings.outer.formula, settings.gate.formula
    c, inner = states[1], products.x + products.h + weights.get("bias", 0)
    i, f, new, o = np.split(inner, 4, axis=-1)
    c = gate(f) * c + gate(i) * outer(new)
    return [gate(o) * outer(c), c]


def _gru(
    products: Products, states: States, weights: Weights, settings: "Settings"
) -> States:
    outer, gate = settings.outer.formula, settings.gate.formula
    (h,), recurrent = states, weights["recurrent_kernel"]
    units, is_after = h.shape[1], settings.is_after
    biases = np.broadcast_to(weights.get("bias", 0), (2, 3 * units))
    z, r, new = np.split(products.x + biases[0], 3, axis=-1)
    inner = products.h + (biases[1] if is_after else 0)
    inner_z, inner_r, inner_new = np.split(inner, 3, axis=-1)
    z, r = gate(z + inner_z), gate(r + inner_r)
    inner_new = r * inner_new if is_after else (r * h) @ recurrent[:, 2 * units :]
    return [z * h + (1 - z) * outer(new + inner_new)]


class Settings(NamedTuple):
    """The activation, that of the gates, and `reset_after` of a GRU."""

    outer: Activation
    gate: Activation = ACTIVATIONS[0]
    is_after: bool | None = None

    def config(self, class_name: str) -> Config:
        """Return the arguments of a layer of this class."""
        config = {"activation": self.outer.name}
        if class_name != "SimpleRNN":
            config["recurrent_activation"] = self.gate.name
        return config | (
            {} if self.is_after is None else {"reset_after": self.is_after}
        )


class Cell(NamedTuple):
    """A formula from a row and states to new states; the first is the output."""

    class_name: str
    formula: Callable[[Products, States, Weights, Settings], States]
    states: int


# Width of the kernels, in units of the state's width -> the layer.
CELLS = {
    1: Cell("SimpleRNN", _simple, 1),
    3: Cell("GRU", _gru, 1),
    4: Cell("LSTM", _lstm, 2),
}


def settings(
    cell: Cell, bias: Array | None, bends: Collection[tuple[Any, ...]]
) -> Iterator[Settings]:
    """Yield the settings that a layer may have, the usual ones first.

    `bends` are the keys of the functions that stand for its ops that bend.
    """
    usual = [a for a in ACTIVATIONS if a.bend is None or a.bend in bends]
    if cell.class_name == "SimpleRNN":
        yield from map(Settings, usual)
        return
    pairs = itertools.product(usual, usual)
    for outer, gate in sorted(pairs, key=lambda pair: sum(map(usual.index, pair))):
        if cell.class_name == "LSTM":
            yield Settings(outer, gate)
            continue
        for is_after in (True, False):
            if bias is None or (bias.ndim == 2) == is_after:
                yield Settings(outer, gate, is_after)
