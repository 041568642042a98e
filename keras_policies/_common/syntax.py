"""Syntax trees of Python code."""

import ast
import threading

_parsing = threading.RLock()


def parse(text: str) -> ast.Module:
    """Return what `ast.parse` does, in one thread at a time.

    Before Python 3.11.8 and 3.12.2, threads count the depth of their trees together:
    "SystemError: AST constructor recursion depth mismatch"
    (https://github.com/python/cpython/issues/106905).
    """
    with _parsing:
        return ast.parse(text)


def expression(text: str) -> ast.expr:
    """Return the tree of an expression.

    Example:
        >>> ast.literal_eval(expression("-1"))
        -1
    """
    (statement,) = parse(text).body
    assert isinstance(statement, ast.Expr)
    return statement.value
