"""Writes equal blocks of statements as loops.

Until variables get names, each is a mark: a number between two NULs.
"""

import itertools
import re
from collections.abc import Sequence

MARK = re.compile("\0(\\d+)\0")
TARGETS = re.compile("(?:(?:\0\\d+\0|_)(?:, )?)+(?= = )")
NAME = re.compile(r'(\bname=|\bbuild_\w+\()("[^"\\]*")')
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


def _remarked(line: str, numbers: Sequence[int]) -> str:
    """Return a line with its variables replaced."""
    new = iter(numbers)
    return MARK.sub(lambda _: f"\0{next(new)}\0", line)


def _skeleton(line: str) -> object:
    """Return a statement without its variables and the numbers in names."""
    if line.startswith((" ", "for ")):
        return object()  # lines of a loop equal no other line
    code = MARK.sub("\0", line)
    return NAME.sub(lambda name: name[1] + NUMBER.sub("#", name[2]), code)


def _with_loop(
    lines: Sequence[str], start: int, period: int, times: int
) -> list[str] | None:
    """Return statements with a loop, or None if blocks differ in more than names."""
    end = start + times * period
    blocks = [lines[at : at + period] for at in range(start, end, period)]
    made = [[n for line in block for n in targets(line)] for block in blocks]
    places = {n: (b, at) for b, block in enumerate(made) for at, n in enumerate(block)}
    last = dict(zip(made[-1], made[0], strict=True))
    read_later = {n for line in lines[end:] for n in uses(line)}
    loop = _counted(blocks)
    if loop is None or read_later & (places.keys() - last.keys()):
        return None
    initial, count = dict[int, int](), 0  # before the loop; variables assigned so far
    for offset, versions in enumerate(zip(*blocks, strict=True), 1):
        new = targets(versions[0])
        for used in zip(*map(uses, versions), strict=True):
            # For each variable: how many blocks before this one, and its place there.
            first, *others = [
                (b - places[n][0], places[n][1]) if n in places else (None, n)
                for b, n in enumerate(used)
            ]
            back, at = others[0]
            variable = made[0][at] if back == 1 else used[0]
            if {*others} != {others[0]} or (back != 1 and first != others[0]):
                return None
            if back == 1 and (
                at < count or initial.setdefault(variable, used[0]) != used[0]
            ):
                return None  # it is already reassigned, or has two initial values
            new.append(variable)
        count += len(targets(versions[0]))
        loop[offset] = "    " + _remarked(loop[offset], new)
    before = [f"\0{n}\0 = \0{value}\0" for n, value in initial.items()]
    rest = [_remarked(x, [last.get(n, n) for n in _marks(x)]) for x in lines[end:]]
    return [*lines[:start], *before, *loop, *rest]


def _counted(blocks: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the head of a loop and its body: the first block, with `i` in its names.

    Return None if the numbers in the names do not count up together.
    """
    numbers = [
        [int(n) for line in block for name in NAME.findall(line) for n in _digits(name)]
        for block in blocks
    ]
    columns = [*zip(*numbers, strict=True)]
    steps = [{b - a for a, b in itertools.pairwise(each)} for each in columns]
    different = {step for each in steps for step in each} - {0}
    if (
        any(len(each) > 1 for each in steps)
        or len(different) > 1
        or min(different, default=1) < 0
    ):
        return None
    step = max(different, default=0)
    first = next(
        (c[0] for c, each in zip(columns, steps, strict=True) if 0 not in each), 0
    )
    texts = iter(
        str(values[0]) if 0 in each else _index(values[0] - first)
        for values, each in zip(columns, steps, strict=True)
    )

    def name(match: re.Match[str]) -> str:
        escaped = match[2].replace("{", "{{").replace("}", "}}")
        text = NUMBER.sub(lambda _: next(texts), escaped)
        return f"{match[1]}f{text}" if text != escaped else match[0]

    bounds = [first] * (first > 0 or step > 1)
    bounds += [first + step * len(blocks)] + [step] * (step > 1)
    head = f"for i in range({', '.join(map(str, bounds))}):"
    if not step:
        head = f"for _ in range({len(blocks)}):"
    return [head, *(NAME.sub(name, line) for line in blocks[0])]


def _digits(name: tuple[str, str]) -> list[str]:
    return NUMBER.findall(name[1])


def _index(offset: int) -> str:
    """Return the field of an f-string for `i` plus an offset."""
    sign = "-" if offset < 0 else "+"
    return f"{{i {sign} {abs(offset)}}}" if offset else "{i}"
