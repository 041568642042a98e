"""Stateful RNNs of a SavedModel keep their states in `.keras` files.

Plain Keras neither writes nor reads the states of an RNN. Those from a SavedModel are
written as assets of the layer, and read if this package is imported. Plain Keras also
opens such a file, and starts from zero. In docs/keras-faults.md, this is the row
"stateful recurrent layers".
"""

import pathlib
import types

import keras
import numpy as np

from keras_policies import keras_internals


def of(layer: keras.Layer) -> list[keras.Variable]:
    """Return the state variables of a built stateful RNN, else an empty list."""
    is_stateful = isinstance(layer, keras.layers.RNN) and layer.stateful
    states = keras.tree.flatten(layer.states) if is_stateful else []
    return [state for state in states if isinstance(state, keras.Variable)]


def keep_in_files(layer: keras.layers.RNN) -> None:
    """Let the `.keras` files of a layer's model hold its states from now on."""
    layer.save_assets = types.MethodType(_save, layer)


def are_kept(layer: keras.Layer) -> bool:
    """Return whether `keep_in_files` was called with a layer."""
    return "save_assets" in vars(layer)


def _save(layer: keras.layers.RNN, folder: str) -> None:
    for number, state in enumerate(of(layer)):
        value = keras.ops.convert_to_numpy(keras.ops.cast(state, "float32"))
        np.save(_file(folder, number), value, allow_pickle=False)


def _load(layer: keras.layers.RNN, folder: str | None) -> None:
    """Read the states that `_save` wrote, if there are any."""
    states = of(layer)
    if not folder or not states or not _file(folder, 0).is_file():
        return
    # Mapping refuses a header that claims a larger array than the file has.
    values = [
        np.load(_file(folder, number), mmap_mode="r", allow_pickle=False)
        for number in range(len(states))
    ]
    for state, value in zip(states, values, strict=True):
        state.assign(np.array(value))  # Keras compares the shapes
    keep_in_files(layer)


def _file(folder: str, number: int) -> pathlib.Path:
    return pathlib.Path(folder) / f"rnn_state_{number}.npy"


def install() -> None:
    """Let RNNs read their states from `.keras` files."""
    keras_internals.adds("keras.layers.RNN.load_assets", _load)
