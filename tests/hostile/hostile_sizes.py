"""Small files that ask for much time or memory, each made by a function.

A maker returns `{name: bytes}`, as those of hostile_exploits.py do. `COSTS` says how
each is opened, and what the error says; None where the file is a model that opens.
"""

import functools
import io
import json
import random
import struct
import warnings
import zipfile

import h5py
import hostile_marshal as marshal
import hostile_structures as structures
import hostile_worker
import numpy as np
from hostile_bytes import Link, Pipe

from keras_policies.legacy.readers.checkpoint import protos

MODULE = "lost/2.15.1.tar.xz/2.15.1/module_signatures/model"
KERAS = "more.tar.xz/2.15.1/amsgrad/model.keras"
CHECKPOINT = "more.tar.xz/2.15.1/amsgrad/checkpoint"
SAVED_MODEL = "more.tar.xz/2.4.4/nested_twice/saved_model"
# The datatype of a text of variable length, in ASCII.
TEXT = bytes((0x19, 1, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0))
INPUT = {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 4]}}


# Files of HDF5


def h5(layers, training=None, edit=lambda file: None):
    """Return an H5 file with a Sequential of layers after an input of 4 numbers."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        model = {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}
        file.attrs["keras_version"], file.attrs["backend"] = "2.4.0", "tensorflow"
        file.attrs["model_config"] = json.dumps(model)
        if training is not None:
            file.attrs["training_config"] = json.dumps(training)
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([], "S1")
        edit(file)
    return {"model.h5": buffer.getvalue()}


def layer(class_name, name="one", shape=(4,), **config):
    """Return an H5 file with an input of a shape and a layer."""
    first = {
        "class_name": "InputLayer",
        "config": {"batch_input_shape": [None, *shape]},
    }
    return h5([first, {"class_name": class_name, "config": {"name": name, **config}}])


def lambdas(functions):
    """Return an H5 file with Lambda layers of marshalled functions."""
    return h5([INPUT, *(_lambda(f, n) for n, f in enumerate(functions))])


def _lambda(function, number):
    code = [marshal.text(function), None, None]
    config = {"name": f"l{number}", "function": code, "function_type": "lambda"}
    return {"class_name": "Lambda", "config": config}


def nested_constant(python):
    """A tuple in tuples, 30 deep; each level was visited twice."""
    deep = functools.reduce(lambda found, _: (found,), range(30), ())
    end = [("LOAD_FAST", 0), ("LOAD_CONST", 1), ("BUILD_TUPLE", 2), ("RETURN_VALUE", 0)]
    return lambdas([marshal.code(python, end, [None, deep])])


def dead_instructions(python, times=350):
    """A function with 100,000 instructions after its return, called often."""
    dead = [("RETURN_VALUE", 0), *([("LOAD_CONST", 0)] * 100_000), ("RETURN_VALUE", 0)]
    inner = marshal.code(python, [("LOAD_FAST", 0), *dead], [None])
    name = [] if python in ("2.7", "3.11", "3.12") else [("LOAD_CONST", 1)]
    make = [("LOAD_CONST", 0), *name, ("MAKE_FUNCTION", 0), ("STORE_FAST", 1)]
    called = _called(python, [("LOAD_FAST", 1)], [("LOAD_FAST", 0)])
    again = [*called, ("STORE_FAST", 0)] * times
    end = [("LOAD_FAST", 0), ("RETURN_VALUE", 0)]
    whole = marshal.code(python, [*make, *again, *end], [inner, "f"], local=("x", "f"))
    return lambdas([whole])


def _called(python, function, argument):
    """Return the instructions that call a function of one argument."""
    if python in ("3.11", "3.12"):
        return [("PUSH_NULL", 0), *function, *argument, ("CALL", 1)]
    return [*function, *argument, ("CALL_FUNCTION", 1)]


def _added(python):
    if python in ("3.11", "3.12"):
        return "BINARY_OP", 0
    return ("BINARY", "+"), 0


def looping(python, rounds, depth=1):
    """Return a function that adds a number to its input in loops inside each other."""
    unpop = [("POP_TOP", 0)] if python == "3.12" else []  # where END_FOR would be
    inner = [("LOAD_FAST", 0), ("LOAD_CONST", 1), _added(python), ("STORE_FAST", 0)]
    back = "JUMP_BACKWARD" if python in ("3.11", "3.12") else "JUMP_ABSOLUTE"
    for level in range(depth):
        inner = [
            *(("LOAD_CONST", 0), ("GET_ITER", 0), ("AT", f"next {level}")),
            *(("FOR_ITER", f"end {level}"), ("STORE_FAST", 1), *inner),
            *((back, f"next {level}"), *unpop, ("AT", f"end {level}")),
        ]
    end = [("LOAD_FAST", 0), ("RETURN_VALUE", 0)]
    constants = [(0.0,) * rounds, 1.0]
    return marshal.code(python, [*inner, *end], constants, local=("x", "i"))


def never_ending(python):
    """A function that jumps back to its beginning."""
    back = "JUMP_BACKWARD" if python in ("3.11", "3.12") else "JUMP_ABSOLUTE"
    loop = [("AT", "start"), ("NOP", 0), (back, "start"), ("RETURN_VALUE", 0)]
    return lambdas([marshal.code(python, loop)] * 60)


def loops(python):
    """60 Lambda layers with a loop of 450 rounds."""
    return lambdas([looping(python, 450)] * 60)


def loops_in_loops(python):
    """60 Lambda layers with four loops of 30 rounds inside each other."""
    return lambdas([looping(python, 30, 4)] * 60)


def large_constants(python):
    """60 Lambda layers that load a tuple of 900 items a thousand times."""
    load = [("LOAD_CONST", 0), ("POP_TOP", 0)] * 1000
    end = [("LOAD_FAST", 0), ("RETURN_VALUE", 0)]
    return lambdas([marshal.code(python, [*load, *end], [(0.0,) * 900])] * 60)


def texts_that_grow(python):
    """20 Lambda layers that add to a text 800 times."""
    grow = [("LOAD_FAST", 1), ("LOAD_CONST", 0), _added(python), ("STORE_FAST", 1)]
    start = [("LOAD_CONST", 0), ("STORE_FAST", 1)]
    end = [("LOAD_FAST", 0), ("RETURN_VALUE", 0)]
    code = marshal.code(python, [*start, *grow * 800, *end], ["abcdefghi"], (), "xt")
    return lambdas([code] * 20)


def sizes_in_each_other(rounds=60):
    """`p = (p*(n+m) + p//k) // (n+1)`, where each size names the last one three times.

    `n` and `m` are the lengths of two axes; the function returns `reshape(x, [p, -1])`.
    """
    names = dict.fromkeys(("tf", "shape", "reshape"))
    at, constants = {name: i for i, name in enumerate(names)}, [0, 1, -1]
    divisors = range(2, rounds + 2)
    k = {value: len(constants) + i for i, value in enumerate(divisors)}
    x, n, m, p = (("LOAD_FAST", i) for i in range(4))
    shape = [("LOAD_GLOBAL", at["tf"]), ("LOAD_ATTR", at["shape"]), x]
    shape += [("CALL_FUNCTION", 1)]
    add, times, divide = ((("BINARY", x), 0) for x in ("+", "*", "//"))
    body = [*shape, ("LOAD_CONST", 0), ("SUBSCRIPT", 0), ("STORE_FAST", 1)]
    body += [*shape, ("LOAD_CONST", 1), ("SUBSCRIPT", 0), ("STORE_FAST", 2)]
    body += [n, m, times, ("LOAD_CONST", 1), add, ("STORE_FAST", 3)]
    for divisor in divisors:
        body += [p, n, m, add, times, p, ("LOAD_CONST", k[divisor]), divide, add]
        body += [n, ("LOAD_CONST", 1), add, divide, ("STORE_FAST", 3)]
    body += [("LOAD_GLOBAL", at["tf"]), ("LOAD_ATTR", at["reshape"]), x]
    body += [p, ("LOAD_CONST", 2), ("BUILD_TUPLE", 2), ("CALL_FUNCTION", 2)]
    code = marshal.code(
        "3.8", [*body, ("RETURN_VALUE", 0)], [*constants, *divisors], names, "xnmp"
    )
    entry = {"class_name": "InputLayer", "config": {"batch_input_shape": [None, None]}}
    return h5([entry, _lambda(code, 0)])


def references(python):
    """A constant of tuples that hold the one before twice: 2^60 items."""
    kept = [b"\xa8" + struct.pack("<I", 0)]  # with a number, from 0 on
    for number in range(60):
        twice = (b"r" + struct.pack("<I", number)) * 2
        kept.append(b"\xa8" + struct.pack("<I", 2) + twice)
    every = b"(" + struct.pack("<I", len(kept)) + b"".join(kept)
    code = [("LOAD_CONST", 0), ("RETURN_VALUE", 0)]
    return lambdas([marshal.code(python, code, [marshal.Marshalled(every)])])


def many_oov():
    """A lookup layer with 300 million tokens for unknown words."""
    return layer("StringLookup", vocabulary=["a"], num_oov_indices=300_000_000)


def many_thresholds():
    metric = {"class_name": "AUC", "config": {"name": "a", "num_thresholds": 10**8}}
    adam = {"class_name": "Adam", "config": {"name": "Adam"}}
    training = {"optimizer_config": adam, "loss": "mse", "metrics": [metric]}
    dense = {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}
    return h5([INPUT, dense], training)


def many_classes():
    """A metric with a matrix of a million times a million."""
    metric = {"class_name": "MeanIoU", "config": {"name": "a", "num_classes": 10**6}}
    adam = {"class_name": "Adam", "config": {"name": "Adam"}}
    training = {"optimizer_config": adam, "loss": "mse", "metrics": [metric]}
    dense = {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}
    return h5([INPUT, dense], training)


def array_of_long_texts():
    """An array in a config whose dtype has 800 million bytes an item."""
    array = {
        "class_name": "__numpy__",
        "config": {"value": ["a"], "dtype": "U200000000"},
    }
    return layer("Rescaling", scale=array, offset=0.0)


def unrolled_steps():
    """A recurrent layer that is to be unrolled over a million steps."""
    shape = (1_000_000, 1)
    return layer("SimpleRNN", shape=shape, units=1, unroll=True, dtype="float32")


def many_powers():
    """A norm that is computed in a billion rounds."""
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 4}}
    return layer("SpectralNormalization", layer=dense, power_iterations=10**9)


def large_shapes():
    """Layers whose outputs would have 10^15 items and more."""
    names = {"RepeatVector": {"n": 10**9}, "UpSampling1D": {"size": 10**9}}
    layers = [
        {"class_name": name, "config": {"name": name.lower(), **config}}
        for name, config in names.items()
    ]
    return h5([INPUT, *layers])


def large_padding():
    return layer("ZeroPadding2D", shape=(2, 2, 1), padding=[[10**9, 0], [0, 10**9]])


def large_pictures():
    return layer("Resizing", shape=(2, 2, 1), height=10**6, width=10**6)


def as_large_as_allowed():
    """A file of 10 MB whose layers are to take 8 times as much, and 256 MB."""
    weights = np.random.default_rng(0).random((10**7 // 8,), "float64")

    def edit(file):
        group = file["model_weights"].create_group("d")
        group["kernel:0"] = weights
        group.attrs["weight_names"] = [b"kernel:0"]
        del file["model_weights"].attrs["layer_names"]
        file["model_weights"].attrs["layer_names"] = [b"d"]

    units = (8 * 10**7 + 2**28) // 4 // 5
    dense = {"class_name": "Dense", "config": {"name": "d", "units": units}}
    return h5([INPUT, dense], edit=edit)


def steps_of_time():
    """A layer that is called on each of 100 million steps."""
    relu = {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}
    return layer("TimeDistributed", shape=(10**8, 2), layer=relu)


def many_tokens_a_text():
    config = {"max_tokens": 10, "output_sequence_length": 10**9, "vocabulary": ["a"]}
    first = {"batch_input_shape": [None, 1], "dtype": "string"}
    text = {"class_name": "TextVectorization", "config": {"name": "t", **config}}
    return h5([{"class_name": "InputLayer", "config": first}, text])


def one_text_three_thousand_times():
    """An attribute of 3,001 texts that are all the same object of a megabyte."""
    names = np.array([b"a" * 10**6, *([b"b"] * 3000)], object)

    def edit(file):
        group = file["model_weights"]
        group.attrs.create("layer_names", names, dtype=h5py.string_dtype())

    ((name, data),) = h5([INPUT], edit=edit).items()
    at = data.index(b"layer_names\0")
    pattern = struct.pack("<I", 10**6)
    first = data.index(pattern, at)
    reference = data[first : first + 16]
    start = first + 16
    return {name: data[:start] + reference * 3000 + data[start + 16 * 3000 :]}


def attributes_over_zeros():
    """800 attributes of endless texts, all of which are the same megabyte of zeros.

    Source: HDF5 File Format Specification 3.0, IV.A.2.m, version 3 of the message.
    """
    name, size = b"layer_names\0", 80
    found = b""
    for number in reversed(range(800)):
        left = size * (number + 1) - 9 - len(name) - len(TEXT)
        sizes = struct.pack("<HHH", len(name), len(TEXT), left)
        space = struct.pack("<BBBBQ", 2, 1, 0, 1, 2**40)
        found += (bytes((3, 0)) + sizes + b"\0" + name + TEXT + space).ljust(
            size, b"\0"
        )
    ((file, data),) = h5([INPUT]).items()
    return {file: data + found + bytes(10**6)}


def heaps_in_each_other():
    """5,000 global heaps, each around the next, all with the same 30,000 objects."""
    tail = struct.pack("<HH4xQ", 1, 0, 0) * 30_000
    heaps = []
    for number in reversed(range(5000)):  # an object of 16 bytes is the next heap
        size = 32 * (number + 1) + len(tail)
        inner = struct.pack("<HH4xQ", 1, 0, 16 if number else 0)
        heaps.append(struct.pack("<4sB3xQ", b"GCOL", 1, size) + inner)
    ((file, data),) = h5([INPUT]).items()
    return {file: data + b"".join(heaps) + tail}


def chunks_at_one_place():
    """A dataset of 1000 chunks of a megabyte, all of which are the same bytes."""
    chunk = random.Random(0).randbytes(10**6)

    def edit(file):
        shape, chunks = (1000 * 10**6,), (10**6,)
        dense = file["model_weights"].create_group("d")
        found = dense.create_dataset("kernel:0", shape, "uint8", chunks=chunks)
        found.id.write_direct_chunk((0,), chunk)
        for number in range(1, 1000):
            found.id.write_direct_chunk((number * 10**6,), b"x")
        dense.attrs["weight_names"] = [b"kernel:0"]
        del file["model_weights"].attrs["layer_names"]
        file["model_weights"].attrs["layer_names"] = [b"d"]

    dense = {"class_name": "Embedding", "config": {"name": "d", "input_dim": 10**9}}
    dense["config"]["output_dim"] = 1
    ((name, data),) = h5([INPUT, dense], edit=edit).items()
    place = struct.pack("<Q", data.index(chunk[:64]))
    size, changed = struct.pack("<II", 1, 0), bytearray(data)
    at = data.find(b"TREE")
    while at >= 0:  # each key is its size, a mask, and offsets; then comes the address
        changed[at:] = _with_one_place(changed[at:], size, place)
        at = data.find(b"TREE", at + 4)
    return {name: bytes(changed)}


def _with_one_place(node, size, place):
    """Return a node of a tree of chunks, all of which lie at one place."""
    node = bytearray(node)
    kind, level, count = struct.unpack_from("<BBH", node, 4)
    if kind != 1 or level != 0:
        return node
    for number in range(count):
        key = 24 + number * (24 + 8)  # a dataset of one axis has keys of 24 bytes
        if node[key : key + 8] == size:
            node[key : key + 4] = struct.pack("<I", 10**6)
            node[key + 24 : key + 32] = place
    return node


def a_dataset_of_a_thousand_layers():
    """A thousand layers whose weights are the same megabyte."""
    names = [f"d{number}" for number in range(1000)]

    def edit(file):
        group = file["model_weights"]
        shared = group.create_dataset("shared", data=np.ones((1000, 250), "float32"))
        for name in names:
            own = group.create_group(name)
            own[f"{name}/kernel:0"] = shared
            own.attrs["weight_names"] = [f"{name}/kernel:0".encode()]
        del group.attrs["layer_names"]
        group.attrs["layer_names"] = [name.encode() for name in names]

    config = {"units": 250, "use_bias": False, "activation": "linear"}
    layers = [
        {"class_name": "Dense", "config": {"name": name, **config}} for name in names
    ]
    return h5([INPUT, *layers], edit=edit)


def deep_configs():
    """Layers that wrap each other 300 times."""
    inner = {"class_name": "Dense", "config": {"name": "d", "units": 1}}
    for number in range(300):
        inner = {
            "class_name": "TimeDistributed",
            "config": {"name": f"t{number}", "layer": inner},
        }
    return h5([INPUT, inner])


def deep_models():
    """Models in each other, 150 deep."""
    inner = {"class_name": "Dense", "config": {"name": "d", "units": 1}}
    for number in range(150):
        config = {"name": f"m{number}", "layers": [INPUT, inner]}
        inner = {"class_name": "Sequential", "config": config}
    return h5([INPUT, inner])


def functional(calls):
    """Return an H5 file with a Functional of `[(layer, layers that it is called on)]`.

    Its layers are in the order of their first calls, backwards.
    """
    nodes, counts = {}, {"x": 1}
    for name, taken in calls:
        node = [[taken, counts[taken] - 1, 0, {}]]
        nodes.setdefault(name, []).append(node)
        counts[name] = counts.get(name, 0) + 1
    layers = [{**INPUT, "name": "x", "config": {**INPUT["config"], "name": "x"}}]
    for name, inbound in nodes.items():
        config = {"name": name, "activation": "relu"}
        entry = {"class_name": "Activation", "name": name, "config": config}
        layers.append({**entry, "inbound_nodes": inbound})
    config = {
        "name": "m",
        "layers": layers[::-1],
        "input_layers": [["x", 0, 0]],
        "output_layers": [[calls[-1][0], counts[calls[-1][0]] - 1, 0]],
    }
    text = json.dumps({"class_name": "Functional", "config": config})
    return h5([INPUT], edit=lambda file: file.attrs.update(model_config=text))


def layers_backwards():
    """2,000 layers, each behind those that take its output."""
    names = ["x", *(f"a{n}" for n in range(2000))]
    return functional([*zip(names[1:], names, strict=False)])


def layers_there_and_back():
    """3,000 layers, called one after another, and then once more, backwards."""
    names = [f"a{n}" for n in range(3000)]
    names = ["x", *names, *names[::-1]]
    return functional([*zip(names[1:], names, strict=False)])


def states_of_a_billion_examples():
    """A recurrent layer that keeps its state for each example of a fixed batch."""
    entry = {"class_name": "InputLayer", "config": {"batch_input_shape": [10**9, 5, 4]}}
    config = {"name": "rnn", "units": 64, "stateful": True}
    return h5([entry, {"class_name": "LSTM", "config": config}])


def images_of_a_billion_rows():
    """The same for a convolution, whose state has the size of the image."""
    shape = [1, 5, 10**5, 10**5, 1]
    config = {"name": "rnn", "filters": 1, "kernel_size": [1, 1], "stateful": True}
    entry = {"class_name": "InputLayer", "config": {"batch_input_shape": shape}}
    return h5([entry, {"class_name": "ConvLSTM2D", "config": config}])


def deep_lists():
    """Lists in each other, 900 deep, wherever a layer has an argument."""
    deep = functools.reduce(lambda found, _: [found], range(900), [])
    config = {"name": "one", "units": 1, "activation": deep, "dtype": deep}
    return h5([INPUT, {"class_name": "Dense", "config": config, "inbound_nodes": deep}])


def deep_objects():
    """Objects of JSON in each other, a million deep."""

    def edit(file):
        file.attrs["model_config"] = '{"a":' * 10**6

    return h5([INPUT], edit=edit)


def many_layers_of_one_name():
    """20,000 layers of one name."""
    relu = {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}
    return h5([INPUT, *([relu] * 20_000)])


def long_numbers():
    """Integers of 4,300 digits and more."""

    def edit(file):
        file.attrs["model_config"] = file.attrs["model_config"].replace(
            "17", "9" * 4000
        )

    return h5(
        [INPUT, {"class_name": "Dense", "config": {"name": "d", "units": 17}}],
        edit=edit,
    )


# Archives


def _zip(members, method=zipfile.ZIP_DEFLATED):
    """Return a .keras file with the members of one, and `[(name, bytes)]`."""
    ((name, data),) = hostile_worker.original(KERAS).items()
    new = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        kept = [(member, old.read(member)) for member in old.namelist()]
    names = {name for name, _ in members}
    with warnings.catch_warnings(), zipfile.ZipFile(new, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that are there already
        for member, content in [*(k for k in kept if k[0] not in names), *members]:
            archive.writestr(zipfile.ZipInfo(member), content, method)
    return {name: new.getvalue()}


def bomb_of_zeros():
    """Weights of 300 MB that are packed in 300 KB."""
    return _zip([("model.weights.h5", bytes(300_000_000))])


def bomb_of_spaces():
    return _zip([("config.json", b"{" + b" " * 30_000_000 + b"}")])


def many_vocabularies():
    """300 vocabularies of a million empty words."""
    words = b"\n" * 1_000_000
    return _zip([(f"assets/w{n}/vocabulary.txt", words) for n in range(300)])


def many_paths_of_vocabularies():
    """3,000 vocabularies, and 3,000 layers in which each is looked for."""
    relu = {"class_name": "Activation", "config": {"name": "a", "activation": "relu"}}
    config = {"name": "m", "layers": [INPUT, *([relu] * 3000)]}
    model = json.dumps({"class_name": "Sequential", "config": config}).encode()
    names = (f"assets/layers/activation_{n}/x/vocabulary.txt" for n in range(3000))
    return _zip([("config.json", model), *((name, b"a\n") for name in names)])


def many_members():
    """A hundred thousand empty files."""
    return _zip([(f"assets/{number}", b"") for number in range(100_000)])


def members_with_odd_names():
    """Names that lead elsewhere, none of which may be written."""
    names = (
        "../x",
        "/etc/x",
        "assets/../../x/vocabulary.txt",
        "a\\..\\x",
        "C:x",
        "é" * 999,
    )
    return _zip([(name, b"x\n") for name in (*names, "assets/" + "a/" * 20_000)])


def members_of_one_name():
    """The same name 20,000 times."""
    return _zip([("config.json", b"{}")] * 20_000)


def bomb_in_every_method(method):
    return _zip([("model.weights.h5", bytes(100_000_000))], method)


# Checkpoints


def shards_of_a_pipe():
    name = "weights.data-00000-of-00001"
    return {**hostile_worker.original(CHECKPOINT), name: Pipe()}


def index_of_a_pipe():
    return {**hostile_worker.original(CHECKPOINT), "weights.index": Pipe()}


def weights_alone():
    """An HDF5 file of weights without a model, many of which are the same bytes."""
    ((_, data),) = a_dataset_of_a_thousand_layers().items()
    return {"weights": data}


def many_shards():
    """5,000 shards without a tensor, and one tensor in each of them."""
    files = hostile_worker.original(CHECKPOINT)
    entries = structures.read_index(files)
    header = structures.message("BundleHeader", entries[b""])
    header.num_shards = 5000
    empty = structures.message("BundleEntry", b"")
    empty.dtype = 1
    empty.shape.dim.add(size=0)
    found = {b"": header.SerializeToString()}
    shards = {}
    for number in range(5000):
        empty.shard_id = number
        found[b"t%05d" % number] = empty.SerializeToString()
        shards[f"weights.data-{number:05d}-of-05000"] = b""
    return {**structures.with_entries(files, found), **shards}


def shards_that_are_not_there():
    files = hostile_worker.original(CHECKPOINT)
    entries = structures.read_index(files)
    header = structures.message("BundleHeader", entries[b""])
    header.num_shards = 2**31 - 1
    return structures.with_entries(files, {**entries, b"": header.SerializeToString()})


def _object_graph(change):
    """Return a checkpoint after `change(nodes)` of its graph of objects."""
    files = hostile_worker.original(CHECKPOINT)
    entries = structures.read_index(files)
    key = structures.OBJECT_GRAPH_KEY.encode()
    shard = next(name for name in files if ".data-" in name)
    entry = structures.message("BundleEntry", entries[key])
    data = files[shard][entry.offset : entry.offset + entry.size]
    _, start = protos.read_varint(data, 0)  # the length, which a checksum follows
    graph = structures.message("CheckpointGraph", data[start + 4 :])
    change(graph.nodes)
    return structures.with_string(files, entries, key, graph.SerializeToString())


def objects_in_a_ring():
    """100,000 objects, each of which leads to the next, the last to the first."""

    def change(nodes):
        first = len(nodes)
        for number in range(100_000):
            nodes.add().children.add(
                node_id=first + (number + 1) % 100_000, local_name="n"
            )
        nodes[0].children.add(node_id=first, local_name="layer_with_weights-7")

    return _object_graph(change)


def objects_that_lead_to_all():
    """2,000 objects that lead to each other."""

    def change(nodes):
        first = len(nodes)
        for _ in range(1000):
            node = nodes.add()
            for number in range(1000):
                node.children.add(node_id=first + number, local_name=f"{number}")
        for number in range(300):
            nodes[0].children.add(
                node_id=first + number, local_name=f"layer_with_weights-{number}"
            )

    return _object_graph(change)


def numbers_of_a_billion_digits():
    """An edge whose number has a million digits."""

    def change(nodes):
        nodes[0].children.add(node_id=1, local_name="layer_with_weights-" + "9" * 10**6)

    return _object_graph(change)


# Folders


def _folder(changed):
    return {**hostile_worker.original(SAVED_MODEL), **changed}


def pipe():
    return {"model.h5": Pipe()}


def pipe_as_a_graph():
    return _folder({"saved_model.pb": Pipe()})


def pipe_as_metadata():
    return _folder({"keras_metadata.pb": Pipe()})


def pipe_as_weights():
    return _folder({"variables/variables.index": Pipe()})


def links_in_a_ring():
    return _folder({"saved_model.pb": Link("input/saved_model.pb")})


def folder_that_is_a_link():
    files = hostile_worker.original(SAVED_MODEL)
    return {"saved_model.pb": files["saved_model.pb"], "variables": Link("/etc")}


def link_with_dots():
    return _folder({"saved_model.pb": Link("input/variables/../../canary")})


def _nodes(change):
    """Return a SavedModel with `change(nodes)` made in its object graph."""
    files = hostile_worker.original(SAVED_MODEL)
    found = structures.message("SavedModel", files["saved_model.pb"])
    change(found.meta_graphs[0].object_graph_def.nodes)
    return {**files, "saved_model.pb": found.SerializeToString()}


def millions_of_objects():
    """2.9 million objects without a field."""
    files = hostile_worker.original(SAVED_MODEL)
    graph = _field(7, _field(1, b"") * 2_900_000)
    return {**files, "saved_model.pb": files["saved_model.pb"] + _field(2, graph)}


def _field(number, data):
    return structures.varint(number << 3 | 2) + structures.varint(len(data)) + data


def millions_of_graphs():
    """A million meta graphs, the first one valid."""
    files = hostile_worker.original(SAVED_MODEL)
    return {**files, "saved_model.pb": files["saved_model.pb"] + _field(2, b"") * 10**6}


def _namesakes(nodes):
    """Add 5,000 layers of one name and without variables."""
    for number in range(5000):
        nodes[0].children.add(node_id=len(nodes), local_name=f"layer-{number + 9}")
        node = nodes.add()
        node.user_object.identifier = "_tf_keras_layer"
        config = {"name": "same", "rate": 0.5}
        about = {"name": "same", "class_name": "Dropout", "config": config}
        node.user_object.metadata = json.dumps(about)


def layers_of_one_name():
    return _nodes(_namesakes)


def namesakes_in_a_graph():
    """5,000 layers of one name, and 2,000 nodes that may be in any of them."""

    def write(g):
        found = "x"
        for number in range(2000):
            found = g.add("Neg", [found], f"same_{number}/n")
        return found

    return graph(write, _namesakes)


# Graphs


class Graph:
    """The function of a signature, to be written anew."""

    def __init__(self, function, functions):
        self.function, self.functions = function, functions

    def new(self, name):
        """Return the graph of another function of one tensor."""
        made = structures.message("FunctionDef", b"")
        made.signature.name = name
        made.signature.input_arg.add(name="x")
        made.signature.output_arg.add(name="y")
        self.functions[name] = made
        return Graph(made, self.functions)

    def add(self, op, inputs, name=None, **attributes):
        """Add a node; return the name of its first output."""
        name = name or f"n{len(self.function.node_def)}"
        node = self.function.node_def.add(name=name, op=op)
        node.input.extend(inputs)
        for key, value in attributes.items():
            self._set(node.attr.add(key=key).value, value)
        return f"{name}:{OUTPUTS.get(op, 'output')}:0"

    def _set(self, attribute, value):
        if isinstance(value, Graph):
            attribute.func.name = value.function.signature.name
        elif isinstance(value, np.ndarray):
            tensor = attribute.tensor
            tensor.dtype = TYPES[value.dtype.name]
            for size in value.shape:
                tensor.tensor_shape.dim.add(size=size)
            if value.strides and not any(value.strides):  # one value for all
                value = value.reshape(-1)[:1]
                getattr(tensor, FIELDS[value.dtype.name]).extend(value.tolist())
            else:
                tensor.tensor_content = value.tobytes()
        elif isinstance(value, bool):
            attribute.b = value
        elif isinstance(value, float):
            attribute.f = value
        elif isinstance(value, bytes):
            attribute.s = value
        elif isinstance(value, list):
            attribute.list.i.extend(value)
        elif isinstance(value, str):
            attribute.type = TYPES[value]
        else:
            attribute.i = value

    def const(self, value, dtype="int32", shape=None):
        """Add a constant; with a shape, one that repeats a value."""
        array = np.array(value, dtype)
        if shape is not None:
            array = np.broadcast_to(array, shape)
        return self.add("Const", [], value=array, dtype=dtype)

    def returns(self, output):
        """Let the function return a tensor."""
        name = self.function.signature.output_arg[0].name
        del self.function.ret[:]
        self.function.ret.add(key=name, value=output)


OUTPUTS = {
    **dict.fromkeys(("AddV2", "Mul", "Sub", "Less", "LessEqual"), "z"),
    **dict.fromkeys(("Cast", "Erf", "Neg", "Sqrt"), "y"),
    **{"Relu": "activations", "MatMul": "product", "Split": "output"},
    **{"TensorListReserve": "handle", "TensorListSetItem": "output_handle"},
    **{"TensorListStack": "tensor", "TensorListGetItem": "item"},
    **{"AddN": "sum"},
}
TYPES = {"float32": 1, "int32": 3, "int64": 9, "bool": 10, "float64": 2, "complex64": 8}
FIELDS = {"float32": "float_val", "int32": "int_val", "bool": "bool_val"}


def graph(write, change=lambda nodes: None):
    """Return a SavedModel whose signature returns `write(graph)`, of its input "x".

    `change(nodes)` is made in its graph of objects.
    """
    files = hostile_worker.original(MODULE)
    found = structures.message("SavedModel", files["saved_model.pb"])
    stored = structures.message("Graph", found.meta_graphs[0].graph_def)
    every = [structures.message("FunctionDef", d) for d in stored.library.function]
    functions = {one.signature.name: one for one in every}
    serving = functions["__inference_signature_wrapper___call___99"]
    del serving.node_def[:]
    one = Graph(serving, functions)
    one.returns(write(one))
    del stored.library.function[:]
    stored.library.function.extend(f.SerializeToString() for f in functions.values())
    found.meta_graphs[0].graph_def = stored.SerializeToString()
    change(found.meta_graphs[0].object_graph_def.nodes)
    return {**files, "saved_model.pb": found.SerializeToString()}


def name_of_a_megabyte():
    """A node in 25 scopes, the first of a megabyte; its function is called often."""

    def write(g):
        inner = g.new("inner")
        inner.returns(inner.add("Relu", ["x"], "n" * 10**6 + "/a" * 24))
        found = "x"
        for _ in range(3000):
            found = g.add("PartitionedCall", [found], f=inner)
        return found

    return graph(write)


def many_reshapes():
    """3,000 Reshapes to [batch, -1]."""

    def write(g):
        found = "x"
        zero, one, whole = g.const([0]), g.const([1]), g.const(-1)
        for _ in range(3000):
            shape = g.add("Shape", [found])
            batch = g.add("StridedSlice", [shape, zero, one, one], shrink_axis_mask=1)
            sizes = g.add("Pack", [batch, whole], axis=0)
            found = g.add("Reshape", [found, sizes])
        return found

    return graph(write)


def ten_million_axes():
    """A sum over ten million axes, which the file stores as one number."""
    return graph(lambda g: g.add("Sum", ["x", g.const(1, shape=(10**7,))]))


def ten_million_sizes():
    """A Reshape to as many sizes."""
    return graph(lambda g: g.add("Reshape", ["x", g.const(1, shape=(10**7,))]))


def many_calls_of_one_name():
    """7,000 nodes of one name, that of a node in a function."""

    def write(g):
        inner = g.new("inner")
        inner.returns(inner.add("Neg", ["x"], "same"))
        found = "x"
        for _ in range(7000):
            found = g.add("PartitionedCall", [found], f=inner)
        return found

    return graph(write)


def _loop(g, rounds, body, start):
    """Return the second result of a loop of rounds; `body(graph, tensor)` is one."""
    name = f"loop{len(g.functions)}"
    condition, inner = g.new(f"{name}_if"), g.new(f"{name}_do")
    for one in condition, inner:
        one.function.signature.input_arg.add(name="t")
    condition.returns(condition.add("Less", ["x", condition.const(rounds)]))
    inner.function.signature.output_arg.add(name="u")
    after = inner.add("AddV2", ["x", inner.const(1)])
    tensor = body(inner, "t")
    inner.returns(after)
    inner.function.ret.add(key="u", value=tensor)
    found = g.add("While", [g.const(0), start], cond=condition, body=inner)
    return found.replace(":0", ":1")


def loops_of_a_graph():
    """Three loops of 150 rounds in each other."""

    def level(depth):
        if not depth:
            return lambda g, tensor: g.add("Neg", [tensor])
        inner = level(depth - 1)
        return lambda g, tensor: _loop(g, 150, inner, tensor)

    return graph(lambda g: level(3)(g, "x"))


def conditions_of_a_graph():
    """Conditions on data in each other, 40 deep: 2^40 branches."""

    def branch(g, tensor, depth):
        if not depth:
            return g.add("Neg", [tensor])
        inner = g.functions and g
        name = f"branch{depth}"
        if name not in g.functions:
            made = g.new(name)
            made.returns(branch(made, "x", depth - 1))
        made = Graph(g.functions[name], g.functions)
        total = inner.add("Sum", [tensor, inner.const([0, 1])])
        which = inner.add("Less", [total, inner.const(0.0, "float32")])
        return inner.add("If", [which, tensor], then_branch=made, else_branch=made)

    return graph(lambda g: branch(g, "x", 40))


def long_loop():
    """A loop whose condition is always true."""
    return graph(lambda g: _loop(g, 2**31 - 1, lambda g, t: g.add("Neg", [t]), "x"))


def gathers_of_gathers():
    """A tensor that is looked up in itself 60 times: it would have 2^60 axes."""

    def write(g):
        found = g.add("Cast", ["x"], SrcT="float32", DstT="int32")
        for _ in range(60):
            found = g.add("GatherV2", [found, found, g.const(0)])
        return g.add("Cast", [found], SrcT="int32", DstT="float32")

    return graph(write)


def scopes_of_every_name():
    """4,000 nodes in 30 scopes each: Keras itself takes a second for so many layers."""

    def write(g):
        found = "x"
        for number in range(4_000):
            name = "/".join(f"s{number}_{level}" for level in range(30))
            found = g.add("Neg", [found], f"{name}/n")
        return found

    return graph(write)


# Texts, calls, names


def long_word(length=1_000_000):
    """An architecture whose word of a million letters is in an error of Keras."""
    dense = {"name": "e", "batch_input_shape": [None, 3], "output_shape": [3]}
    dense["equation"] = "ab,bc->ac" + "z" * length
    layers = [{"class_name": "EinsumDense", "config": dense}]
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": layers}}
    text = json.dumps({**model, "keras_version": "2.15.0", "backend": "tensorflow"})
    return {"model.json": text.encode()}


def yaml(line, times=180_000):
    """A YAML text of numbered lines."""
    return {"model.yaml": "".join(line.format(n) for n in range(times)).encode()}


def yaml_of_tags():
    return yaml("%TAG !{:x}! x\n", 60_000)


def yaml_of_documents():
    return yaml("---\n", 500_000)


def yaml_of_keys():
    return yaml("k{:x}: 1\n")


def yaml_of_anchors():
    return yaml("- &a{:x} 1\n")


def yaml_of_items():
    return yaml("- ", 900_000)


def yaml_in_utf_16():
    """The signs are other bytes, and libyaml reads them all the same."""
    text = yaml_of_tags()["model.yaml"].decode()
    return {"model.yaml": text.encode("utf-16")}


def _called_on(class_name, nodes, outputs):
    """Return an H5 file with a Functional of an input and a layer, called on it."""
    first = {"class_name": "InputLayer", "name": "x", "inbound_nodes": []}
    first["config"] = {"name": "x", "batch_input_shape": [None, 4]}
    second = {"class_name": class_name, "name": "y", "config": {"name": "y"}}
    second["inbound_nodes"] = nodes
    ends = {"input_layers": [["x", 0, 0]], "output_layers": outputs}
    config = {"name": "m", "layers": [first, second], **ends}
    model = {"class_name": "Functional", "config": config}

    def edit(file):
        file.attrs["model_config"] = json.dumps(model)

    return h5([], edit=edit)


def one_tensor_many_times():
    nodes = [[["x", 0, 0, {}]] * 50_000]
    return _called_on("Concatenate", nodes, [["y", 0, 0]])


def a_layer_called_many_times():
    nodes = [[["x", 0, 0, {}]]] * 20_000
    return _called_on("ReLU", nodes, [["y", n, 0] for n in range(20_000)])


def layers_in_a_row(count=1_000):
    """A Sequential, of which Keras runs all layers again for each of them."""
    names = (f"r{number}" for number in range(count))
    return h5([INPUT, *({"class_name": "ReLU", "config": {"name": n}} for n in names)])


def many_layers_in_a_row():
    return layers_in_a_row(20_000)


def weights_that_are_one():
    """A thousand names of one group, and in it a thousand of one dataset."""

    def edit(file):
        group = file["model_weights"]
        first = group.create_group("0")
        first["0"] = np.zeros(1, "f")
        for number in range(1, 1_000):
            first[str(number)] = first["0"]
            group[str(number)] = first
        names = [str(number).encode() for number in range(1_000)]
        first.attrs["weight_names"] = group.attrs["layer_names"] = names

    return h5([INPUT], edit=edit)


def one_name_many_times():
    """A name of a layer half a million times; HDF5 stores it outside of the header."""

    def edit(file):
        group = file["model_weights"]
        group.create_group("a").attrs["weight_names"] = np.array([], "S1")
        del group.attrs["layer_names"]
        for number in range(10):  # a part has up to 64 KiB
            group.attrs[f"layer_names{number}"] = np.full(60_000, b"a")

    return h5([INPUT], edit=edit)


def names_with_slashes():
    """Models with long names of slashes, each with a layer with such a name."""

    def inner(number):
        name = "a/" * 8_000 + str(number)
        layer = {"class_name": "IntegerLookup", "config": {"name": name}}
        return {
            "class_name": "Sequential",
            "config": {"name": name, "layers": [INPUT, layer]},
        }

    return h5([INPUT, *map(inner, range(30))])


def long_version():
    """The version of Keras is a number of many digits."""

    def edit(file):
        file.attrs["keras_version"] = "2" * 60_000

    return h5([INPUT, {"class_name": "ReLU", "config": {"name": "r"}}], edit=edit)


MODEL, LOAD, WEIGHTS = ("inspect", "load"), ("load",), ("weights",)
WORK = "asks for more work than the size of the file explains"
RECURSION = "RecursionError: maximum recursion depth"
TOGETHER = "its weights together claims 1000000000 bytes"
SHARE = "bytes, and [0-9]+ are there: expected at most 4 times"
UNFIT = "the weights do not fit the model"
NO_MODEL = "a folder without saved_model.pb"
RING = r"cannot be read: \[Errno [0-9]+\] Too many levels of symbolic links: '.*\.pb'"
OUTSIDE = "a link to a file outside of"
# Those that are made for each Python, with what the error says; None: it opens.
OF_CODE = (
    (nested_constant, None),
    (dead_instructions, None),
    (never_ending, WORK),
    (loops, WORK),
    (loops_in_loops, WORK),
    (large_constants, WORK),
    (texts_that_grow, None),
)
BOMBS = zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
# Name -> how it is opened, what makes it, and what the error says; None: it opens.
COSTS = {
    **{
        f"{make.__name__}-{python}": (LOAD, functools.partial(make, python), match)
        for make, match in OF_CODE
        for python in marshal.PYTHONS
    },
    **{
        f"references-{python}": (
            LOAD,
            functools.partial(references, python),
            "expected a marshalled code object",
        )
        for python in marshal.PYTHONS[1:]  # 2.7 refers to nothing but names
    },
    **{
        f"bomb-{method}": (
            LOAD,
            functools.partial(bomb_in_every_method, method),
            f"claims 100000000 {SHARE}",
        )
        for method in BOMBS
    },
    **{
        make.__name__: (actions, make, match)
        for actions, make, match in (
            (LOAD, long_word, "Dimension 'z' was specified in the output"),
            (MODEL, yaml_of_tags, "60000 times '%', expected at most 1000 in YAML"),
            (MODEL, yaml_of_documents, "500000 times '---', expected at most 1000"),
            (MODEL, yaml_of_keys, "180000 times ':', expected at most 100000 in"),
            (MODEL, yaml_of_anchors, "180000 times '&', expected at most 10000 in"),
            (MODEL, yaml_of_items, "900000 times '- ', expected at most 200000"),
            (MODEL, yaml_in_utf_16, "not readable as YAML: it is not UTF-8"),
            (MODEL, one_tensor_many_times, "takes 50000 tensors, expected at most"),
            (MODEL, a_layer_called_many_times, "more than 6000 calls of layers"),
            (MODEL, layers_in_a_row, "more than 60000 runs of layers"),
            (MODEL, many_layers_in_a_row, "more than 6000 calls of layers"),
            (MODEL, weights_that_are_one, "weights for its size"),
            (MODEL, one_name_many_times, "'layer_names' has 'a' twice"),
            (MODEL, names_with_slashes, ""),
            (MODEL, long_version, None),
            (LOAD, sizes_in_each_other, "a size of more than 200 numbers and axes"),
            (MODEL, many_oov, "num_oov_indices=3e.08, expected at most 1000000"),
            (MODEL, many_thresholds, "num_thresholds=1e.08, expected at most 100000"),
            (MODEL, many_classes, "an array of 4000000000000 bytes"),
            (MODEL, array_of_long_texts, "an array with the dtype 'U200000000'"),
            (MODEL, unrolled_steps, UNFIT),
            (MODEL, many_powers, UNFIT),
            (MODEL, large_shapes, None),
            (MODEL, large_padding, None),
            (MODEL, large_pictures, None),
            (MODEL, as_large_as_allowed, "."),
            (MODEL, steps_of_time, None),
            (MODEL, many_tokens_a_text, "could not be built"),
            (MODEL, one_text_three_thousand_times, "bytes in the attributes"),
            (MODEL, attributes_over_zeros, "texts in the attributes"),
            (MODEL, heaps_in_each_other, "objects in its global heaps"),
            (MODEL, chunks_at_one_place, TOGETHER),
            (MODEL, a_dataset_of_a_thousand_layers, TOGETHER),
            (MODEL, deep_configs, RECURSION),
            (MODEL, deep_models, UNFIT),
            (MODEL, layers_backwards, RECURSION),
            (MODEL, layers_there_and_back, "more than 6000 calls of layers"),
            (MODEL, states_of_a_billion_examples, "an array of 512000000000 bytes"),
            (MODEL, images_of_a_billion_rows, "an array of 80000000000 bytes"),
            (MODEL, deep_lists, RECURSION),
            (MODEL, deep_objects, "maximum recursion depth"),
            (MODEL, many_layers_of_one_name, "more than 6000 calls of layers"),
            (MODEL, long_numbers, "over 18446744073709551616 bytes"),
            (MODEL, bomb_of_zeros, f"claims 300000000 {SHARE}"),
            (MODEL, bomb_of_spaces, "expected the config of a layer"),
            (MODEL, many_vocabularies, f"assets/ claims 300000000 {SHARE}"),
            (MODEL, many_paths_of_vocabularies, "more than 60000 runs of layers"),
            (MODEL, many_members, None),
            (MODEL, members_with_odd_names, None),
            (MODEL, members_of_one_name, "expected the config of a layer"),
            (WEIGHTS, weights_alone, TOGETHER),
            (WEIGHTS, index_of_a_pipe, "weights.index is missing"),
            (WEIGHTS, shards_of_a_pipe, "the shard .* is missing"),
            (WEIGHTS, many_shards, "a name-based checkpoint"),
            (WEIGHTS, shards_that_are_not_there, "-of-2147483647 is missing"),
            (WEIGHTS, objects_in_a_ring, "is longer than 65536 characters"),
            (WEIGHTS, objects_that_lead_to_all, "more than 3000000 links"),
            (WEIGHTS, numbers_of_a_billion_digits, "value has 1000000 digits"),
            (MODEL, pipe, "a named pipe"),
            (MODEL, pipe_as_a_graph, NO_MODEL),
            (MODEL, pipe_as_metadata, None),
            (MODEL, pipe_as_weights, "variables.index is missing"),
            (MODEL, links_in_a_ring, RING),
            (MODEL, folder_that_is_a_link, "variables.index is missing"),
            (MODEL, link_with_dots, OUTSIDE),
            (MODEL, millions_of_objects, None),
            (MODEL, millions_of_graphs, None),
            (MODEL, layers_of_one_name, None),
            (MODEL, namesakes_in_a_graph, None),
            (MODEL, name_of_a_megabyte, None),
            (MODEL, many_reshapes, "more than 12000 ops|" + WORK),
            (MODEL, ten_million_axes, WORK),
            (MODEL, ten_million_sizes, WORK),
            (MODEL, many_calls_of_one_name, WORK),
            (MODEL, loops_of_a_graph, "more than 30000 nodes|" + WORK),
            (MODEL, conditions_of_a_graph, "more than 30000 nodes|" + WORK),
            (MODEL, long_loop, "more than 200 rounds|" + WORK),
            (MODEL, gathers_of_gathers, "axes, expected at most 64"),
            (MODEL, scopes_of_every_name, None),
        )
    },
}
