"""Ops of TensorFlow graphs, each alone, as write_nodes.py recorded them."""

import json

import keras
import legacy_files
import numpy as np

from keras_policies.legacy.ops import node_def

CASES = json.loads((legacy_files.FOLDER / "nodes.json").read_text("utf8"))
TOLERANCE = {"float16": 5e-3}


def arrays_of(case):
    """Return the recorded inputs of a node."""
    return [np.array(x, t) for x, t in zip(case["inputs"], case["dtypes"], strict=True)]


def model_of(case):
    """Return a Functional model of a node."""
    arrays = arrays_of(case)
    inputs = [keras.Input(x.shape[1:], dtype=x.dtype.name) for x in arrays]
    constants = {
        position: np.array(constant["value"], constant["dtype"])
        for position, constant in case["constants"].items()
    }
    found = keras.tree.flatten(node_def.call(case["node"], inputs, constants))
    # A constant is no output of a model: the mean and variance that a node was given.
    found = [output for output in found if isinstance(output, keras.KerasTensor)]
    return keras.Model(inputs, found)
