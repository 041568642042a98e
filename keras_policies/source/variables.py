"""Names the variables in source code."""

import keyword
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from keras_policies.source.loops import MARK, targets, uses
from keras_policies.source.objects import automatic, unique

RESERVED = {
    *("keras", "layers", "ops", "np", "pathlib", "inputs", "outputs", "name", "model"),
    *("x", "y", "i", "apply_block"),
}
LONG = 24  # characters of a variable


def identifier(name: str) -> str:
    """Return the name of a variable that resembles the name of a layer."""
    text = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
    text = text[:LONG].strip("_") or "layer"
    return f"layer_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text


def named(
    lines: Sequence[str], ops: Sequence[Any], inputs: int, *, is_shared: bool = False
) -> list[str]:
    """Return statements with names for their variables, the results of `ops`.

    `x` is a tensor that only the next statement uses, or that one round of a loop
    passes to the next. `y` is used while that `x` is still needed. Other variables are
    named after their layers, or in loops and shared functions after their classes.
    """
    made, read = dict[int, int](), defaultdict[int, set[int]](set)
    for at, line in enumerate(lines):
        made |= dict.fromkeys(targets(line), at)
        for n in uses(line):
            read[n].add(at)
    names, passed = dict[int, str](), dict[int, int]()  # end of a loop -> its `x`
    for n, at in made.items():
        line, body = lines[at], lines[at][0] == " "
        end = next(e for e in range(at + 1, len(lines)) if lines[e][0] != " ")
        if body and min(read[n], default=end) <= at and end not in passed:
            if {*read[n]} <= {*range(end + 1)}:
                names[n], passed[end] = "x", n
        elif read[n] == {at + 1} and at >= inputs and len(targets(line)) == 1:
            ending = lines[at + 1].startswith(("return ", "model = "))
            is_plain = f"\0{n}\0[" not in lines[at + 1] and line[0] != "_"
            names[n] = "outputs" if ending and is_plain and not is_shared else "x"
            if body and (other := passed.get(end)) is not None:
                until = max(each for each in read[other] if each <= made[other])
                names[n] = "x" if until <= at <= made[other] else "y"
        if n not in names:
            kind = type(ops[n]).__name__
            name = automatic(kind) if body or is_shared else ops[n].name
            own = unique(identifier(name), {*RESERVED, *names.values()})
            names[n] = unique("inputs", names.values()) if inputs == 1 > at else own
    found = [MARK.sub(lambda mark: names[int(mark[1])], line) for line in lines]
    return [line for line in found if not re.fullmatch(r"(\w+) = \1", line)]
