"""Opens and calls saved models; nothing of the package is imported here."""

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

OPENED = "opened"  # what is tried first with a file
VALUES = re.compile(r"[-+.,e\d\s\[\]naif]+")  # such as those of a tensor in an error
TOLD = 1500  # characters of an error


def start() -> Callable[..., Any]:
    """Import Keras, and return the function that answers requests."""
    importlib.import_module("keras")
    return _answered


def predicted(model: Any, inputs: list[Array]) -> list[Array]:
    """Return what a model predicts for a list of inputs, as a list of arrays."""
    tensors = [*map(_with_texts, inputs)]
    outputs = model.predict(tensors[0] if len(tensors) == 1 else tensors, verbose=0)
    outputs = [*outputs.values()] if isinstance(outputs, dict) else outputs
    outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [*map(np.asarray, outputs)]


def _with_texts(value: Array) -> Any:
    """Return an input for `predict`; texts become TensorFlow tensors."""
    if value.dtype.kind != "U":
        return value
    return importlib.import_module("tensorflow").constant(value)


def _answered(
    path: str, inputs: Any, safe_mode: bool, predicts: bool
) -> tuple[Any, str, str | None]:
    """Return the answer to a request, what was tried last, and its error or None."""
    import keras

    tried = OPENED
    try:
        model = keras.models.load_model(path, compile=False, safe_mode=safe_mode)
        shapes = [np.shape(x) for x in keras.tree.flatten(inputs)]
        tried = f"called on inputs of the shapes {shapes}"
        if inputs is None:
            answer: Any = [], []
        elif predicts:
            answer = predicted(model, inputs), []
        else:
            answer = [[*map(_array, each)] for each in _called(model, inputs)]
        ours = [name for name in sys.modules if name.startswith("keras_policies")]
        assert not ours, f"something imports {ours}"
    except Exception as raised:  # whatever a layer raises; Keras wraps it
        error: BaseException = raised
        while cause := error.__cause__ or error.__context__:
            error = cause
        text = f"{type(error).__name__}: {error}"[: 10 * TOLD]
        text = VALUES.sub(_without_values, text)[:TOLD].rstrip(".: ")
        return None, tried, text
    return answer, tried, None


def _without_values(match: re.Match[str]) -> str:
    """Return a run of characters that occur in numbers, with `[…]` for a tensor."""
    run = match[0]
    start, end = run.find("[["), run.rfind("]]")
    return f"{run[:start]}[…]{run[end + 2 :]}" if -1 < start < end else run


def _called(model: Any, inputs: Any) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a model, flat, and the losses that it adds."""
    import keras

    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    if keras.backend.backend() == "torch":
        importlib.import_module("torch").set_grad_enabled(False)
    if keras.backend.backend() == "jax":
        with contextlib.suppress(Exception):  # a lookup layer, which jax cannot trace
            return _compiled(model, inputs)
    # Augmentation layers run in training mode by default.
    return keras.tree.flatten(model(inputs, training=False)), model.losses


def _compiled(model: Any, inputs: Any) -> tuple[list[Any], list[Any]]:
    """Compile and call a whole model with jax, which is faster than op by op."""
    import keras

    call = functools.partial(model.stateless_call, training=False, return_losses=True)
    variables = model.trainable_variables, model.non_trainable_variables
    values = [[variable.value for variable in each] for each in variables]
    compiled = importlib.import_module("jax").jit(call)
    outputs, _, losses = compiled(*values, inputs)
    return keras.tree.flatten(outputs), losses


def _array(tensor: Any) -> Array:
    import keras

    dtype = keras.backend.standardize_dtype(tensor.dtype)
    tensor = keras.ops.cast(tensor, "float32") if dtype.endswith("float16") else tensor
    return keras.ops.convert_to_numpy(tensor)  # type: ignore[no-any-return]
