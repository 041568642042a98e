"""Writes equal blocks of statements, wherever they are, as calls of one function."""

import ast
import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from keras_policies.source.loops import Budget, facts_of, reads, wiring
from keras_policies.source.tree import (
    Field,
    Label,
    Node,
    Statement,
    Variable,
    assigned,
    call,
    joined,
    sequence,
)

WORD = re.compile(r"([\W_])")  # what separates the words of a name
SAVED = 3  # a function must save at least so many lines
HEAD = 3  # lines of a function besides its statements
Write = Callable[[Sequence[Statement], Sequence[str]], str]


def shared(
    statements: Sequence[Statement], first: int, write: Write, budget: Budget
) -> list[Statement]:
    """Return statements, with functions for blocks that differ in one word of names.

    Blocks begin at statement `first` or later. `write` gets the statements of a
    function, after one with its arguments, and `["name"]` if that is a parameter. It
    returns the name of the function.
    """
    _, last = assigned(statements)
    queue = [*_repeats(statements, first, budget)]
    heapq.heapify(queue)
    while queue and budget.left > 0:
        _, minus, starts = heapq.heappop(queue)
        length = -minus
        budget.left -= len(starts) * length
        equal = defaultdict[object, list[int]](list)
        for at in starts:
            form = tuple(_results(statements, at, at + length, last))
            if not equal[form] or equal[form][-1] + length <= at:
                equal[form].append(at)
        if [*equal.values()] != [starts]:
            queue_again = (_candidate(length, kept) for kept in equal.values())
            for each in filter(None, queue_again):
                heapq.heappush(queue, each)
        elif new := _with_function(statements, length, starts, last, write):
            return shared(new, first, write, budget)
    return [*statements]


def _candidate(length: int, starts: list[int]) -> tuple[int, int, list[int]] | None:
    """Return `(-lines that a function saves, -length, starts)`, or None if too few."""
    saved = len(starts) * (length - 1) - length - HEAD
    return (-saved, -length, starts) if saved >= SAVED else None


def _repeats(
    statements: Sequence[Statement], first: int, budget: Budget
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield `(-lines saved, -length, starts)` of blocks that are equal but for names.

    Blocks of one statement more are compared by the class of the shorter block and the
    new statement, whose variables are numbered from the start of the block.
    """
    facts = [*facts_of(statements, lambda each: each.form)]
    ends = {at for at, each in enumerate(statements) if not each.inside}
    ends.add(len(statements))
    classes: dict[int, int] = dict.fromkeys(sorted(x for x in ends if x >= first), 0)
    for length in range(1, len(statements) // 2 + 1):
        groups = defaultdict[object, list[int]](list)
        budget.left -= len(classes)
        if budget.left < 0 or not classes:
            return
        for at, shorter in classes.items():
            new = at + length - 1
            if new < len(statements):
                links = facts[new].links
                wires = (link if link[0] < length else None for link in links)
                groups[shorter, facts[new].kind, tuple(wires)].append(at)
        equal = [starts for starts in groups.values() if len(starts) > 1]
        classes = {at: n for n, starts in enumerate(equal) for at in starts}
        for starts in equal:
            whole = [at for at in starts if at + length in ends]
            if candidate := _candidate(length, whole):
                yield candidate


def _own(block: Sequence[Statement]) -> list[int]:
    """Return the variables that a block assigns."""
    return [*dict.fromkeys(n for each in block for n in each.made)]


def _results(
    statements: Sequence[Statement], start: int, end: int, last: dict[int, int]
) -> Iterator[int]:
    """Yield the places of those variables of a block that later statements read."""
    for place, n in enumerate(_own(statements[start:end])):
        if last.get(n, 0) >= end:
            yield place


def _with_function(
    statements: Sequence[Statement],
    length: int,
    starts: Sequence[int],
    last: dict[int, int],
    write: Write,
) -> list[Statement] | None:
    """Return statements that call a function, or None if blocks cannot share one."""
    blocks = [statements[at : at + length] for at in starts]
    places = zip(wiring(blocks[0]), reads(blocks), strict=True)
    given = [*dict.fromkeys(values for place, values in places if place is None)]
    arguments = [[values[b] for values in given] for b in range(len(blocks))]
    own = [_own(block) for block in blocks]
    is_cut = any({*one} & {*other} for one, other in zip(arguments, own, strict=True))
    body, words = _renamed(blocks)
    if is_cut or not words or len({*arguments[0]}) < len(given):
        return None  # it cuts a loop from its start, or has two parameters in one
    places_out = [*_results(statements, starts[0], starts[0] + length, last)]
    results = [[each[at] for at in places_out] for each in own]
    parameters = ["name"] if len({*words}) > 1 else []
    head = Statement(_read([]), tuple(arguments[0]), "arguments")
    end = Statement(_read(results[0]), kind="return")
    function = write([head, *body, end], parameters)
    found = [*statements]
    calls = zip(starts, results, arguments, words, strict=True)
    for at, made, values, word in [*calls][::-1]:
        args = [*map(Variable, values), *[ast.Constant(word) for _ in parameters]]
        found[at : at + length] = [Statement(call(function, args), tuple(made))]
    return found


def _read(variables: Sequence[int]) -> Node:
    """Return the node that reads variables: one, or a tuple."""
    if len(variables) == 1:
        return Variable(variables[0])
    return sequence(map(Variable, variables), is_tuple=True)


def common(parts: Iterable[Sequence[Any]]) -> list[Any]:
    """Return what all lists begin with."""
    equal = takewhile(lambda each: len({*each}) == 1, zip(*parts, strict=False))
    return [first for first, *_ in equal]


def _renamed(
    blocks: Sequence[Sequence[Statement]],
) -> tuple[list[Statement], Sequence[str]]:
    """Return the first block with the field `name` in names, and each block's word.

    There are no words if the names differ in more than one.
    """
    names = [[label for each in block for label in each.labels] for block in blocks]
    words = none = ("",) * len(blocks)
    labels = list[Label]()
    for versions in zip(*names, strict=True):
        parts = [_words(label) for label in versions]
        head = common(parts)
        ends = [part[len(head) :][::-1] for part in parts]
        tail = common(ends)
        middles = [end[len(tail) :][::-1] for end in ends]
        label = versions[0]
        if any(middles):
            if not all(isinstance(x, str) for middle in middles for x in middle):
                return [], []
            found = tuple("".join(map(str, middle)) for middle in middles)
            if words not in (none, found):
                return [], []
            words, label = found, joined([*head, ("name", 0), *tail[::-1]])
        labels.append(label)
    new = iter(labels)
    body = [each.rewritten(each.uses, new) for each in blocks[0]]
    return body, words


def _words(label: Label) -> list[str | Field]:
    """Split a name into words, what separates them, and fields."""
    return [
        word
        for part in label.parts
        for word in (WORD.split(part) if isinstance(part, str) else [part])
        if word != ""
    ]
