"""Follows a traced function, and the functions that it calls, step by step."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from keras_policies._common import lazy_keras
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, attempt
from keras_policies.legacy.base.traced_functions import (
    CASES,
    Node,
    TensorSpec,
    TracedFunctions,
    branches,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.plan.reconstruction import (
    idioms,
    ir,
    layer_calls,
    loops,
    matched_calls,
    own_gradients,
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
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    Outputs,
    Positions,
)
from keras_policies.legacy.values import axis_lengths
from keras_policies.legacy.values.evaluator import has_dims


@dataclasses.dataclass(eq=False)
class Tracing(Interpreter):
    """An interpreter whose values are those of `ir`: it adds the steps of a layer."""

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

    error = LegacyModelError
    most_rounds = limits.LOOP_ROUNDS

    def __post_init__(self) -> None:
        super().__init__(self.traced)
        self.steps.specs = self.specs
        self.with_idioms = functools.partial(idioms.function, self.traced)

    def constant(self, value: Array) -> ir.Value:
        return ir.Constant(value)

    def array(self, value: ir.Value) -> Array | None:
        return ir.constant(value)

    def follow_nodes(self, needed: Positions) -> None:
        """Add a step for each layer call that is recognised, and the other nodes'."""
        inputs = [self.results[name][0] for name in self.function.arguments]
        graph = matched_calls.reachable(self.function, inputs)
        taken = (max(1, len(node.inputs)) for node in graph.nodes.values())
        self.limit.spend(1 + sum(taken))
        calls = matched_calls.matched_calls(graph, self.layers, self.spec_of)
        for unit in matched_calls.in_order(graph, calls):
            names = [unit] if isinstance(unit, str) else self._layer_call(unit, graph)
            for name in names:
                self.follow_node(idioms.replaced(graph.nodes[name], graph.nodes))

    def _layer_call(self, matched: MatchedCall, graph: Subgraph) -> Sequence[str]:
        """Add the step of a layer call; if that fails, return the nodes to follow."""
        call = layer_calls.call(matched, graph, self.value)
        if call is None:
            return matched.nodes
        step, positions = call
        first = self.steps.add(step)
        results: dict[str, dict[int, ir.Value]] = collections.defaultdict(dict)
        for output in matched.outputs:
            result: ir.Value = ir.Constant(np.float32(0))  # a loss: the layer adds it
            if output in positions:
                result = ir.StepOutput(first.step, positions[output])
            results[output.node][self.position(output)] = result
        self.results |= results
        return ()

    def chosen(self, node: Node, inputs: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the outputs of a branch, or a choice between those of all."""
        condition, *others = inputs
        if isinstance(condition, ir.Constant):
            return super().chosen(node, inputs)
        _refuse_rounds(inputs)
        *results, last = (self.called(node, name, others) for name in branches(node))
        add = functools.partial(self.steps.op, node.name)
        for number, one in reversed([*enumerate(results)]):
            is_one: ir.Value = condition
            if node.op in CASES:
                is_one = add("Equal", condition, ir.Constant(np.int32(number)))
            pairs = zip(one, last, strict=True)
            last = [add("_Choice", is_one, *pair) for pair in pairs]
        return last

    def outputs(
        self, node: Node, inputs: Sequence[ir.Value], needed: Positions
    ) -> Outputs:
        """Return the outputs of a node, with its own gradient if Keras can have it."""
        if own_gradients.is_own(node, self.function.nodes, self.traced):
            result = self._with_gradient(node, inputs)
            if result is not None:
                return [result, *inputs[1:]]
            self.steps.without_gradients.append(node.name)
        return super().outputs(node, inputs, needed)

    def _with_gradient(self, node: Node, inputs: Sequence[ir.Value]) -> ir.Value | None:
        """Return the result of a function with its recorded gradient, or None."""
        factor = own_gradients.factor_of(node, self.traced)
        shapes = [ir.shape_of(x, self.steps, self.specs) for x in inputs]
        if factor is None or None in shapes or shapes[0] != shapes[1]:
            return None
        result, x = inputs
        add = functools.partial(self.steps.op, node.name)
        try:
            captured = [self.results[name][at] for name, _, at in factor.captures]
        except LookupError:
            return None
        ones = add("OnesLike", result)
        arguments = [ones, add("ZerosLike", x), *captured]
        (h,) = self.called(node, factor.function, arguments)
        change = add("Sub", x, add("StopGradient", x))
        change = add("Mul", change, add("StopGradient", h))
        return add("AddV2", add("StopGradient", result), change)

    def loop(self, node: Node, inputs: Sequence[ir.Value]) -> Sequence[ir.Value] | None:
        """Return the results of a recurrent layer, of rounds, or of `tf.map_fn`."""
        _refuse_rounds(inputs)
        frozen_inputs = self.frozen.loop_inputs(node.name, inputs, self.steps)
        loop = self._loop(node, frozen_inputs)
        results: Sequence[ir.Value] | None = recurrent.results(loop)
        if results is None:
            results = super().loop(node, inputs)
        if results is None:
            follow = functools.partial(self.called, node)
            results = loops.mapped(self._loop(node, inputs), follow)
        return results

    def _loop(self, node: Node, inputs: Sequence[ir.Value]) -> Loop:
        return Loop(node, inputs, self.traced, self.steps, self.specs)

    def op(self, node: Node, inputs: Sequence[ir.Value]) -> Outputs:
        """Add the step of a node, unless all of its outputs are constants."""
        if any(isinstance(value, ir.Mapped) for value in inputs):
            return [loops.emitted(node, [*inputs], self.steps)]
        if node.op in recurrent.CUDNN_OPS:
            ends = recurrent.cudnn_results(self._loop(node, inputs))
            if ends is not None:
                return ends
        looked_up = self.tables.look_up(node, inputs, self.steps)
        if looked_up is not None:
            return [looked_up]
        inputs = self.tables.numbered([*inputs])
        refuse_resources(inputs, self.traced)
        if node.op.startswith("TensorList") and inputs:
            item = loops.list_result(node, inputs, self.steps)
            if item is not None:
                return [item]
        lists = ir.TensorList | ir.UnstackedTensor
        tensors = tuple(value for value in inputs if not isinstance(value, lists))
        step = ir.OpStep(node.name, node.op, node.attributes, tensors, node.shape)
        data = self._data(step) or []
        if data and not any(map(has_dims, data)):
            return [*map(ir.Constant, data)]
        outputs = _StepOutputs(self.steps.add(step).step)
        for position, value in enumerate(data):
            if has_dims(value):
                self.steps.data[outputs[position]] = value
            else:
                outputs[position] = ir.Constant(value)
        return outputs

    def _data(self, step: ir.OpStep) -> list[Any] | None:
        """Evaluate an op on constants and sizes; return None if it takes a tensor.

        A size that is not known is a dimension: `x.shape[1:]` may be a constant.
        """
        if step.op == "Shape":
            sizes = ir.shape_of(step.inputs[0], self.steps, self.specs)
            name = str(step.inputs[0])
            return None if sizes is None else [axis_lengths.sizes(sizes, name)]
        values = [
            value.value
            if isinstance(value, ir.Constant)
            else self.steps.data.get(value)
            for value in step.inputs
        ]
        if step.op not in table.NODES or any(value is None for value in values):
            return None
        builds = lazy_keras.refused() if any(map(has_dims, values)) else nullcontext()
        with attempt(*UNEXPECTED), builds:
            return node_def.outputs(step.op, step.attributes, values)
        return None


def _refuse_rounds(values: Iterable[ir.Value]) -> None:
    if any(isinstance(value, ir.Mapped) for value in values):
        raise ValueError("it depends on a round of `tf.map_fn`")


class _StepOutputs(dict[int, ir.Value]):
    """The outputs of a step by their positions; it may have any number of them."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def __missing__(self, position: int) -> ir.StepOutput:
        return ir.StepOutput(self.step, position)


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
