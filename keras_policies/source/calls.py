"""The calls of layers and operations in a Functional, in topological order."""

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import keras

from keras_policies.source import live


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A call, with KerasTensors as arguments and outputs."""

    op: Any  # a layer, an inner model or an operation
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: Any


class Stub(keras.Operation):  # type: ignore[misc]
    """Replaces an operation, because calling the operation itself would change it."""

    def __init__(self, op: Any) -> None:
        super().__init__(name=op.name)
        self.op = op

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        outputs = self.op.output  # a flat list if there are several
        if isinstance(outputs, list) or not isinstance(self.op, keras.Layer):
            outputs = self.op.compute_output_spec(*args, **kwargs)
        return keras.tree.map_structure(
            lambda x: keras.KerasTensor(x.shape, x.dtype), outputs
        )


def is_functional(cls: type) -> bool:
    """Return whether a class is that of the models that `keras.Model` makes."""
    return cls.__name__ == "Functional" and live.is_of_keras(cls)


class Graph:
    """The inputs, the outputs and the calls of a Functional."""

    def __init__(self, model: keras.Model) -> None:
        found = self._calls = list[Call]()

        def record(stub: Stub, *args: Any, **kwargs: Any) -> Any:
            outputs = stub(*args, **kwargs)
            found.append(Call(stub.op, args, kwargs, outputs))
            return outputs

        # A subclass may need more arguments, and a clone is compiled as its model is.
        if model.compiled or not is_functional(type(model)):
            model = keras.Model(model.input, model.output)
        clone = keras.models.clone_model(
            model, clone_function=Stub, call_function=record
        )
        self.inputs, self.outputs = clone.input, clone.output
        kind = keras.layers.InputLayer
        layers = {id(x.output): x for x in model.layers if isinstance(x, kind)}
        self.layers = [layers[id(x)] for x in model.inputs]
        self.calls = functools.cache(self._told)

    def _told(self, *, masks: bool) -> list[Call]:
        """Return the calls that lead to the outputs, in topological order.

        Without `masks`, they omit the masks that Keras itself passes with tensors.
        """
        told = list[Call]()
        for each in self._calls:
            items = each.kwargs.items()
            kwargs = {k: v for k, v in items if _is_told(each.op, k, v, masks)}
            told.append(dataclasses.replace(each, kwargs=kwargs))
        return _ordered(told, self.outputs)


def _is_told(op: Any, key: str, value: Any, masks: bool) -> bool:
    """Return whether the code of a call has to pass this keyword argument."""
    if key == "training" and value is None:
        return False
    parameters = inspect.signature(op.call).parameters
    is_mask = key == "mask" or key.removesuffix("_mask") in {*parameters} - {key}
    if is_mask and not masks:
        return False
    default = parameters[key].default if key in parameters else inspect
    return not is_plainly(value, default)


def is_plainly(value: Any, default: Any) -> bool:
    """Return whether a value is a plain one and equals the default."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return is_plain and repr(value) == repr(default)


def tensors(value: Any) -> list[keras.KerasTensor]:
    """Return the tensors in a structure."""
    if isinstance(value, keras.KerasTensor):
        return [value]
    if type(value) in (list, tuple):  # faster than `keras.tree`
        return [x for each in value for x in tensors(each)]
    return [x for x in keras.tree.flatten(value) if isinstance(x, keras.KerasTensor)]


def _ordered(calls: list[Call], outputs: Any) -> list[Call]:
    """Return the calls that the outputs need, in topological order."""
    made = {id(x): call for call in calls for x in tensors(call.outputs)}

    def before(values: Any) -> list[Call]:
        return [made[id(x)] for x in tensors(values) if id(x) in made]

    needs = {each: before((each.args, each.kwargs)) for each in calls}
    order, waiting = dict[Call, None](), before(outputs)[::-1]
    while waiting:
        needed = [x for x in needs[waiting[-1]] if x not in order]
        waiting += reversed(needed)
        if not needed:
            order.setdefault(waiting.pop())
    return [*order]
