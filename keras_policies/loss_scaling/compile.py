"""Functions of Keras that obey loss scales: `Model.compile`, and reading of configs."""

import contextlib
import functools
import inspect
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import configs
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer, instead_of_stock
from keras_policies.loss_scaling.status import rule_of
from keras_policies.policies.policy import Policy

StockLossScaleOptimizer = keras.optimizers.LossScaleOptimizer


@keras_internals.replaces("keras.Model.compile")
def compile(
    stock: keras_internals.Function, model: keras.Model, *args: Any, **kwargs: Any
) -> Any:
    """Compile a model; wrap its optimizer if the model's policy has a loss scale."""
    bound = None
    with contextlib.suppress(TypeError):
        bound = inspect.signature(stock).bind(model, *args, **kwargs)
    if bound is None:
        return stock(model, *args, **kwargs)  # raises, with Keras's own words
    is_scaled, policy = bound.arguments.get("auto_scale_loss", True), model.dtype_policy
    if isinstance(policy, Policy):
        bound.arguments["auto_scale_loss"] = False
    stock(*bound.args, **bound.kwargs)
    if isinstance(policy, Policy):
        _obey(model, policy, is_scaled)
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
        scale = rule_of(optimizer)
        if policy.has_own_scale and policy.loss_scale not in (None, scale):
            warn(
                "The optimizer passed to compile is already a LossScaleOptimizer, with "
                f"{scale}; it is kept, and the model's policy {policy!r} is ignored. "
                "Pass the inner optimizer to use the policy's loss scale."
            )
    elif policy.loss_scale is None or not is_scaled:
        # Otherwise plain Keras would wrap when it reads the saved model.
        keras_internals.record_no_auto_scale_loss(model)
    elif optimizer is not None:
        name = "loss_scale_optimizer"
        ours = LossScaleOptimizer.wrapping_again(optimizer, policy.loss_scale, name)
        # Files hold the user's own optimizer, without a loss scale.
        ours.saved_as_inner = True
        model.optimizer = ours


def _warn_if_only_layers_scale(model: keras.Model) -> None:
    if model.optimizer is None or isinstance(model.optimizer, StockLossScaleOptimizer):
        return
    layers = keras_internals.sublayers(model)
    for layer in sorted(layers, key=lambda layer: layer is model):
        policy = keras_internals.own_policy(layer)
        asks = isinstance(policy, Policy) and policy.loss_scale is not None
        computes = not isinstance(layer, keras.layers.InputLayer)
        if asks and computes and policy.compute_dtype == "float16":
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
    if keras.backend.standardize_dtype(loss.dtype) not in ("float16", "bfloat16"):
        return loss
    policies = map(keras_internals.own_policy, keras_internals.sublayers(model))
    is_ours = any(isinstance(policy, Policy) for policy in policies)
    is_ours = is_ours or isinstance(model.optimizer, LossScaleOptimizer)
    return ops.cast(loss, keras.config.floatx()) if is_ours else loss


keras_internals.after_additional_loss(_in_dtype_of_losses)


class LegacyLossScaleOptimizer:
    """Reads the `LossScaleOptimizer` configs of tf.keras that plain Keras refuses."""

    from_config = LossScaleOptimizer.from_config


@keras_internals.replaces(
    "keras.optimizers.LossScaleOptimizer.from_config",
    needs=keras_internals.LOSS_SCALING,
)
def _from_config(
    stock: keras_internals.Function, cls: type, config: Config, *args: Any, **kw: Any
) -> keras.optimizers.LossScaleOptimizer:
    first = functools.partial(stock, cls, config, *args, **kw)
    if cls is not StockLossScaleOptimizer or not isinstance(config, dict):
        return first()
    written = {**config}  # stock pops from it
    if instead_of_stock and configs.has_rule(config):
        return LossScaleOptimizer.from_config(written, *args, **kw)
    if not configs.is_of_tf_keras(config):
        return first()

    def second() -> LossScaleOptimizer:
        made = LossScaleOptimizer.from_config(written, *args, **kw)
        config.update(written)
        return made

    return keras_internals.second_try(first, second)


keras_internals.save_class_as(LossScaleOptimizer, "keras.optimizers.LossScaleOptimizer")
# The experimental class of TF 2.4, and the class from 2.11 on.
NAMES = "LossScaleOptimizerV1", "LossScaleOptimizerV3"
if keras_internals.LOSS_SCALING not in keras_internals.MISSING:
    readers = dict.fromkeys(NAMES, LegacyLossScaleOptimizer)
    keras_internals.read_lost_classes("optimizers", ["keras.optimizers"], readers)
