"""Writes models of keras.applications, alone and as the guides do transfer learning.

    python write_applications.py OUTDIR [NAME ...]

Under each of TensorFlow 2.4.4 and 2.15.1. A model goes to OUTDIR/<release>/
<name>-<policy>/: `model.h5`, `model.keras` (2.15), some as `saved_model/` too, and
`expected.npz` with an input `x_0` and its output `y_0`. The weights are one short
pattern over and over, so that the files compress well.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

keras, layers, apps = tf.keras, tf.keras.layers, tf.keras.applications
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
POLICIES = ("float32", "mixed_float16")
CLASSES, BATCH = 5, 2
# 61 numbers from 0 to 1; prime, so that no axis of a kernel meets the same ones again.
PATTERN = np.random.RandomState(7).permutation(61) / 60
# What is not a kernel, and its range.
RANGES = {
    "gamma": (0.8, 1.2),
    "beta": (-0.2, 0.2),
    "bias": (-0.2, 0.2),
    "mean": (-0.2, 0.2),
    "variance": (0.5, 1.5),
}
# Name -> (module with its preprocess_input, class, image size, other arguments).
APPLICATIONS = {
    "mobilenet": ("mobilenet", "MobileNet", 64, {"alpha": 0.25}),
    "mobilenet_v2": ("mobilenet_v2", "MobileNetV2", 64, {"alpha": 0.35}),
    "mobilenet_v3_small": ("mobilenet_v3", "MobileNetV3Small", 64, {}),
    "mobilenet_v3_large": ("mobilenet_v3", "MobileNetV3Large", 64, {}),
    "mobilenet_v3_small_minimalistic": (
        "mobilenet_v3",
        "MobileNetV3Small",
        64,
        {"minimalistic": True},
    ),
    "mobilenet_v3_large_minimalistic": (
        "mobilenet_v3",
        "MobileNetV3Large",
        64,
        {"minimalistic": True},
    ),
    "efficientnet_b0": ("efficientnet", "EfficientNetB0", 64, {}),
    "efficientnet_v2_b0": ("efficientnet_v2", "EfficientNetV2B0", 64, {}),
    "resnet50": ("resnet50", "ResNet50", 64, {}),
    "resnet50_v2": ("resnet_v2", "ResNet50V2", 64, {}),
    "densenet121": ("densenet", "DenseNet121", 64, {}),
    "inception_v3": ("inception_v3", "InceptionV3", 107, {}),
    "xception": ("xception", "Xception", 71, {}),
    "nasnet_mobile": ("nasnet", "NASNetMobile", 64, {}),
    "vgg16": ("vgg16", "VGG16", 64, {}),
    "convnext_tiny": ("convnext", "ConvNeXtTiny", 64, {}),
}
# Name -> (the model it transfers, what makes that one's inputs of pixels).
TRANSFERS = {
    "transfer_mobilenet_v2": (
        "mobilenet_v2",
        lambda x: apps.mobilenet_v2.preprocess_input(x),
    ),
    "transfer_mobilenet_v2_rescaling": (
        "mobilenet_v2",
        lambda x: preprocessing.Rescaling(1.0 / 127.5, offset=-1)(x),
    ),
    "transfer_efficientnet_b0": (
        "efficientnet_b0",
        lambda x: apps.efficientnet.preprocess_input(x),
    ),
}
# The first release with a model.
SINCE = {"efficientnet_v2_b0": (2, 8), "convnext_tiny": (2, 10)}
# Those with a SavedModel too.
SAVED_MODELS = ("mobilenet", "mobilenet_v2", "efficientnet_b0", *TRANSFERS)
preprocessing = layers if RELEASE >= (2, 6) else layers.experimental.preprocessing


def pixels(size):
    """Return images of coloured squares."""
    squares = np.random.RandomState(7).randint(0, 256, (BATCH, 8, 8, 3))
    places = np.arange(size) // 10 % 8
    return squares[:, places][:, :, places].astype("float32")


def fill(layer):
    """Set the weights to the pattern, in ranges that their names and shapes tell."""
    for number, variable in enumerate(layer.weights):
        kind = variable.name.split("/")[-1].split(":")[0]
        axes = 2 if kind == "depthwise_kernel" else -1
        limit = (1 / max(1, np.prod(variable.shape[:axes]))) ** 0.5
        low, high = RANGES.get(kind, (-limit, limit))
        values = low + (high - low) * np.roll(PATTERN, number)
        if variable.dtype.is_floating:
            variable.assign(np.resize(values, variable.shape))
    for part in getattr(layer, "layers", ()):
        if hasattr(part, "finalize_state"):  # Normalization reckons from its weights
            part.finalize_state()


def calibrate(model, x):
    """Set the moving statistics to those of a batch, in 5 bits and an exponent."""
    norms = [
        (part, part.momentum)
        for part in model.layers
        if isinstance(part, layers.BatchNormalization)
    ]
    for norm, _ in norms:
        norm.momentum = 0.0
    model(x, training=True)
    for norm, momentum in norms:
        norm.momentum = momentum
        for variable in (norm.moving_mean, norm.moving_variance):
            mantissa, exponent = np.frexp(variable.numpy())
            variable.assign(np.ldexp(np.round(mantissa * 32) / 32, exponent))


def application(name, **options):
    """Return a model of keras.applications and its inputs."""
    module, kind, size, arguments = APPLICATIONS[name]
    options.update(arguments, weights=None, input_shape=(size, size, 3))
    model = getattr(apps, kind)(**options)
    x = getattr(apps, module).preprocess_input(pixels(size))
    fill(model)
    calibrate(model, x)
    return model, x


def transfer(name):
    """Return the model of https://keras.io/guides/transfer_learning/ and its inputs."""
    name, preprocess = TRANSFERS[name]
    base, _ = application(name, include_top=False)
    base.trainable = False
    inputs = keras.Input(base.input_shape[1:])
    x = preprocessing.RandomFlip("horizontal", seed=1)(inputs)
    x = preprocessing.RandomRotation(0.1, seed=2)(x)
    x = base(preprocess(x), training=False)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    head = layers.Dense(CLASSES, dtype="float32")
    model = keras.Model(inputs, head(x))
    fill(head)
    return model, pixels(base.input_shape[1])


def write(name, policy, folder):
    keras.backend.clear_session()
    tf.random.set_seed(7)
    keras.mixed_precision.set_global_policy(policy)
    alone = name in APPLICATIONS
    model, x = application(name, classes=CLASSES) if alone else transfer(name)
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"), save_format="h5")
    if name in SAVED_MODELS:
        model.save(os.path.join(folder, "saved_model"), save_format="tf")
    if RELEASE >= (2, 12):
        model.save(os.path.join(folder, "model.keras"), save_format="keras")
    stored = {"x_0": x, "y_0": np.asarray(model(x, training=False))}
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)
    print(tf.__version__, name, policy, stored["y_0"], flush=True)


def main(out, *names):
    for name in (*APPLICATIONS, *TRANSFERS):
        wanted = name in names or not names
        if wanted and SINCE.get(name, RELEASE) <= RELEASE:
            for policy in POLICIES:
                folder = os.path.join(out, tf.__version__, name + "-" + policy)
                write(name, policy, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
