"""`LegacyModelError`, the one error for every file that cannot be opened."""

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from keras_policies._common.files import TemporaryFolderError
from keras_policies._common.text import one_line, printable
from keras_policies.legacy.base.hints import Hint

# Errors of Python, h5py and numpy for values of an unexpected kind.
UNEXPECTED = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError),
    *(OSError, RuntimeError, TypeError, ValueError),
)
FilePath = str | os.PathLike[str]
COPY_AGAIN = Hint(
    "Copy the file again; if tf.keras opens it, report this error.", code="KP105"
)


class LegacyModelError(ValueError):
    """A legacy model could not be read, or could not become a Keras 3 model.

    The attributes hold the parts of the message. Code that raises the error gives the
    reason; callers that know the file and the layer add them (see `located`).

    Args:
        reason: str, what was found and what was expected.
        hint: str, what the user can do, a whole sentence; `""` if there is nothing.
        path: str or path of the file or folder, or None while it is not known.
        layer: str, the path of the layer in its model, or None if no layer is involved.
        suspects: names of Keras classes in the file that may belong to other classes
            of the same name.
        signatures: names of signatures of the file that may open instead.
        code: str, the stable code of the kind of error, such as `"KP101"`; by default,
            that of the class or hint. `keras-policies explain` says what it means.
        opens_if: bool, whether the file opens with an option, a package or another
            backend; by default, whether the hint names an argument.

    Example:
        >>> try:
        ...     load_model("no_such_model")
        ... except LegacyModelError as error:
        ...     print(error)
        ...     print(error.reason)
        no_such_model: there is no such file or folder.
        there is no such file or folder.
    """

    CODE: ClassVar[str] = ""

    def __init__(
        self,
        reason: str,
        hint: str | Hint = "",
        *,
        path: FilePath | None = None,
        layer: str | None = None,
        suspects: Collection[str] = (),
        signatures: Collection[str] = (),
        code: str = "",
        opens_if: bool | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = str(hint)
        self.code = code or self.CODE or (hint.code if isinstance(hint, Hint) else "")
        names_argument = isinstance(hint, Hint) and bool(hint.arguments)
        self.opens_if = names_argument if opens_if is None else opens_if
        self.path = path
        self.layer = layer
        self.suspects = frozenset(suspects)
        self.signatures = tuple(signatures)

    @property
    def problem(self) -> str:
        """str, the message without the path."""
        layer = "" if self.layer is None else f"the layer {self.layer!r}: "
        between = "\n" if "\n" in self.reason else " "
        hint = f"{between}{self.hint}" if self.hint else ""
        return printable(f"{layer}{self.reason}{hint}")

    def __str__(self) -> str:
        file = "" if self.path is None else one_line(f"{self.path}: ")
        return f"{file}{self.problem}"


class Keras3ModelError(LegacyModelError):
    """A file of Keras 3 was given to a reader of legacy files."""

    CODE = "KP103"

    def __init__(self, path: FilePath | None = None) -> None:
        super().__init__(
            "written by Keras 3, which opens it as it is: there is nothing to convert.",
            "Open it with keras.models.load_model.",
            path=path,
        )


class MissingFileError(LegacyModelError, FileNotFoundError):
    """There is no file or folder at the path."""

    CODE = "KP101"


class LimitError(LegacyModelError):
    """A file asks for more than its size explains.

    This ends all attempts: `attempt` ignores other errors, but not this one.
    """

    CODE = "KP201"


class attempt(contextlib.suppress):  # noqa: N801 (as in contextlib)
    """Ignores errors of some kinds in its context, except a `LimitError`."""

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        is_last = isinstance(error, LimitError)
        return not is_last and super().__exit__(kind, error, traceback)


def check_version(version: str) -> None:
    """Raise `Keras3ModelError` if `version` is a Keras 3 version such as `"3.8.0"`."""
    if version.startswith("3."):
        raise Keras3ModelError


@contextlib.contextmanager
def located(
    path: FilePath | None = None, layer: str | None = None, code: str = ""
) -> Iterator[None]:
    """Add file, layer path and the code of a stage to errors that lack them."""
    try:
        yield
    except LegacyModelError as error:
        error.path = path if error.path is None else error.path
        error.layer = layer if error.layer is None else error.layer
        error.code = error.code or code
        raise
    except TemporaryFolderError as error:
        raise LegacyModelError(
            error.reason, error.hint, path=path, layer=layer, code=error.code
        ) from error


@contextlib.contextmanager
def corrupt(path: FilePath, part: str = "") -> Iterator[None]:
    """Turn any other error inside into a `LegacyModelError` about a corrupt file.

    This is the fallback for damage that no specific check names. `part` is the part of
    the file, such as `"training_config"`. ImportErrors are not converted, because a
    missing package is not the file's fault, and neither is a full temporary folder.
    """
    with located(path, code="KP105"):
        try:
            yield
        except (LegacyModelError, ImportError, TemporaryFolderError):
            raise
        except Exception as error:  # zlib and lzma raise errors of their own
            reason = "corrupt, or not as tf.keras writes it: "
            reason += f"{type(error).__name__}: {error}"
            reason = f"{part}: {reason}" if part else reason
            raise LegacyModelError(reason, COPY_AGAIN) from error
