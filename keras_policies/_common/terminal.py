"""Where tables are printed: a terminal, a notebook, or a pipe."""

import os
from collections.abc import Collection, Sequence
from typing import Any

import rich.box
import rich.console
import rich.markup
from rich.table import Table

from keras_policies._common.text import color, one_line

PIPED_WIDTH = 160  # characters
BETWEEN, LEAST = 2, 12  # characters between two columns, and of a path that is cut
# Options of the console by the colours that the user wants.
COLORS: dict[str, dict[str, Any]] = {
    "auto": {},
    "always": {"force_terminal": True},
    "never": {"color_system": None},
}


def console(piped_width: int = PIPED_WIDTH, **options: Any) -> rich.console.Console:
    """Return a rich console as wide as the screen, COLUMNS, or else `piped_width`."""
    options = COLORS[color.get()] | options
    screen = rich.console.Console(**options)
    # rich obeys COLUMNS, unless it is given a width.
    is_given = os.environ.get("COLUMNS", "").isdigit()
    if is_given or screen.file.isatty() or screen.is_jupyter:
        return screen
    return rich.console.Console(**{"width": piped_width, **options})


def escape(text: str) -> str:
    """Return a text as rich shows it in a cell: no markup, no control characters."""
    return str(rich.markup.escape(one_line(text)))


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    paths: Collection[int] = (0,),
    wrapped: Collection[int] = (),
    numbers: Collection[str] = (),
    styles: Sequence[str] = (),
    title: str | None = None,
) -> Table:
    """Return a table that fits into `width` characters and breaks no word.

    Cells in the columns `wrapped` take several lines first, and then those in `paths`
    are cut in their middle. Columns with a heading in `numbers` are aligned on the
    right. `styles` has the style of each row's last cell; bold applies to the row.
    """
    cells = [headings, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    excess = sum(widths) + BETWEEN * (len(headings) - 1) - width
    for i in wrapped:
        word = max(len(word) for row in cells for word in row[i].split(" "))
        saved = max(0, min(excess, widths[i] - word))
        widths[i], excess = widths[i] - saved, excess - saved
    share = _share(widths, excess, paths)
    shown = Table(
        box=rich.box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=None if title is None else escape(title),
        title_justify="left",
    )
    for i, heading in enumerate(headings):
        justify: Any = "right" if heading in numbers else "left"
        size = widths[i] if i in wrapped else None
        named = cut(heading, share) if i in paths else heading
        shown.add_column(
            escape(named), justify=justify, no_wrap=size is None, width=size
        )
    for row, style in zip(rows, styles or [""] * len(rows), strict=True):
        *first, last = (
            escape(cut(cell, share) if i in paths else cell)
            for i, cell in enumerate(row)
        )
        last = f"[{style}]{last}[/]" if style else last
        shown.add_row(*first, last, style=style if "bold" in style else None)
    return shown


def widths(longest: Sequence[int], width: int, paths: Collection[int]) -> list[int]:
    """Return the widths of columns that fit into `width` characters.

    `longest` are the widths of their longest cells; only those in `paths` may be cut.
    """
    excess = sum(longest) + BETWEEN * (len(longest) - 1) - width
    share = _share(longest, excess, paths)
    return [min(n, share) if i in paths else n for i, n in enumerate(longest)]


def _share(longest: Sequence[int], excess: int, paths: Collection[int]) -> int:
    """Return the width to which columns are cut, so that `excess` is saved."""
    return max(LEAST, (sum(longest[i] for i in paths) - excess) // len(paths))


def cut(text: str, width: int) -> str:
    """Return a text of at most `width` characters, cut in its middle."""
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 5
    return f"{text[:head]}…{text[head + 1 - width :]}"
