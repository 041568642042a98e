"""Decides what a legacy model becomes, without building anything.

Custom classes come from the surrounding `keras.saving.custom_object_scope`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base import hints, traced_functions
from keras_policies.legacy.base.configs import is_graph, layer_name, policy_name
from keras_policies.legacy.base.errors import (
    UNEXPECTED,
    LegacyModelError,
    LimitError,
    attempt,
    corrupt,
    located,
)
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.outcomes import LeftOut
from keras_policies.legacy.base.traced_functions import NO_CLASS
from keras_policies.legacy.guards import trust
from keras_policies.legacy.plan import (
    arguments,
    classes,
    graph,
    input_sizes,
    layers,
    policies,
    stored_weights,
    summary,
    wrappers,
)
from keras_policies.legacy.plan.report import Options, Report
from keras_policies.legacy.plan.summary import ReconstructionSummary
from keras_policies.legacy.plan.training import Training, training_of, unreadable
from keras_policies.loss_scaling.loss_scale import LossScale


@dataclasses.dataclass(frozen=True)
class Plan:
    """A converted `LegacyModel`: configs of Keras 3; nothing is built from them yet."""

    legacy: LegacyModel
    config: Config
    model_dtype: Any  # the model's own policy, as written or as its layers suggest
    # What its layers suggest for each model inside, by the names that lead to it.
    nested_dtypes: Mapping[str, Any]
    policy: PolicyLike | None  # what `model_dtype` becomes
    training: Training | None
    loss_scale: LossScale | None  # of an explicit LossScaleOptimizer
    report: Report
    options: Options
    reconstruction: ReconstructionSummary

    @property
    def compute_dtypes(self) -> set[str]:
        """The layers' compute dtypes; also float16 if the file records no policies."""
        written = [*self.report.dtypes.values(), *self.legacy.inner_policies.values()]
        names = {str(policies.dtypes_of(dtype)[0]) for dtype in written} | {"float32"}
        for now in map(self.options.policy_of, written):
            names |= {*map(str, policies.compute_dtypes(now))}
        return names if self.legacy.records_policies else names | {"float16"}

    @property
    def loses_masks(self) -> bool:
        """Whether a rebuilt layer of a model that lists its layers may lose a mask.

        Its config does not say which masks such a layer makes or hands on. Only the
        functions of the layers after it show that they took one.
        """
        traced = self.legacy.traced
        rebuilt = {path.partition("/")[0] for path in self.reconstruction.layers} - {""}
        if traced is None or not rebuilt or not is_graph(self.legacy.config):
            return False
        by_name = traced.by_name(0)
        later = graph.after(self.legacy.config["config"], rebuilt & by_name.keys())
        after = (traced.layers[by_name[name]] for name in later & by_name.keys())
        inputs = (trace.inputs for layer in after for trace in layer.traces)
        specs = (spec for one in inputs for spec in traced_functions.specs(one))
        return any(spec.dtype == "bool" and spec.name == "mask" for spec in specs)

    def raise_if_missing(self) -> None:
        """Raise an error if something is missing, or is not to be trusted."""
        functions = dict(self.report.functions)
        with located(self.legacy.path, code="KP303"):
            has_missing = bool({*self.reconstruction.layers.values()} - {NO_CLASS})
            self.report.raise_if_missing(self.legacy.path, has_missing)
            arguments.check_layers(self.report.activations)
            trust.check(self.config, self.options.safe_mode, functions)
        with located(self.legacy.path, code="KP402"):
            rebuilt = {*map(layer_name, self.reconstruction.layers)}
            stored_weights.check(self.legacy, self.report.loss_only, rebuilt)


def make(
    legacy: LegacyModel,
    dtype_policy: PolicyLike | None = None,
    options: Options | None = None,
    compile: bool = True,
) -> Plan:
    """Return the `Plan`, or raise LegacyModelError if something cannot be converted.

    Its report lists what is missing. `dtype_policy` replaces the model's own. An
    unreadable training configuration counts as none; with `compile`, it is reported.
    """
    with corrupt(legacy.path):
        legacy = wrappers.unwrapped(_unwrapped(legacy))
        if options is not None and options.input_shapes:
            legacy = input_sizes.with_shapes(legacy, options.input_shapes)
        training, problems = _training(legacy)
        model_dtype = legacy.policy
        if model_dtype is None:
            model_dtype = _suggested(policies.written_in(legacy), training)
        replace = floatx = None
        if dtype_policy is not None:
            floatx = keras.config.floatx()
            replace = policy_name(model_dtype) or floatx, dtype_policy
        options = dataclasses.replace(
            options or Options(), replace=replace, vocabularies=legacy.vocabularies
        )
        config, report = _converted(legacy, options)
        loss_scale, report = _loss_scale(training, legacy, report, options)
        if compile and problems:
            problems = (*report.not_converted, *problems)
            report = dataclasses.replace(report, not_converted=problems)
        inside = policies.by_model(report.dtypes, report.models)
        nested = {
            layer_name(p): _suggested(inside[p], training) or floatx for p in inside
        }
        return Plan(
            legacy=_without(legacy, report.loss_only),
            config=config,
            model_dtype=model_dtype,
            nested_dtypes=nested,
            policy=policies.plain(model_dtype) if replace is None else replace[1],
            training=training,
            loss_scale=loss_scale,
            report=report,
            options=options,
            reconstruction=summary.summary(report, legacy.traced, options.namesakes),
        )


def _unwrapped(legacy: LegacyModel) -> LegacyModel:
    """Return the model inside a SharpnessAwareMinimization, or the model as it is."""
    written, wrapper = legacy.config, "SharpnessAwareMinimization"
    config, is_wrapped = written.get("config"), written.get("class_name") == wrapper
    inner = config.get("model") if is_wrapped and isinstance(config, dict) else None
    if not isinstance(inner, dict) or legacy.traced or classes.is_registered(written):
        return legacy
    weights = tuple(
        dataclasses.replace(weight, path=weight.path.removeprefix("model/"))
        for weight in legacy.weights.get("", ())
    )
    text = f"{wrapper}, so that the model in it trains by its optimizer alone"
    not_converted = (LeftOut(text, "KP605"),)
    return dataclasses.replace(
        legacy, config=inner, weights={"": weights}, not_converted=not_converted
    )


def _converted(legacy: LegacyModel, options: Options) -> tuple[Config, Report]:
    """Return config and report; functions are read only if a class is missing."""
    traced = legacy.traced if options.reconstructs else None
    if traced is None or 0 not in traced.layers:
        if options.signature is not None:
            reason = f"{hints.REFUSE} leaves its functions unread."
            if legacy.traced is None:
                reason = "the file holds no functions; only a SavedModel does."
            raise LegacyModelError(
                f"the signature {options.signature!r} was asked for, but {reason}",
                "Leave the signature out.",
                code="KP109",
            )
        return layers.keras_model(_written(legacy), options)
    if options.signature is None:
        # An error is raised again if nothing can replace the layer.
        with attempt(LegacyModelError):
            config, report = layers.keras_model(_written(legacy), options)
            has_config = legacy.config.get("config") is not None
            is_whole = has_config or classes.is_registered(legacy.config)
            if is_whole and not report.is_lacking:
                return config, report
    elif options.signature not in traced.signatures:
        raise LegacyModelError(
            f"there is no signature {options.signature!r} in it; there are "
            f"{sorted(traced.signatures)}.",
            "Choose one of them, or leave the signature out.",
            code="KP109",
        )
    # Imported here: most models need none of its modules.
    from keras_policies.legacy.plan.reconstruction.reconstructor import Reconstructor

    rebuilder = Reconstructor(traced, options)
    config, report = layers.keras_model(_with_sizes(legacy), options, rebuilder)
    if not report.reconstructions:
        _written(legacy)  # raises if nothing lists its layers
    return config, report


def _loss_scale(
    training: Training | None, legacy: LegacyModel, report: Report, options: Options
) -> tuple[LossScale | None, Report]:
    """Return the scale of an explicit LossScaleOptimizer, if a layer still needs it."""
    dtypes = [*report.dtypes.values(), legacy.policy]
    scale = None if training is None else training.explicit_loss_scale(dtypes)
    if scale is None or options.replace is None or _needs_scale(report, options):
        return scale, report
    note = f"the loss scale {scale} of the optimizer: no layer computes in float16 now"
    told = LeftOut(note, "KP613")
    return None, dataclasses.replace(report, notes=(*report.notes, told))


def _needs_scale(report: Report, options: Options) -> bool:
    """Return whether a layer computes in float16, or none did before either.

    tf.keras itself wrapped the optimizer of a mixed_float16 model; around any other,
    the LossScaleOptimizer is the user's wish.
    """
    written = report.dtypes.values()
    before = any(map(policies.may_be_float16, map(policies.plain, written)))
    now = any(map(policies.may_be_float16, map(options.policy_of, written)))
    return now or not before


def _written(legacy: LegacyModel) -> Config:
    """Return the config of a model; an empty one for a subclass without get_config."""
    if legacy.config.get("config") is not None:
        return _with_sizes(legacy)
    if legacy.config.get("class_name") in classes.GRAPHS:
        raise LegacyModelError(
            "its config does not list its layers, because one of them had no "
            "get_config.",
            hints.load_weights_into_code(legacy.path),
        )
    return {**legacy.config, "config": {}}


def _with_sizes(legacy: LegacyModel) -> Config:
    """Return the config of a model, if any, with the sizes that its weights have."""
    if legacy.config.get("config") is None:
        return dict(legacy.config)
    return input_sizes.with_sizes(dict(legacy.config), legacy.weights)


def _without(legacy: LegacyModel, paths: Sequence[str]) -> LegacyModel:
    """Return a model without the weights of the layers at some paths."""
    below = tuple(f"{path}/" for path in paths)
    weights = {
        name: tuple(
            w for w in items if not f"{name}/{w.path or w.name}".startswith(below)
        )
        for name, items in legacy.weights.items()
    }
    if weights == dict(legacy.weights):
        return legacy
    state = legacy.optimizer
    if any(isinstance(slot.variable, int) for slot in state.slots):
        state = dataclasses.replace(state, slots=())  # numbers that now are others
    return dataclasses.replace(legacy, weights=weights, optimizer=state)


def _training(legacy: LegacyModel) -> tuple[Training | None, tuple[str, ...]]:
    """Return the `Training`, which also helps to find the policy, and its gaps."""
    if not legacy.training_config:
        return None, ()
    try:
        training = training_of(legacy.training_config, legacy.is_optimizer_wrapped)
    except LimitError:
        raise
    except UNEXPECTED as error:
        problem = f"{unreadable('training_config', error)}: the model is not compiled"
        return None, (LeftOut(problem, "KP601"),)
    return training, training.not_converted


def _suggested(dtypes: Iterable[Any], training: Training | None) -> Any:
    """Return the policy of a model that its layers suggest, or None.

    The optimizer is asked as well: tf.keras scaled the loss whenever the model's policy
    had a loss scale, and models inside a model usually have the same policy.
    """
    mixed = policies.most_common_mixed(dtypes)
    unscaled = training is not None and training.loss_scale is None
    has_loss_scale = mixed is not None and policies.loss_scale_of(mixed) is not None
    return None if unscaled and has_loss_scale else mixed
