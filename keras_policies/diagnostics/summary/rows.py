"""The facts in a summary: one row for the model, and one for each layer."""

import dataclasses
from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies.diagnostics.summary import risks
from keras_policies.loss_scaling.status import Scaling, scaling_of


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
    """Return the rows of `summary(model)`: the model's own, then each layer's.

    A layer's parts follow it. A shared layer has one row, at its first place.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> [(row.class_name, row.depth, row.policy) for row in rows_of(model)]
        [('Sequential', 0, 'float32'), ('Dense', 1, 'float32')]
    """
    scaling = scaling_of(model)
    seen = {id(model)}

    def below(layer: keras.Layer, around: tuple[keras.Layer, ...]) -> Iterator[Row]:
        for part in keras_internals.parts(layer):
            if id(part) not in seen:
                seen.add(id(part))
                warnings = risks.of_layer(part, layer, scaling.rule)
                yield _row(part, (*around, part), scaling, warnings)
                yield from below(part, (*around, part))

    rows = list(below(model, ()))
    computes = {row.compute_dtype for row in rows if row.loss_scale is not None}
    warnings = risks.of_model(model, computes, scaling.rule)
    return [_row(model, (), scaling, warnings), *rows]


def _row(
    layer: keras.Layer,
    path: tuple[keras.Layer, ...],
    scaling: Scaling,
    warnings: tuple[str, ...],
) -> Row:
    policy = keras_internals.own_policy(layer)
    return Row(
        path="/".join(each.name for each in path),
        name=layer.name,
        class_name=type(layer).__name__,
        depth=len(path),
        policy=policy.name,
        compute_dtype=policy.compute_dtype,
        variable_dtype=policy.variable_dtype,
        loss_scale=scaling if layer.trainable_variables or not path else None,
        risks=warnings,
    )
