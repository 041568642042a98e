"""Makes the Keras 3 model of a `Plan`, fills in its weights, and compiles it.

On the way no backend draws random numbers, traces or compiles. User-defined classes
are those of the surrounding `custom_object_scope`.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras

from keras_policies import keras_internals, origins
from keras_policies.annotations import PolicyLike
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LegacyModelError, corrupt, located
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.build import (
    compiling,
    held_lookups,
    hints,
    inner_policies,
    own_classes,
    values,
    weights,
)
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.plan import Plan
from keras_policies.policy import Policy


class Built(NamedTuple):
    """The model of a plan, with its weights, and how it differs from the file's."""

    model: keras.Model
    plan: Plan
    left_out: list[str]  # parts of the model and its training, each with a reason
    other_policies: list[str]  # layers, each with its policy and the recorded one


def build(
    plan: Plan, compile: bool = True, advance: Callable[[int], None] = lambda size: None
) -> Built:
    """Build the model of a `Plan` that lacks nothing, with its weights, compiled.

    `advance` is called with the size of each tensor, in bytes, once it is read.

    Raises:
        LegacyModelError: if the model cannot be made, or its weights do not fit.
    """
    legacy = plan.legacy
    blank = keras_internals.blank_variables(backend.place, budget.spend)
    with located(legacy.path), budget.of(legacy.size), blank:
        model = _make(plan)
        with corrupt(legacy.path):
            held_lookups.fill(model, legacy.vocabularies)
            pairs = weights.pair(model, legacy.weights)
            values.assign(pairs, advance)
            values.settle(model)
            recorded = legacy.inner_policies if legacy.records_policies else {}
            inner_policies.restore_models(
                model, recorded, plan.nested_dtypes, plan.policy_of
            )
            different = inner_policies.restore(model, recorded, plan.policy_of)
            _make_policies_plain(model, plan.policy)
        left_out = [*plan.findings.left_out]
        if compile:
            with corrupt(legacy.path, "its training_config"):
                left_out += compiling.compile_model(model, plan, pairs)
    return Built(model, plan, left_out, different)


def _make(plan: Plan) -> keras.Model:
    """Return the model, built, with variables that hold nothing yet."""
    try:
        config, makers = own_classes.with_makers(plan.config, plan.policy)
        known = {**plan.findings.functions, **makers}
        with keras_internals.custom_object_scope(known):
            model = keras.saving.deserialize_keras_object(
                config, safe_mode=plan.settings.safe_mode
            )
        if not model.built and plan.legacy.inputs:
            with own_classes.scope(plan.policy):
                _call_on_inputs(model, plan.legacy)
    except LegacyModelError:
        raise
    except Exception as error:  # whatever a layer raises for a config not its own
        problem = "the model could not be built from its config"
        raise hints.explained(problem, error) from error
    if not isinstance(model, keras.Model):
        raise LegacyModelError(f"it holds a {type(model).__name__}, expected a model.")
    return model


def _call_on_inputs(model: keras.Model, legacy: LegacyModel) -> None:
    """Build a subclassed model by a call on symbolic tensors, as its file records."""
    inputs = legacy.inputs.values()
    tensors = [keras.KerasTensor(shape, dtype=dtype) for shape, dtype in inputs]
    model(tensors[0] if len(tensors) == 1 else tensors)


def _make_policies_plain(model: keras.Model, own: PolicyLike | None) -> None:
    """Give the model its own policy, and every layer a policy of stock Keras."""
    if own is not None:
        model.dtype_policy = own
        origins.record(model, is_given=True, is_read=True)
    for layer in keras_internals.sublayers(model):
        policy = keras_internals.own_policy(layer)
        if isinstance(policy, Policy) and policy is not own:
            keras_internals.set_own_policy(layer, policies.settled(policy))
            origins.keep(layer)
