"""Checks that the texts in an HDF5 file's attributes are as long as they claim.

The defects, all in HDF5 1.14.6, where an attribute holds texts of variable length. The
names in parentheses are files in tests/data/hostile:
- the library takes as much memory as a text claims to need, up to 4 GiB, before it
  looks for the text (text_of_four_gigabytes);
- where a text is longer than it claims, the library writes past that memory before it
  reports an error, which may crash the process (text_longer_than_it_claims);
- where a datatype of variable length is neither a text nor a sequence, the library
  crashes (text_of_no_kind).

Remove this module once no HDF5 that h5py may come with has these defects: without this
package, each of the three files must end in an error, in little memory, and without an
invalid write (valgrind shows one).

Source: HDF5 File Format Specification 3.0, IV.A.2.m (the attribute message), IV.A.2.d
(datatypes: 9 is of variable length), IV.A.2.b (dataspaces), VIII.B (global heap ids).
"""

import math
import mmap
import re
import struct
from collections.abc import Iterator

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards.global_heap import MOST, Sizes
from keras_policies.legacy.guards.limit import Limit

# The names of all attributes that are read; long lists are split into `layer_names0`
# and so on. Searching for the ends, which share a first letter, is ten times faster.
BEGINNINGS = b"keras", b"layer", b"model", b"training", b"weight"
ENDS = re.compile(rb"_(?:config|names|version)[0-9]*\0")
SIZES = struct.Struct("<HHH")  # of the name, the datatype, the dataspace
# Version of the message -> bytes before the name, and what its parts are padded to.
LAYOUTS = {1: (8, 8), 2: (8, 1), 3: (9, 1)}
SHARED = 1  # flag: the datatype is elsewhere, which tf.keras never does
VARIABLE_LENGTH = 9
# The datatype of a text, ASCII or UTF-8: of variable length, of single bytes.
TEXT_DATATYPE = re.compile(rb"\x19\x01[\0\1]\0\x10\0{3}\x10\0{3}\x01\0{3}\0\0\x08\0")
DIMENSIONS_AT = {1: 8, 2: 4}  # in a dataspace, by its version
TEXT = struct.Struct("<IQI")  # length, address of the heap, place in it


def check(data: mmap.mmap | bytes, sizes: Sizes) -> None:
    """Raise if a text in a file is longer or shorter than it claims.

    Several texts may be the same bytes: all together they take no more than the file.
    """
    texts = Limit(MOST * len(data) // TEXT.size, "texts in the attributes of the file")
    bytes = Limit(MOST * len(data), "bytes in the attributes of the file")
    for begin, name in _names(data):
        for version, (before, padding) in LAYOUTS.items():
            start = begin - before
            if start < 0 or data[start] != version:
                continue
            parts = SIZES.unpack_from(data, start + 2)
            if parts[0] != len(name):
                continue
            attribute = f"corrupt: the attribute {name[:-1].decode()!r}"
            if version > 1 and data[start + 1] & SHARED:
                raise LegacyModelError(f"{attribute} is of a datatype kept elsewhere.")
            padded = [-(-size // padding) * padding for size in parts]
            if not _is_known(data[begin + padded[0] : begin + padded[0] + parts[1]]):
                raise LegacyModelError(f"{attribute} is of a datatype that is no text.")
            for claimed, held in _texts(data, begin, padded, sizes, texts):
                if claimed != held:
                    raise LegacyModelError(
                        f"{attribute} at byte {start} claims a text of {claimed} "
                        f"bytes, and {held} are there.",
                        "Copy the file again from where it came from.",
                    )
                bytes.spend(claimed)


def _is_known(datatype: bytes) -> bool:
    """Return whether a datatype is of fixed length, or that of a text."""
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
    data: mmap.mmap | bytes, start: int, parts: list[int], sizes: Sizes, left: Limit
) -> Iterator[tuple[int, int]]:
    """Yield `(bytes claimed, bytes held)` for each text of an attribute.

    Its name begins at `start`; `parts` are the padded sizes of its name, its datatype
    and its dataspace.
    """
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
    count = min(count, (len(data) - texts) // TEXT.size)
    left.spend(count)
    for number in range(count):
        claimed, heap, place = TEXT.unpack_from(data, texts + number * TEXT.size)
        if claimed or heap:
            yield claimed, sizes.get(heap, {}).get(place, 0)
