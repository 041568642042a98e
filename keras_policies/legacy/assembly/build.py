"""Makes the Keras 3 model of a `Plan`, assigns its weights, and compiles it.

Meanwhile, no backend draws random numbers, traces or compiles. User-defined classes are
those of the surrounding `custom_object_scope`.
"""

import collections
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly import (
    archive_paths,
    compiling,
    explanations,
    made_in_code,
    own_classes,
)
from keras_policies.legacy.assembly.builder import Builder
from keras_policies.legacy.assembly.comparison import Check
from keras_policies.legacy.assembly.keras_differences import (
    frozen_parts,
    masks,
    time_steps,
)
from keras_policies.legacy.assembly.nodes import layer_of, one_or_all
from keras_policies.legacy.assembly.targets import Pairs, assign, restore_states, settle
from keras_policies.legacy.assembly.text_cuts import STRING, unreadable
from keras_policies.legacy.assembly.weights import pair
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import LegacyModelError, corrupt, located
from keras_policies.legacy.base.outcomes import LeftOut, Outcome, left_out
from keras_policies.legacy.base.traced_functions import NO_CLASS
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import classes, environment, parts, policies
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.policies.policy import Policy


class Built(NamedTuple):
    """The model of a plan, with its weights, and how it differs from the file's."""

    model: keras.Model
    plan: Plan
    # How the model and its training differ, each part with a reason.
    parts: list[LeftOut]
    lacks_weights: bool = False  # that its SavedModel has, in a layer of Keras
    check: Check | None = None  # against the graph in the file, if asked for
    texts: TextInputs | None = None  # converts texts to the numbers that it takes


def build(
    plan: Plan, compile: bool = True, advance: Callable[[int], None] = lambda size: None
) -> Built:
    """Build the model of a complete `Plan`, with its weights, compiled.

    `advance` is called with the size of each tensor, in bytes, when it has been read.
    Raise LegacyModelError if the model cannot be made, or its weights do not fit.
    """
    legacy = plan.legacy
    with (
        located(legacy.path, code="KP401"),
        keras_internals.blank_variables(backend.place, backend.zeros, budget.spend),
        keras_internals.noting_given_dtypes(),
    ):
        model, builder = _make(plan)
        with corrupt(legacy.path):
            legacy = archive_paths.by_attribute(model, legacy)
            made_in_code.fill_lookups(model, legacy.vocabularies)
            replaced = plan.report.replaced_variables
            weights = {
                name: tuple(weight for weight in items if weight.number not in replaced)
                for name, items in legacy.weights.items()
                if name or len(legacy.weights) == 1 or not own_classes.is_stock(model)
            }  # without weights of the model itself if its class is one of Keras
            pairs, added = Pairs(), list[str]()
            if legacy.has_weights:
                held = [(layer_of(node), each) for node, each in builder.weights]
                pairs, added = pair(model, weights, legacy.config, held)
            assign(pairs, advance)
            settle(model)
            restore_states(model, legacy.states)
            traced = legacy.inner_policies if legacy.records_policies else {}
            suggested, policy_of = plan.nested_dtypes, plan.options.policy_of
            made_in_code.restore_models(model, traced, suggested, policy_of)
            different = made_in_code.restore_policies(model, traced, policy_of)
            _make_policies_plain(model, plan.policy)
        release = legacy.release
        regularized = [*time_steps.restore(model, release)]
        rebuilt = plan.reconstruction.layers
        only_shape = "whose result is used by its shape alone"
        unused = (f"{name!r}, {only_shape}" for name in builder.unused)
        found = [
            *parts.of_plan(plan),
            *(LeftOut(text, "KP608", Outcome.COMPLETE) for text in unused),
            *left_out("KP605", masks.counting_padding(model, release, rebuilt)),
            *(LeftOut(x, "KP605", Outcome.LOST) for x in masks.hiding_all(model)),
            *left_out("KP605", masks.without_gradients(model)),
            *left_out("KP607", added),
            *left_out("KP608", regularized),
            *left_out("KP610", different),
            *frozen_parts.freeze(model),
        ]
        if not any(part.code == "KP606" for part in found):
            found += left_out("KP606", _untied(pairs))
        if compile:
            found += compiling.compile_model(model, plan, pairs)
        _name_renamed(model, parts.renamed(plan))
    return Built(
        model=model,
        plan=plan,
        parts=found,
        lacks_weights=bool(added and legacy.traced),
        texts=builder.texts.inputs if builder.texts else None,
    )


def _name_renamed(model: keras.Model, renamed: Mapping[str, str]) -> None:
    """Let `get_layer` of a name in the file say which name the layer has now."""
    if not renamed:
        return
    by_name = {path.rpartition("/")[2]: name for path, name in renamed.items()}
    by_name |= renamed
    for each in keras_internals.sublayers(model):
        if isinstance(each, keras.Model):
            vars(each)["get_layer"] = _RenamedLayers(each.get_layer, by_name)


class _RenamedLayers:
    """The method `get_layer` of a model that has layers with new names."""

    def __init__(self, stock: Callable[..., Any], renamed: Mapping[str, str]) -> None:
        self.stock, self.renamed = stock, renamed

    def __call__(self, name: str | None = None, index: int | None = None) -> Any:
        try:
            return self.stock(name=name, index=index)
        except ValueError as error:
            if name is None or name not in self.renamed:
                raise
            raise ValueError(
                f"{error} The layer {name!r} of the file is named "
                f"{self.renamed[name]!r}, because names of layers in Keras 3 cannot "
                "have slashes and, on torch, dots."
            ) from error


def _untied(pairs: Pairs) -> Iterator[str]:
    """Yield the weights of layers that inner models shared, once each.

    Keras 3 cannot read such a layer from a file: each model has its own.
    """
    by_weight = collections.defaultdict(list)
    for variable, weight in pairs:
        if weight.number is not None:
            by_weight[weight.number].append(variable.path)
    for first, *others in by_weight.values():
        if others:
            yield f"the sharing of {first!r} by {len(others) + 1} layers, now apart"


def _make(plan: Plan) -> tuple[keras.Model, Builder]:
    """Return the built model, whose variables have no values yet."""
    builder, depth = Builder(plan), _recursion_limit(plan.reconstruction.depth)
    scope = keras_internals.custom_object_scope(dict(plan.report.functions))
    names = keras_internals.reserved_names(_names(plan.config))
    try:
        # The traceback names the class that raised.
        with scope, names, depth, explanations.whole_tracebacks():
            model = _model(plan, builder)
    except LegacyModelError as error:
        error.hint = error.hint or _hint_about(error.layer, plan)
        raise
    except Exception as error:  # layers raise any error for wrong configs
        problem = "the model could not be built from its config"
        hint = hints.WITHOUT_TEXTS if environment.reads_texts(plan) else ""
        raise explanations.explained(problem, error, hint) from error
    if not isinstance(model, keras.Model):
        raise LegacyModelError(f"it holds a {type(model).__name__}, expected a model.")
    return model, builder


def _names(config: Config) -> Iterator[str]:
    """Yield the names of all layers in a model's config."""
    for layer in configs.inner_layers(config):
        yield configs.name_of(layer)
        yield from _names(layer)


def _model(plan: Plan, builder: Builder) -> keras.Model:
    specs = plan.legacy.inputs.values()
    tensors = [keras.KerasTensor(shape, dtype=dtype) for shape, dtype in specs]
    model = layer_of(builder.node(plan.config, is_root=True), tensors)
    if isinstance(model, keras.Sequential) and not model.built:
        # An Embedding takes inputs of any rank.
        model.built = [*map(type, model.layers)] == [keras.layers.Embedding]
    if not model.built and tensors:  # a subclassed model
        takes_texts = STRING in [x.dtype for x in tensors]
        if plan.options.texts_outside and takes_texts:
            raise unreadable(f"the class {type(model).__name__!r}")
        with own_classes.scope(plan.policy):
            model(one_or_all(tensors))
    return model


def _hint_about(layer: str | None, plan: Plan) -> str:
    """Return the hint to pass the missing class of a layer, or ""."""
    name = plan.reconstruction.layers.get(layer or "", NO_CLASS)
    is_known = name in (NO_CLASS, *classes.GRAPHS)
    is_known |= classes.is_in("keras.layers", name)
    return "" if is_known else str(hints.pass_custom_object(name))


@contextlib.contextmanager
def _recursion_limit(depth: int) -> Iterator[None]:
    """Raise Python's recursion limit: Keras recurses through all operations."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, before + 2 * depth))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _make_policies_plain(model: keras.Model, model_policy: PolicyLike | None) -> None:
    """Set the model's own policy, and give all layers policies of plain Keras."""
    if model_policy is not None:
        model.dtype_policy = model_policy
        keras_internals.note_given(model)
    for layer in keras_internals.sublayers(model):
        policy = keras_internals.own_policy(layer)
        if isinstance(policy, Policy) and policy is not model_policy:
            keras_internals.set_own_policy(layer, policies.resolved(policy))
