"""Op layers of legacy Functional models, which become nodes of `keras.ops`.

tf.keras put a layer around each TensorFlow function that was called on a tensor of a
model: TensorFlowOpLayer (2.0 to 2.3, with a NodeDef), TFOpLambda, SlicingOpLambda,
ClassMethod, InstanceMethod, InstanceProperty (2.4 on, with the function's name).
An `OpCall` stands in the config in its place while Keras builds the model. It calls
`keras.ops` on the tensors, whose history then leads past it: none is in the model.
"""

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError
from keras_policies.legacy.base.names import layer_name
from keras_policies.legacy.ops import kinds, raw, sizes, table

GRAPH_OP = "TensorFlowOpLayer"
FUNCTIONS = "TFOpLambda", "SlicingOpLambda"
METHODS = "ClassMethod", "InstanceMethod", "InstanceProperty"
CLASSES = frozenset((GRAPH_OP, *FUNCTIONS, *METHODS))
# Under this name `keras.saving` finds the `OpCall` below.
PACKAGE = "keras_policies"
REGISTERED = f"{PACKAGE}>OpCall"


def name_of_op(class_name, config):
    """Return what an op layer calls, as a user would name it."""
    if class_name == GRAPH_OP:
        return str((config.get("node_def") or {}).get("op"))
    if class_name in FUNCTIONS:
        return f"tf.{config.get('function')}"
    parts = ("cls_ref", "cls_symbol", "function_name", "method_name", "attr_name")
    return ".".join(str(config[part]) for part in parts if part in config)


def is_known(class_name, config):
    """Return whether there is a counterpart in `keras.ops` for an op layer."""
    if class_name == GRAPH_OP:
        return (config.get("node_def") or {}).get("op") in raw.OPS
    return class_name in FUNCTIONS and table.resolve(str(config.get("function")))


def convert(class_name, config, where):
    """Return the config that stands for an op layer while its model is built.

    Args:
        class_name: str, one of `CLASSES`.
        config: dict, as written.
        where: str, file and layer, for errors.
    """
    name = layer_name(str(config.get("name")))
    own = {"name": name, "where": where, "op": name_of_op(class_name, config)}
    if class_name == GRAPH_OP:
        own |= {
            "node_def": config["node_def"],
            "constants": config.get("constants") or {},
        }
    return {
        "module": None,
        "class_name": "OpCall",
        "config": own,
        "registered_name": REGISTERED,
    }


def is_call(config):
    """Return whether a converted config is what `convert` gave."""
    return config.get("registered_name") == REGISTERED


@keras.saving.register_keras_serializable(PACKAGE)
class OpCall(keras.Operation):
    """Calls a TensorFlow function's counterpart whenever Keras calls the op layer.

    Args:
        name: str, of the layer; the operations it makes are called after it.
        where: str, file and layer, for errors.
        op: str, what it calls, `"tf.math.add"` or the op of a NodeDef.
        node_def, constants: of a TensorFlowOpLayer.
        is_output: bool, whether the model gives what it returns, so that sizes, too,
            have to be tensors.
    """

    def __init__(self, name, where, op, node_def=None, constants=None, is_output=False):
        super().__init__(name=name)
        self.where = where
        self.op = op
        self.node_def = node_def
        self.constants = constants
        self.is_output = is_output

    def __call__(self, *args, **kwargs):
        """Call the counterpart, and note the outputs where Keras looks for them."""
        try:
            found = self._apply(args, kwargs)
        except UNEXPECTED as error:
            raise LegacyModelError(
                f"{self.where} calls {self.op} in a way that keras.ops has no "
                f"counterpart for: {error}."
            ) from error
        outputs = found if isinstance(found, tuple) else (found,)
        if self.is_output:
            outputs = [_as_output(output) for output in outputs]
        self._name_operations(outputs, args, kwargs)
        keras_internals.record_call(self, outputs)
        return found

    def call(self, *args, **kwargs):
        """Not used: nothing of this operation stays in a model."""
        raise NotImplementedError

    def _apply(self, args, kwargs):
        if self.node_def is None:
            return table.call(self.op.removeprefix("tf."), args, kwargs)
        node = raw.OPS[self.node_def["op"]]
        (tensors,) = args or ([],)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        inputs, attributes = self._inputs(tensors), self.node_def.get("attr", {})
        return table.call(node.function, *raw.arguments(node, inputs, attributes))

    def _inputs(self, tensors):
        """Return tensors and constants in the order of the NodeDef's inputs."""
        constants = raw.constants(self.constants)
        total = len(tensors) + len(constants)
        places = [i for i in range(total) if i not in constants]
        if len(places) != len(tensors):
            raise ValueError(f"constants: at the positions {sorted(constants)}")
        found = constants | dict(zip(places, tensors, strict=True))
        return [found[i] for i in range(total)]

    def _name_operations(self, outputs, args, kwargs):
        """Call the operations that were made after this layer."""
        given = {id(tensor) for tensor in keras_internals.flatten((args, kwargs))}
        made = {
            id(operation): operation
            for tensor in outputs
            if kinds.is_tensor(tensor)
            for operation, _, _ in keras_internals.calls_before(tensor, given)
        }
        calls = keras_internals.recorded_calls(self)
        call = f".call_{calls}" if calls else ""
        for number, operation in enumerate(made.values()):
            part = f".{number}" if number else ""
            operation.name = f"{self.name}{call}{part}"


def _as_output(found):
    """Return a tensor that a model may give: in Keras 3.12 no input of it is one."""
    tensor = sizes.as_tensor(found)
    if isinstance(keras_internals.maker_of(tensor), keras.layers.InputLayer):
        return keras.layers.Identity(dtype=tensor.dtype)(tensor)
    return tensor
