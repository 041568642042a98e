"""Every private place of Keras that the package leans on, checked before any is used.

Imported first, so that a Keras in which one has moved is left unchanged.
"""

import importlib
import inspect
from typing import Any, NamedTuple

import keras

from keras_policies.keras_internals.slots import SLOTS

KNOWN_TO_WORK = "3.8 to 3.15"


class Place(NamedTuple):
    """A private name of Keras, and what this package knows of it."""

    module: str  # below `keras.src`
    name: str  # a member of a class is dotted, and not inherited
    takes: str = ""  # names of parameters, if it is a function or a class
    uses: str = ""  # names that the code of a function sets or reads

    def __str__(self) -> str:
        return f"keras.src.{self.module}.{self.name}"


PLACES = (
    Place("api_export", "REGISTERED_NAMES_TO_OBJS"),
    Place("api_export", "REGISTERED_OBJS_TO_NAMES"),
    Place("backend.common.global_state", "get_global_attribute"),
    Place("backend.common.masking", "get_keras_mask", "x"),
    Place("backend.common.name_scope", "current_path"),
    Place("backend.common.name_scope", "name_scope.__enter__", uses="name_scope_stack"),
    Place("backend.common.name_scope", "name_scope.__init__", uses="caller"),
    Place("backend.common.variables", "Variable.__init__", "initializer shape dtype"),
    Place("backend.common.variables", "Variable.value.fget", uses="_value"),
    Place("dtype_policies", "ALL_OBJECTS_DICT"),
    Place("dtype_policies.dtype_policy", "DTypePolicy.from_config"),
    Place("dtype_policies.dtype_policy", "DTypePolicy.name.fget", uses="_name"),
    Place(
        "dtype_policies.dtype_policy", "_get_quantized_dtype_policy_by_str", "policy"
    ),
    Place(
        "dtype_policies.dtype_policy_map",
        "DTypePolicyMap.__init__",
        uses="_default_policy_arg _policy_map",
    ),
    Place("dtype_policies.dtype_policy_map", "DTypePolicyMap.get_config", uses="_name"),
    Place("layers.layer", "CallSpec"),
    Place("layers.layer", "CallSpec.__init__", uses="first_arg"),
    Place("layers.layer", "Layer.__call__", "args kwargs", "_call_signature"),
    Place("layers.layer", "Layer.__init__", "dtype", "_convert_input_args"),
    Place("layers.layer", "Layer._flatten_layers", "include_self recursive"),
    Place(
        "layers.layer",
        "Layer._initialize_tracker",
        uses="_layers _metrics _seed_generators "
        "_trainable_variables _non_trainable_variables",
    ),
    Place("layers.layer", "Layer._maybe_build", "call_spec"),
    Place("layers.layer", "Layer._open_name_scope"),
    Place("layers.layer", "Layer.add_weight", "shape initializer dtype"),
    Place("layers.layer", "Layer.get_config", "self"),
    Place("layers.layer", "Layer.dtype_policy.fget", uses="_dtype_policy"),
    Place(
        "layers.preprocessing.image_preprocessing.base_image_preprocessing_layer",
        "BaseImagePreprocessingLayer",
    ),
    Place(
        "legacy.saving.legacy_h5_format",
        "load_model_from_hdf5",
        "filepath custom_objects compile",
    ),
    Place("models.cloning", "_wrap_clone_function", "clone_function"),
    Place("models.functional", "Functional"),
    Place("models.model", "Model.from_config"),
    Place("models.sequential", "Sequential.from_config"),
    Place("ops.nn", "LogSoftmax"),
    Place("ops.nn", "Softmax"),
    Place("ops.node", "KerasHistory", "operation node_index"),
    Place("ops.node", "Node.__init__", uses="_inbound_nodes _keras_history outputs"),
    Place("ops.node", "Node.output_tensors"),
    *(Place("ops.numpy", name) for name in ("Exp", "GetItem", "Log", "Reshape")),
    Place("ops.numpy", "Tile.__init__", uses="repeats"),
    Place("ops.numpy", "Transpose.__init__", uses="axes"),
    Place("ops.operation", "Operation.from_config"),
    Place("ops.operation", "Operation.__init__", uses="_inbound_nodes"),
    Place("ops.symbolic_arguments", "SymbolicArguments.__init__", uses="keras_tensors"),
    Place("optimizers.base_optimizer", "BaseOptimizer._get_variable_index"),
    Place(
        "optimizers.base_optimizer",
        "BaseOptimizer.__init__",
        uses="_iterations _trainable_variables iteration learning_rate",
    ),
    Place(
        "optimizers.base_optimizer",
        "BaseOptimizer.build",
        uses="_trainable_variables _trainable_variables_indices _var_key",
    ),
    Place("optimizers.nadam", "Nadam.build", uses="_u_product"),
    *(
        Place(
            f"optimizers.{name.lower()}", f"{name}.build", uses=" ".join(slots.values())
        )
        for name, slots in SLOTS.items()
    ),
    Place("saving.saving_lib", "save_weights_only", "model filepath"),
    Place("saving.serialization_lib", "SafeModeScope.__enter__", "self"),
    Place("saving.serialization_lib", "SafeModeScope.__exit__", "self"),
    Place("saving.serialization_lib", "serialize_dict", "obj"),
    Place("saving.serialization_lib", "SerializableDict.__init__", uses="config"),
    Place("trainers.trainer", "Trainer._assert_compile_called", "method_name"),
    Place("trainers.trainer", "Trainer._symbolic_build", "data_batch"),
    Place(
        "trainers.trainer",
        "Trainer.compile",
        "optimizer auto_scale_loss",
        "_compile_config",
    ),
    Place("trainers.trainer", "Trainer.compile_from_config", "config"),
    Place("utils.tracking", "no_automatic_dependency_tracking"),
)


class UnsupportedKerasError(ImportError):
    """Keras has moved a place that this package leans on."""


def check() -> None:
    """Raise `UnsupportedKerasError` at the first place that Keras has moved."""
    for place in PLACES:
        found = find(place)
        if place.takes:
            expected = place.takes.split()
            parameters = inspect.signature(found).parameters
            if not set(expected) <= set(parameters):
                there = f"{place.name}({', '.join(parameters)})"
                raise _moved(f"{place}({', '.join(expected)})", there)
        for name in place.uses.split():
            code = inspect.unwrap(found).__code__
            if name not in code.co_names + code.co_consts:
                raise _moved(f"{name} in {place}", "none there")


def find(place: Place) -> Any:
    """Return the object at a place; a member of a class must be the class's own."""
    try:
        found = importlib.import_module(f"keras.src.{place.module}")
        for part in place.name.split("."):
            is_class = isinstance(found, type)
            found = vars(found)[part] if is_class else getattr(found, part)
    except (ImportError, AttributeError, KeyError) as error:
        raise _moved(str(place), f"none: {error}") from error
    return found


def _moved(expected: str, found: str) -> UnsupportedKerasError:
    return UnsupportedKerasError(
        f"keras_policies cannot work with Keras {keras.__version__}: expected "
        f"{expected}, found {found}. Keras {KNOWN_TO_WORK} are known to work: install "
        "one of them, or a newer keras-policies."
    )


check()
