"""`tf.keras.backend`: functions that TensorFlow has under another name."""

from collections.abc import Mapping

from keras_policies.legacy.ops import (  # noqa: F401 (each enters its functions)
    array_creation,
    array_indexing,
    array_joining,
    array_shapes,
    array_values,
    math_elementwise,
    math_reductions,
    nn,
    nn_convolutions,
)
from keras_policies.legacy.ops.registry import FUNCTIONS, op

# Names that are the same in `tf.math`, of functions of one or two tensors.
ELEMENTWISE = (
    *("abs", "cos", "equal", "exp", "greater", "greater_equal", "less", "less_equal"),
    *("log", "maximum", "minimum", "not_equal", "round", "sigmoid", "sign", "sin"),
    *("softplus", "square", "tanh"),
)
REDUCTIONS = "all", "any", "logsumexp", "max", "mean", "min", "prod", "std", "sum"
# Name in `keras.backend` -> name in TensorFlow, and the names of its parameters there.
OTHERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bias_add": ("nn.bias_add", {"x": "value"}),
    "cast": ("cast", {}),
    "clip": (
        "clip_by_value",
        {"x": "t", "min_value": "clip_value_min", "max_value": "clip_value_max"},
    ),
    "conv1d": ("nn.conv1d", {"x": "input", "kernel": "filters"}),
    "conv2d": ("nn.conv2d", {"x": "input", "kernel": "filters"}),
    "cumprod": ("math.cumprod", {}),
    "cumsum": ("math.cumsum", {}),
    "eye": ("eye", {"size": "num_rows"}),
    "gather": ("gather", {"reference": "params"}),
    "identity": ("identity", {"x": "input"}),
    "linear": ("identity", {"x": "input"}),
    "log_softmax": ("nn.log_softmax", {"x": "logits"}),
    "one_hot": ("one_hot", {"num_classes": "depth"}),
    "ones": ("ones", {}),
    "ones_like": ("ones_like", {"x": "input"}),
    "permute_dimensions": ("transpose", {"x": "a", "pattern": "perm"}),
    "pow": ("math.pow", {"a": "y"}),
    "reshape": ("reshape", {"x": "tensor"}),
    "reverse": ("reverse", {"x": "tensor", "axes": "axis"}),
    "selu": ("nn.selu", {}),
    "shape": ("shape", {"x": "input"}),
    "softmax": ("nn.softmax", {"x": "logits"}),
    "softsign": ("nn.softsign", {}),
    "squeeze": ("squeeze", {"x": "input"}),
    "stack": ("stack", {"x": "values"}),
    "stop_gradient": ("stop_gradient", {"variables": "x"}),
    "tile": ("tile", {"x": "input", "n": "multiples"}),
    "transpose": ("transpose", {"x": "a"}),
    "zeros": ("zeros", {}),
    "zeros_like": ("zeros_like", {"x": "input"}),
    "var": ("math.reduce_variance", {"x": "input_tensor"}),
    **{name: (f"math.{name}", {}) for name in ELEMENTWISE},
    **{name: (f"math.reduce_{name}", {"x": "input_tensor"}) for name in REDUCTIONS},
}
for _name, (_function, _renamed) in OTHERS.items():
    _known = FUNCTIONS[_function]
    _names = {**_known.renamed, **_renamed}
    op("keras.backend." + _name, renamed=_names)(_known.function)
