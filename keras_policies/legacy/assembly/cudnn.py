"""Converts the weights of CuDNNLSTM and CuDNNGRU to those of LSTM and GRU.

cuDNN has transposed kernels of gates, and two biases: LSTM has their sum, and GRU
(`reset_after=True`) has them as rows. Source: tf.keras saving/hdf5_format.py,
`_convert_rnn_weights`.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_policies.legacy.base.weights import LegacyWeight

NAMES = "kernel", "recurrent_kernel", "bias"
# The numbers of a layer's weights in a `.keras` file.
NUMBERED = {str(number): name for number, name in enumerate(NAMES)}
LSTM_GATES, GRU_GATES = 4, 3


def as_keras(weights: Sequence[LegacyWeight]) -> tuple[LegacyWeight, ...]:
    """Return the weights of a layer, with those of cuDNN layers in Keras's layout.

    The bias identifies a cuDNN layer: it is one row, twice as long as the biases of all
    gates.
    """
    layers: dict[str, dict[str, LegacyWeight]] = collections.defaultdict(dict)
    for weight in weights:
        prefix, _, name = (weight.path or weight.name).rpartition("/")
        layers[prefix][NUMBERED.get(name, name)] = weight
    changed = {}
    for prefix, layer in layers.items():
        gates = _gates(layer)
        if gates is None:
            continue
        cell = f"{prefix.removesuffix('vars').rstrip('/')}/cell".lstrip("/")
        length = layer["bias"].shape[0] // 2
        bias_shape = (length,) if gates == LSTM_GATES else (2, length)
        for name in NAMES:
            weight = layer[name]
            changed[id(weight)] = dataclasses.replace(
                weight,
                path=f"{cell}/{name}" if weight.path else "",
                shape=bias_shape if name == "bias" else weight.shape,
                read=functools.partial(_read, weight, name, gates),
            )
    return tuple(changed.get(id(weight), weight) for weight in weights)


def _gates(layer: Mapping[str, LegacyWeight]) -> int | None:
    """Return the number of gates in a cuDNN layer, or None for other layers."""
    if not set(NAMES) <= set(layer):
        return None
    recurrent, bias = layer["recurrent_kernel"].shape, layer["bias"].shape
    if len(recurrent) != 2 or len(bias) != 1:
        return None
    for gates in LSTM_GATES, GRU_GATES:
        if recurrent[1] == gates * recurrent[0] and bias[0] == 2 * recurrent[1]:
            return gates
    return None


def _read(weight: LegacyWeight, name: str, gates: int) -> npt.NDArray[Any]:
    value = weight.read()
    if name == "bias":
        biases = value.reshape(2, -1)
        return biases.sum(axis=0) if gates == LSTM_GATES else biases
    parts = np.hsplit(value, gates)
    if name == "kernel":  # each gate's part is transposed, and stored in that order
        return np.hstack([part.T.reshape(part.shape, order="F") for part in parts])
    return np.hstack([part.T for part in parts])
