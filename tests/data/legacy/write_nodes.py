"""Writes the results of single ops of TensorFlow graphs, under TensorFlow 2.15.1.

    python write_nodes.py

`nodes.json` has, for each case, the NodeDef as JSON, the inputs that are tensors of the
model, the other inputs by their position, and the outputs.
"""

import json
import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

raw = tf.raw_ops
RANDOM = np.random.RandomState(3)


def draw(*shape):
    return RANDOM.uniform(-1, 1, shape).round(2).astype("float32")


def constant(*values, dtype="int32"):
    return np.array(values, dtype)


X, VIDEO, KERNEL = draw(1, 3, 4, 3), draw(1, 2, 3, 3, 2), draw(3, 3, 2, 3)
STATISTICS = draw(3), draw(3), draw(3), np.abs(draw(3)) + 0.5
ONE, TWO = [1, 1, 1, 1], [1, 2, 2, 1]


def transposed(shape, strides, padding, **options):
    return (
        [X],
        lambda x: raw.Conv2DBackpropInput(
            input_sizes=constant(*shape),
            filter=KERNEL,
            out_backprop=x,
            strides=strides,
            padding=padding,
            **options,
        ),
    )


def normalized(is_training):
    mean, variance = STATISTICS[2:] if not is_training else ([], [])
    return lambda x: raw.FusedBatchNormV3(
        x=x,
        scale=STATISTICS[0],
        offset=STATISTICS[1],
        mean=constant(*mean, dtype="float32"),
        variance=constant(*variance, dtype="float32"),
        epsilon=0.01,
        is_training=is_training,
    )


# Case -> the tensors, and the op of them.
CASES = {
    "fused_batch_norm": ([X], normalized(False)),
    "fused_batch_norm_training": ([X], normalized(True)),
    "fused_batch_norm_half": ([X.astype("float16")], normalized(False)),
    "conv3d": (
        [VIDEO],
        lambda x: raw.Conv3D(
            input=x, filter=draw(2, 2, 2, 2, 2), strides=[1] * 5, padding="SAME"
        ),
    ),
    "transposed": transposed([1, 6, 8, 2], TWO, "SAME"),
    "transposed_shorter": transposed([1, 5, 7, 2], TWO, "SAME"),
    "transposed_valid": transposed([1, 7, 9, 2], TWO, "VALID"),
    "transposed_valid_longer": transposed([1, 8, 10, 2], TWO, "VALID"),
    "transposed_once": transposed([1, 3, 4, 2], ONE, "SAME"),
    "transposed_far": transposed([1, 12, 16, 2], [1, 4, 4, 1], "SAME"),
    "transposed_3d": (
        [VIDEO],
        lambda x: raw.Conv3DBackpropInputV2(
            input_sizes=constant(1, 4, 6, 6, 3),
            filter=draw(2, 2, 2, 3, 2),
            out_backprop=x,
            strides=[1, 2, 2, 2, 1],
            padding="SAME",
        ),
    ),
    "max_pool3d": (
        [VIDEO],
        lambda x: raw.MaxPool3D(
            input=x, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME"
        ),
    ),
    "avg_pool3d": (
        [VIDEO],
        lambda x: raw.AvgPool3D(
            input=x, ksize=[1, 2, 2, 2, 1], strides=[1, 1, 1, 1, 1], padding="VALID"
        ),
    ),
    "patches": (
        [X],
        lambda x: raw.ExtractImagePatches(
            images=x, ksizes=TWO, strides=[1, 1, 2, 1], rates=ONE, padding="VALID"
        ),
    ),
    "patches_same": (
        [X],
        lambda x: raw.ExtractImagePatches(
            images=x, ksizes=[1, 3, 3, 1], strides=TWO, rates=ONE, padding="SAME"
        ),
    ),
    "space_to_batch": (
        [X],
        lambda x: raw.SpaceToBatchND(
            input=x, block_shape=constant(2, 3), paddings=constant([1, 0], [1, 1])
        ),
    ),
    "space_to_batch_of_sequences": (
        [draw(2, 5, 3)],
        lambda x: raw.SpaceToBatchND(
            input=x, block_shape=constant(2), paddings=constant([2, 1])
        ),
    ),
    "batch_to_space": (
        [draw(6, 2, 3, 2)],
        lambda x: raw.BatchToSpaceND(
            input=x, block_shape=constant(2, 3), crops=constant([1, 0], [0, 2])
        ),
    ),
    "batch_matmul": (
        [draw(2, 3, 4), draw(2, 3, 5)],
        lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout="float32", adj_x=True),
    ),
    "fake_quantization": (
        [2.0 * draw(3, 4)],
        lambda x: raw.FakeQuantWithMinMaxVars(
            inputs=x, min=np.float32(-0.53), max=np.float32(1.31), num_bits=4
        ),
    ),
    "fake_quantization_of_channels": (
        [2.0 * draw(3, 2)],
        lambda x: raw.FakeQuantWithMinMaxVarsPerChannel(
            inputs=x,
            min=constant(-0.5, 0.0, dtype="float32"),
            max=constant(0.7, 1.1, dtype="float32"),
            narrow_range=True,
        ),
    ),
    "identity_n": (
        [draw(2, 3), draw(2)],
        lambda x, y: raw.IdentityN(input=[x, y]),
    ),
    "check_numerics": ([draw(2, 3)], lambda x: raw.CheckNumerics(tensor=x, message="")),
    "scatter": (
        [draw(3, 2)],
        lambda x: raw.ScatterNd(
            indices=constant([0], [3], [0]), updates=x, shape=constant(5, 2)
        ),
    ),
    "scatter_update": (
        [draw(3, 2)],
        lambda x: raw.TensorScatterUpdate(
            tensor=x, indices=constant([2], [0]), updates=draw(2, 2)
        ),
    ),
    "segment_sum": (
        [draw(4, 2)],
        lambda x: raw.SegmentSum(data=x, segment_ids=constant(0, 0, 1, 3)),
    ),
    "unsorted_segment_sum": (
        [draw(4, 2)],
        lambda x: raw.UnsortedSegmentSum(
            data=x, segment_ids=constant(2, 0, 2, 1), num_segments=4
        ),
    ),
}


def listed(value):
    """Return an array as JSON, to six digits."""
    return np.vectorize(lambda x: float("%.6g" % x), otypes=["float64"])(value).tolist()


def described(tensors, function):
    concrete = tf.function(function).get_concrete_function(
        *[tf.TensorSpec(x.shape, x.dtype) for x in tensors]
    )
    definition = concrete.graph.as_graph_def()
    nodes = {node.name: node for node in definition.node}
    skipped = "Const", "Identity", "Placeholder", "NoOp"
    found = [node for node in definition.node if node.op not in skipped]
    (node,) = found
    constants = {}
    for i, name in enumerate(node.input):
        source = nodes[name.split(":")[0]]
        if source.op == "Const":
            value = tf.make_ndarray(source.attr["value"].tensor)
            listing = listed(value) if value.dtype.kind == "f" else value.tolist()
            constants[i] = {"dtype": value.dtype.name, "value": listing}
    outputs = tf.nest.flatten(concrete(*map(tf.constant, tensors)))
    return {
        "node": json_format.MessageToDict(node),
        "dtypes": [x.dtype.name for x in tensors],
        "inputs": [listed(x) for x in tensors],
        "constants": constants,
        "outputs": [listed(output) for output in outputs],
    }


if __name__ == "__main__":
    found = {name: described(*case) for name, case in CASES.items()}
    with open(pathlib.Path(__file__).parent / "nodes.json", "w") as file:
        json.dump(found, file)
