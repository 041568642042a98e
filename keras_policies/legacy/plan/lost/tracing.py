"""Follows a recorded function, and the functions that it calls, step by step."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from keras_policies.legacy.base import configs, remedies
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, LimitError
from keras_policies.legacy.base.recorded import (
    CALLS,
    CONDITIONS,
    LOOPS,
    PASSING,
    Node,
    Output,
    Recorded,
    Spec,
)
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.plan.lost import (
    bodies,
    calls,
    cudnn_calls,
    loops,
    recurrent,
    regions,
)
from keras_policies.legacy.plan.lost.bodies import Body
from keras_policies.legacy.plan.lost.frozen import Frozen
from keras_policies.legacy.plan.lost.recorded_layers import Layers
from keras_policies.legacy.plan.lost.regions import PartOf, Region
from keras_policies.legacy.plan.lost.steps import (
    Items,
    Known,
    OpStep,
    Resource,
    Result,
    Rows,
    Step,
    Value,
)
from keras_policies.legacy.plan.lost.tables import Tables
from keras_policies.legacy.programs import generators, idioms

# How many nodes are followed for a model. A node counts once for each of its inputs, in
# every call of its function.
# Ops that take a variable itself, and their counterparts that take its value.
OF_VARIABLES = {"ResourceGather": "Gather", "ResourceGatherNd": "GatherNd"}


def limit() -> Limit:
    """Return the limit on the nodes that are followed for a whole model."""
    return Limit(limits.NODES, "nodes in the functions that it recorded")


@dataclasses.dataclass(frozen=True)
class Tracing:
    """The steps of one rebuilt layer.

    Args:
        recorded: all functions.
        layers: the recorded layers, by what they hold.
        specs: the arguments of the layer.
        part_of: see `regions`.
        left: the nodes that may still be followed.
        tables: the lookup layers.
        frozen: the constants that are weights.
    """

    recorded: Recorded
    layers: Layers
    specs: Sequence[Spec]
    part_of: PartOf
    left: Limit
    tables: Tables
    frozen: Frozen
    steps: list[Step] = dataclasses.field(default_factory=list)

    def follow(self, name: str, given: Sequence[Value], depth: int = 0) -> list[Value]:
        """Add the steps of a function; return its outputs."""
        if name not in self.recorded.functions:
            raise LegacyModelError(f"corrupt: there is no function {name!r}.")
        if depth > limits.CALL_DEPTH:
            raise LegacyModelError(
                f"its functions call each other more than {limits.CALL_DEPTH} times "
                "deep."
            )
        body = bodies.body(idioms.function(self.recorded, name), given)
        return _Calling(self, body, given, depth).outputs()

    def add(self, step: Step) -> int:
        """Add a step; return its number."""
        self.steps.append(step)
        return len(self.steps) - 1


class _Calling:
    """The steps of one call of one function."""

    def __init__(
        self, tracing: Tracing, body: Body, given: Sequence[Value], depth: int
    ) -> None:
        self.tracing, self.body, self.depth = tracing, body, depth
        tracing.left.spend(1 + sum(max(1, len(n.inputs)) for n in body.nodes.values()))
        # By node, what its outputs are: one value for each position, or a function.
        arguments = zip(body.function.arguments, given, strict=True)
        self.values = {name: _always(value) for name, value in arguments}
        found = regions.regions(body, tracing.layers, tracing.part_of)
        for one in regions.in_order(body, found):
            if isinstance(one, Region):
                self._region(one)
            else:
                self._node(body.nodes[one])

    def value(self, output: Output) -> Value:
        return self.values[output.node](output)

    def outputs(self) -> list[Value]:
        return [self.value(output) for output in self.body.function.outputs]

    def _region(self, region: Region) -> None:
        """Add the call of a layer, or the nodes one by one if they are no such call."""
        call = calls.call(region, self.body, self.value)
        if call is None:
            for name in region.nodes:
                self._node(self.body.nodes[name])
            return
        step, positions = call
        number = self.tracing.add(step)
        for name in region.nodes:
            self.values[name] = _of_call(number, positions)

    def _node(self, node: Node) -> None:
        node = generators.drawn(node, self.body.nodes)
        inputs = [self.value(taken) for taken in node.inputs]
        self.values[node.name] = self._made(node, inputs)

    def _made(self, node: Node, inputs: list[Value]) -> Callable[[Output], Value]:
        """Return what the outputs of a node are, after adding its steps."""
        steps, specs = self.tracing.steps, self.tracing.specs
        if node.op == "Const":
            return _always(Known(node.attributes["value"]))
        if node.op in PASSING and inputs:
            return _each(inputs)
        if node.op in CALLS:
            return _each(self._called(node.attributes.get("f"), inputs))
        if node.op in CONDITIONS:
            return _each(self._chosen(node, inputs[0], inputs[1:]))
        if node.op in LOOPS:
            add, recorded = self.tracing.add, self.tracing.recorded
            given = self.tracing.frozen.of_loop(node.name, inputs, add)
            left = recurrent.results(node, given, recorded, steps, specs, add)
            if left is None:
                left = loops.unrolled(node, inputs, self._called)
            if left is not None:
                return _each(left)
        if node.op in cudnn_calls.OPS:
            add, recorded = self.tracing.add, self.tracing.recorded
            ends = cudnn_calls.results(node, inputs, recorded, steps, specs, add)
            if ends is not None:
                return lambda output: ends[output.output]
        looked_up = self.tracing.tables.made(node, inputs, steps)
        if looked_up is not None:
            return _always(looked_up)
        inputs = self.tracing.tables.numbered(inputs)
        refuse_resources(inputs, self.tracing.recorded)
        if node.op.startswith("TensorList") and inputs:
            item = loops.of_list(node, inputs, self.tracing.add)
            if item is not None:
                return _always(item)
        op = OF_VARIABLES.get(node.op, node.op)
        tensors = (value for value in inputs if not isinstance(value, Items | Rows))
        step = OpStep(node.name, op, node.attributes, tuple(tensors))
        size = loops.known_size(step, steps, specs)
        if size is not None:
            return _always(size)
        folded = _folded(step)
        if folded is not None:
            return folded
        number = self.tracing.add(step)
        _, raw = table.NODES.get(op, (None, None))
        return lambda output: Result(
            number,
            output.position if raw is None else raw.position(*output[1:]),
        )

    def _chosen(
        self, node: Node, condition: Value, inputs: Sequence[Value]
    ) -> list[Value]:
        """Return the outputs of the branch of an `If`, or a choice between both."""
        names = [node.attributes.get(key) for key in ("then_branch", "else_branch")]
        if isinstance(condition, Known):
            return self._called(names[not np.all(condition.value)], inputs)
        branches = [self._called(name, inputs) for name in names]
        return [
            Result(
                self.tracing.add(OpStep(node.name, "SelectV2", {}, (condition, *both)))
            )
            for both in zip(*branches, strict=True)
        ]

    def _called(self, name: object, inputs: Sequence[Value]) -> list[Value]:
        return self.tracing.follow(str(name), inputs, self.depth + 1)


def _always(value: Value) -> Callable[[Output], Value]:
    return lambda output: value


def _each(values: Sequence[Value]) -> Callable[[Output], Value]:
    def value(output: Output) -> Value:
        if not 0 <= output.position < len(values):
            raise LegacyModelError(f"corrupt: {output.node!r} has no output {output}.")
        return values[output.position]

    return value


def _of_call(number: int, positions: Mapping[Output, int]) -> Callable[[Output], Value]:
    def value(output: Output) -> Value:
        if output in positions:
            return Result(number, positions[output])
        return Known(np.float32(0))  # a loss, which the layer itself adds

    return value


def _folded(step: OpStep) -> Callable[[Output], Value] | None:
    """Return what an op makes of constants, or None where it takes a tensor."""
    known = [value.value for value in step.inputs if isinstance(value, Known)]
    if step.op not in table.NODES or len(known) != len(step.inputs):
        return None
    _, raw = table.NODES[step.op]
    constants = {str(i): value for i, value in enumerate(known)}
    try:
        found = node_def.call({"op": step.op, "attr": step.attributes}, (), constants)
    except LimitError:
        raise
    except UNEXPECTED:
        return None
    results = list(found) if isinstance(found, tuple) else [found]
    values = [Known(result) for result in results]
    return lambda output: values[raw.position(*output[1:])]


def refuse_resources(values: Iterable[Value], recorded: Recorded) -> None:
    """Raise an error if a value is a table, which only a lookup layer can take."""
    if any(isinstance(value, Resource) for value in values):
        every = recorded.layers.values()
        named = [layer.name for layer in every if layer.class_name in configs.LOOKUPS]
        raise LegacyModelError(
            "the function that it recorded looks words up in a table, or uses another "
            f"resource that is no variable. Its lookup layers: {named or 'none'}.",
            remedies.BUILD_LOOKUPS,
        )
