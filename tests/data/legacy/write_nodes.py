"""Writes the results of single ops of TensorFlow graphs.

    python write_nodes.py CASE ...

`nodes.json` has, for each case, the NodeDef as JSON, the inputs that are tensors of the
model, the other inputs by their position, and the outputs. Only the cases that are named
are written; the others stay. Any recent TensorFlow will do: the first cases are of
2.15.1, and 2.21 computes the same. A new case comes last, since each draws the random
numbers that follow those of the case before it.
"""

import json
import os
import pathlib
import sys

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


TWO_AXES, COUNTS = [[2, 0], [2, 1]], constant([2, 0], [7, 1], [2, 5])
BOXES = [[0.1, 0.2, 0.8, 0.7], [0.9, 1.0, 0.3, 0.0], [-0.5, 0.0, 1.0, 1.4]]


BOXES_THAT_OVERLAP = np.abs(draw(2, 12, 4)) * 1.2


def best_boxes(groups, per_class, total, **options):
    scores = RANDOM.permutation(72).reshape(2, 12, 3).astype("float32") / 72  # no ties
    return (
        [BOXES_THAT_OVERLAP[:, :, None] + 0.02 * draw(2, 12, groups, 4), scores],
        lambda boxes, scores: raw.CombinedNonMaxSuppression(
            boxes=boxes,
            scores=scores,
            max_output_size_per_class=per_class,
            max_total_size=total,
            iou_threshold=0.3,
            score_threshold=0.1,
            **options,
        ),
    )


def segments(name, ids):
    ids = np.array(ids, "int32")
    more = {"num_segments": 4} if name.startswith("Unsorted") else {}
    return (
        [draw(*ids.shape, 2)],
        lambda x: getattr(raw, name)(data=x, segment_ids=ids, **more),
    )


def crops(*size, **options):
    return (
        [draw(2, 4, 5, 2), np.array(BOXES, "float32")],
        lambda x, boxes: raw.CropAndResize(
            image=x,
            boxes=boxes,
            box_ind=constant(1, 0, 1),
            crop_size=constant(*size),
            **options,
        ),
    )


def argmax_pool(padding, strides, include_batch_in_index=False):
    return (
        [draw(2, 5, 4, 3)],
        lambda x: raw.MaxPoolWithArgmax(
            input=x,
            ksize=[1, 3, 2, 1],
            strides=strides,
            padding=padding,
            include_batch_in_index=include_batch_in_index,
        ),
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
    "unsorted_segment_sum_of_two_axes": segments("UnsortedSegmentSum", TWO_AXES),
    "unsorted_segment_max_of_two_axes": segments("UnsortedSegmentMax", TWO_AXES),
    "unsorted_segment_min": segments("UnsortedSegmentMin", [2, 0, 2, -1]),
    "unsorted_segment_min_of_integers": (
        [COUNTS],
        lambda x: raw.UnsortedSegmentMin(
            data=x, segment_ids=constant(2, 0, 2), num_segments=4
        ),
    ),
    "unsorted_segment_prod": segments("UnsortedSegmentProd", [2, 0, 2, -1]),
    "segment_max": segments("SegmentMax", [0, 0, 2, 2]),
    "segment_min": segments("SegmentMin", [0, 0, 2, 2]),
    "segment_mean": segments("SegmentMean", [0, 0, 2, 2]),
    "segment_prod": segments("SegmentProd", [0, 0, 2, 2]),
    "bincount": (
        [COUNTS],
        lambda x: raw.Bincount(arr=x, size=4, weights=constant(dtype="int32")),
    ),
    "bincount_with_weights": (
        [COUNTS],
        lambda x: raw.Bincount(arr=x, size=9, weights=draw(3, 2)),
    ),
    "dense_bincount": (
        [COUNTS],
        lambda x: raw.DenseBincount(
            input=x, size=6, weights=constant(dtype="float32"), binary_output=False
        ),
    ),
    "dense_bincount_of_presence": (
        [COUNTS],
        lambda x: raw.DenseBincount(
            input=x, size=6, weights=constant(dtype="float32"), binary_output=True
        ),
    ),
    "bucketize": (
        [draw(3, 4)],
        lambda x: raw.Bucketize(input=x, boundaries=[-0.5, 0.0, 0.25]),
    ),
    "bucketize_integers": (
        [COUNTS],
        lambda x: raw.Bucketize(input=x, boundaries=[1.0, 2.5, 5.0]),
    ),
    "reverse_sequence": (
        [draw(3, 4, 2), constant(0, 3, 4)],
        lambda x, n: raw.ReverseSequence(
            input=x, seq_lengths=n, seq_dim=1, batch_dim=0
        ),
    ),
    "reverse_sequence_of_time_first": (
        [draw(4, 2, 3)],
        lambda x: raw.ReverseSequence(
            input=x, seq_lengths=constant(1, 3, 2), seq_dim=0, batch_dim=2
        ),
    ),
    "invert_permutation": (
        [constant(2, 0, 3, 1)],
        lambda x: raw.InvertPermutation(x=x),
    ),
    "dynamic_partition": (
        [draw(4, 2)],
        lambda x: raw.DynamicPartition(
            data=x, partitions=constant(1, 0, 2, 1), num_partitions=3
        ),
    ),
    "dynamic_stitch": (
        [draw(2, 3), draw(3, 3)],
        lambda x, y: raw.DynamicStitch(
            indices=[constant(3, 0), constant(1, 3, 2)], data=[x, y]
        ),
    ),
    "dynamic_stitch_of_items": (
        [draw(2, 2), draw(2)],
        lambda x, y: raw.ParallelDynamicStitch(
            indices=[constant([3, 0], [1, 2]), constant(5, 4)], data=[x, y]
        ),
    ),
    **{
        f"scatter_{name.lower()}": (
            [draw(4, 2), draw(3, 2)],
            lambda x, y, name=name: getattr(raw, f"TensorScatter{name}")(
                tensor=x, indices=constant([2], [0], [2]), updates=y
            ),
        )
        for name in ("Add", "Sub", "Max", "Min")
    },
    "scatter_add_items": (
        [draw(3, 2), draw(3)],
        lambda x, y: raw.TensorScatterAdd(
            tensor=x, indices=constant([2, 1], [0, 0], [2, 1]), updates=y
        ),
    ),
    "response_normalization": (
        [draw(1, 2, 2, 7)],
        lambda x: raw.LRN(input=x, depth_radius=2, bias=1.5, alpha=0.7, beta=0.75),
    ),
    "response_normalization_by_default": (
        [draw(1, 2, 2, 13)],
        lambda x: raw.LRN(input=x),
    ),
    "fake_quantization_between": (
        [2.0 * draw(3, 4)],
        lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-0.6, max=1.2, num_bits=5),
    ),
    "fake_quantization_by_default": (
        [8.0 * draw(3, 4)],
        lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x),
    ),
    "hue": (
        [np.abs(draw(2, 3, 3))],
        lambda x: raw.AdjustHue(images=x, delta=np.float32(0.6)),
    ),
    "saturation": (
        [np.abs(draw(2, 3, 3))],
        lambda x: raw.AdjustSaturation(images=x, scale=np.float32(1.7)),
    ),
    "crop_and_resize": crops(3, 4),
    "crop_and_resize_to_one": crops(1, 2, extrapolation_value=0.5),
    "crop_and_resize_nearest": crops(2, 3, method="nearest"),
    "max_pool_with_argmax": argmax_pool("VALID", TWO),
    "max_pool_with_argmax_same": argmax_pool("SAME", TWO),
    "max_pool_with_argmax_of_batch": argmax_pool("SAME", ONE, True),
    "best_boxes": (
        [BOXES_THAT_OVERLAP[0], np.abs(draw(12))],
        lambda boxes, scores: raw.NonMaxSuppressionV4(
            boxes=boxes,
            scores=scores,
            max_output_size=8,
            iou_threshold=0.3,
            score_threshold=0.2,
            pad_to_max_output_size=True,
        ),
    ),
    "best_boxes_with_scores": (
        [BOXES_THAT_OVERLAP[0], np.abs(draw(12))],
        lambda boxes, scores: raw.NonMaxSuppressionV5(
            boxes=boxes,
            scores=scores,
            max_output_size=3,
            iou_threshold=0.5,
            score_threshold=0.1,
            soft_nms_sigma=0.0,
            pad_to_max_output_size=True,
        ),
    ),
    "best_boxes_of_classes": best_boxes(1, 3, 20),
    "best_boxes_of_each_class": best_boxes(3, 4, 5, clip_boxes=False),
    "best_boxes_padded_per_class": best_boxes(3, 2, 20, pad_per_class=True),
    "one_hot_out_of_range": (
        [constant(-1, 0, 2, 3)],
        lambda x: raw.OneHot(
            indices=x, depth=3, on_value=np.float32(2), off_value=np.float32(0.5)
        ),
    ),
    "top_k": ([draw(3, 5)], lambda x: raw.TopKV2(input=x, k=2)),
    "exclusive_reverse_cumsum": (
        [draw(3, 4)],
        lambda x: raw.Cumsum(x=x, axis=1, exclusive=True, reverse=True),
    ),
    "exclusive_cumprod": (
        [draw(3, 4)],
        lambda x: raw.Cumprod(x=x, axis=0, exclusive=True),
    ),
    "xlog1py": (
        [
            constant(0.0, 0.5, -2.0, 0.0, dtype="float32"),
            constant(-1.0, -0.5, 3.0, 0.0, dtype="float32"),
        ],
        lambda x, y: raw.Xlog1py(x=x, y=y),
    ),
    "log_matrix_determinant": (
        [draw(4, 3, 3) - np.eye(3, dtype="float32")],
        lambda x: raw.LogMatrixDeterminant(input=x),
    ),
    **{
        f"{name.lower()}_gradient": (
            [draw(5) ** 2 + 0.1, draw(5)],
            lambda y, dy, function=getattr(raw, f"{name}Grad"): function(y=y, dy=dy),
        )
        for name in ("Tanh", "Sigmoid", "Sqrt", "Rsqrt", "Reciprocal")
    },
    "relu_gradient": (
        [draw(5), constant(-1.0, 0.0, 0.5, 2.0, -3.0, dtype="float32")],
        lambda dy, x: raw.ReluGrad(gradients=dy, features=x),
    ),
    "softplus_gradient": (
        [draw(5), constant(-40.0, -1.0, 0.0, 2.0, 40.0, dtype="float32")],
        lambda dy, x: raw.SoftplusGrad(gradients=dy, features=x),
    ),
    "elu_gradient": (
        [draw(5), constant(-0.9, -0.5, 0.0, 2.0, 3.0, dtype="float32")],
        lambda dy, y: raw.EluGrad(gradients=dy, outputs=y),
    ),
    **{
        name: (
            [constant([0.5, 2.0, -4.0], [4.0, 0.0, 1.5], dtype="float32")],
            lambda x, function=function: function(
                sorted_inputs=np.float32([[-1, 0.5, 2, 2], [0, 1, 2, 3]]), values=x
            ),
        )
        for name, function in [
            ("lower_bound", raw.LowerBound),
            ("upper_bound", raw.UpperBound),
        ]
    },
    "triangular_solve": (
        [draw(2, 3, 3) + 2 * np.eye(3, dtype="float32"), draw(2, 3, 2)],
        lambda x, y: raw.MatrixTriangularSolve(
            matrix=x, rhs=y, lower=False, adjoint=True
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


def main(names):
    path = pathlib.Path(__file__).parent / "nodes.json"
    written = json.loads(path.read_text())
    written.update({name: described(*CASES[name]) for name in names})
    lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in written.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
