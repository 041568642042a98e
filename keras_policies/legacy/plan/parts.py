"""Lists how the model of a `Plan` differs from the one in its file."""

from collections.abc import Iterator

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, hints, trees
from keras_policies.legacy.base.outcomes import LeftOut, Outcome, left_out
from keras_policies.legacy.plan import fixed_training, op_layers, training
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.plan.training import CROSSENTROPIES, Training

ARCHIVE = "Keras 2 .keras"  # a format
NO_STATE = "the file holds none, as before the first step, so it starts anew"
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
    yield from left_out("KP611", plan.report.notes)
    for path, name in renamed(plan).items():
        yield LeftOut(f"the layer {path!r} is named {name!r} now", "KP612")


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
    if is_compiled:
        yield from without_state(plan)


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
