"""Where Keras 3 finds the class that a legacy config names."""

import keras

from keras_policies.legacy.base.errors import LegacyModelError

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


def find(class_name, conversion, path, is_graph=False):
    """Return where Keras 3 finds a class: module, class name, registered name.

    Args:
        class_name: str, as written.
        conversion: `layers.Conversion`, told if there is no such class.
        path: str, the layer.
        is_graph: bool, whether its config lists layers, as that of a stock model does.
    """
    custom = registered_name(class_name)
    if custom is not None:
        return {"module": None, "class_name": custom, "registered_name": custom}
    stock = RENAMED_CLASSES.get(class_name, class_name)
    for module in keras.layers, keras.models:
        known = getattr(module, stock, None)
        is_model = module is keras.models  # a user's own may be called Model, too
        if isinstance(known, type) and (is_graph or not is_model):
            name = module.__name__.rpartition(".")[2]
            known = {"module": f"keras.{name}", "class_name": stock}
            return {**known, "registered_name": None}
    if class_name in WITHOUT_COUNTERPART:
        raise LegacyModelError(
            f"{conversion.path}: the layer {path!r} is a {class_name}: "
            f"{WITHOUT_COUNTERPART[class_name]}. Pass a class of your own as "
            f"custom_objects={{{class_name!r}: ...}}."
        )
    conversion.missing.setdefault(class_name, []).append(path)
    return {"module": None, "class_name": class_name, "registered_name": class_name}
