"""Reads the index and the tensors of a TensorFlow checkpoint (a TensorBundle).

`<prefix>.index` is a sorted table from tensor names to messages `BundleEntry`, and
`<prefix>.data-00000-of-00001` (or several shards) holds the raw tensors. Each slice of
a partitioned variable is a tensor whose key has the variable's name and the place.
Sources: tensorflow/core/util/tensor_bundle/tensor_bundle.{h,cc},
tensorflow/core/util/saved_tensor_slice_util.cc, tensorflow/core/lib/strings/
ordered_code.cc.
"""

import collections
import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import google_crc32c
import ml_dtypes
import numpy as np

from keras_policies._common import memory as aligned
from keras_policies.legacy.base import errors
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.base.weights import Array, LegacyWeight
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import protos, sorted_table
from keras_policies.legacy.readers.checkpoint.protos import Message

FORMAT_VERSION = 1  # kTensorBundleVersion
BIG_ENDIAN = 1
# The keys of the object graph and of the header, which comes first.
OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
HEADER_KEY = b""
STRING = 7
# Numbers from tensorflow/core/framework/types.proto, with the dtypes of numpy.
TYPES = """
1 float32  2 float64  3 int32  4 uint8  5 int16  6 int8  7 object  8 complex64  9 int64
10 bool  14 bfloat16  17 uint16  18 complex128  19 float16  22 uint32  23 uint64
"""
DTYPES = {
    int(number): np.dtype(getattr(ml_dtypes, name, name))
    for number, name in re.findall(r"\b(\d+) (\w+)", TYPES)
}
Place: TypeAlias = tuple[slice, ...]  # one for each axis
WHOLE = 0, -1  # start and length of a slice as long as its axis
CHECKSUM_CHUNK_BYTES = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class TensorEntry:
    """Where a tensor is in a checkpoint."""

    key: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    shard: pathlib.Path
    offset: int  # bytes
    size: int  # bytes
    crc32c: int  # masked
    big_endian: bool
    places: tuple[Place, ...] = ()  # of its slices if it is partitioned


class Checkpoint:
    """The tensors of a checkpoint by name; `read` fetches one.

    Links may not lead out of `folder`, by default the folder of the prefix.
    """

    def __init__(self, prefix: FilePath, folder: pathlib.Path | None = None) -> None:
        self.prefix = pathlib.Path(prefix)
        self._folder = self.prefix.parent if folder is None else folder
        self._index = self.prefix.with_name(self.prefix.name + ".index")
        if not self._index.is_file():
            reason = f"not a checkpoint: {self._index.name} is missing beside it."
            hint = "Pass the path of a checkpoint without its ending."
            if folder is not None:
                hint = "Copy the whole folder of the model."
            raise errors.MissingFileError(reason, hint, path=self.prefix)
        self._shards: dict[int, tuple[pathlib.Path, int]] = {}
        with located(self._index):
            check_inside(self._index, self._folder)
            table = sorted_table.read_table(self._index)
            self._header = _read_header(table.pop(HEADER_KEY, b""))
            named = {_text(key): data for key, data in table.items()}
            self.entries = {name: self._entry(name, named[name]) for name in named}
            self._check_overlaps()
            for entry in self.entries.values():
                self._check_slices(entry)

    def _check_overlaps(self) -> None:
        """Refuse tensors that share bytes; they could claim any size."""
        claimed: collections.Counter[pathlib.Path] = collections.Counter()
        for entry in self.entries.values():
            claimed[entry.shard] += entry.size
        for path, size in self._shards.values():
            if (total := claimed[path]) > size:
                reason = f"corrupt: its tensors claim {total} bytes, it has {size}."
                raise LegacyModelError(reason, path=path)

    def _shard(self, number: int) -> tuple[pathlib.Path, int]:
        """Return `(path, size in bytes)` of a shard, or raise if it is missing."""
        if number not in self._shards:
            shards = self._header.num_shards
            name = f"{self.prefix.name}.data-{number:05d}-of-{shards:05d}"
            path = self.prefix.with_name(name)
            if not 0 <= number < shards or not path.is_file():
                raise LegacyModelError(
                    f"the shard {name} is missing.",
                    "Copy all files of the checkpoint, not only the index.",
                    code="KP106",
                )
            check_inside(path, self._folder)
            self._shards[number] = path, path.stat().st_size
        return self._shards[number]

    def _entry(self, key: str, data: bytes) -> TensorEntry:
        parsed = protos.parse("BundleEntry", data)
        shape = tuple(dim.size for dim in parsed.shape.dim)
        _check_entry(key, parsed, shape)
        path, shard_size = self._shard(parsed.shard_id)
        end = parsed.offset + parsed.size
        if end > shard_size:
            reason = f"truncated: it has {shard_size} bytes, but {key!r} ends at {end}."
            raise LegacyModelError(reason, path=path)
        return TensorEntry(
            key=key,
            dtype=DTYPES[parsed.dtype],
            shape=shape,
            shard=path,
            offset=parsed.offset,
            size=parsed.size,
            crc32c=parsed.crc32c,
            big_endian=self._header.endianness == BIG_ENDIAN,
            places=_places(key, parsed, shape),
        )

    def _check_slices(self, entry: TensorEntry) -> None:
        """Refuse a partitioned variable whose slices do not cover it."""
        places = {_key(entry.key, place): place for place in entry.places}
        total = 0
        for key, place in places.items():
            part, shape = self.entries.get(key), _sizes(place, entry.shape)
            actual = None if part is None else (part.shape, part.dtype, part.places)
            if actual != (shape, entry.dtype, ()):
                reason = f"a slice of {entry.key!r} is missing or does not fit."
                raise LegacyModelError(f"corrupt: {reason}")
            total += math.prod(shape)
        if places and total != math.prod(entry.shape):
            raise LegacyModelError(
                f"corrupt: the slices of {entry.key!r} have {total} values, expected "
                f"{math.prod(entry.shape)}."
            )

    def read(self, key: str) -> Array:
        """Return the tensor `key`, one of `entries`."""
        if key not in self.entries:
            reason = f"there is no tensor {key!r} in it."
            raise LegacyModelError(reason, path=self._index)
        entry = self.entries[key]
        if not entry.places:
            return _read_tensor(entry)
        tensor: Array = aligned.zeros(entry.shape, entry.dtype)
        for place in entry.places:
            tensor[place] = self.read(_key(key, place))
        return tensor

    def weight(self, key: str, name: str) -> LegacyWeight:
        """Return the tensor `key` as a variable with a name."""
        entry, read = self.entries[key], functools.partial(self.read, key)
        return LegacyWeight("", name, entry.shape, entry.dtype, read)

    def part(self, key: str, name: str, info: Message) -> LegacyWeight:
        """Return the slice of a variable that a message `SliceInfo` describes."""
        pairs = zip(info.var_offset, info.var_shape, strict=True)
        slice_key = _key(key, tuple(_slice(start, length) for start, length in pairs))
        read, dtype = functools.partial(self.read, slice_key), self.entries[key].dtype
        return LegacyWeight("", name, tuple(info.var_shape), dtype, read)

    def nodes(self) -> Sequence[Message]:
        """Return the messages `CheckpointObject`; a name-based checkpoint has none.

        They refer to each other by position.
        """
        if OBJECT_GRAPH_KEY not in self.entries:
            return ()
        entry = self.entries[OBJECT_GRAPH_KEY]
        with located(self._index):
            if entry.shape or entry.dtype != DTYPES[STRING]:
                raise LegacyModelError(
                    f"corrupt: the object graph is {entry.dtype} of shape "
                    f"{entry.shape}, expected one string."
                )
            data: bytes = _read_tensor(entry).item()
            nodes: Sequence[Message] = protos.parse("CheckpointGraph", data).nodes
            return nodes

    def variable(self, node: Message, name: str | None = None) -> LegacyWeight | None:
        """Return the variable of an object, by default under its own name, or None."""
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if attribute.name == "VARIABLE_VALUE" and key in self.entries:
                name = attribute.full_name if name is None else name
                return self.weight(key, name.removesuffix(":0"))
        return None


def _read_header(data: bytes) -> Message:
    header = protos.parse("BundleHeader", data)
    if header.version.min_consumer > FORMAT_VERSION:
        raise LegacyModelError(
            "written in a newer format: it asks for readers of version "
            f"{header.version.min_consumer}, this one reads {FORMAT_VERSION}."
        )
    if header.num_shards < 1:
        reason = f"corrupt: it claims {header.num_shards} shards, expected at least 1."
        raise LegacyModelError(reason)
    return header


def _key(name: str, place: Place) -> str:
    return _text(slice_key(name, place))


def _text(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _places(key: str, parsed: Message, shape: tuple[int, ...]) -> tuple[Place, ...]:
    """Return the places of the slices that a message `BundleEntry` lists."""
    places = [place_of(item, shape) for item in parsed.slices]
    if None in places or (places and parsed.dtype == STRING):
        raise LegacyModelError(f"corrupt: a slice of {key!r} is not in {shape}.")
    return tuple(place for place in places if place is not None)


def _check_entry(key: str, parsed: Message, shape: tuple[int, ...]) -> None:
    """Raise if a message `BundleEntry` does not describe a tensor that can be read."""
    if parsed.dtype not in DTYPES:
        raise LegacyModelError(
            f"{key!r} has the unknown data type {parsed.dtype}. The file is corrupt, "
            "or newer than this reader."
        )
    sizes = min((*shape, parsed.offset, parsed.size))
    if sizes < 0 or parsed.shape.unknown_rank or len(shape) > limits.TENSOR_AXES:
        raise LegacyModelError(
            f"{key!r} is corrupt: shape {shape[: limits.TENSOR_AXES]}, {parsed.size} "
            f"bytes at {parsed.offset}."
        )
    dtype = DTYPES[parsed.dtype]
    expected = 0 if parsed.slices else math.prod(shape) * dtype.itemsize
    if parsed.dtype != STRING and parsed.size != expected:
        raise LegacyModelError(
            f"{key!r} is corrupt: {parsed.size} bytes for the shape {shape} of "
            f"{dtype}, expected {expected}."
        )


def _read_tensor(entry: TensorEntry) -> Array:
    """Return a tensor as an array that owns its memory; strings are objects."""
    data: Array = aligned.zeros((entry.size,), np.dtype("uint8"))
    with located(entry.shard), entry.shard.open("rb") as shard:
        shard.seek(entry.offset)
        shard.readinto(data.data)
        if entry.dtype == DTYPES[STRING]:
            return _read_strings(entry, data.tobytes())
        crc = 0
        for start in range(0, len(data), CHECKSUM_CHUNK_BYTES):
            crc = google_crc32c.extend(crc, data[start : start + CHECKSUM_CHUNK_BYTES])
        _verify(entry, crc)
    dtype = entry.dtype.newbyteorder(">") if entry.big_endian else entry.dtype
    tensor = data.view(dtype).reshape(entry.shape)
    return tensor.astype(entry.dtype) if entry.big_endian else tensor


def _verify(entry: TensorEntry, crc: int) -> None:
    if sorted_table.mask(crc) != entry.crc32c:
        raise LegacyModelError(
            f"corrupt: the checksum of {entry.key!r} does not match ({entry.size} "
            f"bytes at {entry.offset}).",
            "Copy the file again.",
        )


def _read_strings(entry: TensorEntry, data: bytes) -> Array:
    """Read a string tensor: the lengths, their checksum, then all bytes."""
    count, position, crc = math.prod(entry.shape), 0, 0
    if count > entry.size:  # a length takes at least one byte
        reason = f"corrupt: {entry.key!r} claims {count} strings in {entry.size} bytes."
        raise LegacyModelError(reason)
    lengths = []
    try:
        for _ in range(count):
            length, position = protos.read_varint(data, position)
            crc_bytes = 4 if length < 2**32 else 8
            crc = google_crc32c.extend(crc, length.to_bytes(crc_bytes, "little"))
            lengths.append(length)
    except protos.CorruptError as error:
        raise LegacyModelError(f"corrupt: {entry.key!r}: {error}.") from error
    position += 4
    if position + sum(lengths) != len(data):
        raise LegacyModelError(
            f"corrupt: the strings of {entry.key!r} take {position + sum(lengths)} "
            f"bytes, expected {len(data)}."
        )
    _verify(entry, google_crc32c.extend(crc, data[position - 4 :]))
    strings = np.empty(count, object)
    for number, length in enumerate(lengths):
        strings[number] = data[position : position + length]
        position += length
    return strings.reshape(entry.shape)


def place_of(parsed: Message, shape: tuple[int, ...]) -> Place | None:
    """Return the place in a message `Slice`, or None if it is not inside the shape."""
    ends = []
    for extent in parsed.extent:
        is_part = extent.HasField("length")
        ends.append(_slice(extent.start, extent.length) if is_part else slice(None))
    is_inside = len(ends) == len(shape) and all(map(_is_inside, ends, shape))
    return tuple(ends) if is_inside else None


def _slice(start: int, length: int) -> slice:
    return slice(start, start + length)


def _is_inside(axis: slice, size: int) -> bool:
    start, stop, _ = axis.indices(size)
    return axis == slice(None) or ((axis.start, axis.stop) == (start, stop) != (0, 0))


def _sizes(place: Place, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the values at a place."""
    ranges = (axis.indices(n) for axis, n in zip(place, shape, strict=True))
    return tuple(stop - start for start, stop, _ in ranges)


def slice_key(name: str, place: Place) -> bytes:
    r"""Return the key of a slice.

    Example:
        >>> slice_key("w", (slice(None), slice(3, 5)))
        b'\x00w\x00\x01\x01\x02\x80\x7f\x83\x82'
    """
    text = name.encode().replace(b"\0", b"\0\xff")
    rank = bytes([1, len(place)]) if place else b"\0"
    key = b"\0" + text + b"\0\1" + rank
    for axis in place:
        is_whole = axis == slice(None)
        start, length = WHOLE if is_whole else (axis.start, axis.stop - axis.start)
        key += _number(start) + _number(length)
    return key


def _number(value: int) -> bytes:
    """Encode a signed integer such that the bytes sort as the integers do."""
    length = (value if value >= 0 else ~value).bit_length() // 7 + 1
    header = ((1 << length) - 1) << 7 * length
    return (value % (1 << 8 * length) ^ header).to_bytes(length, "big")
