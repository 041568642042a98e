"""Weights of CuDNNLSTM and CuDNNGRU, as those of LSTM and GRU.

cuDNN keeps the kernels of the gates transposed, and two biases, which LSTM adds up and
GRU (`reset_after=True`) has as two rows. Source: tf.keras
saving/hdf5_format.py, `_convert_rnn_weights`.
"""

import collections
import dataclasses

import numpy as np

NAMES = "kernel", "recurrent_kernel", "bias"
# In a `.keras` file they are numbered.
NUMBERED = {str(number): name for number, name in enumerate(NAMES)}
LSTM_GATES, GRU_GATES = 4, 3


def as_keras(weights):
    """Return a layer's weights with those of cuDNN layers laid out as Keras has them.

    Their biases tell: twice as long as the gates are, in one line.

    Args:
        weights: tuple of `LegacyWeight`.
    """
    groups = collections.defaultdict(dict)
    for weight in weights:
        prefix, _, name = (weight.path or weight.name).rpartition("/")
        groups[prefix][NUMBERED.get(name, name)] = weight
    changed = {}
    for prefix, group in groups.items():
        gates = _gates(group)
        for name in NAMES if gates is not None else ():
            cell = f"{prefix.removesuffix('vars').rstrip('/')}/cell/{name}".lstrip("/")
            converted = _convert(group[name], name, gates)
            if converted.path:
                converted = dataclasses.replace(converted, path=cell)
            changed[id(group[name])] = converted
    return tuple(changed.get(id(weight), weight) for weight in weights)


def _gates(group):
    """Return the number of gates if a group is that of a cuDNN layer, or None."""
    if not set(NAMES) <= set(group):
        return None
    recurrent, bias = group["recurrent_kernel"].shape, group["bias"].shape
    if len(recurrent) != 2 or len(bias) != 1:
        return None
    for gates in LSTM_GATES, GRU_GATES:
        if recurrent[1] == gates * recurrent[0] and bias[0] == 2 * recurrent[1]:
            return gates
    return None


def _convert(weight, name, gates):
    if name == "bias":
        length = weight.shape[0] // 2
        shape = (length,) if gates == LSTM_GATES else (2, length)
    else:
        shape = weight.shape

    def read():
        value = weight.read()
        if name == "bias":
            both = value.reshape(2, -1)
            return both.sum(axis=0) if gates == LSTM_GATES else both
        order = "F" if name == "kernel" else "C"
        parts = [
            part.T.reshape(part.shape, order=order) if name == "kernel" else part.T
            for part in np.hsplit(value, gates)
        ]
        return np.hstack(parts)

    return dataclasses.replace(weight, shape=shape, read=read)
