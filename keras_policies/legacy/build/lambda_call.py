"""Lambda layers as nested models of `keras.ops`, made when Keras calls them.

Only then is the shape of their input known. A `LambdaCall` takes the place of the layer
while Keras builds the model; the model itself contains a Functional of the same name.
"""

from typing import Any

import keras
from keras import ops

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike, Tensor
from keras_policies.legacy.base.calls import Program
from keras_policies.legacy.base.configs import PACKAGE
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.bytecode import program as programs
from keras_policies.legacy.values.evaluator import is_tensor
from keras_policies.legacy.values.evaluator import tensor as as_tensor


@keras.saving.register_keras_serializable(PACKAGE)
class LambdaCall(keras_internals.LayerCall):
    """Makes the nested model of a Lambda layer for each shape that it is called with.

    Args:
        name: of the layer.
        path: the same, after the names of the models around it.
        program: what its function does.
        policy: the layer casts its input to this policy's compute dtype.
        is_of_steps: whether a TimeDistributed of the name is around the layer.
    """

    def __init__(
        self,
        name: str,
        path: str,
        program: Program,
        policy: PolicyLike | None = None,
        is_of_steps: bool = False,
    ) -> None:
        super().__init__(name=name)
        self.path = path
        self.program = program
        self.policy = policy
        self.is_of_steps = is_of_steps
        self.made: dict[str, keras.Layer] = {}

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Call the nested model.

        A mask ends here, as it did in tf.keras; a nested model would hand it on.
        """
        masks = map(keras_internals.mask_of, keras.tree.flatten(inputs))
        is_masked = any(mask is not None for mask in masks)
        return self.noted(self.run(inputs) if is_masked else self.layer(inputs)(inputs))

    def layer(self, inputs: Any) -> keras.Layer:
        """Return the layer for the shapes and dtypes of some inputs."""
        key = str([(t.shape, t.dtype) for t in keras.tree.flatten(inputs)])
        if key not in self.made:
            number = f"_{len(self.made)}" if self.made else ""
            name = f"{self.name}{number}"
            make = self._of_steps if self.is_of_steps else self._model
            self.made[key] = make(inputs, name)
        return self.made[key]

    def _model(self, inputs: Any, name: str) -> keras.Model:
        keras_inputs = keras.tree.map_structure(
            lambda tensor: keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype),
            inputs,
        )
        return keras.Model(keras_inputs, self.run(keras_inputs), name=name)

    def _of_steps(self, inputs: Tensor, name: str) -> keras.Layer:
        """Return a TimeDistributed around the model for one step of time."""
        step = keras.KerasTensor((inputs.shape[0], *inputs.shape[2:]), inputs.dtype)
        return keras.layers.TimeDistributed(
            self._model(step, f"{name}_step"), name=name
        )

    def run(self, inputs: Any) -> Any:
        """Return the outputs of the function for some tensors."""
        with located(layer=self.path, code="KP304"):
            outputs = programs.run(
                self.program, keras.tree.map_structure(self._cast, inputs)
            )
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
        tensor = as_tensor(value)
        if not is_tensor(tensor):
            raise LegacyModelError(
                f"its code returns {str(value)[:80]!r}, expected a tensor that is "
                "computed from the input of the layer."
            )
        if isinstance(keras_internals.maker_of(tensor), keras.layers.InputLayer):
            return keras.layers.Identity(dtype=tensor.dtype)(tensor)
        return tensor


@keras.saving.register_keras_serializable(PACKAGE)
class SequenceWithCalls(keras.Operation):  # type: ignore[misc]
    """Makes a Sequential whose Lambda layers need the shapes of their inputs."""

    @classmethod
    def from_config(cls, config: Config) -> keras.Model:
        """Return the Sequential, or a Functional of it where a mask has to end."""
        first, *rest = map(
            keras.saving.deserialize_keras_object, config["layers"] or [None]
        )
        if not isinstance(first, keras.layers.InputLayer):
            raise LegacyModelError(
                "the shape of its input is not in the file, and its Lambda layers "
                "need it."
            )
        tensor, layers, has_mask = first.output, [first], False
        for layer in rest:
            if isinstance(layer, LambdaCall):
                has_mask = has_mask or keras_internals.mask_of(tensor) is not None
                layer = layer if has_mask else layer.layer(tensor)
            layers.append(layer)
            tensor = layer(tensor)
        if has_mask:
            return keras.Model(first.output, tensor, name=config["name"])
        return keras.Sequential(layers, name=config["name"])
