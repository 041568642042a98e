"""`inspect_model`: describes a legacy file without building anything from it."""

import collections
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keras_policies._common.types import Config, Path, PolicyLike, Source
from keras_policies.legacy import attempts
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.configs import policy_name
from keras_policies.legacy.base.errors import LegacyModelError, LimitError, corrupt
from keras_policies.legacy.base.weights import LayerWeights, is_unknown
from keras_policies.legacy.descriptions import LayerDescription, ModelDescription
from keras_policies.legacy.plan import (
    classes,
    environment,
    op_layers,
    parts,
    plan,
    policies,
    training,
)
from keras_policies.legacy.plan.report import Options, Report
from keras_policies.legacy.readers import readers, sources

REBUILT = "rebuilt from its traced function"  # in `LayerDescription.becomes`


class _Known(NamedTuple):
    """What is known of layers, by path or by class."""

    report: Report
    parameters: Mapping[str, int]
    missing: frozenset[str]  # classes
    missing_ops: frozenset[str]  # paths of layers


def _described(node: Config, prefix: str, known: _Known) -> Iterator[LayerDescription]:
    report, parameters = known.report, known.parameters
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
        becomes=_becomes(node["class_name"], path, known),
    )
    for child in _inner_layers(node, path, report):
        yield from _described(child, f"{path}/", known)


def _inner_layers(node: Config, path: str, report: Report) -> Sequence[Config]:
    """Return the layers of a model, also if it was rebuilt from a function."""
    rebuilt = report.reconstructions.get(path)
    return (rebuilt and rebuilt.layers) or configs.inner_layers(node)


def _becomes(class_name: str, path: str, known: _Known) -> str | None:
    """Return a text about the replacement of a layer, or None."""
    report = known.report
    if path in report.reconstructions:
        return REBUILT
    if class_name in known.missing or path in report.code:
        return None
    if path in report.rebuilt:
        return f"rebuilt from {report.rebuilt[path]}"
    if op_layers.is_op(class_name):
        return None if path in known.missing_ops else "keras.ops"
    return classes.keras_name(class_name)


def _notes(report: Report, layers: Sequence[LayerDescription]) -> tuple[str, ...]:
    ops = dict.fromkeys(op for op, _ in report.missing_ops)
    notes = [f"TensorFlow's {op} has no counterpart" for op in ops]
    empty = report.without_vocabulary.items()
    notes += [f"the layer {path!r} would be empty: {why}" for path, why in empty]
    notes += map(str, report.code.values())
    needing = environment.NEED_TENSORFLOW
    of_tensorflow = [layer.path for layer in layers if layer.becomes in needing]
    if of_tensorflow:
        named = ", ".join(map(repr, of_tensorflow))
        notes.append(f"{named} need TensorFlow, on any backend. {hints.TENSORFLOW}")
    return tuple(notes)


def _of_inner_layers(weights: LayerWeights) -> dict[str, int]:
    """Return `{path of a layer: parameters}` for layers of inner models.

    An H5 file lists their weights together, under the name of the outermost model.
    """
    found: dict[str, int] = collections.Counter()
    for outer, listed in weights.items():
        for weight in itertools.filterfalse(is_unknown, listed):
            layer, _, _ = weight.name.rpartition("/")
            found[f"{outer}/{layer}"] += math.prod(weight.shape)
    return dict(found)


def describe(
    planned: plan.Plan, problem: LegacyModelError | None = None
) -> ModelDescription:
    """Return the `ModelDescription` of a `Plan`, with the error of `load_model`."""
    legacy, fitting, report = planned.legacy, planned.training, planned.report
    parameters = {  # without those that Keras 3 does not have
        name: sum(math.prod(w.shape) for w in item if not is_unknown(w))
        for name, item in legacy.weights.items()
    }
    total = sum(parameters.values())
    parameters = _of_inner_layers(legacy.weights) | parameters
    itself = report.reconstructions.get("")
    if itself is not None:
        parameters = {**itself.parameters}
        total = sum(parameters.values())
    known = _Known(
        report=report,
        parameters=parameters,
        missing=frozenset(name for name, _ in report.missing),
        missing_ops=frozenset(path for _, path in report.missing_ops),
    )
    described = tuple(
        item
        for node in _inner_layers(legacy.config, "", report)
        for item in _described(node, "", known)
    )
    of_itself = [f"the model itself is {REBUILT}"] if itself is not None else []
    missing = {*known.missing, *report.code, *training.missing(fitting)}
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
        parameters=total,
        missing=tuple(sorted(missing)),
        notes=(*_notes(report, described), *of_itself),
        parts=(*parts.of_plan(planned), *parts.in_training(planned)),
        problem=None if problem is None else problem.problem,
        code=None if problem is None else problem.code,
        opens_if=problem is not None and problem.opens_if,
    )


def inspect_model(path: Source) -> ModelDescription:
    """Return a description of a legacy file, without running code or reading tensors.

    It makes the plan that `load_model` builds, and says what `load_model` will do.
    Only building a model shows whether its weights fit, and whether its outputs are
    those of the graph in a SavedModel.

    Args:
        path: str or path, as `load_model` takes it.

    Returns:
        A frozen `ModelDescription`: format, release, policies, loss scale, optimizer,
        layers with their replacements, missing classes, and what `load_model` will
        do: the `outcome`, or the `problem` with which it ends.

    Raises:
        LegacyModelError: if the file is not a legacy model, or is corrupt.

    Example:
        >>> found = inspect_model("model_of_2020")
        >>> found.written_by, found.policy, found.loss_scale
        ('TensorFlow 2.4.4', 'mixed_float16', FixedLossScale(128.0))
    """
    sources.check_meant(path)
    with readers.read(path) as legacy, corrupt(path):
        try:
            return attempts.first(legacy, None, Options(), describe)
        except LimitError:
            raise
        except LegacyModelError as error:
            try:
                planned = plan.make(legacy)
            except LegacyModelError:
                raise error from error.__cause__
            return describe(planned, error)


def rehearse(
    path: Source, policy: PolicyLike | None, options: Options, weights: Path | None
) -> ModelDescription:
    """Describe the model that `convert_model` would build, or raise its error.

    The user's classes are those of the surrounding `custom_object_scope`.
    """
    sources.check_meant(path)
    with readers.read(path, weights, needs_weights=True) as legacy, corrupt(path):
        return attempts.first(legacy, policy, options, describe)
