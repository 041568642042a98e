"""Tasks: what a command does with one file, and the result in a table or in JSON.

A task is pickled to the process that runs it, so it holds only plain values.
"""

import contextlib
import dataclasses
import gc
import importlib
import os
import pathlib
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from keras_policies._common.files import TemporaryFolderError, unlimited
from keras_policies._common.text import one_line
from keras_policies._common.types import Config, CustomObjects, Path
from keras_policies.cli import output
from keras_policies.legacy import atomic_file, descriptions, inspection
from keras_policies.legacy.base.errors import Keras3ModelError, LegacyModelError
from keras_policies.legacy.options import OPENING, checked_options
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.readers import readers

if TYPE_CHECKING:
    from keras_policies.legacy.conversion import Converted


# Modules for building, in this order; imported once if processes can be forked.
PRELOADED = ["keras_policies._installed", "keras_policies.legacy.conversion"]
EXISTS = "it already exists."  # perhaps since a run that was stopped
LARGE = 10_000_000  # parameters
OPENS, OPENS_IF = "opens", "opens_if"  # of inspect
PASSED_OVER = "passed_over"  # in a search through folders
CONVERTED, PLANNED, SKIPPED = "converted", "planned", "skipped"  # of convert
VERIFIED, NOT_RECORDED = "verified", "not_recorded"  # of verify
KERAS_3, FAILED = "keras_3", "failed"
IN_ROWS = "path", "code"  # details that each result has in JSON


@dataclasses.dataclass(frozen=True)
class Problem:
    """An error about a file, as plain values."""

    path: str  # of the file with the problem, which may be the one to write
    text: str
    code: str
    traceback: str = ""

    @property
    def place(self) -> str:
        """str, the start of the message; "" if the error is not about a file."""
        return f"{one_line(self.path)}: " if self.path else ""

    def __str__(self) -> str:
        return f"{self.place}{self.text}"

    @classmethod
    def of(cls, error: Exception, path: str, code: str = "KP002") -> "Problem":
        """Return the problem for an error; `path` and `code` are fallbacks.

        Without a path, an error of these classes comes from this package, so its
        message does not name the class.
        """
        ours = ValueError, TypeError, TemporaryFolderError
        is_ours = not path and isinstance(error, ours)
        text = str(error) if is_ours else f"{type(error).__name__}: {error}"
        if isinstance(error, LegacyModelError):
            text, path = error.problem, str(error.path or path)
        code = getattr(error, "code", "") or code
        return cls(path, text, code, "".join(traceback.format_exception(error)))


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a task."""

    path: str
    status: str  # one of the constants above
    # Plain values, with the same keys for each file of a command; None for no value.
    details: Config
    problem: Problem | None = None

    @property
    def error(self) -> str | None:
        """str, the message, or None."""
        return None if self.problem is None else str(self.problem)

    @property
    def kind(self) -> str:
        """str, the outcome of a model that opens or was converted, or the status."""
        return (self.status != PLANNED and self.details.get("outcome")) or self.status

    @property
    def has_failed(self) -> bool:
        """bool, whether the file could not be described, converted or verified."""
        return self.status == FAILED

    def as_dict(self) -> Config:
        """Return plain values for JSON."""
        return {
            "path": self.path,
            "status": self.status,
            "error": self.error,
            "code": self.problem and self.problem.code,
            **{k: v for k, v in self.details.items() if k not in IN_ROWS},
        }


class Task:
    """What a command does with one file. Every exception becomes an outcome."""

    path: str
    KEYS: ClassVar[tuple[str, ...]]  # of `Result.details`
    needs_keras: bool = False

    def check(self) -> Result | None:
        """Return the outcome if it is known without Keras, or None."""
        return None

    def run(self) -> Result:
        """Run the task, and return the outcome."""
        return self._outcome(self._run)

    def again(self) -> "Task":
        """Return the task to run again if the process dies during this one."""
        return self

    def failed(self, problem: Problem) -> Result:
        """Return the outcome of a failure."""
        return Result(self.path, FAILED, dict.fromkeys(self.KEYS), problem)

    def _run(self) -> tuple[str, Config]:
        """Return the status and the details."""
        raise NotImplementedError

    def _outcome(self, action: Callable[[], tuple[str, Config]]) -> Result:
        try:
            with output.only_results():
                return Result(self.path, *action())
        except Exception as error:  # whatever Keras or a user's class raises
            failed = self.failed(Problem.of(error, self.path))
            is_new = isinstance(error, Keras3ModelError)
            return dataclasses.replace(failed, status=KERAS_3) if is_new else failed


def status_of(found: descriptions.ModelDescription) -> str:
    """Return the status of a model that was inspected."""
    if found.problem is None:
        return OPENS
    return OPENS_IF if found.opens_if else FAILED


def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@dataclasses.dataclass(frozen=True)
class Inspection(Task):
    """A file to describe."""

    path: str
    KEYS = (*_names(descriptions.ModelDescription)[:-2], "outcome", "parts")

    def _run(self) -> tuple[str, Config]:
        found = inspection.inspect_model(self.path)
        return status_of(found), found.as_dict()

    def run(self) -> Result:
        """Describe the file; if `load_model` will raise, also say why."""
        done = super().run()
        text, code = done.details["problem"], done.details["code"]
        if text is None:
            return done
        return dataclasses.replace(done, problem=Problem(self.path, text, code))


@dataclasses.dataclass(frozen=True)
class Conversion(Task):
    """A file to convert, the destination, and the arguments of `convert_model`."""

    path: str
    destination: pathlib.Path
    options: Mapping[str, Any]
    # Returns the custom objects; called in the process that converts.
    custom_objects: Callable[[], CustomObjects]
    makes_folder: bool = False  # whether to create the destination's folder
    skips_existing: bool = False
    other: str = ""  # the path of a model that has the same destination
    needs_keras: bool = True
    KEYS = (
        *("destination", "outcome", "parts", "largest_difference"),
        *("allowed_difference", "graph_difference", "not_checked", "checked_on"),
        *("plain_difference", "not_plain", "texts"),
    )

    def check(self) -> Result | None:
        is_there = os.path.exists(self.destination)  # false for a name that is too long
        if self.skips_existing and not self.other and is_there:
            return Result(self.path, SKIPPED, self._empty())
        outcome = self._outcome(self._check)
        return None if outcome.status == PLANNED else outcome

    def _empty(self) -> Config:
        return dict.fromkeys(self.KEYS) | {"destination": str(self.destination)}

    def _check(self) -> tuple[str, Config]:
        readers.check(self.path)
        if recording := self.options.get("verify"):
            _check_recording(self.path, recording)
        if self.other:
            reason = f"its new file is the same as that of {self.other!r}."
            hint = "Rename one of the models, or convert it to another folder."
            raise LegacyModelError(reason, hint, path=self.destination, code="KP108")
        overwrite = self.options["overwrite"]
        if self.makes_folder and not overwrite and os.path.isfile(self.destination):
            hint = "--skip-existing converts the others; --overwrite replaces it."
            raise LegacyModelError(EXISTS, hint, path=self.destination, code="KP108")
        atomic_file.check(self.destination, overwrite, self.makes_folder)
        return PLANNED, self._empty()

    def again(self) -> "Conversion":
        """Return the same task; it may replace the file that its first run wrote."""
        if self.destination.exists():
            return self
        return dataclasses.replace(self, options={**self.options, "overwrite": True})

    def convert(self) -> "Converted":
        """Convert the file; raise if it fails."""
        objects = self.custom_objects()
        conversion = _imported()
        if self.makes_folder:
            folder = unlimited(self.destination.parent)
            folder.mkdir(parents=True, exist_ok=True)
        converted: Converted = conversion.convert_model(
            self.path, self.destination, objects, **self.options
        )
        return converted

    def _run(self) -> tuple[str, Config]:
        converted = self.convert()
        if converted.source.parameters > LARGE:
            gc.collect()  # a model refers to itself, so it would not be freed at once
        return CONVERTED, converted.as_dict()


@dataclasses.dataclass(frozen=True)
class Rehearsal(Conversion):
    """A dry run of a conversion: its plan is made, and nothing is built or written."""

    def _run(self) -> tuple[str, Config]:
        given = {**self.options}
        opening = checked_options(**{name: given[name] for name in OPENING})
        with contextlib.ExitStack() as stack:
            if self.needs_keras:
                objects = checked_objects(self.custom_objects())
                stack.enter_context(_imported().scope_of(objects))
            policy = checked_policy(given["dtype_policy"])
            found = inspection.rehearse(self.path, policy, opening, given["weights"])
        told = found.as_dict()
        return PLANNED, self._empty() | {key: told[key] for key in ("outcome", "parts")}


@dataclasses.dataclass(frozen=True)
class Verification(Task):
    """A file to compare with recorded outputs, and the arguments of `verify_model`."""

    path: str
    outputs: pathlib.Path
    options: Mapping[str, Any]
    custom_objects: Callable[[], CustomObjects]
    needs_keras: bool = True
    KEYS = "outputs", "largest_difference", "allowed_difference", "not_plain"

    def check(self) -> Result | None:
        outcome = self._outcome(self._check)
        if outcome.problem and outcome.problem.code == "KP503":
            return dataclasses.replace(outcome, status=NOT_RECORDED)
        return outcome if outcome.has_failed else None

    def _check(self) -> tuple[str, Config]:
        readers.check(self.path)
        _check_recording(self.path, self.outputs)
        return VERIFIED, {}

    def _run(self) -> tuple[str, Config]:
        conversion = _imported()
        objects = self.custom_objects()
        compared, not_plain = conversion.verify_model(
            self.path, self.outputs, objects, **self.options
        )
        values = str(self.outputs), *compared, not_plain
        return VERIFIED, dict(zip(self.KEYS, values, strict=True))


def _check_recording(model: str, outputs: Path) -> None:
    """Raise if a model's file of recorded outputs does not exist."""
    if not os.path.isfile(outputs):
        reason = f"there are no recorded outputs {str(outputs)!r}."
        hint = "Record them where the old model runs: keras-policies --help."
        raise LegacyModelError(reason, hint, path=model, code="KP503")


def _imported() -> ModuleType:
    """Import the package, which patches Keras, and return the module `conversion`."""
    *_, conversion = map(importlib.import_module, PRELOADED)
    return conversion
