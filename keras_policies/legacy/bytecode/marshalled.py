"""Reads marshalled code objects of Python 2.7 and 3.0 to 3.12 into plain values.

Nothing is unmarshalled by Python itself, whose reader trusts its input and knows only
the layout of its own version. No file names its version: the layout tells four groups
apart, instructions and line tables the others that matter. Source: CPython,
Python/marshal.c.
"""

import dataclasses
import re
import struct
from collections.abc import Callable
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.bytecode.values import Code
from keras_policies.legacy.guards import limits

REF = 0x80
SINGLE = {"N": None, "F": False, "T": True, ".": Ellipsis}
# Type of a string -> the number of bytes of its length, and its encoding.
TEXTS = {
    **dict.fromkeys("ut", (4, "utf-8")),
    **dict.fromkeys("aA", (4, "latin-1")),
    **dict.fromkeys("zZ", (1, "latin-1")),
}
# Type of a sequence or a set, which become tuples -> the same.
SEQUENCES = {"(": 4, ")": 1, "[": 4, "<": 4, ">": 4}
# Oldest Python with a layout -> its fields. Those in capitals are 32-bit integers.
UP_TO_3_10 = (
    *("LOCALS", "STACK", "FLAGS", "code", "constants", "names", "local", "free"),
    *("cells", "file", "name", "LINE", "lines"),
)
LAYOUTS = {
    "2.7": ("ARGUMENTS", *UP_TO_3_10),
    "3.5": ("ARGUMENTS", "KEYWORDS", *UP_TO_3_10),
    "3.8": ("ARGUMENTS", "POSITIONAL", "KEYWORDS", *UP_TO_3_10),
    "3.11": (
        *("ARGUMENTS", "POSITIONAL", "KEYWORDS", "STACK", "FLAGS", "code"),
        *("constants", "names", "local", "kinds", "file", "name", "qualified", "LINE"),
        *("lines", "exceptions"),
    ),
}
CELL, FREE = 0x40, 0x80  # bits of a variable's kind, from Python 3.11 on
RETURN_VALUE = 83  # in all of them
# The instructions that begin every function of Python 3.11 and 3.12.
RESUME, BEFORE_RESUME = 151, (149, 135)
ONLY_3_12 = 26, 121, 143  # BINARY_SLICE, RETURN_CONST, LOAD_FAST_AND_CLEAR
# Instructions of Python 3.11 -> the entries of their inline caches, other than in 3.12.
CACHES = {25: 4, 92: 1, 106: 4, 107: 2, 116: 5, 122: 1, 166: 1, 171: 4}


class NewerPythonError(ValueError):
    """A Python after 3.12 may have compiled the code: it begins in an unknown way."""


def read(data: bytes) -> Code:
    """Return the function in `marshal.dumps(function.__code__)`."""
    if len(data) > limits.CODE_BYTES:
        raise LegacyModelError(
            f"its code has {len(data)} bytes, expected at most {limits.CODE_BYTES}."
        )
    reason = (
        f"corrupt: its code: expected a marshalled code object, found {data[:8]!r}."
    )
    for layout in LAYOUTS:
        reader = _Reader(data, layout)
        try:
            code = reader.next()
        except NewerPythonError:
            reason = (
                "its code is of a Python after 3.12, which is not read, or corrupt."
            )
            continue
        except (ValueError, struct.error, UnicodeDecodeError):
            continue
        if isinstance(code, Code) and reader.position == len(data):
            return code
    raise LegacyModelError(reason)


@dataclasses.dataclass
class _Reader:
    """The bytes, and how far they are read."""

    data: bytes
    layout: str
    position: int = 0
    depth: int = 0
    objects: int = 0

    def __post_init__(self) -> None:
        # Objects that others refer to, each with its size in objects; None while it is
        # not complete. Python 2 refers to its interned strings alone.
        self.references: list[tuple[object, int] | None] = []

    def take(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if count < 0 or self.position > len(self.data):
            raise ValueError("the code ends too early")
        return self.data[start : self.position]

    def integer(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "little", signed=size > 1)

    def spend(self, count: int = 1) -> None:
        self.objects += count
        if self.objects > limits.CODE_OBJECTS or self.depth > limits.CODE_DEPTH:
            raise LegacyModelError(
                f"its code has more than {limits.CODE_OBJECTS} values, or "
                f"{limits.CODE_DEPTH} levels."
            )

    def next(self) -> object:
        """Return the next object."""
        (first,) = self.take(1)
        kind, is_kept = chr(first & ~REF), bool(first & REF) and self.layout != "2.7"
        if kind in "rR":
            return self.referred()
        is_kept = is_kept or (kind == "t" and self.layout == "2.7")
        place, before = len(self.references), self.objects
        if is_kept:
            self.references.append(None)
        self.depth += 1
        self.spend()
        value = self.value(kind)
        self.depth -= 1
        if is_kept:
            self.references[place] = value, self.objects - before
        return value

    def referred(self) -> object:
        number = self.integer()
        if not 0 <= number < len(self.references):
            raise ValueError("a reference to nothing")
        reference = self.references[number]
        if reference is None:
            raise ValueError("an object that contains itself")
        self.spend(reference[1])
        return reference[0]

    def value(self, kind: str) -> object:
        """Return the object of a type, whose first byte is read."""
        if kind in SINGLE:
            return SINGLE[kind]
        if kind in TEXTS:
            size, encoding = TEXTS[kind]
            return self.take(self.integer(size)).decode(encoding, "replace")
        if kind in SEQUENCES:
            return tuple(self.next() for _ in range(self.count(SEQUENCES[kind])))
        readers: dict[str, Callable[[], object]] = {
            "s": self.string,
            "l": self.long,
            "c": self.code,
            "i": self.integer,
            "I": lambda: self.integer(8),
            "g": lambda: float(struct.unpack("<d", self.take(8))[0]),
            "f": lambda: float(self.take(self.integer(1))),
        }
        if kind not in readers:
            raise ValueError(f"unknown type {kind!r}")
        return readers[kind]()

    def count(self, size: int = 4) -> int:
        """Return the length of a sequence, whose items have at least a byte each."""
        length = self.integer(size)
        if not 0 <= length <= len(self.data) - self.position:
            raise ValueError(f"a sequence of {length} items")
        return length

    def string(self) -> object:
        """Return bytes, or the `str` that they are in Python 2."""
        text = self.take(self.integer())
        return text.decode("latin-1") if self.layout == "2.7" else text

    def long(self) -> int:
        """Return an integer of any size, in digits of 15 bits."""
        size = self.integer()
        if abs(size) * 15 > limits.CODE_BITS:
            raise LegacyModelError(f"its code has a number of {abs(size) * 15} bits.")
        digits = [self.integer(2) for _ in range(abs(size))]
        total = sum(digit << (15 * place) for place, digit in enumerate(digits))
        return -total if size < 0 else total

    def code(self) -> Code:
        """Return a code object."""
        fields: dict[str, Any] = {
            name: self.integer() if name.isupper() else self.next()
            for name in LAYOUTS[self.layout]
        }
        return _code(fields, self.layout)


def _code(fields: dict[str, Any], layout: str) -> Code:
    local, cells, free = _variables(fields)
    instructions, lines = (_bytes(fields[name]) for name in ("code", "lines"))
    constants, arguments = fields["constants"], fields["ARGUMENTS"]
    keyword_only = fields.get("KEYWORDS", 0)
    if not isinstance(constants, tuple) or not isinstance(fields["name"], str):
        raise ValueError("constants or a name of the wrong type")
    if min(arguments, keyword_only) < 0 or arguments + keyword_only > len(local):
        raise ValueError("more parameters than variables")
    return Code(
        python=python_of(layout, instructions, lines),
        name=fields["name"],
        arguments=arguments,
        keyword_only=keyword_only,
        flags=fields["FLAGS"],
        instructions=instructions,
        constants=constants,
        names=_names(fields["names"]),
        local=local,
        cells=cells,
        free=free,
    )


def _variables(fields: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the names of local variables, of cells and of free variables."""
    local = _names(fields["local"])
    if "kinds" not in fields:
        return local, _names(fields["cells"]), _names(fields["free"])
    kinds = _bytes(fields["kinds"])
    if len(kinds) != len(local):
        raise ValueError("variables without a kind")
    cells, free = (
        tuple(name for name, kind in zip(local, kinds, strict=True) if kind & bit)
        for bit in (CELL, FREE)
    )
    return local, cells, free


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError("expected names")
    return value


def _bytes(value: object) -> bytes:
    if isinstance(value, str):  # Python 2
        return value.encode("latin-1")
    if not isinstance(value, bytes):
        raise ValueError("expected bytes")
    return value


def python_of(layout: str, instructions: bytes, lines: bytes) -> str:
    """Return the key in `VERSIONS`; `layout` is the oldest version with that layout."""
    if layout == "2.7" or not instructions:
        return layout
    if layout == "3.5":
        return "3.5" if instructions[-1] == RETURN_VALUE else "3.6"
    if layout == "3.8":  # a line table of 3.10 accounts for every instruction
        return "3.10" if sum(lines[::2]) == len(instructions) else "3.8"
    start = instructions[0:8:2]
    if RESUME not in start or start[0] not in (RESUME, *BEFORE_RESUME):
        raise NewerPythonError
    runs = re.findall(rb".\0*", instructions[::2], re.DOTALL)  # caches are zeros
    is_3_11 = all(CACHES.get(run[0], len(run) - 1) == len(run) - 1 for run in runs)
    return "3.11" if is_3_11 and not {*ONLY_3_12} & {*instructions[::2]} else "3.12"
