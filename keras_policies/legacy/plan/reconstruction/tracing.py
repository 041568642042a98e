"""Follows a traced function, and the functions that it calls, step by step."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from keras_policies._common import lazy_keras
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, attempt
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
    ir,
    layer_calls,
    loops,
    matched_calls,
    recurrent,
)
from keras_policies.legacy.plan.reconstruction.concrete_functions import Layers
from keras_policies.legacy.plan.reconstruction.frozen import Frozen
from keras_policies.legacy.plan.reconstruction.lookup_tables import Tables
from keras_policies.legacy.plan.reconstruction.matched_calls import (
    MatchedCall,
    SpecOf,
    Subgraph,
)
from keras_policies.legacy.plan.reconstruction.recurrent_probes import Loop
from keras_policies.legacy.programs import idioms
from keras_policies.legacy.values import axis_lengths
from keras_policies.legacy.values.evaluator import has_dims


@dataclasses.dataclass(frozen=True)
class Tracing:
    """The steps of one rebuilt layer."""

    traced: TracedFunctions  # all functions of the file
    layers: Layers  # the traced layers, by their variables
    specs: Sequence[TensorSpec]  # the arguments of the layer
    spec_of: SpecOf  # see `matched_calls`
    # Counts the nodes that are followed for a whole model: a node once for each of its
    # inputs, in every call of its function.
    limit: Limit
    tables: Tables  # the lookup layers
    frozen: Frozen  # the constants that are weights
    steps: ir.Steps = dataclasses.field(default_factory=ir.Steps)
    # Results of ops on sizes, with a symbolic dimension for each unknown one.
    data: dict[ir.Value, Any] = dataclasses.field(default_factory=dict)

    def follow(
        self, name: str, inputs: Sequence[ir.Value], depth: int = 0
    ) -> list[ir.Value]:
        """Add the steps of a function; return its outputs."""
        if name not in self.traced.functions:
            raise LegacyModelError(f"corrupt: there is no function {name!r}.")
        if depth > limits.CALL_DEPTH:
            raise LegacyModelError(
                f"its functions call each other more than {limits.CALL_DEPTH} times "
                "deep."
            )
        graph = matched_calls.reachable(idioms.function(self.traced, name), inputs)
        return _FunctionCall(self, graph, inputs, depth).outputs()


class _FunctionCall:
    """The steps of one call of one function."""

    def __init__(
        self, tracing: Tracing, graph: Subgraph, inputs: Sequence[ir.Value], depth: int
    ) -> None:
        self.tracing, self.graph, self.depth = tracing, graph, depth
        taken = (max(1, len(node.inputs)) for node in graph.nodes.values())
        tracing.limit.spend(1 + sum(taken))
        # By node, what its outputs are: one value for each position, or a function.
        arguments = zip(graph.function.arguments, inputs, strict=True)
        self.values = {name: _always(value) for name, value in arguments}
        calls = matched_calls.matched_calls(graph, tracing.layers, tracing.spec_of)
        for unit in matched_calls.in_order(graph, calls):
            if isinstance(unit, MatchedCall):
                self._layer_call(unit)
            else:
                self._node(graph.nodes[unit])

    def value(self, output: Output) -> ir.Value:
        return self.values[output.node](output)

    def outputs(self) -> list[ir.Value]:
        return [self.value(output) for output in self.graph.function.outputs]

    def _layer_call(self, matched: MatchedCall) -> None:
        """Emit one layer call; if its arguments cannot be recovered, emit the nodes."""
        call = layer_calls.call(matched, self.graph, self.value)
        if call is None:
            for name in matched.nodes:
                self._node(self.graph.nodes[name])
            return
        step, positions = call
        first = self.tracing.steps.add(step)
        for name in matched.nodes:
            self.values[name] = _call_outputs(first.step, positions)

    def _node(self, node: Node) -> None:
        node = idioms.replaced(node, self.graph.nodes)
        inputs = [self.value(output) for output in node.inputs]
        self.values[node.name] = self._emit(node, inputs)

    def _emit(self, node: Node, inputs: list[ir.Value]) -> Callable[[Output], ir.Value]:
        """Add the steps of a node; return a function from its outputs to values."""
        steps = self.tracing.steps
        if node.op == "Const":
            return _always(ir.Constant(node.attributes["value"]))
        if node.op in PASSING and inputs:
            return _each(inputs)
        if node.op in CALLS:
            return _each(self._called(node.attributes.get("f"), inputs))
        if any(isinstance(value, ir.Mapped) for value in inputs):
            return _always(loops.emitted(node, inputs, steps))
        if node.op in CONDITIONS + CASES:
            return _each(self._chosen(node, inputs[0], inputs[1:]))
        if node.op in LOOPS:
            frozen_inputs = self.tracing.frozen.loop_inputs(node.name, inputs, steps)
            results = recurrent.results(self._loop(node, frozen_inputs))
            if results is None:
                results = loops.unrolled(node, inputs, self._called)
            if results is None:
                loop = self._loop(node, inputs)
                results = loops.mapped(loop, self._called)
            if results is not None:
                return _each(results)
        if node.op in cudnn_calls.OPS:
            ends = cudnn_calls.results(self._loop(node, inputs))
            if ends is not None:
                return lambda output: ends[output.output]
        looked_up = self.tracing.tables.look_up(node, inputs, steps)
        if looked_up is not None:
            return _always(looked_up)
        inputs = self.tracing.tables.numbered(inputs)
        refuse_resources(inputs, self.tracing.traced)
        if node.op.startswith("TensorList") and inputs:
            item = loops.list_result(node, inputs, steps)
            if item is not None:
                return _always(item)
        lists = ir.TensorList | ir.UnstackedTensor
        tensors = tuple(value for value in inputs if not isinstance(value, lists))
        step = ir.OpStep(node.name, node.op, node.attributes, tensors, node.shape)
        return self._op(step)

    def _op(self, step: ir.OpStep) -> Callable[[Output], ir.Value]:
        """Return the outputs of an op, which is a step unless all are constants."""
        data = self._data(step) or []
        number = -1
        if not data or any(map(has_dims, data)):
            number = self.tracing.steps.add(step).step
            results = (ir.StepOutput(number, position) for position in range(len(data)))
            self.tracing.data.update(zip(results, data, strict=True))
        _, form = table.NODES.get(step.op, (None, None))

        def value(output: Output) -> ir.Value:
            position = output.position if form is None else form.position(*output[1:])
            if not data or has_dims(data[position]):
                return ir.StepOutput(number, position)
            return ir.Constant(data[position])

        return value

    def _data(self, step: ir.OpStep) -> list[Any] | None:
        """Evaluate an op on constants and sizes; return None if it takes a tensor.

        A size that is not known is a dimension: `x.shape[1:]` may be a constant.
        """
        tracing = self.tracing
        if step.op == "Shape":
            sizes = ir.shape_of(step.inputs[0], tracing.steps, tracing.specs)
            name = str(step.inputs[0])
            return None if sizes is None else [axis_lengths.sizes(sizes, name)]
        values = [
            value.value if isinstance(value, ir.Constant) else tracing.data.get(value)
            for value in step.inputs
        ]
        if step.op not in table.NODES or any(value is None for value in values):
            return None
        constants = {str(i): value for i, value in enumerate(values)}
        node = {"op": step.op, "attr": step.attributes}
        builds = lazy_keras.refused() if any(map(has_dims, values)) else nullcontext()
        with attempt(*UNEXPECTED), builds:
            result = node_def.call(node, (), constants)
            return [*result] if isinstance(result, tuple) else [result]
        return None

    def _chosen(
        self, node: Node, condition: ir.Value, inputs: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Return the outputs of the branch of a condition, or a choice between all."""
        if isinstance(condition, ir.Constant):
            return self._called(branch(node, condition.value), inputs)
        *others, limit = (self._called(name, inputs) for name in branches(node))
        add = functools.partial(self.tracing.steps.op, node.name)
        for number, one in reversed([*enumerate(others)]):
            is_one = condition
            if node.op in CASES:
                is_one = add("Equal", condition, ir.Constant(np.int32(number)))
            pairs = zip(one, limit, strict=True)
            limit = [add("_Choice", is_one, *pair) for pair in pairs]
        return limit

    def _loop(self, node: Node, inputs: Sequence[ir.Value]) -> Loop:
        tracing = self.tracing
        return Loop(node, inputs, tracing.traced, tracing.steps, tracing.specs)

    def _called(self, name: object, inputs: Sequence[ir.Value]) -> list[ir.Value]:
        return self.tracing.follow(str(name), inputs, self.depth + 1)


def _always(value: ir.Value) -> Callable[[Output], ir.Value]:
    return lambda output: value


def _each(values: Sequence[ir.Value]) -> Callable[[Output], ir.Value]:
    def value(output: Output) -> ir.Value:
        if not 0 <= output.position < len(values):
            raise LegacyModelError(f"corrupt: {output.node!r} has no output {output}.")
        return values[output.position]

    return value


def _call_outputs(
    number: int, positions: Mapping[Output, int]
) -> Callable[[Output], ir.Value]:
    def value(output: Output) -> ir.Value:
        if output in positions:
            return ir.StepOutput(number, positions[output])
        return ir.Constant(np.float32(0))  # a loss, which the layer itself adds

    return value


def refuse_resources(values: Iterable[ir.Value], traced: TracedFunctions) -> None:
    """Raise an error if a value is a table, which only a lookup layer can take."""
    if any(isinstance(value, ir.Resource) for value in values):
        layers = traced.layers.values()
        named = [layer.name for layer in layers if layer.class_name in configs.LOOKUPS]
        raise LegacyModelError(
            "the function that it recorded looks words up in a table, or uses another "
            f"resource that is not a variable. Its lookup layers: {named or 'none'}.",
            hints.BUILD_LOOKUPS,
        )
