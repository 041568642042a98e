"""Nodes of op layers and Lambda layers: they call `keras.ops` on the tensors.

A Lambda layer becomes a Functional of its name, which is made when the shape of its
input is known.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike, Tensor
from keras_policies.legacy.assembly import nodes
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, located
from keras_policies.legacy.base.programs import Program
from keras_policies.legacy.bytecode.program import Run
from keras_policies.legacy.ops import helper_ops, node_def, table
from keras_policies.legacy.ops.complex_pairs import Complex
from keras_policies.legacy.values import axis_lengths, shapes
from keras_policies.legacy.values.evaluator import has_dims, is_tensor
from keras_policies.legacy.values.evaluator import tensor as as_tensor


class OpCall:
    """Calls the counterpart of a TensorFlow function where the op layer was called.

    `op` is `"tf.math.add"`, or the op of the NodeDef. New operations are named after
    the layer. If it is an output of the model, sizes become tensors.
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
        self.name = name
        self.path = path
        self.op = op
        self._calls = 0
        self.node_def = node_def
        self.constants = constants or {}
        self.is_output = is_output

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the counterpart, and name the operations that it makes."""
        with located(layer=self.path, code="KP302"):
            result = self._call_counterpart(args, kwargs)
            outputs = list(result) if isinstance(result, tuple) else [result]
            # The call may have found out the shapes of its arguments.
            sources = _sources([args, kwargs])
            if self.is_output:
                outputs = [as_output(output, sources) for output in outputs]
        self._name_operations(outputs, sources)
        self._calls += 1
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]

    def _call_counterpart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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
        """Name the operations between the sources and the outputs after the layer."""
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
        call = f".call_{self._calls}" if self._calls else ""
        for number, operation in enumerate(operations.values()):
            part = f".{number}" if number else ""
            operation.name = f"{self.name}{call}{part}"


def _sources(nest: Any) -> list[Any]:
    """Return the values in a nest, and the tensors that they are computed from.

    Those of a tensor are the tensors that the lengths of its axes are read from.
    """
    values: list[Any] = keras.tree.flatten(nest)
    pairs = (value.sources for value in values if isinstance(value, Complex))
    values += itertools.chain.from_iterable(pairs)
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
        reason = "its output is complex, which keras.ops has no counterpart for."
        raise LegacyModelError(reason)
    tensor = as_tensor(value)
    if not is_tensor(tensor) and any(map(is_tensor, sources)):
        tensor = helper_ops.constant(tensor, next(filter(is_tensor, sources)))
    if isinstance(keras_internals.maker_of(tensor), keras.layers.InputLayer):
        return keras.layers.Identity(dtype=tensor.dtype)(tensor)
    return tensor


class LambdaCall:
    """Makes the nested model of a Lambda layer for each shape that it is called with.

    It casts its input to the compute dtype of `policy`, calls `layer`, if any, and runs
    `program`.
    """

    def __init__(
        self,
        name: str,
        path: str,
        program: Program,
        policy: PolicyLike | None = None,
        layer: nodes.Node | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.program = program
        self.policy = policy
        self.inside = layer
        self.made: dict[str, keras.Layer] = {}

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Call the nested model; as in tf.keras, masks are not propagated."""
        if nodes.is_masked(keras.tree.flatten(inputs)):
            return self.run(inputs)
        return self._layer(inputs)(inputs)

    def ends_mask(self, tensor: Tensor) -> bool:
        return True

    def layer(self, tensors: Sequence[Tensor] = ()) -> keras.Layer:
        if not tensors and not self.made:
            reason = "the shape of its input is not in the file"
            raise LegacyModelError(f"{reason}, and its Lambda layers need it.")
        if not tensors:
            return [*self.made.values()][-1]
        return self._layer(nodes.one_or_all([*tensors]))

    def _layer(self, inputs: Any) -> keras.Layer:
        key = str([(t.shape, t.dtype) for t in keras.tree.flatten(inputs)])
        if key not in self.made:
            name = f"{self.name}_{len(self.made)}" if self.made else self.name
            new = keras.tree.map_structure(
                lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype), inputs
            )
            self.made[key] = keras.Model(new, self.run(new), name=name)
        return self.made[key]

    def run(self, inputs: Any) -> Any:
        """Return the outputs of the function for some tensors."""
        with located(layer=self.path, code="KP304"):
            taken = keras.tree.map_structure(self._cast, inputs)
            taken = taken if self.inside is None else self.inside(taken)
            taken = tuple(taken) if isinstance(taken, list) else taken
            outputs = Run(self.program, [taken]).outputs()
            outputs = list(outputs) if isinstance(outputs, tuple) else outputs
            return keras.tree.map_structure(self._output, outputs)

    def _cast(self, tensor: Tensor) -> Tensor:
        policy = None if self.policy is None else keras.dtype_policies.get(self.policy)
        wanted = getattr(policy, "compute_dtype", None)
        is_floating = keras.backend.is_float_dtype(tensor.dtype)
        if not wanted or not is_floating or tensor.dtype == wanted:
            return tensor
        return ops.cast(tensor, wanted)

    def _output(self, value: Any) -> Tensor:
        if not is_tensor(as_tensor(value)):
            raise LegacyModelError(
                f"its code returns {str(value)[:80]!r}, expected a tensor that is "
                "computed from the input of the layer."
            )
        return as_output(value)
