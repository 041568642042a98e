"""Opens HDF5 files; reads only parts that lie inside the file and fit into memory."""

import contextlib
import itertools
import math
import mmap
import os
from typing import Any, BinaryIO

import h5py

from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.guards import hdf5_bytes, limits, packed

# Deflate, shuffle, Fletcher's checksum, szip, LZF. Other filters make HDF5 load
# plugins.
FILTERS = frozenset((1, 2, 3, 4, 32000))
NUMBERS = "biufcV"  # kinds of numpy dtypes; bfloat16 is stored as V, raw bytes


def open_file(file: FilePath | BinaryIO) -> h5py.File:
    """Return a path or an open binary file as an `h5py.File`, read-only."""
    try:
        _check_bytes(file)
        return h5py.File(file, "r")
    except LegacyModelError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise LegacyModelError(
            f"not a readable HDF5 file: {error}. It is truncated, corrupt or in "
            "another format.",
            "Copy it again from its source.",
        ) from error


def _check_bytes(file: FilePath | BinaryIO) -> None:
    """Raise if the file would make the HDF5 library hang, crash or fill the memory."""
    with contextlib.ExitStack() as stack:
        if isinstance(file, str | os.PathLike):
            file = stack.enter_context(open(file, "rb"))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        stack.enter_context(data)
        hdf5_bytes.check(data)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _attribute(group: h5py.Group, name: str) -> Any:
    """Return the value of an attribute; raise if it claims to exceed the file size."""
    stored = group.attrs.get_id(name)
    claimed = math.prod(stored.shape or ()) * stored.dtype.itemsize
    if claimed > group.file.id.get_filesize():
        raise LegacyModelError(
            f"corrupt: the attribute {name!r} claims to have {claimed} bytes, which is "
            "more than the file has."
        )
    return group.attrs[name]


def attribute(group: h5py.Group, name: str) -> str | None:
    """Return an attribute as a str, or None."""
    return _text(_attribute(group, name)) if name in group.attrs else None


def names(group: h5py.Group, name: str) -> list[str]:
    """Return an attribute as a list of str; it may be split into `name0`, `name1`."""
    numbered = (f"{name}{number}" for number in itertools.count())
    split = itertools.takewhile(group.attrs.__contains__, numbered)
    parts = [name] if name in group.attrs else split
    return [_text(item) for part in parts for item in _attribute(group, part)]


def member(group: h5py.Group, path: str) -> h5py.Group | h5py.Dataset | None:
    """Return the object at a path below a group, or None; refuse links.

    Even testing whether a name is `in` a group would open the file that it links to.
    """
    item = group
    for part in filter(None, path.split("/")):
        link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            reason = f"{path!r} is a link to somewhere else; links are not followed."
            raise LegacyModelError(reason)
        item = item[part]
    return item


def dataset(group: h5py.Group, name: str) -> h5py.Dataset:
    """Return the dataset `name`, which must have numbers and lie in this file."""
    stored = member(group, name)
    if stored is None:
        raise LegacyModelError(f"the dataset {name!r} is missing.")
    if not isinstance(stored, h5py.Dataset) or stored.external or stored.is_virtual:
        raise LegacyModelError(
            f"{name!r} is not a dataset of this file; data in other files is not read."
        )
    if stored.dtype.kind not in NUMBERS:
        raise LegacyModelError(
            f"{name!r} has the dtype {stored.dtype}, which no weight has."
        )
    _check_filters(stored, name)
    claimed = math.prod(stored.shape or ()) * stored.dtype.itemsize
    size = stored.id.get_storage_size()
    packed.check_expansion(repr(name), claimed, size, limits.SMALL_ARRAY_BYTES)
    return stored


def _check_filters(stored: h5py.Dataset, name: str) -> None:
    plist = stored.id.get_create_plist()
    filters = {plist.get_filter(n)[0] for n in range(plist.get_nfilters())}
    if not filters <= FILTERS:
        raise LegacyModelError(
            f"{name!r} is packed with the filters {sorted(filters)}, expected filters "
            f"from {sorted(FILTERS)}.",
            "Unpack it with `h5repack -f NONE`.",
        )
