"""Warnings about a model that was opened."""

from collections.abc import Iterator, Sequence

import keras

from keras_policies.legacy.base import hints
from keras_policies.legacy.build.build import Built
from keras_policies.legacy.build.comparison import Check


def notices(built: Built) -> Iterator[str]:
    """Yield how a model differs from its file, and what it needs to run."""
    if built.not_converted:
        yield (
            "the model was opened, but this was left out of it or of its training "
            f"configuration: {'; '.join(built.not_converted)}. Call "
            "model.compile(...) with replacements."
        )
    if built.plan.reconstruction.layers:
        yield str(built.plan.reconstruction)
    if built.check is not None:
        yield from _check_notices(built.check, built.not_converted)
    inputs = getattr(built.model, "inputs", None) or []  # none before its first call
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
    if check.dropouts:
        yield (
            "the model also drops numbers when it predicts (a call with "
            f"training=True): {', '.join(check.dropouts)}. Keras {keras.__version__} "
            "only drops them in training."
        )
    is_said = any("regularizer" in part or "loss" in part for part in not_converted)
    if check.other_losses and not is_said:
        yield (
            "the model predicts as recorded, but trains with other losses of its "
            f"layers: {check.other_losses}. Pass its classes, as they were in "
            "tf.keras, as custom_objects."
        )
