"""Warnings about a model that was opened."""

from collections.abc import Iterator, Sequence

import keras

from keras_policies._common.text import printable
from keras_policies._common.warnings import KerasPoliciesWarning
from keras_policies.legacy.assembly.build import Built
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.outcomes import LeftOut, Outcome, OutcomeWarning

# Codes of parts that make no difference to a model as it is now, but may to come.
LATER = "KP605", "KP608"
UNCOMPILED = "KP601", "KP602"
# What precedes the parts of an outcome.
STARTS = {
    Outcome.NEW_WEIGHTS: "",
    Outcome.LOST: "these parts of it or of its training configuration were left out: ",
    Outcome.TRAINS_DIFFERENTLY: "it trains differently in this: ",
    Outcome.REBUILT: "",
    Outcome.COMPLETE: "as it is now, this makes no difference: ",
}


def notices(built: Built, file: str) -> Iterator[KerasPoliciesWarning]:
    """Yield how a model differs from its file, and what it needs to run."""
    told = tuple(filter(_is_told, built.parts))
    if told:
        text = "; ".join(_groups(told, built.model.compiled))
        message = f"{file}: the model was opened; {text}."
        yield OutcomeWarning(printable(message), file, told)
    for text in _others(built):
        yield KerasPoliciesWarning(printable(f"{file}: {text}"))


def _is_told(part: LeftOut) -> bool:
    return part.outcome is not Outcome.COMPLETE or part.code in LATER


def _groups(parts: Sequence[LeftOut], is_compiled: bool) -> Iterator[str]:
    """Yield a sentence for each outcome, the worst first."""
    for outcome, start in STARTS.items():
        listed = [part for part in parts if part.outcome is outcome]
        if listed:
            yield f"{start}{'; '.join(listed).rstrip('.')}"
    if not is_compiled and any(part.code in UNCOMPILED for part in parts):
        yield "to train it, call model.compile(...)"


def _others(built: Built) -> Iterator[str]:
    """Yield what is not about a part of the file."""
    if built.check is not None and built.check.difference is None:
        yield f"{built.check}."
    if built.check is not None and built.check.masks:
        yield (
            "the model computes what its own graph does where these inputs are masks, "
            f"0 or 1: {', '.join(built.check.masks)}. For other integers, it differs."
        )
    inputs = getattr(built.model, "inputs", None) or []  # None before the first call
    texts = ", ".join(repr(x.name) for x in inputs if x.dtype == "string")
    if texts and keras.backend.backend() != "tensorflow":
        yield (
            "these inputs are texts, which Keras computes with TensorFlow only: "
            f"{texts}. To call the model, pass {hints.OUTSIDE}, or "
            "set KERAS_BACKEND=tensorflow before Keras is imported."
        )
