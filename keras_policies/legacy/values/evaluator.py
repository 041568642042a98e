"""Partial evaluation: `ops.add(x, y)` for tensors, constants and dimensions alike.

    ops.add(np.float32(1), np.float32(2))      # constants: numpy, at once
    ops.multiply(length, 2)                    # a dimension: its operators
    ops.add(keras.Input((3,)), np.float32(2))  # a tensor: a node of keras.ops

Names and arguments are those of `keras.ops`.
"""

import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 (registers bfloat16 with numpy)
import numpy as np
import numpy.typing as npt

from keras_policies._common.lazy_keras import keras
from keras_policies._common.lazy_keras import ops as keras_ops
from keras_policies.legacy.base import trees
from keras_policies.legacy.guards import budget
from keras_policies.legacy.values import dim_tensors, dims, rules
from keras_policies.legacy.values.dims import Dim, UndecidedError
from keras_policies.legacy.values.ratios import Ratio
from keras_policies.legacy.values.rules import PLAIN, RULES, cast, ratio

# Dtypes of numpy -> those that TensorFlow gives to the same Python numbers.
DEFAULTS = {"float64": "float32", "int64": "int32"}
LISTS = "concatenate", "stack"  # their first argument is a list of one dtype
EXTREMES = {"max": "maximum", "min": "minimum"}


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of the model, without importing Keras."""
    loaded = sys.modules.get("keras")
    return loaded is not None and isinstance(value, loaded.KerasTensor)


def has_dims(value: object) -> bool:
    """Return whether a value is a dimension, or an array of dimensions."""
    return isinstance(value, Dim | Ratio) or (
        isinstance(value, np.ndarray) and value.dtype == object
    )


def array(value: Any, dtype: str | None = None) -> Any:
    """Return a value as a tensor, an array or a dimension.

    Python numbers get the dtypes of TensorFlow; lists of tensors are stacked.
    """
    if is_tensor(value) or isinstance(value, Dim | Ratio):
        return value if dtype is None else ops.cast(value, dtype)
    if isinstance(value, list | tuple) and any(map(is_tensor, trees.leaves(value))):
        return ops.stack([array(item, dtype) for item in value])
    if isinstance(value, list | tuple) and any(map(has_dims, trees.leaves(value))):
        return np.array(value, dtype=object)
    items = np.asarray(value)
    if items.dtype == object and not has_dims(value):
        raise ValueError(f"expected numbers, found {str(value)[:80]!r}")
    if not isinstance(value, np.ndarray | np.generic):
        items = items.astype(DEFAULTS.get(items.dtype.name, items.dtype))
    return items if dtype is None else items.astype(dtype)


def tensor(value: Any, dtype: str | None = None) -> Any:
    """Return a value for `keras.ops`; dimensions become tensors."""
    if isinstance(value, Dim | Ratio):
        value = dim_tensors.scalar(value)
    elif has_dims(value):
        items = map(dim_tensors.scalar, value.ravel())
        line = [keras_ops.cast(item, dtype_of(value)) for item in items]
        value = keras_ops.reshape(keras_ops.stack(line), value.shape)
    elif isinstance(value, np.ndarray | np.generic):
        return value if dtype is None else np.asarray(value, dtype)
    is_other = dtype is not None and is_tensor(value) and value.dtype != dtype
    return keras_ops.cast(value, dtype) if is_other else value


def dtype_of(value: Any) -> str:
    """Return the name of a value's dtype; dimensions are int32."""
    if not has_dims(value):
        return str(array(value).dtype)
    items = np.asarray(value, dtype=object).flat
    return next((n.dtype for n in items if isinstance(n, Ratio)), "int32")


def is_integer_dtype(name: str) -> bool:
    """Return whether a dtype is one of integers."""
    return name.startswith(("int", "uint"))


def simplified(result: Any) -> Any:
    """Convert an array of objects to one of numbers if it contains no dimensions."""
    if isinstance(result, list | tuple):
        return type(result)(map(simplified, result))
    items = np.asarray(result, dtype=object)
    budget.work(items.size * budget.ITEM)
    if any(isinstance(item, Dim | Ratio) for item in items.flat):
        return items if items.ndim else items.item()
    first = next(iter(items.flat), 0)
    is_known = isinstance(first, bool | np.bool_ | np.floating)
    return items.astype(np.asarray(first).dtype if is_known else "int32")


class Ops:
    """The functions of `keras.ops` for all kinds of values."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(evaluate, name)


def evaluate(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of `keras.ops`, or compute its result at once.

    Raise ValueError if it cannot be computed, and LimitError if it costs more than the
    size of the file explains.
    """
    values = [*trees.leaves((args, kwargs))]
    rule = RULES.get(name, PLAIN)
    if rule.parts is not None:
        budget.work(rule.parts(*args, **kwargs) * budget.STEP)
    if any(map(is_tensor, values)):
        return _node(name, args, kwargs)
    if any(map(has_dims, values)):
        return _of_dims(name, args, kwargs)
    arrays = _promoted(name, args)
    _charge(name, arrays, kwargs)
    with np.errstate(all="ignore"):  # as TensorFlow: integers wrap around
        return _of_arrays(name, arrays, kwargs)


ops = Ops()
_compiled: set[tuple[str, ...]] = set()  # names and arguments of calls to Keras


def get_op(name: str) -> Callable[..., Any]:
    """Return a function of `keras.ops`, or raise ValueError if this Keras lacks it."""
    try:
        function: Callable[..., Any] = operator.attrgetter(name)(keras_ops)
    except AttributeError as error:
        raise ValueError(f"this Keras has no keras.ops.{name}") from error
    return function


def _node(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    rule = RULES.get(name, PLAIN)
    function = _of_bits(name) if name in rules.BITS else rule.node or get_op(name)
    args = _promoted(name, args)
    named = {key: trees.mapped(tensor, value) for key, value in kwargs.items()}
    args = [trees.mapped(tensor, value) for value in args]
    result = function(*args, **named)
    for each in trees.leaves(result):
        budget.check_rank(each.shape)  # a gather has at most twice the axes of one here
    is_wide = rule.keeps_dtype and is_integer_dtype(dtype_of(args[0]))
    return tensor(result, dtype_of(args[0])) if is_wide else result


def _of_dims(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Evaluate a function of dimensions, or of arrays of them."""
    rule = RULES.get(name, PLAIN)
    if name in EXTREMES:
        return _extreme(EXTREMES[name], *args, **kwargs)
    if rule.moves:
        _charge(name, args, kwargs)
        return simplified(_of_arrays(name, args, kwargs))
    if rule.dims is not None:
        operands = [np.asarray(value, dtype=object) for value in args]
        budget.spend(math.prod(np.broadcast_shapes(*(x.shape for x in operands))), 8)
        try:
            function = np.frompyfunc(_plain(rule.dims), len(operands), 1)
            return simplified(function(*operands))
        except (TypeError, UndecidedError):  # a fraction, or a comparison
            pass  # becomes a node
    if name in ("ones_like", "zeros_like"):
        return _of_arrays(name, [np.zeros(np.shape(args[0]), "int32")], kwargs)
    if name == "cast":
        return _cast_dims(args[0], args[1])
    converted = [trees.mapped(tensor, value) for value in args]
    return _node(name, converted, kwargs)


def _cast_dims(value: Any, dtype: str) -> Any:
    """Cast dimensions to exact integers or fractions where possible."""
    is_float = dtype in ("float16", "float32", "float64")
    if is_float or is_integer_dtype(dtype):
        convert = functools.partial(ratio, dtype=dtype) if is_float else _truncated
        with contextlib.suppress(TypeError):  # a number that may be negative
            return simplified(np.frompyfunc(convert, 1, 1)(np.asarray(value, object)))
    return keras_ops.cast(tensor(value), dtype)


def _truncated(value: Any) -> Any:
    if isinstance(value, Ratio):
        return value.truncated()
    return value if isinstance(value, Dim) else int(value)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gets Python numbers in place of numpy's."""

    def plain(*items: Any) -> Any:
        return function(*(x.item() if isinstance(x, np.integer) else x for x in items))

    return plain


def _extreme(name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    items = np.asarray(x, dtype=object)
    if axis is None and not keepdims:
        return functools.reduce(functools.partial(evaluate, name), items.ravel())
    function = functools.partial(dims.extreme, name.removesuffix("imum"))
    joined = np.frompyfunc(_plain(function), 2, 1)
    return simplified(joined.reduce(items, axis=axis, keepdims=keepdims))


def _of_arrays(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a function with numpy, or with Keras's backend if numpy lacks it."""
    rule = RULES.get(name, PLAIN)
    function = rule.arrays or _numpy(name)
    if function is None:
        if "keras" not in sys.modules:  # files are described without Keras
            raise ValueError("computed when the model is built")
        return _eagerly(name, get_op(name), args, kwargs)
    named = {k: tuple(v) if isinstance(v, list) else v for k, v in kwargs.items()}
    arrays = [x for x in trees.leaves(args) if isinstance(x, np.ndarray)]
    half = next((str(x.dtype) for x in arrays if _is_half(x)), None)
    if rule.is_wide and half:  # backends also add in float32
        args = trees.mapped(lambda x: cast(x, "float32") if _is_half(x) else x, [*args])
        return trees.mapped(lambda x: cast(x, half), function(*args, **named))
    result = function(*args, **named)
    if rule.keeps_dtype and arrays and arrays[0].dtype.kind in "iu":
        return result.astype(arrays[0].dtype)
    return tuple(result) if isinstance(result, list) else result


def _is_half(x: object) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.name in ("float16", "bfloat16")


def _numpy(name: str) -> Callable[..., Any] | None:
    with contextlib.suppress(AttributeError):
        function = operator.attrgetter(name)(np)
        return function if callable(function) else None
    return None


def _eagerly(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call a function or a layer of Keras on arrays; return arrays."""
    call = name, *(str(getattr(x, "shape", x)) for x in trees.leaves((args, kwargs)))
    if call not in _compiled:
        budget.work(budget.COMPILED)
        _compiled.add(call)
    with keras.device("cpu:0"):
        outputs = function(*args, **kwargs)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)


def call_layer(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a layer on tensors of the model, or at once on constants."""
    args = tuple(trees.mapped(tensor, value) for value in args)
    if any(map(is_tensor, trees.leaves(args))):
        return layer(*args, **kwargs)
    _charge("layer", [layer, *args], kwargs)
    return _eagerly(layer.name, layer, args, kwargs)


def _promoted(name: str, args: Sequence[Any]) -> list[Any]:
    """Return arguments, with those of one dtype in TensorFlow in that dtype."""
    args = [np.asarray(x) if isinstance(x, np.generic) else x for x in args]
    if name == "einsum":
        return [args[0], *promoted(args[1:])]
    if name in LISTS:
        items = promoted([*args[0]])
        like = next((x.dtype for x in items if is_tensor(x)), None)
        if like is not None:  # no Python numbers
            items = [x if is_tensor(x) else np.asarray(x, like) for x in items]
        return [items, *args[1:]]
    positions = [i for i in RULES.get(name, PLAIN).same if i < len(args)]
    for i, value in zip(positions, promoted([args[i] for i in positions]), strict=True):
        args[i] = value
    return args


def promoted(values: Sequence[Any]) -> list[Any]:
    """Return values in one dtype: that of the first tensor, or of the first array.

    Beside a tensor, a scalar constant becomes a Python number, which Keras casts.
    """
    values = [v if isinstance(v, int | float | complex) else array(v) for v in values]
    like = next(filter(is_tensor, values), None)
    if like is not None:
        return [_beside(value, str(like.dtype)) for value in values]
    if any(map(has_dims, values)):
        return values
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    strong = next((v for v in arrays if v.ndim), next(iter(arrays), None))
    if strong is None:
        values = [array(value) for value in values]
        dtype = np.result_type(*values) if values else np.dtype("float32")
        return [value.astype(DEFAULTS.get(dtype.name, dtype)) for value in values]
    return [_weak(value, strong.dtype) for value in values]


def _weak(value: Any, dtype: npt.DTypeLike) -> Any:
    """Return a scalar in a dtype of the same kind, other values as they are."""
    if np.ndim(value):
        return value
    items = array(value)
    is_float = _is_float(items.dtype) and not _is_float(np.dtype(dtype))
    return value if is_float or items.dtype.kind == "c" else items.astype(dtype)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _beside(value: Any, dtype: str) -> Any:
    """Return a value as an operand beside a tensor of a dtype."""
    if is_tensor(value) or isinstance(value, bool | int | float):
        return value
    if has_dims(value):
        return tensor(value, dtype)
    if not value.ndim:
        return value.item()
    if _is_float(value.dtype) and (is_integer_dtype(dtype) or dtype == "bool"):
        raise ValueError(f"numbers of {value.dtype} beside a tensor of {dtype}")
    return value.astype(dtype)


def _charge(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Charge the cost of a function of arrays before it is computed."""
    arrays = [x for x in trees.leaves(args) if isinstance(x, np.ndarray)]
    total = sum(x.size for x in arrays)
    size = max((x.itemsize for x in arrays), default=8)
    if name == "cast":
        size = np.dtype(args[1]).itemsize
    rule = RULES.get(name, PLAIN)
    count = (
        rule.returns(*args, **kwargs) if rule.returns else rules.broadcast_size(arrays)
    )
    computed = rule.computes(*args, **kwargs) if rule.computes else total
    budget.spend(max(count, 1), size, computed=max(computed, total))


def _of_bits(name: str) -> Callable[..., Any]:
    """Return a bitwise function that also accepts Python numbers; Keras's do not."""

    def function(x: Any, y: Any) -> Any:
        x = x if is_tensor(x) or np.ndim(x) else keras_ops.full_like(y, x)
        y = y if is_tensor(y) or np.ndim(y) else keras_ops.full_like(x, y)
        return get_op(name)(x, y)

    return function
