"""Writes equal blocks of statements as loops.

Blocks are found by hashes of statements, and those of 2, 4, 8, … statements: a block
that repeats after `period` statements begins with such a window, which was seen
`period` statements before. So the work grows as n log n.
"""

import dataclasses
import heapq
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise

from keras_policies.source.tree import (
    Field,
    Label,
    Statement,
    Variable,
    assigned,
    call,
    joined,
    literal,
)

NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,8})(?![0-9])")
SAVED = 3  # a loop must save at least so many statements
RECENT = 3  # places of a window that are remembered
Link = tuple[int, int]  # how many statements before, and which of its results


@dataclasses.dataclass
class Budget:
    """Statements that may still be compared; then the code stays as it is."""

    left: int

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> "Budget":
        """Return the budget of a function: n log n, and enough for a small one."""
        count = len(statements) + 1
        return cls(20_000 + 40 * count * count.bit_length())


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is compared of a statement."""

    kind: int  # equal for statements that differ in variables and names only
    uses: Sequence[int]
    links: Sequence[Link]  # where these were assigned
    numbers: Sequence[int]  # in names


def folded(statements: Sequence[Statement], budget: Budget) -> list[Statement]:
    """Return statements, with loops for blocks that differ only in names.

    Names such as `dense_1` and `dense_2` become `f"dense_{i}"`. A value that each block
    takes from the one before becomes a variable, which is assigned before the loop.
    """
    found, variables, end = list[Statement](), dict[int, int](), 0
    budget.left -= len(statements)
    for loop in _loops(statements, budget):
        found += [*statements[end : loop.start], *loop.written()]
        variables |= loop.renamed
        end = loop.end
    if not end:
        return [*statements]
    found += statements[end:]
    later = (
        each.rewritten(variables.get(n, n) for n in each.uses)
        if variables.keys() & {*each.uses}
        else each
        for each in found
    )
    return folded([*later], budget)


def wiring(block: Sequence[Statement]) -> list[int | None]:
    """Return, for each variable that a block reads, its place among the block's own."""
    places, found = dict[int, int](), list[int | None]()
    for each in block:
        found += map(places.get, each.uses)
        for n in each.made:
            places.setdefault(n, len(places))
    return found


def reads(blocks: Sequence[Sequence[Statement]]) -> Iterator[tuple[int, ...]]:
    """Yield, for each variable that equal blocks read, the one of each block."""
    uses = (chain(*(each.uses for each in block)) for block in blocks)
    return zip(*uses, strict=True)


@dataclasses.dataclass(frozen=True)
class _Loop:
    """A loop in place of equal blocks of statements, which is not written yet."""

    start: int
    blocks: Sequence[Sequence[Statement]]
    index: Sequence[int]  # its first number, the end and the step
    numbers: Sequence[int | None]  # in names: index + number, or None: as in the first
    initial: dict[int, int]  # variables that are assigned before it, with their values
    uses: Sequence[int]  # what its statements read

    @property
    def end(self) -> int:
        return self.start + len(self.blocks) * len(self.blocks[0])

    @property
    def saved(self) -> int:
        """How many statements it saves."""
        return self.end - self.start - len(self.initial) - 1 - len(self.blocks[0])

    @property
    def renamed(self) -> dict[int, int]:
        """The variables after it that it renames."""
        made = ([n for each in block for n in each.made] for block in self.blocks)
        first, *_, last = made
        return dict(zip(last, first, strict=True))

    def written(self) -> list[Statement]:
        """Return its statements: the first block, with `i` in its names."""
        added = iter(self.numbers)

        def named(label: Label) -> Label:
            parts = list[str | Field]()
            for part in label.parts:
                for at, text in enumerate(_pieces(part)):
                    number = next(added) if at % 2 else None
                    parts.append(text if number is None else ("i", number))
            return joined(parts)

        first, end, step = self.index
        ends = [first, end, step] if step > 1 else [first, end] if first else [end]
        index = "_" if {*self.numbers} <= {None} else "i"
        head = Statement(call("range", map(literal, ends)), kind="for", index=index)
        read = iter(self.uses)
        before = [Statement(Variable(x), (n,)) for n, x in self.initial.items()]
        inside = (
            x.rewritten(islice(read, len(x.uses)), map(named, x.labels), inside=True)
            for x in self.blocks[0]
        )
        return [*before, head, *inside]


def _loops(statements: Sequence[Statement], budget: Budget) -> list[_Loop]:
    """Return loops that do not overlap, those that save most first chosen, in order."""
    _, last = assigned(statements)
    facts = [*facts_of(statements, _kind)]
    found = _candidates(statements, facts, last, budget)
    queue = [(-saved, *rest) for saved, *rest in found]
    heapq.heapify(queue)
    loops, covered = list[_Loop](), bytearray(len(statements))
    while queue and budget.left > 0:
        cost, period, minus, times = heapq.heappop(queue)
        start, end = -minus, period * times - minus
        if any(covered[start:end]):
            continue
        budget.left -= end - start
        loop = _loop(statements, facts, last, start, period, times)
        saved = None if loop is None else loop.saved
        if loop is None and times > 2:
            saved, times = _saved(period, times - 1), times - 1
        elif loop is not None and saved == -cost:
            loops.append(loop)
            covered[start:end] = b"\1" * (end - start)
            continue
        if saved is not None and saved >= SAVED:
            heapq.heappush(queue, (-saved, period, minus, times))
    return sorted(loops, key=lambda each: each.start)


def _saved(period: int, times: int) -> int:
    return (times - 1) * period - 1


def _candidates(
    statements: Sequence[Statement],
    facts: Sequence[Facts],
    last: dict[int, int],
    budget: Budget,
) -> Iterator[tuple[int, int, int, int]]:
    """Yield `(statements saved at most, period, -start, times)` of possible loops."""
    readers = [
        max((last.get(n, 0) for n in each.made), default=0) for each in statements
    ]
    for period, starts in _periods([each.kind for each in facts]).items():
        done = 0
        for at in sorted(starts):
            if at >= done:
                first, done = _run(facts, at, period, budget)
                yield from _phases(facts, readers, first, done, period)


def facts_of(
    statements: Sequence[Statement], kind: Callable[[Statement], object]
) -> Iterator[Facts]:
    """Yield facts about statements, of which those of one `kind` are alike."""
    places, _ = assigned(statements)
    kinds = dict[object, int]()
    for at, each in enumerate(statements):
        links = [(at - places[n][0], places[n][1]) for n in each.uses]
        numbers = [*map(int, chain(*map(_digits, each.labels)))]
        number = kinds.setdefault(kind(each), len(kinds))
        yield Facts(number, each.uses, links, numbers)


def _kind(statement: Statement) -> object:
    """Return what is equal for statements that differ in numbers of names only."""
    if statement.inside or statement.kind == "for":
        return object()  # equal to no other
    return statement.form, *map(_without_numbers, statement.labels)


def _periods(kinds: Sequence[int]) -> dict[int, set[int]]:
    """Return `{period: places}` where a window of statements comes again after it."""
    found, classes, length = defaultdict[int, set[int]](set), [*kinds], 1
    while 2 * length <= len(kinds):
        recent = defaultdict[int, deque[int]](lambda: deque(maxlen=RECENT))
        for at, each in enumerate(classes):
            for before in recent[each]:
                if at - before >= length:
                    found[at - before].add(before)
            recent[each].append(at)
        pairs, ids = zip(classes, classes[length:], strict=False), dict[object, int]()
        classes = [ids.setdefault(pair, len(ids)) for pair in pairs]
        length *= 2
    return found


def _run(
    facts: Sequence[Facts], at: int, period: int, budget: Budget
) -> tuple[int, int]:
    """Return the first and the last statement that may be repeated after a period."""
    first, end, step = at, at, 0
    while end + period < len(facts):
        new = _step(facts[end], facts[end + period], period, step)
        if new is None:
            break
        end, step = end + 1, new
    while end > at and first > 0:
        new = _step(facts[first - 1], facts[first - 1 + period], period, step)
        if new is None:
            break
        first, step = first - 1, new
    budget.left -= end - first + 1
    return first, end


def _step(one: Facts, other: Facts, period: int, known: int) -> int | None:
    """Return the step of numbers in names, 0 if it is not known; None if unequal."""
    if one.kind != other.kind:
        return None
    pairs = zip(one.uses, other.uses, other.links, strict=True)
    if any(n != m and link[0] > period for n, m, link in pairs):
        return None
    both = zip(one.numbers, other.numbers, strict=True)
    steps = ({b - a for a, b in both} | {known}) - {0}
    step = max(steps, default=0)
    return step if len(steps) < 2 and step >= 0 else None


def _phases(
    facts: Sequence[Facts], readers: Sequence[int], first: int, end: int, period: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the possible loops whose first block begins in a run.

    A variable that is read after more than a period has to be in the last block, and
    after the first block, all are wired alike.
    """
    late, other = math.inf, math.inf  # the next statement with such a variable; unlike
    others = dict[int, float]()
    for start in range(end - 1, first - 1, -1):
        late = start if readers[start] - start > period else late
        one, two = facts[start], facts[start + period]
        links = zip(one.uses, two.uses, one.links, two.links, strict=True)
        is_alike = all(n == m or a == b for n, m, a, b in links)
        other = other if is_alike else start
        others[start] = other
        unlike = max(others.get(start + period, math.inf), start + period)
        limit = min(end + period, late + period, unlike + period)
        times = int(limit - start) // period
        if times > 1 and _saved(period, times) >= SAVED:
            yield _saved(period, times), period, -start, times


def _loop(
    statements: Sequence[Statement],
    facts: Sequence[Facts],
    last: dict[int, int],
    start: int,
    period: int,
    times: int,
) -> _Loop | None:
    """Return a loop, or None if its blocks differ in more than names."""
    end = start + times * period
    places = range(start, end, period)
    blocks = [statements[at : at + period] for at in places]
    made = [[n for each in block for n in each.made] for block in blocks]
    is_lost = any(last.get(n, 0) >= end for n in {*chain(*made)} - {*made[-1]})
    counted = _counted(
        [[n for each in facts[at : at + period] for n in each.numbers] for at in places]
    )
    wires = wiring(blocks[0])
    if counted is None or is_lost or any(wiring(block) != wires for block in blocks):
        return None
    initial, uses = dict[int, int](), list[int]()
    sums = accumulate((len(each.made) for each in blocks[0]), initial=0)
    pairs = zip(sums, blocks[0], strict=False)
    counts = (count for count, each in pairs for _ in each.uses)  # assigned before
    for count, place, (first, *others) in zip(
        counts, wires, reads(blocks), strict=True
    ):
        if place is None and {*others} != {first}:  # from the block before
            at, *different = {
                each.index(n) if n in each else -1
                for each, n in zip(made, others, strict=False)
            }
            # It must not be reassigned yet, nor have two initial values.
            if (
                different
                or at < count
                or initial.setdefault(made[0][at], first) != first
            ):
                return None
            first = made[0][at]
        uses.append(first)
    return _Loop(start, blocks, *counted, initial, uses)


def _counted(
    blocks: Sequence[Sequence[int]],
) -> tuple[Sequence[int], Sequence[int | None]] | None:
    """Return the index of a loop over blocks with these numbers in names, and them.

    Return None if the numbers do not count up together.
    """
    columns = [*zip(*blocks, strict=True)]
    counted = [column for column in columns if len({*column}) > 1]
    steps = {b - a for column in counted for a, b in pairwise(column)}
    if len(steps) > 1 or min(steps, default=1) < 0:
        return None
    step, first = max(steps, default=1), counted[0][0] if counted else 0
    numbers = [x[0] - first if len({*x}) > 1 else None for x in columns]
    return (first, first + step * len(blocks), step), numbers


def _pieces(part: object) -> list[str]:
    """Split a part of a name into texts and numbers in turn."""
    return NUMBER.split(part) if isinstance(part, str) else []


def _digits(label: Label) -> list[str]:
    return [number for part in label.parts for number in _pieces(part)[1::2]]


def _without_numbers(label: Label) -> tuple[str, ...]:
    return tuple(text for part in label.parts for text in _pieces(part)[::2])
