"""Lists how the model of a `Plan` differs from the one in its file."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

from keras_policies._common import keras_names
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, hints, trees
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.outcomes import LeftOut, Outcome, left_out
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.plan import fixed_training, op_layers, training
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.plan.training import CROSSENTROPIES, Training

ARCHIVE = "Keras 2 .keras"  # a format
WEIGHT = "_initializer"  # ends the name of a setting of layers with weights
NO_STATE = "the file holds none, as before the first step, so it starts anew"
CLIPS = 2, 2  # the first TensorFlow whose `fit` obeys clipnorm and clipvalue
SHRINKAGE = "l2_shrinkage_regularization_strength"
MOVES_ROWS = "SGD", "RMSprop", "Adamax", "Adadelta"
# The first TensorFlow whose label smoothing divides by the size of the loss's axis.
SMOOTHED, SMOOTHS_BY_AXIS = "CategoricalCrossentropy", (2, 14)
FROZEN = "that of all weights, which are frozen now"
UNREAD = "nothing tells its variables in the file apart, so it starts anew"
NOT_WRITTEN = "tf.keras wrote none of optimizers.legacy to .keras files: it starts anew"


def of_plan(plan: Plan) -> Iterator[LeftOut]:
    """Yield the parts that differ whatever building the model shows."""
    if plan.legacy.lacks_weights:
        told = f"all weights are new, because the file has none: pass {hints.WEIGHTS}"
        yield LeftOut(told, "KP607", Outcome.NEW_WEIGHTS)
    yield from left_out("KP601", plan.legacy.not_converted)
    yield from left_out("KP608", plan.report.not_converted)
    yield from fixed_training.parts(plan.legacy.config)
    is_disproved = plan.options.is_disproved
    yield from plan.reconstruction.parts(is_disproved=is_disproved)
    if not plan.reconstruction.copied:  # otherwise it names them
        yield from left_out("KP606", [*_marked(plan.legacy.config)] or _untied(plan))
    yield from left_out("KP611", plan.report.notes)
    if (texts := _texts(plan)) and keras_names.backend() != "tensorflow":
        told = "these inputs are texts, which Keras computes with TensorFlow only: "
        told += f"{', '.join(map(repr, texts))} (set KERAS_BACKEND=tensorflow to call "
        told += f"the model, or pass {hints.OUTSIDE})"
        yield LeftOut(told, "KP306", Outcome.COMPLETE)
    for path, name in renamed(plan).items():
        yield LeftOut(f"the layer {path!r} is named {name!r} now", "KP612")


def _texts(plan: Plan) -> list[str]:
    """Return the names of the inputs that take texts."""
    if plan.options.texts_outside:
        return []
    layers = configs.inner_layers(plan.legacy.config)
    inputs = [each for each in layers if each.get("class_name") == "InputLayer"]
    dtypes = {configs.name_of(x): configs.settings(x).get("dtype") for x in inputs}
    dtypes = dtypes or {name: dtype for name, (_, dtype) in plan.legacy.inputs.items()}
    return [name for name, dtype in dtypes.items() if dtype == "string"]


def _marked(config: Config) -> Iterator[str]:
    """Yield the layers with weights that several models share, as the config says."""
    found = dict[str, str]()
    for each in configs.dicts(config):
        settings, number = configs.settings(each), each.get(configs.SHARED)
        has_weights = any(key.endswith(WEIGHT) for key in settings)
        if number is not None and (has_weights or configs.is_graph(each)):
            found.setdefault(str(number), configs.name_of(each))
    for name in dict.fromkeys(found.values()):
        yield f"the sharing of the layer {name!r} by several models, now apart"


def _untied(plan: Plan) -> Iterator[str]:
    """Yield the weights that several layers of a SavedModel share."""
    by_number = collections.defaultdict[int, dict[str, str]](dict)
    for layer, weights in plan.legacy.weights.items():
        for weight in weights if not plan.reconstruction.layers else ():
            if weight.number is not None:
                by_number[weight.number][layer] = weight.path or weight.name
    for number, paths in by_number.items():
        if len(paths) > 1 and number not in plan.report.replaced_variables:
            name = next(iter(paths.values()))
            yield f"the sharing of {name!r} by {len(paths)} layers, now apart"


def renamed(plan: Plan) -> dict[str, str]:
    """Return `{path in the file: name in the model}` of the layers with a new name."""
    layers = () if "" in plan.reconstruction.layers else _layers(plan.legacy.config)
    return {
        path: now for path, name in layers if (now := configs.layer_name(name)) != name
    }


def _layers(config: Config, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each layer, also in models, except for ops."""
    for layer in configs.inner_layers(config):
        name = configs.name_of(layer)
        if not op_layers.is_op(str(layer.get("class_name"))):
            yield f"{prefix}{name}", name
        yield from _layers(layer, f"{prefix}{name}/")


def in_training(plan: Plan) -> Iterator[LeftOut]:
    """Yield the parts that compiling the model will leave out, as far as is known."""
    if plan.training is None:
        return
    losses, others = _unknown(plan.training)
    is_compiled = not losses and training.unknown(*_optimizer(plan.training)) is None
    yield from lost([*losses, *others], is_compiled=is_compiled)
    yield from left_out("KP605", changes(plan.legacy, _tables(plan.legacy.config)))
    if is_compiled:
        yield from without_state(plan)
        if plan.legacy.optimizer.slots and not any(_trained(plan.legacy)):
            yield of_optimizer(FROZEN)


def _trained(legacy: LegacyModel) -> Iterator[LegacyWeight]:
    """Yield the weights of a model's layers that are not frozen."""
    layers = {
        configs.name_of(each): each for each in configs.inner_layers(legacy.config)
    }
    for name, weights in legacy.weights.items():
        if configs.settings(layers.get(name, {})).get("trainable") is not False:
            yield from weights


def _tables(config: Config) -> Iterator[str]:
    """Yield the names of the embeddings that a model trains."""
    for layer in configs.inner_layers(config):
        if configs.settings(layer).get("trainable") is not False:
            if layer.get("class_name") == "Embedding":
                yield configs.name_of(layer)
            yield from _tables(layer)


def changes(legacy: LegacyModel, tables: Iterable[str]) -> Iterator[str]:
    """Yield how losses and optimizers of TensorFlow trained, where Keras 3 differs.

    Optimizers up to TensorFlow 2.10 are in `optimizers.legacy` later. Their configs
    have a `decay`. `tables` are the names of the embeddings that the model trains.
    """
    if legacy.release >= SMOOTHS_BY_AXIS:
        yield from _smoothings((legacy.training_config or {}).get("loss"))
    written = (legacy.training_config or {}).get("optimizer_config")
    if not isinstance(written, dict):
        return
    optimizer, _, _ = training.unwrapped(written)
    config = optimizer.get("config") or {}
    name, since = str(optimizer.get("class_name")), legacy.release
    if name == "Nadam" and {"decay", "schedule_decay"} & set(config):
        yield "the slow schedule of Nadam's momentum: that of Keras 3 ends in 100 steps"
    if config.get("use_ema") and not legacy.optimizer.iterations:
        yield "the average of weights from before the first step: Keras 3 begins later"
    is_standalone = legacy.written_by.startswith("Keras") and since == (2, 0)
    if is_standalone or "decay" not in config:
        return
    clipping = [key for key in ("clipnorm", "clipvalue") if config.get(key)]
    if name == "Ftrl" and since == (2, 4) and config.get(SHRINKAGE):
        yield "the slots 'linear' of Ftrl: TensorFlow 2.4 multiplied them by its rate"
    if since < CLIPS and clipping:
        yield f"that TensorFlow 2.0 and 2.1 ignored {clipping[0]}: Keras 3 obeys it"
    if config.get("momentum", 1.0) and name in MOVES_ROWS:
        for each in tables:
            yield f"that {name} moved only those rows of {each!r} that are in the batch"


def _smoothings(losses: Any) -> Iterator[str]:
    """Yield the label smoothing of losses that spread it over another axis."""
    for loss in filter(training.is_config, trees.leaves(losses, training.is_config)):
        config = configs.settings(loss) if loss["class_name"] == SMOOTHED else {}
        if config.get("label_smoothing") and config.get("axis", -1) != -1:
            yield (
                f"the label smoothing over axis {config['axis']}, unless that is the "
                "last: Keras 3 divides it by the size of the last axis"
            )


def without_state(plan: Plan) -> Iterator[LeftOut]:
    """Yield the part for the state of an optimizer that cannot be had from the file.

    Configs of `optimizers.legacy` have a `decay`.
    """
    state = plan.legacy.optimizer
    if plan.training is None or state.iterations is not None:
        return
    written = (plan.legacy.training_config or {}).get("optimizer_config")
    config = written.get("config") if isinstance(written, dict) else None
    is_legacy = isinstance(config, dict) and "decay" in config
    if state.is_unread or state.slots:
        yield of_optimizer(UNREAD)
    elif is_legacy and plan.legacy.format == ARCHIVE:
        yield of_optimizer(NOT_WRITTEN)
    else:
        yield of_optimizer(LeftOut(NO_STATE, "KP603", Outcome.COMPLETE))


def _optimizer(fitting: Training) -> tuple[str, Config]:
    return "optimizers", fitting.optimizer


def _unknown(fitting: Training) -> tuple[list[str], list[str]]:
    """Return what is said of unknown losses, and of an optimizer and metrics."""
    metrics = fitting.metrics, fitting.weighted_metrics
    nests = ("losses", fitting.losses), _optimizer(fitting), ("metrics", metrics)
    losses, *others = (
        [
            unknown_part(kind, name)
            for leaf in trees.leaves(nest, training.is_config)
            if leaf is not None and leaf not in CROSSENTROPIES
            if (name := training.unknown(kind, leaf)) is not None
        ]
        for kind, nest in nests
    )
    return losses, [text for texts in others for text in texts]


def unknown_part(kind: str, name: str) -> str:
    """Return what is said of a loss, a metric or an optimizer that Keras lacks."""
    return f"{kind}: {name!r}, pass {hints.custom_object(name)}"


def lost(texts: list[str], *, is_compiled: bool) -> Iterator[LeftOut]:
    """Yield the parts for what compiling left out; the first is the cause of the rest.

    Without its loss or its optimizer, a model would silently learn something else.
    """
    if texts and not is_compiled:
        texts = [f"{texts[0]}; so the model is not compiled", *texts[1:]]
    return left_out("KP602", texts)


def of_optimizer(problem: str) -> LeftOut:
    """Return the part for what is not restored of the state of an optimizer."""
    outcome = getattr(problem, "outcome", None)
    return LeftOut(f"the optimizer's state: {problem}", "KP603", outcome)
