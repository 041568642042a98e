"""Lets Keras read the `LossScaleOptimizer` configs that it refuses."""

import functools
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects
from keras_policies.loss_scaling import configs
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer, instead_of_stock

StockLossScaleOptimizer = keras.optimizers.LossScaleOptimizer


class LegacyLossScaleOptimizer:
    """Reads the `LossScaleOptimizer` configs of tf.keras that stock Keras refuses."""

    @staticmethod
    def from_config(
        config: Config, custom_objects: CustomObjects = None
    ) -> LossScaleOptimizer:
        """Return our `LossScaleOptimizer`."""
        return LossScaleOptimizer.from_config(config, custom_objects)


@keras_internals.replaces(
    "keras.optimizers.LossScaleOptimizer.from_config",
    needs=keras_internals.LOSS_SCALING,
)
def _from_config(
    stock: keras_internals.Function, cls: type, config: Config, *args: Any, **kw: Any
) -> keras.optimizers.LossScaleOptimizer:
    first = functools.partial(stock, cls, config, *args, **kw)
    if cls is not StockLossScaleOptimizer or not isinstance(config, dict):
        return first()
    written = {**config}  # stock pops from it
    if instead_of_stock and configs.has_rule(config):
        return LossScaleOptimizer.from_config(written, *args, **kw)
    if not configs.is_of_tf_keras(config):
        return first()

    def second() -> LossScaleOptimizer:
        made = LossScaleOptimizer.from_config(written, *args, **kw)
        config.update(written)
        return made

    return keras_internals.second_try(first, second)


keras_internals.save_class_as(LossScaleOptimizer, "keras.optimizers.LossScaleOptimizer")
# The experimental class of TF 2.4, and the class from 2.11 on.
NAMES = "LossScaleOptimizerV1", "LossScaleOptimizerV3"
if keras_internals.LOSS_SCALING not in keras_internals.MISSING:
    readers = dict.fromkeys(NAMES, LegacyLossScaleOptimizer)
    keras_internals.read_lost_classes("optimizers", ["keras.optimizers"], readers)
