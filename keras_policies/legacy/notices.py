"""Warnings about a model that was opened."""

from collections.abc import Iterator, Sequence

import keras

from keras_policies.legacy.assembly.build import Built
from keras_policies.legacy.assembly.comparison import Check
from keras_policies.legacy.base import hints


def notices(built: Built) -> Iterator[str]:
    """Yield how a model differs from its file, and what it needs to run."""
    if built.not_converted:
        yield (
            "the model was opened, but these parts of it or of its training "
            f"configuration were left out: {'; '.join(built.not_converted)}. Call "
            "model.compile(...) with replacements."
        )
    if built.plan.reconstruction.layers:
        yield str(built.plan.reconstruction)
    if built.check is not None:
        yield from _check_notices(built.check, built.not_converted)
    inputs = getattr(built.model, "inputs", None) or []  # None before the first call
    texts = ", ".join(repr(x.name) for x in inputs if x.dtype == "string")
    if texts and keras.backend.backend() != "tensorflow":
        yield (
            "these inputs are texts, which Keras computes with TensorFlow only: "
            f"{texts}. To call the model, pass {hints.OUTSIDE}, or "
            "set KERAS_BACKEND=tensorflow before Keras is imported."
        )
    if built.other_policies:
        yield (
            "your classes give these layers another policy than the file records: "
            f"{', '.join(built.other_policies)}."
        )


def _check_notices(check: Check, not_converted: Sequence[str]) -> Iterator[str]:
    if check.difference is None:
        yield f"{check}."
    if check.masks:
        yield (
            "the model computes what its own graph does where these inputs are masks, "
            f"0 or 1: {', '.join(check.masks)}. For other integers, it differs."
        )
    if check.dropouts:
        yield (
            "the original model applies dropout also when it predicts (a call with "
            f"training=True): {', '.join(check.dropouts)}. In Keras "
            f"{keras.__version__}, it applies dropout only in training."
        )
    is_said = any("regularizer" in part or "loss" in part for part in not_converted)
    if check.other_losses and not is_said:
        yield (
            "the model predicts as recorded, but the losses that its layers add in "
            f"training differ: {check.other_losses}. Pass its original classes as "
            "custom_objects."
        )
