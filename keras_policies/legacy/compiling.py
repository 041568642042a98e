"""Compiles a model as it was in tf.keras, with the state of its optimizer."""

import keras

import keras_policies
from keras_policies.legacy import graph, optimizer_state, training

# Names that compile turns into a metric by the loss and the shape of the output.
CHOSEN_BY_COMPILE = "accuracy", "acc", "crossentropy", "ce"


def _deserialize(kind, value, left_out):
    """Return the objects of a nest of configs; what is unknown is left out."""
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _deserialize(kind, item, left_out) for key, item in value.items()}
    if isinstance(value, list):
        return [_deserialize(kind, item, left_out) for item in value]
    if value is None or (kind == "metrics" and value in CHOSEN_BY_COMPILE):
        return value
    try:
        if isinstance(value, str):
            return _named(kind, value)
        return keras.saving.deserialize_keras_object(value)
    except Exception as error:  # an unknown class, or arguments it no longer takes
        name = value if isinstance(value, str) else value.get("class_name")
        left_out.append(f"{kind}: {name!r} ({str(error).splitlines()[0][:120]})")
        return None


def _named(kind, name):
    """Return what a name stands for: the user's object, or a name that Keras knows."""
    custom = keras.saving.get_registered_object(name)
    if custom is None:
        getattr(keras, kind).get(name)  # raises if it does not
    return custom or name


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


def _save_as_inner(model):
    """Put our LossScaleOptimizer in the place of the one that `compile` has put.

    It scales alike. But stock Keras, reading the saved model, wraps again only if its
    global policy is mixed_float16, and would lose the state of a wrapped optimizer.
    """
    optimizer = model.optimizer
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        model.optimizer = keras_policies.LossScaleOptimizer.for_policy(
            optimizer.inner_optimizer, "dynamic"
        )


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
    if left_out:
        losses = None  # a loss of some outputs alone would train something else
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
        optimizer = keras_policies.LossScaleOptimizer(optimizer, planned.loss_scale)
    if optimizer is None:
        return left_out
    model.compile(
        optimizer=optimizer,
        loss=losses,
        loss_weights=fitting.loss_weights if losses is not None else None,
        metrics=_metrics(model, fitting.metrics, left_out),
        weighted_metrics=_metrics(model, fitting.weighted_metrics, left_out),
        auto_scale_loss=fitting.loss_scale is not None,
    )
    _save_as_inner(model)
    problems = optimizer_state.restore(model, planned.legacy.optimizer, pairs)
    left_out += [f"the optimizer's state: {problem}" for problem in problems]
    if planned.loss_scale is not None:
        optimizer_state.restore_loss_scale(model.optimizer, planned.legacy.optimizer)
    return left_out
