"""`tf.image`: the patches of an image."""

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops.kinds import Padding, Tensor
from keras_policies.legacy.ops.nn_convolutions import LAST, one, spatial
from keras_policies.legacy.ops.registry import Raw, op


@op(
    "image.extract_patches",
    "compat.v1.extract_image_patches",
    "compat.v1.image.extract_image_patches",
    ExtractImagePatches=Raw("images", "sizes=ksizes strides rates padding"),
    renamed={"ksizes": "sizes"},
)
def extract_patches(
    images: Tensor,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: Padding,
) -> Tensor:
    """Return the patch around each position as its channels, row by row.

    This is a convolution with one filter for each item of a patch, as
    `ops.image.extract_patches` is; that of Keras 3.8 takes no pairs of strides.
    """
    rows, columns = spatial(sizes, 2, LAST)
    size = rows * columns * images.shape[-1]
    budget.spend(size**2, 4)
    each = np.eye(size, dtype=images.dtype)
    return ops.conv(
        images,
        each.reshape(rows, columns, images.shape[-1], size),
        strides=one(spatial(strides, 2, LAST)),
        padding=padding,
        data_format=LAST,
        dilation_rate=one(spatial(rates, 2, LAST)),
    )
