"""`keras-policies explain`: says what the codes of errors and left-out parts mean."""

import argparse

from keras_policies.cli.commands import CommandLineError, nearest
from keras_policies.cli.exit_codes import OK
from keras_policies.legacy.base.codes import CODES


def explain(arguments: argparse.Namespace) -> int:
    """Explain the codes, or list all codes with titles; return the exit code."""
    names = [name.upper() for name in arguments.codes]
    for name in filter(CODES.get, names):
        code = CODES[name]
        print(f"{name}: {code.title}\n  {code.meaning}\n  {code.remedy}")
    for name in names:
        if name not in CODES:
            raise CommandLineError(
                f"there is no code {name!r}.{nearest(name, CODES)} "
                "Run keras-policies explain for a list."
            )
    for name, code in () if names else CODES.items():
        print(f"{name}: {code.title}")
    return OK
