"""Where tables are printed: a terminal, a notebook, or a pipe."""

import os

PIPED_WIDTH = 160  # characters


def console(**options):
    """Return a rich console; a pipe is as wide as COLUMNS says, else not a screen.

    Args:
        **options: of `rich.console.Console`.
    """
    import rich.console

    found = rich.console.Console(**options)
    # rich obeys COLUMNS, unless it is told a width.
    is_given = os.environ.get("COLUMNS", "").isdigit()
    if is_given or found.is_terminal or found.is_jupyter:
        return found
    return rich.console.Console(width=PIPED_WIDTH, **options)
