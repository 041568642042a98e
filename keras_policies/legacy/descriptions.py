"""`ModelDescription`: the result of `inspect_model`, as text, HTML or JSON."""

import dataclasses
import html
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from keras_policies._common.text import one_line
from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.outcomes import LeftOut, Outcome, plain_parts, worst
from keras_policies.loss_scaling.loss_scale import LossScale, in_short

if TYPE_CHECKING:
    from rich.table import Table

LAYER_HEADINGS = "layer", "class", "policy", "dtypes", "parameters"
NOT_KEPT = "not kept: it is part of the policy"
# Version of Keras in a file -> the releases of TensorFlow that have it. From 2.5 on,
# both have the same number. Source: tf.keras.__version__ of each release.
RELEASES = {
    "2.1.6-tf": "1.9 to 1.12",
    "2.2.4-tf": "1.13 to 2.1",
    "2.3.0-tf": "2.2",
    "2.4.0": "2.3 or 2.4",
}


@dataclasses.dataclass(frozen=True)
class LayerDescription:
    """A layer of a legacy model.

    Args:
        path: its name, after the names of the models around it.
        class_name: as written.
        policy: as written; None if no policy is recorded.
        loss_scale: that of the policy.
        compute_dtype: None for a deferred policy.
        variable_dtype: None for a deferred policy.
        parameters: the number of values in its weights.
        becomes: the class in Keras 3; `"keras.ops"` for a function that was called on a
            tensor; `"rebuilt from its traced function"` if its class is missing;
            `"rebuilt from its bytecode"` for a Lambda layer whose code is understood;
            or None if nothing replaces it.

    Example:
        >>> layer = inspect_model("model_of_2020").layers[1]
        >>> layer.path, layer.class_name, layer.parameters
        ('conv_a', 'Conv2D', 168)
    """

    path: str
    class_name: str
    policy: str | None
    loss_scale: LossScale | None
    compute_dtype: str | None
    variable_dtype: str | None
    parameters: int
    becomes: str | None


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """The result of `inspect_model`, which prints as a table, also in notebooks.

    Args:
        path: the file or folder.
        format: `"SavedModel"`, `"H5"` or `"Keras 2 .keras"`.
        written_by: the release, such as `"TensorFlow 2.4.4"`.
        class_name: the model's class, as written.
        name: the model's name, as written.
        policy: the model's own policy as recorded, or as its layers and its optimizer
            suggest; None if nothing suggests one.
        records_policies: whether the file records policies; TensorFlow 2.0 and older
            did not.
        becomes_policy: the name of the policy in Keras 3.
        optimizer: the class of the optimizer, without a loss scale optimizer around it.
        loss_scale: the loss scale of the policy or of the optimizer.
        keeps_loss_scale: whether it is kept; the loss scale of a policy is dropped.
        iterations: the number of training steps; None if it is not recorded.
        slots: the number of tensors in the optimizer's slots.
        layers: a `LayerDescription` for each layer, also those of nested models.
        parameters: the number of values in all weights.
        missing: the classes and functions that Keras 3 does not have and
            `custom_objects` must contain: layers, losses, metrics, and Lambda layers by
            their names if their code cannot run here.
        notes: other needs and limits of the model.
        problem: why `load_model` will raise an error here, with what to do; None if
            the model opens.
        code: the code of that error, such as `"KP301"`, or None.
        parts: tuple of `LeftOut`, how the model that `load_model` returns will differ,
            as far as this is known without building it.
        opens_if: whether an option, a package or another backend that `problem` names
            opens the model.

    Example:
        >>> found = inspect_model("model_of_2020")
        >>> print(found)
        model_of_2020: SavedModel, TensorFlow 2.4.4
        policy: mixed_float16, becomes mixed_float16
        ...
    """

    path: str
    format: str
    written_by: str
    class_name: str
    name: str
    policy: str | None
    records_policies: bool
    becomes_policy: str | None
    optimizer: str | None
    loss_scale: LossScale | None
    keeps_loss_scale: bool
    iterations: int | None
    slots: int
    layers: tuple[LayerDescription, ...]
    parameters: int
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()
    problem: str | None = None
    code: str | None = None
    parts: tuple[LeftOut, ...] = ()
    opens_if: bool = False

    @property
    def outcome(self) -> Outcome | None:
        """`Outcome` of opening the model, None if `load_model` raises an error."""
        return None if self.problem else worst(self.parts)

    def __str__(self) -> str:
        """Return lines about the model, and a table of its layers."""
        from keras_policies._common import terminal

        text = io.StringIO()
        width = terminal.console().width
        plain = terminal.console(
            width=width, file=text, force_jupyter=False, force_terminal=False
        )
        plain.print(layer_table(self, width))
        return "\n".join([*summary(self), text.getvalue().rstrip("\n")])

    def _repr_html_(self) -> str:
        """Return the same as HTML, with names from the file escaped."""
        rows = [_html_row(LAYER_HEADINGS, "th")]
        rows += [_html_row(cells, "td") for cells in _layer_rows(self)]
        lines = "<br>".join(map(html.escape, summary(self)))
        return f"<p>{lines}</p><table>{''.join(rows)}</table>"

    def as_dict(self) -> Config:
        """Return plain dicts, lists and values for JSON; loss scales become texts."""
        values = dataclasses.asdict(self) | {"loss_scale": _text(self.loss_scale)}
        for plain, layer in zip(values["layers"], self.layers, strict=True):
            plain["loss_scale"] = _text(layer.loss_scale)
        del values["parts"], values["opens_if"]
        outcome = self.outcome and self.outcome.value
        return {**values, "outcome": outcome, "parts": plain_parts(self.parts)}


def _text(rule: LossScale | None) -> str | None:
    return None if rule is None else repr(rule)


def _html_row(cells: Iterable[str], tag: str) -> str:
    texts = (html.escape(one_line(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"


def _layer_rows(description: ModelDescription) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each layer in the table of a model."""
    for layer in description.layers:
        dtypes = dict.fromkeys((layer.compute_dtype, layer.variable_dtype))
        yield (
            layer.path,
            layer.class_name + _change(layer),
            layer.policy or "-",
            ", ".join(dtype or "-" for dtype in dtypes),
            f"{layer.parameters:,}",
        )


def _change(layer: LayerDescription) -> str:
    """Return the text after the class in the table, if the class changes."""
    if layer.becomes in (layer.class_name, None):
        return "" if layer.becomes else " is missing"
    is_class = " " not in layer.becomes  # and not "rebuilt from its bytecode"
    return f" becomes {layer.becomes}" if is_class else f" is {layer.becomes}"


def layer_table(description: ModelDescription, width: int) -> "Table | str":
    """Return a table of the layers, at most `width` characters wide."""
    from keras_policies._common import terminal  # here: JSON needs no tables

    if not description.layers:
        return "subclassed: its layers come from your code"
    return terminal.table(
        LAYER_HEADINGS,
        [*_layer_rows(description)],
        width,
        wrapped=(1, 3),
        numbers=("parameters",),
        styles=["" if each.becomes else "bold yellow" for each in description.layers],
        title=f"{description.class_name} {description.name!r}",
    )


def release(written_by: str) -> str:
    """Return the release of TensorFlow that wrote a file, also if it records Keras's.

    Example:
        >>> release("TensorFlow 2.4.4"), release("Keras 2.4.0"), release("Keras 2.9.0")
        ('TensorFlow 2.4.4', 'TensorFlow 2.3 or 2.4', 'TensorFlow 2.9')
        >>> release("Keras 2.3.1")  # without TensorFlow
        'Keras 2.3.1'
    """
    version = written_by.removeprefix("Keras ")
    numbers = version.split(".")
    if version in RELEASES:
        return f"TensorFlow {RELEASES[version]}"
    if version != written_by and numbers[0] == "2" and int(numbers[1]) >= 5:
        return f"TensorFlow 2.{numbers[1]}"
    return written_by


def summary(description: ModelDescription) -> Iterator[str]:
    """Return lines about the model as a whole, with its names escaped."""
    return map(one_line, _lines(description))


def _lines(description: ModelDescription) -> Iterator[str]:
    written_by = release(description.written_by)
    yield f"{description.path}: {description.format}, {written_by}"
    if not description.records_policies:
        yield "policy: not recorded: this release wrote only the dtypes of variables"
    else:
        policy = description.policy or "none recorded"
        becomes = description.becomes_policy or "the global one"
        yield f"policy: {policy}, becomes {becomes}"
    if description.optimizer is None:
        yield "optimizer: none in the file"
    elif not description.iterations and not description.slots:
        yield f"optimizer: {description.optimizer}, not trained, or without its state"
    else:
        yield (
            f"optimizer: {description.optimizer}, {description.slots} slots, "
            f"{description.iterations} iterations"
        )
    if description.loss_scale is not None:
        kept = "kept" if description.keeps_loss_scale else NOT_KEPT
        yield f"loss scale: {in_short(description.loss_scale)} ({kept})"
    yield f"parameters: {description.parameters:,}"
    if description.missing:
        yield f"missing: {', '.join(description.missing)} (pass {hints.CUSTOM_OBJECTS})"
    yield from (f"note: {note}" for note in description.notes)
    yield from part_lines(description.parts)
    if description.outcome is None:
        yield f"load_model raises an error here: {description.code}"
    else:
        yield f"load_model opens it: {description.outcome.value}"


def part_lines(parts: Iterable[LeftOut]) -> Iterator[str]:
    """Yield a line for each part that differs, with its outcome and its code."""
    for part in parts:
        is_note = part.outcome is Outcome.COMPLETE
        yield f"{'note' if is_note else part.outcome.value}: {part.code}: {part}"
