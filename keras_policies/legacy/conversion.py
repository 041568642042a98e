"""`convert_model`: converts a legacy file to a `.keras` file for plain Keras 3."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Collection
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common import files
from keras_policies._common.types import (
    Config,
    CustomObjects,
    InputShapes,
    Path,
    PolicyLike,
    Source,
)
from keras_policies.backends.running import backend
from keras_policies.legacy import (
    atomic_file,
    inspection,
    keras_files,
    loading,
    new_files,
    plain_keras,
    verification,
)
from keras_policies.legacy.assembly import (
    made_in_code,
)
from keras_policies.legacy.assembly.comparison import Check
from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.base.errors import (
    Keras3ModelError,
    located,
)
from keras_policies.legacy.base.outcomes import (
    LOSING,
    LeftOut,
    Outcome,
    left_out,
    plain_parts,
    worst,
)
from keras_policies.legacy.descriptions import ModelDescription
from keras_policies.legacy.guards.paths import check_regular
from keras_policies.legacy.options import checked_options
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.plan.report import BACKENDS
from keras_policies.legacy.texts.inputs import TextInputs

TEXTS_ENDING = ".texts.json"  # in place of ".keras"


@dataclasses.dataclass(frozen=True)
class Converted:
    """The result of `convert_model`.

    Args:
        destination: str, the file that was written.
        source: `ModelDescription` of the legacy file.
        parts: tuple of `LeftOut`, how the model and its training differ from those in
            the legacy file.
        largest_difference: float, the largest difference between the recorded outputs
            and those of the new file, opened in plain Keras; None if no recorded
            outputs were compared.
        allowed_difference: float, the largest difference that rounding explains, or
            None.
        graph_difference: float, the largest difference between the outputs of the model
            and those of the graph in its own file, as a share of the largest number;
            None if they were not compared.
        not_checked: str, why the model was not compared with a graph; None if it was.
        checked_on: str, the examples on which it was compared; None if it was not.
        plain_difference: float, the largest difference on seeded inputs between the
            outputs of the new file in plain Keras and those of the graph in the legacy
            file (or of the model, if there is no graph), as a share of the largest
            number; None if recorded outputs were compared instead, or nothing was.
        not_plain: str, why the new file was not called in plain Keras; None if it was.
        texts: str, the path of the `TextInputs` file that was written with the model;
            None if the model takes no texts, or reads them itself.

    Example:
        >>> done = convert_model("model_of_2020", "converted.keras")
        >>> done.destination, done.source.policy, done.outcome.value
        ('converted.keras', 'mixed_float16', 'complete')
    """

    destination: str
    source: ModelDescription
    parts: tuple[LeftOut, ...]
    largest_difference: float | None
    allowed_difference: float | None = None
    graph_difference: float | None = None
    not_checked: str | None = None
    checked_on: str | None = None
    plain_difference: float | None = None
    not_plain: str | None = None
    texts: str | None = None

    @property
    def outcome(self) -> Outcome:
        """`Outcome`, the last one of all parts."""
        return worst(self.parts)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """tuple of `LeftOut`, the parts that are lost or train differently."""
        return tuple(part for part in self.parts if part.outcome in LOSING)

    @property
    def check(self) -> str:
        """str, the result of comparing the model with the graph in its own file."""
        text = str(Check(self.graph_difference, self.not_checked))
        return ", on ".join(filter(None, (text, self.checked_on)))

    @property
    def plain(self) -> str:
        """str, the result of opening the new file in plain Keras."""
        if self.not_plain is not None:
            return f"not compared in plain Keras: {self.not_plain}"
        if self.plain_difference is None:
            return "opened in plain Keras"
        return (
            "opened in plain Keras: largest difference "
            f"{self.plain_difference:.1g} of the largest output"
        )

    def as_dict(self) -> Config:
        """Return plain values for JSON; `source` is reduced to its path."""
        values = {name: vars(self)[name] for name in vars(self) if name != "source"}
        return {
            "path": self.source.path,
            "destination": self.destination,
            "outcome": self.outcome.value,
            **values,
            "parts": plain_parts(self.parts),
        }


def convert_model(
    source: Source,
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
    weights: Path | None = None,
    plain: bool = True,
    texts: str = "inside",
    input_shapes: InputShapes = None,
) -> Converted:
    """Open a legacy model, and save it as a `.keras` file that plain Keras 3 opens.

    The new file is written to a temporary path and then moved to `destination`, so you
    get a complete file or none. `source` is never changed.

    Before it is moved, the new file is opened and called in a second process that never
    imports this package. That process takes seconds to start, serves all calls of
    `convert_model`, and ends after a minute without a call. A file that needs your own
    classes is opened in the current process instead.

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
            opened, and kept only if its predictions differ by at most 1e-3 of the
            largest recorded output; 1e-2 if a layer computes in float16, 5e-2 in
            bfloat16. Outputs that vary less than that prove nothing and are refused.
            An `x_1` that the model does not take is also refused.
        lost: as `load_model` takes it.
        signature: as `load_model` takes it.
        backends: as `load_model` takes it.
        weights: as `load_model` takes it, for an architecture (`.json`, `.yaml`).
        input_shapes: as `load_model` takes it.
        plain: bool, whether to call the new file in plain Keras, in another process.
        texts: as `load_model` takes it. With `"outside"`, `model.texts.json` is written
            beside `model.keras` if the model takes texts. Open it with
            `TextInputs.from_json` to convert texts to the numbers that the new file
            takes.

    Returns:
        `Converted`.

    Raises:
        LegacyModelError: if the source cannot be opened or the destination cannot be
            written; if the outputs differ from the recorded ones or from those of the
            graph in a SavedModel; if plain Keras cannot open the new file, gives other
            outputs, or its process ends; or if the new file needs your own classes and
            cannot be opened with them.
        TypeError, ValueError: as from `load_model`.

    Example:
        >>> convert_model("model_of_2020", "model.keras").left_out
        ()
    """
    policy, objects = checked_policy(dtype_policy), checked_objects(custom_objects)
    options = checked_options(
        lost,
        signature,
        backends,
        safe_mode=safe_mode,
        texts=texts,
        input_shapes=input_shapes,
    )
    atomic_file.check_ending(destination)
    destination = pathlib.Path(destination)
    atomic_file.check(destination, overwrite)
    recorded = None if verify is None else verification.read(verify)
    scope, names = scope_of(objects), keras_internals.fresh_names()
    with located(source), scope, names, contextlib.ExitStack() as precision:
        built = loading.rebuild(source, policy, options, weights, verify=True)
        if any(map(_is_narrowed, built.model.weights)):
            precision.enter_context(backend.in_float64())
            built = loading.rebuild(source, policy, options, weights, verify=True)
        description = inspection.describe(built.plan)
        read_by, beside = built.texts, destination.with_suffix(TEXTS_ENDING)
        with contextlib.ExitStack() as stack:
            written = stack.enter_context(atomic_file.writing(destination, overwrite))
            if read_by is not None:
                atomic_file.check(beside, overwrite)
                file = stack.enter_context(atomic_file.writing(beside, overwrite))
                file.write_bytes(read_by.to_json().encode())
            new_files.save(built.model, written)
            proof = new_files.proved(written, built, recorded, plain=plain)
    unrecorded = made_in_code.unrecorded_policies(built.model)
    return Converted(
        destination=str(destination),
        source=description,
        parts=(*built.parts, *left_out("KP610", unrecorded)),
        largest_difference=proof.compared and proof.compared.difference,
        allowed_difference=proof.compared and proof.compared.allowed,
        graph_difference=built.check and built.check.difference,
        not_checked=built.check and built.check.reason,
        checked_on=(built.check and built.check.where) or None,
        plain_difference=proof.difference,
        not_plain=proof.not_plain,
        texts=None if read_by is None else str(beside),
    )


def _is_narrowed(variable: keras.Variable) -> bool:
    """Return whether a float64 variable holds float32, as in jax without x64."""
    held = str(keras.backend.standardize_dtype(variable.value.dtype))
    return str(variable.dtype) == "float64" != held


def scope_of(custom_objects: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Return a scope of objects, also under the names that Keras saves for them."""
    named = [item for item in custom_objects.values() if hasattr(item, "__name__")]
    saved = {keras.saving.get_registered_name(item): item for item in named}
    return keras_internals.custom_object_scope(saved | custom_objects)


def verify_model(
    path: Path,
    outputs: Path,
    custom_objects: CustomObjects,
    dtype_policy: PolicyLike | None,
    *,
    plain: bool = True,
    weights: Path | None = None,
    **opening: Any,
) -> tuple[verification.Comparison, str | None]:
    """Compare the outputs of a legacy or Keras 3 model with those in an `.npz` file.

    A legacy model is saved to a temporary file, which is opened as by `convert_model`.
    Also return why the model was not called in plain Keras, or None. `opening` has the
    arguments of `checked_options`.
    """
    recorded = verification.read(outputs)
    with located(path), scope_of(checked_objects(custom_objects)):
        policy = checked_policy(dtype_policy)
        options = checked_options(**opening)
        try:
            built = loading.rebuild(path, policy, options, weights, compile=False)
        except Keras3ModelError:
            if options.texts_outside:
                beside = pathlib.Path(path).with_suffix(TEXTS_ENDING)
                check_regular(beside)
                reader = TextInputs.from_json(beside.read_bytes())
                recorded = verification.as_numbers(recorded, reader)
            safe_mode = options.safe_mode
            return _verified_keras_3(path, recorded, safe_mode=safe_mode, plain=plain)
        if not plain or not all(map(is_stock, keras_internals.sublayers(built.model))):
            reason = (
                "it needs code that Keras does not have"
                if plain
                else new_files.LEFT_OUT
            )
            predict = verification.predict_here(built.model)
            return new_files.compared_with(predict, built, recorded), reason
        with files.temporary_folder() as folder:
            written = folder / "model.keras"
            with files.in_temporary_folder():
                new_files.save(built.model, written)
            proof = new_files.proved(written, built, recorded, plain=True)
        assert proof.compared is not None
        return proof.compared, proof.not_plain


def _verified_keras_3(
    path: Path, recorded: verification.Recording, *, safe_mode: bool, plain: bool
) -> tuple[verification.Comparison, str | None]:
    with keras_files.named_for_keras(path) as named:
        share = verification.tolerance_of(plain_keras.objects_in(named))
        reason = plain_keras.obstacle(named) if plain else new_files.LEFT_OUT
        predict = new_files.caller(named, reason, safe_mode=safe_mode)
        return verification.compare(predict, recorded, share), reason
