"""Writes equal blocks of statements, wherever they are, as calls of one function."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, takewhile

from keras_policies.source.layout import call
from keras_policies.source.loops import MARK, NAME, reads, targets, uses, wiring

WORD = re.compile(r"(\{[^}]*\}|[\W_])")  # what separates the words of a name
SAVED = 3  # a function must save at least so many lines
HEAD = 3  # lines of a function besides its statements


def shared(
    lines: Sequence[str], first: int, write: Callable[[Sequence[str], str], str]
) -> list[str]:
    """Return statements, with functions for blocks that differ in one word of names.

    Blocks begin at line `first` or later. `write` gets the statements of a function,
    after one that assigns its tensors, and `name` if that is a parameter. It returns
    the name of the function.
    """
    for _, period, starts in sorted(_repeats(lines, first), reverse=True):
        if new := _with_function(lines, period, starts, write):
            return shared(new, first, write)
    return [*lines]


def _repeats(
    lines: Sequence[str], first: int
) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield `(lines saved, length, starts)` of blocks that are equal but for names."""
    skeletons = [NAME.sub(r"\1", MARK.sub("\0", line)) for line in lines]
    ends = {at for at, line in enumerate([*lines, "end"]) if line[0] != " "}
    starts: Sequence[int] = [at for at in sorted(ends) if at >= first]
    for period in range(2, len(lines) // 2 + 1):
        groups = defaultdict[object, list[int]](list)
        for at in starts:
            groups[tuple(skeletons[at : at + period])].append(at)
        starts = [at for group in groups.values() if len(group) > 1 for at in group]
        equal = defaultdict[object, list[int]](list)
        for at in sorted({*starts} & {end - period for end in ends}):
            end = at + period
            form = *skeletons[at:end], *wiring(lines[at:end]), *_results(lines, at, end)
            if not equal[form] or equal[form][-1] + period <= at:
                equal[form].append(at)
        for kept in equal.values():
            saved = len(kept) * (period - 1) - period - HEAD
            if saved >= SAVED:
                yield saved, period, kept


def _own(block: Sequence[str]) -> list[int]:
    """Return the variables that a block assigns."""
    return [*dict.fromkeys(chain(*map(targets, block)))]


def _results(lines: Sequence[str], start: int, end: int) -> list[int]:
    """Return the places of those variables of a block that later statements read."""
    later = {*chain(*map(uses, lines[end:]))}
    return [at for at, n in enumerate(_own(lines[start:end])) if n in later]


def _with_function(
    lines: Sequence[str],
    period: int,
    starts: Sequence[int],
    write: Callable[[Sequence[str], str], str],
) -> list[str] | None:
    """Return statements that call a function, or None if blocks cannot share one."""
    blocks = [lines[at : at + period] for at in starts]
    places = zip(wiring(blocks[0]), reads(blocks), strict=True)
    given = [*dict.fromkeys(values for place, values in places if place is None)]
    arguments = [[values[b] for values in given] for b in range(len(blocks))]
    own = [_own(block) for block in blocks]
    is_cut = any({*one} & {*other} for one, other in zip(arguments, own, strict=True))
    body, words = _renamed(blocks)
    if is_cut or not words or len({*arguments[0]}) < len(given):
        return None  # it cuts a loop from its start, or has two parameters in one
    places_out = _results(lines, starts[0], starts[0] + period)
    results = [_marked([each[at] for at in places_out]) for each in own]
    is_named = len({*words}) > 1
    head = f"{_marked(arguments[0])} = arguments"
    function = write([head, *body, f"return {results[0]}"], "name" * is_named)
    found = [*lines]
    calls = zip(starts, results, arguments, words, strict=True)
    for at, made, values, word in [*calls][::-1]:
        args = [*(_marked([n]) for n in values), *[f'"{word}"'] * is_named]
        found[at : at + period] = [f"{made} = {call(function, args)}"]
    return found


def _marked(variables: Sequence[int]) -> str:
    return ", ".join(f"\0{n}\0" for n in variables)


def common(parts: Iterable[Sequence[str]]) -> list[str]:
    """Return what all lists begin with."""
    equal = takewhile(lambda each: len({*each}) == 1, zip(*parts, strict=False))
    return [first for first, *_ in equal]


def _renamed(blocks: Sequence[Sequence[str]]) -> tuple[list[str], Sequence[str]]:
    """Return the first block with `{name}` in names, and the word of each block.

    There are no words if the names differ in more than one.
    """
    names = (chain(*map(NAME.findall, block)) for block in blocks)
    words = none = ("",) * len(blocks)
    texts = list[str]()
    for versions in zip(*names, strict=True):
        parts = [WORD.split(text) for _, text in versions]
        head = common(parts)
        ends = [part[len(head) :][::-1] for part in parts]
        tail = common(ends)
        found = tuple("".join(end[len(tail) :][::-1]) for end in ends)
        text, all_words = versions[0][1], "".join(found)
        is_plain = text[0] != "f"
        if any(found):
            is_code = '"' in all_words or (not is_plain and "{" in all_words)
            if is_code or words not in (none, found):
                return [], []
            words, outer = found, ["".join(head), "".join(tail[::-1])]
            if is_plain:
                outer = [x.replace("{", "{{").replace("}", "}}") for x in outer]
            text = "f" * is_plain + "{name}".join(outer)
        texts.append(text.replace('f"{name}"', "name"))
    new = iter(texts)
    body = [NAME.sub(lambda name: name[1] + next(new), line) for line in blocks[0]]
    return body, words
