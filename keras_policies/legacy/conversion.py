"""`convert_model`: a legacy file into a `.keras` file, all or nothing."""

import contextlib
import dataclasses
import os
import pathlib
import tempfile

import keras

from keras_policies import keras_internals
from keras_policies.annotations import CustomObjects, Path, PolicyLike
from keras_policies.legacy import inspection, progress, verification
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.build import build, hints, inner_policies
from keras_policies.legacy.build.own_classes import is_stock
from keras_policies.legacy.plan import plan
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.readers import near_misses, readers

ENDING = ".keras"


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
        allowed_difference: float, how large it might be for rounding, or None.
    """

    destination: str
    source: inspection.ModelDescription
    left_out: tuple[str, ...]
    largest_difference: float | None
    allowed_difference: float | None = None


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
            `y_0`, `y_1`, … that the legacy model gave for them, or None; where that
            model runs, `np.savez("outputs.npz", x_0=x, y_0=model.predict(x))` records
            them. The new file is opened, and kept only if it predicts the same, to
            1e-3 of the largest output recorded; 1e-2 if a layer computes in float16,
            5e-2 in bfloat16. Outputs that vary less than that prove nothing, and are
            refused, as is an `x_1` that the model does not take.

    Returns:
        `Converted`.

    Raises:
        LegacyModelError: if the source cannot be opened, the destination cannot be
            written, or the outputs differ; if the new file has classes of your own, and
            cannot be opened again.

    Example:
        >>> convert_model("model_of_2020", "model.keras").left_out
        ()
    """
    destination = pathlib.Path(destination)
    policy = checked_policy(dtype_policy)
    _check(destination, overwrite)
    near_misses.check(source)
    recorded = None if verify is None else verification.read(verify)
    compared = None
    with keras_internals.custom_object_scope(_by_their_own_names(custom_objects)):
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
            if recorded is not None or _has_own_classes(model):
                again = _opened(written, safe_mode, source)
            if recorded is not None:
                number = _number_of_inputs(model, legacy)
                share = verification.tolerance(planned)
                compared = verification.compare(again, recorded, share, source, number)
    notes = [*planned.findings.notes, *inner_policies.unrecorded(model)]
    left_out = (*left_out, *different, *notes)
    return Converted(
        destination=str(destination),
        source=description,
        left_out=left_out,
        largest_difference=compared and compared.difference,
        allowed_difference=compared and compared.allowed,
    )


def check_ending(destination):
    """Raise if a file of Keras 3 cannot be called so."""
    if pathlib.Path(destination).suffix != ENDING:
        raise LegacyModelError(
            f"{destination}: the destination must end in {ENDING}, as Keras 3 names "
            "its files."
        )


def _check(destination, overwrite):
    check_ending(destination)
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


def _by_their_own_names(custom_objects):
    """Return custom objects under the names that Keras writes for them, too."""
    given = checked_objects(custom_objects)
    objects = [one for one in given.values() if hasattr(one, "__name__")]
    return {**{keras.saving.get_registered_name(one): one for one in objects}, **given}


def _opened(written, safe_mode, source):
    """Return the model of the new file, as stock Keras opens it."""
    try:
        return keras.models.load_model(written, compile=False, safe_mode=safe_mode)
    except Exception as error:  # whatever a class of the user's raises
        raise LegacyModelError(
            f"{source}: the new file cannot be opened: {hints.explained(error)} "
            "Nothing was written."
        ) from error


def _number_of_inputs(model, legacy):
    """Return how many inputs a model takes, or None where it is not known."""
    return len(getattr(model, "inputs", None) or legacy.inputs) or None


def _has_own_classes(model):
    layers = keras_internals.sublayers(model)
    return not all(map(is_stock, layers))
