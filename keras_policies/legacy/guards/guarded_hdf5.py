"""Opens HDF5 files, and takes from them what cannot lead elsewhere or fill memory."""

import contextlib
import math
import mmap
import pathlib

import h5py

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import attribute_texts, global_heap

# Deflate, shuffle, Fletcher's checksum, szip, LZF: others are code that HDF5 looks for.
FILTERS = frozenset((1, 2, 3, 4, 32000))
# tf.keras packs nothing, and weights that someone packed shrink to a half.
MAX_EXPANSION = 20
SMALL_BYTES = 4096
NUMBERS = "biufcV"  # kinds of numpy's dtypes; bfloat16 is stored as V, raw bytes


def open_file(file, where):
    """Return an open `h5py.File`, to be read only.

    Args:
        file: path, or an open binary file.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if it cannot be opened: truncated, or no HDF5 file.
    """
    try:
        _check_bytes(file, where)
        return h5py.File(file, "r")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, LegacyModelError):
            raise
        raise LegacyModelError(
            f"{where}: not a readable HDF5 file: {error}. It is truncated, corrupt or "
            "of another format; copy it again from where it came from."
        ) from error


def _check_bytes(file, where):
    """Raise if the HDF5 library would hang in a file, fill memory, or crash."""
    with contextlib.ExitStack() as stack:
        if isinstance(file, str | pathlib.Path):
            file = stack.enter_context(open(file, "rb"))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        stack.enter_context(data)
        attribute_texts.check(data, global_heap.sizes(data, where), where)


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _attribute(group, name):
    """Return the value of an attribute, which takes no more bytes than the file has.

    Raises:
        ValueError: if it claims to.
    """
    stored = group.attrs.get_id(name)
    claimed = math.prod(stored.shape or ()) * stored.dtype.itemsize
    if claimed > group.file.id.get_filesize():
        raise ValueError(f"the attribute {name!r} claims {claimed} bytes")
    return group.attrs[name]


def attribute(group, name):
    """Return an attribute as a str, or None."""
    return _text(_attribute(group, name)) if name in group.attrs else None


def names(group, name):
    """Return a list of str, an attribute that may be split into `name0`, `name1`."""
    if name in group.attrs:
        return [_text(item) for item in _attribute(group, name)]
    found, part = [], 0
    while f"{name}{part}" in group.attrs:
        found += [_text(item) for item in _attribute(group, f"{name}{part}")]
        part += 1
    return found


def member(group, path, where):
    """Return what lies at a path below a group, or None; no link is followed.

    Even to ask whether a name is `in` a group would open the file that it links to.

    Raises:
        LegacyModelError: if there is a link on the way, to this file or another.
    """
    found = group
    for part in filter(None, path.split("/")):
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise LegacyModelError(
                f"{where}: {path!r} is a link to somewhere else, and none is followed."
            )
        found = found[part]
    return found


def dataset(group, name, where):
    """Return the dataset `name`, which must lie in this file itself.

    Raises:
        LegacyModelError: if it is missing, or a link or a layout leads elsewhere, or
            if it claims to hold more than its bytes can.
    """
    found = member(group, name, where)
    if found is None:
        raise LegacyModelError(f"{where}: the dataset {name!r} is missing.")
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise LegacyModelError(
            f"{where}: {name!r} is no dataset of this file; data kept in other files "
            "is not read."
        )
    if found.dtype.kind not in NUMBERS:
        raise LegacyModelError(
            f"{where}: {name!r} is of numbers no weight has: {found.dtype}."
        )
    _check_size(found, name, where)
    return found


def _check_size(found, name, where):
    """Refuse a dataset without its data, of a filter not in HDF5, or a bomb."""
    plist = found.id.get_create_plist()
    filters = {plist.get_filter(n)[0] for n in range(plist.get_nfilters())}
    if not filters <= FILTERS:
        raise LegacyModelError(
            f"{where}: {name!r} is packed with the filters {sorted(filters)}, expected "
            f"some of {sorted(FILTERS)}. Unpack it with `h5repack -f NONE`."
        )
    held = found.id.get_storage_size()
    claimed = math.prod(found.shape or ()) * found.dtype.itemsize
    if claimed > MAX_EXPANSION * held + SMALL_BYTES:
        raise LegacyModelError(
            f"{where}: {name!r} claims {claimed} bytes, and {held} are there: at most "
            f"{MAX_EXPANSION} times as many are expected. If it is packed as well as "
            "that, unpack it with `h5repack -f NONE`."
        )
