"""Mutations of bytes, JSON, zip and tar, for any format: pure functions.

Each takes `(rng, files)`, a `random.Random` and `{name: bytes}`, and returns new files.
A `Link` instead of bytes becomes a symlink to a file outside the input.
"""

import gzip
import io
import json
import tarfile
import zipfile
from typing import NamedTuple


class Link(NamedTuple):
    """A symlink to the file `name` beside the input, or to an absolute path."""

    name: str


class Pipe(NamedTuple):
    """A named pipe (FIFO), which hangs whoever opens it."""


CANARY_MODULE = "hostile_canary"
FOREIGN = {
    "module": CANARY_MODULE,
    "class_name": "Payload",
    "config": {},
    "registered_name": "Payload",
}
FOREIGN_FUNCTION = {**FOREIGN, "class_name": "function", "config": "payload"}
CODE = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "value": "4wEAAAA="}}
LAMBDA = {
    "class_name": "Lambda",
    "config": {"name": "evil", "function": ["4wEAAAA=", None, None]},
}


def deep(levels):
    nest = []
    for _ in range(levels):
        nest = [nest]
    return nest


# Values that no config expects as a size, name, file or class.
NASTY = (
    *(None, True, -1, 0, 2**31, 2**63, 2**70, 10**9, 1e308, float("nan"), 0.5),
    *("", "x", "x" * 100_000, "../../x", "/etc/passwd", "a/" * 5000, "\ud800", "é\0"),
    *([], {}, [[]], [None], [10**6, 10**6], deep(900), list(range(1000))),
    *(FOREIGN, FOREIGN_FUNCTION, CODE, LAMBDA, {"class_name": 3}, {"config": None}),
    {"class_name": "__tuple__", "items": [10**9] * 3},
    {"class_name": "TensorShape", "items": [None, 2**40]},
)


def pick(rng, files):
    """Return the name of a file that is not a link."""
    return rng.choice(
        [name for name in sorted(files) if isinstance(files[name], bytes)]
    )


def edited(rng, files, edit):
    """Return the files with `edit(bytes)` applied to one of them."""
    name = pick(rng, files)
    return {**files, name: edit(files[name])}


def flip_bits(rng, files):
    def edit(data):
        data = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 8, 64)) if data else 0):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)

    return edited(rng, files, edit)


def truncate(rng, files):
    return edited(rng, files, lambda data: data[: rng.randrange(len(data) + 1)])


def splice(rng, files):
    """Copy a piece of a file to another place in it or in another file."""
    other = files[pick(rng, files)]

    def edit(data):
        start, length = rng.randrange(len(other) + 1), rng.choice((1, 4, 16, 400, 4096))
        piece, at = other[start : start + length], rng.randrange(len(data) + 1)
        return data[:at] + piece + data[at + rng.choice((0, len(piece))) :]

    return edited(rng, files, edit)


def fill(rng, files):
    """Write zeros, ones, or a huge length over a few bytes."""

    def edit(data):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8, 64, 512))
        byte = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"[", b"\x0a"))
        return data[:at] + byte * length + data[at + length :]

    return edited(rng, files, edit)


def remove(rng, files):
    gone = pick(rng, files)
    left = {name: data for name, data in files.items() if name != gone}
    return left or {gone: b""}


def swap(rng, files):
    one, two = pick(rng, files), pick(rng, files)
    return {**files, one: files[two], two: files[one]}


def link(rng, files):
    """Replace a file with a link."""
    name = pick(rng, files)
    return {**files, name: Link(rng.choice(("canary", "/etc/passwd", "/dev/zero")))}


BYTES = {
    "bits": flip_bits,
    "truncated": truncate,
    "spliced": splice,
    "filled": fill,
}
FILES = {"removed": remove, "swapped": swap, "linked": link}


def _places(value, path=()):
    """Return the paths of all values in a nest."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, item in inner:
        found += _places(item, (*path, key))
    return found


def _changed(value, path, change):
    """Return a nest with `change(container, key)` made at a path."""
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) > 1:
        copy[path[0]] = _changed(copy[path[0]], path[1:], change)
    else:
        change(copy, path[0])
    return copy


def json_text(rng, text):
    """Return a JSON text with one value changed, or a text that is no config."""
    if rng.random() < 0.03:
        return rng.choice(("[" * 100_000, '{"a":' * 100_000, "null", "[1]", "{", ""))
    value = json.loads(text)
    path = rng.choice(_places(value)[1:] or [()])
    if not path:
        return json.dumps(rng.choice(NASTY))
    return json.dumps(_changed(value, path, lambda *at: _change(rng, value, *at)))


def _change(rng, whole, container, key):
    """Remove, repeat or replace a value, perhaps with another of the same config."""
    kind = rng.randrange(5)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, list):
        container += [container[key]] * rng.choice((1, 300))
    elif kind == 2:
        found = whole
        for step in rng.choice(_places(whole)):
            found = found[step]
        container[key] = found
    else:
        container[key] = rng.choice(NASTY)


def _rewritten(data, change):
    """Return a zip with `change({name: bytes})` for its members."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name, content, *method in change(members):
            archive.writestr(name, content, *method)
    return new.getvalue()


def zip_json(rng, files):
    def change(members):
        return [
            (name, json_text(rng, text.decode()) if name == "config.json" else text)
            for name, text in members
        ]

    return edited(rng, files, lambda data: _rewritten(data, change))


NAMES = (
    *("../x", "/etc/x", "assets/../../vocabulary.txt"),
    *("metadata.json", "a" * 999),
)


def zip_members(rng, files):
    """Remove, rename, duplicate or compress members, or add a zip bomb."""
    methods = zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA

    def change(members):
        members, at = [tuple(item) for item in members], rng.randrange(len(members))
        name, text = members[at]
        kind = rng.randrange(5)
        if kind == 0:
            del members[at]
        elif kind == 1:
            members[at] = rng.choice(NAMES), text
        elif kind == 2:
            members.append((rng.choice(NAMES), text))
        elif kind == 3:
            members = [(*item, rng.choice(methods)) for item in members]
        else:
            bomb = rng.choice((b"\0", b"[", b'{"a":1}\n')) * (1 << rng.choice((20, 23)))
            members[at] = name, bomb, zipfile.ZIP_DEFLATED
        return members

    return edited(rng, files, lambda data: _rewritten(data, change))


def zip_deflated(rng, files):
    """Flip bits in a zip with compressed members, which Keras itself never writes."""
    methods = zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
    method = rng.choice(methods)
    packed = {
        name: _rewritten(data, lambda members: [(*item, method) for item in members])
        for name, data in files.items()
    }
    return rng.choice((flip_bits, fill))(rng, packed)


ZIP = {"json": zip_json, "members": zip_members, "deflated": zip_deflated}


def zipped(files):
    """Return a zip of files, always the same."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def tarred(files, change=lambda member: None):
    """Return a .tgz of files, always the same, after `change(header)` of each."""
    packed = b""
    for name, data in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(data)
        change(member)
        packed += member.tobuf() + data + bytes(-len(data) % tarfile.BLOCKSIZE)
    return gzip.compress(packed + bytes(2 * tarfile.BLOCKSIZE), mtime=0)


def tar_bytes(rng, files):
    """Change the bytes of the tar in a .tgz, whose own checksum is right again."""
    unzipped = {name: gzip.decompress(data) for name, data in files.items()}
    changed = rng.choice(list(BYTES.values()))(rng, unzipped)
    return {name: gzip.compress(data, mtime=0) for name, data in changed.items()}


def tar_headers(rng, files):
    """Change the header of a member of a .tgz: its name, its kind, its size."""
    kinds = b"012356xgLKSV\xff"
    values = {
        "name": NAMES,
        "type": [bytes([kind]) for kind in kinds],
        "size": (0, 1, 2**20, 2**40),
        "mode": (0, 0o777),
    }

    def edit(data):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = {each.name: archive.extractfile(each).read() for each in archive}
        chosen, field = rng.choice(sorted(members)), rng.choice(sorted(values))
        value = rng.choice(values[field])

        def change(member):
            if member.name == chosen:
                member.linkname = "/etc/passwd"
                setattr(member, field, value)

        return tarred(members, change)

    return edited(rng, files, edit)


TAR = {"tar": tar_bytes, "headers": tar_headers}
PACK = {".zip": zipped, ".tgz": tarred}
