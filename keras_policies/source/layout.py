"""Makes the text of a syntax tree, and splits long lines as ruff does."""

import ast
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, Union

from keras_policies.source.tree import Node, Variable

WIDTH, INDENT = 88, 4
SIGNS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"},
    **{ast.FloorDiv: "//", ast.Pow: "**", ast.MatMult: "@"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}
Text: TypeAlias = list[Union[str, "Group"]]


class Group(NamedTuple):
    """Brackets and what is between their commas."""

    start: str
    parts: list[Text]
    end: str
    is_one: bool = False  # whether it is a tuple of one item


def lines(statements: Sequence[ast.stmt], indent: int = 0) -> Iterator[str]:
    """Yield the lines of statements, with at most 88 columns as far as possible."""
    margin = " " * indent
    for node in statements:
        if isinstance(node, ast.FunctionDef):
            yield from ("", "")
        text = _statement(node)
        yield from f"{margin}{_split(text, indent)}".split("\n")
        yield from lines(getattr(node, "body", ()), indent + INDENT)


def shown(node: Node) -> str:
    """Return the text of an expression or a statement, in one line."""
    return _flat(_statement(node) if isinstance(node, ast.stmt) else _text(node))


def _statement(node: ast.stmt) -> Text:
    match node:
        case ast.Assign(targets=[target], value=value):
            return [*_bare(target), " = ", *_text(value)]
        case ast.Return(value=value):
            return ["return ", *_bare(value)]
        case ast.For(target=target, iter=value):
            return ["for ", *_text(target), " in ", *_text(value), ":"]
        case ast.FunctionDef(name=name, args=arguments):
            return [f"def {name}({', '.join(a.arg for a in arguments.args)}):"]
        case ast.With(items=[ast.withitem(context_expr=value, optional_vars=target)]):
            return ["with ", *_text(value), " as ", *_text(target), ":"]
        case ast.Import() | ast.ImportFrom():
            return [ast.unparse(node)]
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return [f'"""{text}"""']
        case ast.Expr(value=value):
            return _text(value)
    raise TypeError(f"a {type(node).__name__} is not a statement of a model")


def _bare(node: Node) -> Text:
    """Return a tuple without brackets."""
    is_bare = isinstance(node, ast.Tuple) and len(node.elts) > 1
    return [", ".join(map(shown, node.elts))] if is_bare else _text(node)


def _text(node: Node) -> Text:
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Constant(value=value):
            return [_literal(value)]
        case ast.Attribute(value=value, attr=name):
            return [*_text(value), f".{name}"]
        case ast.keyword(arg=name, value=value):
            return [f"{name}=", *_text(value)]
        case ast.Call(func=function, args=args, keywords=keywords):
            parts = [*map(_text, args), *map(_text, keywords)]
            return [*_text(function), Group("(", parts, ")")]
        case ast.List(elts=items):
            return [Group("[", [*map(_text, items)], "]")]
        case ast.Tuple(elts=items):
            return [Group("(", [*map(_text, items)], ")", len(items) == 1)]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(map(_text, keys), map(_text, values), strict=True)
            return [Group("{", [[*key, ": ", *value] for key, value in pairs], "}")]
        case ast.JoinedStr(values=values):
            return [f'f"{"".join(map(_piece, values))}"']
        case ast.Subscript(value=value, slice=key):
            return [*_text(value), f"[{_key(key)}]"]
        case ast.UnaryOp(op=ast.USub(), operand=value):
            return ["-", *_text(value)]
        case ast.BinOp(left=left, op=sign, right=right):
            space = "" if isinstance(sign, ast.Pow) and is_simple(left, right) else " "
            between = f"{space}{SIGNS[type(sign)]}{space}"
            return [*_text(left), between, *_text(right)]
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return [*_text(left), f" {SIGNS[type(sign)]} ", *_text(right)]
    raise TypeError(f"a {type(node).__name__} is not a part of a model's code")


def is_simple(*nodes: Node) -> bool:
    """Return whether ruff writes no spaces around ** between these."""
    values = (x.operand if isinstance(x, ast.UnaryOp) else x for x in nodes)
    return all(map(_is_atom, values))


def _is_atom(node: Node) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    atoms = ast.Name, ast.Constant, ast.Attribute, Variable
    return isinstance(node, atoms) and not is_text


def _literal(value: Any) -> str:
    text = "..." if value is ... else repr(value)
    if isinstance(value, float):
        return re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", text)
    if isinstance(value, str) and text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def _piece(node: Any) -> str:
    """Return a part of an f-string; its texts need no escapes but those of braces."""
    if isinstance(node, ast.Constant):
        return str(node.value).replace("{", "{{").replace("}", "}}")
    return f"{{{shown(node.value)}}}"


def _key(node: Node) -> str:
    if isinstance(node, ast.Tuple):
        comma = "," * (len(node.elts) == 1)
        return ", ".join(map(_key, node.elts)) + comma or "()"
    if not isinstance(node, ast.Slice):
        return shown(node)
    ends = ["" if x is None else shown(x) for x in (node.lower, node.upper)]
    return ":".join([*ends, *([] if node.step is None else [shown(node.step)])])


def _flat(text: Text) -> str:
    return "".join(x if isinstance(x, str) else _closed(x) for x in text)


def _closed(group: Group) -> str:
    comma = "," * group.is_one
    return f"{group.start}{', '.join(map(_flat, group.parts))}{comma}{group.end}"


def _split(text: Text, indent: int, after: int = 0) -> str:
    """Split a text at its longest brackets; keep `after` columns free at the end."""
    flat = _flat(text)
    # East Asian characters take two columns.
    columns = sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in flat)
    sizes = {
        at: len(_closed(x))
        for at, x in enumerate(text)
        if isinstance(x, Group) and x.parts
    }
    if indent + columns + after <= WIDTH or not sizes:
        return flat
    at = max(sizes, key=sizes.__getitem__)
    group: Any = text[at]
    margin = " " * (indent + INDENT)
    parts = (f"{margin}{_split(p, indent + INDENT, 1)},\n" for p in group.parts)
    head, tail = _split(text[:at], indent, 1), _split(text[at + 1 :], indent, 1)
    ending = f"{''.join(parts)}{' ' * indent}{group.end}"
    return f"{head}{group.start}\n{ending}{tail}"
