"""`tf.bitwise`."""

import operator

from keras_policies.legacy.ops import elementwise

elementwise.register(
    "x y",
    ("bitwise_and", operator.and_, "bitwise.bitwise_and", "BitwiseAnd"),
    ("bitwise_or", operator.or_, "bitwise.bitwise_or", "BitwiseOr"),
    ("bitwise_xor", operator.xor, "bitwise.bitwise_xor", "BitwiseXor"),
)
elementwise.register("x", ("bitwise_invert", None, "bitwise.invert", "Invert"))
