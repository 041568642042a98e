"""Unscales the gradients that an optimizer receives, for its step to apply."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

from keras import ops

from keras_policies._common.types import Tensor, Tensors, Variables
from keras_policies.backends.protocol import StepGradients
from keras_policies.backends.running import backend


@contextlib.contextmanager
def unscaled_in_step(
    grads: Tensors,
    variables: Variables,
    are_scaled: Sequence[bool],
    scale: Tensor,
    check: bool,
) -> Iterator[StepGradients]:
    """Divide the scaled gradients by the loss scale, for one training step.

    Others, and None, are applied unchanged. `check` asks whether all are finite.
    """
    pairs = zip(grads, are_scaled, strict=True)
    others = [grad for grad, is_scaled in pairs if grad is not None and not is_scaled]
    scaled = list(itertools.compress(grads, are_scaled))
    theirs = list(itertools.compress(variables, are_scaled))
    with backend.unscaled_in_step(scaled, theirs, scale, check) as divided:
        # In a graph, scaled and other gradients must come from the same branch.
        quotients_now = divided.make() if others else None

        def make() -> list[Tensor]:
            return replaced(grads, are_scaled, quotients_now or divided.make())

        finite = divided.finite
        if check and others:
            checked = backend.all_finite(others)
            finite = checked if finite is None else ops.logical_and(finite, checked)
        yield StepGradients(make, finite)


def replaced(
    grads: Tensors, chosen: Sequence[bool], others: Iterable[Tensor]
) -> list[Tensor]:
    """Return gradients, with the chosen ones replaced by others, in order."""
    replacements = iter(others)
    pairs = zip(grads, chosen, strict=True)
    return [next(replacements) if is_chosen else grad for grad, is_chosen in pairs]


def in_dtypes_of(variables: Variables, grads: Tensors) -> list[Tensor]:
    """Return gradients in their variables' dtypes: Keras adds them without a cast."""
    return [
        None if grad is None else ops.cast(grad, variable.dtype)
        for grad, variable in zip(grads, variables, strict=True)
    ]
