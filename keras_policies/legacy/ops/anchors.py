"""Nodes that rebuilt functions need beside those that TensorFlow recorded.

Every tensor of a Functional model comes from its inputs. A weight in plain arithmetic,
and a constant on which a layer is called, have no input: they are computed from a zero
that is made of one. No NaN of the input gets through.
"""

from keras_policies.late import keras_internals, ops
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.kinds import DType, Operand, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.sizes import Size


@op(_Zero=Raw("x"))
def zero(x: Tensor) -> Tensor:
    """Return a zero, float32, that is computed from a tensor."""
    return ops.cast(ops.zeros_like(ops.any(x)), "float32")


@op(_Mask=Raw("x"))
def mask(x: Tensor) -> Tensor:
    """Return the mask of a sequence; without one, all of its steps count."""
    found = keras_internals.mask_of(x)
    return ops.ones_like(x[:, :, 0], dtype="bool") if found is None else found


@op(_Tensor=Raw("value zero"))
def tensor(value: Operand, zero: Tensor) -> Tensor:
    """Return a tensor of the model, whatever the operand is."""
    value = sizes.as_tensor(value)
    if kinds.is_tensor(value):
        return value
    value = kinds.array(value)
    if value.dtype == "int64":  # jax has none, and positions are small
        value = value.astype("int32")
    zero = ops.cast(zero, value.dtype.name)
    # Tall first: stock TensorFlow takes a tall second operand for a bias.
    together = ops.logical_or if value.dtype == bool else ops.add
    return together(value, zero)


@op(_Sizes=Raw("known zero"))
def anchored_sizes(known: Sizes, zero: Tensor) -> Sizes:
    """Return sizes, of which the first is now read from a tensor of the model."""
    line = ops.broadcast_to(ops.reshape(zero, (1,)), (known[0],))
    return [Size(lambda: ops.size(line), line, sources=(zero,)), *known[1:]]


@op(_AskForWeight=Raw("zero", "shape dtype"))
def ask_for_weight(zero: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Return what a PReLU has to be called on so that it returns its weight, negated.

    The slope of a PReLU has any shape; of -1, it returns the slope times -1.
    """
    minus_one = ops.subtract(ops.cast(zero, dtype), 1)
    return ops.broadcast_to(minus_one, (1, *shape))


@op(_TakeWeight=Raw("x"))
def take_weight(x: Tensor) -> Tensor:
    """Return the weight that a PReLU returned for `ask_for_weight`."""
    return ops.negative(ops.squeeze(x, 0))
