"""Compares the predictions of a converted model with those of the legacy model."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies._common import comparing
from keras_policies._common.process import EndedError
from keras_policies._common.text import without_tracers
from keras_policies._common.types import Config, Path
from keras_policies.backends import hardware
from keras_policies.legacy import plain_answers, plain_keras
from keras_policies.legacy.assembly import explanations
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards.paths import check_regular
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.texts.inputs import TextInputs

# How float32 may have been multiplied where the outputs were recorded: so do GPUs in
# TensorFlow 2.4 and later.
PRODUCTS = "tensorfloat32"
RECORD = 'Record it with np.savez("outputs.npz", x_0=x, y_0=model.predict(x))'
TEXTS = "U"  # the kind of NumPy's text dtypes
PLAIN = hints.Hint("{} writes the file without opening it there.", (hints.PLAIN,))
Predict = Callable[[list[Array]], list[Array]]


class Recording(NamedTuple):
    """The recorded inputs and outputs of a legacy model."""

    inputs: list[Array]
    outputs: list[Array]


def as_numbers(recorded: Recording, texts: TextInputs) -> Recording:
    """Return a recording with its texts converted to the model's numbers."""
    names, inputs = [name for name, _ in texts.sources], recorded.inputs
    if len(inputs) != len(names):
        reason = f"it takes {names}; recorded: {len(inputs)} inputs."
        raise LegacyModelError(reason, code="KP503")
    numbers = keras.tree.flatten(texts(dict(zip(names, inputs, strict=True))))
    return Recording(numbers, recorded.outputs)


def read(path: Path) -> Recording:
    """Return the arrays `x_0`, `x_1`, … and `y_0`, `y_1`, … of an `.npz` file.

    Arrays of other names are ignored.
    """
    with located(path, code="KP503"):
        try:
            check_regular(path)
            arrays = _arrays(path)
        except LegacyModelError:
            raise
        except (OSError, ValueError, EOFError) as error:
            raise LegacyModelError(
                f"not a readable .npz file: {str(error).rstrip('.')}.",
                f"{RECORD}; pass texts as np.array(texts, dtype=str).",
            ) from error
        return Recording(_numbered("x_", arrays), _numbered("y_", arrays))


def _arrays(path: Path) -> dict[str, Array]:
    stored = np.load(path, allow_pickle=False)
    if isinstance(stored, np.ndarray):
        raise ValueError("a single array, as np.save writes it")
    with stored:
        return {name: stored[name] for name in stored.files}


def _numbered(prefix: str, arrays: Mapping[str, Array]) -> list[Array]:
    """Return the arrays with a prefix, ordered by number; raise if one is missing."""
    matching = [name for name in arrays if name.startswith(prefix)]
    names = [f"{prefix}{number}" for number in range(len(matching))]
    if not matching or set(names) != set(matching):
        raise LegacyModelError(
            "expected inputs x_0, x_1, … and outputs y_0, y_1, …, found "
            f"{sorted(arrays)}.",
            f"{RECORD}.",
        )
    return [arrays[name] for name in names]


class Comparison(NamedTuple):
    """The difference between an output and the recorded one, and the allowed one."""

    difference: float
    allowed: float


def tolerance(plan: Plan) -> float:
    """Return the allowed difference of an output, as a share of the largest output.

    It depends on the policies in the file and on those of the new model.
    """
    return comparing.tolerance({*plan.compute_dtypes, PRODUCTS}).share


def tolerance_of(objects: Iterable[Config]) -> float:
    """Return the tolerance for a Keras 3 config, from the policies of its objects."""
    policies = (x for x in objects if str(x.get("class_name")).endswith("DTypePolicy"))
    names = (str((policy.get("config") or {}).get("name")) for policy in policies)
    dtypes = {name.rpartition("_")[2] for name in names}  # "int8_from_mixed_float16"
    return comparing.tolerance({*dtypes, PRODUCTS}).share


def compare(
    predict: Predict, recorded: Recording, share: float, inputs: int | None = None
) -> Comparison:
    """Compare a model's predictions with recorded outputs; return the worst result.

    `share` is the tolerance, as a share of the largest output, and `inputs` the number
    of the model's inputs, if known. Raise if the recorded outputs hardly vary, because
    then equal outputs would prove nothing.
    """
    count = len(recorded.inputs)
    if inputs not in (None, count):
        names = ", ".join(f"x_{number}" for number in range(count))
        reason = f"its number of inputs is {inputs}; recorded: {names}."
        raise LegacyModelError(reason, code="KP503")
    if lacks_texts(recorded.inputs):
        raise LegacyModelError(
            "the recorded inputs are texts, which Keras 3 supports on the TensorFlow "
            "backend only.",
            f"Verify it there (KERAS_BACKEND=tensorflow), or pass {hints.OUTSIDE}.",
            code="KP306",
        )
    predicted = predict(recorded.inputs)
    shapes = [item.shape for item in predicted]
    expected = [item.shape for item in recorded.outputs]
    if shapes != expected:
        reason = f"it predicts the shapes {shapes}, recorded: {expected}."
        raise LegacyModelError(reason, code="KP502")
    pairs = enumerate(zip(predicted, recorded.outputs, strict=True))
    compared = [_comparison(*pair, share, f"y_{number}") for number, pair in pairs]
    for difference, allowed in compared:
        if not difference <= allowed:  # NaN is not <= anything
            raise LegacyModelError(
                "its outputs differ from the recorded ones: the largest difference is "
                f"{difference:.3g}, allowed {allowed:.3g}.",
                _machine_at_fault(share),
                code="KP502",
            )
    return max(compared, key=lambda item: item.difference / (item.allowed or 1.0))


def _machine_at_fault(share: float) -> str:
    """Return a sentence if this machine may compute the model's float16 wrongly."""
    is_half = share == comparing.TOLERANCES["float16"].share
    problem = hardware.problem() if is_half else ""
    return f"The machine may be at fault: {problem}." if problem else ""


def predict_here(model: keras.Model) -> Predict:
    """Return the function that calls a model in this process."""

    @located(code="KP503")
    def predict(values: list[Array]) -> list[Array]:
        try:
            return plain_answers.predicted(model, values)
        except Exception as error:  # whatever a layer raises
            shapes = [value.shape for value in values]
            problem = f"it cannot be called on inputs of the shapes {shapes}"
            raise explanations.explained(problem, error) from error

    return predict


def in_plain(
    path: Path, inputs: Any, *, safe_mode: bool, predicts: bool = False
) -> list[Array]:
    """Return the outputs that the model in a file gives in plain Keras."""
    try:
        outputs, _ = plain_keras.shared(
            path, inputs, safe_mode=safe_mode, predicts=predicts
        )
    except (plain_keras.PlainKerasError, EndedError) as error:
        has_ended = isinstance(error, EndedError)
        if has_ended:
            code = "KP003"
        elif predicts and isinstance(error, plain_keras.CallError):
            code = "KP503"
        else:
            code = "KP504"
        raise LegacyModelError(
            f"{without_tracers(str(error))}.",
            "" if predicts and not has_ended else PLAIN,
            code=code,
        ) from error
    return outputs


def lacks_texts(inputs: Iterable[Array]) -> bool:
    """Return whether inputs are texts that the backend does not support."""
    are_texts = any(value.dtype.kind in "OSU" for value in inputs)
    return are_texts and keras.backend.backend() != "tensorflow"


def _comparison(actual: Array, wanted: Array, share: float, name: str) -> Comparison:
    """Compare two arrays. Integers and texts must be equal; NaN never is.

    Refuse a recorded output that varies so little that any output would match it.
    """
    if not wanted.size:
        return Comparison(0.0, 0.0)
    if wanted.dtype.kind in TEXTS:
        same = np.array_equal(actual.astype("S"), np.char.encode(wanted, "utf-8"))
        return Comparison(0.0 if same else float("inf"), 0.0)
    exact = wanted.astype("float64")
    if np.isnan(exact).any():
        return Comparison(float("nan"), 0.0)
    is_rounded = np.issubdtype(wanted.dtype, np.inexact)
    allowed = share * comparing.largest_of(exact) if is_rounded else 0.0
    rows = exact if len(exact) > 1 else np.append(exact.ravel(), 0.0)
    spread = float(np.max(np.ptp(rows, axis=0)))
    if spread <= allowed:
        raise LegacyModelError(
            f"nothing can be proven: the recorded {name} varies by only {spread:.3g} "
            f"between its rows, and {allowed:.3g} is allowed for rounding.",
            "Record outputs for inputs that differ more, or convert without comparing.",
            code="KP503",
        )
    return Comparison(comparing.relative_difference(actual, exact, 1.0), allowed)
