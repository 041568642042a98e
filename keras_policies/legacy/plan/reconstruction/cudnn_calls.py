"""Finds the layer that an op of cuDNN is, by the weights that its parameters are.

    CudnnRNN(rows of x, states, weights in a row)   ->  rows, states
    _Recurrent(x, weights, states)                  ->  sequences, states

Source: keras/layers/rnn/gru_lstm_utils.py of Keras 2.15, `canonical_to_params`.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_policies.legacy.base.errors import UNEXPECTED, LimitError
from keras_policies.legacy.base.model import Array, Config
from keras_policies.legacy.base.traced_functions import (
    Node,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import recurrent
from keras_policies.legacy.plan.reconstruction.recurrent_loops import Loop
from keras_policies.legacy.plan.reconstruction.recurrent_probes import ROLES
from keras_policies.legacy.plan.reconstruction.steps import (
    Constant,
    OpStep,
    Step,
    StepOutput,
    Value,
    VariableRef,
    constant,
    is_op,
)

OPS = "CudnnRNN", "CudnnRNNV2"
# What Keras passes; nothing else is one of its layers.
SETTINGS = {
    "direction": "unidirectional",
    "dropout": 0.0,
    "input_mode": "linear_input",
}
# Mode -> the layer, its states, the order of its gates in cuDNN, its settings.
MODES = {
    "lstm": ("LSTM", 2, [0, 1, 2, 3], {}),
    "gru": ("GRU", 1, [1, 0, 2], {"reset_after": True}),
}


def results(
    node: Node,
    values: Sequence[Value],
    traced: TracedFunctions,
    steps: Sequence[Step],
    specs: Sequence[TensorSpec],
    add: Callable[[Step], int],
) -> Mapping[str, Value] | None:
    """Add the layer that an op is, and return its outputs by name, or None."""
    mode = MODES.get(str(node.attributes.get("rnn_mode", "lstm")))
    given = {key: node.attributes.get(key, value) for key, value in SETTINGS.items()}
    if node.op not in OPS or mode is None or given != SETTINGS:
        return None
    class_name, count, gates, config = mode
    call = Loop(node, values, traced, steps, specs)
    weights, origin = _weights(call, gates), call.origin(0)
    if weights is None or origin.batch_major is None:
        return None
    found = (_state(call, value) for value in values[1 : 1 + count])
    states = [state for state in found if state is not None]
    if len(states) < count:
        return None
    units = traced.variables[weights["recurrent_kernel"].variable].shape[0]
    settings: Config = {"units": units, "go_backwards": origin.is_reversed}
    settings |= {"activation": "tanh", "recurrent_activation": "sigmoid", **config}
    attributes = {
        "class_name": class_name,
        "config": settings,
        "weights": tuple(weights),
        "is_masked": False,
        "dtype": node.attributes.get("T"),
    }
    own = () if all(call.is_zero(state) for state in states) else states
    inputs = origin.batch_major, *weights.values(), *own
    made = add(OpStep(node.name, recurrent.OP, attributes, inputs))
    rows = add(recurrent.swapped(f"{node.name}/rows", StepOutput(made)))
    ends: dict[str, Value] = {"output": StepOutput(rows)}
    for n, name in enumerate(("output_h", "output_c")[:count], 1):
        state = StepOutput(made, n), Constant(np.int32(0))
        ends[name] = StepOutput(
            add(OpStep(f"{node.name}/{name}", "ExpandDims", {}, state))
        )
    return ends


def _state(call: Loop, value: Value) -> Value | None:
    """Return a state without the axis of the layers of cuDNN, if that is one."""
    known, step = constant(value), call.op(value)
    if known is not None and len(known) == 1:
        return Constant(known[0])
    is_row = is_op(step, "ExpandDims") and constant(step.inputs[1]) == 0
    return step.inputs[0] if step is not None and is_row else None


def _weights(call: Loop, gates: Sequence[int]) -> dict[str, VariableRef] | None:
    """Return the variables of which the parameters are made, by their names."""
    every, random = call.variables([call.values[3]]), np.random.default_rng(0)
    shapes = {held: call.traced.variables[held.variable].shape for held in every}
    budget.spend(sum(map(math.prod, shapes.values())))
    drawn: dict[Value, Array] = {
        held: random.standard_normal(shape) for held, shape in shapes.items()
    }
    orders = itertools.permutations(every) if len(every) == len(ROLES) else ()
    for order in orders:
        try:
            found = call.array(call.values[3], {**drawn})
            if np.array_equal(found, _in_cudnn([drawn[one] for one in order], gates)):
                return dict(zip(ROLES, order, strict=True))
        except LimitError:
            raise
        except UNEXPECTED:
            continue
    return None


def _in_cudnn(weights: Sequence[Array], gates: Sequence[int]) -> Array:
    """Return the kernels and the biases of a layer as cuDNN has them."""
    *kernels, bias = weights
    count = len(gates)
    parts = [np.split(kernel, count, 1)[gate].T for kernel in kernels for gate in gates]
    both = bias if bias.ndim == 2 else [np.zeros_like(bias), bias]
    parts += [np.split(row, count)[gate] for row in both for gate in gates]
    return np.concatenate([part.ravel() for part in parts])
