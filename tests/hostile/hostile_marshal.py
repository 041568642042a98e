"""Writes code objects as each Python since 2.7 marshals them, of any instructions."""

import base64
import struct

from keras_policies.legacy.bytecode.instructions import (
    EXTENDED_ARG,
    NAMES,
    WIDE,
    _target,
)
from keras_policies.legacy.bytecode.marshalled import LAYOUTS
from keras_policies.legacy.bytecode.values import VERSIONS

# Python -> the oldest one with its layout.
LAYOUT_OF = {"3.6": "3.5", "3.10": "3.8", "3.12": "3.11"}
# Entries after an instruction.
CACHES: dict = {
    "3.11": {"BINARY_OP": 1, "CALL": 4},
    "3.12": {"BINARY_OP": 1, "CALL": 3, "FOR_ITER": 1},
}


class Marshalled(bytes):
    """An object that is marshalled already."""


def _opcode(python, name):
    known = {name: opcode for opcode, name in reversed(NAMES[python].items())}
    return known[name]


def _assembled(python, instructions):
    """Return the bytes of `[(name, argument)]`.

    `("AT", label)` marks a place, and an argument that is a label leads there.
    """
    places: dict = {}
    for _ in range(2):  # the second time, all labels are known
        found = bytearray()
        if python in CACHES:
            found += bytes((151, 0))  # RESUME
        for name, argument in instructions:
            if name == "AT":
                places[argument] = len(found)
            else:
                found += _encoded(python, name, argument, len(found), places)
    if python == "3.12":  # RETURN_CONST, which tells it from 3.11
        found += bytes((121, 0))
    return bytes(found)


def _encoded(python, name, argument, start, places):
    wide = python in WIDE
    if isinstance(argument, str):
        after, wanted = start + (3 if wide else 2), places.get(argument)
        leads = (_target(name, number, after, python) for number in range(200))
        argument = next((n for n, place in enumerate(leads) if place == wanted), 0)
    shift = 16 if wide else 8
    parts = [argument & (1 << shift) - 1]
    while argument >= 1 << shift:
        argument >>= shift
        parts.insert(0, argument & (1 << shift) - 1)
    codes = [EXTENDED_ARG.get(python, 144)] * (len(parts) - 1)
    found = b""
    for code, part in zip([*codes, _opcode(python, name)], parts, strict=True):
        if wide:
            found += bytes((code,)) + struct.pack("<H", part) * (code >= 90)
        else:
            found += bytes((code, part))
    return found + bytes(2 * CACHES.get(python, {}).get(name, 0))


def marshalled(python, value):
    """Return a value as `marshal.dumps` of a Python writes it."""
    if isinstance(value, Marshalled):
        return bytes(value)
    if isinstance(value, bool | None):
        return {None: b"N", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        return b"i" + struct.pack("<i", value)
    if isinstance(value, float):
        return b"g" + struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
        return (
            (b"s" if python == "2.7" else b"u") + struct.pack("<I", len(value)) + value
        )
    if isinstance(value, bytes):
        return b"s" + struct.pack("<I", len(value)) + value
    inner = (marshalled(python, item) for item in value)
    return b"(" + struct.pack("<I", len(value)) + b"".join(inner)


def code(python, instructions, constants=(), names=(), local=("x",), arguments=1):
    """Return a marshalled function; further `local` are variables of its own.

    The line table is as long as a 3.10 has it, or empty.
    """
    text = _assembled(python, instructions)
    lines = b""
    if python == "3.10":
        whole, rest = divmod(len(text), 254)
        lines = bytes((254, 0)) * whole + bytes((rest, 0))
    fields = {
        **{"ARGUMENTS": arguments, "POSITIONAL": 0, "KEYWORDS": 0, "STACK": 100},
        **{"LOCALS": len(local), "FLAGS": 67, "LINE": 1, "code": text, "lines": lines},
        **{"constants": tuple(constants), "names": tuple(names), "local": tuple(local)},
        **{"kinds": bytes([0x20] * len(local)), "free": (), "cells": ()},
        **{"file": "", "name": "f", "qualified": "f", "exceptions": b""},
    }
    layout = LAYOUTS[LAYOUT_OF.get(python, python)]
    written = (
        struct.pack("<i", fields[name])
        if name.isupper()
        else marshalled(python, fields[name])
        for name in layout
    )
    return Marshalled(b"c" + b"".join(written))


def text(function):
    """Return a function as the config of a Lambda layer holds it."""
    return base64.b64encode(function).decode()


PYTHONS = tuple(VERSIONS)
