"""Where tables are printed: a terminal, a notebook, or a pipe."""

import os
from typing import Any

import rich.console
import rich.markup

from keras_policies._common.text import printable

PIPED_WIDTH = 160  # characters


def console(piped_width: int = PIPED_WIDTH, **options: Any) -> rich.console.Console:
    """Return a rich console as wide as the screen; for a pipe, as COLUMNS says.

    For a pipe without COLUMNS it is `piped_width` characters wide.
    """
    screen = rich.console.Console(**options)
    # rich obeys COLUMNS, unless it is given a width.
    is_given = os.environ.get("COLUMNS", "").isdigit()
    if is_given or screen.is_terminal or screen.is_jupyter:
        return screen
    return rich.console.Console(width=piped_width, **options)


def escape(text: str) -> str:
    """Return a text as rich shows it in a cell: no markup, no control characters."""
    return str(rich.markup.escape(printable(text).replace("\n", "\\n")))
