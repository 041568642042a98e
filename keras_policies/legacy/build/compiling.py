"""Compiles a model as it was in tf.keras, with the state of its optimizer."""

import keras

from keras_policies.legacy.build import optimizer_state
from keras_policies.legacy.plan import graph, training
from keras_policies.loss_scale_optimizer import LossScaleOptimizer


def _deserialize(kind, value, left_out):
    """Return the objects of a nest of configs; what is unknown is left out."""
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _deserialize(kind, item, left_out) for key, item in value.items()}
    if isinstance(value, list):
        return [_deserialize(kind, item, left_out) for item in value]
    if value is None:
        return value
    unknown = training.unknown(kind, value)
    if unknown is not None:
        left_out.append(
            f"{kind}: {unknown!r}, pass custom_objects={{{unknown!r}: ...}}"
        )
        return None
    if isinstance(value, str):
        return keras.saving.get_registered_object(value) or value
    try:
        return keras.saving.deserialize_keras_object(value)
    except Exception as error:  # arguments that it no longer takes
        name, reason = value.get("class_name"), str(error).splitlines()[0][:120]
        left_out.append(f"{kind}: {name!r} ({reason})")
        return None


def _for_every_output(losses, output_names):
    """Return losses by output with None for those that have none."""
    if isinstance(losses, dict) and set(losses) < set(output_names):
        return {name: losses.get(name) for name in output_names}
    return losses


def _metrics(model, configs, left_out):
    """Return the metrics of a nest of configs, without the unknown; None if empty."""
    names = getattr(model, "output_names", [])  # a Functional's; others have one
    named = training.without_output_names(configs, names)
    return _without_none(_deserialize("metrics", named, left_out)) or None


def _without_none(metrics):
    if isinstance(metrics, dict):
        return {key: _without_none(item) for key, item in metrics.items()}
    if isinstance(metrics, list):
        return [_without_none(item) for item in metrics if item is not None]
    return metrics


def compile_model(model, planned, pairs):
    """Compile the model as it was; return what could not be brought back.

    Args:
        model: `keras.Model`, with its weights.
        planned: `plan.Plan`.
        pairs: `[(variable, LegacyWeight), …]` of the model.

    Returns:
        list of str, the parts that were left out, each with its reason.
    """
    fitting, left_out = planned.training, []
    losses = _deserialize("losses", fitting.losses, left_out)
    has_lost_a_loss = bool(left_out)
    losses = _for_every_output(losses, getattr(model, "output_names", []))
    config = planned.legacy.config.get("config")
    fixed = list(graph.fixed_training(config)) if isinstance(config, dict) else []
    if fixed:
        left_out.append(
            f"training=False in the calls of {', '.join(map(repr, fixed))}, which "
            "Keras 3 overrides when it trains (set trainable=False instead)"
        )
    optimizer = _deserialize("optimizers", fitting.optimizer, left_out)
    if optimizer is not None and planned.loss_scale is not None:
        optimizer = LossScaleOptimizer(optimizer, planned.loss_scale)
    metrics = _metrics(model, fitting.metrics, left_out)
    weighted_metrics = _metrics(model, fitting.weighted_metrics, left_out)
    if has_lost_a_loss:  # it would learn nothing, or something else, and not say so
        left_out.append("so the model is not compiled, as it has no whole loss")
    if optimizer is None or has_lost_a_loss:
        return left_out
    model.compile(
        optimizer=optimizer,
        loss=losses,
        loss_weights=fitting.loss_weights if losses is not None else None,
        metrics=metrics,
        weighted_metrics=weighted_metrics,
        auto_scale_loss=fitting.loss_scale is not None,
    )
    if planned.loss_scale is None and isinstance(model.optimizer, LossScaleOptimizer):
        # Stock Keras, reading the saved model, wraps again only under mixed_float16,
        # and would lose the state of a wrapped optimizer.
        model.optimizer.saved_as_inner = True
    problems = optimizer_state.restore(model, planned.legacy.optimizer, pairs)
    left_out += [f"the optimizer's state: {problem}" for problem in problems]
    if planned.loss_scale is not None:
        optimizer_state.restore_loss_scale(model.optimizer, planned.legacy.optimizer)
    return left_out
