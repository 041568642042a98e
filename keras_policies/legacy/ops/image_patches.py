"""`tf.image`: the patches of an image."""

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import Padding, Value
from keras_policies.legacy.ops.nn_convolutions import LAST, one, spatial
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, ops


@op(
    "image.extract_patches",
    "compat.v1.extract_image_patches",
    "compat.v1.image.extract_image_patches",
    ExtractImagePatches=Raw("images", "sizes=ksizes strides rates padding"),
    renamed={"ksizes": "sizes"},
)
def extract_patches(
    images: Value,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: Padding,
) -> Value:
    """Return the patch around each position as its channels, row by row.

    This is a convolution with one filter for each item of a patch, as
    `ops.image.extract_patches` is; that of Keras 3.8 takes no pairs of strides.
    """
    rows, columns = spatial(sizes, 2, LAST)
    channels = kinds.integer(computed.shape(images)[-1])
    size = rows * columns * channels
    budget.spend(size**2, 4)
    each = np.eye(size, dtype=dtype_of(images))
    return ops.conv(
        images,
        each.reshape(rows, columns, channels, size),
        strides=one(spatial(strides, 2, LAST)),
        padding=padding,
        data_format=LAST,
        dilation_rate=one(spatial(rates, 2, LAST)),
    )
