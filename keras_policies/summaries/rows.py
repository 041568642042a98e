"""`summary`: the policies of a model, layer by layer, and where numbers are at risk."""

import dataclasses
import io
from collections.abc import Callable

import keras

from keras_policies import keras_internals, origins, risks, summary_table, terminal
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
        loss_scale: `Scaling` of the gradients of its weights; None if it has none. Of
            the model, that of its loss.
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
        loss_scale=scaling if layer.trainable_variables or not around else None,
        risks=words,
    )


def summary(
    model: keras.Model, print_fn: Callable[[str], object] | None = None
) -> None:
    """Print the policies of a model, layer by layer, and where numbers are at risk.

    Where a policy came from is `own` (given as `dtype=`), `parent` (the same dtypes as
    the layer that it is part of), `global`, `set later`, `config` (from a file or a
    clone, which do not say more), or `unknown` (made before `import keras_policies`).
    The loss scale is one for all: only the optimizer of the model has a say.

    Numbers in the last column stand for the lines below the table: what is at risk, in
    which layers, and what helps. The model is not run, so these are not looked at:

    - losses, metrics and regularizers of your own;
    - the code of Lambda layers, and of layers of your own;
    - what a subclassed model computes and gives out;
    - the numbers themselves: data, weights, gradients (for these, `plot_gradients`).

    See `summaries.rows_of` for the same as values.

    Args:
        model: `keras.Model`, built or not, compiled or not. Of one that is not built,
            outputs and weights are not known yet.
        print_fn: callable that takes the whole text as one str, as in
            `keras.Model.summary`; None for the terminal or the notebook. Text that is
            passed on or piped is as wide as the environment's COLUMNS, or 160.

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
    if print_fn is None:
        _print(model, terminal.console())
        return
    # Else rich would show a notebook the text itself, or colour it.
    plain = {"force_jupyter": False, "force_terminal": False}
    console = terminal.console(file=io.StringIO(), **plain)
    _print(model, console)
    print_fn(console.file.getvalue())


def _print(model, console):
    shown = summary_table.renderables(rows_of(model), model.built, console.width)
    console.print(*shown, sep="\n")
