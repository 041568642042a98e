"""Runs a traced function on arrays, as the reference for rebuilt models.

All values are arrays, so each op is evaluated immediately, and loops run. No layers are
recognised, and nothing is traced into Keras.

    dense/MatMul = MatMul(x, ReadVariableOp(kernel))  ->  np.matmul(x, kernel)

Random draws are replaced by their mean, as in a rebuilt layer outside of training.

`Interpreter` is also the walk of the other mode, `tracing.Tracing`: there, values are
those of `ir`, layers are recognised, and ops become steps of a program.
"""

import collections
import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

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
    Resource,
    Table,
    TracedFunctions,
    VariableRef,
    branch,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import node_def, table
from keras_policies.legacy.plan.reconstruction import idioms, own_ops

ALL_OUTPUTS = range(2**31 - 1)  # positions of a function's outputs
# An array, a `VariableRef`, a `Resource`, or a TensorList, which is a list.
Value: TypeAlias = Any
Outputs: TypeAlias = Sequence[Any] | Mapping[int, Any]  # of a node, by position
Positions: TypeAlias = range | frozenset[int]


class NotInterpretedError(ValueError):
    """A function cannot be run: it has an unknown op, or reads a lookup table."""


class OutOfRangeError(ValueError):
    """An index is out of range for the array that it addresses, of `length` rows."""

    def __init__(self, length: int) -> None:
        super().__init__(f"an index is not between 0 and {length - 1}")
        self.length = length


class InnerCall(NamedTuple):
    """A call of a function from another one; it often belongs to a layer."""

    scope: str  # of the calling node, such as "model/dense"
    outputs: Sequence[Any]


class Interpreter:
    """Runs the functions of a file.

    `is_wide` computes in float32 instead of float16 and bfloat16. After a run,
    `dropouts` lists the scopes in which numbers would have been dropped. With
    `keeps_calls`, `calls` lists the function calls inside the run and their outputs.

    The attributes below belong to one call of a function. Copies of the interpreter
    follow the functions that it calls; they share all other attributes.
    """

    error: ClassVar[type[ValueError]] = NotInterpretedError  # for corrupt functions
    # The dtypes that `is_wide` computes in, by the dtypes in the file.
    widened: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("float16", "bfloat16"), "float32"
    )
    most_rounds: ClassVar[float] = math.inf  # of a loop

    name: str
    function: Function
    results: dict[str, Outputs]  # of arguments and nodes
    scope, depth = "", 0  # of the node that calls the function

    def __init__(
        self,
        traced: TracedFunctions,
        *,
        is_wide: bool = False,
        keeps_calls: bool = False,
    ) -> None:
        self.traced, self.is_wide = traced, is_wide
        self.keeps_calls = keeps_calls
        self.calls: list[InnerCall] = []
        self._variables: dict[int, Array] = {}
        self.dropouts: list[str] = []
        functions = functools.cache(
            lambda name: idioms.without(idioms.function(traced, name))
        )
        self.with_idioms: Callable[[str], Function] = functions
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
        captured = map(self.captured, trace.captures)
        arguments = [self._widened(value) for value in inputs]
        needed = range(count) if count else ALL_OUTPUTS
        outputs = self.follow(trace.function, [*arguments, *captured], needed)
        return [*map(self.array, outputs[:count])]

    def captured(self, number: int) -> Value:
        """Return the value of an object that a function captures."""
        if number in self.traced.constants:
            return self.constant(self.traced.constants[number]())
        is_variable = number in self.traced.variables
        return VariableRef(number) if is_variable else Resource(number)

    def _widened(self, value: Any) -> Any:
        """Return an array, or a dtype's name, with the dtype to compute in."""
        name = value if isinstance(value, str) else getattr(value, "dtype", None)
        wide = self.widened.get(str(name)) if self.is_wide else None
        if wide is None:
            return value
        return wide if isinstance(value, str) else value.astype(wide)

    def follow(
        self, name: str, inputs: Sequence[Value], needed: Positions = ALL_OUTPUTS
    ) -> list[Any]:
        """Return the outputs of a function, None for those that are not needed."""
        if name not in self.traced.functions:
            raise self.error(f"corrupt: there is no function {name!r}.")
        if self.depth > limits.CALL_DEPTH:
            raise self.error(
                f"its functions call each other more than {limits.CALL_DEPTH} times "
                "deep."
            )
        function = self.with_idioms(name)
        if len(function.arguments) != len(inputs):
            raise self.error(
                f"corrupt: {function.name} takes {len(function.arguments)} arguments, "
                f"it is called with {len(inputs)}."
            )
        pairs = zip(function.arguments, inputs, strict=True)
        self.name, self.function = name, function
        self.results = {argument: [value] for argument, value in pairs}
        self.follow_nodes(needed)
        outputs = enumerate(function.outputs)
        return [self.value(output) if i in needed else None for i, output in outputs]

    def follow_nodes(self, needed: Positions) -> None:
        """Evaluate the nodes that some outputs of the function need."""
        charged: dict[str, float] = {}  # bytes charged for the outputs of a node
        order = self._order(self.name, needed)
        budget.work(budget.NODE * (1 + len(order)))
        for node, unused, positions in order:
            before = budget.memory_left()
            self.follow_node(node, positions)
            charged[node.name] = before - budget.memory_left()
            for other in unused:
                del self.results[other]
                if not self.keeps_calls:
                    budget.free(charged.pop(other, 0))

    def follow_node(self, node: Node, needed: Positions = ALL_OUTPUTS) -> None:
        """Evaluate a node, at least those of its outputs that are needed."""
        inputs = [self.value(output) for output in node.inputs]
        self.results[node.name] = self.outputs(node, inputs, needed)

    def value(self, output: Output) -> Any:
        """Return an argument of the function, or an output of one of its nodes."""
        try:
            return self.results[output.node][self.position(output)]
        except (LookupError, ValueError):
            reason = f"corrupt: {output.node!r} has no output {output}."
            raise self.error(reason) from None

    def position(self, output: Output) -> int:
        """Return the position of an output among all outputs of its node."""
        node = self.function.nodes.get(output.node)
        if node is not None and node.op in table.NODES:
            return table.NODES[node.op][1].position(output.output, output.position)
        if node is not None and node.op in own_ops.OUTPUTS:
            return own_ops.OUTPUTS[node.op].index(output.output)
        return output.position

    def outputs(
        self, node: Node, inputs: Sequence[Value], needed: Positions
    ) -> Outputs:
        if node.op == "Const":
            return [self.constant(node.attributes["value"])]
        if node.op in PASSING and inputs:
            return inputs
        if node.op in CALLS:
            return self.called(node, node.attributes.get("f"), inputs, needed)
        if node.op in CONDITIONS + CASES:
            return self.chosen(node, inputs)
        results = self.loop(node, inputs) if node.op in LOOPS else None
        return self.op(node, inputs) if results is None else results

    def called(
        self,
        node: Node,
        name: object,
        inputs: Sequence[Value],
        needed: Positions = ALL_OUTPUTS,
    ) -> list[Any]:
        """Return the outputs of a function that a node calls."""
        inner = copy.copy(self)
        inner.scope, inner.depth = self.scope_of(node), self.depth + 1
        outputs = inner.follow(str(name), inputs, needed)
        if self.keeps_calls and node.op in CALLS:
            self.calls.append(InnerCall(inner.scope, outputs))
        return outputs

    def scope_of(self, node: Node) -> str:
        """Return the scope of a node in the whole run."""
        return f"{self.scope}/{node.name.rpartition('/')[0]}".strip("/")

    def chosen(self, node: Node, inputs: Sequence[Value]) -> list[Any]:
        """Return the outputs of the branch that a condition chooses."""
        return self.called(node, branch(node, self.array(inputs[0])), inputs[1:])

    def loop(self, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        """Run a loop; return None if the number of its rounds is not known."""
        cond, body = (node.attributes.get(name) for name in ("cond", "body"))
        rounds = 0
        while (goes_on := self.array(self.called(node, cond, inputs)[0])) is not None:
            if not np.all(goes_on):
                return inputs
            if rounds == self.most_rounds:
                raise self.error(
                    f"the loop {node.name!r} has more than {rounds} rounds, too many "
                    "to be unrolled."
                )
            inputs, rounds = self.called(node, body, inputs), rounds + 1
        return None

    def constant(self, value: Array) -> Value:
        return self._widened(value)

    def array(self, value: Value) -> Any:
        """Return the array that a value is, or None if it is not known."""
        if not isinstance(value, VariableRef):
            return value
        number = value.variable
        if number not in self._variables:
            array = self.traced.variables[number].read()
            self._variables[number] = self._widened(array)
        return self._variables[number]

    def op(self, node: Node, inputs: Sequence[Value]) -> Outputs:
        """Return the outputs of a node that calls no function."""
        inputs = [*map(self.array, inputs)]
        if node.op in own_ops.LOOKUPS:
            table = self._table(inputs[0])
            budget.work(budget.ITEM * len(table.keys))
            return [own_ops.LOOKUPS[node.op](table, *map(np.asarray, inputs[1:]))]
        if any(isinstance(value, Resource) for value in inputs):
            raise NotInterpretedError(f"{node.name!r} ({node.op}) reads a lookup table")
        if node.op in own_ops.LISTS:
            return own_ops.LISTS[node.op](node.attributes, *inputs)
        if node.op == idioms.DROPOUT and node.attributes["rate"]:
            self.dropouts.append(self.scope_of(node))
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


def _order(
    function: Function, needed: Positions
) -> list[tuple[Node, list[str], frozenset[int]]]:
    """Return the nodes that some outputs of a function need, in topological order.

    Each comes with the nodes that are not used after it, and with the positions of its
    own outputs that are used.
    """
    outputs = [output for i, output in enumerate(function.outputs) if i in needed]
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


def _evaluated(node: Node, inputs: Sequence[Value]) -> Sequence[Any]:
    op = node.op
    if op in INDEX_BOUNDS:
        _check_indices(*INDEX_BOUNDS[op](*inputs))
    result = own_ops.on_texts(op, node.attributes, inputs)
    if result is not None:
        return [result]
    if op in own_ops.MEANS:
        return [own_ops.MEANS[op](node.attributes, *inputs)]
    if op not in table.NODES:
        raise NotInterpretedError(f"the op {op!r} has no counterpart")
    try:
        return node_def.outputs(op, node.attributes, inputs)
    except LimitError:
        raise
    except UNEXPECTED as error:
        raise ValueError(f"{node.name!r} ({op}): {error}") from error


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
