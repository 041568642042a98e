"""Checks that the texts of an HDF5 file's attributes are as long as they claim to be.

The HDF5 library (1.14.6) takes as much memory as a text of variable length claims, up
to 4 GiB, before it looks for the text, and writes into it however much there is.
Source: HDF5 File Format Specification 3.0, IV.A.2.m (the attribute message), IV.A.2.d
(datatypes: 9 is of variable length), IV.A.2.b (dataspaces), VIII.B (global heap ids).
"""

import math
import re
import struct

from keras_policies.legacy.base.errors import LegacyModelError

# Of every attribute that is read; long lists are split into `layer_names0` and so on.
# To search for the ends, which begin with one letter, takes a tenth of the time.
BEGINNINGS = b"keras", b"layer", b"model", b"training", b"weight"
ENDS = re.compile(rb"_(?:config|names|version)[0-9]*\0")
SIZES = struct.Struct("<HHH")  # of the name, the datatype, the dataspace
# Version of the message -> bytes before the name, and what its parts are padded to.
LAYOUTS = {1: (8, 8), 2: (8, 1), 3: (9, 1)}
SHARED = 1  # flag: the datatype is elsewhere, which tf.keras never does
VARIABLE_LENGTH = 9
# The datatype of a text, ASCII or UTF-8: of variable length, of single bytes. Where the
# library is told of neither a text nor a sequence, it crashes.
TEXT_DATATYPE = re.compile(rb"\x19\x01[\0\1]\0\x10\0{3}\x10\0{3}\x01\0{3}\0\0\x08\0")
DIMENSIONS_AT = {1: 8, 2: 4}  # in a dataspace, by its version
TEXT = struct.Struct("<IQI")  # length, address of the heap, place in it


def check(data, sizes, where):
    """Raise if a text is longer or shorter than it claims.

    Args:
        data: `mmap.mmap` of the file.
        sizes: dict, as `global_heap.sizes` returns it.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if one is.
    """
    for begin, found in _names(data):
        for version, (before, padding) in LAYOUTS.items():
            start = begin - before
            if start < 0 or data[start] != version:
                continue
            parts = SIZES.unpack_from(data, start + 2)
            if parts[0] != len(found):
                continue
            name = f"{where}: corrupt: the attribute {found[:-1].decode()!r}"
            if version > 1 and data[start + 1] & SHARED:
                raise LegacyModelError(f"{name} is of a datatype kept elsewhere.")
            padded = [-(-size // padding) * padding for size in parts]
            if not _is_known(data[begin + padded[0] : begin + padded[0] + parts[1]]):
                raise LegacyModelError(f"{name} is of a datatype that is no text.")
            for claimed, held in _texts(data, begin, padded, sizes):
                if claimed != held:
                    raise LegacyModelError(
                        f"{name} at byte {start} claims a text of {claimed} bytes, "
                        f"and {held} are there. Copy it again from where it came from."
                    )


def _is_known(datatype):
    """Return whether a datatype is of fixed length, or that of a text."""
    is_fixed = not datatype or datatype[0] & 15 != VARIABLE_LENGTH
    return is_fixed or TEXT_DATATYPE.fullmatch(datatype)


def _names(data):
    """Yield `(start, name)` of all that looks like an attribute's name."""
    for match in ENDS.finditer(data):
        for beginning in BEGINNINGS:
            start = match.start() - len(beginning)
            if start >= 0 and data[start : match.start()] == beginning:
                yield start, data[start : match.end()]


def _texts(data, start, parts, sizes):
    """Yield what each text of an attribute named at `start` claims, and what it has."""
    name, datatype, dataspace = parts
    space = start + name + datatype
    texts = space + dataspace
    if dataspace < min(DIMENSIONS_AT.values()) or texts > len(data):
        return  # the library refuses that itself
    if data[start + name] & 15 != VARIABLE_LENGTH:
        return
    at = space + DIMENSIONS_AT.get(data[space], dataspace)
    rank = data[space + 1]
    if at + 8 * rank > texts:
        return  # as above
    count = math.prod(struct.unpack_from(f"<{rank}Q", data, at))
    for number in range(min(count, (len(data) - texts) // TEXT.size)):
        claimed, heap, place = TEXT.unpack_from(data, texts + number * TEXT.size)
        if claimed or heap:
            yield claimed, sizes.get(heap, {}).get(place, 0)
