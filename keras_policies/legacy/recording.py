"""Reads the `.npz` file of inputs that a legacy model was given, and of its outputs."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_policies.annotations import Path
from keras_policies.legacy.base.errors import LegacyModelError, located

Array: TypeAlias = npt.NDArray[Any]
RECORD = 'Record it with np.savez("outputs.npz", x_0=x, y_0=model.predict(x))'


class Recording(NamedTuple):
    """The inputs that a legacy model was given, and its outputs."""

    inputs: list[Array]
    outputs: list[Array]


def read(path: Path) -> Recording:
    """Return the arrays `x_0`, `x_1`, … and `y_0`, `y_1`, … of an `.npz` file.

    Arrays of other names are ignored.

    Raises:
        LegacyModelError: if there is no such file, or an array is missing.
    """
    with located(path):
        try:
            arrays = _arrays(path)
        except (OSError, ValueError, EOFError) as error:
            raise LegacyModelError(
                f"not a readable .npz file: {str(error).rstrip('.')}.",
                f"{RECORD}; texts as np.array(texts, dtype=str).",
            ) from error
        return Recording(_numbered("x_", arrays), _numbered("y_", arrays))


def _arrays(path: Path) -> dict[str, Array]:
    stored = np.load(path, allow_pickle=False)
    if isinstance(stored, np.ndarray):
        raise ValueError("one array alone, as np.save writes it")
    with stored:
        return {name: stored[name] for name in stored.files}


def _numbered(prefix: str, arrays: Mapping[str, Array]) -> list[Array]:
    """Return the arrays with a prefix in the order of their numbers, none left out."""
    found = [name for name in arrays if name.startswith(prefix)]
    names = [f"{prefix}{number}" for number in range(len(found))]
    if not found or set(names) != set(found):
        raise LegacyModelError(
            "expected inputs x_0, x_1, … and outputs y_0, y_1, …, found "
            f"{sorted(arrays)}.",
            f"{RECORD}.",
        )
    return [arrays[name] for name in names]
