"""Files and copies of a `LossScaleOptimizer`: saving, `copy.deepcopy` and `pickle`."""

import dataclasses
import weakref
from typing import Any

import keras
import numpy.typing as npt
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.loss_scale import LossScale


class SavedAsStock(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]
    """A wrapper whose state is saved as stock Keras saves it, or its inner optimizer's.

    Its own state is the loss scale and the counts of steps. Copies have it, too: a deep
    copy updates the same variables, an unpickled optimizer those that are passed to its
    first `apply`.
    """

    saved_as_inner = False  # whether `Model.compile` made it
    updates_stand_ins = False  # of the weights, since it was unpickled

    def belongs_to(self, model: keras.Model) -> None:
        """Record the model whose weights this optimizer is going to update."""
        self.__dict__["model_ref"] = weakref.ref(model)

    @keras_internals.needs(keras_internals.SAVING)
    def save_own_variables(self, store: Any) -> None:
        # A model drops the scale; what is restored in a running process keeps it.
        is_inner = self.saved_as_inner and not keras_internals.saving_weights_only
        saved: Any = self.inner_optimizer if is_inner else super()
        saved.save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        self._build_for(store)
        if len(store.keys()) == len(self.inner_optimizer.variables):
            self.inner_optimizer.load_own_variables(store)
        elif len(store.keys()) == len(self.variables):
            super().load_own_variables(store)
        else:
            warn(_not_loaded(self, len(store.keys())))

    def _build_for(self, store: Any) -> None:
        """Build the optimizer, unless the file holds no more than a new one has."""
        values = [store[key] for key in [*store.keys()]]
        is_new = len(values) == len(self.variables) and not any(
            len(value.shape) for value in values
        )
        model = vars(self).get("model_ref", lambda: None)()
        if model is not None and model.built and not (self.built or is_new):
            self.build(model.trainable_variables)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = _snapshot(self).restored(_weights(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        weights = [(tuple(w.shape), w.dtype, w.name) for w in _weights(self)]
        return _unpickled, (_snapshot(self), weights)

    def take_for_stand_ins(self, variables: list[keras.Variable]) -> None:
        """Update these variables from now on, if they are like those of the pickle."""
        shapes = [weight.shape for weight in _weights(self)]
        if shapes == [variable.shape for variable in variables]:
            self.updates_stand_ins = False
            keras_internals.update_instead(self, variables)


def _not_loaded(optimizer: SavedAsStock, number: int) -> str:
    return (
        f"The state of the optimizer is not loaded: the file holds {number} variables "
        f"of it, and this {type(optimizer).__name__} has {len(optimizer.variables)}. "
        f"The loss scale starts at {optimizer.initial_scale:g}, the iterations at "
        "0. Before loading, build the model, freeze and compile it as the saved one, "
        "and call model.optimizer.build(model.trainable_variables)."
    )


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What a copy of an optimizer is made from, apart from the weights it updates."""

    wrapper: Any  # its class
    inner: type  # the class of its inner optimizer
    config: Config
    rule: LossScale
    saved_as_inner: bool  # whether `Model.compile` made it
    called: frozenset[str]  # what its loop has called of it
    is_built: bool  # and not only its inner optimizer
    values: list[npt.NDArray[Any]] | None  # of its variables; None if nothing is built

    def restored(self, weights: list[keras.Variable]) -> Any:
        """Return the copy, which updates `weights` if it is built."""
        # The classes of a user's own need not be registered.
        classes = {cls.__name__: cls for cls in (self.wrapper, self.inner)}
        with keras_internals.custom_object_scope(classes):
            copied = self.wrapper.from_config(self.config)
        copied.rule, copied.saved_as_inner = self.rule, self.saved_as_inner
        copied.loop.ever.update(self.called)
        if self.values is not None:
            holder = copied if self.is_built else copied.inner_optimizer
            holder.build(weights)
            for variable, value in zip(_state(holder), self.values, strict=True):
                variable.assign(value)
        return copied


def _snapshot(optimizer: Any) -> Snapshot:
    inner = optimizer.inner_optimizer
    holder = optimizer if optimizer.built else inner
    values = [*map(ops.convert_to_numpy, _state(holder))] if holder.built else None
    return Snapshot(
        wrapper=type(optimizer),
        inner=type(inner),
        config=optimizer.get_config(),
        rule=optimizer.rule,
        saved_as_inner=optimizer.saved_as_inner,
        called=frozenset(optimizer.loop.ever),
        is_built=optimizer.built,
        values=values,
    )


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
