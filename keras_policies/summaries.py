"""`summary`: the policies of a model, layer by layer, and where numbers are at risk."""

import dataclasses
import io
from collections.abc import Callable

import keras

from keras_policies import keras_internals, origins, risks, terminal
from keras_policies.scaling import Scaling, scaling_of


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer in a summary.

    Args:
        path: str, its name, after those of the layers around it; `""` for the model.
        name, class_name: str.
        depth: int, the number of layers around it; 0 for the model.
        policy: str, the name of its policy.
        origin: str, where that came from, as `origins.origin_of` tells.
        compute_dtype, variable_dtype: str, or None while it waits for an input.
        loss_scale: `Scaling` of the gradients of its weights; None if it has none.
        risks: tuple of str.
    """

    path: str
    name: str
    class_name: str
    depth: int
    policy: str
    origin: str
    compute_dtype: str | None
    variable_dtype: str | None
    loss_scale: Scaling | None
    risks: tuple[str, ...]


def rows_of(model: keras.Model) -> list[Row]:
    """Return the rows of `summary(model)`: the model's own, then each layer's.

    Args:
        model: `keras.Model`, built or not.

    Returns:
        List of `Row`; the parts of a layer come after it. A layer that is shared
        stands where it comes first.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> [(row.class_name, row.depth, row.origin) for row in rows_of(model)]
        [('Sequential', 0, 'global'), ('Dense', 1, 'global')]
    """
    scaling = scaling_of(model)
    rows = list(_rows(model, (), scaling, {id(model)}))
    computes = {row.compute_dtype for row in rows[1:] if row.loss_scale is not None}
    words = risks.of_model(model, computes, scaling.rule)
    return [_row(model, (), scaling, words), *rows[1:]]


def _rows(layer, around, scaling, seen):
    """Yield the row of a layer, and those of its parts not yet `seen`."""
    parent = around[-1] if around else None
    words = risks.of_layer(layer, parent, scaling.rule)
    yield _row(layer, around, scaling, words)
    for part in keras_internals.parts(layer):
        if id(part) not in seen:
            seen.add(id(part))
            yield from _rows(part, (*around, layer), scaling, seen)


def _row(layer, around, scaling, words):
    parent = around[-1] if around else None
    policy = keras_internals.own_policy(layer)
    path = [each.name for each in (*around[1:], layer)] if around else []
    return Row(
        path="/".join(path),
        name=layer.name,
        class_name=type(layer).__name__,
        depth=len(around),
        policy=policy.name,
        origin=origins.origin_of(layer, parent),
        compute_dtype=policy.compute_dtype,
        variable_dtype=policy.variable_dtype,
        loss_scale=scaling if layer.trainable_variables else None,
        risks=words,
    )


def _table(rows):
    """Return a rich table, as `keras-policies inspect` has it."""
    import rich.table
    from rich.markup import escape

    model = rows[0]
    table = rich.table.Table(title=escape(f"{model.class_name} {model.name!r}"))
    headings = "layer", "class", "policy", "from", "compute", "weights", "loss scale"
    for heading in headings:
        table.add_column(heading, overflow="fold")
    table.add_column("at risk", overflow="fold", style="bold")
    for row in rows:
        cells = [
            "  " * (row.depth - 1) + row.name if row.depth else "(the model)",
            row.class_name,
            row.policy,
            row.origin,
            row.compute_dtype or "-",
            row.variable_dtype or "-",
            str(row.loss_scale or "-"),
            "\n".join(row.risks) or "-",
        ]
        table.add_row(*map(escape, cells))
    return table


def summary(
    model: keras.Model, print_fn: Callable[[str], object] | None = None
) -> None:
    """Print the policies of a model, layer by layer, and where numbers are at risk.

    Where a policy came from is `own` (given as `dtype=`), `parent` (the same dtypes as
    the layer that it is part of), `global`, `set later`, `config` (from a file or a
    clone, which do not say more), or `unknown` (made before `import keras_policies`).
    The loss scale is that of the gradients of the layer's weights: only the optimizer
    of the model has a say. What cannot be seen without running the model is not told:
    a softmax inside a layer of your own, the outputs of a subclassed model. See
    `summaries.rows_of` for the same as values.

    Args:
        model: `keras.Model`, built or not, compiled or not.
        print_fn: callable that takes the whole table as one str, as in
            `keras.Model.summary`; None for the terminal or the notebook.

    Raises:
        TypeError: if it is no model.

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
            f"summary takes a keras.Model, but got: {model!r}. Put a layer into a "
            "keras.Sequential."
        )
    table = _table(rows_of(model))
    if print_fn is None:
        terminal.console().print(table)
        return
    # Else rich would show a notebook the table itself, or colour the text.
    plain = {"force_jupyter": False, "force_terminal": False}
    console = terminal.console(file=io.StringIO(), **plain)
    console.print(table)
    print_fn(console.file.getvalue())
