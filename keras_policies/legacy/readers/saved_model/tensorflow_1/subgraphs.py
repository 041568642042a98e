"""Makes functions from parts of a graph that TensorFlow 1 ran in a session.

A function consists of the nodes between fed and fetched tensors. The nodes of
conditions and loops become calls of functions:

    Switch(x, p), ..., Merge(a, b)                               ->  If(p, x)
    Enter(x), Merge, LoopCond, Switch, ..., NextIteration, Exit  ->  While(x)

Sources: tensorflow/python/ops/{control_flow_ops, tensor_array_ops}.py.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_policies.legacy.base import hints, walks
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import Function, Node, Output
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import functions
from keras_policies.legacy.readers.saved_model.functions import FunctionReader

VARIABLE_OPS = "VarHandleOp", "Variable", "VariableV2"
TABLE_OPS = "HashTable", "HashTableV2"
ENTERS, EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")
MERGES, SWITCHES = ("Merge", "RefMerge"), ("RefSwitch", "Switch")
NEXTS = "NextIteration", "RefNextIteration"
CONTROL_FLOW = {*ENTERS, *EXITS, *MERGES, *SWITCHES, *NEXTS, "LoopCond"}
# Op on an array of tensors -> op on a TensorList, and its inputs by their positions.
# The list is the second output of the first one, and flows through the others.
ARRAYS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "TensorArrayV3": ("TensorListReserve", (0, 0)),
    "TensorArrayGatherV3": ("TensorListStack", (2,)),
    "TensorArrayReadV3": ("TensorListGetItem", (2, 1)),
    "TensorArrayScatterV3": ("TensorListFromTensor", (2,)),
    "TensorArraySizeV3": ("TensorListLength", (1,)),
    "TensorArrayWriteV3": ("TensorListSetItem", (3, 1, 2)),
}
AT_ONCE = "TensorArrayGatherV3", "TensorArrayScatterV3"  # of all positions here
# Placeholder of Keras's training flag; before TensorFlow 1.8, it had to be fed.
LEARNING_PHASE = "keras_learning_phase"
OTHER_SIGNATURE = hints.Hint(
    "If the file has a signature without it, pass its name: {}.",
    (hints.Argument("signature=NAME", "--signature NAME"),),
)
Condition = frozenset[tuple[Output, int]]  # predicates and their required values


class Subgraphs:
    """Makes functions from parts of a graph, whose `nodes` are messages `Node`.

    The graph calls the functions of the `library` by name. `values` limits the number
    of nodes that are visited.
    """

    def __init__(
        self,
        nodes: Iterable[Message],
        reader: FunctionReader,
        library: Container[str],
        values: Limit,
    ) -> None:
        self._messages = {node.name: node for node in nodes}
        self._reader, self._library, self._values = reader, library, values
        self.inner_functions: dict[str, Function] = {}  # those of conditions and loops
        self._node = functools.cache(self._read)
        self._while = functools.cache(self._while_node)
        self._if = functools.cache(self._if_node)
        self._conditions: dict[str, Condition] = {}  # under which nodes are computed
        self._choices: dict[str, tuple[Output, bool]] = {}  # see `_choice`

    def op(self, name: str) -> str:
        """Return the op of a node."""
        if name not in self._messages:
            raise LegacyModelError(f"corrupt: the graph has no node {name!r}.")
        op: str = self._messages[name].op
        return op

    def output(self, text: str) -> Output:
        """Return the `Output` that `"node:1"` means."""
        node, _, number = text.removeprefix(functions.CONTROL).partition(":")
        if not functions.is_number(number or "0"):
            raise LegacyModelError(f"corrupt: {text!r} is not a tensor.")
        is_array = node in self._messages and self.op(node) == "TensorArrayV3"
        return Output(node, "", 0 if is_array else int(number or 0))

    def nodes(self, *ops: str) -> Iterator[Node]:
        """Yield the nodes with some ops, in the order of the file."""
        for name, message in self._messages.items():
            if message.op in ops:
                yield self._node(name)

    def source(self, output: Output) -> Node:
        """Return the node that computes a tensor, skipping Cast and Identity."""
        node = self._node(output.node)
        while node.op in ("Cast", "Identity") and node.inputs:
            self._values.spend()
            node = self._node(node.inputs[0].node)
        return node

    def function(
        self, name: str, feeds: Sequence[Output], fetches: Sequence[Output]
    ) -> tuple[Function, list[Output]]:
        """Return a function, and the variables and tables that it takes after `feeds`.

        Raise an error with the name of a node that cannot be in a function.
        """
        starts = frozenset(feeds)
        nodes, fed = self.subgraph(fetches, starts.__contains__)
        captured = [output for output in fed if output not in starts]
        replaced, new_nodes, arguments = {}, {}, []
        for number, output in enumerate([*feeds, *captured]):
            arguments.append(f"{output.node}:{number}")
            replaced[output] = Output(arguments[-1])
            if output not in starts and self.op(output.node).startswith("Variable"):
                read = Node(output.node, "ReadVariableOp", (replaced[output],), {})
                replaced[output], new_nodes[output.node] = Output(output.node), read

        def value(output: Output) -> Output:
            return replaced[output] if output in replaced else self._moved(output)

        for node in nodes:
            inputs = tuple(map(value, node.inputs))
            new_nodes[node.name] = dataclasses.replace(node, inputs=inputs)
        outputs = tuple(map(value, fetches))
        return Function(name, tuple(arguments), new_nodes, outputs), captured

    def subgraph(
        self, fetches: Iterable[Output], is_fed: Callable[[Output], bool]
    ) -> tuple[list[Node], list[Output]]:
        """Return the nodes that compute tensors, and the tensors where these begin.

        They begin at variables, tables and fed tensors.
        """
        nodes: dict[str, Node] = {}
        fed: dict[Output, None] = {}

        def inputs(output: Output) -> Sequence[Output]:
            if is_fed(output) or self.op(output.node) in (*VARIABLE_OPS, *TABLE_OPS):
                fed[output] = None
                return ()
            moved = self._moved(output)
            if moved.node in nodes:
                return ()
            nodes[moved.node] = node = self._converted(moved.node)
            self._values.spend(1 + len(node.inputs))
            return node.inputs

        for _ in walks.reachable(fetches, inputs):
            pass
        return [*nodes.values()], [*fed]

    def _moved(self, output: Output) -> Output:
        """Return the output of an `If` or `While` that replaces a tensor, if any."""
        op = self.op(output.node)
        if op in MERGES and not self._is_loop(output.node):
            if output.position:
                raise _refused(self._node(output.node), "is asked which branch it took")
            merges = self._merges_of_condition(output.node)
            return Output(merges[0], "", merges.index(output.node))
        if op in EXITS:
            switch = self._input(output.node, SWITCHES).name
            loop = self._input(switch, ("LoopCond",)).name
            switches = self._rounds[loop]
            self._values.spend(len(switches))
            return Output(loop, "", switches.index(switch))
        return output

    def _converted(self, name: str) -> Node:
        op = self.op(name)
        if op in MERGES and not self._is_loop(name):
            return self._if(name)
        if op == "LoopCond":
            return self._while(name)
        node = self._node(name)
        if op in CONTROL_FLOW:
            raise _refused(node, "is not part of a tf.cond or a tf.while_loop")
        if op == "Placeholder" and name.endswith(LEARNING_PHASE):
            return Node(name, "Const", (), {"value": np.array(False)})
        if op == "Placeholder":
            raise _refused(node, "is not fed by the signature, and has no default")
        if op in ARRAYS:
            new, positions = ARRAYS[op]
            if op in AT_ONCE and self.op(node.inputs[1].node) != "Range":
                raise _refused(node, "takes some items of an array, not all of them")
            inputs = tuple(node.inputs[position] for position in positions)
            return dataclasses.replace(node, op=new, inputs=inputs)
        if op in self._library:
            return dataclasses.replace(node, op="PartitionedCall", attributes={"f": op})
        return node

    def _read(self, name: str) -> Node:
        self.op(name)
        return self._reader.node(self._messages[name], self.output)

    def _inner(
        self, name: str, feeds: Sequence[Output], fetches: Sequence[Output]
    ) -> str:
        """Make a function for a condition or a loop; return its name."""
        self.inner_functions[name], _ = self.function(name, feeds, fetches)
        return name

    # Conditions.

    def _if_node(self, first: str) -> Node:
        """Return the `If` that replaces a condition, whose first merge is given."""
        predicate, is_swapped = self._choice(first)
        pairs = [self._node(merge).inputs for merge in self._merges_of_condition(first)]
        branches = [[pair[side ^ is_swapped] for pair in pairs] for side in (0, 1)]

        def is_fed(output: Output) -> bool:
            is_switch = self.op(output.node) in SWITCHES
            return is_switch and self._predicate(output.node) == predicate

        taken = (item for ends in branches for item in self.subgraph(ends, is_fed)[1])
        fed = [*dict.fromkeys(taken)]
        attributes = {
            f"{side}_branch": self._inner(f"{first}/{side}", fed, ends)
            for side, ends in zip(("else", "then"), branches, strict=True)
        }
        outside = (self._node(x.node).inputs[0] if is_fed(x) else x for x in fed)
        return Node(first, "If", (predicate, *outside), attributes)

    def _merges_of_condition(self, merge: str) -> list[str]:
        """Return the merges of the condition that a merge is part of, in order."""
        choice, merges = self._choice(merge), self._merges[_scope(merge)]
        self._values.spend(len(merges))
        for other in merges:
            self._find_conditions(other)
        return [other for other in merges if self._choices.get(other) == choice]

    @functools.cached_property
    def _merges(self) -> dict[str, list[str]]:
        """The merges outside of loops, by scope."""
        by_scope = collections.defaultdict(list)
        for node in self.nodes(*MERGES):
            if not self._is_loop(node.name):
                by_scope[_scope(node.name)].append(node.name)
        return by_scope

    def _predicate(self, switch: str) -> Output:
        output = self._node(switch).inputs[1]
        while self.op(output.node) == "Identity":
            self._values.spend()
            output = self._node(output.node).inputs[0]
        return output

    def _choice(self, merge: str) -> tuple[Output, bool]:
        """Return the predicate of a merge, and whether its first input is for True."""
        self._find_conditions(merge)
        if merge not in self._choices:
            raise _refused(self._node(merge), "is not part of a tf.cond")
        return self._choices[merge]

    def _find_conditions(self, end: str) -> None:
        """Find the conditions under which a node and its inputs are computed."""
        before: dict[str, list[Output]] = {}

        def undecided(name: str) -> list[str]:
            before[name] = self._before(name)
            names = (item.node for item in before[name])
            return [other for other in names if other not in self._conditions]

        if end in self._conditions:
            return
        try:
            order = walks.topological_order([end], undecided)
        except walks.CycleError as cycle:
            name = cycle.args[-1]
            reason = f"corrupt: the graph has a cycle at {name!r}."
            raise LegacyModelError(reason) from None
        for name in order:
            self._conditions[name] = self._condition(name, before[name])

    def _before(self, name: str) -> list[Output]:
        """Return the inputs of a node, with its control inputs."""
        self.op(name)
        inputs = [self.output(text) for text in self._messages[name].input]
        return [item for item in inputs if self.op(item.node) not in NEXTS]

    def _condition(self, name: str, before: Sequence[Output]) -> Condition:
        conditions_of_inputs = [self._after(item) for item in before]
        conditions: Condition = frozenset().union(*conditions_of_inputs)
        self._values.spend(1 + len(before) + len(conditions))
        if self.op(name) in MERGES and len(before) == 2:
            first, second = conditions_of_inputs
            choices = [item for item in first if (item[0], 1 - item[1]) in second]
            if len(choices) == 1:
                ((predicate, side),) = choices
                self._choices[name] = predicate, bool(side)
                conditions -= {(predicate, 0), (predicate, 1)}
        return conditions

    def _after(self, output: Output) -> Condition:
        """Return the conditions under which a tensor exists."""
        conditions = self._conditions[output.node]
        if self.op(output.node) in SWITCHES:
            predicate = self._predicate(output.node)
            if self.op(predicate.node) != "LoopCond":
                return conditions | {(predicate, output.position)}
        return conditions

    # Loops.

    def _is_loop(self, merge: str) -> bool:
        inputs = self._node(merge).inputs
        return any(self.op(item.node) in (*ENTERS, *NEXTS) for item in inputs)

    def _input(self, name: str, ops: Sequence[str]) -> Node:
        """Return the node with one of some ops that a node takes."""
        for item in self._node(name).inputs:
            if self.op(item.node) in ops:
                return self._node(item.node)
        raise _refused(self._node(name), "is not part of a tf.while_loop")

    @functools.cached_property
    def _rounds(self) -> dict[str, list[str]]:
        """The switches of each loop, by its `LoopCond`: one for each value in it."""
        switches = collections.defaultdict(list)
        for node in self.nodes(*SWITCHES):
            decides = node.inputs[1].node
            if self.op(decides) == "LoopCond":
                switches[decides].append(node.name)
        return switches

    def _while_node(self, name: str) -> Node:
        """Return the `While` that the loop around a `LoopCond` becomes."""
        switches = self._rounds[name]
        merges = [self._input(switch, MERGES).name for switch in switches]
        self._values.spend(len(merges))
        starts = [Output(merge) for merge in merges]
        rounds = [Output(switch, "", 1) for switch in switches]
        goes_on = [self._node(name).inputs[0]]
        ends = [self._input(merge, NEXTS).inputs[0] for merge in merges]
        invariants = [*self._fixed(goes_on, starts), *self._fixed(ends, rounds)]
        fixed = [*dict.fromkeys(invariants)]
        attributes = {
            "cond": self._inner(f"{name}/cond", [*starts, *fixed], goes_on),
            "body": self._inner(f"{name}/body", [*rounds, *fixed], [*ends, *fixed]),
        }
        entering = [Output(self._input(merge, ENTERS).name) for merge in merges]
        outside = tuple(
            self._node(item.node).inputs[0] if self.op(item.node) in ENTERS else item
            for item in (*entering, *fixed)
        )
        return Node(name, "While", outside, attributes)

    def _fixed(
        self, fetches: Sequence[Output], feeds: Sequence[Output]
    ) -> list[Output]:
        """Return the loop invariants: inputs of a loop besides `feeds`."""
        fed = frozenset(feeds)
        _, needed = self.subgraph(
            fetches, lambda item: item in fed or self.op(item.node) in ENTERS
        )
        return [item for item in needed if item not in fed]


def _scope(name: str) -> str:
    return name.rpartition("/")[0]


def _refused(node: Node, why: str) -> LegacyModelError:
    reason = f"{node.name!r} ({node.op}) {why}."
    return LegacyModelError(reason, OTHER_SIGNATURE, code="KP308")
