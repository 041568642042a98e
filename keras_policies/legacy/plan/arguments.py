"""Arguments of layers that Keras 3 dropped, renamed or refuses, and activations.

Each entry is a setting of tf.keras, under the class of Keras 3. `DROPPED` holds the
values that Keras 3 uses without being told; any other value is an error that names it.
`ANY` marks settings that never changed what a layer computes.
"""

import functools
from collections.abc import Container, Iterable
from typing import Any, TypeAlias

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import keras_function, keras_object
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.outcomes import LeftOut, Outcome
from keras_policies.legacy.plan import classes
from keras_policies.legacy.plan.report import Converting, Options, Report

Values: TypeAlias = dict[str, Container[Any]]


class _Anything:
    def __contains__(self, value: Any) -> bool:
        return True


ANY = _Anything()


def _any_value(*names: str) -> Values:
    return dict.fromkeys(names, ANY)


# Settings of every layer. The shape becomes an InputLayer.
COMMON = _any_value("batch_input_shape", "expects_training_arg")
COMMON |= {"dynamic": (False,), "autocast": (True,)}

# Depthwise and separable convolutions wrote these of the class that they derive from.
OF_CONVOLUTIONS = {
    "groups": (1,),
    **_any_value("kernel_initializer", "kernel_regularizer", "kernel_constraint"),
}
OF_TRANSPOSED: Values = {"groups": (1,)}
OF_RECURRENT: Values = {"time_major": (False,), "implementation": ANY}
# Lookup layers wrote these about their vocabulary, which is in the file anyway.
OF_LOOKUPS = _any_value("has_input_vocabulary", "has_static_table", "vocabulary_size")
OF_BATCH_NORMALIZATION = {
    # Renormalization has no effect once trained.
    **_any_value("renorm", "renorm_clipping", "renorm_momentum", "fused"),
    **{"virtual_batch_size": (None,), "adjustment": (None,)},
}
OF_ATTENTION = _any_value(
    "query_shape", "key_shape", "value_shape", "activity_regularizer"
)
OF_SPATIAL_DROPOUT = _any_value("trainable", "noise_shape")
# See `layers_as_programs.locally_connected`.
OF_LOCALLY_CONNECTED: Values = {
    **_any_value("filters", "kernel_size", "strides", "padding", "data_format"),
    **{"use_bias": ANY, "implementation": (1, 2)},
}
# Class -> the settings that it no longer takes, with the values to be dropped.
DROPPED: dict[str, Values] = {
    **dict.fromkeys(("Attention", "AdditiveAttention"), _any_value("causal")),
    "BatchNormalization": OF_BATCH_NORMALIZATION,
    **dict.fromkeys((f"Conv{n}DTranspose" for n in (1, 2, 3)), OF_TRANSPOSED),
    **dict.fromkeys((f"ConvLSTM{n}D" for n in (1, 2, 3)), OF_RECURRENT),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), OF_CONVOLUTIONS),
    "DepthwiseConv1D": {**OF_CONVOLUTIONS, "filters": ANY},
    "DepthwiseConv2D": {**OF_CONVOLUTIONS, "filters": ANY},
    "Discretization": {"trainable": ANY},
    "EinsumDense": OF_LOCALLY_CONNECTED,
    "Embedding": {"input_length": ANY},
    "Identity": {"input_shape": ANY},
    "InputLayer": {"ragged": (False, None)},
    **dict.fromkeys(("LSTMCell", "GRUCell"), _any_value("implementation")),
    "MultiHeadAttention": OF_ATTENTION,
    "RNN": {**OF_RECURRENT, "input_shape": ANY},
    **dict.fromkeys(("SimpleRNN", "LSTM", "GRU"), OF_RECURRENT),
    **dict.fromkeys((f"SpatialDropout{n}D" for n in (1, 2, 3)), OF_SPATIAL_DROPOUT),
    **dict.fromkeys(("StringLookup", "IntegerLookup", "TextVectorization"), OF_LOOKUPS),
}

RENAMED = {
    "InputLayer": {"batch_input_shape": "batch_shape"},
    "CategoryEncoding": {"max_tokens": "num_tokens"},
    "Discretization": {"bins": "bin_boundaries"},
    "IntegerLookup": {
        "max_values": "max_tokens",
        "mask_value": "mask_token",
        "oov_value": "oov_token",
    },
    "LeakyReLU": {"alpha": "negative_slope"},
    "ReLU": {"theta": "threshold"},  # of ThresholdedReLU
}

# Class -> the settings that are arguments of each call now, with their names there.
CAUSAL = {"causal": "use_causal_mask"}
OF_CALLS = {"Attention": CAUSAL, "AdditiveAttention": CAUSAL}

# Settings that changed training and that Keras 3 does not have.
ACTIVITY = "the activity regularizer", "KP608"
LEFT_OUT = {
    "BatchNormalization": {"renorm": ("the batch renormalization", "KP605")},
    # Keras 3 adds the loss of each projection.
    "MultiHeadAttention": {"activity_regularizer": ACTIVITY},
    "SimpleRNN": {"activity_regularizer": ACTIVITY},
}

# Class as it was written -> settings that Keras 2.1 did not record, with what it did.
UNRECORDED = {"GRU": {"reset_after": False}}

# Classes that recorded no settings before Keras 2.1.3.
WITHOUT_SETTINGS = "GRUCell", "LSTMCell", "SimpleRNNCell"

# Values that Keras 3 no longer takes.
REFUSED: dict[str, Values] = {"SeparableConv1D": {"padding": ("causal",)}}

# Functions that Keras 3 computes by another formula: the stock layers that compute the
# old one, and the old one's name in the registry (serialization.py), for a Keras that
# takes no layers as an activation. This one was clip(0.2 x + 0.5, 0, 1).
CLIPPED = ("Rescaling", {"scale": 0.2, "offset": 0.5}), ("ReLU", {"max_value": 1.0})
CHANGED_ACTIVATIONS = {"hard_sigmoid": CLIPPED}
OF_KERAS_3 = "keras.activations."  # before a name that tf.keras gave another function
REGISTERED_ACTIVATIONS = {"hard_sigmoid": "keras_policies>hard_sigmoid"}


def stock_arguments(
    class_name: str, written: str, config: Config, path: str
) -> Converting[Config]:
    """Return the arguments, or raise; `written` is the class in the file."""
    if written in WITHOUT_SETTINGS and "units" not in config:
        raise LegacyModelError(
            f"its class is {written}, whose settings Keras 2.1.2 did not record.",
            "Build the model in code, and call load_weights.",
        )
    yield _left_out(class_name, config, path)
    renamed = RENAMED.get(class_name, {})
    dropped = {**COMMON, **DROPPED.get(class_name, {})}
    refused = REFUSED.get(class_name, {})
    converted = {}
    for name, value in config.items():
        if value in refused.get(name, ()) or value not in dropped.get(name, ANY):
            raise LegacyModelError(
                f"its class is {written}, made with {name}={value!r}, which Keras 3 "
                "cannot do.",
                hints.pass_custom_object(written),
            )
        if isinstance(value, str) and name.endswith(NEVER_NAMES):
            value = keras_function(value)
        if name in renamed or name not in dropped:
            converted[renamed.get(name, name)] = value
    return converted


def subclass_arguments(
    base: str, named: Container[str], config: Config, path: str
) -> Converting[Config]:
    """Return the arguments of a user's class; the base gets those it does not name."""
    yield _left_out(base, config, path)
    renamed, dropped = RENAMED.get(base, {}), DROPPED.get(base, {})
    converted = {}
    for name, value in config.items():
        if name in named:
            converted[name] = value
        elif name not in COMMON and value not in dropped.get(name, ()):
            converted[renamed.get(name, name)] = value
    if base == "BatchNormalization" and "axis" in converted:
        converted["axis"] = one_axis(converted["axis"])
    return converted


def both_ways(config: Config) -> Config:
    """Return the config of a Bidirectional.

    If its first layer goes backwards, the second goes forwards, which Keras 3 does not
    do by itself.
    """
    layer: Config = config.get("layer") or {}
    inner: Config = layer.get("config") or {}
    if not inner.get("go_backwards"):
        return config
    name = str(inner.get("name")).removeprefix("forward_")
    other = {**inner, "go_backwards": False, "name": f"backward_{name}"}
    return {"backward_layer": {**layer, "config": other}, **config}


def one_axis(axis: Any) -> Any:
    """Return the axis of a BatchNormalization, which Keras 3 takes as a number."""
    if not isinstance(axis, list | tuple):
        return axis
    if len(axis) != 1:
        raise LegacyModelError(
            f"it normalizes over the axes {list(axis)}; BatchNormalization of Keras 3 "
            "takes one."
        )
    return axis[0]


def _left_out(class_name: str, config: Config, path: str) -> Report:
    parts = LEFT_OUT.get(class_name, {})
    named = (part for name, part in parts.items() if config.get(name))
    texts = ((f"{part} of {path!r}", code) for part, code in named)
    return Report(not_converted=tuple(LeftOut(*each) for each in texts))


# Ending of an argument -> the module of what it names.
MODULES = {
    "_initializer": "keras.initializers",
    "_regularizer": "keras.regularizers",
    "_constraint": "keras.constraints",
}
# Keras wrote its own ones as configs, so that a name here is that of a user's function.
NEVER_NAMES = "_regularizer", "_constraint"
SHORT_NAMES = "normal", "one", "uniform", "zero"  # of initializers, also in Keras 3


def inner_object(
    module: str, written: Any, options: Options, path: str
) -> Converting[Any]:
    """Return the config of an initializer, a regularizer or a constraint, or None.

    One whose class is missing is not converted, and neither is such a function, which
    is written as its name: only training needs it.
    """
    is_config = isinstance(written, dict) and "class_name" in written
    if not (is_config or isinstance(written, str)) or written in SHORT_NAMES:
        return written
    class_name = str(written["class_name"]) if is_config else written
    is_function = class_name == "function"  # Keras has none here, only classes
    if is_function:
        class_name = str(written["config"])
    custom = classes.registered_name(class_name)
    if custom is not None:
        is_class = is_config and not is_function
        config = written.get("config") if is_class else None
        as_class = keras_object(None, custom, config, custom)
        return as_class if is_class else keras_function(custom)
    is_missing = is_function or class_name in options.namesakes
    if is_missing or not classes.is_in(module, class_name):
        if options.reconstructs:
            kind = module.rpartition(".")[2].removesuffix("s")
            # Weights that are loaded need no initializer.
            outcome = Outcome.COMPLETE if kind == "initializer" else Outcome.LOST
            text = f"the missing {kind} {class_name} of {path!r}"
            yield Report(not_converted=(LeftOut(text, "KP608", outcome),))
            return None
        yield Report(missing=((class_name, path),))
    if not is_config:
        return written
    config = dict(written.get("config") or {})
    config.pop("dtype", None)  # initializers of 2.0 wrote that of the variable
    return keras_object(module, class_name, config)


def keras_activation(name: str, dtype: Config, path: str) -> Converting[str | Config]:
    """Return the activation of a name; layers that compute it get the `dtype`."""
    plain = name.removeprefix(OF_KERAS_3)
    if plain != name and plain in CHANGED_ACTIVATIONS:
        return plain
    custom = classes.registered_name(name)
    if custom is not None:
        return keras_function(custom)
    if name not in CHANGED_ACTIVATIONS:
        if not classes.is_in("keras.activations", name):
            yield Report(missing=((name, path),))
        return name
    # For a description, made without Keras, the answer changes nothing.
    if keras_names.can_be_read() or _takes_layers():
        return _as_layers(name, dtype)
    note = (
        f"the layer {path!r} uses the {name} of tf.keras, which this Keras no longer "
        "has: a file of this model opens only after `import keras_policies`"
    )
    yield Report(notes=(note,))
    return keras_function(REGISTERED_ACTIVATIONS[name])


def _as_layers(name: str, dtype: Config) -> Config:
    inner = [
        keras_object("keras.layers", class_name, {**settings, **dtype})
        for class_name, settings in CHANGED_ACTIVATIONS[name]
    ]
    return keras_object("keras", "Sequential", {"name": name, "layers": inner})


def check_layers(layers: Iterable[tuple[str, str]]) -> None:
    """Raise if Keras cannot read layers that are activations, `(class, path)` each."""
    for class_name, path in layers:
        if not (keras_names.can_be_read() or _takes_layers()):
            raise LegacyModelError(
                f"the layer {path!r}: its activation is a layer, {class_name}, which "
                "this Keras cannot read from a config. Install a newer Keras."
            )


@functools.cache
def _takes_layers() -> bool:
    """Return whether this Keras accepts layers as an activation; 3.8 does not."""
    try:
        keras.activations.get(_as_layers("hard_sigmoid", {}))
    except ValueError:
        return False
    return True
