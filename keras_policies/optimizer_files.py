"""What a `LossScaleOptimizer` writes to files, and reads from them."""

import weakref
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies.warn import warn


class SavedAsStock(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]
    """A wrapper whose state is saved as stock Keras saves it, or its inner optimizer's.

    Its own state is the loss scale and the counts of steps.
    """

    saved_as_inner = False  # whether `Model.compile` made it

    def belongs_to(self, model: keras.Model) -> None:
        """Record the model whose weights this optimizer is going to update."""
        self.__dict__["model_ref"] = weakref.ref(model)

    @keras_internals.needs(keras_internals.SAVING)
    def save_own_variables(self, store: Any) -> None:
        # A model drops the scale; what is restored in a running process keeps it.
        is_inner = self.saved_as_inner and not keras_internals.is_saving_weights_only()
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


def _not_loaded(optimizer: SavedAsStock, number: int) -> str:
    return (
        f"The state of the optimizer is not loaded: the file holds {number} variables "
        f"of it, and this {type(optimizer).__name__} has {len(optimizer.variables)}. "
        f"The loss scale starts at {optimizer.initial_scale:g}, the iterations at "
        "0. Before loading, build the model, freeze and compile it as the saved one, "
        "and call model.optimizer.build(model.trainable_variables)."
    )
