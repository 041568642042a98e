"""Writes equal blocks of statements as loops.

Until variables get names, each is a mark: a number between two NULs.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise

MARK = re.compile("\0(\\d+)\0")
TARGETS = re.compile("(?:(?:\0\\d+\0|_)(?:, )?)+(?= = )")
NAME = re.compile(r'(\bname=|\bbuild_\w+\()(f?"[^"\\]*")')
NUMBER = re.compile(r"(?<!\d)(?:0|[1-9]\d*)(?!\d)")
SAVED = 3  # a loop must save at least so many statements


def folded(lines: Sequence[str]) -> list[str]:
    """Return statements, with loops for blocks that differ only in names.

    Names such as `dense_1` and `dense_2` become `f"dense_{i}"`. A value that each block
    takes from the one before becomes a variable, which is assigned before the loop.
    """
    skeletons = [_skeleton(line) for line in lines]
    best, size = [*lines], len(lines) - SAVED + 1
    for period in range(1, len(lines) // 2 + 1):
        equal = 0
        for start in reversed(range(len(lines) - period)):
            equal = equal + 1 if skeletons[start] == skeletons[start + period] else 0
            for times in range(equal // period + 1, 1, -1):
                if len(lines) - (times - 1) * period + 1 >= size:
                    break  # a shorter form was found already
                loop = _with_loop(lines, start, period, times)
                if loop and len(loop) < size:
                    best, size = loop, len(loop)
                    break
    return folded(best) if len(best) < len(lines) else best


def targets(line: str) -> list[int]:
    """Return the variables that a statement assigns to."""
    match = TARGETS.match(line.lstrip(" "))
    return _marks(match[0]) if match else []


def uses(line: str) -> list[int]:
    """Return the variables that a statement reads."""
    return _marks(line)[len(targets(line)) :]


def _marks(text: str) -> list[int]:
    return [int(number) for number in MARK.findall(text)]


def remarked(line: str, numbers: Sequence[int]) -> str:
    """Return a line with its variables replaced."""
    new = iter(numbers)
    return MARK.sub(lambda _: f"\0{next(new)}\0", line)


def _skeleton(line: str) -> object:
    """Return a statement without its variables and the numbers in names."""
    if line.startswith((" ", "for ")):
        return object()  # lines of a loop equal no other line
    code = MARK.sub("\0", line)
    return NAME.sub(lambda name: name[1] + NUMBER.sub("#", name[2]), code)


def wiring(block: Sequence[str]) -> list[int | None]:
    """Return, for each variable that a block reads, its place among the block's own."""
    places, found = dict[int, int](), list[int | None]()
    for line in block:
        found += map(places.get, uses(line))
        for n in targets(line):
            places.setdefault(n, len(places))
    return found


def reads(blocks: Sequence[Sequence[str]]) -> Iterator[tuple[int, ...]]:
    """Yield, for each variable that equal blocks read, the one of each block."""
    return zip(*(chain(*map(uses, block)) for block in blocks), strict=True)


def _with_loop(
    lines: Sequence[str], start: int, period: int, times: int
) -> list[str] | None:
    """Return statements with a loop, or None if blocks differ in more than names."""
    end = start + times * period
    blocks = [lines[at : at + period] for at in range(start, end, period)]
    made = [[*chain(*map(targets, block))] for block in blocks]
    last = dict(zip(made[-1], made[0], strict=True))
    loop, places = _counted(blocks), wiring(blocks[0])
    lost = {*chain(*map(uses, lines[end:]))} & ({*chain(*made)} - last.keys())
    if loop is None or lost or any(wiring(block) != places for block in blocks):
        return None
    initial, count = dict[int, int](), 0  # before the loop; variables assigned so far
    read = zip(places, reads(blocks), strict=True)
    for offset, line in enumerate(blocks[0], 1):
        new = targets(line)
        for place, (first, *others) in islice(read, len(uses(line))):
            if place is None and {*others} != {first}:  # from the block before
                pairs = zip(made, others, strict=False)
                (at, *different) = {
                    each.index(n) if n in each else -1 for each, n in pairs
                }
                # It must not be reassigned yet, nor have two initial values.
                if different or at < count:
                    return None
                variable = made[0][at]
                if initial.setdefault(variable, first) != first:
                    return None
                first = variable
            new.append(first)
        count += len(targets(line))
        loop[offset] = "    " + remarked(loop[offset], new)
    before = [f"\0{n}\0 = \0{value}\0" for n, value in initial.items()]
    rest = [remarked(x, [last.get(n, n) for n in _marks(x)]) for x in lines[end:]]
    return [*lines[:start], *before, *loop, *rest]


def _counted(blocks: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the head of a loop and its body: the first block, with `i` in its names.

    Return None if the numbers in the names do not count up together.
    """
    numbers = (
        [int(n) for line in block for name in NAME.findall(line) for n in _digits(name)]
        for block in blocks
    )
    columns = [*zip(*numbers, strict=True)]
    counted = [column for column in columns if len({*column}) > 1]
    steps = {b - a for column in counted for a, b in pairwise(column)}
    if len(steps) > 1 or min(steps, default=1) < 0:
        return None
    step, first = max(steps, default=1), counted[0][0] if counted else 0
    texts = iter(
        _index(column[0] - first) if column in counted else str(column[0])
        for column in columns
    )

    def name(match: re.Match[str]) -> str:
        escaped = match[2].replace("{", "{{").replace("}", "}}")
        text = NUMBER.sub(lambda _: next(texts), escaped)
        return f"{match[1]}f{text}" if text != escaped else match[0]

    text = repr(range(first, first + step * len(blocks), step))
    bounds = text.replace("range(0, ", "range(") if step == 1 else text
    head = f"for {'i' if counted else '_'} in {bounds}:"
    return [head, *(NAME.sub(name, line) for line in blocks[0])]


def _digits(name: tuple[str, str]) -> list[str]:
    return NUMBER.findall(name[1])


def _index(offset: int) -> str:
    """Return the field of an f-string for `i` plus an offset."""
    sign = "-" if offset < 0 else "+"
    return f"{{i {sign} {abs(offset)}}}" if offset else "{i}"
