"""Recognises the loop of an LSTM, GRU or SimpleRNN by running its body.

The ops in it differ from release to release, so its body is run on random rows, states
and weights, and the results are compared with the formula of each cell:

    While(rows of x, states, weights)      ->  rows, states
    _Recurrent(x, weights, mask, states)   ->  sequences, states

`_Recurrent` becomes a call of the layer in `recurrent_calls`.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.plan.reconstruction import ir, recurrent_cells
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
