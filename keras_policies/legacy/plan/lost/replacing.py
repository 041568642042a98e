"""Replaces the lost layers of a model, each by the program of its function."""

import collections
import dataclasses
from collections.abc import Callable, Sequence

from keras_policies.annotations import Config
from keras_policies.legacy.base import configs, remedies
from keras_policies.legacy.base.errors import LegacyModelError, LimitError, located
from keras_policies.legacy.base.model import LegacyModel, Vocabulary
from keras_policies.legacy.base.recorded import RecordedLayer, Trace
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.plan.findings import Findings, RebuiltLayer, Settings
from keras_policies.legacy.plan.lost import (
    losses,
    models,
    normalizations,
    program,
    recorded_layers,
    traces,
    training,
)
from keras_policies.legacy.plan.lost.frozen import Frozen
from keras_policies.legacy.plan.lost.losses import Regularizers
from keras_policies.legacy.plan.lost.models import Followed
from keras_policies.legacy.plan.lost.recorded_layers import Layers
from keras_policies.legacy.plan.lost.steps import (
    Argument,
    CallStep,
    Held,
    Known,
    Part,
    Resource,
    Step,
    Value,
    inputs_of,
)
from keras_policies.legacy.plan.lost.tables import Tables
from keras_policies.legacy.plan.lost.tracing import Tracing, limit, refuse_resources

FUNCTIONAL = "Functional"
# Layers of which nothing is lost where their steps are followed.
OF_ONE_OP = "Conv1D", "Conv2D", "Conv2DTranspose", "Dense", "EinsumDense", "Embedding"
Converted = tuple[Config, Findings]
# Returns the config of a layer; None of one that is lost, and cannot be rebuilt. It is
# given the settings, the layer's number, and the path of the model around it.
Convert = Callable[[Config, Settings, int | None, str], Converted | None]


class Replacing:
    """What the layers of a file become.

    Args:
        legacy: a file with `recorded` functions.
        settings: of the conversion. `self.settings` are the same, with this in them.
        convert: converts any layer.
    """

    def __init__(
        self, legacy: LegacyModel, settings: Settings, convert: Convert
    ) -> None:
        recorded = legacy.recorded
        if recorded is None:
            raise ValueError("a file without recorded functions")
        self.settings = dataclasses.replace(settings, lost=self)
        self._convert = convert
        self._frozen = Frozen(recorded)
        self.recorded = dataclasses.replace(recorded, variables=self._frozen.variables)
        self._layers, self._regularizers = Layers(recorded), Regularizers(recorded)
        self._vocabularies = recorded_layers.vocabularies(recorded, legacy.vocabularies)
        self._left = limit()
        self._tables = Tables(recorded, keeps_texts=settings.keeps_texts)
        self._steps = Limit(limits.OPS, "ops in the functions that it recorded")
        self._parts: dict[int, Part | None] = {}  # layers inside rebuilt ones
        self._converted: dict[tuple[int, str], Converted | None] = {}
        self._around: list[int] = []  # the lost layers that are being rebuilt
        self._paths: list[str] = []  # of these
        self._opened: set[int] = set()  # layers that are not called, but followed

    def inner(self, number: int, layers: Sequence[Config]) -> list[int | None]:
        """Return the numbers of the recorded layers that a model lists."""
        left = recorded_layers.by_name(self.recorded, number)
        return [
            recorded_layers.taken(self.recorded, left, layer)
            if isinstance(layer, dict)
            else None
            for layer in layers
        ]

    def with_name(self, layer: Config, number: int | None) -> Config:
        """Return a config with the name that is recorded, if it has none itself."""
        config = layer.get("config") or {}
        has_name = isinstance(config, list) or "name" in layer or "name" in config
        if number is None or has_name:
            return layer
        name = self.recorded.layers[number].name
        return {**layer, "config": {**config, "name": name}}

    def called_on(self, number: int) -> list[tuple[int | None, ...]]:
        """Return the shapes that a model takes which is called on one tensor."""
        every = [traces.specs(t.inputs) for t in self.recorded.layers[number].traces]
        shapes = [specs[0].shape for specs in every if len(specs) == 1]
        return [shape for shape in shapes if shape is not None]

    def variables(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the variables of a layer."""
        return self.recorded.layers[number].variables

    def with_vocabulary(self, settings: Settings, number: int, path: str) -> Settings:
        """Return settings with what the lookup layer at a path has learned, if any."""
        learned = self._vocabularies.get(number)
        if learned is None:
            return settings
        known = {**settings.vocabularies, path: learned}
        return dataclasses.replace(settings, vocabularies=known)

    def wholly_rebuilt(
        self, written: Config, number: int, path: str, tensors: int | None
    ) -> Converted | None:
        """Return the same as `rebuilt`, but None if that lacks anything."""
        try:
            found = self.rebuilt(written, number, path, tensors)
        except LimitError:
            raise
        except LegacyModelError:
            return None
        is_whole = found and not (found[1].is_lacking or found[1].without_vocabulary)
        return found if is_whole else None

    def rebuilt(
        self, written: Config, number: int, path: str, tensors: int | None
    ) -> Converted | None:
        """Return the program that a lost layer becomes; `path` is "" for the model.

        None where no function of it is recorded. `tensors` is how many tensors it is
        called on, None if that is not known.
        """
        if number in self._around:
            return None
        layer = self.recorded.layers[number]
        found = traces.for_inference(layer.traces, tensors)
        if self.settings.signature is not None and not path:
            layer = dataclasses.replace(layer, traces_with_losses=())
            found = [self.recorded.signatures[self.settings.signature]]
        if not found:
            return None
        with_losses = traces.for_inference(layer.traces_with_losses, tensors)
        around = self._around, self._paths
        self._around, self._paths = [*self._around, number], [*self._paths, path]
        try:
            with located(layer=path or None):
                name = configs.name_of(written)
                config, findings = self._made(layer, name, path, found, with_losses)
        finally:
            self._around, self._paths = around
        steps = findings.rebuilt_layers[path].steps
        self._steps.spend(steps)
        budget.work(budget.OP * steps)
        return config, findings

    def _made(
        self,
        layer: RecordedLayer,
        name: str,
        path: str,
        found: Sequence[Trace],
        with_losses: Sequence[Trace],
    ) -> Converted:
        """Return what a lost layer becomes, with its losses where they can be had."""

        def made(found: Sequence[Trace]) -> Converted:
            own = layer, name, path, self.recorded, found
            return models.made(*own, self._followed, self._regularizers, self._of_part)

        if (twin := training.twin(layer, found[0])) is not None and path:
            normalization = normalizations.part(
                self.recorded, layer, name, found[0], twin
            )
            if normalization is not None:
                spec = traces.specs(found[0].inputs)[0]
                own = normalization, path, spec, self.recorded.variables
                about = RebuiltLayer(layer.class_name, layer.variables)
                return program.converted(program.of_layer(*own), about, self._of_part)
        if not any(trace.losses for trace in with_losses):
            return made(found)
        try:
            return made(with_losses)
        except LimitError:
            raise
        except LegacyModelError:  # the losses cannot be had
            config, findings = made(found)
        about = dataclasses.replace(findings.rebuilt_layers[path], is_less=True)
        every = {**findings.rebuilt_layers, path: about}
        return config, dataclasses.replace(findings, rebuilt_layers=every)

    def _followed(self, trace: Trace) -> Followed:
        """Return what a trace of a layer did, and its outputs."""
        layer = self.recorded.layers[self._around[-1]]
        if kinds := traces.composites(trace.inputs):
            raise LegacyModelError(
                f"its function takes a {kinds[0]}, and Keras 3 passes dense tensors.",
                remedies.pass_custom_object(layer.class_name),
            )
        specs = traces.specs(trace.inputs)
        given = [Argument(i) for i in range(len(specs))]
        captured = [self._captured(one) for one in trace.captures]
        tracing = Tracing(
            self.recorded,
            self._layers,
            specs,
            self._part_inside,
            self._left,
            self._tables,
            self._frozen,
        )
        outputs = tracing.follow(trace.function, [*given, *captured])
        if shared := self._shared(tracing.steps):
            self._opened |= shared
            return self._followed(trace)
        refuse_resources(outputs, self.recorded)
        activities = outputs[: len(traces.specs(trace.outputs))]
        if layer.activity_regularizer is not None:
            outputs += losses.of_activities(
                tracing, layer.activity_regularizer, activities
            )
        outputs += self._own_regularizers(tracing)
        return self._frozen.thawed(tracing.steps), outputs

    def _shared(self, steps: Sequence[Step]) -> set[int]:
        """Return the layers that are called, and whose weights other steps train, too.

        Their own steps are followed: each layer would train a copy otherwise.
        """
        layers = self.recorded.layers
        taken = [value for step in steps for value in inputs_of(step)]
        parts = {
            step.part.number: step.part for step in steps if isinstance(step, CallStep)
        }
        called = [n for n in parts if n is not None]
        count = collections.Counter(v.variable for v in {*taken} if isinstance(v, Held))
        count.update(variable for n in called for variable in layers[n].trainable)
        return {
            n
            for n in called
            if any(count[variable] > 1 for variable in layers[n].trainable)
            and (parts[n].tensors is not None or layers[n].class_name in OF_ONE_OP)
        }

    def _own_regularizers(self, tracing: Tracing) -> list[Value]:
        """Follow what regularizes the variables in some steps, in a way of its own."""
        taken = [value for step in tracing.steps for value in inputs_of(step)]
        held = dict.fromkeys(v.variable for v in taken if isinstance(v, Held))
        return [
            loss
            for trace in self._regularizers.others([*held])
            for loss in tracing.follow(trace.function, [Held(*trace.captures)])
        ]

    def _captured(self, number: int) -> Value:
        if number in self.recorded.variables:
            return Held(number)
        if number in self.recorded.constants:
            return Known(self.recorded.constants[number]())
        return Resource(number)

    def _part_inside(self, number: int) -> Part | None:
        """Return the layer that a recorded layer becomes inside a rebuilt one."""
        if number in {0, *self._around, *self._opened}:
            return None
        if number not in self._parts:
            self._parts[number] = self._part(number)
        return self._parts[number]

    def _part(self, number: int) -> Part | None:
        layer = self.recorded.layers[number]
        prefix = f"{self._paths[-1]}/" if self._paths[-1] else ""
        try:
            found = self._recorded(number, prefix, layer.name)
        except LimitError:
            raise
        except LegacyModelError:
            if layer.traces:
                raise
            return None  # what it does is in the function around it alone
        if found is None:
            return None
        config, findings = found
        if prefix + layer.name in findings.rebuilt_layers:
            own = config["config"]
            is_program = configs.is_program(config)
            inputs = own["program"].inputs if is_program else own["input_layers"]
            tensors = len(inputs) if is_program or isinstance(inputs[0], list) else 1
            return Part(layer.name, FUNCTIONAL, {}, (), number, tensors)
        weights = tuple(
            weight
            for weight in recorded_layers.variables(self.recorded, number)
            if weight[1] not in findings.replaced_variables
        )
        config = {**layer.config} if layer.has_config else {}
        return Part(layer.name, layer.class_name, config, weights, number)

    def _recorded(self, number: int, prefix: str, name: str) -> Converted | None:
        """Return what a recorded layer inside a rebuilt one becomes."""
        key = number, prefix + name
        if key not in self._converted:
            layer = self.recorded.layers[number]
            config = {**layer.config, "name": name} if layer.has_config else None
            written = {"class_name": layer.class_name, "name": name, "config": config}
            self._converted[key] = self._convert(written, self.settings, number, prefix)
        return self._converted[key]

    def _of_part(self, part: Part, prefix: str, name: str) -> Converted:
        """Return what a layer of a program becomes."""
        if part.number is not None:
            found = self._recorded(part.number, prefix, name)
        else:
            vocabularies = {prefix + name: Vocabulary()}  # it is in the config
            settings = dataclasses.replace(self.settings, vocabularies=vocabularies)
            config = {**part.config, "name": name}
            written = {"class_name": part.class_name, "name": name, "config": config}
            found = self._convert(written, settings, None, prefix)
        if found is None:
            raise LegacyModelError(f"the layer {name!r} in it cannot be rebuilt.")
        held = tuple(number for _, number, _ in part.weights)
        every = *found[1].in_programs, *held
        return found[0], dataclasses.replace(found[1], in_programs=every, elsewhere=())
