"""What must be equal for equal models, computed in each of two processes."""

import ast
import hashlib
import math
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies._common import comparing, files
from keras_policies.source.graphs import Module, Reader
from keras_policies.source.layout import shown
from keras_policies.source.live import held
from keras_policies.source.objects import Style
from keras_policies.source.tree import Node, Policy, replaced

FROM_MASKS = "zero_output_for_mask"  # set by Bidirectional, and unused without masks


class Description(NamedTuple):
    """What must be equal for equal models, besides values."""

    lines: list[str]  # what is computed, without names
    names: list[tuple[str, str]]  # classes and names of layers, as they are created
    weights: list[Any]  # their shapes and dtypes, and whether they are frozen


def described(
    model: keras.Model,
    *,
    train: bool = False,
    compile: bool = False,
    reader: Reader | None = None,
) -> Description:
    """Return the description of a model, also of its initializers and its training."""
    module = Module(Style(train=train, explicit=True, full=True), reader)
    tree = module.tree(module.draft(model, compile=compile))
    has_masks = any(map(_has_mask, (x for each in tree for x in ast.walk(each))))

    def new(node: Node) -> Node | None:
        if isinstance(node, ast.Call) and not has_masks:
            kept = [x for x in node.keywords if x.arg != FROM_MASKS]
            if len(kept) < len(node.keywords):
                return replaced(ast.Call(node.func, node.args, kept), new)
        return ast.Constant(node.name) if isinstance(node, Policy) else None

    lines = list[str]()
    for function in replaced(tree, new):
        lines += [shown(each) for each in (function, *function.body)]
    constants = (np.array(value).tobytes() for value in module.constants.values())
    digests = [hashlib.sha256(each).hexdigest() for each in constants]
    frozen = {id(weight) for weight in model.non_trainable_weights}
    weights = [(tuple(w.shape), str(w.dtype), id(w) in frozen) for w in model.weights]
    return Description([*lines, *digests], module.names, weights)


def _has_mask(node: ast.AST) -> bool:
    """Return whether code passes a mask, or may create one in a Sequential."""
    match node:
        case ast.keyword(arg="mask"):
            return True
        case ast.keyword(arg="mask_zero", value=ast.Constant(value=value)):
            return bool(value)  # 1 in some files
        case ast.Call(func=ast.Attribute(attr="Masking" | "Sequential")):
            return True
    return False


def size_of_weights(model: keras.Model) -> int:
    """Return the size of a model's weights in bytes."""
    sizes = (math.prod(w.shape) * np.dtype(w.dtype).itemsize for w in model.weights)
    return sum(sizes)


def write_weights(model: keras.Model, file: pathlib.Path) -> None:
    """Write the values of a model's weights; raise OSError if there is no room."""
    files.check_room(file, size_of_weights(model))
    with file.open("wb") as opened:
        for weight in model.weights:
            value = keras.ops.convert_to_numpy(weight.value)
            value.astype(weight.dtype, copy=False).tofile(opened)


def read_weights(model: keras.Model, file: str) -> None:
    """Give a model with equal weights the values that `write_weights` wrote."""
    with open(file, "rb") as opened:
        for weight in model.weights:
            value = np.fromfile(opened, weight.dtype, math.prod(weight.shape))
            weight.assign(value.reshape(weight.shape))
    for layer in parts(model):
        # Some keep what they compute from weights as they load them: Normalization.
        if not isinstance(layer, keras.Layer):
            continue
        if type(layer).load_own_variables is not keras.Layer.load_own_variables:
            store: dict[str, Any] = {}
            layer.save_own_variables(store)
            layer.load_own_variables(store)


def parts(model: keras.Model) -> list[Any]:
    """Return a model, and all layers and operations in it."""
    found, waiting = dict[int, Any](), [model]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            found[id(each)] = each
            inside = held([*vars(each).values()], 3)
            waiting += [x for x in inside if isinstance(x, keras.Operation)]
    return [*found.values()]


def example(
    model: keras.Model, recipes: Iterable[comparing.Recipe]
) -> tuple[comparing.Recipe, list[Any]] | None:
    """Return the first recipe that a model can be called on, and its outputs."""
    for recipe in recipes:
        try:
            arrays = comparing.draw(model.inputs, recipe)
            # Unlike the model, its `call` takes other sizes than those of its inputs.
            found = outputs(model, arrays, model.call if recipe.side else model)
        except Exception:  # such as for a text, or an axis that is too short
            continue
        # Not all backends raise if an image is too small: it becomes empty, or NaN.
        if not recipe.side or all(x.size and np.isfinite(x).all() for x in found):
            return recipe, found
    return None


class _Start(keras.StatelessScope):  # type: ignore[misc]
    """Keeps the values of weights; others, such as states of RNNs, are 0."""

    def get_current_value(self, variable: Any) -> Any:
        value = super().get_current_value(variable)
        return keras.ops.zeros(variable.shape) if value is None else value


def outputs(
    model: keras.Model, arrays: Sequence[Any], call: Callable[..., Any]
) -> list[Any]:
    """Return the outputs of a model as float32, without changing its variables."""
    tensors = [*map(keras.ops.convert_to_tensor, arrays)]
    structure = None if isinstance(model, keras.Sequential) else model.input
    inputs = keras.tree.pack_sequence_as(structure, tensors)
    variables = model.trainable_variables + model.non_trainable_variables
    # Without gradients, torch frees the outputs of layers as soon as it can.
    with _Start([(x, keras.ops.stop_gradient(x.value)) for x in variables]):
        found = keras.tree.flatten(call(inputs, training=False))
        floats = [keras.ops.cast(x, "float32") for x in found]
    return [*map(keras.ops.convert_to_numpy, floats)]
