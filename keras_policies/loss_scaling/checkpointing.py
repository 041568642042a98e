"""Files and copies of a `LossScaleOptimizer`: saving, `copy.deepcopy` and `pickle`."""

import contextlib
import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies._common.warnings import warn


class SavedAsStock(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]
    """A wrapper that is saved as plain Keras saves it, or as its inner optimizer.

    Copies include its own state, the loss scale and the step counts. A deep copy
    updates the same variables; an unpickled optimizer, those of its first `apply`.
    """

    saved_as_inner = False  # whether `Model.compile` made it
    updates_stand_ins = False  # of the weights, since it was unpickled

    def belongs_to(self, model: keras.Model) -> None:
        """Record the model whose weights this optimizer will update."""
        self.__dict__["model_ref"] = weakref.ref(model)

    @keras_internals.needs(keras_internals.SAVING)
    def save_own_variables(self, store: Any) -> None:
        # A saved model drops a policy's scale; a weights-only checkpoint keeps it.
        is_inner = self.saved_as_inner and not keras_internals.saving_weights_only
        saved: Any = self.inner_optimizer if is_inner else super()
        saved.save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        shapes = sorted(tuple(store[key].shape) for key in [*store.keys()])
        model = vars(self).get("model_ref", lambda: None)()
        # A file without slots is that of an optimizer that was never built.
        is_new = len(shapes) == len(self.variables) and not any(shapes)
        if model is not None and model.built and not (self.built or is_new):
            self.build(model.trainable_variables)
        holders: tuple[Any, Any] = self.inner_optimizer, super()
        for holder in holders:
            if shapes == sorted(tuple(v.shape) for v in holder.variables):
                holder.load_own_variables(store)
                return
        if not _has_made_no_step(store):
            warn(
                f"The optimizer state was skipped: the file has {len(shapes)} "
                f"variables, this {type(self).__name__} has {len(self.variables)}; "
                "counts and shapes must match. The loss scale starts at "
                f"{self.initial_scale:g}, the iterations at 0. Before loading, build "
                "the model, freeze and compile it like the saved one, and call "
                "model.optimizer.build(model.trainable_variables)."
            )

    def set_weights(self, weights: Sequence[Any]) -> None:
        # Plain Keras would set the wrapper's own variables, and ignore the others.
        if len(weights) != len(self.variables):
            raise ValueError(
                f"Pass a value for each of the {len(self.variables)} variables of the "
                f"optimizer, which must be built. Received: {len(weights)} values."
            )
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = _snapshot(self).restored(_weights(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        weights = [(tuple(w.shape), w.dtype, w.name) for w in _weights(self)]
        return _unpickled, (_snapshot(self), weights)

    def take_for_stand_ins(self, variables: list[keras.Variable]) -> None:
        """Update these variables from now on, if their shapes are the pickled ones."""
        shapes = [weight.shape for weight in _weights(self)]
        if shapes == [variable.shape for variable in variables]:
            self.updates_stand_ins = False
            keras_internals.update_instead(self, variables)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state that a copy of an optimizer gets, except the weights it updates."""

    classes: tuple[Any, ...]  # of the wrapper, of its inner optimizer and of its rule
    config: Config
    attributes: dict[str, Any]  # of the wrapper
    called: frozenset[str]  # methods that its loop has called
    is_built: bool  # and not only its inner optimizer
    values: list[npt.NDArray[Any]] | None  # of its variables; None if nothing is built

    def restored(self, weights: list[keras.Variable]) -> Any:
        """Return the copy, which updates `weights` if it is built."""
        with _known(self.classes):
            copied = self.classes[0].from_config(self.config)
        vars(copied).update(self.attributes)
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
    classes = type(optimizer), type(inner), type(optimizer.rule)
    with _known(classes):
        config = optimizer.get_config()
    return Snapshot(
        classes=classes,
        config=config,
        attributes={k: getattr(optimizer, k) for k in ("rule", "saved_as_inner")},
        called=frozenset(optimizer.loop.ever),
        is_built=optimizer.built,
        values=values,
    )


def _known(classes: tuple[Any, ...]) -> contextlib.AbstractContextManager[None]:
    """Return a context in which a user's own classes need not be registered."""
    return keras_internals.custom_object_scope({cls.__name__: cls for cls in classes})


def _has_made_no_step(store: Any) -> bool:
    """Return whether an optimizer was saved before it had slots or made a step.

    Then its config says everything: only its counts, all zero, and learning rates have
    been saved.
    """
    values = [np.asarray(store[key]) for key in [*store.keys()]]
    return all(v.ndim == 0 and (v.dtype.kind == "f" or v == 0) for v in values)


def _state(optimizer: Any) -> list[keras.Variable]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # Keras does not list the product of Nadam's momenta.
    is_nadam = isinstance(inner, keras.optimizers.Nadam)
    hidden = [keras_internals.nadam_product(inner)] if is_nadam else []
    return [*optimizer.variables, *hidden]


def _weights(optimizer: Any) -> list[keras.Variable]:
    return keras_internals.updated_variables(optimizer.inner_optimizer)


def _unpickled(snapshot: Snapshot, weights: list[Any]) -> Any:
    like = [keras.Variable("zeros", shape=s, dtype=d, name=n) for s, d, n in weights]
    copied = snapshot.restored(like)
    copied.updates_stand_ins = snapshot.is_built
    return copied
