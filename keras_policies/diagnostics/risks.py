"""Warnings about layers and models whose numerics are at risk, for `summary`.

They cover only what is known without running the model, so not a layer of your own that
calls `keras.ops.softmax`, nor the outputs of a subclassed model. The remedy follows a
semicolon.
"""

import itertools
from collections.abc import Iterator

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.backends import hardware
from keras_policies.loss_scaling import status
from keras_policies.loss_scaling.loss_scale import LossScale
from keras_policies.policies.policy import Policy

NARROW = {"float16", "bfloat16"}
# A smaller update, as a fraction of its weight, is rounded away: half of the last of
# 11 bits in float16, of 8 in bfloat16.
LOST = {"float16": "1/4096", "bfloat16": "1/512"}
OUTPUT = {
    "float16": "nothing above 65504, about 3 decimal digits",
    "bfloat16": "2 to 3 decimal digits",
}
# Layers that multiply by einsum, themselves or in their parts.
EINSUM = keras.layers.EinsumDense, keras.layers.MultiHeadAttention
ATTENTION = keras.layers.Attention, keras.layers.AdditiveAttention
HEADED = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
# Their exponentials overflow, and their sums lose small terms.
ACTIVATIONS = {
    "softmax": keras.activations.softmax,
    "log_softmax": keras.activations.log_softmax,
    "exponential": keras.activations.exponential,
}
USE_FLOAT32 = "give the layer dtype='float32'"


def of_layer(
    layer: keras.Layer, parent: keras.Layer, scale: LossScale | None
) -> tuple[str, ...]:
    """Return the warnings about a layer in `parent`, under the model's loss scale."""
    policy = keras_internals.own_policy(layer)
    if policy.compute_dtype is None:
        return ("waits for its first input",)
    warnings = [*_calls(layer, parent), *_ops(layer), *_weights(layer)]
    is_chosen = isinstance(policy, Policy) and policy.has_own_scale
    if (
        policy.compute_dtype == "float16"
        and is_chosen
        and policy.loss_scale not in (None, scale)
        and policy != keras_internals.own_policy(parent)
    ):
        warnings.append(
            f"its policy's {policy.loss_scale!r} is ignored: the optimizer's is used"
        )
    return tuple(filter(None, warnings))


def _calls(layer: keras.Layer, parent: keras.Layer) -> Iterator[str]:
    """Yield warnings about what a layer computes itself; some are empty."""
    dtype = keras_internals.own_policy(layer).compute_dtype
    if dtype in NARROW:
        # Attention heads call their Softmax only if scores are requested, or there is a
        # dropout; otherwise the backend computes it in float32.
        is_rare = isinstance(parent, HEADED) and not parent.dropout
        place = f"{dtype}{', if scores are requested' if is_rare else ''}"
        for name in _activations(layer):
            yield f"{name} in {place}; {USE_FLOAT32}"
    if dtype == "float16" and isinstance(layer, EINSUM):
        yield hardware.problem()
    if dtype == "float16" and isinstance(layer, HEADED) and not layer.dropout:
        built_for = (layer.get_build_config() or {}).get("shapes_dict", {})
        if len(built_for.get("query_shape", "bsf")) == 3:  # else Keras multiplies
            yield hardware.attention_problem()


def _activations(layer: keras.Layer) -> list[str]:
    """Return the names of the activations of a layer that need the range of float32."""
    if isinstance(layer, (keras.layers.Softmax, *ATTENTION)):
        return ["softmax"]
    # Under any attribute. (An LSTM's `activation` is a property, its cell's attribute.)
    values = {id(value) for value in vars(layer).values()}
    return [name for name, item in ACTIVATIONS.items() if id(item) in values]


def _ops(model: keras.Layer) -> Iterator[str]:
    """Yield a warning for each risky call of `keras.ops` in a functional model."""
    for function, name, dtype in keras_internals.op_calls(model):
        if dtype in NARROW:
            yield f"ops.{function} {name!r} in {dtype}; cast its inputs to float32"


def _weights(layer: keras.Layer) -> Iterator[str]:
    """Yield a warning for each narrow dtype among a layer's trainable weights."""
    orthogonal = keras.initializers.Orthogonal
    dtype = keras_internals.own_policy(layer).variable_dtype
    has_one = any(isinstance(value, orthogonal) for value in vars(layer).values())
    if dtype in NARROW and has_one and not layer.built:
        yield hardware.orthogonal_problem(dtype)
    own = itertools.chain(*keras_internals.own_variables(layer))
    dtypes = {variable.dtype for variable in own if variable.trainable}
    for dtype in sorted(dtypes & NARROW):
        yield (
            f"{dtype} weights: an update under {LOST[dtype]} of a weight is lost; "
            f"use 'mixed_{dtype}'"
        )


def of_model(
    model: keras.Model, computes: set[str | None], scale: LossScale | None
) -> tuple[str, ...]:
    """Return warnings about a whole model; `computes` has the dtypes of its layers."""
    warnings = [*_ops(model), *_outputs(model), *_losses(model)]
    if "float16" in computes and scale is None:
        warnings.append(
            "float16 without a loss scale: small gradients become zero; "
            "set_policy('mixed_float16') before you create or load the model, or "
            "compile with a LossScaleOptimizer"
        )
    return (*warnings, *_other_optimizers(model, computes), *_epsilon(model))


def _other_optimizers(model: keras.Model, computes: set[str | None]) -> Iterator[str]:
    """Yield a warning for each optimizer beside `model.optimizer` without a scale."""
    for name, optimizer in status.other_optimizers(model).items():
        if "float16" in computes and not status.is_scaling(optimizer):
            yield (
                f"self.{name} ({type(optimizer).__name__}) scales no loss, since "
                "compile only wraps model.optimizer; wrap it in a LossScaleOptimizer, "
                "and scale its loss"
            )


def _outputs(model: keras.Model) -> Iterator[str]:
    """Yield a warning for each symbolic output of a narrow dtype."""
    for tensor in keras.tree.flatten(getattr(model, "outputs", None) or []):
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if dtype in NARROW:
            maker = keras_internals.maker_of(tensor)
            by = f" of {maker.name}" if maker is not None else ""
            is_layer = isinstance(maker, keras.Layer)
            hint = USE_FLOAT32 if is_layer else "cast it to float32"
            yield f"output{by} in {dtype}: {OUTPUT[dtype]}; {hint}"


def _losses(model: keras.Model) -> Iterator[str]:
    """Yield a warning for each narrow dtype in which a model's losses are computed."""
    losses = keras.tree.flatten(getattr(model, "loss", None))
    floatx = keras.config.floatx()
    dtypes = {
        getattr(loss, "dtype", None) or floatx for loss in losses if loss is not None
    }
    for dtype in sorted(dtypes & NARROW):
        yield f"loss computed in {dtype}; give the loss dtype='float32'"


def _epsilon(model: keras.Model) -> Iterator[str]:
    """Yield a warning if an optimizer's epsilon is zero in the dtype of the weights."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    epsilon = getattr(optimizer, "epsilon", None)
    is_narrow = any(v.dtype == "float16" for v in model.trainable_variables)
    if epsilon is not None and is_narrow and np.float16(epsilon) == 0:
        yield (
            f"{type(optimizer).__name__}'s epsilon {epsilon:g} is zero in float16: its "
            "updates divide by zero; give it epsilon=1e-4"
        )
