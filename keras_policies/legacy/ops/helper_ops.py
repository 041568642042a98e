"""Helper ops of rebuilt layers, mostly for values that do not depend on an input.

In a Functional model, all tensors are computed from inputs. Weights in plain arithmetic
and constants that layers are called on are computed from a zero, which is computed from
an input without passing its NaNs on.
"""

from keras_policies._common.lazy_keras import keras_internals
from keras_policies.legacy.ops.converters import DType, Lengths, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import axis_lengths, computed
from keras_policies.legacy.values.evaluator import dtype_of, is_tensor, ops
from keras_policies.legacy.values.evaluator import tensor as as_tensor


@op("_Zero")
def zero(x: Value) -> Value:
    """Return a zero of float32 that is computed from a tensor."""
    return ops.cast(ops.zeros_like(ops.any(x)), "float32")


@op("_Number")
def number(x: Value) -> Value:
    """Return a number in place of the text that AsString writes of it."""
    return x


@op("_Mask")
def mask(x: Value) -> Value:
    """Return the mask of a sequence, True for all steps if it has none."""
    mask_of_x = keras_internals.mask_of(x)
    return ops.ones_like(x[:, :, 0], dtype="bool") if mask_of_x is None else mask_of_x


@op("_Tensor")
def tensor(value: Value, zero: Value) -> Value:
    """Return any value as a tensor of the model."""
    value = as_tensor(value)
    if is_tensor(value):
        return value
    dtype = dtype_of(value)
    dtype = "int32" if dtype == "int64" else dtype  # jax has no int64
    join = ops.logical_or if dtype == "bool" else ops.add
    return join(ops.cast(value, dtype), ops.cast(zero, dtype))


@op("_Assigned")
def assigned(old: Value, new: Value) -> Value:
    """Return the new value of a variable, with the gradient of the variable.

    As in TensorFlow, no gradient goes through the assignment.
    """
    if not dtype_of(new).startswith(("float", "bfloat")):
        return new
    unchanged = ops.subtract(old, ops.stop_gradient(old))
    return ops.add(ops.stop_gradient(new), unchanged)


@op("_Constant")
def constant(value: Value, beside: Value) -> Value:
    """Return a constant as a tensor of the model that has the tensor `beside`."""
    return tensor(value, zero(beside))


@op("_Sizes")
def anchored_sizes(sizes: Lengths, zero: Value) -> Value:
    """Return sizes, the first of which is read from a tensor of the model."""
    line = ops.broadcast_to(ops.reshape(zero, (1,)), (sizes[0],))
    return computed.vector([axis_lengths.axis_length(line, 0), *sizes[1:]])


@op("_AskForWeight(zero; shape dtype)")
def ask_for_weight(zero: Value, shape: tuple[int, ...], dtype: DType) -> Value:
    """Return the input for which a PReLU returns its weight: PReLU(-1) == -alpha."""
    minus_one = ops.subtract(ops.cast(zero, dtype), 1)
    return ops.broadcast_to(minus_one, (1, *shape))


# The weight that a PReLU returned for `ask_for_weight`.
functions("x", "_TakeWeight: -squeeze(x, 0)")
