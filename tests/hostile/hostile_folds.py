"""Small files whose constants, lists and op layers would become large, or take long.

The makers are as those of hostile_sizes.py.
"""

import json

from hostile_sizes import MODEL, graph, h5

M16 = 2**24
NAN = float("nan")


def _plus(g, constant, dtype="float32"):
    """Return the input plus the sum of a constant."""
    if dtype != "float32":
        constant = g.add("Cast", [constant], SrcT=dtype, DstT="float32")
    flat = g.add("Reshape", [constant, g.const([-1])])
    return g.add("AddV2", ["x", g.add("Sum", [flat, g.const([0])])])


def casts():
    """60 casts of 16 million numbers, one after the other."""

    def write(g):
        found = g.const(1.0, "float32", (M16,))
        for number in range(60):
            types = ("float32", "float64")[:: 1 if number % 2 == 0 else -1]
            found = g.add("Cast", [found], SrcT=types[0], DstT=types[1])
        return _plus(g, found)

    return graph(write)


def doubled():
    """1,000 numbers, concatenated with themselves 17 times."""

    def write(g):
        found = g.const(1.0, "float32", (1000,))
        for _ in range(17):
            found = g.add("ConcatV2", [found, found, g.const(0)], N=2)
        return _plus(g, found)

    return graph(write)


def added():
    """60 million numbers plus as many."""

    def write(g):
        found = g.const(1.0, "float32", (60_000_000,))
        return _plus(g, g.add("AddV2", [found, found]))

    return graph(write)


def gathered():
    """12,000 times the same row of 40,000 numbers."""

    def write(g):
        rows = g.const(1.0, "float32", (1, 40_000))
        which = g.const(0, "int32", (12_000,))
        return _plus(g, g.add("GatherV2", [rows, which, g.const(0)]))

    return graph(write)


def broadcast():
    def write(g):
        sizes = g.const([2_000_000_000])
        one = g.const([1.0], "float32")
        return _plus(g, g.add("BroadcastTo", [one, sizes]))

    return graph(write)


def split_into_many():
    def write(g):
        found = g.const(1.0, "float32", (50_000_000,))
        return _plus(g, g.add("Split", [g.const(0), found], num_split=300_000_000))

    return graph(write)


def products():
    """600 products of 16 million numbers, each of which is one number."""

    def write(g):
        row = g.const(1.0, "float32", (1, M16))
        column = g.const(1.0, "float32", (M16, 1))
        total = g.const(0.0, "float32")
        for _ in range(600):
            one = g.add("MatMul", [row, column], transpose_a=False, transpose_b=False)
            total = g.add("AddV2", [total, one])
        return _plus(g, total)

    return graph(write)


def range_of_nan():
    """A range without a length, and then one of 300 million numbers."""

    def write(g):
        one = g.const(1.0, "float32")
        nothing = g.add("Range", [g.const(NAN, "float32"), one, one])
        many = g.add("Range", [g.const(0.0, "float32"), g.const(3e8, "float32"), one])
        return _plus(g, g.add("ConcatV2", [nothing, many, g.const(0)], N=2))

    return graph(write)


def fill_of_less_than_nothing():
    """A size below zero, and then one of 300 million numbers."""

    def write(g):
        zero = g.const(0.0, "float32")
        less = g.add("Fill", [g.const([-1_000_000, 1_000_000_000]), zero])
        many = g.add("Fill", [g.const([300_000_000]), zero])
        flat = g.add("Reshape", [less, g.const([-1])])
        return _plus(g, g.add("ConcatV2", [flat, many, g.const(0)], N=2))

    return graph(write)


def transform_of_a_length():
    """A Fourier transform of 10 numbers, padded to 100 million."""

    def write(g):
        sizes = g.const([100_000_000])
        found = g.add("RFFT", [g.const(1.0, "float32", (10,)), sizes])
        return _plus(g, g.add("Real", [found]))

    return graph(write)


def filtered():
    """A constant picture of 4,000 x 4,000, filtered with 1,000 x 1,000."""

    def write(g):
        image = g.const(1.0, "float32", (1, 4000, 4000, 1))
        kernel = g.const(1.0, "float32", (1000, 1000, 1, 1))
        found = g.add("Conv2D", [image, kernel], padding=b"SAME", strides=[1, 1, 1, 1])
        return _plus(g, found)

    return graph(write)


def pooled():
    """A constant picture of 4,000 x 4,000, pooled over 1,000 x 1,000."""

    def write(g):
        image, ksize = g.const(1.0, "float32", (1, 4000, 4000, 1)), [1, 1000, 1000, 1]
        ones = [1, 1, 1, 1]
        found = g.add("AvgPool", [image], padding=b"SAME", strides=ones, ksize=ksize)
        return _plus(g, found)

    return graph(write)


def inverted():
    """The inverse of a constant matrix of 5,000 x 5,000, ten times."""

    def write(g):
        found = g.const(1.0, "float32", (5000, 5000))
        for _ in range(10):
            found = g.add("MatrixInverse", [found])
        return _plus(g, found)

    return graph(write)


def many_segments():
    """Ten numbers added up in a billion segments."""

    def write(g):
        data, ids = g.const(1.0, "float32", (10,)), g.const(0, "int32", (10,))
        segments = g.const(1_000_000_000)
        return _plus(g, g.add("UnsortedSegmentSum", [data, ids, segments]))

    return graph(write)


def tiled_sizes():
    """The size of the batch, 300 million times."""

    def write(g):
        sizes = g.add("Tile", [g.add("Shape", ["x"]), g.const([300_000_000])])
        return _plus(g, sizes, "int32")

    return graph(write)


def sliced_sizes():
    """300,000 sizes of the batch, from which 5,000 nodes take all but one."""

    def write(g):
        sizes = g.add("Tile", [g.add("Shape", ["x"]), g.const([150_000])])
        begin, end, step = g.const([1]), g.const([0]), g.const([1])
        found = [
            g.add("StridedSlice", [sizes, begin, end, step], end_mask=1)
            for _ in range(5_000)
        ]
        return _plus(g, g.add("AddN", found, N=len(found)), "int32")

    return graph(write)


def computed_by_keras():
    """1,000 functions of constants that numpy lacks, each of another shape."""

    def write(g):
        found = "x"
        for number in range(1000):
            constant = g.const(1.0, "float32", (number + 1,))
            total = g.add("Sum", [g.add("Erf", [constant]), g.const([0])])
            found = g.add("AddV2", [found, total])
        return found

    return graph(write)


def sums_of_a_tensor():
    """4,000 additions."""

    def write(g):
        found = "x"
        for _ in range(4000):
            found = g.add("AddV2", [found, "x"])
        return found

    return graph(write)


def looked_up_in_itself():
    """An Embedding, called on its own output 4,000 times: 4,000 axes."""
    sizes = {"name": "e", "input_dim": 4, "output_dim": 3}
    first = {"batch_input_shape": [None, 2], "dtype": "int32", "name": "x"}
    calls = [[["e", number, 0, {}]] for number in range(4000)]
    layers = [
        {"class_name": "InputLayer", "name": "x", "config": first, "inbound_nodes": []},
        {
            **{"class_name": "Embedding", "name": "e", "config": sizes},
            "inbound_nodes": [[["x", 0, 0, {}]], *calls],
        },
    ]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["e", 4000, 0]]}
    config = {"name": "m", "layers": layers, **ends}

    def edit(file):
        model = {"class_name": "Functional", "config": config}
        file.attrs["model_config"] = json.dumps(model)

    return h5([], edit=edit)


def stacked_lists():
    """A list of 2,500 tensors that is stacked 4,000 times."""

    def write(g):
        shape, size = g.const([-1]), g.const(2500)
        found = g.add("TensorListReserve", [shape, size])
        for number in range(2500):
            item = g.const(number)
            found = g.add("TensorListSetItem", [found, item, "x"])
        every = [g.add("TensorListStack", [found, shape]) for _ in range(4000)]
        return g.add("Sum", [g.add("AddN", every, N=4000), g.const([0])])

    return graph(write)


def _op(function, shape, kind="float32", **kwargs):
    """Return an H5 file with an op layer, called on an input with these arguments."""
    return _ops(shape, kind, (function, [["x", 0, 0, kwargs]]))


def _ops(shape, kind, *calls):
    """Return an H5 file with `(function, inbound nodes)`, named "op0", "op1", …."""
    first = {"batch_input_shape": [None, *shape], "dtype": kind, "name": "x"}
    layers = [
        {"class_name": "InputLayer", "name": "x", "config": first, "inbound_nodes": []}
    ]
    for number, (function, nodes) in enumerate(calls):
        name, sliced = f"op{number}", function.endswith("getitem")
        inner = {"name": name, "dtype": "float32", "function": function}
        kind = "SlicingOpLambda" if sliced else "TFOpLambda"
        one = {"class_name": kind, "name": name, "config": inner}
        layers.append({**one, "inbound_nodes": nodes})
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [[name, 0, 0]]}
    config = {"name": "m", "layers": layers, **ends}

    def edit(file):
        model = {"class_name": "Functional", "config": config}
        file.attrs["model_config"] = json.dumps(model)

    return h5([], edit=edit)


def op_split():
    size = 50_000_000
    return _op("split", (size,), num_or_size_splits=size, axis=1)


def op_unstack():
    return _op("unstack", (50_000_000,), num=50_000_000, axis=1)


def op_sequence_mask():
    return _op("sequence_mask", (), "int32", maxlen=400_000_000, dtype="float32")


def op_zeros():
    """Zeros of the shape [batch, 500 million]."""
    constant = ["_CONSTANT_VALUE", -1, 500_000_000, {}]
    return _ops(
        (4,),
        "float32",
        ("compat.v1.shape", [["x", 0, 0, {"out_type": "int32"}]]),
        ("__operators__.getitem", [["op0", 0, 0, {"slice_spec": 0}]]),
        ("zeros", [[["op1", 0, 0, {}], constant]]),
    )


def op_zeros_of_a_multiple():
    """Zeros of the shape [batch times 400 million]."""
    return _ops(
        (4,),
        "float32",
        ("compat.v1.shape", [["x", 0, 0, {"out_type": "int32"}]]),
        ("__operators__.getitem", [["op0", 0, 0, {"slice_spec": 0}]]),
        ("math.multiply", [["op1", 0, 0, {"y": 400_000_000}]]),
        ("zeros", [[["op2", 0, 0, {}]]]),
    )


def op_tensordot():
    """A product of constants along 400 million axes."""
    kwargs = {"b": [1.0], "axes": 400_000_000}
    constant = ["_CONSTANT_VALUE", -1, [1.0], kwargs]
    return _ops((4,), "float32", ("tensordot", [constant]))


def op_stft():
    return _op("signal.stft", (10,), frame_length=400_000_000, frame_step=1)


def op_frame():
    size = 1_500_000_000
    return _op("signal.frame", (size,), frame_length=2, frame_step=1)


def op_one_hot():
    return _op("one_hot", (4,), "int32", depth=2_000_000_000)


def op_tile():
    return _op("tile", (4,), multiples=[1, 2_000_000_000])


FOLDS = (
    *(casts, doubled, added, gathered, broadcast, split_into_many, products),
    *(range_of_nan, fill_of_less_than_nothing, stacked_lists, op_split, op_unstack),
    *(transform_of_a_length, filtered, pooled, inverted, many_segments, tiled_sizes),
    *(sliced_sizes, computed_by_keras, sums_of_a_tensor, looked_up_in_itself),
    *(op_zeros_of_a_multiple, op_tensordot),
    *(op_sequence_mask, op_zeros, op_stft, op_frame, op_one_hot, op_tile),
)
# As in hostile_sizes; these may open, or be refused with any error.
COSTS = {make.__name__: (MODEL, make, "") for make in FOLDS}
