"""`summary`: a table of a model's policies, and a list of the risks of its numerics.

`rows_of` collects the facts, layer by layer; `on_batch` runs the model.
"""

import dataclasses
import io
from collections.abc import Callable, Iterator

import keras
import rich.box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from keras_policies import keras_internals
from keras_policies._common import terminal
from keras_policies._common.terminal import escape
from keras_policies._common.types import Arrays
from keras_policies.diagnostics import on_batch, risks
from keras_policies.loss_scaling.status import Scaling, scaling_of

NAMED = 3  # layers named in a line of the list, before "and 7 more"
WIDE = 110  # characters that all columns need, if no name is long


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer in a summary."""

    path: str  # names of the layers around it, and its own; "" for the model
    name: str
    class_name: str
    depth: int  # the number of layers around it; 0 for the model
    policy: str  # its name
    compute_dtype: str | None  # None while the layer waits for an input
    variable_dtype: str | None
    loss_scale: Scaling | None  # None for a layer without weights
    risks: tuple[str, ...]


def rows_of(model: keras.Model) -> list[Row]:
    """Return the rows of `summary(model)`: each layer once, before its parts."""
    scaling, seen = scaling_of(model), {id(model)}

    def row(path: tuple[keras.Layer, ...], warnings: tuple[str, ...]) -> Row:
        layer = path[-1]
        policy = keras_internals.own_policy(layer)
        is_scaled = layer is model or layer.trainable_variables
        return Row(
            path="/".join(each.name for each in path[1:]),
            name=layer.name,
            class_name=type(layer).__name__,
            depth=len(path) - 1,
            policy=policy.name,
            compute_dtype=policy.compute_dtype,
            variable_dtype=policy.variable_dtype,
            loss_scale=scaling if is_scaled else None,
            risks=warnings,
        )

    def below(path: tuple[keras.Layer, ...]) -> Iterator[Row]:
        for part in keras_internals.parts(path[-1]):
            if id(part) not in seen:
                seen.add(id(part))
                yield row((*path, part), risks.of_layer(part, path[-1], scaling.rule))
                yield from below((*path, part))

    rows = list(below((model,)))
    computes = {row.compute_dtype for row in rows if row.loss_scale is not None}
    return [row((model,), risks.of_model(model, computes, scaling.rule)), *rows]


def summary(
    model: keras.Model,
    print_fn: Callable[[str], object] | None = None,
    x: Arrays = None,
) -> None:
    """Print the policies of a model, layer by layer, and the layers at numerical risk.

    All layers have the same loss scale: that of the model's optimizer.

    Numbers in the last column refer to the lines below the table. Each line names a
    risk, the layers that have it, and a remedy. With a batch `x`, the last lines name
    the first layer whose outputs leave the range of float16, and the Lambda layers and
    layers or models of your own that compute something else in their narrow dtype than
    in float32. Without one, the model is not run. A summary does not cover

    - losses, metrics and regularizers of your own;
    - without `x`: the code of Lambda layers, and of layers and models of your own;
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
        lines += map(Text, on_batch.lines(model, x))
    console.print(*lines, sep="\n")
    if print_fn is not None:
        print_fn(text.getvalue())


MODEL = "(the model)"
COLUMNS: dict[str, Callable[[Row], str]] = {
    "layer": lambda row: "  " * (row.depth - 1) + (row.name if row.depth else MODEL),
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
        # Policies whose names do not imply their dtypes
        mixed = [r for r in rows if r.compute_dtype not in (None, r.variable_dtype)]
        words = "{0.policy}: computes in {0.compute_dtype}, weights {0.variable_dtype}"
        yield from map(Text, dict.fromkeys(map(words.format, mixed)))
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
