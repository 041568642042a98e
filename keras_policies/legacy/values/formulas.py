"""Formulas as text: `"where(x > 0, dy, 0.0)"`.

They are Python expressions of values; operators and calls are functions of `keras.ops`.
"""

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keras_policies._common import syntax
from keras_policies.legacy.values.evaluator import evaluate

Formula: TypeAlias = Callable[[Mapping[str, Any]], Any]
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
def compiled(text: str) -> Formula:
    """Return a formula as a function of the values of its names."""
    return _compiled(syntax.expression(text))


def _compiled(node: ast.expr) -> Formula:
    keywords: list[ast.keyword] = []
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            value = ast.literal_eval(node)
            return lambda values: value
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.List(elts=operands):
            items = [*map(_compiled, operands)]
            return lambda values: [item(values) for item in items]
        case ast.BinOp(left=left, op=op, right=right):
            name, operands = OPERATORS[type(op)], [left, right]
        case ast.Compare(left=left, ops=[relation], comparators=[right]):
            name, operands = OPERATORS[type(relation)], [left, right]
        case ast.UnaryOp(op=sign, operand=operand):
            name, operands = OPERATORS[type(sign)], [operand]
        case ast.Call(func=function, args=operands, keywords=keywords):
            name = ast.unparse(function)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not part of a formula")
    args = [*map(_compiled, operands)]
    named = {str(each.arg): _compiled(each.value) for each in keywords}
    return lambda values: evaluate(
        name,
        *(arg(values) for arg in args),
        **{key: arg(values) for key, arg in named.items()},
    )
