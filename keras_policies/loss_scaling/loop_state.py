"""Decides whether a training loop applies gradients of the scaled loss, and warns.

Compiled code runs its Python once, so a call counts only where it cannot be misread.
`are_scaled=` decides; without it, the first row that fits in `LoopState._decided` does.
`tests/scaling/test_sequences.py` lists what happens in each kind of loop.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_policies._common.types import Tensor, Tensors
from keras_policies._common.warnings import warn
from keras_policies.backends.running import backend
from keras_policies.loss_scaling.loss_scale import FixedLossScale, LossScale

SCALE, GET_SCALED, UNSCALE = "scale_loss", "get_scaled_loss", "get_unscaled_gradients"
APPLY_GRADIENTS = "apply_gradients"
# Why a method cannot take gradients.
ITS_ARGUMENTS = "these gradients are its arguments"
ITS_RESULTS = "these gradients are its results"
# Methods that the wrapper replaces: it only calls `apply` of its inner optimizer. On
# TensorFlow no optimizer has a working `stateless_apply`.
BYPASSED = [APPLY_GRADIENTS, SCALE]
if keras.backend.backend() != "tensorflow":
    BYPASSED.append("stateless_apply")


# Steps in which gradients are watched: a loop that changes them does so in each.
WATCHED_STEPS = 2

IN_SCOPE = (
    "Build the optimizer, and do this in `with keras.StatelessScope(state_mapping="
    "[*zip(optimizer.variables, optimizer_variables)]):`, where optimizer_variables "
    "are those that you pass to stateless_apply."
)


def read(variable: keras.Variable | float) -> Tensor:
    """Return the value of a variable as a tensor, of which `float` or `int` are taken.

    A variable of a `tf.distribute.Strategy` has neither, and passes for a tensor.
    """
    return ops.stop_gradient(ops.convert_to_tensor(variable))


def read_scale(optimizer: Any, method: str) -> Tensor:
    """Return the loss scale of an optimizer, which `method` is about to use.

    Warns if the code being compiled contains it as a constant: `jax.jit` freezes a
    variable at its first value, unless a `keras.StatelessScope` provides one.
    """
    scale = optimizer.initial_scale
    try:
        scale = optimizer.dynamic_scale.value if optimizer.built else scale
    except TypeError as error:  # `fit` on jax takes the values of variables away
        raise ValueError(
            f"{method} finds no loss scale: inside `fit` on jax, variables have no "
            f"values. {IN_SCOPE}"
        ) from error
    if optimizer.dynamic and backend.is_constant(scale):
        warn(
            f"{method} is compiled with the current loss scale as a constant, and "
            f"will not follow its changes. {IN_SCOPE}"
        )
    return ops.stop_gradient(ops.convert_to_tensor(scale, dtype="float32"))


def warn_if_bypassed(inner: keras.optimizers.Optimizer) -> None:
    """Warn if an optimizer, or its class, overrides a method that its wrapper skips."""
    for name in BYPASSED:
        method = vars(inner).get(name, getattr(type(inner), name))  # or patched on it
        if not str(getattr(method, "__module__", "")).startswith("keras."):
            warn(
                f"{type(inner).__name__} overrides {name}, which LossScaleOptimizer "
                "does not call: it calls apply of its inner optimizer. Override apply "
                "instead, for example to clip gradients."
            )


class LoopState:
    """The optimizer methods that a training loop has called, as far as Python has seen.

    Methods that a subclass overrides count as called: they need not call ours.
    """

    def __init__(self, overridden: Iterable[str] = ()) -> None:
        self.overridden = frozenset(overridden)
        self.ever = {*self.overridden}  # names of methods
        # Whether the loop asked for the scale, or scales in its own way.
        self.is_asked = GET_SCALED in self.ever
        # Methods called since the last step, in the order of their last calls.
        self._since: list[str] = []
        # id of a tensor -> reference to it, its version, and whether it is scaled.
        self._known: dict[int, tuple[weakref.ref[Any], int, bool]] = {}
        self._said: bool | None = None
        self._is_in_override = False
        self._unasked_steps = 0
        # Whether gradients were changed in place since the backward pass of this step.
        self._changed: Callable[[Tensors], bool] | None = None
        self._watched_steps = 0

    def called(self, method: str) -> None:
        """Record a call of SCALE, GET_SCALED or UNSCALE."""
        self.ever.add(method)
        self.is_asked = True
        self._since = [*(m for m in self._since if m != method), method]

    def know(self, scaled: Tensors, unscaled: Tensors) -> None:
        """Recognize these tensors, or None, when they are applied."""
        self._known = {k: v for k, v in self._known.items() if v[0]() is not None}
        for tensors, are_scaled in (scaled, True), (unscaled, False):
            for tensor in tensors:
                if tensor is not None:
                    kept = weakref.ref(tensor), backend.version(tensor), are_scaled
                    self._known[id(tensor)] = kept

    @contextlib.contextmanager
    def step(self, method: str, grads: Tensors, said: bool | None) -> Iterator[None]:
        """Decide as `are_scaled` does, for the steps inside."""
        self._said = self.are_scaled(method, grads, said)
        try:
            yield
        finally:
            self._said = None

    @contextlib.contextmanager
    def in_override(self, method: str) -> Iterator[None]:
        """Call a method of a subclass; the calls that it makes are not recorded."""
        if self._is_in_override:
            raise TypeError(
                f"An override of {method} calls the method that calls it. "
                f"Call super().{method} there."
            )
        before = {*self.ever}, [*self._since]
        self._is_in_override = True
        try:
            yield
        finally:
            self._is_in_override = False
            self.ever, self._since = before

    def are_scaled(self, method: str, grads: Tensors, said: bool | None) -> bool:
        """Return whether a step gets gradients of the scaled loss.

        `method` applies them, which ends the step; its caller passed `said` to it.
        """
        if not isinstance(said, bool | np.bool_ | None):
            raise TypeError(
                "are_scaled must be True for gradients of the scaled loss, False for "
                f"unscaled ones, or None. Received: are_scaled={said!r}."
            )
        self.is_asked = self.is_asked or said is not None
        said = self._said if said is None else said
        decided = self._decided(method, grads) if said is None else bool(said)
        self._since = []
        return decided

    def _decided(self, method: str, grads: Tensors) -> bool:
        is_old = method == APPLY_GRADIENTS  # as in tf.keras, may take unscaled ones
        tensors = {*map(self._kind, grads)} - {None} if self._known else set[bool]()
        since, ever = self._since, self.ever
        last = next((m for m in reversed(since) if m != GET_SCALED), None)
        is_unscaled = last == UNSCALE
        is_other_loop = SCALE in ever and GET_SCALED not in since
        rows: tuple[tuple[bool, bool | str], ...] = (
            # Tensors that get_unscaled_gradients took or returned
            (len(tensors) == 2, "some are its arguments, others its results"),
            (tensors == {False}, not is_old and ITS_RESULTS),
            (tensors == {True} and is_old and SCALE not in since, ITS_ARGUMENTS),
            (tensors == {True}, True),
            # Other tensors: what was called since the last step
            (is_unscaled and not is_old, "these are neither its arguments nor results"),
            (not is_old or last == SCALE, True),
            (is_unscaled and SCALE in since, "scale_loss was called before it"),
            (is_unscaled and is_other_loop, "scale_loss was called in earlier steps"),
            (
                is_unscaled and APPLY_GRADIENTS in ever,
                "earlier steps took their gradients as scaled",
            ),
            (is_unscaled, False),
            # Neither since the last step
            (UNSCALE not in ever, True),
            (SCALE in ever, "so was scale_loss, but neither of them in this step"),
            (True, False),
        )
        decided = next(answer for fits, answer in rows if fits)
        if isinstance(decided, str):
            raise _undecided(method, decided)
        if decided and is_old and last is None and self.is_asked:
            # After `get_scaled_loss` this is a choice, which a later call contradicts.
            ever.add(APPLY_GRADIENTS)
        return decided

    def _kind(self, grad: Tensor) -> bool | None:
        reference, version, is_scaled = self._known.get(id(grad), (None, 0, False))
        if reference is None or reference() is not grad:
            return None
        # Scaled gradients may have been divided in place, and unscaled ones clipped.
        return None if is_scaled and backend.version(grad) != version else is_scaled

    def watch(self, variables: Callable[[], list[keras.Variable]]) -> None:
        """Watch the backward pass that follows, in the first steps of a loop."""
        if self._changed is None and self._watched_steps < WATCHED_STEPS:
            self._changed = backend.watch(variables())

    def warn_if_changed(self, grads: Tensors, said: bool | None) -> None:
        """Warn if scaled gradients were changed in place, such as clipped."""
        changed, self._changed = self._changed, None
        if changed is None:
            return
        self._watched_steps += 1
        present = [grad for grad in grads if grad is not None]
        if changed(present) and said is None:
            self._watched_steps = WATCHED_STEPS
            warn(
                "Gradients were changed in place between the backward pass and apply, "
                "while they were still multiplied by the loss scale. A clipping there "
                "clips almost everything: give the inner optimizer global_clipnorm=, "
                "or clip the result of get_unscaled_gradients and pass it to "
                "apply_gradients. If the change is right for scaled gradients, such as "
                "a mean over batches, pass are_scaled=True."
            )

    def warn_if_not_asked(self, grad: Tensor, rule: LossScale) -> None:
        """Warn once if gradients are divided by a scale that multiplied no loss.

        The second eager step warns, since the first may only create the optimizer's
        slots. In compiled code the first one does, since Python sees no other.
        """
        if self.is_asked or rule == FixedLossScale(1):
            return
        is_only = self._unasked_steps == 0 and backend.is_traced(grad)
        self._unasked_steps += 2 if is_only else 1
        if self._unasked_steps == 2:
            warn(
                "LossScaleOptimizer divides the gradients by the loss scale, which is "
                f"{rule.initial_loss_scale:g} at first, but the loss was never "
                "multiplied by it, so the weights will hardly change. Take the "
                "gradients of a scaled loss and unscale them (in a train_step, "
                "optimizer is self.optimizer):\n"
                "    scaled_loss = optimizer.get_scaled_loss(loss)\n"
                "    gradients = optimizer.get_unscaled_gradients(gradients)\n"
                "A loop that multiplies the loss by optimizer.loss_scale itself passes "
                "are_scaled=True with the gradients."
            )


def _undecided(method: str, why: str) -> ValueError:
    takes = " cannot tell whether these gradients are scaled"
    if why in (ITS_ARGUMENTS, ITS_RESULTS):
        takes = f" takes {'unscaled' if why == ITS_ARGUMENTS else 'scaled'} gradients"
    return ValueError(
        f"{method}{takes}: {UNSCALE} was called, and {why}. Pass "
        f"are_scaled=True to {method} if these are gradients of the scaled loss, "
        "are_scaled=False if they were divided by the loss scale. To log unscaled "
        "gradients, call unscale, which does not count."
    )
