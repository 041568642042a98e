"""Runs the source code of a model, and compares the result with the model."""

import concurrent.futures
import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import keras
import numpy as np

from keras_policies.source.calls import Graph, tensors
from keras_policies.source.graphs import Module, data
from keras_policies.source.objects import (
    Style,
    automatic,
    config_of,
    is_model,
    is_object,
    text,
)

Result = TypeVar("Result")
LENGTHS = 5, 64  # of axes that any length fits
# What follows from the rest of a config, or is compared by itself.
DERIVED = {"build_config", "compile_config", "build_input_shape", "shared_object_id"}


@dataclasses.dataclass(frozen=True)
class Name:
    """The name of a layer in a config."""

    kind: str  # its class
    name: str


def apart(function: Callable[[], Result]) -> Result:
    """Return the result of a function in a new thread, where Keras is as at its start.

    Its global policy, and the numbers in names of layers, belong to a thread.
    """

    def run() -> Result:
        keras.config.set_dtype_policy("float32")
        return function()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def next_style(code: str, model: keras.Model, module: Module, folder: str) -> Style:
    """Run a module; return its style if it builds an equal model, or the next to try.

    The file with its constants is in `folder`, which gets a file of weights.

    Raises:
        ValueError: if no style is left.
    """
    style = module.style

    def build() -> keras.Model:
        file = os.path.join(folder, "model.py")
        namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
        exec(compile(code, "model.py", "exec"), namespace)
        return namespace["build_model"]()

    try:
        built = apart(build)
        found = [*_differences(_described(model, style), _described(built, style))]
    except Exception as error:
        _check_names(module)
        reason: str | None = f"{type(error).__name__}: {error}"
    else:
        reason = next((each for each, kind in found if not kind), None)
        named = style.named | ({kind for _, kind in found} - module.operations)
        if reason is None and named > style.named:
            return dataclasses.replace(style, named=named)
        if reason is None and _weights(built) != _weights(model):
            reason = "layers in several inner models would have weights for each"
        elif reason is None and _computes_otherwise(built, model, folder):
            reason = "its layers compute something else than their configs say"
    if reason is None:
        return style
    if not style.explicit:
        return dataclasses.replace(style, explicit=True)
    raise ValueError(
        f"No source code builds a model equal to {model.name!r}: {reason}."
    )


def _check_names(module: Module) -> None:
    """Raise if a layer may have the name that Keras gives to an operation."""
    names = {automatic(kind) for kind in module.operations}
    for name, kind in module.names.items():
        if re.sub(r"_\d+$", "", name) in names:
            raise ValueError(
                f"Keras gives the name of layer {name!r} ({kind}) to an operation, "
                "which cannot be named in code. Give the layer another name."
            )


def _described(op: Any, style: Style) -> Any:
    """Return the config of a layer or a model, with numbers in the place of tensors."""
    value = config_of(op)
    if not is_model(value):
        return _comparable(value, style)
    kind, own = value["class_name"], value["config"]
    config = {"name": Name(kind, own["name"]), "trainable": own.get("trainable")}
    if hasattr(op, "operations"):
        graph, numbers = Graph(op, masks=True), dict[int, str]()
        for x in tensors([graph.inputs, [each.outputs for each in graph.calls]]):
            numbers[id(x)] = f"tensor {len(numbers)}"
        layers = [_described(layer, style) for layer in graph.layers]
        for each in graph.calls:
            call = each.args, each.kwargs, each.outputs
            called = _comparable(data(call, numbers), style)
            layers.append([_described(each.op, style), called])
        ends = _comparable(data((graph.inputs, graph.outputs), numbers), style)
        config["layers"] = [layers, ends, [type(x).__name__ for x in op.layers]]
    else:
        first = own["layers"][0]  # which may be an input
        layers = [_described(layer, style) for layer in op.layers]
        config["layers"] = [_comparable(first, style), *layers]
    return {"class_name": kind, "config": config}


def _comparable(value: Any, style: Style) -> Any:
    """Return a config without names of operations and parts that a style leaves out."""
    if isinstance(value, list | tuple):
        return [_comparable(each, style) for each in value]
    if not isinstance(value, dict):
        return value
    if is_model(value):  # in another object, such as TimeDistributed
        return _described(keras.saving.deserialize_keras_object(value), style)
    if is_object(value) and "name" in (value["config"] or ()):
        is_operation = ".ops." in f"{value['module']}."
        name = (
            None if is_operation else Name(value["class_name"], value["config"]["name"])
        )
        value = {**value, "config": {**value["config"], "name": name}}
    return {
        key: _comparable(each, style)
        for key, each in value.items()
        if key not in DERIVED and (style.train or not key.endswith("_initializer"))
    }


def _differences(old: Any, new: Any, path: str = "model") -> Iterator[tuple[str, str]]:
    """Yield where two configs differ, and the class of a layer if its name does."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{path}[{number}]")
    elif isinstance(old, Name) and isinstance(new, Name):
        if old != new:
            yield "", old.kind
    elif text(old) != text(new):
        yield f"{path} is {str(new)[:200]}, expected {str(old)[:200]}", ""


def _weights(model: keras.Model) -> list[Any]:
    frozen = {id(weight) for weight in model.non_trainable_weights}
    return [(tuple(w.shape), w.dtype, id(w) in frozen) for w in model.weights]


def _computes_otherwise(built: keras.Model, model: keras.Model, folder: str) -> bool:
    """Load a model's weights into another; return whether the two differ.

    Their weights are compared, and their outputs on random inputs, if the first model
    can be called on these.
    """
    file = os.path.join(folder, "model.weights.h5")
    model.save_weights(file, overwrite=True)
    built.load_weights(file)
    if _values(model) != _values(built):
        return True
    for length in LENGTHS:
        try:
            arrays = [_example(x, length) for x in model.inputs]
            is_one = isinstance(model, keras.Sequential)
            structure = None if is_one else model.input
            nest = keras.tree.pack_sequence_as(structure, arrays)
            expected = _outputs(model, model, nest)
        except Exception:  # a text, or an axis that is too short
            continue
        try:
            pairs = zip(expected, _outputs(built, model, nest), strict=True)
            return not all(np.allclose(a, b, 1e-3, equal_nan=True) for a, b in pairs)
        except Exception:  # the other model takes these inputs, or gives other shapes
            return True
    return False


def _values(model: keras.Model) -> list[bytes]:
    """Return the weights, bit for bit."""
    return [keras.ops.convert_to_numpy(w.value).tobytes() for w in model.weights]


def _example(x: keras.KerasTensor, length: int) -> Any:
    """Return an input of normal numbers, or of 0 and 1 if it takes integers."""
    sizes = [2 if n is None and at == 0 else n for at, n in enumerate(x.shape)]
    shape = [length if n is None else n for n in sizes]
    numbers = np.random.default_rng(0).normal(size=shape)
    return keras.ops.cast(numbers if "float" in x.dtype else numbers > 0, x.dtype)


def _outputs(model: keras.Model, other: keras.Model, nest: Any) -> list[Any]:
    """Return the outputs of a model in the state of another; change neither."""
    kinds = other.trainable_variables, other.non_trainable_variables
    values = ([variable.value for variable in each] for each in kinds)
    outputs, _ = model.stateless_call(*values, nest, training=False)
    floats = (keras.ops.cast(x, "float32") for x in keras.tree.flatten(outputs))
    return [*map(keras.ops.convert_to_numpy, floats)]
