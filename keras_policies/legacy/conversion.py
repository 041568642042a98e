"""`convert_model`: a legacy file into a `.keras` file, all or nothing."""

import contextlib
import dataclasses
import os
import pathlib
import tempfile

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.annotations import CustomObjects, Path, PolicyLike
from keras_policies.legacy import (
    build,
    inner_policies,
    inspection,
    plan,
    progress,
    readers,
)
from keras_policies.legacy.errors import LegacyModelError
from keras_policies.legacy.policies import checked_policy

ENDING = ".keras"
# How far a float16 output may be off: a few of its roundings.
TOLERANCE = {"rtol": 5e-3, "atol": 5e-3}


@dataclasses.dataclass(frozen=True)
class Converted:
    """What `convert_model` did.

    Args:
        destination: str, the file that was written.
        source: `ModelDescription` of what was read.
        left_out: tuple of str, what of the training configuration was left out, and
            what of the model Keras 3 has no counterpart for.
        largest_difference: float, between the recorded outputs and those of the file
            written, opened again; None where nothing was to be compared.
    """

    destination: str
    source: inspection.ModelDescription
    left_out: tuple[str, ...]
    largest_difference: float | None


def convert_model(
    source: Path,
    destination: Path,
    custom_objects: CustomObjects = None,
    dtype_policy: PolicyLike | None = None,
    overwrite: bool = False,
    safe_mode: bool = True,
    verify: Path | None = None,
) -> Converted:
    """Open a legacy model, and save it as a `.keras` file that stock Keras 3 opens.

    The file is written beside `destination` and put in its place at the end, so that
    there is a whole one or none; `source` is never written.

    Args:
        source: str or path, as `load_model` takes it.
        destination: str or path, ending in `.keras`.
        custom_objects: dict, as `load_model` takes it.
        dtype_policy: as `load_model` takes it.
        safe_mode: bool, whether code in the file is refused.
        overwrite: bool, whether an existing `destination` is replaced.
        verify: path of an `.npz` file with inputs `x_0`, `x_1`, … and the outputs
            `y_0`, `y_1`, … that the legacy model gave for them, or None. The new file
            is opened, and kept only if it predicts the same.

    Returns:
        `Converted`.

    Raises:
        LegacyModelError: if the source cannot be opened, the destination cannot be
            written, or the outputs differ.

    Example:
        >>> convert_model("model_of_2020", "model.keras").left_out
        ()
    """
    destination = pathlib.Path(destination)
    policy = checked_policy(dtype_policy)
    _check(destination, overwrite)
    recorded = None if verify is None else _recorded(verify)
    with keras_internals.custom_object_scope(custom_objects):
        with readers.read(source) as legacy:
            planned = plan.make(legacy, policy, safe_mode)
            planned.raise_if_missing()
            description = inspection.describe(planned)
            with progress.bar(f"Reading {source}", legacy.size) as advance:
                model, left_out, different = build.build_and_report(
                    planned, safe_mode, advance
                )
        with _beside(destination, overwrite) as written:
            model.save(written)
            difference = None
            if recorded is not None:
                difference = _compare(written, recorded, safe_mode, source)
    notes = [*planned.conversion.notes, *inner_policies.unrecorded(model)]
    left_out = (*left_out, *different, *notes)
    return Converted(str(destination), description, left_out, difference)


def _check(destination, overwrite):
    if destination.suffix != ENDING:
        raise LegacyModelError(
            f"{destination}: the destination must end in {ENDING}, as Keras 3 names "
            "its files."
        )
    if destination.exists() and not overwrite:
        raise LegacyModelError(_exists(destination))
    if not destination.parent.is_dir():
        raise LegacyModelError(
            f"{destination}: there is no folder {str(destination.parent)!r} to put it "
            "in. Make it first."
        )


def _exists(destination):
    return (
        f"{destination}: it exists already. Choose another name, or pass "
        "overwrite=True (--overwrite)."
    )


@contextlib.contextmanager
def _beside(destination, overwrite):
    """Yield a path to write to; put what is there in the place of `destination`."""
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{destination.name}.", dir=destination.parent
        ) as folder:
            written = pathlib.Path(folder, destination.name)
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            if overwrite:
                os.replace(written, destination)
            else:
                os.link(written, destination)  # fails if it came up in the meantime
    except FileExistsError:
        raise LegacyModelError(_exists(destination)) from None
    except OSError as error:
        raise LegacyModelError(
            f"{destination}: cannot be written: {error}. Nothing was left there."
        ) from error


def _recorded(path):
    """Return `(inputs, outputs)` of an `.npz` file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError) as error:
        raise LegacyModelError(f"{path}: not a readable .npz file: {error}.") from error
    inputs, outputs = (
        [
            arrays[f"{letter}_{n}"]
            for n in range(len(arrays))
            if f"{letter}_{n}" in arrays
        ]
        for letter in "xy"
    )
    if not inputs or not outputs:
        raise LegacyModelError(
            f"{path}: expected inputs x_0, x_1, … and outputs y_0, y_1, …, found "
            f"{sorted(arrays)}."
        )
    return inputs, outputs


def _compare(written, recorded, safe_mode, source):
    """Return the largest difference from the recorded outputs, or raise."""
    inputs, expected = recorded
    model = keras.models.load_model(written, compile=False, safe_mode=safe_mode)
    found = model.predict(inputs[0] if len(inputs) == 1 else inputs, verbose=0)
    found = list(found.values()) if isinstance(found, dict) else found
    found = found if isinstance(found, list) else [found]
    if [np.shape(item) for item in found] != [item.shape for item in expected]:
        raise LegacyModelError(
            f"{source}: it predicts the shapes {[np.shape(item) for item in found]}, "
            f"recorded are {[item.shape for item in expected]}. Nothing was written."
        )
    pairs = [
        (np.asarray(item, "float64"), np.asarray(wanted, "float64"))
        for item, wanted in zip(found, expected, strict=True)
    ]
    largest = max(float(np.max(np.abs(item - wanted))) for item, wanted in pairs)
    if not all(np.allclose(item, wanted, **TOLERANCE) for item, wanted in pairs):
        raise LegacyModelError(
            f"{source}: it predicts something else: the largest difference from the "
            f"recorded outputs is {largest:.3g}. Nothing was written."
        )
    return largest
