"""Converts the configs and weights of Keras 1 to those of Keras 2.

Layers had other names and arguments, kernels had other layouts, and recurrent layers
had a weight for each gate. Sources: keras/legacy/interfaces.py and
keras/engine/topology.py (`preprocess_weights_for_loading`) of Keras 2.0, and the layers
of Keras 1.2.2.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.weights import Array, LayerWeights, LegacyWeight

# Argument of Keras 1 -> its name in Keras 2; "" if it is dropped.
ARGUMENTS = {
    **{"consume_less": "", "forget_bias_init": "", "input_dim": "", "input_dtype": ""},
    **{"input_length": "", "mode": "", "output_shape": ""},
    "U_constraint": "recurrent_constraint",
    "U_regularizer": "recurrent_regularizer",
    "W_constraint": "kernel_constraint",
    "W_regularizer": "kernel_regularizer",
    "atrous_rate": "dilation_rate",
    "b_constraint": "bias_constraint",
    "b_regularizer": "bias_regularizer",
    "beta_init": "beta_initializer",
    "bias": "use_bias",
    "border_mode": "padding",
    "dim_ordering": "data_format",
    "dropout_U": "recurrent_dropout",
    "dropout_W": "dropout",
    "filter_length": "kernel_size",
    "gamma_init": "gamma_initializer",
    "init": "kernel_initializer",
    "inner_activation": "recurrent_activation",
    "inner_init": "recurrent_initializer",
    "length": "size",
    "nb_filter": "filters",
    "output_dim": "units",
    "p": "rate",
    "pool_length": "pool_size",
    "sigma": "stddev",
    "stride": "strides",
    "subsample": "strides",
    "subsample_length": "strides",
}
OF_CLASS = {
    "Embedding": {
        **{"W_constraint": "embeddings_constraint", "dropout": ""},
        **{"W_regularizer": "embeddings_regularizer", "init": "embeddings_initializer"},
        **{"input_dim": "input_dim", "output_dim": "output_dim"},
    },
    "InputLayer": {"input_dtype": "dtype"},
    "PReLU": {"init": "alpha_initializer"},
}
KERNEL_SIZES = ("nb_row", "nb_col"), ("kernel_dim1", "kernel_dim2", "kernel_dim3")
INITIALIZERS = {
    **{"normal": "random_normal", "one": "ones"},
    **{"uniform": "random_uniform", "zero": "zeros"},
}
CONSTRAINT_ARGUMENTS = {"m": "max_value"}
LAYOUTS = {"th": "channels_first", "tf": "channels_last"}
# Classes whose configs do not record the data format.
WITHOUT_LAYOUT = re.compile("(Cropping|UpSampling|ZeroPadding)[23]D")
MERGES = {
    **{"ave": "Average", "concat": "Concatenate", "dot": "Dot", "max": "Maximum"},
    **{"mul": "Multiply", "sum": "Add"},
}
CLASSES = {
    **{f"Convolution{rank}D": f"Conv{rank}D" for rank in (1, 2, 3)},
    **{f"AtrousConvolution{rank}D": f"Conv{rank}D" for rank in (1, 2)},
    "Deconvolution2D": "Conv2DTranspose",
    "SeparableConvolution2D": "SeparableConv2D",
}
# The order of gates in the weights of Keras 2, of an LSTM and of a GRU.
GATES = "ifco", "zrh"
WEIGHT = re.compile(
    r"^(?P<layer>.*)_(?P<kind>W|U|b|gamma|beta|running_mean|running_std|alphas|"
    r"depthwise_kernel|pointwise_kernel)(_(?P<gate>[ifcozrh]))?"
)
WEIGHTS = {
    **{"W": "kernel", "U": "recurrent_kernel", "alphas": "alpha", "b": "bias"},
    **{"running_mean": "moving_mean", "running_std": "moving_variance"},
}


def is_written_by(version: str | None) -> bool:
    """Return whether this version is one of Keras 1, whose first files record none."""
    return version is None or version.startswith("1.")


def as_keras_2(config: Any, weights: LayerWeights) -> tuple[Any, LayerWeights]:
    """Return the config and the weights of a model as Keras 2 would write them."""
    layers = {str(layer["config"].get("name")): layer for layer in _layers(config)}
    orders = [layer["config"].get("dim_ordering") for layer in layers.values()]
    layout = "channels_first" if "th" in orders else "channels_last"
    new = {name: tuple(_weights(old, layers)) for name, old in weights.items()}
    return _layer(config, layout), new


def _layers(config: Any) -> Iterator[Config]:
    """Yield the configs of the layers in a config; models are not among them."""
    if isinstance(config, list):
        for item in config:
            yield from _layers(item)
    elif isinstance(config, dict):
        inner = config.get("config")
        if isinstance(inner, dict) and "class_name" in config:
            yield from _layers(inner.get("layers"))
            yield from _layers(inner.get("layer"))
            yield config
        elif "class_name" in config:
            yield from _layers(inner)


def _layer(written: Any, layout: str) -> Any:
    """Convert the config of a layer or a model."""
    if not isinstance(written, dict) or "class_name" not in written:
        return written
    class_name, config = str(written["class_name"]), written.get("config")
    if isinstance(config, list):
        return {**written, "config": [_layer(item, layout) for item in config]}
    if not isinstance(config, dict):
        return written
    if class_name in ("Model", "Sequential"):
        layers = [_layer(item, layout) for item in config.get("layers") or ()]
        return {**written, "config": {**config, "layers": layers}}
    with located(layer=str(config.get("name") or class_name)):
        if class_name == "Merge":
            return {**written, **_merge(config)}
        new = _config(class_name, config)
    if WITHOUT_LAYOUT.fullmatch(class_name):
        new.setdefault("data_format", layout)
    if "layer" in new:
        new["layer"] = _layer(new["layer"], layout)
    return {**written, "class_name": CLASSES.get(class_name, class_name), "config": new}


def _merge(config: Config) -> Config:
    mode, name = config.get("mode"), config.get("name")
    if mode not in MERGES or config.get("layers"):
        raise LegacyModelError(
            f"its class is Merge, with the mode {mode!r} and "
            f"{len(config.get('layers') or ())} models of its own. Expected one of "
            f"{sorted(MERGES)} and layers of the model around it."
        )
    axes = {"Concatenate": {"axis": "concat_axis"}, "Dot": {"axes": "dot_axes"}}
    renamed = axes.get(MERGES[mode], {})
    settings = {new: config[old] for new, old in renamed.items() if old in config}
    return {"class_name": MERGES[mode], "config": {"name": name, **settings}}


def _config(class_name: str, config: Config) -> Config:
    """Convert the arguments of a layer."""
    if class_name == "BatchNormalization" and config.get("mode"):
        reason = f"it normalizes in the mode {config['mode']}, which Keras 2 dropped."
        raise LegacyModelError(reason)
    of_class = OF_CLASS.get(class_name, {})
    renamed = {"input_dtype": ""} if class_name == "Lambda" else ARGUMENTS | of_class
    named = ((renamed.get(key, key), value) for key, value in config.items())
    new = {key: _value(key, value) for key, value in named if key}
    for sizes in KERNEL_SIZES:
        if all(size in config for size in sizes):
            new["kernel_size"] = [new.pop(size) for size in sizes]
    padding = new.get("padding")
    if isinstance(padding, list) and len(padding) == 4:  # of ZeroPadding2D
        new["padding"] = [padding[:2], padding[2:]]
    return new


def _value(key: str, value: Any) -> Any:
    if key == "data_format":
        return LAYOUTS.get(value, value)
    if key.endswith("_initializer") and isinstance(value, str):
        return INITIALIZERS.get(value, value)
    if not isinstance(value, dict) or "name" not in value:
        return value
    config = {CONSTRAINT_ARGUMENTS.get(k, k): v for k, v in value.items()}
    name = config.pop("name")
    class_name = "L1L2" if key.endswith("_regularizer") else name
    return {"class_name": class_name, "config": config}


def _weights(
    weights: Iterable[LegacyWeight], layers: Mapping[str, Config]
) -> Iterator[LegacyWeight]:
    """Yield the weights of a layer in the layouts of Keras 2, with gates joined.

    `layers` are the configs of all layers in Keras 1, by name.
    """
    gates: dict[tuple[str, str], dict[str, LegacyWeight]] = {}
    for weight in weights:
        match = WEIGHT.fullmatch(weight.name)
        if match is None:
            yield weight
            continue
        owner, kind, gate = match["layer"], match["kind"], match["gate"]
        if gate is None:
            yield _weight(weight, owner, kind, layers.get(owner, {}))
            continue
        parts = gates.setdefault((owner, kind), {})
        parts[gate] = weight
        order = next(order for order in GATES if set(parts) & set(order))
        if len(parts) == len(order):
            yield _joined([parts[gate] for gate in order], owner, kind)


def _joined(parts: Sequence[LegacyWeight], owner: str, kind: str) -> LegacyWeight:
    def read() -> Array:
        return np.concatenate([part.read() for part in parts], axis=-1)

    width = sum(part.shape[-1] for part in parts)
    return dataclasses.replace(
        parts[0],
        name=f"{owner}/{WEIGHTS[kind]}",
        shape=(*parts[0].shape[:-1], width),
        read=read,
    )


def _weight(weight: LegacyWeight, owner: str, kind: str, layer: Config) -> LegacyWeight:
    """Return a weight under its name in Keras 2, in the layout of its class."""
    class_name = str(layer.get("class_name"))
    name = WEIGHTS.get(kind, kind)
    if class_name == "Embedding" and kind == "W":
        name = "embeddings"
    weight = dataclasses.replace(weight, name=f"{owner}/{name}")
    axes = _axes(class_name, layer, weight.shape) if kind == "W" else None
    if axes is None:
        return weight
    is_line = class_name in ("AtrousConvolution1D", "Convolution1D")
    read, shape = weight.read, [weight.shape[axis] for axis in axes]
    if is_line:
        shape = shape[:1] + shape[2:]
    return dataclasses.replace(
        weight,
        shape=tuple(shape),
        read=lambda: np.reshape(np.transpose(read(), axes), shape),
    )


def _axes(
    class_name: str, layer: Config, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the axes of a kernel in the order of Keras 2, or None if they are."""
    rank = len(shape)
    is_first = layer.get("config", {}).get("dim_ordering") == "th"
    if class_name in ("AtrousConvolution1D", "Convolution1D") and rank == 4:
        # Keras 1.0 wrote (filters, channels, length, 1). Source: Keras 2,
        # engine/topology.py, `preprocess_weights_for_loading`.
        settings = layer.get("config", {})
        length, filters = settings.get("filter_length"), settings.get("nb_filter")
        is_old = (*shape[:2], shape[3]) != (length, 1, filters)
        return (2, 3, 1, 0) if is_old else (0, 1, 2, 3)
    if class_name == "Deconvolution2D" and rank == 4:
        return (2, 3, 0, 1) if is_first else (0, 1, 3, 2)
    is_convolution = CLASSES.get(class_name, "").startswith("Conv")
    if is_convolution and is_first and rank > 2:
        return (*range(2, rank), 1, 0)
    return None
