"""`convert_model`: a legacy file into a `.keras` file that stock Keras 3 opens."""

import dataclasses
import pathlib
from collections.abc import Collection
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects, Path, PolicyLike
from keras_policies.legacy import atomic_file, inspection, loading, verification
from keras_policies.legacy.base.errors import Keras3ModelError, located
from keras_policies.legacy.build import explanations, made_in_code
from keras_policies.legacy.build.build import Built
from keras_policies.legacy.build.checking import Check
from keras_policies.legacy.build.own_classes import is_stock
from keras_policies.legacy.descriptions import ModelDescription
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.plan.report import BACKENDS


@dataclasses.dataclass(frozen=True)
class Converted:
    """What `convert_model` did.

    Args:
        destination: str, the file that was written.
        source: `ModelDescription` of the legacy file.
        left_out: tuple of str, what of the model and of its training configuration is
            not in the new file, each part with its reason.
        largest_difference: float, between the recorded outputs and those of the new
            file, opened again; None if nothing was compared.
        allowed_difference: float, the largest that rounding explains, or None.
        graph_difference: float, the largest difference between the outputs of the model
            and those of the graph in its own file, as a share of the largest number;
            None if they were not compared.
        not_checked: str, why the model was not compared with a graph; None if it was.

    Example:
        >>> done = convert_model("model_of_2020", "converted.keras")
        >>> done.destination, done.source.policy
        ('converted.keras', 'mixed_float16')
    """

    destination: str
    source: ModelDescription
    left_out: tuple[str, ...]
    largest_difference: float | None
    allowed_difference: float | None = None
    graph_difference: float | None = None
    not_checked: str | None = None

    @property
    def check(self) -> str:
        """str, how the model compares with the graph in its own file, in words."""
        return str(Check(self.graph_difference, self.not_checked))

    def as_dict(self) -> Config:
        """Return it as plain values for JSON, with the path of the source alone."""
        values = {name: vars(self)[name] for name in vars(self) if name != "source"}
        return {"path": self.source.path, **values}


def convert_model(
    source: Path,
    destination: Path,
    custom_objects: CustomObjects = None,
    dtype_policy: PolicyLike | None = None,
    overwrite: bool = False,
    safe_mode: bool = True,
    verify: Path | None = None,
    *,
    lost: str = "rebuild",
    signature: str | None = None,
    backends: Collection[str] = BACKENDS,
) -> Converted:
    """Open a legacy model, and save it as a `.keras` file that stock Keras 3 opens.

    The file is written beside `destination` and put in its place at the end: there is
    a whole new file or none. `source` is never written.

    Args:
        source: str or path, as `load_model` takes it.
        destination: str or path, ending in `.keras`.
        custom_objects: dict, as `load_model` takes it.
        dtype_policy: as `load_model` takes it.
        overwrite: bool, whether to replace an existing `destination`.
        safe_mode: bool, whether to refuse code in the file.
        verify: path of an `.npz` file with inputs `x_0`, `x_1`, … and the outputs
            `y_0`, `y_1`, … that the legacy model gave for them, or None. Record them
            where that model runs, with
            `np.savez("outputs.npz", x_0=x, y_0=model.predict(x))`. The new file is
            opened, and kept only if it predicts the same, to 1e-3 of the largest
            recorded output; 1e-2 if a layer computes in float16, 5e-2 in bfloat16.
            Outputs that vary less than that prove nothing and are refused, as is an
            `x_1` that the model does not take.
        lost: as `load_model` takes it.
        signature: as `load_model` takes it.
        backends: as `load_model` takes it.

    Returns:
        `Converted`.

    Raises:
        LegacyModelError: if the source cannot be opened, the destination cannot be
            written, or the outputs differ, from the recorded ones or from those of the
            graph that a SavedModel holds; if the new file needs your own classes, and
            cannot be opened with them.
        TypeError, ValueError: as from `load_model`.

    Example:
        >>> convert_model("model_of_2020", "model.keras").left_out
        ()
    """
    policy, objects = checked_policy(dtype_policy), checked_objects(custom_objects)
    options = loading.checked_options(lost, signature, backends, safe_mode=safe_mode)
    atomic_file.check_ending(destination)
    destination = pathlib.Path(destination)
    atomic_file.check(destination, overwrite)
    recorded = None if verify is None else verification.read(verify)
    with located(source), keras_internals.custom_object_scope(_also_as_saved(objects)):
        built = loading.rebuild(source, policy, options, verify=True)
        description = inspection.describe(built.plan)
        with atomic_file.writing(destination, overwrite) as written:
            with keras_internals.importing_no_tensorflow():
                built.model.save(written)
            compared = _verified(written, built, recorded)
    notes = [*built.plan.report.notes, *made_in_code.unrecorded_policies(built.model)]
    if built.plan.reconstruction.layers:
        notes.append(str(built.plan.reconstruction))
    if built.check is not None and built.check.other_losses:
        notes.append(f"the losses that its layers add: {built.check.other_losses}")
    return Converted(
        destination=str(destination),
        source=description,
        left_out=(*built.not_converted, *built.other_policies, *notes),
        largest_difference=compared and compared.difference,
        allowed_difference=compared and compared.allowed,
        graph_difference=built.check and built.check.difference,
        not_checked=built.check and built.check.reason,
    )


def _also_as_saved(custom_objects: dict[str, Any]) -> dict[str, Any]:
    """Return custom objects, also under the names that Keras writes for them."""
    named = [item for item in custom_objects.values() if hasattr(item, "__name__")]
    saved = {keras.saving.get_registered_name(item): item for item in named}
    return saved | custom_objects


def _verified(
    written: pathlib.Path, built: Built, recorded: verification.Recording | None
) -> verification.Comparison | None:
    """Open the new file where that can fail, and compare its model if recorded."""
    model, plan = built.model, built.plan
    if recorded is None and all(map(is_stock, keras_internals.sublayers(model))):
        return None
    inputs = len(getattr(model, "inputs", None) or plan.legacy.inputs) or None
    safe_mode = plan.options.safe_mode
    try:
        again = keras.models.load_model(written, compile=False, safe_mode=safe_mode)
    except Exception as error:  # whatever a class of the user's raises
        raise explanations.explained("the new file cannot be opened", error) from error
    if recorded is None:
        return None
    return verification.compare(again, recorded, verification.tolerance(plan), inputs)


def verify_model(
    path: Path,
    outputs: Path,
    custom_objects: CustomObjects,
    dtype_policy: PolicyLike | None,
    safe_mode: bool,
    lost: str,
    signature: str | None,
    backends: Collection[str] = BACKENDS,
) -> verification.Comparison:
    """Open a model, legacy or of Keras 3, and compare its outputs with recorded ones.

    `outputs` is an `.npz` file, as `convert_model` takes it in `verify`; the others are
    the arguments of `load_model`. Raises `LegacyModelError` if the outputs differ.
    """
    recorded = verification.read(outputs)
    objects = checked_objects(custom_objects)
    with located(path), keras_internals.custom_object_scope(_also_as_saved(objects)):
        try:
            policy = checked_policy(dtype_policy)
            options = loading.checked_options(
                lost, signature, backends, safe_mode=safe_mode
            )
            built = loading.rebuild(path, policy, options, compile=False)
        except Keras3ModelError:
            model = loading.open_with_keras(
                path, None, compile=False, safe_mode=safe_mode
            )
            share = verification.tolerance_of(model)
        else:
            model, share = built.model, verification.tolerance(built.plan)
        inputs = len(getattr(model, "inputs", None) or []) or None
        return verification.compare(model, recorded, share, inputs)
