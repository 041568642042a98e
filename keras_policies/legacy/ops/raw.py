"""The NodeDefs that TensorFlowOpLayer of TF 2.0 to 2.3 records.

Each op by its name in a graph: the function in the table, the parameters that its
inputs are (`*values` takes all but those after it), and the attributes that set others.
Source: tensorflow/core/ops/*.cc.
"""

from typing import NamedTuple

from keras_policies.legacy.ops import kinds


class Raw(NamedTuple):
    """How an op of a graph calls a function of the table."""

    function: str
    inputs: str
    attributes: dict = {}


def _each(function_of, *settings):
    return {op: Raw(name, *settings) for op, name in function_of.items()}


# One input, whatever the function calls it.
FIRST = ""
MATRICES = {"transpose_a": "transpose_a", "transpose_b": "transpose_b"}
ADJOINT = {"adjoint_a": "adj_x", "adjoint_b": "adj_y"}
SLICES = (
    "begin_mask",
    "end_mask",
    "ellipsis_mask",
    "new_axis_mask",
    "shrink_axis_mask",
)
WINDOW = {name: name for name in ("strides", "padding", "data_format")}

RESIZED = {name: name for name in ("align_corners", "half_pixel_centers")}

BINARY = {
    "Add": "math.add",
    "AddV2": "math.add",
    "Sub": "math.subtract",
    "Mul": "math.multiply",
    "RealDiv": "math.divide",
    "Div": "math.divide",
    "DivNoNan": "math.divide_no_nan",
    "FloorDiv": "math.floordiv",
    "FloorMod": "math.floormod",
    "Pow": "math.pow",
    "Maximum": "math.maximum",
    "Minimum": "math.minimum",
    "SquaredDifference": "math.squared_difference",
    "Greater": "math.greater",
    "GreaterEqual": "math.greater_equal",
    "Less": "math.less",
    "LessEqual": "math.less_equal",
    "Equal": "math.equal",
    "NotEqual": "math.not_equal",
    "LogicalAnd": "math.logical_and",
    "LogicalOr": "math.logical_or",
    "BitwiseAnd": "bitwise.bitwise_and",
    "BitwiseOr": "bitwise.bitwise_or",
    "BitwiseXor": "bitwise.bitwise_xor",
    "TruncateDiv": "truncatediv",
    "TruncateMod": "truncatemod",
    "Xlogy": "math.xlogy",
    "Xdivy": "math.xdivy",
    "MulNoNan": "math.multiply_no_nan",
}
UNARY = {
    "Abs": "math.abs",
    "Neg": "math.negative",
    "Sign": "math.sign",
    "Square": "math.square",
    "Sqrt": "math.sqrt",
    "Rsqrt": "math.rsqrt",
    "Reciprocal": "math.reciprocal",
    "Invert": "bitwise.invert",
    "RGBToHSV": "image.rgb_to_hsv",
    "HSVToRGB": "image.hsv_to_rgb",
    "Cholesky": "linalg.cholesky",
    "MatrixDeterminant": "linalg.det",
    "Inv": "math.reciprocal",
    "Exp": "math.exp",
    "Expm1": "math.expm1",
    "Log": "math.log",
    "Log1p": "math.log1p",
    "Sin": "math.sin",
    "Cos": "math.cos",
    "Tan": "math.tan",
    "Asin": "math.asin",
    "Acos": "math.acos",
    "Atan": "math.atan",
    "Sinh": "math.sinh",
    "Cosh": "math.cosh",
    "Tanh": "math.tanh",
    "Asinh": "math.asinh",
    "Acosh": "math.acosh",
    "Atanh": "math.atanh",
    "Floor": "math.floor",
    "Ceil": "math.ceil",
    "Round": "math.round",
    "Rint": "math.rint",
    "IsNan": "math.is_nan",
    "IsInf": "math.is_inf",
    "IsFinite": "math.is_finite",
    "LogicalNot": "math.logical_not",
    "Erf": "math.erf",
    "Erfc": "math.erfc",
    "Erfinv": "math.erfinv",
    "EnsureShape": "ensure_shape",
    "Sigmoid": "math.sigmoid",
    "Softplus": "math.softplus",
    "Relu": "nn.relu",
    "Relu6": "nn.relu6",
    "Elu": "nn.elu",
    "Selu": "nn.selu",
    "Softsign": "nn.softsign",
    "Identity": "identity",
    "StopGradient": "stop_gradient",
    "ZerosLike": "zeros_like",
    "OnesLike": "ones_like",
}
REDUCTIONS = {
    "Sum": "math.reduce_sum",
    "Mean": "math.reduce_mean",
    "Max": "math.reduce_max",
    "Min": "math.reduce_min",
    "Prod": "math.reduce_prod",
    "EuclideanNorm": "math.reduce_euclidean_norm",
    "Any": "math.reduce_any",
    "All": "math.reduce_all",
}
CUMULATIVE = {"Cumsum": "math.cumsum", "Cumprod": "math.cumprod"}
OPS = {
    **_each(BINARY, "x y"),
    **_each(UNARY, FIRST),
    **_each(REDUCTIONS, "input_tensor axis", {"keepdims": "keep_dims"}),
    **_each(CUMULATIVE, "x axis", {"exclusive": "exclusive", "reverse": "reverse"}),
    "Atan2": Raw("math.atan2", "y x"),
    "AddN": Raw("math.add_n", "*inputs"),
    "ClipByValue": Raw("clip_by_value", "t clip_value_min clip_value_max"),
    "Select": Raw("where", "condition x y"),
    "SelectV2": Raw("where", "condition x y"),
    "Cast": Raw("cast", "x", {"dtype": "DstT"}),
    "Softmax": Raw("nn.softmax", FIRST),
    "LogSoftmax": Raw("nn.log_softmax", FIRST),
    "LeakyRelu": Raw("nn.leaky_relu", "features", {"alpha": "alpha"}),
    "Shape": Raw("shape", FIRST),
    "Size": Raw("size", FIRST),
    "Rank": Raw("rank", FIRST),
    "Reshape": Raw("reshape", "tensor shape"),
    "Transpose": Raw("transpose", "a perm"),
    "ExpandDims": Raw("expand_dims", "input axis"),
    "Squeeze": Raw("squeeze", "input", {"axis": "squeeze_dims"}),
    "ConcatV2": Raw("concat", "*values axis"),
    "Pack": Raw("stack", "*values", {"axis": "axis"}),
    "Unpack": Raw("unstack", "value", {"num": "num", "axis": "axis"}),
    "Split": Raw("split", "axis value", {"num_or_size_splits": "num_split"}),
    "SplitV": Raw("split", "value num_or_size_splits axis"),
    "Tile": Raw("tile", "input multiples"),
    "BroadcastTo": Raw("broadcast_to", "input shape"),
    "Fill": Raw("fill", "dims value"),
    "Range": Raw("range", "start limit delta"),
    "Pad": Raw("pad", "tensor paddings"),
    "PadV2": Raw("pad", "tensor paddings constant_values"),
    "MirrorPad": Raw("pad", "tensor paddings", {"mode": "mode"}),
    "Gather": Raw("gather", "params indices"),
    "GatherV2": Raw("gather", "params indices axis", {"batch_dims": "batch_dims"}),
    "GatherNd": Raw("gather_nd", "params indices"),
    "OneHot": Raw(
        "one_hot", "indices depth on_value off_value", {"axis": "axis", "dtype": "T"}
    ),
    "ReverseV2": Raw("reverse", "tensor axis"),
    "Roll": Raw("roll", "input shift axis"),
    "ArgMax": Raw("math.argmax", "input axis", {"output_type": "output_type"}),
    "ArgMin": Raw("math.argmin", "input axis", {"output_type": "output_type"}),
    "TopKV2": Raw("math.top_k", "input k", {"sorted": "sorted"}),
    "MatMul": Raw("linalg.matmul", "a b", MATRICES),
    "BatchMatMul": Raw("linalg.matmul", "a b", ADJOINT),
    "BatchMatMulV2": Raw("linalg.matmul", "a b", ADJOINT),
    "Einsum": Raw("einsum", "*inputs", {"equation": "equation"}),
    "MatrixInverse": Raw("linalg.inv", "input", {"adjoint": "adjoint"}),
    "MatrixSolve": Raw("linalg.solve", "matrix rhs", {"adjoint": "adjoint"}),
    "Cross": Raw("linalg.cross", "a b"),
    "InTopKV2": Raw("math.in_top_k", "predictions targets k"),
    "AdjustContrastv2": Raw("image.adjust_contrast", "images contrast_factor"),
    "L2Loss": Raw("nn.l2_loss", FIRST),
    "MatrixDiag": Raw("linalg.diag", FIRST),
    "MatrixDiagV3": Raw("linalg.diag", "diagonal k num_rows num_cols padding_value"),
    "MatrixDiagPartV3": Raw("linalg.diag_part", "input k padding_value"),
    "MatrixDiagPart": Raw("linalg.diag_part", FIRST),
    "MatrixBandPart": Raw("linalg.band_part", "input num_lower num_upper"),
    "StridedSlice": Raw(
        "strided_slice", "input begin end strides", {name: name for name in SLICES}
    ),
    "Slice": Raw("slice", "input_ begin size"),
    "Conv2D": Raw("nn.conv2d", "input filters", {**WINDOW, "dilations": "dilations"}),
    "DepthwiseConv2dNative": Raw(
        "nn.depthwise_conv2d", "input filters", {**WINDOW, "dilations": "dilations"}
    ),
    "MaxPool": Raw("nn.max_pool", "input", {**WINDOW, "ksize": "ksize"}),
    "AvgPool": Raw("nn.avg_pool", "input", {**WINDOW, "ksize": "ksize"}),
    "BiasAdd": Raw("nn.bias_add", "value bias", {"data_format": "data_format"}),
    "DepthToSpace": Raw("nn.depth_to_space", "input", {"block_size": "block_size"}),
    "SpaceToDepth": Raw("nn.space_to_depth", "input", {"block_size": "block_size"}),
    "ResizeArea": Raw("image.legacy_resize_area", "images size"),
    "ResizeBicubic": Raw("image.legacy_resize_bicubic", "images size", RESIZED),
    "ResizeBilinear": Raw("image.legacy_resize_bilinear", "images size", RESIZED),
    "ResizeNearestNeighbor": Raw("image.legacy_resize_nearest", "images size", RESIZED),
}


def attribute(value):
    """Return what an `AttrValue` in JSON holds.

    Raises:
        ValueError: if it is of no kind that is known.
    """
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"expected an attribute of one kind, found {value!r}")
    ((kind, held),) = value.items()
    if kind == "i":
        return int(held)
    if kind == "f":
        return float(held)
    if kind == "b":
        return kinds.boolean(held)
    if kind == "type":
        return held
    if kind == "s":
        return _text(held)
    if kind == "list":
        return _list(held)
    raise ValueError(f"an attribute of the kind {kind!r} is not known")


def _text(value):
    """Return a string of JSON's form of a NodeDef, which is in base64."""
    import base64
    import binascii

    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"expected text in base64, found {value!r}") from error


def _list(held):
    items = held.get("i") or held.get("f") or held.get("s") or []
    return [int(item) if "i" in held else item for item in items]


def arguments(raw, inputs, attributes):
    """Return `(args, kwargs)` for a function of the table.

    Args:
        raw: `Raw`.
        inputs: list, tensors and constants in the order of the NodeDef's inputs.
        attributes: dict of the NodeDef's attributes in JSON.

    Raises:
        ValueError: if there are more or fewer inputs than the op takes.
    """
    names, given = raw.inputs.split(), {}
    settings = {
        name: attribute(attributes[attr])
        for name, attr in raw.attributes.items()
        if attr in attributes
    }
    if raw.inputs == FIRST and len(inputs) == 1:
        return inputs, settings
    if names and names[0].startswith("*"):
        after = len(names) - 1
        given[names[0][1:]] = inputs[: len(inputs) - after]
        names, inputs = names[1:], inputs[len(inputs) - after :]
    if len(names) != len(inputs):
        raise ValueError(f"expected the inputs {names}, found {len(inputs)} values")
    return (), given | dict(zip(names, inputs, strict=True)) | settings


def constants(values):
    """Return the constants of a layer, `{position: value}`, as arrays or numbers."""
    found = {}
    for position, value in values.items():
        is_array = isinstance(value, list)
        found[int(position)] = kinds.array(value) if is_array else value
    return found
