"""Reads the index of a TensorFlow checkpoint (a TensorBundle).

`<prefix>.index` is a sorted table of tensor name -> BundleEntry, and
`<prefix>.data-00000-of-00001` (or several shards) holds the raw tensors. Source:
tensorflow/core/util/tensor_bundle/tensor_bundle.{h,cc}.
"""

import collections
import functools
import pathlib
from collections.abc import Sequence

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.base.model import Array, LegacyWeight
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import protos, sorted_table, tensors
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.checkpoint.tensors import TensorEntry, read_tensor

FORMAT_VERSION = 1  # kTensorBundleVersion
BIG_ENDIAN = 1
# The tensor names of the object graph, and of the header (the first key).
OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
HEADER_KEY = b""


class Checkpoint:
    """The tensors of a checkpoint by name; `read` fetches one.

    No link may lead out of `folder`, which is that of the prefix unless it is given.

    Raises:
        LegacyModelError: if the index is missing or corrupt, of a newer format, or
            names tensors that do not fit into their shards.

    Example:
        >>> checkpoint = Checkpoint("model_of_2020/variables/variables")
        >>> key = "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        >>> checkpoint.read(key).shape
        (3, 3, 3, 6)
    """

    def __init__(self, prefix: FilePath, folder: pathlib.Path | None = None) -> None:
        self.prefix = pathlib.Path(prefix)
        self._folder = self.prefix.parent if folder is None else folder
        self._index = self.prefix.with_name(self.prefix.name + ".index")
        if not self._index.is_file():
            reason = f"no checkpoint: {self._index.name} is missing beside it."
            remedy = "A checkpoint is named without its ending."
            if folder is not None:
                remedy = "Copy the whole folder of the model."
            raise LegacyModelError(reason, remedy, path=self.prefix)
        self._shards: dict[int, tuple[pathlib.Path, int]] = {}
        with located(self._index):
            check_inside(self._index, self._folder)
            table = sorted_table.read_table(self._index)
            self._header = _read_header(table.pop(HEADER_KEY, b""))
            named = ((key.decode("utf-8", "backslashreplace"), key) for key in table)
            self.entries = {name: self._entry(name, table[key]) for name, key in named}
            self._check_overlaps()

    def _check_overlaps(self) -> None:
        """Refuse tensors that share bytes: a small file could claim any size."""
        claimed: collections.Counter[pathlib.Path] = collections.Counter()
        for entry in self.entries.values():
            claimed[entry.shard] += entry.size
        for path, size in self._shards.values():
            if (total := claimed[path]) > size:
                reason = f"corrupt: its tensors claim {total} bytes, it has {size}."
                raise LegacyModelError(reason, path=path)

    def _shard(self, number: int) -> tuple[pathlib.Path, int]:
        """Return `(path, size in bytes)` of a shard that must be there."""
        if number not in self._shards:
            shards = self._header.num_shards
            name = f"{self.prefix.name}.data-{number:05d}-of-{shards:05d}"
            path = self.prefix.with_name(name)
            if not 0 <= number < shards or not path.is_file():
                raise LegacyModelError(
                    f"the shard {name} is missing.",
                    "Copy all files of the checkpoint, not only the index.",
                )
            check_inside(path, self._folder)
            self._shards[number] = path, path.stat().st_size
        return self._shards[number]

    def _entry(self, key: str, data: bytes) -> TensorEntry:
        parsed = protos.parse("BundleEntry", data)
        shape = tuple(dim.size for dim in parsed.shape.dim)
        tensors.check_entry(key, parsed, shape)
        path, shard_size = self._shard(parsed.shard_id)
        end = parsed.offset + parsed.size
        if end > shard_size:
            reason = f"truncated: it has {shard_size} bytes, but {key!r} ends at {end}."
            raise LegacyModelError(reason, path=path)
        return TensorEntry(
            key=key,
            dtype=tensors.DTYPES[parsed.dtype],
            shape=shape,
            shard=path,
            offset=parsed.offset,
            size=parsed.size,
            crc32c=parsed.crc32c,
            big_endian=self._header.endianness == BIG_ENDIAN,
        )

    def read(self, key: str) -> Array:
        """Return the tensor `key`, one of `entries`; see `tensors.read_tensor`."""
        if key not in self.entries:
            reason = f"there is no tensor {key!r} in it."
            raise LegacyModelError(reason, path=self._index)
        return read_tensor(self.entries[key])

    def nodes(self) -> Sequence[Message]:
        """Return the objects of the checkpoint's own graph; none in a name-based file.

        Each is a message `CheckpointObject`, and refers to others by their positions.
        """
        if OBJECT_GRAPH_KEY not in self.entries:
            return ()
        entry = self.entries[OBJECT_GRAPH_KEY]
        with located(self._index):
            if entry.shape or entry.dtype != tensors.DTYPES[tensors.STRING]:
                found = f"{entry.dtype} of shape {entry.shape}"
                reason = f"corrupt: the object graph is {found}, expected one string."
                raise LegacyModelError(reason)
            data: bytes = read_tensor(entry).item()
            nodes: Sequence[Message] = protos.parse("CheckpointGraph", data).nodes
            return nodes

    def variable(self, node: Message, name: str | None = None) -> LegacyWeight | None:
        """Return the stored variable of a node, named as there or as given, or None."""
        for attribute in node.attributes:
            entry = self.entries.get(attribute.checkpoint_key)
            if attribute.name == "VARIABLE_VALUE" and entry is not None:
                name = attribute.full_name if name is None else name
                read = functools.partial(read_tensor, entry)
                own = name.removesuffix(":0")
                return LegacyWeight("", own, entry.shape, entry.dtype, read)
        return None


def _read_header(data: bytes) -> Message:
    header = protos.parse("BundleHeader", data)
    if header.version.min_consumer > FORMAT_VERSION:
        raise LegacyModelError(
            "written in a newer format: it asks for readers of version "
            f"{header.version.min_consumer}, this one reads {FORMAT_VERSION}.",
            "Look for a newer keras-policies.",
        )
    if header.num_shards < 1:
        reason = f"corrupt: it claims {header.num_shards} shards, expected at least 1."
        raise LegacyModelError(reason)
    return header
