"""Checks the arguments with which `load_model` and `convert_model` open a file."""

from collections.abc import Collection

from keras_policies._common.types import InputShapes
from keras_policies.legacy.plan import input_sizes
from keras_policies.legacy.plan.report import BACKENDS, Options

# How to treat layers whose classes are missing.
LOST = "rebuild", "numbers", "refuse"
# The arguments of `checked_options`.
OPENING = "lost", "signature", "backends", "safe_mode", "texts", "input_shapes"
TEXTS = "inside", "outside"  # where texts become numbers: inside the model or outside


def checked_options(
    lost: str,
    signature: str | None = None,
    backends: Collection[str] = BACKENDS,
    *,
    safe_mode: bool = True,
    texts: str = "inside",
    input_shapes: InputShapes = None,
) -> Options:
    """Return the `Options` for these arguments of `load_model`."""
    if not {*backends} <= {*BACKENDS}:
        raise ValueError(f"backends must be among {BACKENDS}, received {backends!r}.")
    if lost not in LOST:
        raise ValueError(f"lost must be one of {LOST}, received {lost!r}.")
    if texts not in TEXTS:
        raise ValueError(f"texts must be one of {TEXTS}, received {texts!r}.")
    return Options(
        safe_mode,
        reconstructs=lost != "refuse",
        keeps_texts=lost != "numbers",
        signature=signature,
        backends=tuple(backends),
        input_shapes=input_sizes.checked(input_shapes),
        texts_outside=texts == "outside",
    )
