"""Every private name of Keras that the package uses, checked before any is used.

Imported first, so that names are checked before any is patched. Each belongs to a
capability. If Keras has moved one, the other capabilities work, and the first use of
this one raises `UnsupportedKerasError`. Without `POLICIES`, the import itself does: a
policy would be ignored, and nothing would say so.
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
    """A private name of Keras, and what this package knows of it."""

    module: str  # below `keras.src`
    name: str  # a member of a class is dotted, and not inherited
    takes: str = ""  # names of parameters, if it is a function or a class
    since: str = "3.0"  # the Keras since which each has had it, as its sources say

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
TURNS = "fast opening of models whose layers take turns"
WEIGHTS = "weights of layers"

# Optimizer -> {slot name in tf.keras: attribute in Keras 3}. Names of tf.keras up to
# 2.10 stand beside those from 2.11 on.
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

# Methods and functions with the parameters that are passed to them. What is read as an
# attribute of an object raises an AttributeError of Python if Keras moves it.
_OPTIMIZER = "optimizers.base_optimizer"
_H5 = "legacy.saving.legacy_h5_format"
_SCOPE = "backend.common.name_scope"
PRIVATE_API = {
    POLICIES: (
        Place("layers.layer", "Layer._flatten_layers", takes="include_self recursive"),
        Place("layers.layer", "Layer.dtype_policy.fget", since="3.3"),
    ),
    INFER: (
        Place("backend.common.global_state", "get_global_attribute", takes="name"),
        Place(_SCOPE, "current_path"),
        Place(_SCOPE, "name_scope.__init__", takes="caller"),
        Place("layers.layer", "CallSpec.__init__", takes="signature args kwargs"),
        Place("layers.layer", "Layer._maybe_build", takes="call_spec"),
        Place("layers.layer", "Layer._open_name_scope", since="3.2"),
    ),
    SAVING: (
        Place("api_export", "REGISTERED_OBJS_TO_NAMES"),
        Place("saving.saving_lib", "save_weights_only", takes="model filepath"),
    ),
    READING: (
        Place("api_export", "register_internal_serializable", takes="path symbol"),
        Place("dtype_policies", "ALL_OBJECTS_DICT", since="3.3"),
        Place("dtype_policies", "get", takes="identifier", since="3.3"),
        Place(_H5, "load_model_from_hdf5", takes="filepath custom_objects compile"),
        Place(
            "legacy.saving.serialization",
            "class_and_config_for_serialized_keras_object",
            takes="config",
        ),
        Place("saving.serialization_lib", "_retrieve_class_or_fn", takes="full_config"),
    ),
    LOSS_SCALING: (
        Place("optimizers", "ALL_OBJECTS_DICT"),
        Place(_OPTIMIZER, "BaseOptimizer.build", takes="variables"),
        Place("backend.common.variables", "Variable.value.fget"),
        Place(
            "trainers.trainer",
            f"{_TRAINER}._aggregate_additional_loss",
            takes="loss",
            since="3.8",
        ),
    ),
    UNPICKLING: (Place(_OPTIMIZER, "BaseOptimizer._var_key", takes="variable"),),
    GRAPHS: (
        Place("backend.common.masking", "get_keras_mask", takes="x", since="3.6"),
        Place(
            "models.functional",
            "Functional._convert_inputs_to_tensors",
            takes="flat_inputs",
        ),
        Place("ops.node", "KerasHistory", takes="operation node_index tensor_index"),
        Place("ops.node", "Node.output_tensors"),
        Place("ops.symbolic_arguments", "SymbolicArguments.fill_in"),
    ),
    TURNS: (
        Place(
            "models.functional", "deserialize_node", takes="node_data created_layers"
        ),
    ),
    WEIGHTS: (Place("layers.layer", "Layer._initialize_tracker", since="3.3"),),
}


class UnsupportedKerasError(ImportError):
    """Keras has moved a private name that a capability of this package needs.

    Args:
        capability: what does not work, a key of `PRIVATE_API`.
        expected: the place, or a name in it.
        found: what is there.
        works: the capabilities that work.
    """

    def __init__(
        self, capability: str, expected: str, found: str, works: tuple[str, ...]
    ) -> None:
        super().__init__(capability, expected, found, works)
        self.capability, self.expected, self.found = capability, expected, found
        self.works = works

    def __str__(self) -> str:
        return (
            f"keras_policies cannot do this with Keras {keras.__version__}: "
            f"{self.capability}. Expected {self.expected}, found {self.found}. Keras "
            f"{KNOWN_TO_WORK} are known to work: install one of them, or a newer "
            f"keras-policies. Still working: {', '.join(self.works) or 'nothing'}."
        )


def find(place: Place) -> Any:
    """Return the object at a place; a member of a class must be the class's own.

    Raises:
        LookupError: if it is not there, with what was expected and what was found.
    """
    try:
        current: Any = importlib.import_module(f"keras.src.{place.module}")
        for part in place.name.split("."):
            is_class = isinstance(current, type)
            current = vars(current)[part] if is_class else getattr(current, part)
    except (ImportError, AttributeError, KeyError) as error:
        raise LookupError(str(place), f"none: {error}") from error
    expected = place.takes.split()
    parameters = inspect.signature(current).parameters if expected else {}
    if not {*expected} <= {*parameters}:
        there = f"{place.name}({', '.join(parameters)})"
        raise LookupError(f"{place}({', '.join(expected)})", there)
    return current


def missing() -> dict[str, UnsupportedKerasError]:
    """Return an error for each capability that needs a name which Keras has moved."""
    moved: dict[str, tuple[str, str]] = {}
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


def require(capability: str) -> None:
    """Raise `UnsupportedKerasError` if a capability is missing."""
    if capability in MISSING:
        raise UnsupportedKerasError(*MISSING[capability].args)


def needs(capability: str) -> Callable[[F], F]:
    """Decorator: calls of the function raise if a capability is missing.

    If it is not, the function stays as it is.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def refuse(*args: Any, **kwargs: Any) -> None:
            require(capability)

        return cast(F, refuse) if capability in MISSING else function

    return decorate


def installs(capability: str) -> Callable[[F], F]:
    """Decorator for a function that installs a patch, unless its names have moved."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def install_nothing(*args: Any, **kwargs: Any) -> None:
            pass

        return cast(F, install_nothing) if capability in MISSING else function

    return decorate
