"""`LossScaleOptimizer`: the variables of a loss scale, and the training step."""

import itertools
from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects, Tensor
from keras_policies.backends.protocol import StepGradients
from keras_policies.backends.running import backend
from keras_policies.loss_scaling import configs, halting, loop_state
from keras_policies.loss_scaling import gradients as step_gradients
from keras_policies.loss_scaling.checkpointing import SavedAsStock
from keras_policies.loss_scaling.hyperparameters import (
    InnerHyperparameters,
    own_settings,
)
from keras_policies.loss_scaling.loss_scale import LossScale, LossScaleLike, choose

# Inside, ours is read and compiled where plain Keras uses its own.
instead_of_stock = keras_internals.Inside()


class LossScaleOptimizer(InnerHyperparameters, SavedAsStock):
    """An optimizer that scales the loss by any `LossScale`.

    `scale_loss`, `apply`, `apply_gradients` and `stateless_apply` are those of
    Keras 3: they take the gradients of the *scaled* loss. `get_scaled_loss` and
    `get_unscaled_gradients` are those of tf.keras 2. In a loop that calls the latter,
    `apply_gradients` takes *unscaled* gradients, clipped or not, and the other methods
    raise unless they get `are_scaled=False`. `are_scaled`, if given, always decides. A
    loop that multiplies the loss by `loss_scale` itself passes `are_scaled=True`. A
    subclass may override the two old methods, which `fit` then uses.

    A step with a NaN or infinite gradient changes only the loss scale. Changes made in
    the forward pass (batch normalization statistics, dropout seeds) remain, as in
    tf.keras.

    Args:
        inner_optimizer: `keras.optimizers.Optimizer` that makes the updates.
        loss_scale: as for `Policy`, except that None and `"auto"` are errors.
        name: str or None, the optimizer's name.
        **kwargs: settings in old configs of Keras, which must have their defaults.

    Raises:
        TypeError: if `inner_optimizer` is not an optimizer (also a ValueError), or is
            itself a `LossScaleOptimizer`.
        ValueError: if the loss scale is invalid, or `inner_optimizer` is
            already wrapped.

    Example:
    >>> optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), 128)
    >>> w = keras.Variable([1.0])
    >>> iterations = optimizer.apply_gradients([(ops.convert_to_tensor([256.0]), w)])
    >>> w.numpy()
    array([0.], dtype=float32)
    """

    @keras_internals.needs(keras_internals.LOSS_SCALING)
    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: LossScaleLike = "dynamic",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        configs.check(inner_optimizer, kwargs)
        rule = configs.rule_for(loss_scale)
        configs.drop_loss_scale_factor(inner_optimizer, rule)
        loop_state.warn_if_bypassed(inner_optimizer)
        with own_settings(self):
            super().__init__(
                inner_optimizer,
                initial_scale=rule.initial_loss_scale,
                dynamic_growth_steps=rule.increment_period or configs.NEVER,
                name=name,
            )
        self.rule: LossScale = rule
        stock = vars(LossScaleOptimizer)
        old = loop_state.GET_SCALED, loop_state.UNSCALE
        overridden = {n for n in old if getattr(type(self), n) is not stock[n]}
        self.loop = loop_state.LoopState(overridden)
        self.is_wrapping = True
        vars(inner_optimizer)[configs.IS_WRAPPED] = True

    @classmethod
    def wrapping_again(
        cls, inner_optimizer: keras.optimizers.Optimizer, *args: Any, **kwargs: Any
    ) -> "LossScaleOptimizer":
        """Return a wrapper of an optimizer that may be, and may get, wrapped again."""
        vars(inner_optimizer).pop(configs.IS_WRAPPED, None)
        optimizer = cls(inner_optimizer, *args, **kwargs)
        vars(inner_optimizer).pop(configs.IS_WRAPPED)
        return optimizer

    @property
    def dynamic(self) -> bool:
        """bool, whether steps with non-finite gradients are skipped."""
        return self.rule.skips_nonfinite

    @property
    def dynamic_growth_steps(self) -> int | None:
        """int, the finite steps before the scale grows; None if it has no such number.

        To change it, wrap the inner optimizer of a file or of `compile` again.
        """
        return self.rule.increment_period

    @dynamic_growth_steps.setter
    def dynamic_growth_steps(self, steps: int) -> None:
        if self.is_wrapping:  # Keras's constructor sets it
            raise AttributeError(
                "dynamic_growth_steps cannot be set. Pass "
                f"DynamicLossScale(increment_period={steps!r}) to LossScaleOptimizer."
            )

    @property
    def dynamic_counter(self) -> keras.Variable | Tensor | None:
        """integer scalar variable, the finite steps since the scale last changed.

        A tensor of 0 until the optimizer is built; None for a fixed scale.
        """
        counter = self.step_counter if self.built else ops.zeros((), dtype="int32")
        return counter if self.dynamic else None

    @property
    def lr(self) -> Tensor:
        """float scalar, another name of `learning_rate`, as in tf.keras 2."""
        return self.learning_rate

    @lr.setter
    def lr(self, learning_rate: Any) -> None:
        self.learning_rate = learning_rate

    @property
    def loss_scale(self) -> Tensor:
        """float32 scalar tensor, the current loss scale."""
        return loop_state.read_scale(self, "loss_scale")

    @property
    def skipped_steps(self) -> Tensor:
        """integer scalar tensor, the steps skipped since the optimizer was created."""
        # Plain Keras leaves this variable at zero: it counts in the inner optimizer's.
        return loop_state.read(keras_internals.step_count(self))

    @property
    def applied_steps(self) -> Tensor:
        """integer scalar tensor, the steps not skipped (also those that accumulate)."""
        return loop_state.read(keras_internals.step_count(self.inner_optimizer))

    def build(self, var_list: list[keras.Variable]) -> None:
        # As stock, but an inner optimizer that is already built keeps its state.
        if self.built:
            return
        self.step_counter = self.add_variable(
            shape=(), dtype="int", initializer="zeros", name="step_counter"
        )
        self.dynamic_scale = self.add_variable(
            shape=(),
            dtype="float32",
            initializer=keras.initializers.Constant(self.initial_scale),
            name="dynamic_scale",
        )
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(var_list)
        with own_settings(self):
            keras.optimizers.Optimizer.build(self, var_list)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` times the loss scale, in float32 if `loss` is narrower."""
        self.loop.called(loop_state.SCALE)
        if self.built:
            self.loop.watch(lambda: keras_internals.updated_variables(self))
        if loop_state.GET_SCALED in self.loop.overridden:
            with self.loop.in_override(loop_state.GET_SCALED):
                return self.get_scaled_loss(loss)
        return ops.multiply(loss, loop_state.read_scale(self, "scale_loss"))

    def get_scaled_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` times the loss scale, in the dtype of `loss`.

        Args:
            loss: float tensor, or a callable that returns one.

        Returns:
            A tensor, or a callable if `loss` is one.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        self.loop.called(loop_state.GET_SCALED)
        loss = ops.convert_to_tensor(loss)
        scale = loop_state.read_scale(self, "get_scaled_loss")
        return loss * ops.cast(scale, loss.dtype)

    def get_unscaled_gradients(self, grads: Iterable[Tensor]) -> list[Tensor]:
        """Return gradients of the scaled loss, divided by the loss scale.

        Afterwards, `apply_gradients` takes unscaled gradients. To log unscaled
        gradients but apply the scaled ones, call `unscale`.

        Args:
            grads: iterable of tensors, of any floating dtype, or None.

        Returns:
            A list of tensors of the same dtypes, with None for None.
        """
        grads = list(grads)
        self.loop.called(loop_state.UNSCALE)
        unscaled = self.unscale(grads)
        self.loop.know(grads, unscaled)
        return unscaled

    def unscale(self, grads: Iterable[Tensor]) -> list[Tensor]:
        """Return gradients divided by the loss scale, for logging.

        Like `get_unscaled_gradients`, but the loop still applies the scaled gradients.

        Example:
        >>> optimizer = LossScaleOptimizer(keras.optimizers.SGD(), 8)
        >>> float(optimizer.unscale([ops.convert_to_tensor(16.0)])[0])
        2.0
        """
        grads = list(grads)
        present = [g for g in grads if g is not None]
        if not present:
            return grads
        scale = loop_state.read_scale(self, "get_unscaled_gradients")
        divided = iter(backend.unscale(present, scale))
        unscaled = [g if g is None else ops.cast(next(divided), g.dtype) for g in grads]
        self.loop.know((), unscaled)
        return unscaled

    def apply(
        self,
        grads: Iterable[Tensor],
        trainable_variables: Iterable[keras.Variable] | None = None,
        are_scaled: bool | None = None,
    ) -> None:
        """Update the variables, unless a gradient is not finite.

        Args:
            grads: list of tensors or None, the gradients of the scaled loss.
            trainable_variables: list of `keras.Variable`, as many as gradients;
                may be left out once the optimizer is built.
            are_scaled: bool, False if the gradients have been divided by the loss
                scale. None: see the class.

        Raises:
            TypeError: if `are_scaled` is neither a bool nor None.
            ValueError: if the numbers of gradients and variables differ, or if it is
                unknown whether the gradients are scaled.
        """
        grads = list(grads)
        targets = None if trainable_variables is None else list(trainable_variables)
        if targets is None:
            variables = keras_internals.updated_variables(self)
        else:
            variables = targets
            if len(grads) != len(targets):
                raise ValueError(
                    "Pass as many gradients as variables, None for a variable without "
                    f"one. Received: {len(grads)} gradients, {len(targets)} variables."
                )
            if targets and not self.built:
                self.build(targets)
            if self.updates_stand_ins:
                self.take_for_stand_ins(targets)
        configs.drop_loss_scale_factor(self.inner_optimizer, self.rule)
        if not self.built or len(grads) != len(variables):
            # Keras says what is wrong.
            self.inner_optimizer.apply(grads, targets)
            return
        is_scaled = self.loop.are_scaled("apply", grads, are_scaled)
        self.loop.warn_if_changed(grads, are_scaled if is_scaled else False)
        # float8 training passes a variable's new value as its gradient.
        values = [getattr(v, "overwrite_with_gradient", False) for v in variables]
        pairs = zip(grads, values, strict=True)
        scaled = [is_scaled and g is not None and not is_value for g, is_value in pairs]
        if any(scaled):
            self.loop.warn_if_not_asked(grads[scaled.index(True)], self.rule)
            if loop_state.UNSCALE in self.loop.overridden:
                chosen = [*itertools.compress(grads, scaled)]
                with self.loop.in_override(loop_state.UNSCALE):
                    unscaled = self.get_unscaled_gradients(chosen)
                grads = step_gradients.replaced(grads, scaled, unscaled)
                scaled = [False] * len(grads)
        with step_gradients.unscaled_in_step(
            grads, variables, scaled, self.loss_scale, self.rule.skips_nonfinite
        ) as gradients:
            self._step(gradients, variables, targets)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Tensor, keras.Variable]],
        are_scaled: bool | None = None,
    ) -> Tensor:
        """Apply pairs of gradients and variables; return `iterations`.

        `are_scaled`: as for `apply`.
        """
        pairs = list(grads_and_vars)
        grads, variables = ([pair[i] for pair in pairs] for i in (0, 1))
        with self.loop.step("apply_gradients", grads, are_scaled):
            self.apply(grads, variables)
        return self.iterations

    def stateless_apply(
        self,
        optimizer_variables: list[Tensor],
        grads: list[Tensor],
        trainable_variables: list[Tensor],
        are_scaled: bool | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        # Plain Keras repeats the step here; this calls `apply`.
        with self.loop.step("stateless_apply", grads, are_scaled):
            applied: tuple[list[Tensor], list[Tensor]]
            applied = keras.optimizers.Optimizer.stateless_apply(
                self, optimizer_variables, grads, trainable_variables
            )
        return applied

    def _step(
        self,
        gradients: StepGradients,
        variables: list[keras.Variable],
        targets: list[keras.Variable] | None,
    ) -> None:
        """Apply gradients if they are finite, or if that is not checked."""
        inner = self.inner_optimizer

        def written() -> list[keras.Variable]:
            return [*inner.variables, *keras_internals.updated_variables(inner)]

        def step() -> None:
            with backend.read_once(lambda: keras_internals.shared_variables(inner)):
                unscaled = gradients.make()
                if inner.gradient_accumulation_steps:
                    unscaled = step_gradients.in_dtypes_of(variables, unscaled)
                inner.apply(unscaled, targets)

        if gradients.finite is None:
            step()
            return
        finite = backend.run_if(gradients.finite, step, written)

        def moved(scale: Tensor, good_steps: Tensor, skipped: Tensor) -> list[Tensor]:
            counted = choose(finite, lambda: (skipped,), lambda: (skipped + 1,))
            return [*self.rule.after_step(scale, good_steps, finite), *counted]

        counts = self.step_counter, keras_internals.step_count(self)
        backend.update([self.dynamic_scale, *counts], moved)

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        # Until a step is applied, the averages of the weights are zeros. If `fit` has
        # failed on jax there are no values, and users have to see its error.
        counter = keras_internals.step_count(self.inner_optimizer)
        if keras_internals.raw_value(counter) is None:
            return
        halting.warn_if_halted(self)
        if int(self.applied_steps):
            super().finalize_variable_values(var_list)

    @keras_internals.needs(keras_internals.SAVING)
    def get_config(self) -> Config:
        """Return a config that a stock `LossScaleOptimizer` also accepts.

        Plain Keras reads the initial scale and the growth period; without a period, the
        scale never grows there. `from_config` restores the whole rule. Warns if Keras
        does not know the class of the rule.
        """
        with own_settings(self):
            config: Config = super().get_config()
        config["dynamic_growth_steps"] = self.rule.increment_period or configs.NEVER
        return config if self.saved_as_inner else configs.with_rule(config, self.rule)

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: CustomObjects = None
    ) -> "LossScaleOptimizer":
        """Return the optimizer for a config of ours, of plain Keras or of tf.keras."""
        return cls.wrapping_again(**configs.arguments(config, custom_objects))

    def __repr__(self) -> str:
        inner = type(self.inner_optimizer).__name__
        return f"<{type(self).__name__} of {inner}, {self.rule!r}>"
