"""The loss scale that applies to a model, and which of its weights are not finite."""

import dataclasses

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies.loss_scaling import configs
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.loop_state import read
from keras_policies.loss_scaling.loss_scale import FixedLossScale, LossScale
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer
from keras_policies.policies.names import auto
from keras_policies.policies.policy import Policy


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The factor that a model's loss is multiplied by."""

    rule: LossScale | None  # how the scale moves; None if the loss is not scaled
    value: float | None  # the scale of the next step (unitless)
    is_compiled: bool = True  # False if only `compile` will scale the loss
    is_stock: bool = False  # whether plain Keras scales it
    is_only: bool = True  # whether the model has no other optimizers

    @property
    def minimum(self) -> float | None:
        """float, the smallest scale after an overflow; None without a limit."""
        return None if self.rule is None or self.is_stock else self.rule.minimum

    def __str__(self) -> str:
        if self.rule is None or self.value is None:
            return "none"
        is_lowest = self.minimum is not None and self.value <= self.minimum
        return (
            loss_scales.in_short(self.rule, self.value)
            + (" (plain Keras)" if self.is_stock else "")
            + (" (at its minimum)" if is_lowest else "")
            + ("" if self.is_compiled else ", once compiled")
            + ("" if self.is_only else " (of model.optimizer)")
        )


def scaling_of(model: keras.Model) -> Scaling:
    """Return the `Scaling` of a model's loss: now, or once it is compiled."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:  # compile will obey the policy
        policy = keras_internals.held_policy(model)
        is_ours = isinstance(policy, Policy)  # stock `compile` looks at its name alone
        rule = policy.loss_scale if is_ours else loss_scales.get(auto(policy.name))
        value = None if rule is None else rule.initial_loss_scale
        return Scaling(rule, value, is_compiled=False)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        value = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
        is_stock = not isinstance(optimizer, LossScaleOptimizer)
        return Scaling(
            rule_of(optimizer),
            float(read(value)),
            is_stock=is_stock,
            is_only=not other_optimizers(model),
        )
    factor = optimizer.loss_scale_factor
    rule = None if factor is None else FixedLossScale(factor)
    return Scaling(rule, factor, is_stock=True)


def is_scaling(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether an optimizer expects gradients of a scaled loss."""
    is_wrapper = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return is_wrapper or optimizer.loss_scale_factor is not None


def other_optimizers(model: keras.Model) -> dict[str, keras.optimizers.Optimizer]:
    """Return `{attribute: optimizer}`, those of a model beside `model.optimizer`."""
    return {
        name: value
        for name, value in sorted(vars(model).items())
        if isinstance(value, keras.optimizers.Optimizer) and name != "optimizer"
    }


def rule_of(optimizer: keras.optimizers.LossScaleOptimizer) -> LossScale:
    """Return the rule of a `LossScaleOptimizer`, ours or that of plain Keras."""
    if isinstance(optimizer, LossScaleOptimizer):
        return optimizer.rule
    return configs.stock_rule(optimizer.initial_scale, optimizer.dynamic_growth_steps)


def words_on_weights(model: keras.Model) -> str:
    """Return `"3 of 4 weights hold inf or NaN"`, or `""` if all are finite."""
    floating = [v for v in model.weights if keras.backend.is_float_dtype(v.dtype)]
    count = sum(not bool(ops.all(ops.isfinite(v))) for v in floating)
    return f"{count} of {len(model.weights)} weights hold inf or NaN" if count else ""
