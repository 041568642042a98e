"""Layers of two libraries that wrap a layer of Keras, as that layer: for HDF5 files.

Of a SavedModel, the traced functions say what they compute; no other format names the
weights. Sources: tensorflow_addons/layers/wrappers.py, 0.20; quantize_wrapper.py,
quantize_layer.py, quantizers.py and quantize_aware_activation.py in
tensorflow_model_optimization/python/core/quantization/keras, 0.7.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel, Vocabulary
from keras_policies.legacy.base.outcomes import LeftOut
from keras_policies.legacy.base.programs import (
    Argument,
    FunctionStep,
    Program,
    StepOutput,
)
from keras_policies.legacy.base.weights import Array, LegacyWeight
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import classes

Weights: TypeAlias = tuple[LegacyWeight, ...]
Named: TypeAlias = Mapping[str, LegacyWeight]  # by the ends of their names

NORMALIZED = "Addons>WeightNormalization"
QUANTIZED = "QuantizeWrapper", "QuantizeWrapperV2", "QuantizeLayer"
# What training does otherwise now, in layers of each kind.
TRAINED = {
    NORMALIZED: "the lengths of kernels, now trained with their directions, in",
    **dict.fromkeys(
        QUANTIZED,
        "the training of ranges of quantization, and the rounding of kernels in each "
        "step (they start rounded), in",
    ),
}
RECURRENT = "GRU", "LSTM", "RNN", "SimpleRNN"
OF_BATCH = "data_dep_init"  # a copy of the layer, for its first batch
# The first weights of a layer of Keras, in order; the wrappers list them in another.
FIRST = "kernel", "depthwise_kernel", "recurrent_kernel"
SMALLEST = np.float32(1e-12)  # of a sum of squares: `epsilon` of tf.nn.l2_normalize
# Settings that mean 8 bits, with a narrow range for weights and a wide one for others.
EIGHT_BITS = (
    *("NoOpQuantizeConfig", "Default8BitQuantizeConfig"),
    *("Default8BitActivationQuantizeConfig", "Default8BitOutputQuantizeConfig"),
    *("Default8BitConvQuantizeConfig", "Default8BitConvTransposeQuantizeConfig"),
)
RANGE = "_min", "_max", "optimizer_step"  # the ends of names
QUANTIZERS = "AllValuesQuantizer", "LastValueQuantizer", "MovingAverageQuantizer"
AWARE, NO_ACTIVATION = "QuantizeAwareActivation", "NoOpActivation"
ROUND = "quantization.fake_quant_with_min_max_vars"
# Activations whose input is rounded -> what computes them.
AFTER_ROUNDING = {
    **{"gelu": "tf.nn.gelu", "sigmoid": "tf.math.sigmoid"},
    **{"softmax": "tf.nn.softmax", "tanh": "tf.math.tanh"},
}


def unwrapped(legacy: LegacyModel) -> LegacyModel:
    """Return the model with the kernels that wrappers computed, and their ranges."""
    if legacy.format != "H5" or not configs.is_graph(legacy.config):
        return legacy
    found = _Found()
    weights, layers = dict(legacy.weights), []
    for layer in configs.inner_layers(legacy.config):
        name = configs.name_of(layer)
        layer, weights[name] = found.layer(layer, weights.get(name, ()), "")
        layers.append(layer)
    if not (found.kinds or found.ranges):
        return legacy
    kept = {id(weight): weight for items in weights.values() for weight in items}
    kept |= found.renewed
    slots = (
        dataclasses.replace(slot, variable=kept[id(slot.variable)])
        for slot in legacy.optimizer.slots
        if id(slot.variable) in kept
    )
    told = (LeftOut(text, "KP605") for text in found.texts())
    return dataclasses.replace(
        legacy,
        config=configs.with_layers(legacy.config, layers),
        weights=weights,
        optimizer=dataclasses.replace(legacy.optimizer, slots=(*slots,)),
        vocabularies={**legacy.vocabularies, **found.ranges},
        not_converted=(*legacy.not_converted, *told),
    )


class _Found:
    """The wrappers in a model."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[str]] = {}  # what is told -> paths
        self.ranges: dict[str, Vocabulary] = {}  # by their paths
        # The id of a weight -> the same weight, rounded.
        self.renewed: dict[int, LegacyWeight] = {}

    def texts(self) -> list[str]:
        """Return what training does otherwise now."""
        return [f"{kind} {', '.join(self.kinds[kind])}" for kind in self.kinds]

    def _tell(self, kind: str, path: str) -> None:
        self.kinds.setdefault(TRAINED[kind], []).append(repr(path))

    def layer(
        self, layer: Config, weights: Weights, prefix: str
    ) -> tuple[Config, Weights]:
        """Return the config and the weights of a layer, or of all in a model."""
        path, kind = budget.layer_path(prefix, configs.name_of(layer)), _kind(layer)
        if configs.is_graph(layer):
            inner = []
            for each in configs.inner_layers(layer):
                each, weights = self.layer(each, weights, f"{path}/")
                inner.append(each)
            return configs.with_layers(layer, inner), weights
        if kind not in TRAINED or classes.is_registered(layer):
            return layer, weights
        if kind == NORMALIZED:
            self._tell(kind, path)
            return _normalized(layer, weights)
        own, new = _rounded(layer, weights)
        by_name = {weight.name: weight for weight in new}
        self.renewed |= {id(w): by_name[w.name] for w in own if w.name in by_name}
        ranges = tuple(weight for weight in own if weight not in new)
        self.ranges[path] = Vocabulary(weights=ranges)
        if len(ranges) > 1:  # not only its steps are counted
            self._tell(kind, path)
        return layer, _replaced(weights, own, new)


def _kind(layer: Config) -> str:
    return str(layer.get("class_name"))


def _named(weights: Weights, name: str) -> Named:
    """Return the weights of a layer: in a nested model, their names say so."""
    found: dict[str, LegacyWeight] = {}
    for weight in weights:
        around, _, end = f"/{weight.name}".rpartition("/")
        if f"/{name}/" not in f"{around}/" or OF_BATCH in around:
            continue
        if end in found:
            raise LegacyModelError(
                f"the file has two weights {end!r} that may be those of {name!r}."
            )
        found[end] = weight
    return found


def _one(weights: Named, end: str, name: str) -> LegacyWeight:
    if end not in weights:
        reason = f"corrupt: the layer {name!r} has no weight {end!r}, only"
        raise LegacyModelError(f"{reason} {sorted(weights)}.")
    return weights[end]


def _replaced(weights: Weights, own: Weights, new: Weights) -> Weights:
    """Return weights with the own ones of a layer replaced, in the order of Keras.

    `new` has some of them, by their names; each list of a model keeps its place.
    """
    by_name = {weight.name: weight for weight in new}
    order = {end: place for place, end in enumerate(FIRST)}
    in_order = iter(
        sorted(
            (by_name[each.name] for each in weights if each.name in by_name),
            key=lambda each: order.get(each.name.rpartition("/")[2], len(order)),
        )
    )
    dropped = {weight.name for weight in own}
    kept = (
        each for each in weights if each.name in by_name or each.name not in dropped
    )
    return tuple(next(in_order) if each.name in by_name else each for each in kept)


def _normalized(layer: Config, weights: Weights) -> tuple[Config, Weights]:
    """Return the layer in a WeightNormalization, with the kernel v / |v| * g."""
    name, settings = configs.name_of(layer), configs.settings(layer)
    inner = _inner(layer)
    named = _named(weights, name)
    length, is_set = (_one(named, end, name) for end in ("g", "initialized"))
    end = "recurrent_kernel" if _kind(inner) in RECURRENT else "kernel"
    kernel = _one(named, end, name)
    if not is_set.read().any():
        if settings.get("data_init", True):
            raise LegacyModelError(
                f"the layer {name!r} was never called: tf.keras scales it by its first "
                "batch (data_init=True), which the file does not hold.",
                "Call the model on a batch in tf.keras, and save it again.",
            )
        product = kernel.read  # g becomes |v| in the first call
    else:
        product = functools.partial(_product, kernel, length)
    new = {**named, end: dataclasses.replace(kernel, read=product)}
    kept = tuple(new[end] for end in new if end not in ("g", "initialized"))
    copies = (each for each in weights if f"/{name}/{OF_BATCH}/" in f"/{each.name}")
    of_wrapper = {"name": name, "trainable": settings.get("trainable", True)}
    config = {**inner, "config": {**inner["config"], **of_wrapper}}
    entry = {key: layer[key] for key in ("name", "inbound_nodes") if key in layer}
    return config | entry, _replaced(weights, (*named.values(), *copies), kept)


def _inner(layer: Config) -> Config:
    inner = configs.settings(layer).get("layer")
    if not isinstance(inner, dict) or not configs.settings(inner):
        name = configs.name_of(layer)
        raise LegacyModelError(f"corrupt: {name!r} has no config of a layer in it.")
    return inner


def _product(kernel: LegacyWeight, length: LegacyWeight) -> Array:
    v = kernel.read()
    squares = np.sum(np.square(v), axis=tuple(range(v.ndim - 1)), keepdims=True)
    return np.asarray(v / np.sqrt(np.maximum(squares, SMALLEST)) * length.read())


def _rounded(layer: Config, weights: Weights) -> tuple[Weights, Weights]:
    """Return the weights of a quantized layer, and those of Keras's layer, rounded."""
    name, settings = configs.name_of(layer), configs.settings(layer)
    own = _named(weights, name)
    ranges = {end: own[end] for end in own if end.endswith(RANGE)}
    if _kind(layer) == "QuantizeLayer":
        return (*ranges.values(),), ()
    _check(settings.get("quantize_config"), EIGHT_BITS, name)
    # A layer that was built in its wrapper has its weights under the wrapper's name.
    inner: Named = {end: own[end] for end in own if end not in ranges}
    inner = inner or _named(weights, configs.name_of(_inner(layer)))
    new = {
        end: _in_range(weight, ranges, end) if f"{end}_min" in ranges else weight
        for end, weight in inner.items()
    }
    return (*ranges.values(), *inner.values()), (*new.values(),)


def _check(written: Any, known: Collection[str], name: str) -> None:
    """Raise unless the settings of quantization are known."""
    written = written if isinstance(written, dict) else {}
    kind, within = _kind(written), configs.settings(written).get("quantize_config")
    if kind == "OutputOnlyConfig":
        return _check(within, known, name)
    if kind not in known:
        raise LegacyModelError(
            f"the layer {name!r} is quantized by {kind}, expected one of "
            f"{', '.join(known)}.",
            "Save the model as a SavedModel in tf.keras.",
        )


def _in_range(kernel: LegacyWeight, ranges: Named, end: str) -> LegacyWeight:
    low, high = (_one(ranges, f"{end}_{each}", end) for each in ("min", "max"))

    def read() -> Array:
        # Imported here: few models are quantized, and the table has many modules.
        from keras_policies.legacy.ops import table

        bounds = low.read(), high.read()
        rounded = table.call(ROUND, (kernel.read(), *bounds, 8, True), {})
        return np.asarray(rounded, kernel.dtype)

    return dataclasses.replace(kernel, read=read)


def program(
    class_name: str, config: Config, learned: Vocabulary
) -> tuple[Config | None, Program]:
    """Return the layer of tf.keras that is quantized, if any, and what follows it."""
    name, steps = str(config.get("name")), []
    ranges = _named(learned.weights, name)
    value: Argument | StepOutput = Argument(0)

    def add(function: str, *args: Any) -> None:
        nonlocal value
        steps.append(FunctionStep(function, (value, *args)))
        value = StepOutput(len(steps) - 1)

    def add_rounding(end: str, bits: int = 8, is_narrow: bool = False) -> None:
        bounds = (_one(ranges, f"{end}_{each}", name) for each in ("min", "max"))
        add(f"tf.{ROUND}", *(each.read() for each in bounds), bits, is_narrow)

    if class_name == "QuantizeLayer":
        quantizer = config.get("quantizer")
        if quantizer is not None:
            _check(quantizer, QUANTIZERS, name)
            found = configs.settings(quantizer)
            add_rounding(name, found["num_bits"], found["narrow_range"])
        return None, Program((*steps,), value)
    inner = config["layer"]
    inner, activation = _activation({**inner, "config": {**inner["config"]}})
    if "pre_activation_min" in ranges:
        add_rounding("pre_activation")
        add(AFTER_ROUNDING[activation])
        inner["config"]["activation"] = "linear"
    for end in ("post_activation", "output"):
        if f"{end}_min" in ranges:
            add_rounding(end)
    return inner, Program((*steps,), value)


def _activation(inner: Config) -> tuple[Config, str]:
    """Return a layer with its activation by name, and that name."""
    written = inner["config"].get("activation")
    if isinstance(written, dict) and _kind(written) == AWARE:
        written = configs.settings(written).get("activation")
        is_none = isinstance(written, dict) and _kind(written) == NO_ACTIVATION
        written = "linear" if is_none else written
        inner["config"]["activation"] = written
    return inner, str(written)
