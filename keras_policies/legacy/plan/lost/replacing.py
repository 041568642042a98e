"""Finds the lost layers of a model, and replaces each by what its function did."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_policies.legacy.base import configs, remedies
from keras_policies.legacy.base.errors import LegacyModelError, LimitError, located
from keras_policies.legacy.base.model import Config
from keras_policies.legacy.base.recorded import Recorded, RecordedLayer, Trace
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.plan import classes, layers
from keras_policies.legacy.plan.findings import Settings
from keras_policies.legacy.plan.lost import (
    graphs,
    losses,
    models,
    normalizations,
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
    Held,
    Known,
    Part,
    Resource,
    Value,
    inputs_of,
)
from keras_policies.legacy.plan.lost.tables import Tables
from keras_policies.legacy.plan.lost.tracing import Tracing, limit, refuse_resources


def _is_own(written: Config) -> bool:
    """Return whether a user's class is known for a layer."""
    return classes.registered_name(str(written["class_name"])) is not None


def is_known(written: Config, settings: Settings) -> bool:
    """Return whether a layer or a model can be made from its config."""
    if written.get("config") is None and not _is_own(written):
        return False
    try:
        _, found = layers.keras_model(written, settings)
    except LimitError:
        raise
    except LegacyModelError:
        return False
    return not (found.missing or found.missing_ops or found.code)


class Replacing:
    """What the layers of a file become.

    Args:
        signature: the function that the model itself becomes; None is its own.
    """

    def __init__(
        self, recorded: Recorded, settings: Settings, signature: str | None
    ) -> None:
        self.settings, self.signature = settings, signature
        self._frozen = Frozen(recorded)
        self.recorded = dataclasses.replace(recorded, variables=self._frozen.variables)
        self._layers, self._regularizers = Layers(recorded), Regularizers(recorded)
        self._left = limit()
        self._tables = Tables(recorded, keeps_texts=settings.keeps_texts)
        self._ops = Limit(limits.OPS, "ops in the functions that it recorded")
        self._inside: dict[int, Part | None] = {}  # rebuilt layers, by number
        self._around: list[int] = []  # the lost layers that are being rebuilt

    def part(
        self,
        written: Config,
        number: int | None,
        path: str = "",
        tensors: int | None = None,
    ) -> Part | None:
        """Return a layer without lost layers; `path` is "" for the model itself.

        None where it is lost, and no function of it is recorded. `tensors` is how many
        tensors it is called on, None if that is not known.
        """
        name, signature = configs.name_of(written), None if path else self.signature
        if signature is None and configs.is_graph(written) and not _is_own(written):
            part = graphs.replaced(self.recorded, written, number, path, self.part)
            if part is not None:
                return part
        if signature is None and is_known(written, self.settings):
            weights = recorded_layers.variables(self.recorded, number)
            config: Any = written.get("config")
            return Part(name, written["class_name"], config, tuple(weights))
        if number is None or number in self._around:
            return None
        layer = self.recorded.layers[number]
        found = traces.for_inference(layer.traces, tensors)
        if signature is not None:
            layer = dataclasses.replace(layer, traces_with_losses=())
            found = [self.recorded.signatures[signature]]
        if not found:
            return None
        with_losses = traces.for_inference(layer.traces_with_losses, tensors)
        self._around.append(number)
        with located(layer=path or None):
            part = self._made(layer, name, path, found, with_losses)
        self._around.pop()
        made = len(part.config.get("layers", ()))
        self._ops.spend(made)
        budget.work(budget.OP * made)
        return part

    def _made(
        self,
        layer: RecordedLayer,
        name: str,
        path: str,
        found: Sequence[Trace],
        with_losses: Sequence[Trace],
    ) -> Part:
        """Return what a lost layer becomes, with its losses where they can be had."""

        def made(found: Sequence[Trace]) -> Part:
            own = layer, name, path, self.recorded, found
            return models.made(*own, self._followed, self._regularizers)

        if (twin := training.twin(layer, found[0])) is not None and path:
            normalization = normalizations.part(
                self.recorded, layer, name, path, found[0], twin
            )
            if normalization is not None:
                return normalization
        if not any(trace.losses for trace in with_losses):
            return made(found)
        around = [*self._around]
        try:
            return made(with_losses)
        except LimitError:
            raise
        except LegacyModelError:
            self._around = around
        part = made(found)
        less = tuple(dict.fromkeys([*part.trained_otherwise, path]))
        return dataclasses.replace(part, trained_otherwise=less)

    def _followed(self, trace: Trace) -> Followed:
        """Return what a trace of a layer did, and its outputs."""
        if kinds := traces.composites(trace.inputs):
            class_name = self.recorded.layers[self._around[-1]].class_name
            raise LegacyModelError(
                f"its function takes a {kinds[0]}, and Keras 3 passes dense tensors.",
                remedies.pass_custom_object(class_name),
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
        )
        outputs = tracing.follow(trace.function, [*given, *captured])
        refuse_resources(outputs, self.recorded)
        layer = self.recorded.layers[self._around[-1]]
        activities = outputs[: len(traces.specs(trace.outputs))]
        if layer.activity_regularizer is not None:
            outputs += losses.of_activities(
                tracing, layer.activity_regularizer, activities
            )
        outputs += self._own_regularizers(tracing)
        return self._frozen.thawed(tracing.steps), outputs

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
        if number in self._around or number == 0:
            return None
        if number not in self._inside:
            layer = self.recorded.layers[number]
            config = {**layer.config} if layer.has_config else None
            names = [self.recorded.layers[n].name for n in self._around if n]
            self._inside[number] = self.part(
                {"class_name": layer.class_name, "name": layer.name, "config": config},
                number,
                "/".join([*names, layer.name]),
            )
        return self._inside[number]
