"""Resizing layers with a kernel that Keras 3 lacks, as calls of `tf.image.resize`.

Source: keras/layers/preprocessing/image_preprocessing.py of Keras 2.15.
"""

from keras_policies.annotations import Config, PolicyLike
from keras_policies.legacy.bytecode.values import Call, Program, Ref
from keras_policies.legacy.plan import arguments, policies


def program(config: Config, policy: PolicyLike | None) -> Program | None:
    """Return what such a layer does; None for any other."""
    method = config.get("interpolation")
    refused = arguments.REFUSED["Resizing"]["interpolation"]
    if method not in refused:
        return None
    size = config.get("height"), config.get("width")
    (dtype,) = policies.compute_dtypes(policy or "float32")
    crop = "tf.image._with_aspect_ratio_of"
    crops = (Call(crop, (Ref(0), size)),) * bool(config.get("crop_to_aspect_ratio"))
    calls = (
        *crops,
        Call("tf.image.resize", (Ref(len(crops)), size, method)),  # in float32
        Call("tf.cast", (Ref(len(crops) + 1), dtype or "float32")),
    )
    return Program("", calls, Ref(len(calls)))
