"""Runs a traced function on arrays, as the reference for rebuilt models.

All values are arrays, so each op is evaluated immediately, and loops run. No layers are
recognised, and nothing is traced into Keras.

    dense/MatMul = MatMul(x, ReadVariableOp(kernel))  ->  np.matmul(x, kernel)

Random draws are replaced by their mean, as in a rebuilt layer outside of training.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_policies.legacy.base import walks
from keras_policies.legacy.base.errors import UNEXPECTED, LimitError
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    CASES,
    CONDITIONS,
    LOOPS,
    PASSING,
    ConcreteFunction,
    Function,
    Node,
    Output,
    Table,
    TracedFunctions,
    branch,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.programs import idioms, own_ops

ALL_OUTPUTS = range(2**31 - 1)  # positions of a function's outputs
HALVES = "float16", "bfloat16"
# Ops that take a variable itself, not its value.
OF_VARIABLES = "ResourceGather", "ResourceGatherNd"


class Resource(NamedTuple):
    """A variable or a lookup table, as an argument of a function."""

    number: int  # in `TracedFunctions`


Value: TypeAlias = Any  # an array, a `Resource`, or a TensorList, which is a list


class NotInterpretedError(ValueError):
    """A function cannot be run: it has an unknown op, or reads a lookup table."""


class OutOfRangeError(ValueError):
    """An index is out of range for the array that it addresses, of `length` rows."""

    def __init__(self, length: int) -> None:
        super().__init__(f"an index is not between 0 and {length - 1}")
        self.length = length


class Call(NamedTuple):
    """A call of a function from another one; it often belongs to a layer."""

    scope: str  # of the calling node, such as "model/dense"
    outputs: Sequence[Any]


class Interpreter:
    """Runs the functions of a file.

    `is_wide` computes in float32 instead of float16 and bfloat16. After a run,
    `dropouts` lists the scopes in which numbers would have been dropped. With
    `keeps_calls`, `calls` lists the function calls inside the run and their outputs.
    """

    def __init__(
        self,
        traced: TracedFunctions,
        *,
        is_wide: bool = False,
        keeps_calls: bool = False,
    ) -> None:
        self.traced, self.is_wide = traced, is_wide
        self.keeps_calls = keeps_calls
        self.calls: list[Call] = []
        self._variables: dict[int, Array] = {}
        self.dropouts: list[str] = []
        functions = functools.cache(
            lambda name: idioms.without(idioms.function(traced, name))
        )
        self._functions = functions
        self._order = functools.cache(lambda name, ends: _order(functions(name), ends))

    def run(
        self, trace: ConcreteFunction, inputs: Sequence[Array], count: int | None = None
    ) -> list[Array]:
        """Return the outputs of a trace as a flat list.

        `inputs` are the tensors in its inputs. Only the first `count` outputs are
        computed, because the rest may be losses. Raise ValueError or a subclass if the
        inputs do not fit an op.
        """
        self.calls, self.dropouts = [], []
        captured = [self._captured(number) for number in trace.captures]
        arguments = [self._widened(value) for value in inputs]
        needed, every = range(count) if count else ALL_OUTPUTS, [*arguments, *captured]
        return self._function(trace.function, every, "", 0, needed)[:count]

    def _captured(self, number: int) -> Value:
        if number in self.traced.constants:
            return self._widened(self.traced.constants[number]())
        return Resource(number)

    def _widened(self, value: Any) -> Any:
        """Return an array, or a dtype's name, with the dtype to compute in."""
        name = value if isinstance(value, str) else getattr(value, "dtype", None)
        if self.is_wide and str(name) in HALVES:
            return "float32" if isinstance(value, str) else value.astype("float32")
        return value

    def _function(
        self,
        name: str,
        arguments: Sequence[Value],
        scope: str,
        depth: int,
        needed: Container[int] = ALL_OUTPUTS,
    ) -> list[Any]:
        """Return the outputs of a function, None for those that are not needed."""
        if depth > limits.CALL_DEPTH:
            raise NotInterpretedError(f"its functions call each other {depth} deep")
        if name not in self.traced.functions:
            raise NotInterpretedError(f"the function {name!r} is not in the file")
        function = self._functions(name)
        if len(function.arguments) != len(arguments):
            raise NotInterpretedError(f"{name}: called with {len(arguments)} arguments")
        pairs = zip(function.arguments, arguments, strict=True)
        results: dict[str, Any] = {argument: [value] for argument, value in pairs}
        charged: dict[str, float] = {}  # bytes charged for the outputs of a node
        ends = frozenset(i for i in range(len(function.outputs)) if i in needed)
        order = self._order(name, ends)
        budget.work(budget.NODE * (1 + len(order)))
        for node, unused, positions in order:
            before = budget.memory_left()
            inputs = [_value(function, results, output) for output in node.inputs]
            results[node.name] = self._node(node, inputs, scope, depth, positions)
            charged[node.name] = before - budget.memory_left()
            for other in unused:
                del results[other]
                if not self.keeps_calls:
                    budget.free(charged.pop(other, 0))
        return [
            _value(function, results, output) if i in ends else None
            for i, output in enumerate(function.outputs)
        ]

    def _node(
        self,
        node: Node,
        inputs: Sequence[Value],
        scope: str,
        depth: int,
        positions: Container[int],
    ) -> Sequence[Any]:
        within = f"{scope}/{node.name.rpartition('/')[0]}".strip("/")

        def call(name: object, arguments: Sequence[Value]) -> list[Any]:
            return self._function(str(name), arguments, within, depth + 1)

        if node.op == "Const":
            return [self._widened(node.attributes["value"])]
        if node.op == "ReadVariableOp":
            return [self._variable(inputs[0])]
        if node.op in PASSING:
            return inputs
        if node.op in CALLS:
            name = str(node.attributes.get("f"))
            outputs = self._function(name, inputs, within, depth + 1, positions)
            if self.keeps_calls:
                self.calls.append(Call(within, outputs))
            return outputs
        if node.op in CONDITIONS + CASES:
            return call(branch(node, inputs[0]), inputs[1:])
        if node.op in LOOPS:
            while np.all(call(node.attributes.get("cond"), inputs)[0]):
                inputs = call(node.attributes.get("body"), inputs)
            return inputs
        if node.op in own_ops.LISTS:
            return own_ops.LISTS[node.op](node.attributes, *inputs)
        if node.op == idioms.DROPOUT and node.attributes["rate"]:
            self.dropouts.append(within)
        if node.op in own_ops.LOOKUPS:
            table = self._table(inputs[0])
            budget.work(budget.ITEM * len(table.keys))
            return [own_ops.LOOKUPS[node.op](table, *map(np.asarray, inputs[1:]))]
        if node.op in OF_VARIABLES:
            inputs = [self._variable(inputs[0]), *inputs[1:]]
        if self.is_wide:
            wide = {name: self._widened(x) for name, x in node.attributes.items()}
            node = dataclasses.replace(node, attributes=wide)
        return _evaluated(node, inputs)

    def _table(self, value: Value) -> Table:
        is_table = isinstance(value, Resource)
        table = self.traced.tables.get(value.number) if is_table else None
        if table is None:
            reason = "it reads a lookup table whose content is not in the file"
            raise NotInterpretedError(reason)
        return table

    def _variable(self, value: Value) -> Array:
        if not isinstance(value, Resource):
            return np.asarray(value)
        if value.number not in self.traced.variables:
            raise NotInterpretedError("it reads a lookup table")
        if value.number not in self._variables:
            array = self.traced.variables[value.number].read()
            self._variables[value.number] = self._widened(array)
        return self._variables[value.number]


def _order(
    function: Function, ends: Container[int]
) -> list[tuple[Node, list[str], frozenset[int]]]:
    """Return the nodes that some outputs of a function need, in topological order.

    Each comes with the nodes that are not used after it, and with the positions of its
    own outputs that are used.
    """
    outputs = [output for i, output in enumerate(function.outputs) if i in ends]
    used: dict[str, set[int]] = collections.defaultdict(set)
    for output in outputs:
        used[output.node].add(output.position)
    schedule = []
    for name, node in reversed(walks.needed_nodes(function, outputs).items()):
        inputs = dict.fromkeys(output.node for output in node.inputs)
        unused = [other for other in inputs if other not in used]
        for output in node.inputs:
            used[output.node].add(output.position)
        schedule.append((node, unused, frozenset(used[name])))
    return schedule[::-1]


def _value(function: Function, results: Mapping[str, Any], output: Output) -> Any:
    outputs, position = results[output.node], output.position
    node = function.nodes.get(output.node)
    if node is not None and node.op in table.NODES:
        position = table.NODES[node.op][1].position(*output[1:])
    elif node is not None and node.op == "TensorListPopBack":
        position = ("output_handle", "tensor").index(output.output)
    if position >= len(outputs):
        raise NotInterpretedError(f"{output.node!r} has no output {position}")
    return outputs[position]


def _evaluated(node: Node, inputs: Sequence[Value]) -> Sequence[Any]:
    if any(isinstance(value, Resource) for value in inputs):
        raise NotInterpretedError(f"{node.name!r} ({node.op}) reads a lookup table")
    op = node.op
    if op in INDEX_BOUNDS:
        _check_indices(*INDEX_BOUNDS[op](*inputs))
    result: Any = own_ops.on_texts(op, node.attributes, inputs)
    if result is not None:
        return [result]
    if op in own_ops.MEANS:
        return [own_ops.MEANS[op](node.attributes, *inputs)]
    if op not in table.NODES:
        raise NotInterpretedError(f"the op {op!r} has no counterpart")
    try:
        result = node_def.call({"op": op, "attr": node.attributes}, inputs, {})
    except LimitError:
        raise
    except UNEXPECTED as error:
        raise ValueError(f"{node.name!r} ({op}): {error}") from error
    return [*result] if isinstance(result, tuple | list) else [result]


def _check_indices(indices: Array, lengths: Any) -> None:
    if np.size(indices) and not np.all((indices >= 0) & (indices < np.array(lengths))):
        raise OutOfRangeError(int(np.min(lengths)))


# Op that gathers or scatters -> function that returns its indices and their bounds.
INDEX_BOUNDS: Mapping[str, Callable[..., tuple[Any, Any]]] = {
    **dict.fromkeys(
        ("Gather", "GatherV2", "ResourceGather"),
        lambda rows, indices, axis=0, *_: (indices, np.shape(rows)[int(axis)]),
    ),
    **dict.fromkeys(
        ("GatherNd", "ResourceGatherNd"),
        lambda rows, indices: (indices, np.shape(rows)[: np.shape(indices)[-1]]),
    ),
    "_CTCLoss": lambda logits, labels, *_: (labels, np.shape(logits)[-1] - 1),
    "ScatterNd": lambda indices, _, shape: (indices, shape[: np.shape(indices)[-1]]),
    **dict.fromkeys(
        (f"UnsortedSegment{name}" for name in ("Max", "Min", "Prod", "Sum")),
        lambda data, indices, count: (np.maximum(indices, 0), count),
    ),
}
