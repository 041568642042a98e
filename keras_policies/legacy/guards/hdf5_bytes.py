"""Checks the bytes of an HDF5 file before they can trigger bugs in the library.

HDF5 1.14.6 has all these bugs. The last name in each pair of parentheses is a file in
tests/data/hostile:
- a global heap holds values of variable length, such as a config. The library steps
  from object to object by their sizes, and loops forever if a size is zero
  (H5HGcache.c, H5HG__cache_heap_deserialize; heap_without_end);
- for a text in an attribute, the library allocates as much memory as the text claims to
  need, up to 4 GiB, before it looks for the text (text_of_four_gigabytes);
- if a text is longer than it claims, the library writes past that memory before it
  reports an error, which can crash the process (text_longer_than_it_claims);
- if a datatype of variable length is neither a text nor a sequence, the library crashes
  (text_of_no_kind).

Remove this module when no HDF5 version that h5py ships has these bugs: without this
package, each of the four files must then raise an error, use little memory, and cause
no invalid write (valgrind shows them).

Source: HDF5 File Format Specification 3.0, III.E (global heaps), IV.A.2.m (the
attribute message), IV.A.2.d (datatypes: 9 is of variable length), IV.A.2.b
(dataspaces), VIII.B (global heap ids).
"""

import math
import mmap
import re
import struct
from collections.abc import Iterator
from typing import TypeAlias

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit

HEAP = b"GCOL"
HEAP_HEADER, HEAP_OBJECT = struct.Struct("<4sB3xQ"), struct.Struct("<HH4xQ")
HEAP_VERSION, MIN_HEAP_BYTES = 1, 4096
# Version of the superblock -> offset of the two bytes with the widths of addresses and
# sizes.
SIZES_AT = {0: 13, 1: 13, 2: 9, 3: 9}
EIGHT = bytes((8, 8))
Sizes: TypeAlias = dict[int, dict[int, int]]  # address -> {number: bytes}

# Parts of the names of all attributes that are read; long lists are split into
# `layer_names0` and so on. The search is for the ends: as they share a first letter, it
# is ten times faster.
BEGINNINGS = b"keras", b"layer", b"model", b"training", b"weight"
ENDS = re.compile(rb"_(?:config|names|version)[0-9]*\0")
PARTS = struct.Struct("<HHH")  # sizes of the name, the datatype and the dataspace
# Version of the message -> bytes before the name, and alignment of the parts.
LAYOUTS = {1: (8, 8), 2: (8, 1), 3: (9, 1)}
SHARED = 1  # flag: the datatype is stored elsewhere; tf.keras never sets it
VARIABLE_LENGTH = 9
# The datatype of a text, ASCII or UTF-8: variable length, single bytes.
TEXT_DATATYPE = re.compile(rb"\x19\x01[\0\1]\0\x10\0{3}\x10\0{3}\x01\0{3}\0\0\x08\0")
TEXT_BYTES = 20
DIMENSIONS_AT = {1: 8, 2: 4}  # version of a dataspace -> offset in it
TEXT = struct.Struct("<IQI")  # length, address of the heap, place in it


def check(data: mmap.mmap) -> None:
    """Raise if the file would make the HDF5 library hang, crash or fill the memory."""
    check_texts(data, heap_sizes(data))


def heap_sizes(data: mmap.mmap) -> Sizes:
    """Return the sizes of the objects in each global heap of a file."""
    at = SIZES_AT.get(data[8]) if len(data) > 16 else None
    if at is None or data[at : at + 2] != EIGHT:
        raise LegacyModelError(
            "not an HDF5 file as tf.keras writes it: its superblock has an unknown "
            "version or layout. It is truncated or corrupt."
        )
    starts = [match.start() for match in re.finditer(HEAP, data)]
    most = limits.HDF5_OVERLAP * len(data) // HEAP_OBJECT.size
    limit = Limit(most, "objects in its global heaps")
    return {start: _objects(data, start, limit) for start in starts}


def _objects(data: mmap.mmap, start: int, limit: Limit) -> dict[int, int]:
    """Return `{number: bytes}` for a global heap, or {} if these bytes are not one.

    `limit` counts objects in all heaps, because heaps may overlap.
    """
    if start + HEAP_HEADER.size > len(data):
        return {}
    _, version, size = HEAP_HEADER.unpack_from(data, start)
    end = start + size
    if version != HEAP_VERSION or size < MIN_HEAP_BYTES or end > len(data):
        return {}  # not a heap, or one that the library refuses
    sizes, at = {}, start + HEAP_HEADER.size
    while at + HEAP_OBJECT.size <= end:
        limit.spend()
        number, _, size = HEAP_OBJECT.unpack_from(data, at)
        sizes[number] = size
        at += size if number == 0 else HEAP_OBJECT.size + (size + 7) // 8 * 8
        if (number == 0 and size < HEAP_OBJECT.size) or at > end:
            raise LegacyModelError(
                f"corrupt: the global heap at byte {start} has an object without a "
                "size.",
                "Copy the file again from its source.",
            )
    return sizes


def check_texts(data: mmap.mmap | bytes, sizes: Sizes) -> None:
    """Raise if a text in a file is longer or shorter than it claims.

    Also raise if all texts together are too large for the file: they may overlap.
    """
    most = limits.HDF5_OVERLAP * len(data)
    texts = Limit(most // TEXT.size, "texts in the attributes of the file")
    bytes = Limit(most, "bytes in the attributes of the file")
    for begin, name in _names(data):
        for version, (before, padding) in LAYOUTS.items():
            start = begin - before
            if start < 0 or data[start] != version:
                continue
            parts = PARTS.unpack_from(data, start + 2)
            if parts[0] != len(name):
                continue
            attribute = f"corrupt: the attribute {name[:-1].decode()!r}"
            if version > 1 and data[start + 1] & SHARED:
                raise LegacyModelError(f"{attribute} has its datatype elsewhere.")
            padded = [-(-size // padding) * padding for size in parts]
            datatype = begin + padded[0]
            if not _is_text(data[datatype : datatype + min(parts[1], TEXT_BYTES + 1)]):
                raise LegacyModelError(
                    f"{attribute} has a datatype that is not a text."
                )
            for claimed, stored in _texts(data, begin, padded, sizes, texts):
                if claimed != stored:
                    raise LegacyModelError(
                        f"{attribute} at byte {start} claims a text of {claimed} "
                        f"bytes, and {stored} are there.",
                        "Copy the file again from its source.",
                    )
                bytes.spend(claimed)


def _is_text(datatype: bytes) -> bool:
    """Return whether a datatype has a fixed length or is that of a text."""
    is_fixed = not datatype or datatype[0] & 15 != VARIABLE_LENGTH
    return is_fixed or TEXT_DATATYPE.fullmatch(datatype) is not None


def _names(data: mmap.mmap | bytes) -> Iterator[tuple[int, bytes]]:
    """Yield `(start, name)` wherever the bytes look like an attribute's name."""
    for match in ENDS.finditer(data):
        for beginning in BEGINNINGS:
            start = match.start() - len(beginning)
            if start >= 0 and data[start : match.start()] == beginning:
                yield start, data[start : match.end()]


def _texts(
    data: mmap.mmap | bytes, start: int, parts: list[int], sizes: Sizes, limit: Limit
) -> Iterator[tuple[int, int]]:
    """Yield `(bytes claimed, bytes stored)` for each text of an attribute.

    The attribute's name begins at `start`; `parts` are the padded sizes of its name,
    datatype and dataspace.
    """
    name, datatype, dataspace = parts
    space = start + name + datatype
    texts = space + dataspace
    if dataspace < min(DIMENSIONS_AT.values()) or texts > len(data):
        return  # the library itself refuses this
    if data[start + name] & 15 != VARIABLE_LENGTH:
        return
    at = space + DIMENSIONS_AT.get(data[space], dataspace)
    rank = data[space + 1]
    if at + 8 * rank > texts:
        return  # as above
    count = math.prod(struct.unpack_from(f"<{rank}Q", data, at))
    count = min(count, (len(data) - texts) // TEXT.size)
    limit.spend(count)
    for number in range(count):
        claimed, heap, place = TEXT.unpack_from(data, texts + number * TEXT.size)
        if claimed or heap:
            yield claimed, sizes.get(heap, {}).get(place, 0)
