"""`inspect_model`: what is in a legacy file, without building anything of it."""

import dataclasses
import math

from keras_policies.annotations import Config, Path
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import corrupt
from keras_policies.legacy.base.lookups import LOOKUPS
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.build import hints, weights
from keras_policies.legacy.ops import layer as op_layers
from keras_policies.legacy.plan import classes, plan, policies, training
from keras_policies.legacy.readers import near_misses, readers

# Layers that Keras 3 cannot make where TensorFlow is not installed.
NEED_TENSORFLOW = "HashedCrossing", "Hashing", *LOOKUPS


@dataclasses.dataclass(frozen=True)
class LayerDescription:
    """A layer of a legacy model.

    Args:
        path: str, its name, after those of the models around it.
        class_name: str, as written.
        policy: str, the policy as written, or None where none is recorded.
        loss_scale: str, the loss scale that the policy brings, or None.
        compute_dtype, variable_dtype: str, or None for a policy that waits.
        parameters: int, the numbers in its weights.
        becomes: str, the class in Keras 3, `"keras.ops"` for a function that was called
            on a tensor, or None if it is missing.
    """

    path: str
    class_name: str
    policy: str | None
    loss_scale: str | None
    compute_dtype: str | None
    variable_dtype: str | None
    parameters: int
    becomes: str | None


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """What `inspect_model` found.

    Args:
        path, format, written_by: str.
        class_name, name: str, of the model.
        policy: str, the model's own policy as recorded, or as its layers and its
            optimizer tell; None where nothing tells.
        records_policies: bool; TensorFlow 2.0 and older did not.
        becomes_policy: str, what the model's policy becomes.
        optimizer: str, the class of the inner optimizer, or None.
        loss_scale: str, the loss scale of the optimizer in the file, or None.
        keeps_loss_scale: bool; the loss scale that a policy brought is dropped.
        iterations: int, or None.
        slots: int, the number of tensors in the optimizer's slots.
        layers: tuple of `LayerDescription`.
        parameters: int.
        missing: tuple of str, the classes and functions that Keras 3 does not have, and
            that `custom_objects` has to give: layers, losses, metrics, and by the names
            of their layers Lambdas whose code cannot run here.
        notes: tuple of str, what else the model needs, or cannot have.
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
    loss_scale: str | None
    keeps_loss_scale: bool
    iterations: int | None
    slots: int
    layers: tuple[LayerDescription, ...]
    parameters: int
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> Config:
        """Return it as plain dicts, lists and values, as JSON has them."""
        return dataclasses.asdict(self)


def _count(found):
    return sum(math.prod(w.shape) for w in found if not weights.is_unknown(w))


def _text(value):
    return None if value is None else str(value)


def _described(node, prefix, parameters, findings):
    """Yield a `LayerDescription` for a layer, and for those of a nested model."""
    path = f"{prefix}{configs.name_of(node)}"
    written = findings.dtypes.get(path)
    dtypes = policies.dtypes_of(written)
    yield LayerDescription(
        path=path,
        class_name=node["class_name"],
        policy=policy_name(written),
        loss_scale=_text(policies.loss_scale_of(written)),
        compute_dtype=dtypes[0],
        variable_dtype=dtypes[1],
        parameters=parameters.get(path, 0),
        becomes=_becomes(node["class_name"], path, findings),
    )
    for child in configs.inner_layers(node):
        yield from _described(child, f"{path}/", parameters, findings)


def _becomes(class_name, path, findings):
    lost = findings.missing_ops.values()
    if class_name in findings.missing or path in findings.code:
        return None
    if class_name in op_layers.CLASSES and classes.registered_name(class_name) is None:
        return None if any(path in paths for paths in lost) else "keras.ops"
    return classes.keras_name(class_name)


def _notes(findings, layers):
    """Return what a model needs beside classes, in sentences."""
    notes = [f"TensorFlow's {op} has no counterpart" for op in findings.missing_ops]
    lost = findings.without_vocabulary.items()
    notes += [f"the layer {path!r} would be empty: {why}" for path, why in lost]
    notes += map(str, findings.code.values())
    of_tensorflow = [layer.path for layer in layers if layer.becomes in NEED_TENSORFLOW]
    if of_tensorflow:
        named = ", ".join(map(repr, of_tensorflow))
        notes.append(f"{named} need TensorFlow, on any backend. {hints.TENSORFLOW}")
    return tuple(notes)


def describe(planned):
    """Return the `ModelDescription` of a `plan.Plan`."""
    legacy, fitting = planned.legacy, planned.training
    parameters = {name: _count(found) for name, found in legacy.weights.items()}
    scale = fitting.loss_scale if fitting is not None else None
    policy, findings = planned.policy, planned.findings
    layers = tuple(
        description
        for node in configs.inner_layers(legacy.config)
        for description in _described(node, "", parameters, findings)
    )
    functions = training.missing(fitting)
    return ModelDescription(
        path=legacy.path,
        format=legacy.format,
        written_by=legacy.written_by,
        class_name=legacy.config["class_name"],
        name=configs.name_of(legacy.config),
        policy=policy_name(planned.model_dtype),
        records_policies=legacy.records_policies,
        becomes_policy=getattr(policy, "name", policy),
        optimizer=fitting and fitting.optimizer["class_name"],
        loss_scale=_text(scale),
        keeps_loss_scale=planned.loss_scale is not None,
        iterations=legacy.optimizer.iterations,
        slots=len(legacy.optimizer.slots),
        layers=layers,
        parameters=sum(parameters.values()),
        missing=tuple(sorted({*findings.missing, *findings.code, *functions})),
        notes=_notes(findings, layers),
    )


def inspect_model(path: Path) -> ModelDescription:
    """Return what is in a legacy file; nothing is built, no tensor read, no code run.

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
        ('TensorFlow 2.4.4', 'mixed_float16', 'FixedLossScale(128.0)')
    """
    near_misses.check(path)
    with readers.read(path) as legacy, corrupt(path):
        return describe(plan.make(legacy))
