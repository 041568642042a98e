"""`inspect_model`: describes a legacy file without building anything from it."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from keras_policies._common.types import Config, Path
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.configs import LOOKUPS, policy_name
from keras_policies.legacy.base.errors import corrupt
from keras_policies.legacy.base.model import is_unknown
from keras_policies.legacy.plan import classes, layers, plan, policies, training
from keras_policies.legacy.plan.report import Report
from keras_policies.legacy.readers import readers, sources
from keras_policies.loss_scaling.loss_scale import LossScale

REBUILT = "rebuilt from its traced function"  # what a layer becomes
# Layers that Keras 3 cannot make where TensorFlow is not installed.
NEED_TENSORFLOW = "HashedCrossing", "Hashing", *LOOKUPS


@dataclasses.dataclass(frozen=True)
class LayerDescription:
    """A layer of a legacy model.

    Args:
        path: its name, after those of the models around it.
        class_name: as written.
        policy: as written; None where no policy is recorded.
        loss_scale: the one that the policy brings.
        compute_dtype: None for a deferred policy.
        variable_dtype: None for a deferred policy.
        parameters: the number of values in its weights.
        becomes: the class in Keras 3, `"keras.ops"` for a function that was called on a
            tensor, `REBUILT` if its class is missing and its function was traced,
            `"rebuilt from its bytecode"` for a Lambda layer whose code was followed,
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
    """What `inspect_model` found. Printed, or shown by a notebook, it is a table.

    Args:
        path: the file or folder.
        format: `"SavedModel"`, `"H5"` or `"Keras 2 .keras"`.
        written_by: the release, such as `"TensorFlow 2.4.4"`.
        class_name: that of the model, as written.
        name: that of the model, as written.
        policy: the model's own policy as recorded, or as its layers and its optimizer
            suggest; None where nothing suggests one.
        records_policies: TensorFlow 2.0 and older did not.
        becomes_policy: the name of the policy in Keras 3.
        optimizer: the class of the inner optimizer.
        loss_scale: that of the policy or of the optimizer.
        keeps_loss_scale: the loss scale that a policy brought is dropped.
        iterations: the number of training steps; None if it is not recorded.
        slots: the number of tensors in the optimizer's slots.
        layers: a `LayerDescription` for each layer, those of nested models too.
        parameters: the number of values in all weights.
        missing: the classes and functions that Keras 3 does not have and
            `custom_objects` has to give: layers, losses, metrics, and Lambda layers by
            their names if their code cannot run here.
        notes: what else the model needs, or cannot have.

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

    def __str__(self) -> str:
        """Return lines about the model, and a table of its layers."""
        from keras_policies.cli import reports  # which imports this module

        return reports.description_text(self)

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        from keras_policies.cli import reports

        return reports.description_html(self)

    def as_dict(self) -> Config:
        """Return it as plain dicts, lists and values for JSON; loss scales as texts."""
        values = dataclasses.asdict(self) | {"loss_scale": _text(self.loss_scale)}
        for plain, layer in zip(values["layers"], self.layers, strict=True):
            plain["loss_scale"] = _text(layer.loss_scale)
        return values


def _text(rule: LossScale | None) -> str | None:
    return None if rule is None else repr(rule)


def _described(
    node: Config, prefix: str, parameters: Mapping[str, int], report: Report
) -> Iterator[LayerDescription]:
    """Yield a `LayerDescription` for a layer, and for those of a nested model."""
    path = f"{prefix}{configs.name_of(node)}"
    written = report.dtypes.get(path)
    compute_dtype, variable_dtype = policies.dtypes_of(written)
    rebuilt = report.reconstructions.get(path)
    yield LayerDescription(
        path=path,
        class_name=rebuilt.class_name if rebuilt else node["class_name"],
        policy=policy_name(written),
        loss_scale=policies.loss_scale_of(written),
        compute_dtype=compute_dtype,
        variable_dtype=variable_dtype,
        parameters=parameters.get(path, 0),
        becomes=_becomes(node["class_name"], path, report),
    )
    for child in _inner_layers(node, path, report):
        yield from _described(child, f"{path}/", parameters, report)


def _inner_layers(node: Config, path: str, report: Report) -> Sequence[Config]:
    """Return the layers in a model, or in one that was made of a function."""
    rebuilt = report.reconstructions.get(path)
    return (rebuilt and rebuilt.layers) or configs.inner_layers(node)


def _becomes(class_name: str, path: str, report: Report) -> str | None:
    """Return the name of what a layer becomes, or None if that is missing."""
    if path in report.reconstructions:
        return REBUILT
    if class_name in dict(report.missing) or path in report.code:
        return None
    if path in report.rebuilt:
        return f"rebuilt from {report.rebuilt[path]}"
    if layers.is_op(class_name):
        is_missing = any(path == layer for _, layer in report.missing_ops)
        return None if is_missing else "keras.ops"
    return classes.keras_name(class_name)


def _notes(report: Report, layers: Sequence[LayerDescription]) -> tuple[str, ...]:
    """Return notes on what a model needs besides classes, in sentences."""
    ops = dict.fromkeys(op for op, _ in report.missing_ops)
    notes = [f"TensorFlow's {op} has no counterpart" for op in ops]
    lost = report.without_vocabulary.items()
    notes += [f"the layer {path!r} would be empty: {why}" for path, why in lost]
    notes += map(str, report.code.values())
    of_tensorflow = [layer.path for layer in layers if layer.becomes in NEED_TENSORFLOW]
    if of_tensorflow:
        named = ", ".join(map(repr, of_tensorflow))
        notes.append(f"{named} need TensorFlow, on any backend. {hints.TENSORFLOW}")
    return tuple(notes)


def describe(planned: plan.Plan) -> ModelDescription:
    """Return the `ModelDescription` of a `Plan`."""
    legacy, fitting, report = planned.legacy, planned.training, planned.report
    parameters = {  # without those that Keras 3 does not have
        name: sum(math.prod(w.shape) for w in item if not is_unknown(w))
        for name, item in legacy.weights.items()
    }
    itself = report.reconstructions.get("")
    if itself is not None:
        parameters = {**itself.parameters}
    described = tuple(
        item
        for node in _inner_layers(legacy.config, "", report)
        for item in _described(node, "", parameters, report)
    )
    of_itself = [f"the model itself is {REBUILT}"] if itself is not None else []
    missing = {*dict(report.missing), *report.code, *training.missing(fitting)}
    return ModelDescription(
        path=legacy.path,
        format=legacy.format,
        written_by=legacy.written_by,
        class_name=itself.class_name if itself else legacy.config["class_name"],
        name=configs.name_of(legacy.config),
        policy=policy_name(planned.model_dtype),
        records_policies=legacy.records_policies,
        becomes_policy=getattr(planned.policy, "name", planned.policy),
        optimizer=None if fitting is None else fitting.optimizer["class_name"],
        loss_scale=None if fitting is None else fitting.loss_scale,
        keeps_loss_scale=planned.loss_scale is not None,
        iterations=legacy.optimizer.iterations,
        slots=len(legacy.optimizer.slots),
        layers=described,
        parameters=sum(parameters.values()),
        missing=tuple(sorted(missing)),
        notes=(*_notes(report, described), *of_itself),
    )


def inspect_model(path: Path) -> ModelDescription:
    """Return a description of a legacy file, without running code or reading tensors.

    Args:
        path: str or path, as `load_model` takes it.

    Returns:
        A frozen `ModelDescription`: format, release, policies, loss scale, optimizer,
        layers with what they become, and the classes that are missing.

    Raises:
        LegacyModelError: if it is no legacy model, or is corrupt.

    Example:
        >>> found = inspect_model("model_of_2020")
        >>> found.written_by, found.policy, found.loss_scale
        ('TensorFlow 2.4.4', 'mixed_float16', FixedLossScale(128.0))
    """
    sources.check_meant(path)
    with readers.read(path) as legacy, corrupt(path):
        return describe(plan.make(legacy))
