"""`LossScaleOptimizer`: the variables of a loss scale, and the training step."""

import contextlib
import itertools
import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_policies import backends, keras_internals, optimizer_arguments, tracing
from keras_policies.annotations import Config, CustomObjects, Tensor
from keras_policies.loss_scale import LossScale, LossScaleLike

# Stock optimizers only grow; this is as good as never.
NEVER = 2**31 - 1
# Names of the variables that an optimizer reads for each variable that it updates.
SHARED = {"iteration", "learning_rate"}


class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """An optimizer that scales the loss, by any `LossScale`.

    `scale_loss`, `apply`, `apply_gradients` and `stateless_apply` are those of
    Keras 3: they take the gradients of the *scaled* loss. `get_scaled_loss` and
    `get_unscaled_gradients` are those of tf.keras 2: after the latter,
    `apply_gradients` takes *unscaled* gradients, clipped or not. An optimizer
    that has been asked for unscaled gradients expects them until `scale_loss` is
    called again; a gradient that was itself passed to `get_unscaled_gradients`
    counts as scaled all the same.

    A step with a NaN or infinite gradient changes nothing but the loss scale. What the
    forward pass has changed before, the statistics of batch normalization and the
    seeds of dropout, stays changed, as in tf.keras.

    Args:
        inner_optimizer: `keras.optimizers.Optimizer` that makes the updates.
        loss_scale: as for `Policy`, save that it cannot be None or `"auto"`.
        name: str or None, the optimizer's name.
        dynamic: bool, deprecated, in place of `loss_scale`: whether the loss
            scale is dynamic.
        initial_scale: float, deprecated: the first, or the fixed, loss scale.
        dynamic_growth_steps: int, deprecated: `increment_period` of the scale.

    Raises:
        TypeError: if `inner_optimizer` is no optimizer, or is itself a
            `LossScaleOptimizer`.
        ValueError: if the loss scale is not understood, or given twice.

    Example:
    >>> optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), 128)
    >>> w = keras.Variable([1.0])
    >>> iterations = optimizer.apply_gradients([(ops.convert_to_tensor([256.0]), w)])
    >>> w.numpy()
    array([0.], dtype=float32)
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: LossScaleLike = "dynamic",
        name: str | None = None,
        *,
        dynamic: bool | None = None,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        optimizer_arguments.check_inner(inner_optimizer)
        optimizer_arguments.check_others(kwargs)
        rule = optimizer_arguments.rule(
            loss_scale, dynamic, initial_scale, dynamic_growth_steps
        )
        if inner_optimizer.loss_scale_factor is not None:
            warnings.warn(
                f"The inner optimizer has loss_scale_factor="
                f"{inner_optimizer.loss_scale_factor}, and is wrapped with the loss "
                f"scale {rule!r}. The latter wins: loss_scale_factor is set to None.",
                stacklevel=2,
            )
            inner_optimizer.loss_scale_factor = None
        growth_steps = getattr(rule, "increment_period", NEVER)
        super().__init__(
            inner_optimizer,
            initial_scale=rule.initial_loss_scale,
            dynamic_growth_steps=growth_steps,
            name=name,
        )
        self.rule: LossScale = rule
        self.saved_as_inner = False
        self._expects_unscaled = False
        self._known_scaled: dict[int, weakref.ref[Any]] = {}

    @classmethod
    def for_policy(
        cls, inner_optimizer: keras.optimizers.Optimizer, loss_scale: LossScale
    ) -> "LossScaleOptimizer":
        """Return the optimizer that `Model.compile` puts around the user's own.

        It is saved as the inner optimizer would be: no loss scale is in the file.
        """
        optimizer = cls(inner_optimizer, loss_scale, name="loss_scale_optimizer")
        optimizer.saved_as_inner = True
        return optimizer

    @property
    def dynamic(self) -> bool:
        """bool, whether steps with non-finite gradients are skipped."""
        return self.rule.skips_nonfinite

    @property
    def iterations(self) -> Tensor:
        """integer scalar, the updates that the inner optimizer has made."""
        return self.inner_optimizer.iterations

    @property
    def lr(self) -> Tensor:
        """float scalar, `learning_rate`: tf.keras 2 had both names."""
        return self.learning_rate

    @lr.setter
    def lr(self, learning_rate: Any) -> None:
        self.learning_rate = learning_rate

    @property
    def loss_scale(self) -> Tensor:
        """float32 scalar tensor, the current loss scale."""
        scale = self.dynamic_scale if self.built else self.initial_scale
        return _value(ops.convert_to_tensor(scale, dtype="float32"))

    @property
    def skipped_steps(self) -> Tensor:
        """integer scalar tensor, the steps skipped since the optimizer was made."""
        # Stock Keras leaves this variable at zero: `iterations` is the inner one.
        return _value(self._iterations)

    @property
    def applied_steps(self) -> Tensor:
        """integer scalar tensor, the steps not skipped (accumulating ones too)."""
        return _value(self.inner_optimizer._iterations)

    @keras_internals.no_automatic_dependency_tracking
    def build(self, var_list: list[keras.Variable]) -> None:
        # As stock, but an inner optimizer that is built keeps its state.
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
        keras.optimizers.Optimizer.build(self, var_list)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` times the loss scale, in float32 if `loss` is narrower."""
        self._expects_unscaled = False
        return ops.multiply(loss, self._scale_for(loss, "scale_loss"))

    def get_scaled_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` times the loss scale, in the dtype of `loss`.

        Args:
            loss: float tensor, or a callable that returns one.

        Returns:
            A tensor, or a callable where `loss` is one.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        loss = ops.convert_to_tensor(loss)
        scale = self._scale_for(loss, "get_scaled_loss")
        return loss * ops.cast(scale, loss.dtype)

    def get_unscaled_gradients(self, grads: Sequence[Tensor]) -> list[Tensor]:
        """Return gradients of the scaled loss divided by the loss scale.

        Args:
            grads: list of tensors, of any floating dtype, or None.

        Returns:
            A list of tensors of the same dtypes, and None where None came.
        """
        self._expects_unscaled = True
        self._known_scaled = {id(g): weakref.ref(g) for g in grads if g is not None}
        present = [g for g in grads if g is not None]
        scale = self.loss_scale
        if present:
            scale = self._scale_for(present[0], "get_unscaled_gradients")
        unscaled = iter(backends.unscale(present, scale))
        return [None if g is None else ops.cast(next(unscaled), g.dtype) for g in grads]

    def apply(
        self,
        grads: Iterable[Tensor],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> None:
        """Update the variables, unless a gradient is not finite.

        Args:
            grads: list of tensors or None, the gradients of the scaled loss (for
                unscaled ones see `get_unscaled_gradients`).
            trainable_variables: list of `keras.Variable`, as many as gradients;
                may be left out once the optimizer is built.
        """
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        if not self.built and trainable_variables is not None:
            with keras.name_scope(self.name):
                self.build(trainable_variables)
        variables = (
            self._trainable_variables
            if trainable_variables is None
            else trainable_variables
        )
        if not self.built or len(grads) != len(variables):
            # Keras says what is wrong.
            self.inner_optimizer.apply(grads, trainable_variables)
            return
        with self._unscaled(grads, variables) as (unscaled, finite):
            self._apply_if(finite, unscaled, trainable_variables)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Tensor, keras.Variable]]
    ) -> Tensor:
        """Apply pairs of gradients and variables; return `iterations`."""
        super().apply_gradients(grads_and_vars)
        return self.iterations

    def stateless_apply(
        self,
        optimizer_variables: list[Tensor],
        grads: list[Tensor],
        trainable_variables: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        # Stock has a second copy of the step here; `apply` is written for both.
        return keras.optimizers.Optimizer.stateless_apply(
            self, optimizer_variables, grads, trainable_variables
        )

    def _scale_for(self, loss, method):
        """Return the loss scale for a loss, or for one of its gradients."""
        if self.dynamic:
            held = self.dynamic_scale if self.built else None
            tracing.warn_if_constant(held, loss, method)
        return self.loss_scale

    @contextlib.contextmanager
    def _unscaled(self, grads, variables):
        """Yield what gives the gradients to apply, and whether they are finite."""
        scaled = list(map(self._is_scaled, grads, variables))
        pairs = list(zip(grads, scaled, strict=True))
        others = [g for g, is_scaled in pairs if g is not None and not is_scaled]
        check = self.rule.skips_nonfinite
        with backends.unscaled(
            list(itertools.compress(grads, scaled)),
            list(itertools.compress(variables, scaled)),
            self.loss_scale,
            check,
        ) as (divide, finite):
            # Where some come as they are: a graph takes all from one place.
            known = divide() if others else None

            def unscaled():
                made = iter(known or divide())
                taken = [next(made) if is_scaled else g for g, is_scaled in pairs]
                accumulates = self.inner_optimizer.gradient_accumulation_steps
                return _as_accumulated(taken, variables) if accumulates else taken

            if check and others:
                checked = backends.all_finite(others)
                finite = checked if finite is None else ops.logical_and(finite, checked)
            yield unscaled, finite

    def _apply_if(self, finite, unscaled, trainable_variables):
        """Apply `unscaled()` gradients if they are finite, or if that was not asked."""
        inner = self.inner_optimizer

        def shared():
            return [v for v in inner.variables if v.name in SHARED]

        def written():
            return [*inner.variables, *inner._trainable_variables]

        def step():
            with backends.read_once(shared):
                inner.apply(unscaled(), trainable_variables)

        if finite is None:
            step()
        else:
            self._after_step(backends.run_if(finite, step, written))

    def _after_step(self, finite):
        def rule(scale, good_steps, skipped):
            if isinstance(finite, np.bool_):
                skipped = skipped if finite else skipped + 1
            else:
                skipped = ops.where(finite, skipped, skipped + 1)
            return *self.rule.after_step(scale, good_steps, finite), skipped

        backends.update([self.dynamic_scale, self.step_counter, self._iterations], rule)

    def _is_scaled(self, grad, variable):
        # float8 training passes a variable's new value as its gradient.
        if grad is None or getattr(variable, "overwrite_with_gradient", False):
            return False
        if not self._expects_unscaled:
            return True
        reference = self._known_scaled.get(id(grad))
        return reference is not None and reference() is grad

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        # Until a step is applied the averages of the weights are zeros. Where `fit` has
        # failed on jax there are no values, and its error is the one to be seen.
        has_value = keras_internals.raw_value(self.inner_optimizer._iterations)
        if has_value is not None and int(self.applied_steps):
            super().finalize_variable_values(var_list)

    def save_own_variables(self, store: Any) -> None:
        if self.saved_as_inner:
            self.inner_optimizer.save_own_variables(store)
        else:
            super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        if len(store.keys()) == len(self.inner_optimizer.variables):
            self.inner_optimizer.load_own_variables(store)
        else:
            super().load_own_variables(store)

    def get_config(self) -> Config:
        """Return the config of a stock `keras.optimizers.LossScaleOptimizer`.

        A fixed scale becomes one that never grows; other settings of a rule than
        its initial scale and its growth period are dropped.
        """
        return super().get_config()

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: CustomObjects = None
    ) -> keras.optimizers.LossScaleOptimizer:
        # Stock pops from the caller's dict.
        return super().from_config(dict(config), custom_objects)

    def __repr__(self) -> str:
        inner = type(self.inner_optimizer).__name__
        return f"<{type(self).__name__} of {inner}, {self.rule!r}>"


def _as_accumulated(grads, variables):
    """Return gradients in the dtypes of their variables, as accumulators have them."""
    dtypes = [variable.dtype for variable in variables]
    return [
        grad
        if grad is None or keras.backend.standardize_dtype(grad.dtype) == dtype
        else ops.cast(grad, dtype)
        for grad, dtype in zip(grads, dtypes, strict=True)
    ]


def _value(variable):
    """Return a variable's value; TensorFlow takes a variable itself for a tensor."""
    return ops.stop_gradient(ops.convert_to_tensor(variable))
