"""Replaces steps that take a variable by calls of layers that hold it."""

from collections.abc import Sequence

from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan.reconstruction import layer_rules, recurrent_calls
from keras_policies.legacy.plan.reconstruction.def_use import (
    OUTPUT,
    Read,
    Use,
    Uses,
    dtype_of,
    is_zero,
)
from keras_policies.legacy.plan.reconstruction.layer_rules import LayerMatch
from keras_policies.legacy.plan.reconstruction.owner import Owner
from keras_policies.legacy.plan.reconstruction.steps import (
    CallStep,
    Constant,
    LayerSpec,
    OpStep,
    Step,
    StepOutput,
    Value,
    constant,
    inputs_of,
    is_op,
    op_of,
)

ADDITIONS = "Add", "AddV2", "BiasAdd"
ROWS = 1, -3  # the axis of the rows of images


def replaced(uses: Uses) -> tuple[list[Step | StepOutput], dict[int, LayerSpec]]:
    """Return the steps with calls of layers in them, and Embeddings by variable.

    The steps that a layer does too become the result of its call.
    """
    steps: list[Step | StepOutput] = [*uses.steps]
    tables: dict[int, LayerSpec] = {}
    for variable, taken in uses.of.items():
        every = [_layer_for(use, uses) for use in taken]
        made = _chosen(every)
        if made is None:
            continue
        taken = [use for use, one in zip(taken, every, strict=True) if one == made]
        bias = _bias(taken[0], uses, made) if len(every) == 1 else None
        part = _part(made, taken[0].read, bias, uses.owner)
        if made.class_name == "Embedding":
            tables[variable] = part
        for number, *_ in taken:
            tensor, end = _ends(number, uses, made)
            if bias is not None:
                steps[bias.step] = StepOutput(number)
            steps[end] = StepOutput(number)
            steps[number] = CallStep(part, tensor)
    for number, old in enumerate(uses.steps):
        if steps[number] is old and is_op(old, "Conv2D"):
            _dilate(old, number, uses, steps)
    for number, step in recurrent_calls.replaced(uses).items():
        steps[number] = step
    return steps, tables


def _dilate(
    step: OpStep, number: int, uses: Uses, steps: list[Step | StepOutput]
) -> None:
    """Let a convolution with a kernel that is computed do what the blocks around it do.

    How many zeros complete a block is not known where a length is not.
    """
    row = _row(number, uses)
    value, last = row or (step.inputs[0], number)
    blocks = _blocks((value, last), uses)
    is_last = step.attributes.get("data_format", "NHWC") == "NHWC"
    if blocks is None or not is_last or not isinstance(value, StepOutput):
        return
    if len(uses.users[value]) > 1:
        return
    tensor, end, rates, zeros = blocks
    changed = {
        "dilations": [*([1] if row is None else [1, 1]), *rates, 1],
        "padding": "SAME" if any(zeros) else "VALID",
    }
    steps[value.step] = OpStep(f"{step.name}_input", "Identity", {}, (tensor,))
    attributes = {**step.attributes, **changed}
    steps[number] = OpStep(step.name, step.op, attributes, step.inputs)
    steps[end] = StepOutput(last)


def _layer_for(use: Use, uses: Uses) -> LayerMatch | None:
    """Return the layer that does what a step does with a variable, or None."""
    step = None if use.step == OUTPUT else uses.steps[use.step]
    if not isinstance(step, OpStep):
        return None
    if step.op == "GatherV2" and not is_zero(step.inputs[2]):
        return None  # an Embedding looks up along the first axis
    made = layer_rules.layer_for(step, use.position, use.read.shape)
    if made is None or step.inputs[made.tensor] in uses.reads:
        return None
    is_known = isinstance(step.inputs[made.tensor], Constant)
    if is_known and made.class_name != "Embedding":
        return None
    is_row = _row(use.step, uses) is not None and made.class_name == "Conv2D"
    made = layer_rules.conv1d(made) if is_row else made
    blocks = _blocks(_ends_of_op(use.step, uses, made), uses)
    return made if blocks is None else layer_rules.dilated(made, *blocks[2:])


def _chosen(made: Sequence[LayerMatch | None]) -> LayerMatch | None:
    """Return the layer that does all that is done with a variable, if one does.

    An Embedding can give its table to the other steps.
    """
    tables = [one for one in made if one and one.class_name == "Embedding"]
    if tables:
        return tables[0]
    return made[0] if all(one == made[0] for one in made) else None


def _part(made: LayerMatch, read: Read, bias: Use | None, owner: Owner) -> LayerSpec:
    config = dict(made.config)
    shape = read.shape[-3:] if made.class_name == "Conv1D" else read.shape
    weights = [(made.path, read.variable, shape)]
    if made.units is not None:
        config["use_bias"] = bias is not None
    if bias is not None:
        weights.append(("bias", bias.read.variable, bias.read.shape))
    is_depthwise = made.class_name == "DepthwiseConv2D"
    held = {"depthwise" if is_depthwise else made.path: read.variable}
    if bias is not None:
        held["bias"] = bias.read.variable
    config |= owner.config(dtype_of(read, owner), **held)
    return LayerSpec(
        owner.label(read.variable), made.class_name, config, tuple(weights)
    )


def _bias(use: Use, uses: Uses, made: LayerMatch) -> Use | None:
    """Return the use of a variable that is added to the result of a layer, or None."""
    _, end = _ends(use.step, uses, made)
    users = uses.users[StepOutput(end)]
    if made.units is None or len(users) != 1 or users[0] == OUTPUT:
        return None
    step, trainable = uses.steps[users[0]], uses.owner.trainable
    if not isinstance(step, OpStep) or step.op not in ADDITIONS:
        return None
    is_last = made.config.get("data_format") != "channels_first"
    expected = (made.units,), use.read.is_cast, use.read.variable in trainable
    for read in (uses.reads[value] for value in step.inputs if value in uses.reads):
        found = read.shape, read.is_cast, read.variable in trainable
        if is_last and found == expected and len(uses.of[read.variable]) == 1:
            return uses.of[read.variable][0]
    return None


def _ends(number: int, uses: Uses, made: LayerMatch) -> tuple[Value, int]:
    """Return the tensor on which a layer is called, and the last step that it does."""
    ends = _ends_of_op(number, uses, made)
    blocks = _blocks(ends, uses)
    is_dilated = blocks and [*blocks[2]] == made.config.get("dilation_rate")
    return blocks[:2] if blocks and is_dilated else ends


def _blocks(
    ends: tuple[Value, int], uses: Uses
) -> tuple[Value, int, list[int], list[int]] | None:
    """Return what `tf.nn.convolution` dilates if the ends are between blocks, or None.

    SpaceToBatchND, Conv2D, BatchToSpaceND -> the input, the last step, the rates, and
    the zeros in front of each axis.
    """
    users = uses.users[StepOutput(ends[1])]
    before = op_of(ends[0], uses.steps)
    if len(users) != 1 or users[0] == OUTPUT or not is_op(before, "SpaceToBatchND"):
        return None
    after = uses.steps[users[0]]
    zeros, rates = _starts(before.inputs[2], uses.steps), constant(before.inputs[1])
    if zeros is None or rates is None or not is_op(after, "BatchToSpaceND"):
        return None
    undone = constant(after.inputs[1])
    is_same = undone is not None and undone.tolist() == rates.tolist()
    return (before.inputs[0], users[0], rates.tolist(), zeros) if is_same else None


def _starts(value: Value, steps: Sequence[Step]) -> list[int] | None:
    """Return the first column of a matrix whose second one may be unknown, or None."""
    known, step = constant(value), op_of(value, steps)
    if known is not None:
        return known[:, 0].tolist() if known.ndim == 2 else None
    if step is not None and step.op in ("Identity", "StridedSlice"):
        return _starts(step.inputs[0], steps)  # all rows of it: a row for each rate
    if not is_op(step, "Pack"):
        return None
    rows = [op_of(row, steps) for row in step.inputs]
    firsts = [constant(row.inputs[0]) for row in rows if is_op(row, "Pack")]
    found = [int(first) for first in firsts if first is not None and first.size == 1]
    return found if len(found) == len(rows) else None


def _ends_of_op(number: int, uses: Uses, made: LayerMatch) -> tuple[Value, int]:
    """Return the same for the op itself.

    `tf.tensordot` and `K.dot` reshape a tensor to a matrix, multiply it, and give the
    product the sizes that the tensor had. A Dense does all of that.
    """
    row = _row(number, uses) if made.class_name == "Conv1D" else None
    if row is not None:
        return row
    step, users = op_of(StepOutput(number), uses.steps), uses.users[StepOutput(number)]
    if step is None or step.op != "MatMul" or len(users) != 1:
        return inputs_of(uses.steps[number])[made.tensor], number
    as_it_is = step.inputs[0], number
    last = None if users[0] == OUTPUT else op_of(StepOutput(users[0]), uses.steps)
    before = op_of(step.inputs[0], uses.steps)
    if not (is_op(last, "Reshape") and is_op(before, "Reshape")):
        return as_it_is
    tensor = before.inputs[0]
    transposed = op_of(tensor, uses.steps)
    if is_op(transposed, "Transpose"):
        order = constant(transposed.inputs[1])
        if order is None or order.tolist() != [*range(order.size)]:
            return as_it_is
        tensor = transposed.inputs[0]
    is_same = _has_sizes_of(last.inputs[1], {tensor, before.inputs[0]}, uses.steps)
    return (tensor, users[0]) if is_same else as_it_is


def _row(number: int, uses: Uses) -> tuple[Value, int] | None:
    """Return the sequence of which a step takes an image with one row, and the end.

    None where it takes no such image, or does not take the row out again.
    """
    step, users = op_of(StepOutput(number), uses.steps), uses.users[StepOutput(number)]
    if step is None or len(users) != 1 or users[0] == OUTPUT:
        return None
    before, last = op_of(step.inputs[0], uses.steps), uses.steps[users[0]]
    if not (is_op(before, "ExpandDims") and is_op(last, "Squeeze")):
        return None
    axis = constant(before.inputs[1])
    squeezed = [*(last.attributes.get("squeeze_dims") or ())]
    is_row = axis is not None and axis.tolist() in ROWS and squeezed in ([1], [-3])
    return (before.inputs[0], users[0]) if is_row else None


def _has_sizes_of(value: Value, tensors: set[Value], steps: Sequence[Step]) -> bool:
    """Return whether sizes are computed from the shape of one of some tensors."""
    waiting, seen = [value], {value}
    while waiting and len(seen) < limits.SIZE_STEPS:
        step = op_of(waiting.pop(), steps)
        if step is None:
            continue
        if step.op == "Shape" and step.inputs[0] in tensors:
            return True
        new = [one for one in step.inputs if one not in seen]
        seen.update(new)
        waiting += new
    return False
