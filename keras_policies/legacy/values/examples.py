"""Tensors that do not depend on data: constants that a model repeats for each example.

A mask made from `ones_like(x)` is one. Its first axis may be the batch, or be merged
with it; the value for one example is computed when the model is built.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_policies._common.lazy_keras import keras, keras_internals
from keras_policies._common.types import Tensor
from keras_policies.legacy.values import computed, dims
from keras_policies.legacy.values.evaluator import evaluate
from keras_policies.legacy.values.shapes import shape_of

# Operations whose result for an example depends on that example alone. None of them
# counts positions, which would distinguish the examples of a batch.
FILLS = {"OnesLike": 1, "ZerosLike": 0}
OF_EACH = {
    name.replace("_", "").lower(): name
    for name in (
        *("abs", "absolute", "add", "cast", "equal", "expand_dims", "greater"),
        *("greater_equal", "less", "less_equal", "logical_and", "logical_not"),
        *("logical_or", "maximum", "minimum", "multiply", "negative", "not_equal"),
        *("reshape", "squeeze", "subtract", "transpose", "tril", "triu", "where"),
    )
}
BATCH_SIZES = 1, 2, 3


def one_of(tensor: Tensor) -> npt.NDArray[Any] | None:
    """Return the value of a tensor at batch size 1, or None if examples differ.

    At batch size `n`, the tensor repeats it `n` times along its first axis.
    """
    values = [_computed(tensor, {dims.BATCH: n}) for n in BATCH_SIZES]
    one = values[0]
    if one is None or not one.ndim:
        return None
    repeated = (np.concatenate([one] * n) for n in BATCH_SIZES)
    return one if all(map(np.array_equal, values, repeated)) else None


def _computed(tensor: Tensor, lengths: Mapping[Any, int]) -> Any:
    """Compute a tensor for these lengths of axes; return None if it depends on data."""
    values: dict[int, Any] = {}
    waiting = [tensor]
    while waiting:
        current = waiting[-1]
        operation: Any = keras_internals.maker_of(current)
        kind = type(operation).__name__
        name = OF_EACH.get(kind.lower())
        if kind in FILLS:
            try:
                shape = [dims.evaluate(n, lengths) for n in shape_of(current)]
            except KeyError:  # it depends on the length of a sequence
                return None
            values[id(current)] = computed.full(shape, FILLS[kind], current.dtype)
        elif name is None or isinstance(operation, keras.Layer):
            return None
        else:
            inputs = keras_internals.inputs_of(current)
            missing = [x for x in inputs if id(x) not in values]
            waiting += missing
            if missing:
                continue
            args, kwargs = keras_internals.arguments_of(current, values)
            settings = operation.get_config()
            settings.pop("name", None)  # older ones lack it
            values[id(current)] = evaluate(name, *args, *settings.values(), **kwargs)
        waiting.pop()
    return values[id(tensor)]
