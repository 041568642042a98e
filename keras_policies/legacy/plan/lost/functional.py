"""Writes the steps of a function as the config of a Functional model of tf.keras."""

import collections
import re
from collections.abc import Sequence
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Config
from keras_policies.legacy.base.recorded import Spec
from keras_policies.legacy.guards import limits
from keras_policies.legacy.ops.op_layers import GRAPH_OP
from keras_policies.legacy.plan.lost.steps import (
    Argument,
    CallStep,
    Known,
    Nest,
    OpStep,
    Part,
    Result,
    Step,
    Value,
    mapped,
    together,
)

FUNCTIONAL = "Functional"


class Names:
    """Names of layers, each of them given out once."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}  # the last number that came after each

    def take(self, wanted: str) -> str:
        """Return the name, with a number if it has been given out."""
        start = wanted[: 2 * limits.NAME_CHARACTERS]
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", start).strip("_.") or "op"
        name = start = plain[: limits.NAME_CHARACTERS]
        while name in self._given:
            self._given[start] += 1
            name = f"{start}_{self._given[start]}"
        self._given[name] = 0
        return name


class Functional:
    """A Functional model that is being written.

    Args:
        inputs: the specs of its inputs, with the names of the InputLayers.
        steps: what it does.
    """

    def __init__(self, inputs: Sequence[Spec], steps: Sequence[Step]) -> None:
        self.names = Names()
        self.layers: dict[str, Config] = {}
        self._parts: dict[int, str] = {}
        self._added: dict[str, Part] = {}
        self._calls: collections.Counter[str] = collections.Counter()
        self._made: dict[int, tuple[str, int]] = {}  # step -> layer and its call
        self._inputs = [self._input(spec, i) for i, spec in enumerate(inputs)]
        for step in steps:  # before ops take the names of layers
            if isinstance(step, CallStep) and id(step.part) not in self._parts:
                self._parts[id(step.part)] = self.names.take(step.part.name)
        for number, step in enumerate(steps):
            self._made[number] = self._write(step)

    def _input(self, spec: Spec, number: int) -> str:
        if spec.shape is None:
            raise LegacyModelError(
                f"the function that it recorded takes a tensor {spec.name!r} of any "
                "rank, which a Functional model cannot have."
            )
        name = self.names.take(spec.name or f"input_{number + 1}")
        config = {
            "batch_input_shape": [*spec.shape],
            "dtype": spec.dtype,
            "sparse": False,
            "name": name,
        }
        self._add("InputLayer", name, config)
        return name

    def _add(self, class_name: str, name: str, config: Config) -> None:
        self.layers[name] = {
            "class_name": class_name,
            "name": name,
            "config": {**config, "name": name},
            "inbound_nodes": [],
        }

    def _name(self, part: Part) -> str:
        """Return the name of a layer, which is added when it is first called.

        Keras tries calls in the order of the layers until all that they take is there.
        """
        name = self._parts[id(part)]
        if name not in self.layers:
            self._add(part.class_name, name, part.config)
            self._added[name] = part
        return name

    def _write(self, step: Step) -> tuple[str, int]:
        """Write a call; return the layer and the number of the call."""
        if isinstance(step, OpStep):
            name, node = self._op(step)
        else:
            name = self._name(step.part)
            node = self._call(step)
        self.layers[name]["inbound_nodes"].append(node)
        self._calls[name] += 1
        return name, self._calls[name] - 1

    def _op(self, step: OpStep) -> tuple[str, Nest]:
        tensors, constants = [], {}
        for position, value in enumerate(step.inputs):
            if isinstance(value, Known):
                constants[str(position)] = value.value
            else:
                tensors.append(self.tensor(value))
        name = self.names.take(step.name)
        node_def = {"op": step.op, "attr": dict(step.attributes)}
        self._add(GRAPH_OP, name, {"node_def": node_def, "constants": constants})
        return name, [[*tensor, {}] for tensor in tensors]

    def _call(self, step: CallStep) -> Nest:
        """Return an inbound node, whose first tensor has the keyword arguments."""
        node = mapped(lambda value: [*self.tensor(value), {}], step.argument)
        kwargs = mapped(self.tensor, dict(step.kwargs))
        first = node
        while isinstance(first, dict) or isinstance(first[0], list):
            first = first[0] if isinstance(first, list) else next(iter(first.values()))
        first[3] = kwargs
        return [node] if isinstance(node[0], str) else node

    def tensor(self, value: Value) -> list[Any]:
        """Return `[layer, call, position]` of a value."""
        if isinstance(value, Argument):
            return [self._inputs[value.number], 0, 0]
        if isinstance(value, Result):
            return [*self._made[value.step], value.position]
        raise TypeError(f"no tensor: {value}")

    def part(self, name: str, inputs: Nest, outputs: Nest) -> Part:
        """Return the model with nests of arguments and outputs."""
        inputs = _listed(mapped(self.tensor, inputs))
        config = {
            "name": name,
            "layers": [*self.layers.values()],
            "input_layers": inputs,
            "output_layers": _listed(mapped(self.tensor, outputs)),
        }
        whole = Part(name, FUNCTIONAL, config, tensors=len(inputs))
        return together(whole, self._added)


def _listed(nest: Nest) -> Nest:
    """Return a nest in which a tensor by itself is in a list, as in a config."""
    is_tensor = isinstance(nest, list) and nest and isinstance(nest[0], str)
    return [nest] if is_tensor else nest
