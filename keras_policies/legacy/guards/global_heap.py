"""Checks the part of an HDF5 file in which the HDF5 library (1.14.6) does not end.

A global heap holds what is of no fixed length, such as a config. The library goes from
object to object by their sizes, and round and round where one is zero. Source: HDF5
File Format Specification 3.0, III.E; H5HGcache.c, H5HG__cache_heap_deserialize.
"""

import re
import struct

from keras_policies.legacy.base.errors import LegacyModelError

SIGNATURE = b"GCOL"
HEADER, OBJECT = struct.Struct("<4sB3xQ"), struct.Struct("<HH4xQ")
VERSION, MIN_BYTES = 1, 4096
# Where the superblock, by its version, says how many bytes an address and a size have.
SIZES_AT = {0: 13, 1: 13, 2: 9, 3: 9}
EIGHT = bytes((8, 8))


def sizes(data, where):
    """Return `{address: {number: bytes}}`, the objects of each global heap.

    Args:
        data: `mmap.mmap` of the file.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if a global heap is corrupt, or sizes are not of 8 bytes.
    """
    at = SIZES_AT.get(data[8]) if len(data) > 16 else None
    if at is None or data[at : at + 2] != EIGHT:
        raise LegacyModelError(
            f"{where}: not an HDF5 file as tf.keras writes it: its superblock is "
            "of an unknown kind. It is truncated or corrupt."
        )
    found = {}
    for match in re.finditer(SIGNATURE, data):
        start = match.start()
        found[start] = _objects(data, start)
        if found[start] is None:
            raise LegacyModelError(
                f"{where}: corrupt: the global heap at byte {start} has an object "
                "without a size. Copy it again from where it came from."
            )
    return found


def _objects(data, start):
    """Return `{number: bytes}` of a global heap, or None if it does not end.

    Of four letters in some tensor, which no heap follows, it is empty.
    """
    if start + HEADER.size > len(data):
        return {}
    _, version, size = HEADER.unpack_from(data, start)
    end = start + size
    if version != VERSION or size < MIN_BYTES or end > len(data):
        return {}  # the library refuses these itself
    found, at = {}, start + HEADER.size
    while at + OBJECT.size <= end:
        number, _, held = OBJECT.unpack_from(data, at)
        found[number] = held
        at += held if number == 0 else OBJECT.size + (held + 7) // 8 * 8
        if (number == 0 and held < OBJECT.size) or at > end:
            return None
    return found
