"""Mutations of the contents of HDF5 files, protocol buffers and checkpoints.

Pure functions as in hostile_bytes.py. The results are well-formed, with checksums.
"""

import base64
import io
import json
import math
import struct

import google_crc32c
import h5py
import numpy as np
from hostile_bytes import json_text

from keras_policies.legacy.readers.checkpoint import protos, sorted_table
from keras_policies.legacy.readers.checkpoint.checkpoint import OBJECT_GRAPH_KEY

INTEGERS = -1, 0, 1, 2, 3, 7, 255, 2**31 - 1, -(2**31), 10**6, 2**30
LONG = *INTEGERS, 2**62, -(2**63), 2**40


def h5_edited(files, edit):
    """Return the files after `edit(h5py.File)` on the only one."""
    ((name, data),) = files.items()
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        edit(file)
    return {name: buffer.getvalue()}


def _objects(file, kind):
    found = []
    file.visititems(
        lambda name, item: found.append(name) if isinstance(item, kind) else None
    )
    return sorted(found)


def _attributes(file):
    groups = ["/", *_objects(file, h5py.Group)]
    return [(group, name) for group in groups for name in sorted(file[group].attrs)]


def h5_json(rng, files):
    def edit(file):
        name = rng.choice([n for n in sorted(file.attrs) if n.endswith("_config")])
        text = file.attrs[name]
        text = text.decode() if isinstance(text, bytes) else text
        file.attrs[name] = json_text(rng, text).encode("utf-8", "replace")

    return h5_edited(files, edit)


def h5_attribute(rng, files):
    def edit(file):
        group, name = rng.choice(_attributes(file))
        attrs = file[group].attrs
        kind, old = rng.randrange(4), attrs[name]
        if kind == 0:
            del attrs[name]
        elif kind == 1:
            nasty = (3, 2.5, b"", "x", np.zeros(5), np.array([b"../x"]), b"\xff\xfe")
            attrs[name] = rng.choice(nasty)
        elif kind == 2:
            attrs[name] = [*np.ravel(old).tolist(), *np.ravel(old).tolist()]
        else:
            other = rng.choice(_attributes(file))
            attrs[name] = file[other[0]].attrs[other[1]]

    return h5_edited(files, edit)


def h5_link(rng, files):
    """Replace an object with a link, or with a group that contains itself."""

    def edit(file):
        every = [*_objects(file, h5py.Group), *_objects(file, h5py.Dataset)]
        name = rng.choice(every)
        target = rng.choice(every)
        inside = h5py.SoftLink(f"/{target}")
        outside = h5py.ExternalLink("../canary", f"/{rng.choice((name, target))}")
        link = rng.choice((inside, outside, h5py.SoftLink("/nowhere"), file[target]))
        del file[name]
        file[name] = link

    return h5_edited(files, edit)


def _dataset(rng, file, name, old):
    kind = rng.randrange(8)
    shape, dtype = old.shape, old.dtype
    if kind == 0:  # sparse: claims data that is not there
        big = tuple(10 ** rng.choice((3, 6, 9)) for _ in shape) or (10**9,)
        file.create_dataset(name, big, dtype, chunks=tuple(1 for _ in big))
    elif kind == 1 and shape and math.prod(shape):
        file.create_dataset(name, shape, dtype, external=[("../canary", 0, 10**6)])
    elif kind == 2 and shape:
        layout = h5py.VirtualLayout(shape, dtype)
        layout[...] = h5py.VirtualSource("../canary", name, shape=shape)
        file.create_virtual_dataset(name, layout)
    elif kind == 3:
        others = ("float64", "complex64", "int8", "S3", "bool", "V2", "V7", "float16")
        file.create_dataset(name, shape, rng.choice(others))
    elif kind == 4:
        file.create_dataset(name, rng.choice(((), (0,), (2, 3), (7,) * 20)), dtype)
    elif kind == 5:
        file.create_dataset(name, shape, h5py.string_dtype())
    elif kind == 6 and math.prod(shape):
        bomb = np.zeros((2000, 2000), "float32")
        file.create_dataset(name, data=bomb, compression="gzip")
    else:
        file[name] = h5py.Empty("float32")


def h5_dataset(rng, files):
    def edit(file):
        name = rng.choice(_objects(file, h5py.Dataset))
        old = file[name]
        del file[name]
        _dataset(rng, file, name, old)

    return h5_edited(files, edit)


# Code of `lambda x: x * 2.0 + 1.0`, by Python 3.7.16.
CODE = base64.b64decode(
    "4wEAAAAAAAAAAQAAAAIAAABDAAAAcwwAAAB8AGQBFABkAhcAUwApA07nAAAAAAAAAEDnAAAAAAAA8D+p"
    "ACkB2gF4cgMAAAByAwAAAPoHPHN0ZGluPtoIPGxhbWJkYT4BAAAA8wAAAAA="
)
INSTRUCTIONS = 26  # where they begin
OPCODES = *range(1, 30), 60, 62, *range(83, 165)
OBJECTS = (
    b"\xe3",
    b"(\xff\xff\xff\x7f",
    b"r\x00\x00\x00\x00",
    b")\x01" * 60,
    b"l\xff\x7f\0\0",
)


def bytecode(rng):
    """Return the code of a Lambda layer with other bytes, objects or instructions."""
    code = bytearray(CODE)
    kind = rng.randrange(4)
    if kind == 0:
        for _ in range(rng.choice((1, 2, 8))):
            code[rng.randrange(len(code))] = rng.randrange(256)
    elif kind == 1:  # more instructions, with the length that they have
        pairs = [(rng.choice(OPCODES), rng.randrange(4)) for _ in range(200)]
        more = b"".join(map(bytes, pairs)) + CODE[INSTRUCTIONS : INSTRUCTIONS + 12]
        code[INSTRUCTIONS - 4 : INSTRUCTIONS + 12] = struct.pack("<i", len(more)) + more
    elif kind == 2:
        place = rng.randrange(INSTRUCTIONS + 12, len(code))
        code[place:place] = rng.choice(OBJECTS) * rng.choice((1, 3))
    else:
        del code[rng.randrange(1, len(code)) :]
    return base64.b64encode(bytes(code)).decode()


def h5_bytecode(rng, files):
    """Give a model a Lambda layer with code that somebody has changed."""

    def edit(file):
        config = json.loads(file.attrs["model_config"])
        function = [
            bytecode(rng),
            rng.choice((None, [1], [[]])),
            rng.choice((None, [2])),
        ]
        layer = {"name": "changed", "function": function, "function_type": "lambda"}
        entry = {"class_name": "Lambda", "name": "changed", "config": layer}
        layers = config["config"]["layers"]
        if "inbound_nodes" in layers[0]:
            entry["inbound_nodes"] = [[[layers[0]["config"]["name"], 0, 0, {}]]]
        layers.insert(1, entry)
        file.attrs["model_config"] = json.dumps(config)

    return h5_edited(files, edit)


HDF5 = {
    "json": h5_json,
    "bytecode": h5_bytecode,
    "attribute": h5_attribute,
    "link": h5_link,
    "dataset": h5_dataset,
}


def message(kind, data):
    """Return the message `kind` in `data`."""
    return protos.parse(kind, data)


def _messages(found):
    """Return a message and all messages inside it."""
    every = [found]
    for field, value in found.ListFields():
        if field.message_type is not None:
            for inner in value if _is_list(field) else [value]:
                every += _messages(inner)
    return every


def _is_list(field):
    return field.default_value == []


def change_message(rng, found):
    """Change a field of a message, or of one inside it, in place."""
    target = rng.choice([m for m in _messages(found) if m.DESCRIPTOR.fields])
    field = rng.choice(target.DESCRIPTOR.fields)
    is_list, is_message = _is_list(field), field.message_type
    if is_list and is_message:
        _change_list(rng, getattr(target, field.name))
    elif is_message or rng.random() < 0.1:
        target.ClearField(field.name)
    else:
        value = _value(rng, field, target)
        if is_list:
            getattr(target, field.name).extend([value] * rng.choice((1, 1000)))
        else:
            setattr(target, field.name, value)


def _change_list(rng, items):
    kind = rng.randrange(5)
    if kind == 0 and items:
        del items[rng.randrange(len(items)) :]
    elif kind == 1 and items:  # a duplicate name
        items.add().CopyFrom(rng.choice(items))
    elif kind == 2 and items:
        copy = rng.choice(items)
        items.extend([copy] * 300)
    elif kind == 3 and len(items) > 1:
        one, two = rng.choice(items), rng.choice(items)
        one.CopyFrom(two)
    else:
        items.add()


def _value(rng, field, target):
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        old = getattr(target, field.name)
        old = old if isinstance(old, str) else ""
        new = rng.choice(("", "x", "../../x", "/etc/passwd", "a/" * 500, old + "é"))
        if old.startswith("{") and rng.random() < 0.9:
            new = json_text(rng, old).encode("utf-8", "replace").decode()
        return new if field.type == field.TYPE_STRING else new.encode()
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    is_long = field.type in (field.TYPE_INT64, field.TYPE_SINT64)
    value = rng.choice(LONG if is_long else INTEGERS)
    unsigned = field.TYPE_FIXED32, field.TYPE_UINT32, field.TYPE_UINT64
    return value % 2**32 if field.type in unsigned else value


def _proto(name, kind):
    def mutate(rng, files):
        found = message(kind, files[name])
        for _ in range(rng.choice((1, 1, 2, 5))):
            change_message(rng, found)
        return {**files, name: found.SerializeToString()}

    return mutate


def metadata(rng, files):
    """Mutate the JSON of a Keras object, wherever the release stores it."""
    name = "keras_metadata.pb"
    if name not in files:
        return _json_of_nodes(rng, files)
    found = message("KerasMetadata", files[name])
    item = rng.choice(found.nodes)
    item.metadata = json_text(rng, item.metadata).encode("utf-8", "replace").decode()
    return {**files, name: found.SerializeToString()}


def _json_of_nodes(rng, files):
    found = message("SavedModel", files["saved_model.pb"])
    nodes = found.meta_graphs[0].object_graph_def.nodes
    item = rng.choice([n.user_object for n in nodes if n.user_object.metadata])
    item.metadata = json_text(rng, item.metadata).encode("utf-8", "replace").decode()
    return {**files, "saved_model.pb": found.SerializeToString()}


def function(rng, files):
    """Change a function of the graph: its nodes, their inputs, what they call."""
    found = message("SavedModel", files["saved_model.pb"])
    graph = message("Graph", found.meta_graphs[0].graph_def)
    stored = graph.library.function
    for _ in range(rng.choice((1, 1, 2, 5, 50))):
        at = rng.randrange(len(stored))
        changed = message("FunctionDef", stored[at])
        rng.choice((change_message, _rewired, _calling))(rng, changed)
        if rng.random() < 0.2:  # calls another function by the name of this one
            changed.signature.name = message(
                "FunctionDef", rng.choice(stored)
            ).signature.name
        stored[at] = changed.SerializeToString()
    found.meta_graphs[0].graph_def = graph.SerializeToString()
    return {**files, "saved_model.pb": found.SerializeToString()}


def _of_session(edit):
    """Return a mutation that makes `edit(rng, changed)` to the graph of TensorFlow 1.

    Its nodes are those of a function then, each input with its position.
    """

    def mutate(rng, files):
        found = message("SavedModel", files["saved_model.pb"])
        graph = message("Graph", found.meta_graphs[0].graph_def)
        changed = message("FunctionDef", b"")
        changed.node_def.extend(graph.node)
        for node in changed.node_def:
            node.input[:] = [
                text if ":" in text or "^" in text else f"{text}:0"
                for text in node.input
            ]
        for _ in range(rng.choice((1, 1, 5, 20))):
            edit(rng, changed)
        del graph.node[:]
        graph.node.extend(changed.node_def)
        found.meta_graphs[0].graph_def = graph.SerializeToString()
        return {**files, "saved_model.pb": found.SerializeToString()}

    return mutate


def _exchanged(rng, changed):
    """Give a node the op, the name, the inputs or an output of another one."""
    node, other = rng.choice(changed.node_def), rng.choice(changed.node_def)
    kind = rng.randrange(4)
    if kind == 0:
        node.op = other.op
    elif kind == 1:
        node.name = other.name
    elif kind == 2:
        node.input[:] = other.input
    elif node.input:
        taken = rng.choice(("", "", "^")) + other.name + rng.choice(("", ":1", ":x"))
        node.input[rng.randrange(len(node.input))] = taken


def _rewired(rng, changed):
    """Give a node the output of another node, which may come after it."""
    nodes = [node for node in changed.node_def if node.input]
    if nodes:
        node, other = rng.choice(nodes), rng.choice(changed.node_def)
        output = rng.choice((":output:0", ":z:0", "", ":output:7", ":output:x"))
        node.input[rng.randrange(len(node.input))] = other.name + output


def _calling(rng, changed):
    """Let nodes call a function, often the one that they are in."""
    attrs = [attr for node in changed.node_def for attr in node.attr]
    calls = [attr.value.func for attr in attrs if attr.value.HasField("func")]
    for call in calls:
        call.name = rng.choice((changed.signature.name, rng.choice(calls).name, "x"))


def concrete(rng, files):
    """Change the arguments, the results or the captures of a function."""
    found = message("SavedModel", files["saved_model.pb"])
    stored = found.meta_graphs[0].object_graph_def.concrete_functions
    at = rng.randrange(len(stored))
    changed = message("NamedConcreteFunction", stored[at])
    part = rng.choice(("canonicalized_input_signature", "output_signature", ""))
    if part:
        nest = message("StructuredValue", getattr(changed.value, part))
        change_message(rng, nest)
        setattr(changed.value, part, nest.SerializeToString())
    else:
        change_message(rng, changed)
    stored[at] = changed.SerializeToString()
    return {**files, "saved_model.pb": found.SerializeToString()}


def varint(number):
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def block(entries):
    """Return a block of a table, with its trailer; no key shares a prefix."""
    data = b"".join(
        varint(0) + varint(len(key)) + varint(len(value)) + key + value
        for key, value in entries
    )
    return sealed(data + struct.pack("<II", 0, 1))


def sealed(data):
    data += b"\0"
    return data + struct.pack("<I", sorted_table.mask(google_crc32c.value(data)))


def table(entries):
    """Return the bytes of a sorted table with one block of `[(key, value)]`."""
    data = block(entries)
    handle = varint(0) + varint(len(data) - sorted_table.TRAILER_BYTES)
    return with_index(data, [(b"\xff", handle)])


def with_index(data, handles):
    """Return blocks of data followed by the index block and the footer."""
    index = block(handles)
    at = varint(len(data)) + varint(len(index) - sorted_table.TRAILER_BYTES)
    footer = (varint(0) + varint(0) + at).ljust(sorted_table.FOOTER_BYTES - 8, b"\0")
    return data + index + footer + struct.pack("<Q", sorted_table.MAGIC)


def _index_name(files):
    return next(name for name in sorted(files) if name.endswith(".index"))


def read_index(files):
    """Return the checkpoint's index as `{key: value}`."""
    return sorted_table._read(files[_index_name(files)])


def with_entries(files, entries):
    return {**files, _index_name(files): table(sorted(entries.items()))}


def checkpoint_entry(rng, files):
    """Change a BundleEntry or the header, or swap two keys."""
    entries = read_index(files)
    key = rng.choice(sorted(entries))
    if rng.random() < 0.3:
        other = rng.choice(sorted(entries))
        entries[key], entries[other] = entries[other], entries[key]
        return with_entries(files, entries)
    found = message("BundleEntry" if key else "BundleHeader", entries[key])
    change_message(rng, found)
    return with_entries(files, {**entries, key: found.SerializeToString()})


def with_string(files, entries, key, text):
    """Return the files with a string tensor appended to the first shard."""
    shard = next(name for name in sorted(files) if ".data-00000" in name)
    crc = google_crc32c.value(len(text).to_bytes(4, "little"))
    lengths = struct.pack("<I", sorted_table.mask(crc))
    data = varint(len(text)) + lengths + text
    entry = message("BundleEntry", entries[key])
    entry.offset, entry.size = len(files[shard]), len(data)
    entry.crc32c = sorted_table.mask(
        google_crc32c.extend(google_crc32c.extend(crc, lengths), text)
    )
    entries = {**entries, key: entry.SerializeToString()}
    return with_entries({**files, shard: files[shard] + data}, entries)


def object_graph(files):
    """Return the parsed object graph of the checkpoint."""
    entries = read_index(files)
    entry = message("BundleEntry", entries[OBJECT_GRAPH_KEY.encode()])
    shard = next(
        name for name in sorted(files) if f".data-{entry.shard_id:05d}" in name
    )
    data = files[shard][entry.offset : entry.offset + entry.size]
    length, start = protos.read_varint(data, 0)
    return message("CheckpointGraph", data[start + 4 : start + 4 + length])


def checkpoint_graph(rng, files):
    """Change the object graph of a checkpoint: edges, cycles, names, slots."""
    found = object_graph(files)
    for _ in range(rng.choice((1, 1, 2, 5))):
        change_message(rng, found)
    key = OBJECT_GRAPH_KEY.encode()
    return with_string(files, read_index(files), key, found.SerializeToString())


RECORDED = {"function": function, "concrete": concrete}
CHECKPOINT = {"entry": checkpoint_entry, "graph": checkpoint_graph}
SAVED_MODEL = {
    "message": _proto("saved_model.pb", "SavedModel"),
    "metadata": metadata,
    **CHECKPOINT,
}

# Sizes and counts.
SIZES = 0, 1, 2, 3, -1, 7, 64, 1000, 10**5, 10**7, 10**9, 2**31 - 1


def _repeats(rng):
    """Return how often a part is repeated: 2 to 4096 times, mostly a few."""
    return int(2 ** rng.triangular(1, 12, 1))


def _of_functions(edit):
    """Return a mutation that makes `edit(rng, function, functions)` to a few."""

    def mutate(rng, files):
        found = message("SavedModel", files["saved_model.pb"])
        graph = message("Graph", found.meta_graphs[0].graph_def)
        stored = [message("FunctionDef", data) for data in graph.library.function]
        for _ in range(rng.choice((1, 5, 20))):
            edit(rng, rng.choice([one for one in stored if one.node_def]))
        del graph.library.function[:]
        graph.library.function.extend(one.SerializeToString() for one in stored)
        found.meta_graphs[0].graph_def = graph.SerializeToString()
        return {**files, "saved_model.pb": found.SerializeToString()}

    return mutate


def _resized(rng, changed):
    """Change a number in a function: of a constant, of its shape, or an attribute."""
    found = rng.choice(changed.node_def).attr
    value = rng.choice(found).value if found else message("AttrValue", b"")
    tensor, size = value.tensor, rng.choice(SIZES)
    if value.HasField("i"):
        value.i = size
    elif value.list.i:
        value.list.i[rng.randrange(len(value.list.i))] = size
    elif value.HasField("tensor") and tensor.dtype in (3, 9) and rng.random() < 0.7:
        kind = np.dtype({3: "int32", 9: "int64"}[tensor.dtype])
        held = np.frombuffer(tensor.tensor_content, kind).copy()
        if held.size:
            held[rng.randrange(held.size)] = size
            tensor.tensor_content = held.tobytes()
        else:
            (tensor.int_val if kind == "int32" else tensor.int64_val)[:] = [size]
    elif value.HasField("tensor"):  # one value for all
        tensor.tensor_shape.dim.add(size=size)
        del tensor.float_val[1:]
        tensor.tensor_content = b""


def _repeated(rng, changed):
    """Let a node be there many times, each taking what the one before gives."""
    takers = [node for node in changed.node_def if node.input]
    taker = rng.choice(takers) if takers else None
    taken = [i for i, text in enumerate(taker.input) if ":" in text] if taker else []
    if not taken:
        return
    place = rng.choice(taken)
    output = taker.input[place]
    source = next(n for n in changed.node_def if n.name == output.split(":")[0])
    if not source.input:
        return
    rest, last = output.partition(":")[2], output
    is_twice = len(source.input) > 1 and rng.random() < 0.3  # the same for both inputs
    for _ in range(_repeats(rng)):
        copy = changed.node_def.add()
        copy.CopyFrom(source)
        copy.name = f"{source.name}_{len(changed.node_def)}"
        copy.input[0] = last
        if is_twice:
            copy.input[1] = last
        last = f"{copy.name}:{rest}"
    taker.input[place] = last


def _both(rng, changed):
    _repeated(rng, changed)
    _resized(rng, changed)


def h5_sizes(rng, files):
    """Change numbers in the config of a model, or repeat a layer of a list."""

    def edit(file):
        config = json.loads(file.attrs["model_config"])
        for _ in range(rng.choice((1, 2, 5))):
            places = [*_numbers_in(config)]
            container, key = rng.choice(places) if places else ({}, 0)
            container[key] = rng.choice(SIZES)
        layers = config["config"]["layers"]
        if rng.random() < 0.3 and "inbound_nodes" not in layers[0]:
            one, count = rng.choice(layers), _repeats(rng)
            named = {"name": rng.choice((None, "same"))}
            layers += [
                {**one, "config": {**one["config"], "name": named["name"] or f"r{n}"}}
                for n in range(count)
            ]
        file.attrs["model_config"] = json.dumps(config)

    return h5_edited(files, edit)


def _numbers_in(value):
    """Yield `(container, key)` of the integers in a nest."""
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, item in pairs:
        if isinstance(item, int) and not isinstance(item, bool):
            yield value, key
        else:
            yield from _numbers_in(item)


# Mutations of numbers and of structure, after which time and memory are looked at.
GRAPH_SIZES = {
    "numbers": _of_functions(_resized),
    "repeats": _of_functions(_repeated),
    "both": _of_functions(_both),
}
SESSION = {
    "message": SAVED_MODEL["message"],
    "nodes": _of_session(_exchanged),
    "entry": checkpoint_entry,
    "numbers": _of_session(_resized),
    "repeats": _of_session(_repeated),
    "both": _of_session(_both),
}
HDF5["sizes"] = h5_sizes
