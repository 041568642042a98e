"""Every private name of Keras that the package uses, checked before any is patched.

Each name belongs to a capability. If Keras has moved one, the first use of that
capability raises `UnsupportedKerasError`, and the others work. Without `POLICIES` the
import itself fails: otherwise a policy would be silently ignored.
"""

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import keras

KNOWN_TO_WORK = "3.8 to 3.16"

F = TypeVar("F", bound=Callable[..., Any])


class Place(NamedTuple):
    """A private name of Keras."""

    module: str  # below `keras.src`
    name: str  # dotted for a member of a class, which must be the class's own
    takes: tuple[str, ...] = ()  # parameters, if it is a function or a class

    def __str__(self) -> str:
        return f"keras.src.{self.module}.{self.name}"


POLICIES = "policies"
INFER = "policies that wait for an input"
SAVING = "saving policies"
READING = "reading legacy policies"
LOSS_SCALING = "loss scaling"
UNPICKLING = "unpickling optimizers"
SLOTS_OF_OPTIMIZERS = "optimizer slots"
GRAPHS = "graphs of operations"
WEIGHTS = "weights of layers"

# Optimizer -> {slot name in tf.keras, before and since 2.11: attribute in Keras 3}
SLOTS = {
    "SGD": {"momentum": "momentums", "m": "momentums"},
    "RMSprop": {
        "rms": "_velocities",
        "velocity": "_velocities",
        "momentum": "_momentums",
        "mg": "_average_gradients",
        "average_gradient": "_average_gradients",
    },
    "Adam": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "Adafactor": {"r": "_r", "c": "_c", "v": "_v"},
    "Adagrad": {"accumulator": "_accumulators"},
    "Adadelta": {
        "accum_grad": "_accumulated_grads",
        "accum_var": "_accumulated_delta_vars",
        "accumulated_grad": "_accumulated_grads",
        "accumulated_delta_var": "_accumulated_delta_vars",
    },
    "Adamax": {"m": "_m", "v": "_u", "u": "_u"},
    "Nadam": {"m": "_momentums", "v": "_velocities"},
    "Ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
    "Lion": {"m": "_momentums"},
}
# The averages of weights that every optimizer keeps if it is told to.
AVERAGES = {"average": "_model_variables_moving_average"}

# `Trainer`; from Keras 3.16 on `BaseTrainer`.
_TRAINERS = [c.__name__ for c in keras.Model.__mro__ if "trainers" in c.__module__]
_TRAINER = _TRAINERS[-1] if _TRAINERS else "Trainer"

# Places, with the names of the arguments that are passed there. An attribute of an
# object needs no row: without it, Python raises an AttributeError.
_OPTIMIZER = "optimizers.base_optimizer"
_HDF5 = "legacy.saving.legacy_h5_format"
_CONFIGS = "legacy.saving.serialization"
_FUNCTIONAL = "models.functional"
PRIVATE_API = {
    POLICIES: (
        Place("layers.layer", "Layer._flatten_layers", ("include_self", "recursive")),
        Place("layers.layer", "Layer.dtype_policy.fget"),
    ),
    INFER: (
        Place("backend.common.global_state", "get_global_attribute", ("name",)),
        Place("backend.common.name_scope", "current_path"),
        Place("backend.common.name_scope", "name_scope.__init__", ("caller",)),
        Place("layers.layer", "CallSpec.__init__", ("signature", "args", "kwargs")),
        Place("layers.layer", "Layer._maybe_build", ("call_spec",)),
        Place("layers.layer", "Layer._open_name_scope"),
    ),
    SAVING: (
        Place("api_export", "REGISTERED_OBJS_TO_NAMES"),
        Place("saving.saving_lib", "save_weights_only", ("model", "filepath")),
    ),
    READING: (
        Place("api_export", "register_internal_serializable", ("path", "symbol")),
        Place("dtype_policies", "ALL_OBJECTS_DICT"),
        Place("dtype_policies", "get", ("identifier",)),
        Place(_HDF5, "load_model_from_hdf5", ("filepath", "custom_objects", "compile")),
        Place(_CONFIGS, "class_and_config_for_serialized_keras_object", ("config",)),
        Place("saving.serialization_lib", "_retrieve_class_or_fn", ("full_config",)),
    ),
    LOSS_SCALING: (
        Place("optimizers", "ALL_OBJECTS_DICT"),
        Place(_OPTIMIZER, "BaseOptimizer.build", ("variables",)),
        Place("backend.common.variables", "Variable.value.fget"),
        Place("trainers.trainer", f"{_TRAINER}._aggregate_additional_loss", ("loss",)),
    ),
    UNPICKLING: (Place(_OPTIMIZER, "BaseOptimizer._var_key", ("variable",)),),
    GRAPHS: (
        Place("backend.common.masking", "get_keras_mask", ("x",)),
        Place(_FUNCTIONAL, "Functional._convert_inputs_to_tensors", ("flat_inputs",)),
        Place("ops.node", "KerasHistory", ("operation", "node_index", "tensor_index")),
        Place("ops.node", "Node.output_tensors"),
        Place("ops.symbolic_arguments", "SymbolicArguments.fill_in"),
    ),
    WEIGHTS: (Place("layers.layer", "Layer._initialize_tracker"),),
}


class UnsupportedKerasError(ImportError):
    """Keras has moved a private name that a capability of this package needs."""

    def __init__(
        self, capability: str, expected: str, found: str, works: tuple[str, ...]
    ) -> None:
        super().__init__(capability, expected, found, works)
        self.capability, self.expected, self.found = capability, expected, found
        self.works = works  # the other capabilities

    def __str__(self) -> str:
        return (
            f"keras_policies cannot do this with Keras {keras.__version__}: "
            f"{self.capability}. Expected {self.expected}, found {self.found}. Keras "
            f"{KNOWN_TO_WORK} are known to work: install one of them, or a newer "
            f"keras-policies. Still working: {', '.join(self.works) or 'nothing'}."
        )


def find(place: Place) -> Any:
    """Return the object at a place, or raise LookupError(expected, found)."""
    try:
        current: Any = importlib.import_module(f"keras.src.{place.module}")
        for part in place.name.split("."):
            is_class = isinstance(current, type)
            current = vars(current)[part] if is_class else getattr(current, part)
    except (ImportError, AttributeError, KeyError) as error:
        raise LookupError(str(place), f"none: {error}") from error
    parameters = inspect.signature(current).parameters if place.takes else {}
    if not {*place.takes} <= {*parameters}:
        there = f"{place.name}({', '.join(parameters)})"
        raise LookupError(f"{place}({', '.join(place.takes)})", there)
    return current


def missing() -> dict[str, UnsupportedKerasError]:
    """Return an error for each capability that needs a name which Keras has moved."""
    moved: dict[str, tuple[str, str]] = {}  # capability -> what was expected and found
    for capability, places in PRIVATE_API.items():
        try:
            for place in places:
                find(place)
        except LookupError as error:
            expected, actual = error.args
            moved[capability] = expected, actual
    works = tuple(n for n in PRIVATE_API if n not in moved and POLICIES not in moved)
    return {name: UnsupportedKerasError(name, *a, works) for name, a in moved.items()}


MISSING = missing()
if POLICIES in MISSING:
    raise MISSING[POLICIES]


def needs(capability: str) -> Callable[[F], F]:
    """Decorator: calls of the function raise if a capability is missing."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def refuse(*args: Any, **kwargs: Any) -> None:
            raise UnsupportedKerasError(*MISSING[capability].args)

        return cast(F, refuse) if capability in MISSING else function

    return decorate
