"""Statements of a function as syntax trees, in which variables have no names yet.

Trees consist of `ast` nodes and a few nodes of our own, and are never changed: each
step returns new ones. Nodes of our own are replaced before the text is made.
"""

import ast
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from keras_policies.source.errors import CannotWriteError

Node: TypeAlias = Any  # an `ast` node, or a list of these
Field: TypeAlias = tuple[str, int]  # a variable in a name, and what is added to it


@dataclasses.dataclass(eq=False)
class Variable(ast.expr):
    """A variable without a name."""

    _fields = ("number",)
    number: int


@dataclasses.dataclass(eq=False)
class Label(ast.expr):
    """The name of a layer or a model. Only loops and functions put fields into it."""

    _fields = ("parts",)
    parts: tuple[str | Field, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it may become an f-string: nothing in it needs an escape."""
        return all(
            x.isprintable() and not {*x} & {'"', "\\"}
            for x in self.parts
            if isinstance(x, str)
        )


@dataclasses.dataclass(eq=False)
class Policy(ast.expr):
    """The name of a dtype policy in an argument `dtype`."""

    _fields = ("name",)
    name: str


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement in a function.

    `kind` is "=" (with numbers of variables as `targets`, None where nobody reads a
    result), "model", "model.trainable" (which are assigned), "return", "for" (with
    the range as `value`, and `index`), "arguments", or "" for a call.
    """

    value: Node
    targets: tuple[int | None, ...] = ()
    kind: str = "="
    index: str = ""
    inside: bool = False  # in the loop whose "for" is before it

    @functools.cached_property
    def made(self) -> list[int]:
        """The variables that are assigned."""
        return [n for n in self.targets if n is not None]

    @functools.cached_property
    def uses(self) -> list[int]:
        """The variables that are read."""
        return [x.number for x in leaves(self.value, Variable)]

    @functools.cached_property
    def labels(self) -> list[Label]:
        """The names in it that may become f-strings."""
        return [x for x in leaves(self.value, Label) if x.is_plain]

    @functools.cached_property
    def form(self) -> object:
        """The statement without its variables and `labels`, to compare it."""

        def leaf(each: Node) -> Node | None:
            if isinstance(each, Variable):
                return Variable(0)
            is_name = isinstance(each, Label) and each.is_plain
            return Label(()) if is_name else None

        value = ast.dump(replaced(self.value, leaf))
        return self.kind, *map(type, self.targets), self.inside, self.index, value

    def rewritten(
        self,
        variables: Iterable[int],
        labels: Iterable[Label] | None = None,
        **changes: Any,
    ) -> "Statement":
        """Return it with other variables in place of those that it reads, and names."""
        numbers, names = iter(variables), None if labels is None else iter(labels)

        def new(each: Node) -> Node | None:
            if isinstance(each, Variable):
                return Variable(next(numbers))
            is_name = isinstance(each, Label) and each.is_plain
            return None if names is None or not is_name else next(names)

        return dataclasses.replace(self, value=replaced(self.value, new), **changes)


def leaves(node: Node, kind: type[ast.expr]) -> Iterator[Any]:
    """Yield the nodes of a kind, in the order of the code."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, kind):
            yield each
        waiting += [*ast.iter_child_nodes(each)][::-1]


def replaced(node: Node, new: Callable[[Node], Node | None]) -> Node:
    """Return a tree with `new(node)` in place of each node for which it is not None.

    Nodes in which nothing is replaced are in both trees.
    """
    if isinstance(node, list):
        items = [replaced(each, new) for each in node]
        return items if any(map(operator.is_not, items, node)) else node
    if not isinstance(node, ast.AST):
        return node
    if (found := new(node)) is not None:
        return found
    others = dict[str, Node]()
    for name, value in ast.iter_fields(node):
        is_leaf = not isinstance(value, list | ast.AST) or isinstance(value, ast.Load)
        if not is_leaf and (other := replaced(value, new)) is not value:
            others[name] = other
    return type(node)(**dict(ast.iter_fields(node)) | others) if others else node


def dotted(name: str, context: ast.expr_context | None = None) -> Node:
    """Return the node of a name with dots that we chose, such as `keras.Input`.

    The context is `ast.Store()` for what is assigned to.
    """
    before, _, last = name.rpartition(".")
    context = context or ast.Load()
    return (
        ast.Attribute(dotted(before), last, context)
        if before
        else ast.Name(last, context)
    )


def call(
    function: Node, args: Iterable[Node] = (), kwargs: Mapping[str, Node] | None = None
) -> Node:
    """Return the call of a function: a name with dots, or a node."""
    function = dotted(function) if isinstance(function, str) else function
    keywords = [ast.keyword(name, value) for name, value in (kwargs or {}).items()]
    return ast.Call(function, [*args], keywords)


def sequence(parts: Iterable[Node], *, is_tuple: bool = False) -> Node:
    """Return a list or a tuple."""
    return (ast.Tuple if is_tuple else ast.List)([*parts], ast.Load())


def literal(value: Any) -> Node:
    """Return None, a bool, a number or a text; raise for anything else."""
    if type(value) not in (type(None), bool, int, float, str, type(...)):
        raise CannotWriteError(f"it has a {type(value)}, expected a number or a text")
    if isinstance(value, float) and value - value != 0:
        return call("float", [ast.Constant(repr(value))])
    if isinstance(value, int | float) and repr(value)[0] == "-":
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def label_node(label: Label) -> Node:
    """Return a name as a text, a variable, or an f-string."""
    if all(isinstance(part, str) for part in label.parts):
        return ast.Constant("".join(map(str, label.parts)))
    values = [*map(_part, label.parts)]
    if len(values) == 1 and isinstance(values[0].value, ast.Name):
        return values[0].value
    return ast.JoinedStr(values)


def _part(part: str | Field) -> Node:
    if isinstance(part, str):
        return ast.Constant(part)
    name, offset = part
    value: Node = ast.Name(name, ast.Load())
    if offset:
        sign = ast.Sub() if offset < 0 else ast.Add()
        value = ast.BinOp(value, sign, ast.Constant(abs(offset)))
    return ast.FormattedValue(value, -1)


def joined(parts: Iterable[str | Field]) -> Label:
    """Return a name whose neighbouring texts are one."""
    found = list[str | Field]()
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str) and isinstance(last, str):
            found[-1] = last + part
        elif part != "":
            found.append(part)
    return Label(tuple(found) or ("",))


def assigned(
    statements: Sequence[Statement],
) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Return where each variable is first assigned, with its place, and last read."""
    first, last = dict[int, tuple[int, int]](), dict[int, int]()
    for at, statement in enumerate(statements):
        for place, n in enumerate(statement.targets):
            if n is not None:
                first.setdefault(n, (at, place))
        last |= dict.fromkeys(statement.uses, at)
    return first, last
