"""Recognises the loop of an LSTM, GRU or SimpleRNN by running its body.

The ops in it differ from release to release, so its body is run on random rows, states
and weights, and the results are compared with the formula of each cell:

    While(rows of x, states, weights)      ->  rows, states
    _Recurrent(x, weights, mask, states)   ->  sequences, states

A cuDNN op has all weights in a row, which tell what layer it is:

    CudnnRNN(rows of x, states, weights)   ->  rows, states

`_Recurrent` becomes a call of the layer in `recurrent_calls`.
Source: keras/layers/rnn/gru_lstm_utils.py of Keras 2.15, `canonical_to_params`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import ir, recurrent_cells
from keras_policies.legacy.plan.reconstruction.proofs import Prober
from keras_policies.legacy.plan.reconstruction.recurrent_probes import (
    ROLES,
    STATES,
    SWAP,
    Layer,
    LayerOutput,
    Loop,
    Probe,
)

OP = "_Recurrent"
Match = tuple[Layer, Config, list[ir.Value | LayerOutput]]  # with the loop's results


def results(loop: Loop) -> list[ir.Value] | None:
    """Add the recurrent layer that a loop is, and return the results of the loop.

    Return None if it is not a recurrent layer.
    """
    match = None
    # Activations may grow without bound.
    with attempt(*UNEXPECTED), np.errstate(all="ignore"):
        match = next(_layers(loop), None)
    if match is None:
        return None
    layer, config, ends = match
    steps, name = loop.steps, loop.node.name
    call = steps.add(_step(layer, config))
    rows = swapped(f"{name}/rows", call, steps)
    bounds = [ir.Constant([n]) for n in (-1, 0, 1)]
    last = steps.op(f"{name}/last", "StridedSlice", rows, *bounds, shrink_axis_mask=1)
    values: dict[LayerOutput, ir.Value] = {
        LayerOutput.ROWS: ir.UnstackedTensor(rows),
        LayerOutput.LAST: last,
        LayerOutput.LAST_ROW: ir.TensorList((last,)),
    }
    values |= {state: ir.StepOutput(call.step, n) for n, state in enumerate(STATES, 1)}
    return [values[end] if isinstance(end, LayerOutput) else end for end in ends]


def swapped(name: str, value: ir.Value, steps: ir.Steps) -> ir.StepOutput:
    """Add the step that swaps the axes of batch and time."""
    return steps.op(name, "Transpose", value, ir.Constant(np.array(SWAP)))


def _step(layer: Layer, config: Config) -> ir.OpStep:
    probe, loop = layer.probe, layer.probe.loop
    origin = loop.origin(probe.x)
    x = origin.batch_major
    if x is None:
        x = swapped(f"{loop.node.name}/x", origin.time_major, loop.steps)
    states = [loop.values[i] for i in layer.states]
    mask = None if probe.mask is None else loop.mask(probe.mask)
    dtypes = loop.node.attributes.get("T")
    attributes = {
        "class_name": layer.class_name,
        "config": config,
        "weights": tuple(probe.roles),
        "is_masked": mask is not None,
        "dtype": dtypes[layer.states[0]] if dtypes else None,
    }
    inputs = [x, *probe.roles.values(), *([] if mask is None else [mask])]
    if not all(map(loop.is_zero, states)):
        inputs += states
    return ir.OpStep(loop.node.name, OP, attributes, tuple(inputs))


def _layers(loop: Loop) -> Iterator[Match]:
    """Yield the layers that compute what a loop does, with config and loop results."""
    values = enumerate(loop.values)
    lists = [i for i, value in values if isinstance(value, ir.UnstackedTensor)]
    if len(lists) not in (1, 2) or not all(loop.stays[i] for i in lists):
        return
    variables = loop.weights()
    for x, *mask in itertools.permutations(lists):
        if mask and loop.mask(mask[0]) is None:
            continue
        for roles in _roles(loop, variables):
            is_complete = False
            with attempt(*UNEXPECTED):
                probe = Probe(loop, x, mask[0] if mask else None, roles)
                is_complete = probe.goes_over_all_rows()
            if is_complete:
                yield from _matches(probe)


def _matches(probe: Probe) -> Iterator[Match]:
    rows = [i for i in (probe.x, probe.mask) if i is not None]
    is_reversed = {probe.loop.origin(i).is_reversed for i in rows}
    if len(is_reversed) > 1:
        return
    for layer in probe.layers():
        for zeros in (False, True) if probe.mask is not None else (False,):
            ends = layer.ends(zeros=zeros)
            if ends is None:
                continue
            config = {"units": probe.units, "use_bias": "bias" in probe.roles}
            config |= {**layer.config, "go_backwards": True in is_reversed}
            if zeros:
                config["zero_output_for_mask"] = True
            yield layer, config, ends


def _roles(
    loop: Loop, variables: Sequence[ir.VariableRef]
) -> Iterator[dict[str, ir.VariableRef]]:
    if len(variables) not in (2, 3):
        return
    for order in itertools.permutations(variables):
        shapes = [loop.traced.variables[v.variable].shape for v in order]
        kernel, recurrent, *bias = shapes
        if len(kernel) != 2 or len(recurrent) != 2 or kernel[1] != recurrent[1]:
            continue
        units, width = recurrent
        is_cell = units > 0 and width / units in recurrent_cells.CELLS
        if is_cell and all(shape in ((width,), (2, width)) for shape in bias):
            yield dict(zip(ROLES, order, strict=False))


CUDNN_OPS = "CudnnRNN", "CudnnRNNV2"
# The attributes that Keras passes; an op with other values is not one of its layers.
CUDNN_SETTINGS = {
    "direction": "unidirectional",
    "dropout": 0.0,
    "input_mode": "linear_input",
}
# Mode -> the layer, its states, the order of its gates in cuDNN, its settings.
CUDNN_MODES = {
    "lstm": ("LSTM", 2, [0, 1, 2, 3], {}),
    "gru": ("GRU", 1, [1, 0, 2], {"reset_after": True}),
}
# Ops of `canonical_to_params`.
MOVES = {"Cast", "ConcatV2", "Fill", "Reshape", "Split", "SplitV", "Transpose"}


def cudnn_results(call: Loop) -> list[ir.Value] | None:
    """Add the layer that an op is, and return its outputs, or None."""
    node, steps = call.node, call.steps
    mode = CUDNN_MODES.get(str(node.attributes.get("rnn_mode", "lstm")))
    options = {
        key: node.attributes.get(key, value) for key, value in CUDNN_SETTINGS.items()
    }
    if node.op not in CUDNN_OPS or mode is None or options != CUDNN_SETTINGS:
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
    arguments: Config = {"units": units, "go_backwards": origin.is_reversed}
    arguments |= {"activation": "tanh", "recurrent_activation": "sigmoid", **config}
    attributes = {
        "class_name": class_name,
        "config": arguments,
        "weights": tuple(weights),
        "is_masked": False,
        "dtype": node.attributes.get("T"),
    }
    initial_states = () if all(call.is_zero(state) for state in states) else states
    inputs = origin.batch_major, *weights.values(), *initial_states
    layer = steps.add(ir.OpStep(node.name, OP, attributes, inputs))
    ends: list[ir.Value] = [swapped(f"{node.name}/rows", layer, steps)]
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
