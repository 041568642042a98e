"""`summary`, which prints the policies of a model: a table, then a list of risks.

The text fits 80 columns.
"""

import io
from collections.abc import Callable, Iterator

import keras
import rich.box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from keras_policies._common import terminal
from keras_policies._common.terminal import escape
from keras_policies._common.types import Arrays
from keras_policies.diagnostics.summary.overflow import first_overflow
from keras_policies.diagnostics.summary.rows import Row, rows_of

NAMED = 3  # layers named in a line of the list, before "and 7 more"
WIDE = 110  # characters that all columns need, if no name is long


def summary(
    model: keras.Model,
    print_fn: Callable[[str], object] | None = None,
    x: Arrays = None,
) -> None:
    """Print the policies of a model, layer by layer, and the layers at numerical risk.

    All layers have the same loss scale: that of the model's optimizer.

    Numbers in the last column refer to the lines below the table. Each line names a
    risk, the layers that have it, and a remedy. With a batch `x`, the last line names
    the first layer whose outputs leave the range of float16; without one, the model is
    not run. A summary does not cover

    - losses, metrics and regularizers of your own;
    - the code of Lambda layers, and of layers of your own;
    - what a subclassed model computes and returns;
    - gradients (for these, `plot_gradients`).

    Args:
        model: `keras.Model`, built or not, compiled or not. The outputs and weights of
            a model that is not built are not known yet.
        print_fn: callable that takes the whole text as one str, as in
            `keras.Model.summary`; None for the terminal or the notebook. Text that is
            passed to `print_fn` or piped is COLUMNS characters wide (an environment
            variable), by default 160.
        x: array, or a structure of arrays, one batch of inputs for the model to
            predict, or None.

    Raises:
        TypeError: if `model` is not a model.

    Example:
        >>> with policy_scope("mixed_float16"):
        ...     layers = [keras.Input((2,)), keras.layers.Dense(1, name="last")]
        ...     model = keras.Sequential(layers)
        >>> tables = []
        >>> summary(model, print_fn=tables.append)
        >>> "output of last in float16" in tables[0]
        True
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"summary takes a keras.Model, but got: {model!r}. Wrap a layer in a "
            "keras.Sequential."
        )
    text = io.StringIO()
    # Otherwise rich would show a notebook the text itself, or colour it.
    console = terminal.console()
    if print_fn is not None:
        console = terminal.console(file=text, force_jupyter=False, force_terminal=False)
    lines = [*_renderables(rows_of(model), model.built, console.width)]
    if x is not None:
        within = "On this batch, all outputs are within float16's range."
        lines.append(Text(str(first_overflow(model, x) or within)))
    console.print(*lines, sep="\n")
    if print_fn is not None:
        print_fn(text.getvalue())


def _indented(row: Row) -> str:
    return "  " * (row.depth - 1) + row.name if row.depth else "(the model)"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "layer": _indented,
    "class": lambda row: row.class_name,
    "policy": lambda row: row.policy,
    "compute": lambda row: row.compute_dtype or "-",
    "weights": lambda row: row.variable_dtype or "-",
    "loss scale": lambda row: str(row.loss_scale or "-"),
}
MAY_FOLD = {"layer", "class", "loss scale"}
# Where there is no room for these columns, lines above the table replace them.
ONLY_WIDE = {"compute", "weights", "loss scale"}


def _renderables(
    rows: list[Row], is_built: bool, width: int
) -> Iterator[RenderableType]:
    """Yield the parts of a summary, `width` characters wide, for rich to print."""
    model = rows[0]
    yield Text(f"{model.class_name} {model.name!r}", style="bold")
    if not is_built:
        yield Text("not built: outputs and weights are not known yet")
    headings = [name for name in COLUMNS if width >= WIDE or name not in ONLY_WIDE]
    if width < WIDE:
        yield Text(f"loss scale: {model.loss_scale}")
        yield from map(Text, dict.fromkeys(filter(None, map(_dtypes, rows))))
    places: dict[str, list[str]] = {}  # risk -> paths of the layers that have it
    for row in rows:
        for risk in row.risks:
            places.setdefault(risk, []).append(row.path or "the model")
    yield _table(rows, headings, list(places))
    if places:
        yield _list(places)


def _table(rows: list[Row], headings: list[str], risks: list[str]) -> Table:
    """Return a rich table; its last column has the numbers of risks in the list."""
    table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading not in MAY_FOLD)
    table.add_column("at risk", overflow="fold")
    for row in rows:
        cells = [COLUMNS[heading](row) for heading in headings]
        numbers = ", ".join(str(risks.index(risk) + 1) for risk in row.risks)
        table.add_row(*map(escape, [*cells, numbers or "-"]))
    return table


def _dtypes(row: Row) -> str | None:
    """Return the dtypes of a row's policy, or None if its name implies them."""
    compute, variable = row.compute_dtype, row.variable_dtype
    if compute in (None, variable):
        return None
    return f"{row.policy}: computes in {compute}, weights {variable}"


def _list(places: dict[str, list[str]]) -> Table:
    """Return a rich grid whose lines number the risks and name their layers."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, (risk, paths) in enumerate(places.items(), 1):
        named = paths if len(paths) <= NAMED + 1 else paths[:NAMED]
        more = f" and {len(paths) - NAMED} more" if named is not paths else ""
        grid.add_row(f"{number}.", escape(f"{', '.join(named)}{more}: {risk}"))
    return grid
