"""Decodes the instructions of Python 2.7 and 3.5 to 3.12 into one set of names.

Only those of plain expressions and assignments are here.
Source: CPython, Lib/opcode.py.
"""

import dataclasses
from typing import TypeAlias

from keras_policies.legacy.bytecode.values import Code
from keras_policies.legacy.guards import limits

EXTENDED_ARG = {"2.7": 145}  # 144 in all others
WIDE = "2.7", "3.5"  # instructions have one byte or three, in others two
HAVE_ARGUMENT = 90
Name: TypeAlias = str | tuple[str, str | int]  # with an operator or a number, if fixed


def _each(name: str, symbols: dict[int, str]) -> dict[int, Name]:
    """Return the name of each opcode, with its operator."""
    return {opcode: (name, symbol) for opcode, symbol in symbols.items()}


# Opcode -> name, as in all versions up to 3.10.
COMMON: dict[int, Name] = {
    1: "POP_TOP",
    2: ("ROT", 2),
    3: ("ROT", 3),
    4: ("COPY", 1),
    9: "NOP",
    **_each("UNARY", {10: "+", 11: "-", 12: "not", 15: "~"}),
    **_each(
        "BINARY",
        {
            **{19: "**", 20: "*", 22: "%", 23: "+", 24: "-", 26: "//", 27: "/"},
            **{28: "//", 29: "/", 55: "+", 56: "-", 57: "*", 59: "%", 62: "<<"},
            **{63: ">>", 64: "&", 65: "^", 66: "|", 67: "**", 75: "<<", 76: ">>"},
            **{77: "&", 78: "^", 79: "|"},
        },
    ),
    25: "SUBSCRIPT",
    68: "GET_ITER",
    83: "RETURN_VALUE",
    87: "NOP",  # POP_BLOCK
    92: "UNPACK_SEQUENCE",
    93: "FOR_ITER",
    100: "LOAD_CONST",
    101: "LOAD_GLOBAL",  # LOAD_NAME
    102: "BUILD_TUPLE",
    103: "BUILD_TUPLE",  # BUILD_LIST: nothing here changes a list
    105: "BUILD_MAP",
    106: "LOAD_ATTR",
    107: "COMPARE",
    108: "IMPORT_NAME",
    109: "IMPORT_FROM",
    110: "JUMP_FORWARD",
    111: "JUMP_IF_FALSE_OR_POP",
    112: "JUMP_IF_TRUE_OR_POP",
    113: "JUMP_ABSOLUTE",
    114: "POP_JUMP_IF_FALSE",
    115: "POP_JUMP_IF_TRUE",
    116: "LOAD_GLOBAL",
    120: "NOP",  # SETUP_LOOP
    124: "LOAD_FAST",
    125: "STORE_FAST",
    131: "CALL_FUNCTION",
    132: "MAKE_FUNCTION",
    133: "BUILD_SLICE",
    135: "LOAD_CLOSURE",
    136: "LOAD_DEREF",
    137: "STORE_DEREF",
}
FROM_3: dict[int, Name | None] = {
    **_each("BINARY", {16: "@", 17: "@"}),
    **{5: "COPY_TWO", 145: "LIST_APPEND"},
}
FROM_3_6 = {
    **FROM_3,
    141: "CALL_FUNCTION_KW",
    156: "BUILD_CONST_KEY_MAP",
    160: "LOAD_METHOD",
    161: "CALL",  # CALL_METHOD
}
FROM_3_8 = {
    **FROM_3_6,
    6: ("ROT", 4),
    82: "NOP",  # LIST_TO_TUPLE
    117: "IS",
    118: "CONTAINS",
    162: "LIST_EXTEND",
}
FROM_3_11: dict[int, Name | None] = {
    **FROM_3_8,
    **{opcode: None for opcode, name in COMMON.items() if name[0] == "BINARY"},
    **dict.fromkeys((3, 4, 5, 6, 16, 17, 87, 113, 131, 141, 161)),
    0: "NOP",  # CACHE
    2: "PUSH_NULL",
    99: "SWAP",
    120: "COPY",
    122: "BINARY_OP",
    135: "MAKE_CELL",
    136: "LOAD_CLOSURE",
    137: "LOAD_DEREF",
    138: "STORE_DEREF",
    140: "JUMP_BACKWARD",
    149: "NOP",  # COPY_FREE_VARS
    151: "NOP",  # RESUME
    166: "NOP",  # PRECALL
    171: "CALL",
    172: "KW_NAMES",
}
# Key in `VERSIONS` -> what differs from `COMMON`; None is not understood.
DIFFERENT: dict[str, dict[int, Name | None]] = {
    "2.7": {
        5: ("ROT", 4),
        **_each("BINARY", {21: "2/", 58: "2/"}),  # an integer quotient of integers
        **{30: ("SLICE", 0), 31: ("SLICE", 1), 32: ("SLICE", 2), 33: ("SLICE", 3)},
        54: "STORE_MAP",
        94: "LIST_APPEND",
        99: "COPY_MANY",  # DUP_TOPX
        134: "MAKE_CLOSURE",
    },
    "3.5": {**FROM_3, 134: "MAKE_CLOSURE"},
    "3.6": {**FROM_3_6},
    "3.8": {**FROM_3_8},
    "3.10": {**FROM_3_8, 99: "ROT"},
    "3.11": {**FROM_3_11},
    "3.12": {
        **FROM_3_11,
        26: "BINARY_SLICE",
        121: "RETURN_CONST",
        127: "LOAD_FAST",  # LOAD_FAST_CHECK
        143: "LOAD_FAST",  # LOAD_FAST_AND_CLEAR
        **{160: None, 166: None},
    },
}
# Key in `VERSIONS` -> opcode -> name.
NAMES: dict[str, dict[int, Name | None]] = {
    python: {**COMMON, **changed} for python, changed in DIFFERENT.items()
}
# What BINARY_OP of Python 3.11 does by its argument, 13 more for `+=` and the like.
BINARY_OPS = "+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"
COMPARISONS = "<", "<=", "==", "!=", ">", ">=", "in", "not in", "is", "is not"
RELATIVE = {"JUMP_FORWARD": 1, "FOR_ITER": 1, "JUMP_BACKWARD": -1}
ABSOLUTE = (
    *("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "JUMP_ABSOLUTE"),
    *("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"),
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction: its name, its argument, and where it leads if it jumps."""

    name: str
    argument: int
    symbol: str = ""  # of an operator
    target: int | None = None  # a position in the bytes


def decoded(code: Code, position: int) -> tuple[Instruction, int]:
    """Return the instruction at a position, and the position of the next one.

    An instruction that is not understood is `"opcode 71"`; reaching it is the error.
    """
    is_wide = code.python in WIDE
    extended = 0
    for _ in range(limits.CODE_PREFIXES + 1):
        if not 0 <= position < len(code.instructions):
            raise ValueError("a jump out of its instructions")
        opcode = code.instructions[position]
        size = 2
        if is_wide:
            size = 3 if opcode >= HAVE_ARGUMENT else 1
        digits = code.instructions[position + 1 : position + size]
        argument = int.from_bytes(digits, "little") | extended
        position += size
        if opcode != EXTENDED_ARG.get(code.python, 144):
            name = NAMES[code.python].get(opcode)
            if name is None:
                return Instruction(f"opcode {opcode}", argument), position
            return _instruction(name, argument, position, code.python), position
        extended = (argument << (16 if is_wide else 8)) & 0xFFFFFFFF
    raise ValueError(f"an argument in more than {limits.CODE_PREFIXES + 1} parts")


def _instruction(name: Name, argument: int, after: int, python: str) -> Instruction:
    name, symbol = (name, "") if isinstance(name, str) else name
    if isinstance(symbol, int):
        argument, symbol = symbol, ""
    if name == "BINARY_OP":
        name, symbol = "BINARY", BINARY_OPS[argument % len(BINARY_OPS)]
    if name == "COMPARE":
        number = argument >> 4 if python == "3.12" else argument
        symbols = COMPARISONS[number : number + 1]
        symbol = symbols[0] if symbols else "exception match"
    return Instruction(name, argument, symbol, _target(name, argument, after, python))


def _target(name: str, argument: int, after: int, python: str) -> int | None:
    unit = 2 if python in ("3.10", "3.11", "3.12") else 1
    is_relative = python in ("3.11", "3.12") and name in ABSOLUTE
    if name in RELATIVE or is_relative:
        # Beyond a cache entry, and the END_FOR at which it is aimed.
        caches = 4 if (name, python) == ("FOR_ITER", "3.12") else 0
        return after + RELATIVE.get(name, 1) * argument * unit + caches
    return argument * unit if name in ABSOLUTE else None
