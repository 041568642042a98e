"""Formulas as text: `"where(x > 0, dy, 0.0)"`.

They are Python expressions. Names are values; operators and calls are functions of
`keras.ops`.
"""

import ast
import functools
from collections.abc import Mapping
from typing import Any

from keras_policies.legacy.values.evaluator import evaluate

OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Div: "divide",
    ast.Eq: "equal",
    ast.FloorDiv: "floor_divide",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Mult: "multiply",
    ast.NotEq: "not_equal",
    ast.Pow: "power",
    ast.Sub: "subtract",
    ast.USub: "negative",
}


@functools.cache
def parsed(text: str) -> ast.expr:
    """Return the syntax tree of a formula."""
    return ast.parse(text, mode="eval").body


def compute(text: str, values: Mapping[str, Any]) -> Any:
    """Return the result of a formula for the values of its names."""
    return _computed(parsed(text), values)


def _computed(node: ast.expr, values: Mapping[str, Any]) -> Any:
    def each(*nodes: ast.expr) -> list[Any]:
        return [_computed(one, values) for one in nodes]

    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return ast.literal_eval(node)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return evaluate(OPERATORS[type(op)], *each(left, right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return evaluate(OPERATORS[type(op)], *each(left, right))
        case ast.UnaryOp(op=op, operand=operand):
            return evaluate(OPERATORS[type(op)], *each(operand))
        case ast.Call(func=function, args=args, keywords=keywords):
            named = {str(each.arg): _computed(each.value, values) for each in keywords}
            return evaluate(ast.unparse(function), *each(*args), **named)
        case ast.List(elts=items):
            return each(*items)
    raise ValueError(f"{ast.unparse(node)!r} is not part of a formula")
