"""The rows of a summary as text that is legible on 80 columns: a table, then a list."""

NAMED = 3  # layers named in a line of the list, before "and 7 more"
WIDE = 110  # characters that all columns need, but for long names

# Heading -> what a row has there, and whether it may be folded.
COLUMNS = {
    "layer": (
        lambda row: "  " * (row.depth - 1) + row.name if row.depth else "(the model)",
        True,
    ),
    "class": (lambda row: row.class_name, True),
    "policy": (lambda row: row.policy, False),
    "from": (lambda row: row.origin, True),
    "compute": (lambda row: row.compute_dtype or "-", False),
    "weights": (lambda row: row.variable_dtype or "-", False),
    "loss scale": (lambda row: str(row.loss_scale or "-"), True),
}
# Where there is no room for them they are told once, above the table.
ONLY_WIDE = {"compute", "weights", "loss scale"}


def renderables(rows, is_built, width):
    """Yield what rich prints of the rows of a summary.

    Args:
        rows: list of `summaries.Row`, the model's first.
        is_built: bool, whether the model is built.
        width: int, characters in a line.
    """
    from rich.text import Text

    model = rows[0]
    yield Text(f"{model.class_name} {model.name!r}", style="bold")
    if not is_built:
        yield Text("not built: outputs and weights are not known yet")
    headings = [name for name in COLUMNS if width >= WIDE or name not in ONLY_WIDE]
    if width < WIDE:
        yield Text(f"loss scale: {model.loss_scale}")
        yield from map(Text, dict.fromkeys(filter(None, map(_dtypes, rows))))
    places = risky_places(rows)
    yield _table(rows, headings, list(places))
    if places:
        yield _list(places)


def risky_places(rows):
    """Return `{risk: [name of each layer that has it]}`, in the order of the rows."""
    places = {}
    for row in rows:
        for risk in row.risks:
            places.setdefault(risk, []).append(row.path or "the model")
    return places


def _table(rows, headings, risks):
    """Return a rich table; its last column counts into the list of risks."""
    import rich.box
    import rich.table
    from rich.markup import escape

    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=not COLUMNS[heading][1])
    table.add_column("at risk", overflow="fold")
    for row in rows:
        cells = [COLUMNS[heading][0](row) for heading in headings]
        numbers = ", ".join(str(risks.index(risk) + 1) for risk in row.risks)
        table.add_row(*map(escape, [*cells, numbers or "-"]))
    return table


def _dtypes(row):
    """Return what a row's policy stands for, or None if its name says it."""
    if row.compute_dtype in (None, row.variable_dtype):
        return None
    return (
        f"{row.policy}: computes in {row.compute_dtype}, weights {row.variable_dtype}"
    )


def _list(places):
    """Return a rich grid: a number, and what is at risk in which layers."""
    import rich.table
    from rich.markup import escape

    grid = rich.table.Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, (risk, paths) in enumerate(places.items(), 1):
        named = paths if len(paths) <= NAMED + 1 else paths[:NAMED]
        more = f" and {len(paths) - NAMED} more" if named is not paths else ""
        grid.add_row(f"{number}.", escape(f"{', '.join(named)}{more}: {risk}"))
    return grid
