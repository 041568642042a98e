"""What the loss of a model is multiplied by: its optimizer says, or its policy will."""

import dataclasses

import keras

from keras_policies import keras_internals
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from keras_policies.loss_scale_optimizer import LossScaleOptimizer
from keras_policies.policy import Policy

StockLossScaleOptimizer = keras.optimizers.LossScaleOptimizer


@dataclasses.dataclass(frozen=True)
class Scaling:
    """What the loss of a model is multiplied by.

    Args:
        rule: `LossScale`, or None where nothing scales.
        value: float, the scale of the next step (unitless), or None.
        is_compiled: bool; what is not compiled will be scaled so by `compile`.
    """

    rule: LossScale | None
    value: float | None
    is_compiled: bool

    def __str__(self):
        if self.rule is None:
            return "none"
        kinds = {FixedLossScale: "fixed", DynamicLossScale: "dynamic"}
        kind = kinds.get(type(self.rule), type(self.rule).__name__)
        return f"{kind}, {self.value:.9g}" + (
            "" if self.is_compiled else ", by compile"
        )


def scaling_of(model):
    """Return the `Scaling` of a model's loss, by its optimizer, or once compiled.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(LossScaleOptimizer(keras.optimizers.SGD(), 128))
        >>> str(scaling_of(model))
        'fixed, 128'
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        rule = _rule_of_policy(keras_internals.held_policy(model))
        return Scaling(rule, rule and rule.initial_loss_scale, is_compiled=False)
    if isinstance(optimizer, LossScaleOptimizer):
        return Scaling(optimizer.rule, float(optimizer.loss_scale), is_compiled=True)
    if isinstance(optimizer, StockLossScaleOptimizer):
        rule = DynamicLossScale(optimizer.initial_scale, optimizer.dynamic_growth_steps)
        value = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
        return Scaling(rule, float(value), is_compiled=True)
    factor = optimizer.loss_scale_factor
    rule = None if factor is None else FixedLossScale(factor)
    return Scaling(rule, factor, is_compiled=True)


def _rule_of_policy(policy):
    if isinstance(policy, Policy):
        return policy.loss_scale
    # Stock `compile` scales by the name alone.
    return DynamicLossScale() if policy.name == "mixed_float16" else None
