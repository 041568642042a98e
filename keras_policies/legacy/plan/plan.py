"""Decides what a legacy model becomes: configs converted, nothing built.

Custom classes are those of the surrounding `keras.saving.custom_object_scope`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies.annotations import Config, PolicyLike
from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import LegacyModelError, corrupt, located
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.guards import trust
from keras_policies.legacy.plan import layers, policies, training
from keras_policies.legacy.plan.findings import Findings, merged
from keras_policies.legacy.plan.settings import Settings
from keras_policies.loss_scale import LossScale

# Models that consist of what their configs list.
GRAPHS = "Model", "Functional", "Sequential"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A `LegacyModel`, converted: configs of Keras 3, nothing built yet.

    Args:
        legacy: `LegacyModel`.
        config: dict, the config of the model in Keras 3.
        model_dtype: the model's own policy, as written or as its layers tell.
        policy: what the model's own policy becomes: a name, a policy, or None.
        training: `training.Training`, or None.
        loss_scale: `LossScale` of an explicit LossScaleOptimizer, or None.
        findings: `Findings`, with all that is missing.
        settings: `Settings` of the conversion.
    """

    legacy: LegacyModel
    config: Config
    model_dtype: Any
    policy: PolicyLike | None
    training: training.Training | None
    loss_scale: LossScale | None
    findings: Findings
    settings: Settings

    def policy_of(self, written: Any) -> PolicyLike | None:
        """Return the policy that a `dtype` as written becomes."""
        return self.settings.policy_of(written)

    def raise_if_missing(self) -> None:
        """Raise one error that names all that is missing, or is not to be trusted."""
        with (
            located(self.legacy.path),
            keras_internals.custom_object_scope(self.findings.functions),
        ):
            self.findings.raise_if_missing(self.legacy.path)
            trust.check(self.config, self.settings.safe_mode)


def make(
    legacy: LegacyModel,
    dtype_policy: PolicyLike | None = None,
    safe_mode: bool = True,
    compile: bool = True,
) -> Plan:
    """Return the `Plan` for a `LegacyModel`; its findings list what is missing.

    Args:
        legacy: `LegacyModel`.
        dtype_policy: the policy that replaces the model's own, or None.
        safe_mode: bool, whether code in the file is refused.
        compile: bool; if False, an unreadable training configuration counts as none.

    Raises:
        LegacyModelError: if something in it cannot be converted.
    """
    with corrupt(legacy.path):
        return _make(legacy, dtype_policy, safe_mode, compile)


def _make(
    legacy: LegacyModel,
    dtype_policy: PolicyLike | None,
    safe_mode: bool,
    compile: bool,
) -> Plan:
    written = _with_config(legacy)
    settings = Settings(safe_mode, vocabularies=legacy.vocabularies)
    config, findings = layers.keras_model(written, settings)
    dtypes = list(findings.dtypes.values())
    fitting = _training(legacy, compile)
    scale = None if fitting is None else fitting.loss_scale
    model_dtype = _model_dtype(legacy, dtypes, fitting)
    policy = policies.plain(model_dtype)
    if dtype_policy is not None:
        own = policy_name(model_dtype) or keras.config.floatx()
        settings = dataclasses.replace(settings, replace=(own, dtype_policy))
        config, findings = layers.keras_model(written, settings)
        policy = dtype_policy
    is_explicit = scale is not None and not training.policy_brings(
        fitting, [*dtypes, legacy.policy]
    )
    if is_explicit and dtype_policy is not None and not _needs_scale(dtypes, settings):
        is_explicit = False
        note = f"the loss scale {scale} of the optimizer: no layer computes in float16 "
        findings = merged([findings, Findings(notes=(f"{note}now",))])
    return Plan(
        legacy=legacy,
        config=config,
        model_dtype=model_dtype,
        policy=policy,
        training=fitting,
        loss_scale=scale if is_explicit else None,
        findings=findings,
        settings=settings,
    )


def _needs_scale(dtypes: Sequence[Any], settings: Settings) -> bool:
    """Return whether a layer computes in float16, or did not and has not changed.

    tf.keras put a LossScaleOptimizer around the optimizer of a mixed_float16 model; of
    any other, it was the user's wish.
    """
    was = any(map(policies.may_be_float16, map(policies.plain, dtypes)))
    return not was or any(map(policies.may_be_float16, map(settings.policy_of, dtypes)))


def _with_config(legacy: LegacyModel) -> Config:
    """Return the config of a model as written; empty for a subclass without one."""
    written = dict(legacy.config)
    if written.get("config") is not None:
        return written
    if written.get("class_name") in GRAPHS:
        raise LegacyModelError(
            "it does not say of which layers it consists, as one of them had no "
            "get_config.",
            remedies.load_weights_into_code(legacy.path),
        )
    return {**written, "config": {}}


def _training(legacy, compile):
    """Return the `training.Training` of a model that was compiled, or None.

    It is read even where nothing is to be compiled: it helps to tell the policy.
    """
    if not legacy.training_config:
        return None
    try:
        found = training.convert(legacy.training_config)
        configs = found.optimizer, found.losses, found.metrics, found.weighted_metrics
        trust.check(configs)
        return found
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        if not compile:
            return None
        raise LegacyModelError(
            f"its training_config cannot be read: {str(error).rstrip('.')}.",
            "Open it with compile=False.",
        ) from error


def _model_dtype(legacy, dtypes, fitting):
    """Return the policy of the model itself, as written, or as its layers tell.

    Where it is not recorded, the optimizer tells as well: tf.keras scaled the loss
    whenever the model's policy had a loss scale.
    """
    if legacy.policy is not None:
        return legacy.policy
    mixed = policies.most_common_mixed(dtypes)
    unscaled = fitting is not None and fitting.loss_scale is None
    has_loss_scale = mixed is not None and policies.loss_scale_of(mixed) is not None
    return None if unscaled and has_loss_scale else mixed
