"""Compares what a converted model predicts with what the legacy model did."""

import dataclasses
import importlib

import keras
import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.build import hints
from keras_policies.legacy.plan import policies

# How far an output may be off, as a share of the largest one recorded, by the least
# precise dtype that the layers compute in: a few of its roundings. GPUs multiply
# float32 with the 10 bits of TF32, in TensorFlow since 2.4.
TOLERANCES = {"bfloat16": 5e-2, "float16": 1e-2}
TOLERANCE = 1e-3
TEXTS = "U"  # kinds of dtype
# Letters of the arrays in a file, and what they hold.
KINDS = {"x": "inputs", "y": "outputs"}
RECORD = 'np.savez("outputs.npz", x_0=x, y_0=model.predict(x))'


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How two models differ.

    Args:
        difference: float, the largest one between two outputs.
        allowed: float, how large it may be.
    """

    difference: float
    allowed: float


def read(path):
    """Return `(inputs, outputs)`, lists of arrays, of an `.npz` file.

    Arrays of other names are passed over.

    Args:
        path: str or path.

    Raises:
        LegacyModelError: if it is no such file, or one of them is missing.
    """
    try:
        stored = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise ValueError("one array alone, as np.save writes it")
        with stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError) as error:
        raise LegacyModelError(
            f"{path}: not a readable .npz file: {str(error).rstrip('.')}. Record one "
            f"with {RECORD}; texts as np.array(texts, dtype=str)."
        ) from error
    by_kind = [[name for name in arrays if name[:2] == f"{kind}_"] for kind in KINDS]
    expected = [
        [f"{kind}_{n}" for n in range(len(names))]
        for kind, names in zip(KINDS, by_kind, strict=True)
    ]
    if not all(by_kind) or any(
        set(names) != set(found) for names, found in zip(expected, by_kind, strict=True)
    ):
        raise LegacyModelError(
            f"{path}: expected inputs x_0, x_1, … and outputs y_0, y_1, …, found "
            f"{sorted(arrays)}. Record them with {RECORD}."
        )
    inputs, outputs = ([arrays[name] for name in names] for names in expected)
    return inputs, outputs


def tolerance(planned):
    """Return the share of the largest output by which another may be off.

    Args:
        planned: `plan.Plan`; what it becomes counts as well as what it was.
    """
    legacy = planned.legacy
    if not legacy.records_policies:  # it may have been a mixed one
        return TOLERANCES["float16"]
    written = [*planned.findings.dtypes.values(), *legacy.inner_policies.values()]
    found = {policies.dtypes_of(dtype)[0] for dtype in written}
    now = {dtype for one in written for dtype in _compute(planned.policy_of(one))}
    return max(TOLERANCES.get(dtype, TOLERANCE) for dtype in {*found, *now, None})


def _compute(policy):
    """Return the compute dtypes of a policy, or of those in a map."""
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        inner = [policy.default_policy, *policy.values()]
        return {dtype for one in inner for dtype in _compute(one)}
    if isinstance(policy, str):
        return {policies.dtypes_of(policy)[0]}
    return {getattr(policy, "compute_dtype", None)}


def compare(model, recorded, share, source, number=None):
    """Return the `Comparison` of a model with recorded outputs.

    Args:
        model: `keras.Model`.
        recorded: `(inputs, outputs)`.
        share: float, the tolerance, of the largest output.
        source: str or path, for errors.
        number: int, of the model's inputs, or None where it is not known.

    Raises:
        LegacyModelError: if they differ, or if they would prove nothing.
    """
    inputs, expected = recorded
    found = _predicted(model, inputs, source, number)
    if [np.shape(item) for item in found] != [item.shape for item in expected]:
        raise LegacyModelError(
            f"{source}: it predicts the shapes {[np.shape(item) for item in found]}, "
            f"recorded are {[item.shape for item in expected]}. Nothing was written."
        )
    compared = [
        _difference(np.asarray(item), wanted, share)
        for item, wanted in zip(found, expected, strict=True)
    ]
    for place, wanted in enumerate(expected):
        _check_spread(wanted, compared[place].allowed, source, f"y_{place}")
    worst = max(compared, key=lambda item: item.difference / (item.allowed or 1.0))
    wrong = [item for item in compared if not item.difference <= item.allowed]
    if wrong:
        raise LegacyModelError(
            f"{source}: it predicts something else: the largest difference from the "
            f"recorded outputs is {wrong[0].difference:.3g}, allowed "
            f"{wrong[0].allowed:.3g}. Nothing was written."
        )
    return worst


def _predicted(model, inputs, source, number):
    """Return the list of what a model predicts."""
    if number is not None and number != len(inputs):
        raise LegacyModelError(
            f"{source}: it takes {number} inputs, recorded are {len(inputs)}, x_0 to "
            f"x_{len(inputs) - 1}. Nothing was written."
        )
    values = [_as_tensor(value, source) for value in inputs]
    try:
        found = model.predict(values[0] if len(values) == 1 else values, verbose=0)
    except Exception as error:  # whatever a layer raises
        shapes = [value.shape for value in inputs]
        raise LegacyModelError(
            f"{source}: it cannot be called on the recorded inputs, of the shapes "
            f"{shapes}: {hints.innermost(error)}. Nothing was written."
        ) from error
    found = list(found.values()) if isinstance(found, dict) else found
    return list(found) if isinstance(found, list | tuple) else [found]


def _as_tensor(value, source):
    """Return an input as `predict` takes it: texts are tensors of TensorFlow's."""
    if value.dtype.kind not in TEXTS:
        return value
    if keras.backend.backend() != "tensorflow":
        raise LegacyModelError(
            f"{source}: the recorded inputs are texts, which Keras 3 takes on the "
            "TensorFlow backend alone. Verify it there (KERAS_BACKEND=tensorflow); "
            "nothing was written."
        )
    return importlib.import_module("tensorflow").constant(value)


def _difference(found, wanted, share):
    """Return the `Comparison` of two arrays; NaN is allowed nowhere.

    Numbers that are counts, and texts, have to be the same.
    """
    if not wanted.size:
        return Comparison(0.0, 0.0)
    if wanted.dtype.kind in TEXTS:
        same = np.array_equal(np.asarray(found, "S"), np.char.encode(wanted, "utf-8"))
        return Comparison(0.0 if same else float("inf"), 0.0)
    found, exact = found.astype("float64"), wanted.astype("float64")
    is_rounded = np.issubdtype(wanted.dtype, np.inexact)
    allowed = share * float(np.max(np.abs(exact))) if is_rounded else 0.0
    return Comparison(float(np.max(np.abs(found - exact))), allowed)


def _check_spread(wanted, allowed, source, name):
    """Raise if any other input might have given outputs as near as is allowed."""
    if not wanted.size or wanted.dtype.kind in TEXTS:
        return
    values = wanted.astype("float64")
    rows = values if len(values) > 1 else np.append(values.ravel(), 0.0)
    spread = float(np.max(np.ptp(rows, axis=0)))
    if spread <= allowed:
        raise LegacyModelError(
            f"{source}: nothing can be proven: the recorded {name} varies by "
            f"{spread:.3g} between its rows, and {allowed:.3g} is allowed for "
            "rounding. Record outputs for inputs that differ more, or convert without "
            "comparing; nothing was written."
        )
