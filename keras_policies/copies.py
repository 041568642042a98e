"""Copies of a `LossScaleOptimizer`: `copy.deepcopy` and `pickle`."""

import dataclasses
from typing import Any

import keras
import numpy.typing as npt
from keras import ops

from keras_policies import keras_internals
from keras_policies.annotations import Config
from keras_policies.loss_scale import LossScale


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What a copy of an optimizer is made from, apart from the weights it updates."""

    wrapper: Any  # its class
    inner: type  # the class of its inner optimizer
    config: Config
    rule: LossScale
    saved_as_inner: bool  # whether `Model.compile` made it
    is_built: bool  # and not only its inner optimizer
    values: list[npt.NDArray[Any]] | None  # of its variables; None if nothing is built

    def restored(self, weights: list[keras.Variable]) -> Any:
        """Return the copy, which updates `weights` if it is built."""
        # The classes of a user's own need not be registered.
        own = {cls.__name__: cls for cls in (self.wrapper, self.inner)}
        with keras_internals.custom_object_scope(own):
            copied = self.wrapper.from_config(self.config)
        copied.rule, copied.saved_as_inner = self.rule, self.saved_as_inner
        if self.values is not None:
            holder = copied if self.is_built else copied.inner_optimizer
            holder.build(weights)
            for variable, value in zip(_state(holder), self.values, strict=True):
                variable.assign(value)
        return copied


class Copyable:
    """An optimizer whose copies have its loss scale, and its state if it is built.

    A deep copy updates the same variables. An unpickled optimizer updates the variables
    that are passed to its first `apply`.
    """

    updates_stand_ins = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = _snapshot(self).restored(_weights(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        weights = [(tuple(w.shape), w.dtype, w.name) for w in _weights(self)]
        return _unpickled, (_snapshot(self), weights)

    def take_for_stand_ins(self, variables: list[keras.Variable]) -> None:
        """Update these variables from now on, if they are like those of the pickle."""
        known = [weight.shape for weight in _weights(self)]
        if known == [variable.shape for variable in variables]:
            self.updates_stand_ins = False
            keras_internals.update_instead(self, variables)


def _snapshot(optimizer: Any) -> Snapshot:
    inner = optimizer.inner_optimizer
    holder = optimizer if optimizer.built else inner
    values = [*map(ops.convert_to_numpy, _state(holder))] if holder.built else None
    own = optimizer.get_config(), optimizer.rule, optimizer.saved_as_inner
    return Snapshot(type(optimizer), type(inner), *own, optimizer.built, values)


def _state(optimizer: Any) -> list[keras.Variable]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # Keras does not list the product of Nadam's momenta.
    is_nadam = isinstance(inner, keras.optimizers.Nadam)
    hidden = [keras_internals.nadam_product(inner)] if is_nadam else []
    return [*optimizer.variables, *hidden]


def _weights(optimizer: Any) -> list[keras.Variable]:
    return keras_internals.updated_variables(optimizer.inner_optimizer)


def _unpickled(
    snapshot: Snapshot, weights: list[tuple[tuple[int, ...], str, str]]
) -> Any:
    like = [keras.Variable("zeros", shape=s, dtype=d, name=n) for s, d, n in weights]
    copied = snapshot.restored(like)
    copied.updates_stand_ins = snapshot.is_built
    return copied
