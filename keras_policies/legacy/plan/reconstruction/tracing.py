"""Follows a recorded function, and the functions that it calls, step by step."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from keras_policies import late
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, LimitError
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    CASES,
    CONDITIONS,
    LOOPS,
    PASSING,
    Node,
    Output,
    TensorSpec,
    TracedFunctions,
    branch,
    branches,
)
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.plan.reconstruction import (
    cudnn_calls,
    layer_calls,
    matched_calls,
    recurrent,
    subgraph,
    unrolling,
)
from keras_policies.legacy.plan.reconstruction.frozen import Frozen
from keras_policies.legacy.plan.reconstruction.layer_index import Layers
from keras_policies.legacy.plan.reconstruction.lookup_tables import Tables
from keras_policies.legacy.plan.reconstruction.matched_calls import MatchedCall, SpecOf
from keras_policies.legacy.plan.reconstruction.steps import (
    Constant,
    OpStep,
    Resource,
    Step,
    StepOutput,
    TensorList,
    UnstackedTensor,
    Value,
)
from keras_policies.legacy.plan.reconstruction.subgraph import Subgraph
from keras_policies.legacy.programs import generators, idioms
from keras_policies.legacy.values import dims
from keras_policies.legacy.values.evaluator import has_dims

# Ops that take a variable itself, and their counterparts that take its value.
OF_VARIABLES = {"ResourceGather": "Gather", "ResourceGatherNd": "GatherNd"}


def limit() -> Limit:
    """Return the limit on the nodes that are followed for a whole model.

    A node counts once for each of its inputs, in every call of its function.
    """
    return Limit(limits.NODES, "nodes in the functions that it recorded")


@dataclasses.dataclass(frozen=True)
class Tracing:
    """The steps of one rebuilt layer.

    Args:
        recorded: all functions.
        layers: the recorded layers, by what they hold.
        specs: the arguments of the layer.
        part_of: see `matched_calls`.
        left: the nodes that may still be followed.
        tables: the lookup layers.
        frozen: the constants that are weights.
        data: what ops make of sizes, with a dimension for each that is not known.
    """

    traced: TracedFunctions
    layers: Layers
    specs: Sequence[TensorSpec]
    part_of: SpecOf
    left: Limit
    tables: Tables
    frozen: Frozen
    steps: list[Step] = dataclasses.field(default_factory=list)
    data: dict[Value, Any] = dataclasses.field(default_factory=dict)

    def follow(self, name: str, given: Sequence[Value], depth: int = 0) -> list[Value]:
        """Add the steps of a function; return its outputs."""
        if name not in self.traced.functions:
            raise LegacyModelError(f"corrupt: there is no function {name!r}.")
        if depth > limits.CALL_DEPTH:
            raise LegacyModelError(
                f"its functions call each other more than {limits.CALL_DEPTH} times "
                "deep."
            )
        body = subgraph.body(idioms.function(self.traced, name), given)
        return _Calling(self, body, given, depth).outputs()

    def add(self, step: Step) -> int:
        """Add a step; return its number."""
        self.steps.append(step)
        return len(self.steps) - 1


class _Calling:
    """The steps of one call of one function."""

    def __init__(
        self, tracing: Tracing, body: Subgraph, given: Sequence[Value], depth: int
    ) -> None:
        self.tracing, self.body, self.depth = tracing, body, depth
        tracing.left.spend(1 + sum(max(1, len(n.inputs)) for n in body.nodes.values()))
        # By node, what its outputs are: one value for each position, or a function.
        arguments = zip(body.function.arguments, given, strict=True)
        self.values = {name: _always(value) for name, value in arguments}
        found = matched_calls.matched_calls(body, tracing.layers, tracing.part_of)
        for one in matched_calls.in_order(body, found):
            if isinstance(one, MatchedCall):
                self._region(one)
            else:
                self._node(body.nodes[one])

    def value(self, output: Output) -> Value:
        return self.values[output.node](output)

    def outputs(self) -> list[Value]:
        return [self.value(output) for output in self.body.function.outputs]

    def _region(self, region: MatchedCall) -> None:
        """Add the call of a layer, or the nodes one by one if they are no such call."""
        call = layer_calls.call(region, self.body, self.value)
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
            return _always(Constant(node.attributes["value"]))
        if node.op in PASSING and inputs:
            return _each(inputs)
        if node.op in CALLS:
            return _each(self._called(node.attributes.get("f"), inputs))
        if node.op in CONDITIONS + CASES:
            return _each(self._chosen(node, inputs[0], inputs[1:]))
        if node.op in LOOPS:
            add, traced = self.tracing.add, self.tracing.traced
            given = self.tracing.frozen.of_loop(node.name, inputs, add)
            left = recurrent.results(node, given, traced, steps, specs, add)
            if left is None:
                left = unrolling.unrolled(node, inputs, self._called)
            if left is not None:
                return _each(left)
        if node.op in cudnn_calls.OPS:
            add, traced = self.tracing.add, self.tracing.traced
            ends = cudnn_calls.results(node, inputs, traced, steps, specs, add)
            if ends is not None:
                return lambda output: ends[output.output]
        looked_up = self.tracing.tables.made(node, inputs, steps)
        if looked_up is not None:
            return _always(looked_up)
        inputs = self.tracing.tables.numbered(inputs)
        refuse_resources(inputs, self.tracing.traced)
        if node.op.startswith("TensorList") and inputs:
            item = unrolling.of_list(node, inputs, self.tracing.add)
            if item is not None:
                return _always(item)
        op = OF_VARIABLES.get(node.op, node.op)
        tensors = (
            value
            for value in inputs
            if not isinstance(value, TensorList | UnstackedTensor)
        )
        return self._op(OpStep(node.name, op, node.attributes, tuple(tensors)))

    def _op(self, step: OpStep) -> Callable[[Output], Value]:
        """Return the outputs of an op, which is a step unless all are constants."""
        found = self._data(step) or []
        number = -1
        if not found or any(map(has_dims, found)):
            number = self.tracing.add(step)
            results = (StepOutput(number, position) for position in range(len(found)))
            self.tracing.data.update(zip(results, found, strict=True))
        _, raw = table.NODES.get(step.op, (None, None))

        def value(output: Output) -> Value:
            position = output.position if raw is None else raw.position(*output[1:])
            if not found or has_dims(found[position]):
                return StepOutput(number, position)
            return Constant(found[position])

        return value

    def _data(self, step: OpStep) -> list[Any] | None:
        """Return what an op makes of constants and sizes; None if it takes a tensor.

        A size that is not known is a dimension: `x.shape[1:]` may be a constant.
        """
        tracing = self.tracing
        if step.op == "Shape":
            sizes = unrolling.shape_of(step.inputs[0], tracing.steps, tracing.specs)
            return None if sizes is None else [dims.sizes(sizes, str(step.inputs[0]))]
        known = [
            value.value if isinstance(value, Constant) else tracing.data.get(value)
            for value in step.inputs
        ]
        if step.op not in table.NODES or any(value is None for value in known):
            return None
        constants = {str(i): value for i, value in enumerate(known)}
        node = {"op": step.op, "attr": step.attributes}
        builds = late.refused() if any(map(has_dims, known)) else nullcontext()
        try:
            with builds:
                found = node_def.call(node, (), constants)
        except LimitError:
            raise
        except UNEXPECTED:
            return None
        return [*found] if isinstance(found, tuple) else [found]

    def _chosen(
        self, node: Node, condition: Value, inputs: Sequence[Value]
    ) -> list[Value]:
        """Return the outputs of the branch of a condition, or a choice between all."""
        if isinstance(condition, Constant):
            return self._called(branch(node, condition.value), inputs)
        *others, left = (self._called(name, inputs) for name in branches(node))

        def add(op: str, *values: Value) -> StepOutput:
            return StepOutput(self.tracing.add(OpStep(node.name, op, {}, values)))

        for number, one in reversed([*enumerate(others)]):
            is_one = condition
            if node.op in CASES:
                is_one = add("Equal", condition, Constant(np.int32(number)))
            pairs = zip(one, left, strict=True)
            left = [add("SelectV2", is_one, *both) for both in pairs]
        return left

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
            return StepOutput(number, positions[output])
        return Constant(np.float32(0))  # a loss, which the layer itself adds

    return value


def refuse_resources(values: Iterable[Value], traced: TracedFunctions) -> None:
    """Raise an error if a value is a table, which only a lookup layer can take."""
    if any(isinstance(value, Resource) for value in values):
        every = traced.layers.values()
        named = [layer.name for layer in every if layer.class_name in configs.LOOKUPS]
        raise LegacyModelError(
            "the function that it recorded looks words up in a table, or uses another "
            f"resource that is no variable. Its lookup layers: {named or 'none'}.",
            hints.BUILD_LOOKUPS,
        )
