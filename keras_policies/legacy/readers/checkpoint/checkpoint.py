"""Reads the tensors of a TensorFlow checkpoint (a TensorBundle), one at a time.

`<prefix>.index` is a sorted table of tensor name -> BundleEntry, and
`<prefix>.data-00000-of-00001` (or several shards) holds the raw tensors. Source:
tensorflow/core/util/tensor_bundle/tensor_bundle.{h,cc}.
"""

import collections
import dataclasses
import math
import pathlib

import google_crc32c
import ml_dtypes
import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import protos, sorted_table

FORMAT_VERSION = 1  # kTensorBundleVersion
BIG_ENDIAN = 1
STRING = 7
# The tensor names of the object graph, and of the header (the first key).
OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
HEADER_KEY = b""

# tensorflow/core/framework/types.proto
DTYPES = {
    1: np.dtype("float32"),
    2: np.dtype("float64"),
    3: np.dtype("int32"),
    4: np.dtype("uint8"),
    5: np.dtype("int16"),
    6: np.dtype("int8"),
    STRING: np.dtype(object),
    8: np.dtype("complex64"),
    9: np.dtype("int64"),
    10: np.dtype("bool"),
    14: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype("uint16"),
    18: np.dtype("complex128"),
    19: np.dtype("float16"),
    22: np.dtype("uint32"),
    23: np.dtype("uint64"),
}

MAX_DIMENSIONS = 254  # tensorflow/core/framework/tensor_shape.h
CHECKSUM_CHUNK_BYTES = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies: nothing of it is read yet."""

    key: str
    dtype: np.dtype
    shape: tuple[int, ...]
    shard: pathlib.Path
    offset: int  # bytes
    size: int  # bytes
    crc32c: int  # masked
    big_endian: bool


class Checkpoint:
    """The tensors of a checkpoint, by name; `read` fetches one.

    Args:
        prefix: path without ".index", such as `model/variables/variables`.
        folder: `pathlib.Path` that no link may lead out of; None is that of the prefix.

    Raises:
        LegacyModelError: if the index is missing or corrupt, of a newer format, or
            names tensors that do not fit into their shards.

    Example:
        >>> checkpoint = Checkpoint("model_of_2020/variables/variables")
        >>> key = "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        >>> checkpoint.read(key).shape
        (3, 3, 3, 6)
    """

    def __init__(self, prefix, folder=None):
        self.prefix = pathlib.Path(prefix)
        self._folder = self.prefix.parent if folder is None else folder
        self._index = self.prefix.with_name(self.prefix.name + ".index")
        if not self._index.is_file():
            raise LegacyModelError(
                f"{self.prefix}: no checkpoint: {self._index.name} is missing beside "
                "it. A checkpoint is named without its ending."
            )
        check_inside(self._index, self._folder)
        table = sorted_table.read_table(self._index)
        self._header = self._read_header(table.pop(HEADER_KEY, b""))
        self._shards = {}
        self.entries = {}
        for key, value in table.items():
            entry = self._entry(key.decode("utf-8", "backslashreplace"), value)
            self.entries[entry.key] = entry
        self._check_overlaps()

    def _check_overlaps(self):
        """Refuse tensors that share bytes: a small file could claim any size."""
        claimed = collections.Counter()
        for entry in self.entries.values():
            claimed[entry.shard] += entry.size
        for path, size in self._shards.values():
            if claimed[path] > size:
                raise LegacyModelError(
                    f"{path}: corrupt: its tensors claim {claimed[path]} bytes, it has "
                    f"{size}."
                )

    def _read_header(self, data):
        header = protos.parse("BundleHeader", data, self._index)
        if header.version.min_consumer > FORMAT_VERSION:
            raise LegacyModelError(
                f"{self._index}: written in a newer format: it asks for readers of "
                f"version {header.version.min_consumer}, this one reads "
                f"{FORMAT_VERSION}. Look for a newer keras-policies."
            )
        if header.num_shards < 1:
            raise LegacyModelError(
                f"{self._index}: corrupt: it claims {header.num_shards} shards, "
                "expected at least 1."
            )
        return header

    def _shard(self, key, number):
        """Return `(path, size in bytes)` of a shard that must be there."""
        if number in self._shards:
            return self._shards[number]
        shards = self._header.num_shards
        name = f"{self.prefix.name}.data-{number:05d}-of-{shards:05d}"
        path = self.prefix.with_name(name)
        if not 0 <= number < shards or not path.is_file():
            raise LegacyModelError(
                f"{self.prefix}: the shard {name} is missing; the tensor {key!r} lies "
                "in it. Copy all files of the checkpoint, not only the index."
            )
        check_inside(path, self._folder)
        self._shards[number] = path, path.stat().st_size
        return self._shards[number]

    def _entry(self, key, data):
        where = f"{self._index}: {key!r}"
        parsed = protos.parse("BundleEntry", data, where)
        shape = tuple(dim.size for dim in parsed.shape.dim)
        if parsed.slices:
            raise LegacyModelError(
                f"{where} is stored in slices (a partitioned variable), which this "
                "reader does not join. Save the model again without a partitioner."
            )
        if parsed.dtype not in DTYPES:
            raise LegacyModelError(
                f"{where} has the unknown data type {parsed.dtype}. The file is "
                "corrupt, or newer than this reader."
            )
        dtype = DTYPES[parsed.dtype]
        sizes = min((*shape, parsed.offset, parsed.size))
        if sizes < 0 or parsed.shape.unknown_rank or len(shape) > MAX_DIMENSIONS:
            raise LegacyModelError(
                f"{where} is corrupt: shape {shape[:MAX_DIMENSIONS]}, {parsed.size} "
                f"bytes at {parsed.offset}."
            )
        path, shard_size = self._shard(key, parsed.shard_id)
        expected = math.prod(shape) * dtype.itemsize
        if parsed.dtype != STRING and parsed.size != expected:
            raise LegacyModelError(
                f"{where} is corrupt: {parsed.size} bytes for the shape {shape} of "
                f"{dtype}, expected {expected}."
            )
        if parsed.offset + parsed.size > shard_size:
            raise LegacyModelError(
                f"{path}: truncated: it has {shard_size} bytes, but {key!r} ends at "
                f"{parsed.offset + parsed.size}."
            )
        return TensorEntry(
            key=key,
            dtype=dtype,
            shape=shape,
            shard=path,
            offset=parsed.offset,
            size=parsed.size,
            crc32c=parsed.crc32c,
            big_endian=self._header.endianness == BIG_ENDIAN,
        )

    def read(self, key):
        """Return a tensor as a read-only array, memory-mapped; strings as objects.

        Args:
            key: str, one of `entries`.

        Raises:
            LegacyModelError: if there is none, or its checksum does not match.
        """
        if key not in self.entries:
            raise LegacyModelError(f"{self._index}: there is no tensor {key!r} in it.")
        return read_tensor(self.entries[key])

    def object_graph(self):
        """Return the parsed `TrackableObjectGraph`, or None in a name-based file."""
        if OBJECT_GRAPH_KEY not in self.entries:
            return None
        entry = self.entries[OBJECT_GRAPH_KEY]
        if entry.shape or entry.dtype != DTYPES[STRING]:
            raise LegacyModelError(
                f"{self._index}: corrupt: the object graph is {entry.dtype} of shape "
                f"{entry.shape}, expected one string."
            )
        return protos.parse("CheckpointGraph", read_tensor(entry)[()], self._index)


def read_tensor(entry):
    """Return the array of a `TensorEntry`; see `Checkpoint.read`."""
    if entry.size == 0:
        data = np.empty(0, "uint8")
    else:
        data = np.memmap(
            entry.shard, np.uint8, "r", offset=entry.offset, shape=(entry.size,)
        )
    if entry.dtype == DTYPES[STRING]:
        return _read_strings(entry, data.tobytes())
    _verify(entry, _checksum(data))
    dtype = entry.dtype.newbyteorder(">") if entry.big_endian else entry.dtype
    tensor = data.view(dtype).reshape(entry.shape)
    return tensor.astype(entry.dtype) if entry.big_endian else tensor


def _checksum(data):
    crc = 0
    for start in range(0, len(data), CHECKSUM_CHUNK_BYTES):
        crc = google_crc32c.extend(crc, data[start : start + CHECKSUM_CHUNK_BYTES])
    return crc


def _verify(entry, crc):
    if sorted_table.mask(crc) != entry.crc32c:
        raise LegacyModelError(
            f"{entry.shard}: corrupt: the checksum of {entry.key!r} does not match "
            f"({entry.size} bytes at {entry.offset}). Copy the file again."
        )


def _read_strings(entry, data):
    """Return a string tensor: lengths, their checksum, then the bytes, joined."""
    count, position, crc = math.prod(entry.shape), 0, 0
    if count > entry.size:  # each length takes a byte at least
        raise LegacyModelError(
            f"{entry.shard}: corrupt: {entry.key!r} claims {count} strings in "
            f"{entry.size} bytes."
        )
    lengths = []
    try:
        for _ in range(count):
            length, position = sorted_table.read_varint(data, position)
            crc_bytes = 4 if length < 2**32 else 8
            crc = google_crc32c.extend(crc, length.to_bytes(crc_bytes, "little"))
            lengths.append(length)
    except sorted_table.CorruptError as error:
        raise LegacyModelError(f"{entry.shard}: {entry.key!r}: {error}.") from error
    if position + 4 + sum(lengths) != len(data):
        raise LegacyModelError(
            f"{entry.shard}: corrupt: the strings of {entry.key!r} take "
            f"{position + 4 + sum(lengths)} bytes, expected {len(data)}."
        )
    _verify(entry, google_crc32c.extend(crc, data[position:]))
    position += 4
    strings = np.empty(count, object)
    for number, length in enumerate(lengths):
        strings[number] = data[position : position + length]
        position += length
    return strings.reshape(entry.shape)
