"""Where Keras 3 finds the class that a legacy config names."""

from typing import NamedTuple

import keras

from keras_policies.annotations import Config
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.configs import keras_object
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan.findings import Converting, Findings

RENAMED_CLASSES = {
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
    "CuDNNGRU": "GRU",
    "CuDNNLSTM": "LSTM",
    "Functional": "Model",
    "Network": "Model",
    # On one device it is the same; Keras 3 has it on TensorFlow alone.
    "SyncBatchNormalization": "BatchNormalization",
    "ThresholdedReLU": "ReLU",
}
STRETCHING = "Keras 3 has no random stretching; without training it does nothing"
WITHOUT_COUNTERPART = {
    "LocallyConnected1D": "Keras 3 has no locally connected layers",
    "LocallyConnected2D": "Keras 3 has no locally connected layers",
    "CategoryCrossing": "Keras 3 has HashedCrossing, which numbers otherwise",
    "DenseFeatures": "Keras 3 has no feature columns; it has FeatureSpace",
    "PeepholeLSTMCell": "Keras 3 has no LSTM with peepholes",
    "RandomFourierFeatures": "Keras 3 has no kernel approximation",
    "RandomHeight": STRETCHING,
    "RandomWidth": STRETCHING,
}


def checked_objects(custom_objects):
    """Return `custom_objects` as a dict.

    Raises:
        TypeError: if it is none, by names.
    """
    if custom_objects is None:
        return {}
    is_dict = isinstance(custom_objects, dict)
    if not is_dict or not all(isinstance(name, str) for name in custom_objects):
        raise TypeError(
            "custom_objects must be a dict of names to classes and functions, such as "
            f"{{'Attention': Attention}}, received {custom_objects!r}."
        )
    return custom_objects


def registered_name(class_name):
    """Return the name under which a custom class is known in this scope, or None.

    A class that was registered in a package is written as `Package>Name`.
    """
    for name in (class_name, class_name.rpartition(">")[2]):
        if keras.saving.get_registered_object(name) is not None:
            return name
    return None


def is_in(module, class_name):
    """Return whether a public module of Keras has a class, or a function, by name."""
    return hasattr(getattr(keras, module.rpartition(".")[2]), class_name)


def keras_name(class_name):
    """Return the name of the class that a legacy class becomes."""
    if registered_name(class_name) is not None:
        return registered_name(class_name)
    return RENAMED_CLASSES.get(class_name, class_name)


class KerasClass(NamedTuple):
    """A class as the configs of Keras 3 name it.

    Args:
        module: str, such as `"keras.layers"`, or None for a user's class.
        name: str.
        registered_name: str, the name in the registry of custom objects, or None for a
            class of Keras's own.
    """

    module: str | None
    name: str
    registered_name: str | None = None

    @property
    def is_stock(self) -> bool:
        """bool, whether it is Keras's own."""
        return self.registered_name is None

    def with_config(self, config: Config) -> Config:
        """Return the dict from which Keras 3 makes an object of the class."""
        return keras_object(self.module, self.name, config, self.registered_name)


def keras_class(
    class_name: str, path: str, is_graph: bool = False
) -> Converting[KerasClass]:
    """Return the class in Keras 3 that a legacy config names.

    Args:
        class_name: str, as written.
        path: str, the layer.
        is_graph: bool, whether its config lists layers, as that of a stock model does.

    Raises:
        LegacyModelError: if Keras 3 has nothing in its place.
    """
    custom = registered_name(class_name)
    if custom is not None:
        return KerasClass(None, custom, custom)
    stock = RENAMED_CLASSES.get(class_name, class_name)
    if isinstance(getattr(keras.layers, stock, None), type):
        return KerasClass("keras.layers", stock)
    # Without layers in its config, a Model is a user's own class of that name.
    if is_graph and isinstance(getattr(keras.models, stock, None), type):
        return KerasClass("keras.models", stock)
    if class_name in WITHOUT_COUNTERPART:
        raise LegacyModelError(
            f"a {class_name}: {WITHOUT_COUNTERPART[class_name]}.",
            remedies.pass_custom_object(class_name),
        )
    yield Findings(missing={class_name: (path,)})
    return KerasClass(None, class_name, class_name)
