"""Where tables are printed: a terminal, a notebook, or a pipe."""

PIPED_WIDTH = 160  # characters


def console(**options):
    """Return a rich console; a pipe gets whole words, not a screen's width.

    Args:
        **options: of `rich.console.Console`.
    """
    import rich.console

    found = rich.console.Console(**options)
    is_shown = found.is_terminal or found.is_jupyter
    return found if is_shown else rich.console.Console(width=PIPED_WIDTH, **options)
