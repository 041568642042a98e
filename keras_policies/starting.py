"""How this process was started: for the command line, Keras is imported late."""

import pathlib
import sys

COMMAND, MODULE = "keras-policies", "keras_policies"


def is_command() -> bool:
    """Return whether this is `keras-policies` or `python -m keras_policies`.

    While Python looks for the module after `-m`, `sys.argv` begins with `"-m"`, and the
    module's name stands before the arguments in `sys.orig_argv`.
    """
    arguments = getattr(sys, "argv", None) or [""]
    if arguments[0] == "-m":
        return sys.orig_argv[-len(arguments)].removeprefix("-m") == MODULE
    return pathlib.PurePath(arguments[0]).stem == COMMAND
