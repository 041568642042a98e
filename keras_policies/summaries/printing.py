"""`summary`, which prints the policies of a model, layer by layer."""

import io
from collections.abc import Callable
from typing import Any

import keras
from rich.text import Text

from keras_policies import terminal
from keras_policies.annotations import Arrays
from keras_policies.summaries import table
from keras_policies.summaries.overflow import Overflow, first_overflow
from keras_policies.summaries.rows import rows_of


def summary(
    model: keras.Model,
    print_fn: Callable[[str], object] | None = None,
    x: Arrays = None,
) -> None:
    """Print the policies of a model, layer by layer, and where numbers are at risk.

    The column "from" says where a policy came from: `own` (given as `dtype=`), `parent`
    (it has the dtypes of the layer that it is part of), `global`, `set later`, `config`
    (a file or a clone, which do not say more), or `unknown` (the layer was made before
    `import keras_policies`). All layers have the same loss scale: that of the model's
    optimizer.

    Numbers in the last column refer to the lines below the table, which say what is at
    risk, in which layers, and what helps. With a batch `x` the last line names the
    first layer whose outputs leave the range of float16. Without one the model is not
    run. A summary says nothing about

    - losses, metrics and regularizers of your own;
    - the code of Lambda layers, and of layers of your own;
    - what a subclassed model computes and returns;
    - gradients (for these, `plot_gradients`).

    `summaries.rows_of` and `summaries.first_overflow` return the same as values.

    Args:
        model: `keras.Model`, built or not, compiled or not. The outputs and weights of
            a model that is not built are not known yet.
        print_fn: callable that takes the whole text as one str, as in
            `keras.Model.summary`; None for the terminal or the notebook. Text that is
            passed to `print_fn` or piped is as wide as the environment variable COLUMNS
            says, or 160 characters.
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
            f"summary takes a keras.Model, but got: {model!r}. Put a layer into a "
            "keras.Sequential."
        )
    text = io.StringIO()
    # Otherwise rich would show a notebook the text itself, or colour it.
    for_text: dict[str, Any] = {
        "file": text,
        "force_jupyter": False,
        "force_terminal": False,
    }
    console = terminal.console(**({} if print_fn is None else for_text))
    last = [] if x is None else [Text(_on_batch(first_overflow(model, x)))]
    shown = table.renderables(rows_of(model), model.built, console.width)
    console.print(*shown, *last, sep="\n")
    if print_fn is not None:
        print_fn(text.getvalue())


def _on_batch(found: Overflow | None) -> str:
    return str(found or "On this batch, all outputs are within float16's range.")
