"""Takes layers of texts out of the programs of rebuilt layers."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.program import Program
from keras_policies.legacy.plan.text_reads import (
    HINT,
    STRING,
    MakePart,
    Part,
    Reads,
    Specs,
    one_or_all,
)


class ProgramOfTexts:
    """A program some of whose arguments are texts.

    Args:
        config: that of the program.
        specs: its arguments.
        part: makes the parts that read texts.
    """

    def __init__(self, config: Config, specs: Specs, part: MakePart) -> None:
        self._config, self._specs = config["config"], specs
        self._program: Program = self._config["program"]
        if any(i is not None for i in self._sources(ir.values_in(self._program.ends))):
            raise LegacyModelError("it returns its texts.", HINT)
        steps, layers = self._program.steps, {**self._config["layers"]}
        for step in steps:
            if isinstance(step, ir.OpStep):
                layers[step.name] = {"class_name": step.op, "config": {}}
        calls = [
            (x.name, layers[x.name], self._sources(ir.inputs_of(x))) for x in steps
        ]
        kept = {spec.name for spec in specs if spec.dtype != STRING}
        self._reads = Reads(specs, calls, kept | {step.name for step in steps}, part)
        feeds = self._reads.feeds
        self._at = {feed.spec.name: ir.Argument(i) for i, feed in enumerate(feeds)}
        # What is there now in place of arguments and of the outputs of steps.
        self._arguments = {
            x.source: self._at[x.spec.name] for x in feeds if not x.layer
        }
        self._outputs: list[ir.Value] = []

    def part(self, config: Config, *, is_dict: bool) -> Part:
        """Return it without layers of texts; a dict or a list of arguments."""
        left: list[ir.Step] = []
        for step in self._program.steps:
            new, first = self._replaced(step)
            if first is None:
                first = ir.StepOutput(len(left))
                left.append(new)
            self._outputs.append(first)
        feeds, parts = self._reads.feeds, self._reads.parts
        inputs = (x.spec if x.layer else self._program.inputs[x.source] for x in feeds)
        program = dataclasses.replace(
            self._program,
            inputs=tuple(inputs),
            steps=tuple(left),
            starts=self._at if is_dict else [*self._at.values()],
            ends=ir.mapped(self._value, self._program.ends),
            arguments=(),
        )
        layers = {
            name: parts[name].config if name in parts else layer
            for name, layer in self._config["layers"].items()
            if name not in self._reads.gone
        }
        inner = {**self._config, "program": program, "layers": layers}
        return Part({**config, "config": inner}, feeds)

    def _sources(self, values: Sequence[ir.Value]) -> list[int | None]:
        """Return the number of the text that each value is, or None."""
        numbers = (x.number if isinstance(x, ir.Argument) else -1 for x in values)
        is_text = [spec.dtype == STRING for spec in self._specs] + [False]
        return [number if is_text[number] else None for number in numbers]

    def _value(self, old: ir.Value) -> ir.Value:
        """Return what is there now in place of a value."""
        if isinstance(old, ir.Argument):
            return self._arguments[old.number]
        if not isinstance(old, ir.StepOutput):
            return old
        new = self._outputs[old.step]
        if isinstance(new, ir.StepOutput):
            return ir.StepOutput(new.step, old.position)
        return new

    def _replaced(self, step: ir.Step) -> tuple[ir.Step, ir.Value | None]:
        """Return a step on new values; for one that is gone, also what it gave."""
        taken = ir.inputs_of(step)
        if isinstance(step, ir.OpStep):
            inputs = tuple(map(self._value, taken))
            return dataclasses.replace(step, inputs=inputs), None
        if step.name not in self._reads.parts:
            new: Any = ir.mapped(self._value, [step.argument, dict(step.kwargs)])
            return dataclasses.replace(step, argument=new[0], kwargs=new[1]), None
        given = self._reads.arguments(step.name, self._sources(taken), taken)
        args = [
            self._at[x.name] if isinstance(x, TensorSpec) else self._value(x)
            for x in given
        ]
        if step.name in self._reads.gone:
            return step, args[0]
        return dataclasses.replace(step, argument=one_or_all(args), kwargs={}), None
