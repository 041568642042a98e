"""Op layers of legacy Functional models, and the configs that replace them.

tf.keras put a layer around each TensorFlow function that was called on a tensor of a
model: TensorFlowOpLayer (2.0 to 2.3, with a NodeDef), TFOpLambda, SlicingOpLambda,
ClassMethod, InstanceMethod, InstanceProperty (2.4 on, with the function's name).
"""

from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import PACKAGE, keras_object, layer_name
from keras_policies.legacy.plan import classes

GRAPH_OP = "TensorFlowOpLayer"
FUNCTIONS = "TFOpLambda", "SlicingOpLambda"
METHODS = "ClassMethod", "InstanceMethod", "InstanceProperty"
UNRECORDED = ("meshgrid",)  # of these, tf.keras did not write down the inputs
CLASSES = frozenset((GRAPH_OP, *FUNCTIONS, *METHODS))
# The `OpCall` of `assembly/calls.py`.
REGISTERED = f"{PACKAGE}>OpCall"


def name_of_op(class_name: str, config: Config) -> str:
    """Return the name of the function that an op layer calls, as users know it."""
    if class_name == GRAPH_OP:
        return str((config.get("node_def") or {}).get("op"))
    if class_name in FUNCTIONS:
        return f"tf.{config.get('function')}"
    parts = ("cls_ref", "cls_symbol", "function_name", "method_name", "attr_name")
    return ".".join(str(config[part]) for part in parts if part in config)


def is_op(class_name: str) -> bool:
    """Return whether a class is an op layer: the call of a TensorFlow function."""
    is_users = classes.registered_name(class_name) is not None
    return class_name in CLASSES and not is_users


def is_known(class_name: str, config: Config) -> bool:
    """Return whether the function of an op layer has a counterpart in `keras.ops`."""
    # Imported here: few models have op layers, and the modules of the table are many.
    from keras_policies.legacy.ops import table

    if class_name == GRAPH_OP:
        return name_of_op(class_name, config) in table.NODES
    known = table.FUNCTIONS.keys() - UNRECORDED
    return class_name in FUNCTIONS and config.get("function") in known


def op_call_config(class_name: str, config: Config, path: str) -> Config:
    """Return the config of the `OpCall` that replaces an op layer of `CLASSES`."""
    name = layer_name(str(config.get("name")))
    call: Config = {"name": name, "path": path, "op": name_of_op(class_name, config)}
    if class_name == GRAPH_OP:
        call["node_def"] = config["node_def"]
        call["constants"] = config.get("constants") or {}
    return keras_object(None, "OpCall", call, REGISTERED)


def constant_config(name: str, value: object) -> Config:
    """Return the config of the `OpCall` of a tensor that gives a constant."""
    constants = {"0": value}
    op_config = {"name": name, "node_def": {"op": "_Constant"}, "constants": constants}
    converted = op_call_config(GRAPH_OP, op_config, name)
    return {**converted, "name": layer_name(name)}


def is_call(config: Config) -> bool:
    """Return whether a config is one that `op_call_config` returned."""
    return config.get("registered_name") == REGISTERED
