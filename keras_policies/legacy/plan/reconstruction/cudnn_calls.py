"""Finds the layer that a cuDNN op is, by the weights in its parameters.

    CudnnRNN(rows of x, states, weights in a row)   ->  rows, states
    _Recurrent(x, weights, states)                  ->  sequences, states

Source: keras/layers/rnn/gru_lstm_utils.py of Keras 2.15, `canonical_to_params`.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import ir, recurrent
from keras_policies.legacy.plan.reconstruction.proofs import Prober
from keras_policies.legacy.plan.reconstruction.recurrent_probes import ROLES, Loop

OPS = "CudnnRNN", "CudnnRNNV2"
# The attributes that Keras passes; an op with other values is not one of its layers.
SETTINGS = {"direction": "unidirectional", "dropout": 0.0, "input_mode": "linear_input"}
# Mode -> the layer, its states, the order of its gates in cuDNN, its settings.
MODES = {
    "lstm": ("LSTM", 2, [0, 1, 2, 3], {}),
    "gru": ("GRU", 1, [1, 0, 2], {"reset_after": True}),
}
# Ops of `canonical_to_params`.
MOVES = {"Cast", "ConcatV2", "Fill", "Reshape", "Split", "SplitV", "Transpose"}


def results(call: Loop) -> list[ir.Value] | None:
    """Add the layer that an op is, and return its outputs, or None."""
    node, steps = call.node, call.steps
    mode = MODES.get(str(node.attributes.get("rnn_mode", "lstm")))
    options = {key: node.attributes.get(key, value) for key, value in SETTINGS.items()}
    if node.op not in OPS or mode is None or options != SETTINGS:
        return None
    class_name, count, gates, config = mode
    weights, origin = _cudnn_weights(call, gates), call.origin(0)
    if weights is None or origin.batch_major is None:
        return None
    initial = (_state(call, value) for value in call.values[1 : 1 + count])
    states = [state for state in initial if state is not None]
    if len(states) < count:
        return None
    units = call.traced.variables[weights["recurrent_kernel"].variable].shape[0]
    settings: Config = {"units": units, "go_backwards": origin.is_reversed}
    settings |= {"activation": "tanh", "recurrent_activation": "sigmoid", **config}
    attributes = {
        "class_name": class_name,
        "config": settings,
        "weights": tuple(weights),
        "is_masked": False,
        "dtype": node.attributes.get("T"),
    }
    initial_states = () if all(call.is_zero(state) for state in states) else states
    inputs = origin.batch_major, *weights.values(), *initial_states
    layer = steps.add(ir.OpStep(node.name, recurrent.OP, attributes, inputs))
    ends: list[ir.Value] = [recurrent.swapped(f"{node.name}/rows", layer, steps)]
    for n, name in enumerate(("output_h", "output_c")[:count], 1):
        state = ir.StepOutput(layer.step, n), ir.Constant(np.int32(0))
        ends.append(steps.op(f"{node.name}/{name}", "ExpandDims", *state))
    return ends


def _state(call: Loop, value: ir.Value) -> ir.Value | None:
    """Return a state without the axis of the layers of cuDNN, if that is one."""
    array, step = ir.constant(value), call.op(value)
    if array is not None and len(array) == 1:
        return ir.Constant(array[0])
    is_row = ir.is_op(step, "ExpandDims") and ir.constant(step.inputs[1]) == 0
    return step.inputs[0] if step is not None and is_row else None


def _cudnn_weights(
    call: Loop, gates: Sequence[int]
) -> dict[str, ir.VariableRef] | None:
    """Return the variables that make up the parameters, by their roles."""
    variables, random = call.variables([call.values[3]]), np.random.default_rng(0)
    shapes = {v: call.traced.variables[v.variable].shape for v in variables}
    budget.spend(sum(map(math.prod, shapes.values())))
    prober = Prober(call.traced, ops=MOVES)
    drawn: dict[ir.Value, Array] = {
        v: prober.opened(random.standard_normal(s)) for v, s in shapes.items()
    }
    orders = itertools.permutations(variables) if len(variables) == len(ROLES) else ()
    for order in orders:
        with attempt(*UNEXPECTED):
            parameters = call.array(call.values[3], {**drawn}, prober)
            if np.array_equal(parameters, _in_cudnn([drawn[v] for v in order], gates)):
                return dict(zip(ROLES, order, strict=True))
    return None


def _in_cudnn(weights: Sequence[Array], gates: Sequence[int]) -> Array:
    """Return the kernels and the biases of a layer as cuDNN has them."""
    *kernels, bias = weights
    count = len(gates)
    parts = [np.split(kernel, count, 1)[gate].T for kernel in kernels for gate in gates]
    biases = bias if bias.ndim == 2 else [np.zeros_like(bias), bias]
    parts += [np.split(row, count)[gate] for row in biases for gate in gates]
    return np.concatenate([gate.ravel() for gate in parts])
