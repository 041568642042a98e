"""`tf.image`: the patches of an image."""

from keras_policies.legacy.ops.elementwise import named
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
    """Return the patch around each position as its channels, row by row."""
    return named("image.extract_patches")(
        images,
        tuple(spatial(sizes, 2, LAST)),
        strides=tuple(spatial(strides, 2, LAST)),
        dilation_rate=one(spatial(rates, 2, LAST)),
        padding=padding,
    )
