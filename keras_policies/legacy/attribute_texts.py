"""Checks how long the texts of an HDF5 file's attributes claim to be.

The HDF5 library takes as much memory as a text of variable length claims, up to 4 GiB
each, before it looks for the text. Source: HDF5 File Format Specification 3.0,
IV.A.2.m (the attribute message), IV.A.2.d (datatypes: 9 is of variable length),
IV.A.2.b (dataspaces).
"""

import math
import re
import struct

from keras_policies.legacy.errors import LegacyModelError

# Every attribute that is read; long lists are split into `layer_names0` and so on.
NAMES = re.compile(
    rb"(?:keras_version|layer_names|model_config|training_config|weight_names)[0-9]*\0"
)
SIZES = struct.Struct("<HHH")  # of the name, the datatype, the dataspace
# Version of the message -> bytes before the name, and what its parts are padded to.
LAYOUTS = {1: (8, 8), 2: (8, 1), 3: (9, 1)}
SHARED = 1  # flag: the datatype is elsewhere, which tf.keras never does
VARIABLE_LENGTH = 9
DIMENSIONS_AT = {1: 8, 2: 4}  # in a dataspace, by its version
TEXT = struct.Struct("<IQI")  # length, address of the heap, place in it


def check(data, where):
    """Raise if a text claims more bytes than the file has.

    Args:
        data: `mmap.mmap` of the file.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if one does.
    """
    for match in NAMES.finditer(data):
        for version, (before, padding) in LAYOUTS.items():
            start = match.start() - before
            if start < 0 or data[start] != version:
                continue
            sizes = SIZES.unpack_from(data, start + 2)
            if sizes[0] != len(match.group()):
                continue
            padded = [-(-size // padding) * padding for size in sizes]
            is_shared = version > 1 and data[start + 1] & SHARED
            try:
                claims = _claims(data, match.start(), padded)
                longest = len(data) + 1 if is_shared else max(claims, default=0)
            except (IndexError, struct.error):
                continue  # it reaches past the end; the library refuses that itself
            if longest > len(data):
                name = match.group()[:-1].decode()
                raise LegacyModelError(
                    f"{where}: corrupt: the attribute {name!r} at byte {start} claims "
                    f"{longest} bytes or more, the file has {len(data)}. Copy it again "
                    "from where it came from."
                )


def _claims(data, start, sizes):
    """Yield the length of each text of an attribute whose name is at `start`."""
    name, datatype, dataspace = sizes
    kind = start + name
    space = kind + datatype
    if data[kind] & 15 != VARIABLE_LENGTH or data[space] not in DIMENSIONS_AT:
        return
    dimensions = struct.unpack_from(
        f"<{data[space + 1]}Q", data, space + DIMENSIONS_AT[data[space]]
    )
    texts = space + dataspace
    fitting = (len(data) - texts) // TEXT.size
    for number in range(min(math.prod(dimensions), fitting)):
        yield TEXT.unpack_from(data, texts + number * TEXT.size)[0]
