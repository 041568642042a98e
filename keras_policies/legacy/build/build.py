"""Makes the Keras 3 model that a `Plan` describes: the only place that does.

It gives the model its weights, and has it compiled. No backend draws, traces or
compiles anything on the way. Custom classes are those of the surrounding
`custom_object_scope`.
"""

import keras

from keras_policies import backends, keras_internals, origins, warn
from keras_policies.legacy.base.errors import LegacyModelError, corrupt
from keras_policies.legacy.build import (
    compiling,
    held_lookups,
    hints,
    inner_policies,
    own_classes,
    weights,
)
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import policies
from keras_policies.policy import Policy


def build(planned, compile=True, safe_mode=True, advance=lambda size: None):
    """Return the `keras.Model` of a `Plan`, with its weights, compiled.

    Warns once, with a list, if something of the training configuration is left out, and
    once if layers that a class of the user's makes have another policy than the file's.

    Args:
        planned: `Plan`, without missing classes.
        compile: bool.
        safe_mode: bool, whether code in the file is refused.
        advance: callable, told the bytes of each tensor that has been read.

    Raises:
        LegacyModelError: if the model cannot be made, or its weights do not fit.
    """
    model, left_out, different = build_and_report(planned, safe_mode, advance, compile)
    if left_out:
        warn.warn(
            f"{planned.legacy.path}: the model was opened, but this was left out of "
            f"its training configuration: {'; '.join(left_out)}. Call "
            "model.compile(...) with what you want in its place."
        )
    if different:
        warn.warn(
            f"{planned.legacy.path}: your classes give these layers another policy "
            f"than the file records: {', '.join(different)}."
        )
    return model


def build_and_report(planned, safe_mode, advance, compile=True):
    """Return `(model, left out, layers of another policy)`; see `build`."""
    legacy = planned.legacy
    blank = keras_internals.blank_variables(backends.place, budget.spend)
    with budget.of(legacy.size), blank:
        model = _make(planned, safe_mode)
        with corrupt(legacy.path):
            held_lookups.fill(model, legacy.vocabularies, legacy.path)
            pairs = weights.match_model(model, legacy.weights, legacy.path)
            weights.assign(pairs, advance)
            weights.settle(model)
            different = _mend_inner_policies(model, planned)
            _make_policies_plain(model, planned)
        left_out = list(planned.findings.left_out)
        if compile and planned.training is not None:
            with corrupt(legacy.path, "its training_config"):
                left_out += compiling.compile_model(model, planned, pairs)
        return model, left_out, different


def _mend_inner_policies(model, planned):
    legacy = planned.legacy
    recorded = legacy.inner_policies if legacy.records_policies else {}
    return inner_policies.mend(model, recorded, planned.policy_of)


def _make(planned, safe_mode):
    """Return the model, built, with variables that hold nothing yet."""
    legacy = planned.legacy
    try:
        config, makers = own_classes.with_makers(
            planned.config, legacy.path, planned.policy
        )
        known = {**planned.findings.functions, **makers}
        with keras_internals.custom_object_scope(known):
            model = keras.saving.deserialize_keras_object(config, safe_mode=safe_mode)
        if not model.built and legacy.inputs:
            with own_classes.scope(planned.policy):
                _call_on_inputs(model, legacy.inputs)
    except Exception as error:  # whatever a layer raises for a config not its own
        message = str(error) if isinstance(error, LegacyModelError) else ""
        if message.startswith(legacy.path):
            raise
        raise LegacyModelError(
            f"{legacy.path}: the model could not be built from its config: "
            f"{message or hints.explained(error)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise LegacyModelError(
            f"{legacy.path}: it holds a {type(model).__name__}, expected a model."
        )
    return model


def _call_on_inputs(model, inputs):
    """Build a subclassed model by calling it on its recorded inputs."""
    tensors = {
        name: keras.KerasTensor(shape, dtype=dtype)
        for name, (shape, dtype) in inputs.items()
    }
    values = list(tensors.values())
    model(values[0] if len(values) == 1 else values)


def _make_policies_plain(model, planned):
    """Give the model its own policy, and every layer a policy of stock Keras."""
    if planned.policy is not None:
        model.dtype_policy = planned.policy
        origins.record(model, is_given=True, is_read=True)
    for layer in keras_internals.sublayers(model):
        policy = keras_internals.own_policy(layer)
        if isinstance(policy, Policy) and policy is not planned.policy:
            keras_internals.set_own_policy(layer, policies.settled(policy))
            origins.keep(layer)
