"""`convert_model`: converts a legacy file to a `.keras` file for plain Keras 3."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Collection
from typing import Any, NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common import comparing, files
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
    plain_keras,
    verification,
)
from keras_policies.legacy.assembly import (
    examples,
    explanations,
    made_in_code,
)
from keras_policies.legacy.assembly.build import Built
from keras_policies.legacy.assembly.comparison import Check
from keras_policies.legacy.assembly.keras_differences import rnn_states
from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.base import codes, hints
from keras_policies.legacy.base.errors import (
    Keras3ModelError,
    LegacyModelError,
    located,
)
from keras_policies.legacy.descriptions import ModelDescription
from keras_policies.legacy.guards.paths import check_regular
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.plan.report import BACKENDS
from keras_policies.legacy.texts.inputs import TextInputs

LEFT_OUT = "it was not requested"
TEXTS_ENDING = ".texts.json"  # in place of ".keras"
STATES = "its recurrent layers have saved states, which plain Keras does not continue"


@dataclasses.dataclass(frozen=True)
class Converted:
    """The result of `convert_model`.

    Args:
        destination: str, the file that was written.
        source: `ModelDescription` of the legacy file.
        left_out: tuple of str, the parts of the model and of its training configuration
            that the new file lacks, each with its reason and the attribute `code`.
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
        texts: str, the path of the written `TextInputs`; None if the model needs none.

    Example:
        >>> done = convert_model("model_of_2020", "converted.keras")
        >>> done.destination, done.source.policy
        ('converted.keras', 'mixed_float16')
    """

    destination: str
    source: ModelDescription
    left_out: tuple[codes.LeftOut, ...]
    largest_difference: float | None
    allowed_difference: float | None = None
    graph_difference: float | None = None
    not_checked: str | None = None
    plain_difference: float | None = None
    not_plain: str | None = None
    texts: str | None = None
    checked_on: str | None = None

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
        values["left_out_codes"] = tuple(part.code for part in self.left_out)
        return {"path": self.source.path, **values}


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
    options = loading.checked_options(
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
    scope = keras_internals.custom_object_scope(_also_as_saved(objects))
    names = keras_internals.fresh_names()
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
            _save(built.model, written)
            proof = _proved(written, built, recorded, plain=plain)
    unrecorded = made_in_code.unrecorded_policies(built.model)
    notes = [
        *codes.left_out("KP610", built.other_policies),
        *codes.left_out("KP611", built.plan.report.notes),
        *codes.left_out("KP610", unrecorded),
    ]
    if built.plan.reconstruction.layers:
        notes.append(codes.LeftOut(str(built.plan.reconstruction), "KP609"))
    if built.check is not None and built.check.other_losses:
        lost = f"the losses that its layers add: {built.check.other_losses}"
        notes.append(codes.LeftOut(lost, "KP604"))
    return Converted(
        destination=str(destination),
        source=description,
        left_out=(*built.not_converted, *notes),
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


def _also_as_saved(custom_objects: dict[str, Any]) -> dict[str, Any]:
    """Return custom objects, also under the names that Keras saves for them."""
    named = [item for item in custom_objects.values() if hasattr(item, "__name__")]
    saved = {keras.saving.get_registered_name(item): item for item in named}
    return saved | custom_objects


class _Proof(NamedTuple):
    """The result of opening a new file again."""

    compared: verification.Comparison | None = None  # with recorded outputs
    difference: float | None = None  # on seeded inputs, as a share of the largest
    not_plain: str | None = None  # why it was not called in plain Keras


def _proved(
    written: pathlib.Path,
    built: Built,
    recorded: verification.Recording | None,
    *,
    plain: bool,
) -> _Proof:
    """Open the new file, if possible in plain Keras, and compare its outputs."""
    reason = plain_keras.obstacle(written) if plain else LEFT_OUT
    if any(map(rnn_states.are_kept, keras_internals.sublayers(built.model))):
        reason = reason or STATES
    if recorded is None and reason is None:
        return _compared_with_seeded(written, built)
    if recorded is None and all(map(is_stock, keras_internals.sublayers(built.model))):
        return _Proof(not_plain=reason)
    predict = _caller(written, reason, safe_mode=built.plan.options.safe_mode)
    compared = recorded and _compared(predict, built, recorded)
    return _Proof(compared, not_plain=reason)


@located(code="KP401")
def _caller(path: Path, reason: str | None, *, safe_mode: bool) -> verification.Predict:
    """Return the function that calls a model, in plain Keras if `reason` is None."""
    if reason is None:
        return functools.partial(
            verification.in_plain, path, safe_mode=safe_mode, predicts=True
        )
    try:
        model = keras_files.open_with_keras(
            path, None, compile=False, safe_mode=safe_mode
        )
    except Exception as error:  # whatever a class of the user's raises
        raise explanations.explained("the file cannot be opened", error) from error
    return verification.predict_here(model)


def _compared(
    predict: verification.Predict, built: Built, recorded: verification.Recording
) -> verification.Comparison:
    inputs = getattr(built.model, "inputs", None) or built.plan.legacy.inputs
    share, texts = verification.tolerance(built.plan), built.texts
    if texts is not None:
        recorded = verification.as_numbers(recorded, texts)
    return verification.compare(predict, recorded, share, len(inputs) or None)


def _save(model: keras.Model, path: pathlib.Path) -> None:
    with keras_internals.importing_no_tensorflow():
        model.save(path)


def _compared_with_seeded(written: pathlib.Path, built: Built) -> _Proof:
    """Compare with the graph in the legacy file, or with the model if there is none."""
    example = built.check and built.check.example
    dtypes, size = built.plan.compute_dtypes, built.plan.legacy.size
    example = example or examples.example(built.model, dtypes, size)
    safe_mode = built.plan.options.safe_mode
    if example is None or verification.lacks_texts(keras.tree.flatten(example.inputs)):
        verification.in_plain(written, None, safe_mode=safe_mode)
        return _Proof(not_plain="it was opened, but there are no inputs to call it on")
    outputs = verification.in_plain(written, example.inputs, safe_mode=safe_mode)
    pairs = zip(outputs, example.outputs, strict=True)
    shares = [comparing.relative_difference(*pair) for pair in pairs]
    for share, allowed in zip(shares, example.allowed, strict=True):
        if not share <= allowed:  # NaN is not <= anything
            raise LegacyModelError(
                "in plain Keras, the new file gives other outputs: they differ by "
                f"{share:.2g} of the largest output, allowed {allowed:.2g}.",
                f"{hints.PLAIN} writes it anyway.",
                code="KP504",
            )
    return _Proof(difference=max(shares, default=0.0))


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
    objects = checked_objects(custom_objects)
    scope = keras_internals.custom_object_scope(_also_as_saved(objects))
    with located(path), scope:
        policy = checked_policy(dtype_policy)
        options = loading.checked_options(**opening)
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
            reason = "it needs code that Keras does not have" if plain else LEFT_OUT
            predict = verification.predict_here(built.model)
            return _compared(predict, built, recorded), reason
        with files.temporary_folder() as folder:
            written = folder / "model.keras"
            with files.in_temporary_folder():
                _save(built.model, written)
            proof = _proved(written, built, recorded, plain=True)
        assert proof.compared is not None
        return proof.compared, proof.not_plain


def _verified_keras_3(
    path: Path, recorded: verification.Recording, *, safe_mode: bool, plain: bool
) -> tuple[verification.Comparison, str | None]:
    with keras_files.named_for_keras(path) as named:
        share = verification.tolerance_of(plain_keras.objects_in(named))
        reason = plain_keras.obstacle(named) if plain else LEFT_OUT
        predict = _caller(named, reason, safe_mode=safe_mode)
        return verification.compare(predict, recorded, share), reason
