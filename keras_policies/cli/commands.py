"""The commands `keras-policies inspect`, `convert`, `verify`, `code` and `diff`.

To start fast, each command imports only what it needs, and `inspect` does not import
Keras. Whatever can be checked without Keras is checked before it is imported.
"""

import argparse
import functools
import importlib
import json
import os
import pathlib
import sys
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keras_policies.cli import startup
from keras_policies.cli.exit_codes import FAILED, OK, PARTLY
from keras_policies.cli.output import only_results

if TYPE_CHECKING:
    from keras_policies.cli.tasks import Conversion, Result, Task


class CommandLineError(ValueError):
    """The command line is wrong; the message names the argument."""

    code = "KP001"


class NotInstalledError(ValueError):
    """A package that the command needs is not installed."""

    code = "KP004"


def _custom_objects(texts: Sequence[str]) -> dict[str, Any]:
    """Return `{name: object}` for a list of `module:name` and `layer=module:name`."""
    if texts and os.getcwd() not in sys.path:  # a script's path has only its own folder
        sys.path.insert(0, os.getcwd())
    return dict(map(_custom_object, texts))


def _parsed(text: str) -> tuple[str, str, str]:
    """Split `[NAME IN THE FILE=]MODULE:NAME`; the first defaults to the last."""
    known_as, equals, place = text.rpartition("=")
    module, colon, name = place.partition(":")
    if not colon or not name or not module or (equals and not known_as):
        raise CommandLineError(
            f"--custom-objects {text!r}: expected module:name, such as "
            "my_layers:Attention, or layer=module:name."
        )
    return known_as or name, module, name


def _custom_object(text: str) -> tuple[str, Any]:
    known_as, module, name = _parsed(text)
    try:
        loaded = getattr(importlib.import_module(module), name)
    except Exception as error:  # the user's module may raise anything
        raise CommandLineError(
            f"--custom-objects {text!r}: {type(error).__name__}: {error}."
        ) from error
    if not callable(loaded):
        raise CommandLineError(
            f"--custom-objects {text!r}: expected a class or a function, found "
            f"{loaded!r}."
        )
    return known_as, loaded


def inspect(arguments: argparse.Namespace) -> int:
    """Describe one model, or many in a table; return the exit code."""
    from keras_policies.cli import folders, outcomes, tasks
    from keras_policies.legacy import inspection

    _check_report(arguments)
    paths = folders.models(arguments.paths, arguments.recursive)
    is_one = paths == arguments.paths
    _choose_backend(arguments)  # as `convert` does; nothing is imported
    todo = [tasks.Inspection(path) for path in paths]
    is_text = not (arguments.json or arguments.quiet or arguments.report)
    if is_one and len(paths) == 1 and is_text:
        return outcomes.described(arguments, inspection.inspect_model(paths[0]))
    columns = "written_by", "policy", "parameters"
    return _run(arguments, todo, "Inspecting", columns, is_one)


def convert(arguments: argparse.Namespace) -> int:
    """Convert one model, or many; return the exit code."""
    _check_convert(arguments)
    options = {**_options(arguments), "overwrite": arguments.overwrite}
    if arguments.output_dir is None:
        return _convert_one(arguments, options)
    from keras_policies.cli import folders

    sources = folders.models(arguments.paths, arguments.recursive)
    base = arguments.base or folders.common_folder(arguments.paths)
    output = pathlib.Path(arguments.output_dir)
    new = folders.destinations(base, sources, output)
    each = zip(sources, new, folders.sharing(sources, new), strict=True)
    todo = [_conversion(arguments, options, *values) for values in each]
    columns = ("destination",) if arguments.dry_run else ()
    return _run(arguments, todo, "Converting", columns)


def _convert_one(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Convert one model; print its description and the parts left out."""
    source, destination = arguments.paths
    options["verify"] = arguments.verify
    task = _conversion(arguments, options, source, pathlib.Path(destination))
    is_silent = arguments.json or arguments.quiet or arguments.report
    if is_silent or arguments.dry_run or task.check():
        return _run(arguments, [task], "Converting", ("destination",), is_one=True)
    _prepare(arguments, 1)
    with only_results():
        converted = task.convert()
    _reports().print_conversion(converted, arguments.verify)
    return PARTLY if arguments.strict and converted.left_out else OK


def verify(arguments: argparse.Namespace) -> int:
    """Compare models with recorded outputs; return the exit code."""
    from keras_policies.cli import folders, tasks

    options = _options(arguments)
    sources = folders.models(arguments.paths, arguments.recursive)
    outputs = [pathlib.Path(arguments.outputs)] * len(sources)
    if os.path.isdir(arguments.outputs):
        base = folders.common_folder(arguments.paths)
        outputs = folders.destinations(base, sources, outputs[0], ".npz")
    objects = functools.partial(_custom_objects, arguments.custom_objects)
    pairs = zip(sources, outputs, strict=True)
    todo = [tasks.Verification(*pair, options, objects) for pair in pairs]
    columns = "largest_difference", "allowed_difference"
    return _run(arguments, todo, "Verifying", columns)


def code(arguments: argparse.Namespace) -> int:
    """Write the source code of a model; return the exit code."""
    from keras_policies.legacy import atomic_file

    output = pathlib.Path(arguments.output) if arguments.output else None
    constants = output.with_suffix(".npz") if output else None
    weights = pathlib.Path(arguments.weights) if arguments.weights else None
    _check_code(arguments, [output, constants, weights])
    _prepare(arguments, 1)
    checking = importlib.import_module("keras_policies.source.checking")
    checking.start()  # it imports Keras while the model is loaded
    model = _loaded(arguments, arguments.path, arguments.compile)
    keras_internals = importlib.import_module("keras_policies.keras_internals")
    with keras_internals.importing_no_tensorflow(), only_results():
        text = importlib.import_module("keras_policies").to_source(
            model,
            constants=constants,
            compile=arguments.compile,
            train=arguments.train,
        )
    if output is None:
        print(text, end="")
    else:
        with atomic_file.writing(output, arguments.overwrite) as path:
            path.write_bytes(text.encode())  # write_text: other line ends on Windows
    if weights is not None:
        with atomic_file.writing(weights, arguments.overwrite) as path:
            checking.save_weights(model, path)
    return OK


def _loaded(arguments: argparse.Namespace, path: str, compile: bool) -> Any:
    """Return the model in a file, legacy or of Keras 3."""
    with only_results():
        return importlib.import_module("keras_policies").load_model(
            path,
            _custom_objects(arguments.custom_objects),
            compile=compile,
            **_loading_options(arguments),
        )


def diff(arguments: argparse.Namespace) -> int:
    """Compare two models layer by layer; return the exit code, 1 if they differ."""
    from keras_policies.legacy.readers import readers

    paths = arguments.old, arguments.new
    _check_policy(arguments.policy)
    for path in paths:
        readers.check(path)
    _prepare(arguments, 1)
    models = [_loaded(arguments, path, compile=False) for path in paths]
    comparing = importlib.import_module("keras_policies.cli.diff")
    with only_results():
        found = comparing.compare(*models, arguments.old)
    if arguments.json:
        named = {"old": arguments.old, "new": arguments.new}
        print(json.dumps(named | found.as_dict()))
    elif not arguments.quiet:
        comparing.show(found)
    return OK if found.is_empty else FAILED


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the most similar name, or ""."""
    import difflib

    matches = difflib.get_close_matches(name, [*names], 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _check_policy(name: str | None) -> None:
    """Raise if there is no such policy; the message suggests the nearest one."""
    from keras_policies.policies import names

    if name is None:
        return
    try:
        names.dtypes_of(names.full_name(name))
    except ValueError:
        known = *names.NAMES, *names.STOCK_DTYPES
        raise CommandLineError(
            f"--policy {name!r}: there is no such policy.{nearest(name, known)} "
            f"Policies are {', '.join(known)}, and the names of other dtypes."
        ) from None


def _check_code(
    arguments: argparse.Namespace, files: Sequence[pathlib.Path | None]
) -> None:
    """Raise if the command line is wrong, before Keras is imported for it."""
    from keras_policies.legacy import atomic_file

    _check_policy(arguments.policy)
    for option, path, ending in zip(
        ("--output", "--output", "--weights"),
        files,
        (".py", ".npz", ".weights.h5"),
        strict=True,
    ):
        if path and not str(path).endswith(ending):
            reason = f"expected a name that ends in {ending!r}."
            raise CommandLineError(f"{option} {str(path)!r}: {reason}")
        if path:
            atomic_file.check(path, arguments.overwrite)


def _check_convert(arguments: argparse.Namespace) -> None:
    """Raise if the command line is wrong, before Keras is imported for it."""
    from keras_policies.legacy import atomic_file

    _check_report(arguments)
    many, paths = arguments.output_dir is not None, arguments.paths
    if not many and len(paths) != 2:
        raise CommandLineError(
            f"convert takes a SOURCE and a DEST.keras, received {paths}. "
            "Pass --output-dir DIR to convert any number of models."
        )
    if many and arguments.verify is not None:
        raise CommandLineError(
            "--verify is for one SOURCE, without --output-dir. To compare a folder, "
            "run keras-policies verify afterwards."
        )
    if many and arguments.weights is not None:
        raise CommandLineError("--weights is for one SOURCE, without --output-dir.")
    if not many and arguments.base is not None:
        raise CommandLineError("--base needs --output-dir.")
    if many and os.path.exists(arguments.output_dir):
        if not os.path.isdir(arguments.output_dir):
            reason = "expected a folder, found a file."
            raise CommandLineError(f"--output-dir {arguments.output_dir!r}: {reason}")
    elif not many:
        try:
            atomic_file.check_ending(paths[1])
        except ValueError as error:
            raise CommandLineError(str(error)) from error


def _check_report(arguments: argparse.Namespace) -> None:
    """Raise if the report cannot be written, before anything else is done."""
    if arguments.report is not None:
        report_files = importlib.import_module("keras_policies.cli.report_files")
        report_files.check(arguments.report)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options for opening a model, checked without Keras."""
    if arguments.jobs < 1:
        raise CommandLineError(f"--jobs {arguments.jobs}: expected 1 or more.")
    _check_policy(arguments.policy)
    _ = [*map(_parsed, arguments.custom_objects)]
    return _loading_options(arguments, "plain", "weights")


def _loading_options(arguments: argparse.Namespace, *others: str) -> dict[str, Any]:
    """Return the options shared by `load_model` and `convert_model`, and `others`."""
    names = "lost", "signature", "backends", "texts", "input_shapes", *others
    replaced = {"dtype_policy": arguments.policy, "safe_mode": not arguments.unsafe}
    return replaced | {name: vars(arguments)[name] for name in names}


def _conversion(
    arguments: argparse.Namespace,
    options: dict[str, Any],
    source: str,
    target: pathlib.Path,
    other: str = "",
) -> "Conversion":
    from keras_policies.cli import tasks

    objects = functools.partial(_custom_objects, arguments.custom_objects)
    many, skips = arguments.output_dir is not None, arguments.skip_existing
    values = source, target, options, objects, many, skips, other
    if not arguments.dry_run:
        return tasks.Conversion(*values)
    chosen = arguments.custom_objects, arguments.policy, arguments.unsafe
    return tasks.Rehearsal(*values, needs_keras=any(chosen))


def _run(
    arguments: argparse.Namespace,
    todo: Sequence["Task"],
    doing: str,
    columns: Sequence[str],
    is_one: bool = False,
) -> int:
    """Check all tasks without Keras, then run the rest; return the exit code.

    Each outcome is printed as soon as it is known.
    """
    from keras_policies.cli import many, outcomes, passed_over
    from keras_policies.legacy import progress

    if arguments.quiet:
        progress.show_none()
    show = outcomes.shown(arguments, todo, columns)
    known, remaining = list["Result"](), list["Task"]()
    others = passed_over.results(arguments.paths, arguments.recursive, todo)

    def ready(outcome: "Result") -> None:
        known.append(outcome)
        show(outcome)

    try:
        for result in others:
            ready(result)
        for task in todo:
            outcome = task.check()
            ready(outcome) if outcome else remaining.append(task)
        processes = 1
        if remaining and remaining[0].needs_keras:
            processes = min(arguments.jobs, len(remaining))
            _prepare(arguments, processes)
        else:
            _choose_backend(arguments)
        many.run(remaining, processes, doing, ready)
    except KeyboardInterrupt:
        outcomes.ended(arguments, known, len(todo) + len(others), is_one)
        raise
    return outcomes.ended(arguments, known, len(todo) + len(others), is_one)


def _choose_backend(arguments: argparse.Namespace) -> str | None:
    """Choose the backend, and return its name unless the user had chosen one."""
    if arguments.backend is not None:
        startup.set_backend(arguments.backend)
    # Code in a file was written for tf.keras and often calls TensorFlow.
    preferred = ("tensorflow",) if vars(arguments).get("unsafe") else ()
    return startup.choose_backend((*preferred, *startup.LIGHTEST_FIRST))


def _prepare(arguments: argparse.Namespace, processes: int) -> None:
    """Choose the backend for building; raise if a package is not installed."""
    backend = _choose_backend(arguments)
    if backend and not arguments.quiet:
        chosen = f"backend: {backend} (--backend chooses another)"
        print(chosen, file=sys.stderr)
    # Report a missing package once, not from each process.
    is_here = startup.is_installed(os.environ.get(startup.VARIABLE) or "tensorflow")
    if processes < 2 or arguments.custom_objects or not is_here:
        with only_results():
            _import_keras()
            _custom_objects(arguments.custom_objects)  # raises before the work begins


def _import_keras() -> None:
    """Import the package and Keras; raise if the backend is missing."""
    try:
        startup.import_package()
    except ModuleNotFoundError as error:
        raise NotInstalledError(str(error)) from error
    except ValueError as error:
        if os.environ.get(startup.VARIABLE) in (None, "", *startup.LIGHTEST_FIRST):
            raise
        expected = f"Set {startup.VARIABLE} to jax, torch or tensorflow"
        raise CommandLineError(f"{error}. {expected}, or pass --backend.") from error


def _reports() -> types.ModuleType:
    """Import and return the module that prints texts and tables with rich."""
    return importlib.import_module("keras_policies.cli.reports")
