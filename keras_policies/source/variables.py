"""Names the variables in source code."""

import ast
import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_policies.source.objects import RESERVED, Names, automatic
from keras_policies.source.tree import Node, Statement, Variable

LONG = 24  # characters of a variable


def identifier(name: str) -> str:
    """Return the name of a variable that resembles the name of a layer."""
    text = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
    text = text[:LONG].strip("_") or "layer"
    return f"layer_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text


def names_of(
    statements: Sequence[Statement],
    ops: Sequence[Any],
    inputs: int,
    taken: Iterable[str],
    *,
    is_shared: bool = False,
) -> Mapping[int, str]:
    """Return names for the variables in statements, the results of `ops`.

    `x` is a tensor that only the next statement uses, or that one round of a loop
    passes to the next. `y` is used while that `x` is still needed. Other variables are
    named after their layers, or in loops and shared functions after their classes.
    """
    made, read = dict[int, int](), defaultdict[int, list[int]](list)
    ends, end = [0] * len(statements), len(statements)
    for at in reversed(range(len(statements))):
        ends[at] = end  # the next statement that is in no loop
        end = end if statements[at].inside else at
    for at, each in enumerate(statements):
        made |= dict.fromkeys(each.made, at)
        for n in each.uses:
            read[n].append(at)
    names, passed = dict[int, str](), dict[int, int]()  # end of a loop -> its `x`
    own, arguments = Names([*RESERVED, *taken]), Names()
    for n, at in made.items():
        each, end = statements[at], ends[at]
        if each.inside and min(read[n], default=end) <= at and end not in passed:
            if max(read[n]) <= end:
                names[n], passed[end] = "x", n
        elif {*read[n]} == {at + 1} and at >= inputs and len(each.made) == 1:
            following = statements[at + 1]
            is_end = following.kind in ("return", "model") and not is_shared
            is_first = each.targets[0] is not None
            is_output = is_end and is_first and not _is_indexed(n, following.value)
            names[n] = "outputs" if is_output else "x"
            if each.inside and (other := passed.get(end)) is not None:
                until = max(each for each in read[other] if each <= made[other])
                names[n] = "x" if until <= at <= made[other] else "y"
        if n not in names:
            kind = type(ops[n]).__name__
            is_class = each.inside or is_shared
            name = identifier(automatic(kind) if is_class else ops[n].name)
            is_function = name.startswith(("build_", "apply_block"))
            name = f"layer_{name}" if is_function else name
            names[n] = arguments.new("inputs") if inputs == 1 > at else own.new(name)
    return names


def _is_indexed(variable: int, node: Node) -> bool:
    keys = (each for each in ast.walk(node) if isinstance(each, ast.Subscript))
    values = (each.value for each in keys)
    return any(isinstance(x, Variable) and x.number == variable for x in values)
