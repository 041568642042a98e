"""Describes and converts many files, going on past those that fail."""

import contextlib
import dataclasses
import gc
import importlib
import multiprocessing
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any

from keras_policies.annotations import Config, CustomObjects
from keras_policies.legacy import inspection, progress
from keras_policies.legacy.base.errors import Keras3ModelError, LegacyModelError

# What a conversion needs, in this order; imported once where processes can be forked.
PRELOADED = ["keras_policies.installed", "keras_policies.legacy.conversion"]
LARGE = 10_000_000  # parameters
ENDED = "the process that converted it ended; was there too little memory?"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a file.

    Args:
        path: str, the file.
        found: dict of plain values, the description of the file or of what was
            written; None if there is none.
        error: str, why there is none.
        is_keras_3: bool, whether Keras 3 wrote the file, so that nothing is to be done.
    """

    path: str
    found: Config | None = None
    error: str | None = None
    is_keras_3: bool = False

    @property
    def has_failed(self) -> bool:
        """bool, whether the file could not be described or converted."""
        return self.found is None and not self.is_keras_3

    def as_dict(self) -> Config:
        """Return plain values for JSON: what was found, or the path and the error."""
        return self.found or {"path": self.path, "error": self.error}


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A file to convert, where to, and the arguments of `convert_model`."""

    source: str
    destination: pathlib.Path
    options: Mapping[str, Any]
    # Returns the custom objects; called in the process that converts.
    custom_objects: Callable[[], CustomObjects]

    def run(self) -> Outcome:
        """Convert the file, in a folder that is made for it."""
        return _outcome(self.source, self._converted)

    def _converted(self) -> Config:
        *_, conversion = map(importlib.import_module, PRELOADED)
        objects = self.custom_objects()
        self.destination.parent.mkdir(parents=True, exist_ok=True)
        found = conversion.convert_model(
            self.source, self.destination, objects, **self.options
        )
        if found.source.parameters > LARGE:
            gc.collect()  # a model refers to itself, so it would stay for a while
        result: Config = found.as_dict()
        return result


def _outcome(path: str, work: Callable[[], Config]) -> Outcome:
    try:
        return Outcome(path, work())
    except Keras3ModelError as error:
        return Outcome(path, error=str(error), is_keras_3=True)
    except LegacyModelError as error:
        return Outcome(path, error=str(error))
    except Exception as error:  # whatever Keras or a class of the user's raises
        return Outcome(path, error=f"{path}: {type(error).__name__}: {error}")


def described(paths: Sequence[str]) -> list[Outcome]:
    """Return the outcome of `inspect_model` for each path, in their order."""
    with progress.bar("Inspecting", len(paths), is_bytes=False) as advance:
        return list(_counted(map(_described, paths), advance))


def _described(path: str) -> Outcome:
    return _outcome(path, lambda: inspection.inspect_model(path).as_dict())


def converted(conversions: Sequence[Conversion], processes: int) -> list[Outcome]:
    """Return the outcome of each conversion, in their order.

    Args:
        conversions: what to convert.
        processes: int, how many to convert at the same time, each in a process of its
            own; 1 for all in this process.
    """
    with progress.bar("Converting", len(conversions), is_bytes=False) as advance:
        if processes < 2:
            return list(_counted(map(Conversion.run, conversions), advance))
        outcomes = _counted(_in_processes(conversions, processes), advance)
        found = {outcome.path: outcome for outcome in outcomes}
    return [found[item.source] for item in conversions]


def _counted(
    outcomes: Iterable[Outcome], advance: Callable[[int], None]
) -> Iterator[Outcome]:
    for outcome in outcomes:
        advance(1)
        yield outcome


def _in_processes(
    conversions: Sequence[Conversion], processes: int
) -> Iterator[Outcome]:
    """Yield outcomes as they come; a process that ends takes nothing else with it."""
    unfinished = []
    with _pool(processes) as pool:
        futures = {pool.submit(item.run): item for item in conversions}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:  # ended all that the pool had not finished
                unfinished.append(futures[future])
    for item in unfinished:
        with _pool(1) as pool, contextlib.suppress(BrokenProcessPool):
            yield pool.submit(item.run).result()
            continue
        yield Outcome(item.source, error=f"{item.source}: {ENDED}")


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, _context(), progress.show_none)


def _context() -> BaseContext:
    """Return how processes start: forked from one that has imported Keras, if it can.

    The process of the user is never forked: backends may have started threads in it.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
