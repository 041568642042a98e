"""Replaces steps that take a variable by calls of layers that hold it.

`layer_rules` says which layer a step is; the rest finds its bias, and the ops around it
that the layer replaces, such as the two reshapes of a `tf.tensordot`.
"""

import math
from collections.abc import Sequence

from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.plan.reconstruction import ir, layer_rules, recurrent_calls
from keras_policies.legacy.plan.reconstruction.def_use import (
    OUTPUT,
    Owner,
    Read,
    Use,
    Uses,
    dtype_of,
)
from keras_policies.legacy.plan.reconstruction.layer_rules import LayerMatch, Zeros

ROWS = [1], [-3]  # the axis of the rows of images


def replaced(
    uses: Uses,
) -> tuple[list[ir.Step | ir.StepOutput], dict[int, ir.LayerSpec]]:
    """Return the steps with calls of layers, and Embeddings by variable."""
    steps: list[ir.Step | ir.StepOutput] = [*uses.steps]
    tables: dict[int, ir.LayerSpec] = {}
    for variable, used in uses.of.items():
        matches = [_layer_for(use, uses) for use in used]
        match = _chosen(matches)
        if match is None:
            continue
        used = [use for use, each in zip(used, matches, strict=True) if each == match]
        bias = _bias(used[0], uses, match) if len(matches) == 1 else None
        spec = _layer_spec(match, used[0].read, bias, uses.owner)
        if match.class_name == "Embedding":
            tables[variable] = spec
        for number, *_ in used:
            tensor, end = _ends(number, uses, match)
            if bias is not None:
                steps[bias.step] = ir.StepOutput(number)
            steps[end] = ir.StepOutput(number)
            steps[number] = ir.CallStep(spec, tensor)
    for number, old in enumerate(uses.steps):
        if steps[number] is old and ir.is_op(old, "Conv2D"):
            _dilate(old, number, uses, steps)
    for number, step in recurrent_calls.replaced(uses).items():
        steps[number] = step
    return steps, tables


def _dilate(
    step: ir.OpStep, number: int, uses: Uses, steps: list[ir.Step | ir.StepOutput]
) -> None:
    """Let a convolution with a kernel that is computed do what the blocks around it do.

    How many zeros complete a block is not known where a length is not.
    """
    row = _row(number, uses)
    value, last = row or (step.inputs[0], number)
    blocks = _blocks((value, last), uses)
    is_last = step.attributes.get("data_format", "NHWC") == "NHWC"
    if blocks is None or not is_last or not isinstance(value, ir.StepOutput):
        return
    if len(uses.users[value]) > 1:
        return
    tensor, end, rates, zeros = blocks
    axes = [1, 2] if row is None else [2]
    kernel = uses.steps.sizes(step.inputs[1]) or []
    sizes = [size for axis, size in enumerate(kernel, 1) if axis in axes]
    padding = layer_rules.padding_of(zeros, rates, sizes)
    if padding is None:
        return
    changed = {
        "dilations": [*([1] if row is None else [1, 1]), *rates, 1],
        "padding": padding.upper(),
    }
    steps[value.step] = ir.OpStep(f"{step.name}_input", "Identity", {}, (tensor,))
    attributes = {**step.attributes, **changed}
    steps[number] = ir.OpStep(step.name, step.op, attributes, step.inputs)
    steps[end] = ir.StepOutput(last)


def _layer_for(use: Use, uses: Uses) -> LayerMatch | None:
    step = None if use.step == OUTPUT else uses.steps[use.step]
    if not isinstance(step, ir.OpStep):
        return None
    if step.op == "GatherV2" and ir.items(step.inputs[2]) != [0]:
        return None  # an Embedding looks up along the first axis
    match = layer_rules.layer_for(step, use.position, use.read.shape)
    if match is None or step.inputs[match.tensor] in uses.reads:
        return None
    is_constant = isinstance(step.inputs[match.tensor], ir.Constant)
    if is_constant and match.class_name != "Embedding":
        return None
    is_row = _row(use.step, uses) is not None and match.class_name == "Conv2D"
    match = layer_rules.conv1d(match) if is_row else match
    blocks = _blocks(_ends_of_op(use.step, uses, match), uses)
    return match if blocks is None else layer_rules.dilated(match, *blocks[2:])


def _chosen(matches: Sequence[LayerMatch | None]) -> LayerMatch | None:
    """Return the layer for all uses of a variable; an Embedding can give its table."""
    tables = [match for match in matches if match and match.class_name == "Embedding"]
    if tables:
        return tables[0]
    return matches[0] if all(match == matches[0] for match in matches) else None


def _layer_spec(
    match: LayerMatch, read: Read, bias: Use | None, owner: Owner
) -> ir.LayerSpec:
    config = dict(match.config)
    shape = read.shape[-3:] if match.class_name == "Conv1D" else read.shape
    weights = [(match.path, read.variable, shape)]
    if match.units is not None:
        config["use_bias"] = bias is not None
    is_depthwise = match.class_name == "DepthwiseConv2D"
    variables = {"depthwise" if is_depthwise else match.path: read.variable}
    if bias is not None:
        weights.append(("bias", bias.read.variable, bias.read.shape))
        variables["bias"] = bias.read.variable
    config |= owner.config(dtype_of(read, owner), **variables)
    name = owner.label(read.variable)
    return ir.LayerSpec(name, match.class_name, config, tuple(weights))


def _bias(use: Use, uses: Uses, match: LayerMatch) -> Use | None:
    """Return the use of a variable that is added to the result of a layer, or None."""
    _, end = _ends(use.step, uses, match)
    (_, step), trainable = uses.only_user(end), uses.owner.trainable
    if match.units is None or step is None or step.op not in layer_rules.ADDITIONS:
        return None
    is_last = match.config.get("data_format") != "channels_first"
    expected = (match.units,), use.read.is_cast, use.read.variable in trainable
    for read in (uses.reads[value] for value in step.inputs if value in uses.reads):
        candidate = read.shape, read.is_cast, read.variable in trainable
        if is_last and candidate == expected and len(uses.of[read.variable]) == 1:
            return uses.of[read.variable][0]
    return None


def _ends(number: int, uses: Uses, match: LayerMatch) -> tuple[ir.Value, int]:
    """Return the input of a layer call, and the last step that the layer replaces."""
    ends = _ends_of_op(number, uses, match)
    blocks = _blocks(ends, uses)
    is_dilated = blocks and [*blocks[2]] == match.config.get("dilation_rate")
    return blocks[:2] if blocks and is_dilated else ends


def _blocks(
    ends: tuple[ir.Value, int], uses: Uses
) -> tuple[ir.Value, int, list[int], list[Zeros]] | None:
    """Return the parts of a dilated `tf.nn.convolution`, or None.

    SpaceToBatchND, Conv2D, BatchToSpaceND -> the input, the last step, the rates, and
    the zeros around each axis.
    """
    before, (last, after) = ir.op_of(ends[0], uses.steps), uses.only_user(ends[1])
    if not (ir.is_op(before, "SpaceToBatchND") and ir.is_op(after, "BatchToSpaceND")):
        return None
    zeros, rates = _zeros(before, after, uses.steps), ir.items(before.inputs[1])
    if zeros is None or rates is None or ir.items(after.inputs[1]) != rates:
        return None
    return before.inputs[0], last, rates, zeros


def _zeros(before: ir.OpStep, after: ir.OpStep, steps: ir.Steps) -> list[Zeros] | None:
    """Return the zeros around each axis, without those that complete a block."""
    paddings, crops = steps.numbers(before.inputs[2]), steps.numbers(after.inputs[2])
    if paddings is None or crops is None:
        starts = _starts(before.inputs[2], steps)
        return None if starts is None else [(start, None) for start in starts]
    ends = [end - cut for end, cut in zip(paddings[1::2], crops[1::2], strict=True)]
    is_known = all(isinstance(n, int) for n in (*paddings[::2], *ends))
    is_known = is_known and not any(crops[::2])
    return [*zip(paddings[::2], ends, strict=True)] if is_known else None


def _starts(value: ir.Value, steps: Sequence[ir.Step]) -> list[int] | None:
    """Return the first column of a matrix if it is constant, or None."""
    array, step = ir.constant(value), ir.op_of(value, steps)
    if array is not None:
        return array[:, 0].tolist() if array.ndim == 2 else None
    if step is not None and step.op in ("Identity", "StridedSlice"):
        return _starts(step.inputs[0], steps)  # all rows of it: a row for each rate
    if not ir.is_op(step, "Pack"):
        return None
    rows = [ir.op_of(row, steps) for row in step.inputs]
    firsts = [ir.constant(row.inputs[0]) for row in rows if ir.is_op(row, "Pack")]
    starts = [int(first) for first in firsts if first is not None and first.size == 1]
    return starts if len(starts) == len(rows) else None


def _ends_of_op(number: int, uses: Uses, match: LayerMatch) -> tuple[ir.Value, int]:
    """Return the same as `_ends`, without a dilation around the op.

    `tf.tensordot` and `K.dot` reshape a tensor to a matrix, multiply it, and give the
    product the sizes that the tensor had. A Dense does all of that.
    """
    row = _row(number, uses) if match.class_name == "Conv1D" else None
    if row is not None:
        return row
    as_it_is = ir.inputs_of(uses.steps[number])[match.tensor], number
    before, (last, after) = ir.op_of(as_it_is[0], uses.steps), uses.only_user(number)
    is_product = ir.is_op(uses.steps[number], "MatMul")
    if not (is_product and ir.is_op(before, "Reshape") and ir.is_op(after, "Reshape")):
        return as_it_is
    tensor = before.inputs[0]
    transposed = ir.op_of(tensor, uses.steps)
    if ir.is_op(transposed, "Transpose"):
        order = ir.items(transposed.inputs[1])
        if order is None or order != [*range(len(order))]:
            return as_it_is
        tensor = transposed.inputs[0]
    is_same = _keeps_rows(uses.steps, tensor, before, after, match.units)
    return (tensor, last) if is_same else as_it_is


def _row(number: int, uses: Uses) -> tuple[ir.Value, int] | None:
    """If a Conv2D is a Conv1D in disguise, return its input and its last step.

    ExpandDims, Conv2D, Squeeze -> the 3-D input, and the Squeeze. None otherwise.
    """
    last, after = uses.only_user(number)
    before = ir.op_of(ir.inputs_of(uses.steps[number])[0], uses.steps)
    if not (ir.is_op(before, "ExpandDims") and ir.is_op(after, "Squeeze")):
        return None
    axes = ir.items(before.inputs[1]), [*(after.attributes.get("squeeze_dims") or ())]
    return (before.inputs[0], last) if all(axis in ROWS for axis in axes) else None


def _keeps_rows(
    steps: ir.Steps,
    tensor: ir.Value,
    before: ir.OpStep,
    after: ir.OpStep,
    units: int | None,
) -> bool:
    """Return whether two reshapes around a product change the last axis only.

    The sizes of the tensor before them, (batch, time, 6), are compared with those after
    them, (batch, time, units), as symbolic dimensions.
    """
    matrix, result = steps.numbers(before.inputs[1]), steps.numbers(after.inputs[1])
    sizes = steps.sizes(tensor)
    if not (matrix and result and sizes) or units is None or matrix[-1] != sizes[-1]:
        return False
    expected = [*sizes[:-1], units]
    with attempt(*UNEXPECTED):
        if -1 in result:
            others = math.prod(size for size in result if size != -1)
            result[result.index(-1)] = math.prod(expected) // others
        return bool(len(matrix) == 2 and result == expected)
    return False
