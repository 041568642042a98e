"""`Model.compile` obeys the loss scale of the model's own policy."""

import contextlib
import inspect
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer, instead_of_stock
from keras_policies.loss_scaling.status import rule_of
from keras_policies.policies.policy import Policy

StockLossScaleOptimizer = keras.optimizers.LossScaleOptimizer


@keras_internals.replaces("keras.Model.compile")
def compile(
    stock: keras_internals.Function, model: keras.Model, *args: Any, **kwargs: Any
) -> None:
    """Compile a model; wrap its optimizer if the model's policy has a loss scale."""
    bound = None
    with contextlib.suppress(TypeError):
        bound = inspect.signature(stock).bind(model, *args, **kwargs)
    if bound is None or not isinstance(model.dtype_policy, Policy):
        stock(model, *args, **kwargs)  # raises if the arguments do not fit
        is_scaled = bound and bound.arguments.get("auto_scale_loss", True)
    else:
        is_scaled = bound.arguments.get("auto_scale_loss", True)
        bound.arguments["auto_scale_loss"] = False
        stock(*bound.args, **bound.kwargs)
        _obey(model, model.dtype_policy, is_scaled)
    if is_scaled:
        _warn_if_only_layers_scale(model)
    optimizer = model.optimizer
    if instead_of_stock and type(optimizer) is StockLossScaleOptimizer:
        model.optimizer = LossScaleOptimizer.wrapping_again(
            optimizer.inner_optimizer, rule_of(optimizer), optimizer.name
        )
    if isinstance(model.optimizer, LossScaleOptimizer):
        model.optimizer.belongs_to(model)


def _obey(model: keras.Model, policy: Policy, is_scaled: bool) -> None:
    """Wrap the optimizer of a model that Keras has compiled without a loss scale."""
    optimizer = model.optimizer
    if isinstance(optimizer, StockLossScaleOptimizer):
        _warn_if_scales_differ(optimizer, policy)
    elif policy.loss_scale is None or not is_scaled:
        # Otherwise stock Keras would wrap when it reads the saved model.
        keras_internals.record_no_auto_scale_loss(model)
    elif optimizer is not None:
        name = "loss_scale_optimizer"
        ours = LossScaleOptimizer.wrapping_again(optimizer, policy.loss_scale, name)
        # Files hold the user's own optimizer, without a loss scale.
        ours.saved_as_inner = True
        model.optimizer = ours


def _warn_if_scales_differ(
    optimizer: keras.optimizers.LossScaleOptimizer, policy: Policy
) -> None:
    scale = rule_of(optimizer)
    if policy.has_own_scale and policy.loss_scale not in (None, scale):
        warn(
            f"The optimizer passed to compile is already a LossScaleOptimizer, with "
            f"{scale}; it is kept, and the model's policy {policy!r} is ignored. "
            "Pass the inner optimizer to use the policy's loss scale."
        )


def _warn_if_only_layers_scale(model: keras.Model) -> None:
    if model.optimizer is None or isinstance(model.optimizer, StockLossScaleOptimizer):
        return
    layers = keras_internals.sublayers(model)
    for layer in sorted(layers, key=lambda layer: layer is model):
        policy = keras_internals.own_policy(layer)
        asks = isinstance(policy, Policy) and policy.loss_scale is not None
        if asks and policy.compute_dtype == "float16":
            warn(
                f"The policy of layer '{layer.name}', {policy!r}, has a loss "
                f"scale, but the model '{model.name}' has the policy "
                f"{keras_internals.held_policy(model)!r}, so its loss will not be "
                "scaled: only the model's own policy counts. Create or load the model "
                "under keras_policies.set_policy(...), or wrap the optimizer in a "
                "keras_policies.LossScaleOptimizer."
            )
            return


def _in_dtype_of_losses(model: keras.Model, loss: Tensor) -> Tensor:
    """Return the loss of a layer in the dtype of the losses passed to `compile`.

    An activity regularizer computes in the layer's dtype, and TensorFlow does not add
    tensors of two dtypes. Models without a policy or optimizer of ours are unchanged.
    """
    dtype = keras.backend.standardize_dtype(loss.dtype)
    if dtype in ("float16", "bfloat16") and _is_ours(model):
        return ops.cast(loss, keras.config.floatx())
    return loss


def _is_ours(model: keras.Model) -> bool:
    """Return whether a model has a policy or an optimizer of this package."""
    policies = map(keras_internals.own_policy, keras_internals.sublayers(model))
    has_policy = any(isinstance(policy, Policy) for policy in policies)
    return has_policy or isinstance(model.optimizer, LossScaleOptimizer)


keras_internals.after_additional_loss(_in_dtype_of_losses)
