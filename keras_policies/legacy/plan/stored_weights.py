"""Checks the weights in a file against the settings of its layers, before building.

An H5 file and a SavedModel list the weights of a layer in the order in which the class
creates them; a `.keras` file of Keras 2 numbers them so. Sources: `build` of each class
in Keras 2.15.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from keras_policies._common.text import cut
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import COPY_AGAIN, LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.weights import LegacyWeight, is_unknown
from keras_policies.legacy.plan import classes

Shape = tuple[int | None, ...] | None  # None is any length, or any shape
Shapes = Iterator[Shape]
OTHER_KINDS = "iubSOc"  # of NumPy: no weight in `SHAPES` has such a dtype
H5 = "H5"
FORMATS = H5, "Keras 2 .keras", "SavedModel"
# A layer of Keras with one of these settings has that weight, whatever the others are.
WITH_WEIGHTS = frozenset(
    f"{weight}_initializer"
    for weight in ("kernel", "depthwise", "embeddings", "moving_mean")
)


def _dense(config: Config) -> Shapes:
    yield None, config["units"]
    yield from _bias(config, config["units"])


def _bias(config: Config, size: int | None) -> Shapes:
    if config.get("use_bias", True):
        yield (size,)


def _kernel(config: Config, rank: int) -> tuple[int, ...]:
    size = config["kernel_size"]
    return (size,) * rank if isinstance(size, int) else tuple(size)


def _convolution(config: Config, rank: int) -> Shapes:
    yield *_kernel(config, rank), None, config["filters"]
    yield from _bias(config, config["filters"])


def _transposed(config: Config, rank: int) -> Shapes:
    yield *_kernel(config, rank), config["filters"], None
    yield from _bias(config, config["filters"])


def _depthwise(config: Config, rank: int) -> Shapes:
    yield *_kernel(config, rank), None, config["depth_multiplier"]
    yield from _bias(config, None)


def _separable(config: Config, rank: int) -> Shapes:
    yield *_kernel(config, rank), None, config["depth_multiplier"]
    yield *(1,) * rank, None, config["filters"]
    yield from _bias(config, config["filters"])


def _recurrent(config: Config, gates: int) -> Shapes:
    units, size = config["units"], gates * config["units"]
    yield None, size
    yield units, size
    if config.get("use_bias", True):  # of a GRU, two rows with reset_after
        yield (size,) if gates != GRU else None


def _embedding(config: Config) -> Shapes:
    yield config["input_dim"], config["output_dim"]


def _normalization(config: Config, statistics: int) -> Shapes:
    flags = config.get("scale", True), config.get("center", True)
    yield from [None] * (sum(map(bool, flags)) + statistics)


GRU = 3  # gates
SHAPES: Mapping[str, Callable[[Config], Shapes]] = {
    "BatchNormalization": partial(_normalization, statistics=2),
    "Dense": _dense,
    "Embedding": _embedding,
    "GRU": partial(_recurrent, gates=GRU),
    "LSTM": partial(_recurrent, gates=4),
    "LayerNormalization": partial(_normalization, statistics=0),
    "SimpleRNN": partial(_recurrent, gates=1),
    **{f"Conv{n}D": partial(_convolution, rank=n) for n in (1, 2, 3)},
    **{f"Conv{n}DTranspose": partial(_transposed, rank=n) for n in (1, 2, 3)},
    **{f"DepthwiseConv{n}D": partial(_depthwise, rank=n) for n in (1, 2)},
    **{f"SeparableConv{n}D": partial(_separable, rank=n) for n in (1, 2)},
}


def check(
    legacy: LegacyModel, left_out: Sequence[str], rebuilt: Collection[str]
) -> None:
    """Raise if a layer of Keras lacks weights in the file, or has others than it needs.

    Layers that are `left_out` have no weights in `legacy`, whatever the file has. Those
    that are `rebuilt` need what their functions read. In a `.keras` file, a layer may
    be stored with another model. A SavedModel shows that a class is not that of Keras.
    """
    listed = [] if "" in rebuilt else _layers(legacy)
    layers = {layer_name(configs.name_of(x)): x for x in listed}
    stored = {layer_name(name): _usable(each) for name, each in legacy.weights.items()}
    unread = layers.keys() - {*map(layer_name, left_out)}
    lacking = [name for name in layers if name in unread and not stored.get(name)]
    lacking = [name for name in lacking if _has_weights(layers[name])]
    if lacking and legacy.format == H5:
        named = ", ".join(map(repr, cut(lacking)))
        raise LegacyModelError(f"it has no weights of {named}.", str(COPY_AGAIN))
    found = {
        name: _misfit(name, layers.get(name), weights)
        for name, weights in stored.items()
        if layers and name and weights and name not in rebuilt
    }
    if wrong := {name: text for name, text in found.items() if text}:
        hint = "" if legacy.traced else str(COPY_AGAIN)
        raise LegacyModelError(
            "the weights do not fit the model, so none was loaded:\n  "
            + "\n  ".join(cut([*wrong.values()])),
            hint,
            suspects=[str(layers.get(name, {}).get("class_name")) for name in wrong],
        )


def _layers(legacy: LegacyModel) -> list[Config]:
    """Return the configs of a model's layers, [] if their weights cannot be checked."""
    is_listed = legacy.format in FORMATS and legacy.has_weights
    is_known = is_listed and _has_sizes(legacy.config)
    return configs.inner_layers(legacy.config) if is_known else []


def _usable(weights: Sequence[LegacyWeight]) -> list[LegacyWeight]:
    return [weight for weight in weights if not is_unknown(weight)]


def _is_stock(layer: Config) -> bool:
    is_stock = classes.is_in("keras.layers", str(layer.get("class_name")))
    return is_stock and not classes.is_registered(layer)


def _has_weights(layer: Config) -> bool:
    """Return whether a layer of Keras has weights, whatever its other settings are."""
    return _is_stock(layer) and not WITH_WEIGHTS.isdisjoint(configs.settings(layer))


def _misfit(
    name: str, layer: Config | None, weights: Sequence[LegacyWeight]
) -> str | None:
    """Return a sentence about a layer whose weights are others than it needs.

    More weights than it needs may be left: building the model shows it.
    """
    if layer is None:
        return f"{name!r} is no layer of the model"
    shapes = _shapes(layer)
    if shapes is None or len(weights) > len(shapes):
        return None
    if len(weights) == len(shapes) and all(map(_fits, weights, shapes)):
        return None
    wanted = ", ".join(map(_text, shapes))
    held = ", ".join(f"{weight} of {weight.dtype}" for weight in weights)
    return f"{name!r} has weights of the shapes [{wanted}], the file holds [{held}]"


def _shapes(layer: Config) -> list[Shape] | None:
    """Return the shapes of a layer's weights, None if its settings do not give them."""
    name, settings = str(layer.get("class_name")), configs.settings(layer)
    if name not in SHAPES or not _is_stock(layer) or settings.get("renorm"):
        return None
    try:
        return [*SHAPES[name](settings)]
    except (KeyError, TypeError):
        return None  # making the layer raises the error


def _fits(weight: LegacyWeight, shape: Shape) -> bool:
    if shape is None:
        return True
    same_kind = len(weight.shape) == len(shape) and weight.dtype.kind not in OTHER_KINDS
    return same_kind and all(
        expected in (None, size)
        for size, expected in zip(weight.shape, shape, strict=True)
    )


def _text(shape: Shape) -> str:
    sizes: Sequence[Any] = ("...",) if shape is None else shape
    return f"({', '.join('any' if size is None else str(size) for size in sizes)})"


def _has_sizes(config: Config) -> bool:
    """Return whether a model has weights as soon as it is made from its config."""
    first = next(iter(configs.inner_layers(config)), {})
    sizes = {"batch_input_shape", "build_input_shape"}
    known = {*configs.settings(first), *configs.settings(config)}
    return config.get("class_name") != "Sequential" or not sizes.isdisjoint(known)
