"""Checks the global heaps of an HDF5 file, on which the HDF5 library may hang.

A global heap holds values of variable length, such as a config. The defect: HDF5
1.14.6 goes from object to object by their sizes, and never ends where a size is zero
(H5HGcache.c, H5HG__cache_heap_deserialize). Source for the layout: HDF5 File Format
Specification 3.0, III.E.

Remove the error in `_objects` once no HDF5 that h5py may come with has this defect:
without this package, tests/data/hostile/heap_without_end must end in an error.
`attribute_texts` needs the sizes for as long as it is there itself.
"""

import mmap
import re
import struct
from typing import TypeAlias

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards.limit import Limit

SIGNATURE = b"GCOL"
HEADER, OBJECT = struct.Struct("<4sB3xQ"), struct.Struct("<HH4xQ")
VERSION, MIN_BYTES = 1, 4096
# Version of the superblock -> where it says how many bytes an address and a size have.
SIZES_AT = {0: 13, 1: 13, 2: 9, 3: 9}
EIGHT = bytes((8, 8))
MOST = 2  # times as much as fits into the file, if nothing is in two places
Sizes: TypeAlias = dict[int, dict[int, int]]  # address -> {number: bytes}


def sizes(data: mmap.mmap) -> Sizes:
    """Return the sizes of the objects in each global heap of a file."""
    at = SIZES_AT.get(data[8]) if len(data) > 16 else None
    if at is None or data[at : at + 2] != EIGHT:
        raise LegacyModelError(
            "not an HDF5 file as tf.keras writes it: its superblock is of an unknown "
            "kind. It is truncated or corrupt."
        )
    starts = [match.start() for match in re.finditer(SIGNATURE, data)]
    left = Limit(MOST * len(data) // OBJECT.size, "objects in its global heaps")
    return {start: _objects(data, start, left) for start in starts}


def _objects(data: mmap.mmap, start: int, left: Limit) -> dict[int, int]:
    """Return `{number: bytes}` of a global heap, `{}` for a part of a tensor.

    `left` counts objects: heaps may lie in each other.
    """
    if start + HEADER.size > len(data):
        return {}
    _, version, size = HEADER.unpack_from(data, start)
    end = start + size
    if version != VERSION or size < MIN_BYTES or end > len(data):
        return {}  # the library refuses these itself
    found, at = {}, start + HEADER.size
    while at + OBJECT.size <= end:
        left.spend()
        number, _, held = OBJECT.unpack_from(data, at)
        found[number] = held
        at += held if number == 0 else OBJECT.size + (held + 7) // 8 * 8
        if (number == 0 and held < OBJECT.size) or at > end:
            raise LegacyModelError(
                f"corrupt: the global heap at byte {start} has an object without a "
                "size.",
                "Copy the file again from where it came from.",
            )
    return found
