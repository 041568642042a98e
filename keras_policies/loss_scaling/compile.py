"""`Model.compile` obeys the loss scale of the model's own policy."""

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.optimizer import (
    LossScaleOptimizer,
    instead_of_stock,
    rule_of,
)
from keras_policies.policies import origins
from keras_policies.policies.names import auto
from keras_policies.policies.policy import Policy

StockLossScaleOptimizer = keras.optimizers.LossScaleOptimizer

# Set on a model that was compiled while a file was read, until it is trained.
# TensorFlow does not track attributes with this prefix.
_UNCHECKED = "_self_keras_policies_unchecked"

# In it, models are compiled with our optimizer where stock Keras uses its own.
with_our_optimizer = keras_internals.Inside()


def compile_with_policy(
    model: keras.Model,
    compile_model: keras_internals.CompileModel,
    auto_scale_loss: bool,
) -> None:
    """Compile a model, and wrap its optimizer as the model's policy says.

    Args:
        model: the model.
        compile_model: stock `compile`, with the user's other arguments.
        auto_scale_loss: as the user passed it.
    """
    vars(model).pop(_UNCHECKED, None)
    _compile(model, compile_model, auto_scale_loss)
    if with_our_optimizer and type(model.optimizer) is StockLossScaleOptimizer:
        model.optimizer = instead_of_stock(model.optimizer)
    if isinstance(model.optimizer, LossScaleOptimizer):
        model.optimizer.belongs_to(model)


def _compile(
    model: keras.Model,
    compile_model: keras_internals.CompileModel,
    auto_scale_loss: bool,
) -> None:
    policy = model.dtype_policy
    if not isinstance(policy, Policy):
        compile_model(auto_scale_loss=auto_scale_loss)
        if auto_scale_loss:
            _warn_if_only_layers_scale(model)
        return
    compile_model(auto_scale_loss=False)
    optimizer = model.optimizer
    if isinstance(optimizer, StockLossScaleOptimizer):
        _warn_if_scales_differ(optimizer, policy)
    elif policy.loss_scale is None or not auto_scale_loss:
        # Otherwise stock Keras would wrap when it reads the saved model.
        keras_internals.record_no_auto_scale_loss(model)
        if auto_scale_loss:
            _warn_if_only_layers_scale(model)
    elif optimizer is not None:
        model.optimizer = LossScaleOptimizer.for_policy(optimizer, policy.loss_scale)


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
    if keras_internals.opening_a_file:
        # Most models that are opened only predict: wait until this one is trained.
        vars(model)[_UNCHECKED] = True
        return
    layers = keras_internals.sublayers(model)
    for layer in sorted(layers, key=lambda layer: layer is model):
        if _asks_for_a_scale(layer, model):
            policy = keras_internals.own_policy(layer)
            warn(
                f"The policy of layer '{layer.name}', {policy!r}, asks for a loss "
                f"scale, but the model '{model.name}' has the policy "
                f"{keras_internals.held_policy(model)!r}, so its loss will not be "
                "scaled: only the model's own policy counts. Create or load the model "
                "under keras_policies.set_policy(...), or wrap the optimizer in a "
                "keras_policies.LossScaleOptimizer."
            )
            return


def _asks_for_a_scale(layer: keras.Layer, model: keras.Model) -> bool:
    policy = keras_internals.own_policy(layer)
    if isinstance(policy, Policy):
        return policy.loss_scale is not None and policy.compute_dtype == "float16"
    # A file holds the plain policy, whatever loss scale it was saved with: the model's
    # own says it, if it is of that name.
    if (
        isinstance(model.dtype_policy, Policy)
        and model.dtype_policy.name == policy.name
    ):
        return model.dtype_policy.loss_scale is not None
    return origins.is_read(layer) and auto(policy.name) is not None


def _warn_if_only_layers_scale_when_trained(model: keras.Model) -> None:
    if vars(model).pop(_UNCHECKED, False):
        _warn_if_only_layers_scale(model)


def _in_dtype_of_losses(loss: Tensor) -> Tensor:
    """Return the loss of a layer in the dtype of the losses that `compile` is given.

    An activity regularizer computes in the layer's dtype, and TensorFlow does not add
    numbers of two dtypes.
    """
    is_narrow = keras.backend.standardize_dtype(loss.dtype) in ("float16", "bfloat16")
    return ops.cast(loss, keras.config.floatx()) if is_narrow else loss


def install() -> None:
    """Let `Model.compile` and the training ask this module."""
    keras_internals.around_compile(compile_with_policy)
    keras_internals.after_additional_loss(_in_dtype_of_losses)
    keras_internals.before_training(_warn_if_only_layers_scale_when_trained)
