"""`tf.bitwise`."""

from keras_policies.legacy.ops import elementwise

elementwise.register(
    "x y",
    ("bitwise_and", "bitwise.bitwise_and", "BitwiseAnd"),
    ("bitwise_or", "bitwise.bitwise_or", "BitwiseOr"),
    ("bitwise_xor", "bitwise.bitwise_xor", "BitwiseXor"),
)
elementwise.register("x", ("bitwise_invert", "bitwise.invert", "Invert"))
