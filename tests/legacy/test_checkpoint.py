"""The checkpoint reader gives what TensorFlow gives, and refuses what is broken."""

import gc
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import weakref

import google_crc32c
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.guards import budget
from keras_policies.legacy.readers.checkpoint import protos, sorted_table
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.protos import CorruptError

pytestmark = pytest.mark.once("readers use numpy", for_all_keras=True)
# LEGACY_CORPUS adds a folder of more of them.
FOLDERS = [
    legacy_files.FOLDER,
    legacy_files.folder("more"),
    legacy_files.folder("lookups"),
    *filter(None, [os.environ.get("LEGACY_CORPUS")]),
]
PREFIXES = sorted(
    path.with_suffix("")
    for folder in FOLDERS
    for path in pathlib.Path(folder).rglob("*.index")
)
BY_TENSORFLOW = """
import hashlib, json, sys
import numpy as np
import tensorflow as tf
found = {}
for prefix in sys.argv[1:]:
    reader = tf.train.load_checkpoint(prefix)
    found[prefix] = tensors = {}
    for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        value = np.asarray(value, object if isinstance(value, bytes) else None)
        strings = value.dtype == object
        data = b"|".join(value.ravel()) if strings else value.tobytes()
        digest = hashlib.sha256(data).hexdigest()
        tensors[name] = [str(value.dtype), list(value.shape), digest]
print(json.dumps(found))
"""
SHARDED = """
import sys
import numpy as np
import tensorflow as tf
raw = tf.raw_ops
folder = sys.argv[1]
parts = []
values = {
    "half": tf.constant([[1.5, -2.0]], tf.float16),
    "brain": tf.constant([3.0, -0.5, 7.0], tf.bfloat16),
    "words": tf.constant([["a", "bcd"], ["", "long" * 100]]),
    "empty": tf.zeros([0, 3]),
    "many": tf.range(70000, dtype=tf.int64),
    "flag": tf.constant([True, False]),
}
for number, (name, value) in enumerate(values.items()):
    part = f"{folder}/part{number}"
    raw.SaveV2(prefix=part, tensor_names=[name], shape_and_slices=[""], tensors=[value])
    parts.append(part)
raw.MergeV2Checkpoints(
    checkpoint_prefixes=parts, destination_prefix=f"{folder}/all", delete_old_dirs=False
)
"""


def run(code, *arguments):
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def digest(value):
    data = b"|".join(value.ravel()) if value.dtype == object else value.tobytes()
    return hashlib.sha256(data).hexdigest()


@pytest.mark.slow("TensorFlow")
def test_every_tensor_is_that_of_tensorflow_byte_for_byte():
    pytest.importorskip("tensorflow", reason="the oracle")
    assert len(PREFIXES) > 30
    truth = json.loads(run(BY_TENSORFLOW, *PREFIXES))
    for prefix in PREFIXES:
        checkpoint = Checkpoint(prefix)
        found = {}
        for name in checkpoint.entries:
            value = checkpoint.read(name)
            found[name] = [str(value.dtype), list(value.shape), digest(value)]
        assert found == truth[str(prefix)]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    pytest.importorskip("tensorflow", reason="it writes the shards")
    folder = tmp_path_factory.mktemp("sharded")
    run(SHARDED, folder)
    return folder / "all"


@pytest.mark.slow("TensorFlow")
def test_shards_dtypes_strings_and_many_blocks(sharded):
    checkpoint = Checkpoint(sharded)
    assert len({entry.shard for entry in checkpoint.entries.values()}) == 6
    assert checkpoint.read("half").tolist() == [[1.5, -2.0]]
    assert checkpoint.read("half").dtype == "float16"
    assert str(checkpoint.read("brain").dtype) == "bfloat16"
    assert checkpoint.read("brain").astype("float32").tolist() == [3.0, -0.5, 7.0]
    words = checkpoint.read("words")
    assert words.tolist() == [[b"a", b"bcd"], [b"", b"long" * 100]]
    assert checkpoint.read("empty").shape == (0, 3)
    assert checkpoint.read("flag").tolist() == [True, False]
    many = checkpoint.read("many")
    np.testing.assert_array_equal(many, np.arange(70000))
    assert many.ctypes.data % 64 == 0  # jax takes it without a copy


@pytest.mark.slow("TensorFlow")
def test_a_missing_shard_is_named(sharded, tmp_path):
    for path in sharded.parent.glob("all*"):
        shutil.copy(path, tmp_path)
    lost = sorted(tmp_path.glob("all.data-*"))[2]
    lost.unlink()
    with pytest.raises(LegacyModelError, match=f"shard {lost.name} is missing"):
        Checkpoint(tmp_path / "all")


@pytest.fixture
def copied(tmp_path):
    """A checkpoint of its own, with one shard."""
    source = legacy_files.CORPUS / "2.4.4" / "explicit_lso" / "saved_model"
    shutil.copytree(source / "variables", tmp_path / "variables")
    return tmp_path / "variables" / "variables"


def shard_of(prefix):
    return prefix.with_name(f"{prefix.name}.data-00000-of-00001")


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_a_flipped_bit_in_a_tensor_does_not_match_its_checksum(copied):
    entry = max(Checkpoint(copied).entries.values(), key=lambda entry: entry.size)
    flip(shard_of(copied), entry.offset + entry.size // 2)
    with pytest.raises(LegacyModelError, match="checksum of .* does not match"):
        Checkpoint(copied).read(entry.key)


def test_every_flipped_bit_in_the_index_is_noticed_or_harmless(copied):
    index = copied.with_name("variables.index")
    whole = index.read_bytes()
    before = Checkpoint(copied).entries
    noticed = 0
    for position in range(0, len(whole), 7):
        index.write_bytes(whole)
        flip(index, position)
        try:
            assert Checkpoint(copied).entries == before  # the padding of the footer
        except LegacyModelError:
            noticed += 1
    assert noticed > len(whole) / 7 * 0.9


@pytest.mark.parametrize("left", [0, 1, 47, 48, 100, -1])
def test_a_truncated_index_is_refused(copied, left):
    index = copied.with_name("variables.index")
    index.write_bytes(index.read_bytes()[:left])
    with pytest.raises(LegacyModelError, match="not a readable checkpoint index"):
        Checkpoint(copied)


def test_a_truncated_shard_is_refused_before_anything_is_read(copied):
    shard = shard_of(copied)
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(LegacyModelError, match=r"truncated: it has \d+ bytes, but"):
        Checkpoint(copied)


def test_a_compressed_block_is_refused(copied, monkeypatch):
    monkeypatch.setattr(sorted_table, "NO_COMPRESSION", 1)
    with pytest.raises(LegacyModelError, match=r"compressed \(type 0\)"):
        Checkpoint(copied)


# What Snappy 1.1 makes of "layer/kernel layer/bias layer/kernel layer/kernel " twice.
PACKED = b"d0layer/kernel \t\r\x0cbias\r\x0b2\x18\x00f\r\x00z2\x00"
UNPACKED = b"layer/kernel layer/bias layer/kernel layer/kernel " * 2


def test_a_block_that_snappy_packed_is_unpacked():
    crc = sorted_table.mask(google_crc32c.value(PACKED + b"\1"))
    data = PACKED + struct.pack("<BI", 1, crc) + bytes(sorted_table.FOOTER_BYTES)
    assert sorted_table._block(data, bytes([0, len(PACKED)])) == UNPACKED


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(PACKED[:-1], "to its 100 bytes", id="short"),
        pytest.param(b"\x05" + PACKED[1:], "to its 5 bytes", id="too-much"),
        pytest.param(PACKED + b"\0a", "to its 100 bytes", id="too-long"),
        pytest.param(b"\x08\x00a\x01\x09", "of 4 bytes begins before", id="far"),
        pytest.param(b"\x08\x00a\x01\x00", "of 4 bytes begins before", id="nowhere"),
        pytest.param(b"\x08\xf4\x01", "to its 8 bytes", id="half-a-length"),
        pytest.param(b"\x08\x00a\x02", "begins before", id="half-a-copy"),
    ],
)
def test_what_snappy_did_not_pack_is_refused(data, message):
    with pytest.raises(CorruptError, match=message):
        sorted_table.unpacked(data)


def test_what_a_small_file_unpacks_to_is_charged():
    with budget.of(100), pytest.raises(LegacyModelError, match="1099511627775 bytes"):
        sorted_table.unpacked(b"\xff\xff\xff\xff\xff\x1f" + PACKED)


def test_a_newer_format_says_so(copied, monkeypatch):
    from keras_policies.legacy.readers.checkpoint import checkpoint

    monkeypatch.setattr(checkpoint, "FORMAT_VERSION", -1)
    with pytest.raises(LegacyModelError, match="newer format: it asks for readers"):
        Checkpoint(copied)


def test_no_checkpoint_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing.index is missing beside it"):
        Checkpoint(tmp_path / "nothing")
    with pytest.raises(LegacyModelError, match="there is no tensor 'other'"):
        Checkpoint(pathlib.Path(PREFIXES[0])).read("other")


def test_classes_of_messages_are_not_freed_with_the_last_message():
    def inner():
        nodes = protos.parse("SavedObjectGraph", b"\x0a\x02\x4a\x00").nodes
        return [weakref.ref(type(x)) for x in (nodes[0], nodes[0].constant)]

    classes = inner()
    gc.collect()
    assert [x() is not None for x in classes] == [True, True]
