"""Runs the source code of a model, and compares what it builds with the model."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_policies._common.types import Path
from keras_policies.source.graphs import Module
from keras_policies.source.objects import Style, fresh_name, is_object, text

Named = tuple[str, str, int]
LENGTHS = 5, 64  # of axes that any length fits
# What follows from the rest of a config.
DERIVED = {"build_config", "compile_config", "build_input_shape", "shared_object_id"}


def next_style(
    code: str, model: keras.Model, value: Any, module: Module, constants: Path | None
) -> Style:
    """Run a module; return its style if it builds an equal model, or the next to try.

    Raises:
        ValueError: if no style is left.
    """
    style, old, new = module.style, Normal(module.style), Normal(module.style)
    expected = old.config(value)
    kinds = {kind for kind, *_ in [*old.layers, *old.operations]}
    old.starts = {kind: _number(fresh_name(kind)) + 1 for kind in kinds}
    namespace: dict[str, Any] = {"__name__": "model", "__file__": str(constants)}
    try:
        exec(compile(code, "model.py", "exec"), namespace)
        built = namespace["build_model"]()
    except Exception as error:
        reason: str | None = f"{type(error).__name__}: {error}"
    else:
        found = new.config(keras.saving.serialize_keras_object(built))
        reason = next(_differences(expected, found), None)
        if reason is None and _weights(built) != _weights(model):
            reason = "layers in several inner models would have weights for each"
        elif reason is None and _computes_otherwise(built, model):
            reason = "its layers compute something else than their configs say"
    if reason is None:
        named = (style.named | old.renamed(new)) - module.operations
        return dataclasses.replace(style, named=named)
    if not style.explicit:
        return dataclasses.replace(style, explicit=True)
    raise ValueError(
        f"No source code builds a model equal to {model.name!r}: {reason}."
    )


def _weights(model: keras.Model) -> list[Any]:
    frozen = {id(weight) for weight in model.non_trainable_weights}
    return [(tuple(w.shape), w.dtype, id(w) in frozen) for w in model.weights]


def _computes_otherwise(built: keras.Model, model: keras.Model) -> bool:
    """Load a model's weights into another; return whether the two differ.

    Their weights are compared, and their outputs on random inputs, if the first model
    can be called on these.
    """
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(os.path.join(folder, "model.weights.h5"))
        built.load_weights(os.path.join(folder, "model.weights.h5"))
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


class Normal:
    """A config in which names, and what a style leaves out, make no difference."""

    def __init__(self, style: Style) -> None:
        self.style = style
        # Class, name and model (the id of its `places`), as found.
        self.layers, self.operations = list[Named](), list[Named]()
        self.starts = dict[str, int]()  # class -> number of the next automatic name

    def config(self, value: Any, places: Any = None) -> Any:
        """Return a config; `places` has the number of each layer of its model."""
        if isinstance(value, list | tuple):
            is_tensor = len(value) == 3 and isinstance(value[0], str)
            if is_tensor and value[0] in (places or ()):
                return [places[value[0]], *value[1:]]
            return [self.config(each, places) for each in value]
        if not isinstance(value, dict):
            return value
        if is_object(value) and isinstance(value["config"], dict):
            return self._object(value, places)
        return {
            key: self.config(each, places)
            for key, each in value.items()
            if key not in DERIVED
            and (self.style.train or not key.endswith("_initializer"))
            and not (key in ("mask", "training") and not each)
        }

    def _object(self, value: Any, places: Any) -> Any:
        own, kind = value["config"], value["class_name"]
        is_op = ".ops." in f"{value.get('module')}."
        if "name" in own:
            found = self.operations if is_op else self.layers
            found.append((kind, own["name"], id(places)))
        inner = places
        if isinstance(own.get("layers"), list) and "output_layers" in own:
            inner = {each["name"]: n for n, each in enumerate(own["layers"])}
        own = {key: each for key, each in own.items() if key != "name"}
        if kind == "Sequential":
            own.pop("dtype", None)  # of which Keras saves nothing
        if kind == "GetItem" and "inbound_nodes" in value:
            tensor, key = value["inbound_nodes"][0]["args"]
            key = [*key] if isinstance(key, list | tuple) else [key]
            is_whole = is_object(key[-1]) and key[-1]["class_name"] == "__ellipsis__"
            value = {**value, "inbound_nodes": [tensor, key[:-1] if is_whole else key]}
        others = {key: v for key, v in value.items() if key not in ("config", "name")}
        return {"config": self.config(own, inner), **self.config(others, places)}

    def renamed(self, new: "Normal") -> set[str]:
        """Return the classes whose layers would have other names in a new process.

        Raises:
            ValueError: if a layer has the name that Keras gives to an operation.
        """
        operations = {(self._fresh(*op), op[2]) for op in new.operations}
        other = set[str]()
        for (kind, old, _), made in zip(self.layers, new.layers, strict=True):
            fresh = self._fresh(*made)
            if old == made[1] != fresh and (old, made[2]) in operations:
                raise ValueError(
                    f"Keras gives the name of layer {old!r} ({kind}) to an operation, "
                    "which cannot be named in code. Give the layer another name."
                )
            other |= set() if old in (made[1], fresh) else {kind}
        return other

    def _fresh(self, kind: str, name: str, _: int = 0) -> str:
        """Return an automatic name as in a process that made no layers before."""
        number = _number(name) - self.starts.get(kind, 0)
        base = re.sub(r"_\d+$", "", name)
        return f"{base}_{number}" if number else base


def _number(name: str) -> int:
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0


def _differences(old: Any, new: Any, path: str = "model") -> Iterator[str]:
    """Yield where two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{path}[{number}]")
    elif text(old) != text(new):
        yield f"{path} is {str(new)[:200]}, expected {str(old)[:200]}"
