"""Finds the class in Keras 3 that a legacy config names."""

import inspect
from collections.abc import Collection, Container
from typing import Any, NamedTuple

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config, CustomObjects
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import (
    keras_function,
    keras_object,
    without_package,
)
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan.report import Converted, Converting, Report

RENAMED_CLASSES = {
    # Source: tensorflow_addons/layers/normalizations.py, 0.20 (Keras took it over).
    **dict.fromkeys(
        ("Addons>GroupNormalization", "Addons>InstanceNormalization"),
        "GroupNormalization",
    ),
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
    "CuDNNGRU": "GRU",
    "CuDNNLSTM": "LSTM",
    "Functional": "Model",
    **dict.fromkeys(("LocallyConnected1D", "LocallyConnected2D"), "EinsumDense"),
    "Layer": "Identity",  # the base class itself returned its input
    "Network": "Model",
    # The same on one device; Keras 3 has it on TensorFlow only.
    "SyncBatchNormalization": "BatchNormalization",
    "ThresholdedReLU": "ReLU",
}
# Models that consist of what their configs list.
GRAPHS = {"Functional", "Model", "Network", "Sequential"}
STRETCHING = "Keras 3 has no random stretching; without training it does nothing"
COLUMNS = "Keras 3 has no feature columns; it has FeatureSpace"
PREMADE = "Keras 3 has no premade models; a SavedModel and a .keras file of it open"
WITHOUT_COUNTERPART = {
    "CategoryCrossing": "Keras 3 numbers crosses differently (HashedCrossing)",
    "DenseFeatures": COLUMNS,
    "PeepholeLSTMCell": "Keras 3 has no LSTM with peepholes",
    "RandomCrop": "that of Keras 3 crops in training only",
    "RandomFourierFeatures": "Keras 3 has no kernel approximation",
    "RandomHeight": STRETCHING,
    "RandomWidth": STRETCHING,
    "SequenceFeatures": COLUMNS,
    **dict.fromkeys(("LinearModel", "WideDeepModel"), PREMADE),
}

# Names that tf.keras never had: in a legacy file, each is a user's class or function.
# TensorFlow's own functions, such as `relu6`, are what Keras 3 calls by their names.
NOT_IN_TF_KERAS: dict[str, tuple[str, ...]] = {
    "keras.activations": (
        *("celu", "glu", "hard_shrink", "hard_silu", "hard_swish", "hard_tanh"),
        *("soft_shrink", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus"),
        *("tanh_shrink", "threshold"),
    ),
    "keras.layers": (
        *(f"Adaptive{x}Pooling{n}D" for x in ("Average", "Max") for n in (1, 2, 3)),
        *("AugMix", "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization"),
        *("CutMix", "Equalization", "GroupQueryAttention", "MaxNumBoundingBoxes"),
        *("MelSpectrogram", "MixUp", "Pipeline", "RMSNormalization", "RandAugment"),
        *("RandomColorDegeneration", "RandomColorJitter", "RandomElasticTransform"),
        *("RandomErasing", "RandomGaussianBlur", "RandomGrayscale", "RandomHue"),
        *("RandomInvert", "RandomPerspective", "RandomPosterization", "Solarization"),
        *("RandomSaturation", "RandomSharpness", "RandomShear", "ReversibleEmbedding"),
        "STFTSpectrogram",
    ),
    "keras.losses": (
        *("CTC", "CategoricalGeneralizedCrossEntropy", "Circle", "Dice", "Tversky"),
        *("categorical_generalized_cross_entropy", "circle", "ctc", "dice", "tversky"),
    ),
    "keras.metrics": (
        *("ConcordanceCorrelation", "PearsonCorrelation"),
        *("concordance_correlation", "pearson_correlation"),
    ),
    "keras.optimizers": ("Lamb", "MultiOptimizer", "Muon", "ScheduleFreeAdamW"),
}


def checked_objects(custom_objects: CustomObjects) -> dict[str, Any]:
    """Return a dict, empty for None, or raise TypeError if it is not a dict by name."""
    result = {} if custom_objects is None else custom_objects
    is_dict = isinstance(result, dict)
    if not (is_dict and all(isinstance(name, str) for name in result)):
        raise TypeError(
            "custom_objects must be a dict of names to classes and functions, such as "
            f"{{'Attention': Attention}}, received {custom_objects!r}."
        )
    return result


def registered_name(class_name: str) -> str | None:
    """Return the name by which this scope knows a user's class, or None."""
    for name in (class_name, without_package(class_name)):
        if keras_names.registered(name) is not None:
            return name
    return None


def is_registered(written: Config) -> bool:
    """Return whether the user registered the class of a layer."""
    return registered_name(str(written.get("class_name"))) is not None


def stock_base(name: str) -> tuple[str, Collection[str]]:
    """Return the class of Keras that a user's class derives from, and what it takes.

    These are the arguments that its constructor names; it passes the others on. Of a
    function, or of a class that is not registered, the base is `"Layer"`.
    """
    registered = keras_names.registered(name)
    if not isinstance(registered, type):
        return "Layer", ()
    bases = (base.__name__ for base in registered.__mro__ if _is_stock(base))
    constructor: Any = registered.__init__  # type: ignore[misc]
    return next(bases, "Layer"), inspect.signature(constructor).parameters


def _is_stock(base: type) -> bool:
    return getattr(keras.layers, base.__name__, None) is base


def is_in(module: str, name: str) -> bool:
    """Return whether Keras has the class or function that tf.keras had by this name."""
    is_new = name in NOT_IN_TF_KERAS.get(module, ())
    return not is_new and keras_names.kind(module, name) is not None


def keras_name(class_name: str) -> str:
    """Return the name of the class that a legacy class becomes."""
    return registered_name(class_name) or RENAMED_CLASSES.get(class_name, class_name)


def object_in(module: str, written: Config) -> Config:
    """Return the config of an object of a user's class, or of a module of Keras."""
    class_name = str(written.get("class_name"))
    custom = registered_name(class_name)
    options = dict(written.get("config") or {})
    if options.get("name", "") is None:
        del options["name"]
    return keras_object(None if custom else module, class_name, options, custom)


def own_function(name: str, path: str) -> Converted:
    """Return the function that a user registered under a name."""
    custom = registered_name(name)
    if custom is None:
        yield Report(missing=((name, path),))
    return keras_function(custom or name)


class KerasClass(NamedTuple):
    """The names by which Keras 3 finds a class."""

    module: str | None  # "keras.layers"; None for a user's class
    name: str
    registered_name: str | None = None  # None for a class of Keras's own
    written_as: str | None = None  # the name in the file

    @property
    def is_stock(self) -> bool:
        """bool, whether the class is Keras's own."""
        return self.registered_name is None

    def with_config(self, config: Config) -> Config:
        """Return the dict that Keras deserializes; it ignores `written_as`."""
        serialized = keras_object(self.module, self.name, config, self.registered_name)
        return serialized | {"written_as": self.written_as}


def keras_class(
    name: str, path: str, is_graph: bool = False, namesakes: Container[str] = ()
) -> Converting[KerasClass]:
    """Return the class in Keras 3; names in `namesakes` belong to other classes."""
    custom = registered_name(name)
    if custom is not None:
        return KerasClass(None, custom, custom)
    stock = RENAMED_CLASSES.get(name, name)
    is_other = stock in namesakes or name in WITHOUT_COUNTERPART
    is_stock = not is_other and is_in("keras.layers", stock)
    if is_stock and keras_names.is_class("keras.layers", stock):
        return KerasClass("keras.layers", stock, written_as=name)
    # A "Model" whose config lists no layers is a user's class of that name.
    if is_graph and keras_names.is_class("keras.models", stock):
        return KerasClass("keras.models", stock)
    if name in WITHOUT_COUNTERPART:
        reason = f"its class is {name}; {WITHOUT_COUNTERPART[name]}."
        raise LegacyModelError(reason, hints.pass_custom_object(name))
    yield Report(missing=((name, path),))
    return KerasClass(None, name, name)
