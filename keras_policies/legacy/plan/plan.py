"""Decides what a legacy model becomes: configs converted, nothing built.

Custom classes are those of the surrounding `keras.saving.custom_object_scope`.
"""

import dataclasses

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.errors import LegacyModelError, corrupt
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.guards import trust
from keras_policies.legacy.plan import layers, policies, training
from keras_policies.loss_scale import LossScale

# Models that consist of what their configs list.
GRAPHS = "Model", "Functional", "Sequential"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A `LegacyModel`, converted: configs of Keras 3, nothing built yet.

    Args:
        legacy: `LegacyModel`.
        model_dtype: the model's own policy, as written or as its layers tell.
        policy: what the model's own policy becomes: a name, a policy, or None.
        training: `training.Training`, or None.
        loss_scale: `LossScale` of an explicit LossScaleOptimizer, or None.
        conversion: `layers.Conversion`; knows which classes are missing.
    """

    legacy: LegacyModel
    model_dtype: object
    policy: object
    training: training.Training | None
    loss_scale: LossScale | None
    conversion: layers.Conversion

    def raise_if_missing(self):
        """Raise one error that names every class that is missing, and where.

        Or an error that names what of it is not to be trusted.
        """
        self.conversion.raise_if_missing()
        safe_mode = self.conversion.safe_mode
        with keras_internals.custom_object_scope(self.conversion.functions):
            trust.check(self.conversion.config, self.legacy.path, safe_mode)


def make(legacy, dtype_policy=None, safe_mode=True, compile=True):
    """Return the `Plan` for a `LegacyModel`; missing classes are listed in it.

    Args:
        legacy: `LegacyModel`.
        dtype_policy: what takes the place of the model's own policy, or None.
        safe_mode: bool, whether code in the file is refused.
        compile: bool; if False, a training configuration that cannot be read is none.

    Raises:
        LegacyModelError: if something in it cannot be converted.
    """
    with corrupt(legacy.path):
        return _make(legacy, dtype_policy, safe_mode, compile)


def _make(legacy, dtype_policy, safe_mode, compile):
    converted = _convert(legacy, None, safe_mode)
    dtypes = list(converted.dtypes.values())
    fitting = _training(legacy, compile)
    scale = None if fitting is None else fitting.loss_scale
    model_dtype = _model_dtype(legacy, dtypes, fitting)
    policy = policies.plain(model_dtype)
    if dtype_policy is not None:
        own = policy_name(model_dtype) or keras.config.floatx()
        converted = _convert(legacy, (own, dtype_policy), safe_mode)
        policy = dtype_policy
    is_explicit = scale is not None and not training.policy_brings(
        fitting, [*dtypes, legacy.policy]
    )
    if is_explicit and dtype_policy is not None and not _needs_scale(converted):
        is_explicit = False
        converted.notes.append(
            f"the loss scale {scale} of the optimizer: no layer computes in float16 now"
        )
    return Plan(
        legacy=legacy,
        model_dtype=model_dtype,
        policy=policy,
        training=fitting,
        loss_scale=scale if is_explicit else None,
        conversion=converted,
    )


def _needs_scale(converted):
    """Return whether a layer computes in float16, or did not and has not changed.

    tf.keras put a LossScaleOptimizer around the optimizer of a mixed_float16 model; of
    any other, it was the user's wish.
    """
    written = list(converted.dtypes.values())
    was = any(map(policies.may_be_float16, map(policies.plain, written)))
    return not was or any(
        map(policies.may_be_float16, map(converted.policy_of, written))
    )


def _convert(legacy, replace, safe_mode):
    """Return the finished `layers.Conversion` of a model's config."""
    config = legacy.config
    if config.get("config") is None:
        if config.get("class_name") in GRAPHS:
            raise LegacyModelError(
                f"{legacy.path}: it does not say of which layers it consists, as one "
                "of them had no get_config. Build the model in code, and call "
                f"keras_policies.load_weights(model, {legacy.path!r})."
            )
        config = {**config, "config": {}}  # a subclassed model without get_config
    conversion = layers.Conversion(legacy.path, replace, safe_mode, legacy.vocabularies)
    conversion.config = layers.convert(config, conversion, is_root=True)
    return conversion


def _training(legacy, compile):
    """Return the `training.Training` of a model that was compiled, or None.

    It is read even where nothing is to be compiled: it helps to tell the policy.
    """
    if not legacy.training_config:
        return None
    try:
        found = training.convert(legacy.training_config, legacy.is_optimizer_wrapped)
        configs = found.optimizer, found.losses, found.metrics, found.weighted_metrics
        trust.check(configs, f"{legacy.path}: its training_config")
        return found
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        if not compile:
            return None
        raise LegacyModelError(
            f"{legacy.path}: its training_config cannot be read: {error}. Open it with "
            "compile=False."
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
