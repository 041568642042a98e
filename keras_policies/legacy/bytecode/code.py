"""`Code`, a compiled Python function as plain values, and the Python that compiled it.

The file does not name the version. The layout of a marshalled code object tells four
groups of versions apart (see `marshalled.py`), its instructions and its line table the
others that matter here.
"""

import dataclasses
from collections.abc import Iterator

# Keys of the tables in `instructions.py`, and the versions that each stands for.
VERSIONS = {
    "2.7": "2.7",
    "3.5": "3.5 or earlier",
    "3.6": "3.6 or 3.7",
    "3.8": "3.8 or 3.9",
    "3.10": "3.10",
    "3.11": "3.11",
    "3.12": "3.12",
}
RETURN_VALUE = 83  # in all of them
# The instructions that begin every function of Python 3.11 and 3.12.
RESUME, BEFORE_RESUME = 151, (149, 135)
ONLY_3_12 = 26, 121, 143  # BINARY_SLICE, RETURN_CONST, LOAD_FAST_AND_CLEAR
# Instructions whose inline caches tell Python 3.11 from 3.12: the number of entries.
CACHES = {
    "3.11": {25: 4, 92: 1, 106: 4, 107: 2, 116: 5, 122: 1, 166: 1, 171: 4},
    "3.12": {25: 1, 92: 1, 106: 9, 107: 1, 116: 4, 122: 1, 171: 3},
}


@dataclasses.dataclass(frozen=True)
class Code:
    """A compiled function.

    Args:
        python: the key in `VERSIONS` of the Python that compiled it.
        name: of the function, `"<lambda>"` for most.
        arguments: the number of its positional parameters.
        keyword_only: the number of its keyword-only parameters.
        flags: bits; see `has_rest`.
        instructions: the bytes.
        constants: plain values, and the `Code` of functions inside the function.
        names: of globals and attributes.
        local: the names of local variables, the parameters first. In Python 3.11 and
            later those of cells and free variables follow.
        cells: the names of variables that inner functions share.
        free: the names of variables of the function around it.
    """

    python: str
    name: str
    arguments: int
    keyword_only: int
    flags: int
    instructions: bytes
    constants: tuple[object, ...]
    names: tuple[str, ...]
    local: tuple[str, ...]
    cells: tuple[str, ...]
    free: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters, without `*args` and `**kwargs`."""
        return self.local[: self.arguments + self.keyword_only]

    @property
    def has_rest(self) -> bool:
        """Return whether it takes `*args` or `**kwargs`, or is a generator."""
        return bool(self.flags & (0x04 | 0x08 | 0x20 | 0x80 | 0x200))


def python_of(layout: str, instructions: bytes, lines: bytes) -> str:
    """Return the key in `VERSIONS`, or raise ValueError if it is none of these.

    `layout` is the oldest version with this layout, `lines` the line table.
    """
    if layout == "2.7" or not instructions:
        return layout
    if layout == "3.5":
        return "3.5" if instructions[-1] == RETURN_VALUE else "3.6"
    if layout == "3.8":  # a line table of 3.10 accounts for every instruction
        return "3.10" if sum(lines[::2]) == len(instructions) else "3.8"
    start = instructions[0:8:2]
    if RESUME not in start or start[0] not in (RESUME, *BEFORE_RESUME):
        raise ValueError("the code of a Python after 3.12")
    is_3_11 = _has_caches(instructions, CACHES["3.11"])
    return "3.11" if is_3_11 and not {*ONLY_3_12} & {*instructions[::2]} else "3.12"


def _has_caches(instructions: bytes, entries: dict[int, int]) -> bool:
    """Return whether the instructions have these inline caches, which are zeros."""
    return all(
        entries.get(opcode, caches) == caches
        for opcode, caches in _with_caches(instructions)
    )


def _with_caches(instructions: bytes) -> Iterator[tuple[int, int]]:
    """Yield each opcode, and the number of cache entries that follow it."""
    opcodes = instructions[::2]
    position = 0
    while position < len(opcodes):
        end = position + 1
        while end < len(opcodes) and opcodes[end] == 0:
            end += 1
        yield opcodes[position], end - position - 1
        position = end
