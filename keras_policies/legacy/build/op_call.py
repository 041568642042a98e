"""`OpCall`, which turns the call of an op layer into nodes of `keras.ops`.

It replaces the op layer in the config while Keras builds the model. It calls
`keras.ops` on the tensors, whose history then leads past it: the model itself contains
no `OpCall`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies.legacy.base.configs import PACKAGE
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, located
from keras_policies.legacy.ops import helper_ops, node_def, table
from keras_policies.legacy.ops.complex_pairs import Complex
from keras_policies.legacy.values import axis_lengths, shapes
from keras_policies.legacy.values.evaluator import has_dims, is_tensor
from keras_policies.legacy.values.evaluator import tensor as as_tensor


@keras.saving.register_keras_serializable(PACKAGE)
class OpCall(keras_internals.LayerCall):
    """Calls a TensorFlow function's counterpart whenever Keras calls the op layer.

    The operations that it makes are named after the layer. `op` is `"tf.math.add"`, or
    the op of the NodeDef. In an output of the model, sizes become tensors.
    """

    def __init__(
        self,
        name: str,
        path: str,
        op: str,
        node_def: Config | None = None,
        constants: Config | None = None,
        is_output: bool = False,
    ) -> None:
        super().__init__(name=name)
        self.path = path
        self.op = op
        self.node_def = node_def
        self.constants = constants or {}
        self.is_output = is_output

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the counterpart, and name the operations that it makes."""
        with located(layer=self.path, code="KP302"):
            result = self._call_counterpart(args, kwargs)
            outputs = list(result) if isinstance(result, tuple) else [result]
        sources = _sources([args, kwargs])
        if self.is_output:
            with located(layer=self.path, code="KP302"):
                outputs = [as_output(output, sources) for output in outputs]
        self._name_operations(outputs, sources)
        return self.noted(tuple(outputs) if isinstance(result, tuple) else outputs[0])

    def _call_counterpart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the counterpart; raise LegacyModelError if it fails."""
        try:
            if self.node_def is None:
                return table.call(self.op.removeprefix("tf."), args, kwargs)
            tensors = args[0] if args and isinstance(args[0], list) else args
            return node_def.call(self.node_def, tensors, self.constants)
        except LegacyModelError:
            raise
        except UNEXPECTED as error:
            raise LegacyModelError(
                f"calls {self.op} in a way that keras.ops has no counterpart for: "
                f"{error}."
            ) from error

    def _name_operations(self, outputs: Sequence[Any], sources: Sequence[Any]) -> None:
        """Name the operations that this call made of some tensors after the layer."""
        before = set(map(id, sources))
        parts = keras.tree.flatten(
            [x.sources if isinstance(x, Complex) else x for x in outputs]
        )
        operations = {
            id(operation): operation
            for tensor in parts
            if is_tensor(tensor)
            for operation in keras_internals.operations_before(tensor, before)
        }
        call = f".call_{self.calls}" if self.calls else ""
        for number, operation in enumerate(operations.values()):
            part = f".{number}" if number else ""
            operation.name = f"{self.name}{call}{part}"


def _sources(nest: Any) -> list[Any]:
    """Return the values in a nest, and the tensors that they are computed from.

    A tensor comes with those that the lengths of its axes are read from.
    """
    values: list[Any] = keras.tree.flatten(nest)
    values += [
        x for value in values if isinstance(value, Complex) for x in value.sources
    ]
    sizes = [value for value in values if has_dims(value)]
    sizes += [size for value in values for size in shapes.known_shape(value)]
    return values + [
        axis.tensor for size in sizes for axis in axis_lengths.axes_in(size)
    ]


def as_output(value: Any, sources: Sequence[Any] = ()) -> Tensor:
    """Return a tensor that can be an output; in Keras 3.12 an input cannot.

    A constant, such as `tf.shape(x)[1:]`, is computed from one of the sources.
    """
    if isinstance(value, Complex):
        raise LegacyModelError(
            "its output is complex, which keras.ops has no counterpart for."
        )
    tensor = as_tensor(value)
    if not is_tensor(tensor) and any(map(is_tensor, sources)):
        tensor = helper_ops.constant(tensor, next(filter(is_tensor, sources)))
    if isinstance(keras_internals.maker_of(tensor), keras.layers.InputLayer):
        return keras.layers.Identity(dtype=tensor.dtype)(tensor)
    return tensor
