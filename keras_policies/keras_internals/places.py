"""Every private place of Keras that is leaned upon, looked at before any is used."""

import importlib
import inspect

import keras

KNOWN_TO_WORK = "3.8 to 3.15"

# Module -> what is taken from it, or is known of its classes.
PLACES = {
    "keras.src.api_export": ["REGISTERED_NAMES_TO_OBJS", "REGISTERED_OBJS_TO_NAMES"],
    "keras.src.backend.common.global_state": ["get_global_attribute"],
    "keras.src.backend.common.name_scope": ["current_path"],
    "keras.src.backend.common.variables": ["Variable.value"],
    "keras.src.dtype_policies": ["ALL_OBJECTS_DICT"],
    "keras.src.layers.layer": [
        "CallSpec",
        "Layer._open_name_scope",
    ],
    "keras.src.layers.preprocessing.image_preprocessing"
    ".base_image_preprocessing_layer": ["BaseImagePreprocessingLayer"],
    "keras.src.models.functional": ["Functional"],
    "keras.src.models.model": ["Model.from_config"],
    "keras.src.models.sequential": ["Sequential.from_config"],
    "keras.src.ops.nn": ["LogSoftmax", "Softmax"],
    "keras.src.ops.numpy": ["Exp", "Log"],
    "keras.src.optimizers.base_optimizer": ["BaseOptimizer._get_variable_index"],
    "keras.src.saving.serialization_lib": ["SerializableDict"],
    "keras.src.utils.tracking": ["no_automatic_dependency_tracking"],
}

# Function -> the parameters that it is known to have. Seams wrap most of them.
PARAMETERS = {
    ("keras.src.backend.common.variables", "Variable.__init__"): [
        "initializer",
        "shape",
        "dtype",
    ],
    ("keras.src.layers.layer", "Layer.__call__"): ["args", "kwargs"],
    ("keras.src.layers.layer", "Layer.__init__"): ["dtype"],
    ("keras.src.layers.layer", "Layer._flatten_layers"): ["include_self", "recursive"],
    ("keras.src.layers.layer", "Layer._maybe_build"): ["call_spec"],
    ("keras.src.layers.layer", "Layer.add_weight"): ["shape", "initializer", "dtype"],
    ("keras.src.layers.rnn.bidirectional", "Bidirectional.__init__"): [
        "layer",
        "backward_layer",
    ],
    ("keras.src.legacy.saving.legacy_h5_format", "load_model_from_hdf5"): [
        "filepath",
        "custom_objects",
        "compile",
    ],
    ("keras.src.models.cloning", "_wrap_clone_function"): ["clone_function"],
    ("keras.src.saving.serialization_lib", "SafeModeScope.__enter__"): ["self"],
    ("keras.src.saving.serialization_lib", "SafeModeScope.__exit__"): ["self"],
    ("keras.src.trainers.trainer", "Trainer._symbolic_build"): ["data_batch"],
    ("keras.src.trainers.trainer", "Trainer.compile"): ["optimizer", "auto_scale_loss"],
}

# Function -> the attributes that it is known to set or to read.
ATTRIBUTES = {
    ("keras.src.backend.common.name_scope", "name_scope.__enter__"): [
        "name_scope_stack"
    ],
    ("keras.src.backend.common.name_scope", "name_scope.__init__"): ["caller"],
    ("keras.src.backend.common.variables", "Variable.value.fget"): ["_value"],
    ("keras.src.dtype_policies.dtype_policy", "DTypePolicy.name.fget"): ["_name"],
    ("keras.src.dtype_policies.dtype_policy_map", "DTypePolicyMap.__init__"): [
        "_default_policy_arg",
        "_policy_map",
    ],
    ("keras.src.layers.layer", "Layer.__call__"): ["_call_signature"],
    ("keras.src.layers.layer", "Layer.__init__"): ["_convert_input_args"],
    ("keras.src.layers.layer", "Layer.dtype_policy.fget"): ["_dtype_policy"],
    ("keras.src.layers.layer", "Layer._initialize_tracker"): [
        "_non_trainable_variables",
        "_trainable_variables",
    ],
    ("keras.src.ops.node", "Node.__init__"): ["_inbound_nodes", "_keras_history"],
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer.__init__"): [
        "_iterations",
        "_trainable_variables",
        "iteration",
        "learning_rate",
    ],
    ("keras.src.optimizers.nadam", "Nadam.build"): ["_u_product"],
    ("keras.src.trainers.trainer", "Trainer.compile"): ["_compile_config"],
}


class UnsupportedKerasError(ImportError):
    """Keras has moved a place that this package leans on."""


def check():
    """Look at every place.

    Raises:
        UnsupportedKerasError: at the first that Keras has moved.
    """
    for module, names in PLACES.items():
        for name in names:
            find(module, name)
    for (module, name), parameters in PARAMETERS.items():
        found = inspect.signature(find(module, name)).parameters
        if not set(parameters) <= set(found):
            there = f"{name}({', '.join(found)})"
            raise _moved(f"{module}.{name}({', '.join(parameters)})", there)
    for (module, name), attributes in ATTRIBUTES.items():
        code = inspect.unwrap(find(module, name)).__code__
        for attribute in attributes:
            if attribute not in code.co_names + code.co_consts:
                raise _moved(f"{attribute} in {module}.{name}", "none there")


def find(module, name):
    """Return what a dotted name stands for in a module; of a class, what is its own."""
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            of_a_class = isinstance(found, type)
            found = vars(found)[part] if of_a_class else getattr(found, part)
    except (ImportError, AttributeError, KeyError) as error:
        raise _moved(f"{module}.{name}", f"none: {error}") from error
    return found


def _moved(place, found):
    return UnsupportedKerasError(
        f"keras_policies cannot work with Keras {keras.__version__}: expected "
        f"{place}, found {found}. Keras {KNOWN_TO_WORK} are known to work: install "
        "one of them, or a newer keras-policies."
    )


check()
