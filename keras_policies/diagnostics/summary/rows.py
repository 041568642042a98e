"""The facts in a summary: one row for the model, and one for each layer."""

import dataclasses
from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies.diagnostics.summary import risks
from keras_policies.loss_scaling.status import Scaling, scaling_of


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer in a summary.

    `loss_scale` is that of the gradients of its weights, None if it has no weights; for
    the model, that of its loss.
    """

    path: str  # its name after the names of the layers around it; "" for the model
    name: str
    class_name: str
    depth: int  # the number of layers around it; 0 for the model
    policy: str  # the name
    compute_dtype: str | None  # None while the layer waits for an input
    variable_dtype: str | None
    loss_scale: Scaling | None
    risks: tuple[str, ...]


def rows_of(model: keras.Model) -> list[Row]:
    """Return the rows of `summary(model)`: the model's own, then each layer's.

    The parts of a layer come after it. A shared layer has one row, at its first place.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> [(row.class_name, row.depth, row.policy) for row in rows_of(model)]
        [('Sequential', 0, 'float32'), ('Dense', 1, 'float32')]
    """
    scaling = scaling_of(model)
    rows = list(_rows_of_parts(model, (), scaling, {id(model)}))
    computes = {row.compute_dtype for row in rows if row.loss_scale is not None}
    warnings = risks.of_model(model, computes, scaling.rule)
    return [_row(model, (), scaling, warnings), *rows]


def _rows_of_parts(
    layer: keras.Layer,
    around: tuple[keras.Layer, ...],
    scaling: Scaling,
    seen: set[int],
) -> Iterator[Row]:
    """Yield the rows of the layers in `layer` that have not been `seen`."""
    for part in keras_internals.parts(layer):
        if id(part) not in seen:
            seen.add(id(part))
            within = (*around, layer)
            warnings = risks.of_layer(part, layer, scaling.rule)
            yield _row(part, within, scaling, warnings)
            yield from _rows_of_parts(part, within, scaling, seen)


def _row(
    layer: keras.Layer,
    around: tuple[keras.Layer, ...],
    scaling: Scaling,
    warnings: tuple[str, ...],
) -> Row:
    policy = keras_internals.own_policy(layer)
    path = [each.name for each in (*around[1:], layer)] if around else []
    return Row(
        path="/".join(path),
        name=layer.name,
        class_name=type(layer).__name__,
        depth=len(around),
        policy=policy.name,
        compute_dtype=policy.compute_dtype,
        variable_dtype=policy.variable_dtype,
        loss_scale=scaling if layer.trainable_variables or not around else None,
        risks=warnings,
    )
