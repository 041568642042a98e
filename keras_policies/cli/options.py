"""The options that several commands have."""

import argparse
import os
from typing import Any

from keras_policies.cli import startup


class Option:
    """An option: the arguments of `add_argument`."""

    def __init__(self, *flags: str, **settings: Any) -> None:
        self.flags, self.settings = flags, settings


def _backends(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - {*startup.LIGHTEST_FIRST}:
        raise argparse.ArgumentTypeError(
            f"expected names among {', '.join(startup.LIGHTEST_FIRST)}, separated by "
            f"commas, found {min(unknown)!r}"
        )
    return names


class _InputShape(argparse.Action):
    """Adds `x=None,60,3` to a dict of shapes."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name, _, text = values.rpartition("=")
        sizes = text.split(",")
        if not name or not all(s == "None" or s.isdecimal() for s in sizes):
            parser.error(f"--input-shape {values}: expected NAME=SIZES, as x=None,60,3")
        shape = tuple(None if s == "None" else int(s) for s in sizes)
        namespace.input_shapes = {**(namespace.input_shapes or {}), name: shape}


OVERWRITE = Option("--overwrite", action="store_true", help="replace files that exist")
RECURSIVE = Option("--recursive", action="store_true", help="also search inner folders")
VERBOSE = Option(
    "-v", "--verbose", action="store_true", help="print the traceback of errors"
)
JSON = Option("--json", action="store_true", help="print one JSON object per line")
QUIET = Option("-q", "--quiet", action="store_true", help="print nothing but errors")
COLOR = Option(
    "--color",
    choices=["auto", "always", "never"],
    default="auto",
    help="color the output; auto does so in a terminal, unless NO_COLOR is set",
)
REPORT = Option(
    "--report",
    metavar="FILE",
    help="write the results to this file: .json, or .md to read them",
)
JOBS = Option(
    "--jobs",
    metavar="N",
    type=int,
    default=os.cpu_count() or 1,
    help="build so many models at the same time; by default one for each core",
)
WEIGHTS = Option(
    "--weights",
    metavar="FILE",
    help="the weights of an architecture (.json of to_json, .yaml of to_yaml)",
)
NO_PLAIN = Option(
    "--no-plain",
    dest="plain",
    action="store_false",
    help="do not check new files in a process without this package",
)
BACKEND = Option(
    "--backend",
    choices=["jax", "torch", "tensorflow"],
    help="run Keras on this backend; by default KERAS_BACKEND, or the installed "
    "backend that is imported fastest",
)
OPENING = JOBS, WEIGHTS, NO_PLAIN
LOADING = (
    BACKEND,
    Option(
        "--policy",
        metavar="NAME",
        help="replace the model's policy; layers with a dtype of their own keep it",
    ),
    Option(
        "--custom-objects",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="a class or function that the model needs, imported from your module; "
        "LAYER=MODULE:NAME passes the function of a Lambda layer, or a class that has "
        "another name in the file; may be repeated",
    ),
    Option(
        "--lost",
        choices=["rebuild", "numbers", "refuse"],
        default="rebuild",
        help="what to do with layers of a SavedModel whose classes are missing: "
        "rebuild them from their traced functions, rebuild them but return numbers "
        "instead of looked-up texts, or refuse the model",
    ),
    Option(
        "--texts",
        choices=["inside", "outside"],
        default="inside",
        help="where input texts become numbers: inside the model, which then needs "
        "the TensorFlow backend, or outside, with the .texts.json file that convert "
        "writes beside the new file",
    ),
    Option(
        "--signature",
        metavar="NAME",
        help="open this signature of a SavedModel, such as serving_default",
    ),
    Option(
        "--input-shape",
        metavar="NAME=SIZES",
        action=_InputShape,
        dest="input_shapes",
        help="the shape of an input whose sizes or rank the file leaves open, such as "
        "x=None,60,3; may be repeated",
    ),
    Option(
        "--backends",
        metavar="NAMES",
        type=_backends,
        default=["jax", "tensorflow", "torch"],
        help="the backends on which plain Keras must compute the model correctly, "
        "such as jax,torch; by default all three",
    ),
    Option(
        "--unsafe", action="store_true", help="run code from the file (Lambda layers)"
    ),
)


def add(command: Any, *options: Option) -> None:
    """Add options to a command or to a group in it."""
    for each in options:
        command.add_argument(*each.flags, **each.settings)


def add_output(command: Any) -> None:
    """Add the options about what is printed."""
    add(command.add_mutually_exclusive_group(), JSON, QUIET)
    add(command, COLOR, VERBOSE)
