"""What the names in a Lambda layer's code mean, and running a `Program` of them.

An author's own import statements are not in the file, so a global name is taken for the
module that everybody calls so.
"""

from collections.abc import Sequence
from typing import Any

from keras_policies._common import keras_names
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError
from keras_policies.legacy.base.programs import (
    Argument,
    FunctionStep,
    Given,
    Program,
    StepOutput,
)
from keras_policies.legacy.bytecode import python_ops, values
from keras_policies.legacy.bytecode.values import Name, plain
from keras_policies.legacy.ops import converters, table

# Global name -> the module that it stands for.
MODULES = {
    **dict.fromkeys(("tf", "tensorflow", "TF"), "tf"),
    **dict.fromkeys(("K", "backend", "KB", "kb", "keras_backend"), "keras.backend"),
    **dict.fromkeys(("ktf", "KTF", "array_ops", "math_ops"), "tf"),
    **dict.fromkeys(("np", "numpy"), "numpy"),
    "imagenet_utils": "keras.applications.imagenet_utils",  # in its applications
    "keras": "keras",
    "math": "math",
}
# Other paths of a module -> the one used here; the first that fits is taken.
SAME_MODULE = {
    "tensorflow": "tf",
    "tf.compat.v2": "tf",
    "tf.python": "tf",
    "tf.contrib.keras": "keras",
    "tf.keras": "keras",
    "tf_keras": "keras",
    "keras.backend.tf": "tf",
    "keras.backend.math_ops": "tf.math",
    "keras.activations": "keras.backend",
}
# Where a name directly under `tf`, or under a module of TensorFlow 1, is now.
PLACES = "", "math.", "linalg.", "nn.", "image.", "compat.v1.", "compat.v1.image."
# Names that TensorFlow gave up -> the function that they were.
RENAMED = {
    "batch_matmul": "linalg.matmul",
    "div": "compat.v1.div",
    "image.resize_bilinear": "compat.v1.image.resize_bilinear",
    "image.resize_image_with_crop_or_pad": "image.resize_with_crop_or_pad",
    "image.resize_images": "compat.v1.image.resize_images",
    "image.resize_nearest_neighbor": "compat.v1.image.resize_nearest_neighbor",
    "matrix_band_part": "linalg.band_part",
    "matrix_diag": "linalg.diag",
    "matrix_transpose": "linalg.matrix_transpose",
    "mul": "math.multiply",
    "neg": "math.negative",
    "pack": "stack",
    "select": "where",
    "sub": "math.subtract",
    "unpack": "unstack",
    "where_v2": "where",
}
# Functions of `(text, *tensors)`, which the table has as `(text, tensors)`.
VARIADIC = "einsum", "linalg.einsum"
RESIZE_METHODS = {
    "BILINEAR": "bilinear",
    "NEAREST_NEIGHBOR": "nearest",
    "BICUBIC": "bicubic",
    "AREA": "area",
}
CONSTANTS = {
    "tf.newaxis": None,
    **{f"tf.{name}": name for name in converters.DTYPES.values()},
    **{f"tf.dtypes.{name}": name for name in converters.DTYPES.values()},
    **{f"tf.image.ResizeMethod.{key}": v for key, v in RESIZE_METHODS.items()},
    "tf.double": "float64",
    "tf.half": "float16",
    **python_ops.CONSTANTS,
}


def global_name(name: str) -> object:
    """Return what a global name stands for; `custom_objects` come first."""
    registered = keras_names.registered(name)
    if registered is not None:
        return Given(registered) if callable(registered) else plain(registered)
    if name in MODULES:
        return Name(MODULES[name])
    if name in python_ops.BUILTINS:
        return Name(f"python.{name}")
    raise ValueError(
        f"the name {name!r}, which its author's program defined and the file does not "
        "hold"
    )


def module(path: str) -> Name:
    """Return a module that code imports, or raise ValueError if it means nothing."""
    name = Name(_canonical(path))
    if name.path.partition(".")[0] not in ("tf", "keras", "numpy", "math"):
        raise ValueError(f"the module {path!r}")
    return name


def attribute(name: Name, inner: str) -> Name:
    """Return the attribute of a module."""
    return Name(_canonical(f"{name.path}.{inner}"))


def _canonical(path: str) -> str:
    for other, here in SAME_MODULE.items():
        if path == other or path.startswith(f"{other}."):
            return _canonical(here + path[len(other) :])
    return path


def constant(name: Name) -> object:
    """Return the constant of a name, or the name itself if it is a function."""
    if name.path in CONSTANTS:
        return CONSTANTS[name.path]
    if name.path.removeprefix("numpy.") in python_ops.DTYPES:
        return name.path.removeprefix("numpy.")
    return Name(function(name))


def function(name: Name) -> str:
    """Return the function of a name as a `FunctionStep` has it, or raise ValueError."""
    root, _, rest = name.path.partition(".")
    if root == "python":
        return name.path
    if root in ("numpy", "math") and name.path in python_ops.FUNCTIONS:
        return name.path
    if name.path in table.FUNCTIONS and root == "keras":
        return f"tf.{name.path}"
    if root == "tf":
        for place in (RENAMED.get(rest, rest), *(place + rest for place in PLACES)):
            if place in table.FUNCTIONS:
                return f"tf.{place}"
    raise ValueError(f"{name.path!r}, which has no counterpart in keras.ops")


def call(called: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Call the function that `function` returned."""
    root, _, rest = called.partition(".")
    if rest in VARIADIC:
        args = args[0], args[1:]
    if root == "tf":
        return table.call(rest, args, kwargs)
    return python_ops.FUNCTIONS[called](*args, **kwargs)


class Run:
    """One run of a program, on arrays or on tensors of a model."""

    def __init__(self, program: Program, inputs: Sequence[Any]) -> None:
        self.program, self.inputs = program, inputs
        self.results: list[Sequence[Any]] = []  # the outputs of each step

    def outputs(self) -> Any:
        """Return the outputs of the program."""
        for step in self.program.steps:
            self.results.append(self.performed(step))
        return self.filled(self.program.ends)

    def performed(self, step: Any) -> Sequence[Any]:
        """Return the outputs of a step."""
        args, kwargs = self.filled((step.args, dict(step.kwargs)))
        try:
            if isinstance(step.function, Given):
                return [step.function.function(*args, **kwargs)]
            result = call(step.function, args, kwargs)
            values.check_size(result)
            return [result]
        except LegacyModelError:
            raise
        except UNEXPECTED as error:
            raise LegacyModelError(
                f"its code calls {_described(step)} in a way that keras.ops has no "
                f"counterpart for: {error}."
            ) from error

    def filled(self, nest: Any) -> Any:
        """Return a nest with the present values of arguments and step outputs."""
        return trees.mapped(self._filled, nest)

    def _filled(self, leaf: Any) -> Any:
        if isinstance(leaf, slice):
            return slice(*map(self.value, (leaf.start, leaf.stop, leaf.step)))
        return self.value(leaf)

    def value(self, value: Any) -> Any:
        """Return the present value of an argument or a step output, or the constant."""
        if isinstance(value, Argument):
            return self.inputs[value.number]
        if isinstance(value, StepOutput):
            return self.results[value.step][value.position]
        return value


def _described(step: FunctionStep) -> str:
    if isinstance(step.function, Given):
        return repr(step.function.function)
    name = step.function.removeprefix("python.")
    if name not in ("attribute", "binary", "method", "unary"):
        return name
    return repr(next(x for x in step.args if isinstance(x, str)))
