"""What kind of value an argument of a TensorFlow function has to be.

The functions of this package are annotated with these. Each returns the value as the
function takes it, or raises ValueError: an attribute of another kind is not guessed.
"""

import inspect
import numbers

import keras
import ml_dtypes  # noqa: F401 (numpy knows bfloat16 by it)
import numpy as np

from keras_policies.legacy.ops.sizes import Size

DTYPES = {
    "DT_HALF": "float16",
    "DT_BFLOAT16": "bfloat16",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_UINT8": "uint8",
    "DT_INT8": "int8",
    "DT_INT16": "int16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_BOOL": "bool",
}


def is_tensor(value):
    """Return whether a value is a tensor of the model, not a constant or a size."""
    return isinstance(value, keras.KerasTensor)


def _expected(what, value):
    return ValueError(f"expected {what}, found {str(value)[:80]!r}")


def boolean(value):
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise _expected("True or False", value)
    return bool(value)


def number(value):
    """A Python number, not a bool."""
    value = _scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _expected("a number", value)
    return value


def integer(value):
    """A Python int."""
    value = _scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _expected("an integer", value)
    return int(value)


def axes(value):
    """An int, or a tuple of ints."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        return tuple(map(integer, value))
    return integer(value)


def integers(value):
    """A tuple of ints."""
    if not isinstance(value, list | tuple | np.ndarray) or not np.ndim(value):
        raise _expected("a list of integers", value)
    return tuple(map(integer, value))


def pairs(value):
    """A tuple of pairs of ints."""
    found = tuple(map(integers, value)) if np.ndim(value) == 2 else ()
    if not found or any(len(pair) != 2 for pair in found):
        raise _expected("a list of pairs of integers", value)
    return found


def sizes(value):
    """A list of ints and sizes that are known only when the model runs."""
    if is_tensor(value):
        raise _expected("sizes that the graph tells", value)
    if isinstance(value, Size) or not np.ndim(np.asarray(value, dtype=object)):
        return [_size(value)]
    return [_size(item) for item in value]


def _size(value):
    return value if isinstance(value, Size) else integer(value)


def string(value):
    """A str."""
    if not isinstance(value, str):
        raise _expected("a string", value)
    return value


def dtype(value):
    """The name of a dtype, as TensorFlow writes it, or as NumPy does."""
    name = DTYPES.get(value, value) if isinstance(value, str) else value
    if name not in DTYPES.values():
        raise _expected("the name of a dtype of numbers", value)
    return name


def anything(value):
    """Whatever it is; the function looks at it itself."""
    return value


def operand(value):
    """A tensor, a constant, a size, or a list of sizes."""
    if isinstance(value, str | dict) or value is None:
        raise _expected("a tensor or numbers", value)
    return value


def tensor(value):
    """A tensor of the model."""
    if not is_tensor(value):
        raise _expected("a tensor of the model", value)
    return value


# What TensorFlow makes of Python numbers.
DEFAULTS = {"float64": "float32", "int64": "int32"}


def array(value):
    """Return a constant as an array, of the dtype that TensorFlow gives Python's."""
    found = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return found
    return found.astype(DEFAULTS.get(found.dtype.name, found.dtype))


def operands(value):
    """A list of operands, at least one."""
    if not isinstance(value, list | tuple | np.ndarray) or not len(value):
        raise _expected("a list of tensors", value)
    return [operand(item) for item in value]


def _scalar(value):
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value.item() if isinstance(value, np.generic) else value


def parameters(function):
    """Return the set of the names of what a function takes."""
    return set(inspect.signature(function).parameters)


def checked_call(function, args, kwargs):
    """Call a function on arguments of the kinds that it is annotated with.

    Raises:
        ValueError: naming an argument that it does not take, or its kind.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(str(error)) from error
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].annotation
        try:
            # tf.keras writes down as None what was not given.
            bound.arguments[name] = None if value is None else kind(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    given = {
        name: value for name, value in bound.arguments.items() if value is not None
    }
    return function(**given)
