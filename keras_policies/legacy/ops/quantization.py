"""`tf.quantization`: values rounded as a quantized model rounds them."""

import numpy as np

from keras_policies.legacy.ops.kinds import Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values.evaluator import ops

NODE = Raw("inputs min max", "num_bits narrow_range")


@op(
    "quantization.fake_quant_with_min_max_vars",
    "quantization.fake_quant_with_min_max_vars_per_channel",
    v1=True,
    FakeQuantWithMinMaxVars=NODE,
    FakeQuantWithMinMaxVarsPerChannel=NODE,
)
def fake_quantization(
    inputs: Value,
    min: Value,
    max: Value,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Value:
    """Round to `2**num_bits` values between two bounds, one of them exactly zero.

    Source: Nudge in tensorflow/core/kernels/fake_quant_ops_functor.h.
    """
    lowest, highest = int(narrow_range), 2**num_bits - 1
    scale = ops.divide(ops.subtract(max, min), highest - lowest)
    zero = ops.subtract(lowest, ops.divide(min, scale))
    zero = ops.clip(ops.floor(ops.add(zero, 0.5)), lowest, highest)
    first, last = (
        ops.multiply(ops.subtract(bound, zero), scale) for bound in (lowest, highest)
    )
    bounded = ops.minimum(ops.maximum(inputs, first), last)
    steps = ops.floor(ops.add(ops.divide(ops.subtract(bounded, first), scale), 0.5))
    return ops.add(ops.multiply(steps, scale), first)


@op(
    "quantization.fake_quant_with_min_max_args",
    v1=True,
    FakeQuantWithMinMaxArgs=Raw("inputs", "min max num_bits narrow_range"),
)
def fake_quantization_between(
    inputs: Value,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Value:
    """Do the same between two numbers."""
    bounds = np.float32(min), np.float32(max)
    return fake_quantization(inputs, *bounds, num_bits, narrow_range)
