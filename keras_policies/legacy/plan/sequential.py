"""Sequential models of converted layers: what comes first in them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import is_program, layer_name
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.classes import KerasClass

Shapes: TypeAlias = Sequence[tuple[int | None, ...]]


def converted(
    cls: KerasClass,
    config: Config,
    name: Config,
    layers: list[Config],
    called_on: Shapes,
) -> Config:
    """Return a Sequential; `called_on` are the shapes that its functions take."""
    built = config.get("build_input_shape")
    layers = _with_input(config["layers"], layers, built, called_on)
    first = [layer["config"]["program"] for layer in layers[:2] if is_program(layer)]
    if any(len(program.inputs) > 1 for program in first):
        reason = "its first layer takes several tensors, and a Sequential gives it one."
        raise LegacyModelError(reason)
    return cls.with_config({**name, "layers": as_sequence(layers)})


def as_sequence(layers: list[Config]) -> list[Config]:
    """Return layers that a Sequential of Keras 3 takes.

    It cannot be empty. An Embedding by itself took ids of any rank in tf.keras, but an
    InputLayer fixes the rank: the layer is built without one.
    """
    stock = "keras.layers"
    classes_of = [layer["class_name"] for layer in layers if layer["module"] == stock]
    if len(classes_of) < len(layers):
        return layers
    if classes_of == ["InputLayer"]:
        name = {"name": f"{layers[0]['config']['name']}_output"}
        return [*layers, configs.keras_object(stock, "Identity", name)]
    if classes_of == ["InputLayer", "Embedding"]:
        shape = layers[0]["config"].get("batch_shape")
        if shape and [*shape] == [None, None]:
            return [{**layers[1], "build_config": {"input_shape": shape}}]
    return layers


def _with_input(
    written: list[Config], layers: list[Config], built: Any, called_on: Shapes
) -> list[Config]:
    """Return the layers of a Sequential, an InputLayer first if the shape is known.

    `built` is the shape that the model was built with, for layers that record none. An
    Embedding says that it takes a matrix, but may be called on ids of another rank.
    """
    first = written[0] if written else {}
    while configs.inner_layers(first):
        first = configs.inner_layers(first)[0]
    config = first.get("config") or {}
    shape = config.get("batch_input_shape")
    is_shape = built and all(n is None or isinstance(n, int) for n in built)
    if shape is None and is_shape:  # with the size of some batch
        shape = [None, *built[1:]]
    is_listed = bool(written) and written[0]["class_name"] == "InputLayer"
    others = [one for one in called_on if shape is not None and len(one) != len(shape)]
    if len({*map(len, others)}) == 1:
        layers, shape = layers[is_listed:], (None, *others[0][1:])
    elif not written or shape is None or is_listed:
        return layers
    input_config = {
        "batch_shape": list(shape),
        "dtype": policies.variable_dtype(config.get("dtype")),
        "name": layer_name(f"{config.get('name', 'first')}_input"),
    }
    return [configs.keras_object("keras.layers", "InputLayer", input_config), *layers]
