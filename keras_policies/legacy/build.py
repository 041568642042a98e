"""Makes the Keras 3 model that a `Plan` describes: the only place that does.

It gives the model its weights, and compiles it. Nothing is drawn, traced or compiled
on the way. Custom classes are those of the surrounding `custom_object_scope`.
"""

import warnings

import keras

import keras_policies
from keras_policies import keras_internals
from keras_policies.legacy import optimizer_state, policies, training, weights
from keras_policies.legacy.errors import LegacyModelError


def build(planned, compile=True, safe_mode=True, advance=lambda size: None):
    """Return the `keras.Model` of a `Plan`, with its weights, compiled.

    Warns once, with a list, if something of the training configuration is left out.

    Args:
        planned: `Plan`, without missing classes.
        compile: bool.
        safe_mode: bool, whether code in the file is refused.
        advance: callable, told the bytes of each tensor that has been read.

    Raises:
        LegacyModelError: if the model cannot be made, or its weights do not fit.
    """
    model, left_out = build_and_report(planned, safe_mode, advance, compile)
    if left_out:
        warnings.warn(
            f"{planned.legacy.path}: the model was opened, but this was left out of "
            f"its training configuration: {'; '.join(left_out)}. Call "
            "model.compile(...) with what you want in its place.",
            stacklevel=3,
        )
    return model


def build_and_report(planned, safe_mode, advance, compile=True):
    """Return `(model, left out)`; see `build`."""
    legacy = planned.legacy
    with keras_internals.blank_variables():
        model = _make(planned, safe_mode)
        pairs = weights.match_model(model, legacy.weights, legacy.path)
        weights.assign(pairs, advance)
        _make_policies_plain(model, planned)
        if not compile or planned.training is None:
            return model, []
        return model, _compile(model, planned, pairs)


def _make(planned, safe_mode):
    """Return the model, built, with variables that hold nothing yet."""
    legacy = planned.legacy
    try:
        model = keras.saving.deserialize_keras_object(
            planned.conversion.config, safe_mode=safe_mode
        )
        if not model.built and legacy.inputs:
            _call_on_inputs(model, legacy.inputs)
    except LegacyModelError:
        raise
    except Exception as error:  # whatever a layer raises for a config not its own
        raise LegacyModelError(
            f"{legacy.path}: the model could not be built from its config: "
            f"{_innermost(error)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise LegacyModelError(
            f"{legacy.path}: it holds a {type(model).__name__}, expected a model."
        )
    return model


def _innermost(error):
    """Return the message of the first error, which Keras wraps in its own."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}"


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
    for layer in keras_internals.sublayers(model):
        policy = keras_internals.own_policy(layer)
        if isinstance(policy, keras_policies.Policy) and policy is not planned.policy:
            keras_internals.set_own_policy(layer, policies.settled(policy))


def _deserialize(kind, value, left_out):
    """Return the objects of a nest of configs; what is unknown is left out."""
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _deserialize(kind, item, left_out) for key, item in value.items()}
    if isinstance(value, list):
        return [_deserialize(kind, item, left_out) for item in value]
    if value is None or (kind == "metrics" and value in ("accuracy", "acc", "ce")):
        return value
    try:
        if isinstance(value, str):
            getattr(keras, kind).get(value)  # resolvable, and kept as a name
            return value
        return keras.saving.deserialize_keras_object(value)
    except Exception as error:  # an unknown class, or arguments it no longer takes
        name = value if isinstance(value, str) else value.get("class_name")
        left_out.append(f"{kind}: {name!r} ({str(error).splitlines()[0][:120]})")
        return None


def _metrics(model, configs, left_out):
    """Return the metrics of a nest of configs, without those that are unknown."""
    names = getattr(model, "output_names", [])  # a Functional's; others have one
    named = training.without_output_names(configs, names)
    return _without_none(_deserialize("metrics", named, left_out))


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


def _compile(model, planned, pairs):
    """Compile the model as it was; return what could not be brought back."""
    fitting, left_out = planned.training, []
    losses = _deserialize("losses", fitting.losses, left_out)
    if left_out:
        losses = None  # a loss of some outputs alone would train something else
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
