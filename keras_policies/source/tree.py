"""Statements of a function as syntax trees, in which variables have no names yet.

Trees consist of `ast` nodes and a few leaves of our own, and are never changed: each
step returns new ones. `named_node` replaces the leaves before the text is made.
"""

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from keras_policies.source.errors import CannotWriteError

Node: TypeAlias = Any  # an `ast` node, a leaf, or a list of these
Field: TypeAlias = tuple[str, int]  # a variable in a name, and what is added to it
LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores"}  # fields without meaning


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable without a name."""

    number: int


@dataclasses.dataclass(frozen=True)
class Label:
    """The name of a layer or a model. Only loops and functions put fields into it."""

    parts: tuple[str | Field, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it may become an f-string: nothing in it needs an escape."""
        return all(
            x.isprintable() and not {*x} & {'"', "\\"}
            for x in self.parts
            if isinstance(x, str)
        )


@dataclasses.dataclass(frozen=True)
class OwnName:
    """The name of the model that a function builds: a parameter, or a constant."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that builds an inner model; it is called with the model's name."""

    name: str


@dataclasses.dataclass(frozen=True)
class Policy:
    """The name of a dtype policy in an argument `dtype`."""

    name: str


LEAVES = Variable, Label, OwnName, Function, Policy


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement in a function.

    `kind` is "=" (with numbers of variables as `targets`, None where nobody reads a
    result), "model" (an assignment to that variable), "return", "frozen", "for" (with
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
        return [x.number for x in leaves(self.value) if isinstance(x, Variable)]

    @functools.cached_property
    def labels(self) -> list[Label]:
        """The names in it that may become f-strings."""
        return [x for x in leaves(self.value) if isinstance(x, Label) and x.is_plain]

    def skeleton(self, label: Callable[[Label], Any]) -> object:
        """Return what is equal for statements with other variables and names."""

        def leaf(each: Any) -> Any:
            if isinstance(each, Variable):
                return Variable
            is_label = isinstance(each, Label) and each.is_plain
            return label(each) if is_label else each

        places = [n is None for n in self.targets]
        return self.kind, *places, self.inside, self.index, shape(self.value, leaf)

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


def leaves(node: Node) -> Iterator[Any]:
    """Yield the leaves of our own in a tree, in the order of the code."""
    if isinstance(node, LEAVES):
        yield node
    elif isinstance(node, list):
        for each in node:
            yield from leaves(each)
    elif isinstance(node, ast.AST):
        for _, value in ast.iter_fields(node):
            yield from leaves(value)


def replaced(node: Node, new: Callable[[Node], Node | None]) -> Node:
    """Return a tree with `new(node)` in place of each node for which it is not None."""
    if isinstance(node, list):
        return [replaced(each, new) for each in node]
    if not isinstance(node, (ast.AST, *LEAVES)):
        return node
    found = new(node)
    if found is not None or isinstance(node, LEAVES):
        return node if found is None else found
    fields = {name: replaced(value, new) for name, value in ast.iter_fields(node)}
    return type(node)(**fields)


def shape(node: Node, leaf: Callable[[Any], Any] = lambda each: each) -> Any:
    """Return a value that is equal for equal trees; `leaf` returns that of a leaf."""
    if isinstance(node, LEAVES):
        return leaf(node)
    if isinstance(node, list):
        return tuple(shape(each, leaf) for each in node)
    if not isinstance(node, ast.AST):
        return None if node is None else (type(node).__name__, repr(node))
    fields = ((name, shape(x, leaf)) for name, x in ast.iter_fields(node))
    told = (x for x in fields if x[0] not in LEFT_OUT and x[1] not in (None, ()))
    return type(node).__name__, *told


def dotted(name: str) -> Node:
    """Return the node of a name with dots that we chose, such as `keras.Input`."""
    first, *others = name.split(".")
    node: Node = ast.Name(first, ast.Load())
    for attribute in others:
        node = ast.Attribute(node, attribute, ast.Load())
    return node


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
