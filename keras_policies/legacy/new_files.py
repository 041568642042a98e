"""Saves models, opens the new files, and compares what they compute."""

import functools
import pathlib
from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common import comparing
from keras_policies._common.types import Path
from keras_policies.legacy import keras_files, plain_keras, verification
from keras_policies.legacy.assembly import examples, explanations
from keras_policies.legacy.assembly.build import Built
from keras_policies.legacy.assembly.keras_differences import rnn_states
from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located

LEFT_OUT = "it was not requested"
STATES = "its recurrent layers have saved states, which plain Keras does not continue"


class Proof(NamedTuple):
    """The result of opening a new file again."""

    compared: verification.Comparison | None = None  # with recorded outputs
    # Difference from outputs for seeded inputs, as a share of the largest output.
    difference: float | None = None
    not_plain: str | None = None  # why it was not called in plain Keras


def proved(
    written: pathlib.Path,
    built: Built,
    recorded: verification.Recording | None,
    *,
    plain: bool,
) -> Proof:
    """Open the new file, if possible in plain Keras, and compare its outputs."""
    reason = plain_keras.obstacle(written) if plain else LEFT_OUT
    if any(map(rnn_states.are_kept, keras_internals.sublayers(built.model))):
        reason = reason or STATES
    if recorded is None and reason is None:
        return _compared_with_seeded(written, built)
    if recorded is None and all(map(is_stock, keras_internals.sublayers(built.model))):
        return Proof(not_plain=reason)
    predict = caller(written, reason, safe_mode=built.plan.options.safe_mode)
    compared = recorded and compared_with(predict, built, recorded)
    return Proof(compared, not_plain=reason)


@located(code="KP401")
def caller(path: Path, reason: str | None, *, safe_mode: bool) -> verification.Predict:
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


def compared_with(
    predict: verification.Predict, built: Built, recorded: verification.Recording
) -> verification.Comparison:
    """Compare the predictions of a new file with recorded outputs."""
    inputs = getattr(built.model, "inputs", None) or built.plan.legacy.inputs
    share, texts = verification.tolerance(built.plan), built.texts
    if texts is not None:
        recorded = verification.as_numbers(recorded, texts)
    return verification.compare(predict, recorded, share, len(inputs) or None)


def save(model: keras.Model, path: pathlib.Path) -> None:
    """Save a model; Keras must not import TensorFlow for it."""
    with keras_internals.importing_no_tensorflow():
        model.save(path)


def _compared_with_seeded(written: pathlib.Path, built: Built) -> Proof:
    """Compare with the graph in the legacy file, or with the model if there is none."""
    example = built.check and built.check.example
    if example is None:
        dtypes, size = built.plan.compute_dtypes, built.plan.legacy.size
        example = examples.example(built.model, dtypes, size)
    safe_mode = built.plan.options.safe_mode
    if example is None or verification.lacks_texts(keras.tree.flatten(example.inputs)):
        verification.in_plain(written, None, safe_mode=safe_mode)
        return Proof(not_plain="it was opened, but there are no inputs to call it on")
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
    return Proof(difference=max(shares, default=0.0))
