"""Trains small models of other libraries; `libraries.py` runs it and compares.

`python library_models.py PACKAGE OWN OTHER` imports PACKAGE (keras_policies or keras),
trains each model under its "mixed_float16", saves it in the folder OWN and opens it
again. Then it opens the model in the folder OTHER. `outcomes.json` in OWN has the
results.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path

import keras
import keras_rs
import keras_tuner
import numpy as np
from keras_hub import models

draw = np.random.default_rng(0)
TOKENS = draw.integers(0, 50, (4, 8))
ONES = np.ones((4, 8), "int32")
SPEECH = draw.normal(size=(4, 8, 4)).astype("float32")
IMAGES = draw.normal(size=(2, 64, 64, 3)).astype("float32")
BOXES = {"boxes": np.float32([[[12, 12, 44, 44]]] * 2), "labels": np.ones((2, 1))}
ROWS = draw.normal(size=(4, 6)).astype("float32")
CLASSES = np.array([0, 1, 0, 1])
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
TEXT_SIZES = {**SIZES, "vocabulary_size": 50, "intermediate_dim": 16}


def set_policy():
    """Make "mixed_float16" the global policy: ours, if this package is imported."""
    ours = sys.modules.get("keras_policies")
    policy = ours.Policy("mixed_float16") if ours else "mixed_float16"
    keras.config.set_dtype_policy(policy)


def trained(model, x, y, **losses):
    """Train a model for three steps; return `(losses, model, x)`."""
    own = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    model.compile(keras.optimizers.Adam(0.01), **losses or own)
    run = model.fit(x, y, epochs=3, batch_size=4, shuffle=False, verbose=0)
    return run.history["loss"], model, x


def text():
    backbone = models.BertBackbone(**TEXT_SIZES, max_sequence_length=8)
    x = {"token_ids": TOKENS, "padding_mask": ONES, "segment_ids": 0 * ONES}
    return trained(models.BertTextClassifier(backbone, 2), x, CLASSES)


def speech():
    sizes = {"max_encoder_sequence_length": 8, "max_decoder_sequence_length": 8}
    backbone = models.WhisperBackbone(**TEXT_SIZES, num_mels=4, **sizes)
    x = {"encoder_features": SPEECH, "decoder_token_ids": TOKENS}
    y = keras.layers.Dense(50)(backbone.output["decoder_sequence_output"])
    model = keras.Model(backbone.input, y)
    return trained(model, {**x, "decoder_padding_mask": ONES}, TOKENS)


def resnet():
    return models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64, 64, 64],
        stackwise_num_blocks=[1, 1, 1],
        stackwise_num_strides=[1, 2, 2],
        block_type="basic_block",
        image_shape=IMAGES.shape[1:],
    )


def image():
    return trained(models.ResNetImageClassifier(resnet(), 2), IMAGES, CLASSES[:2])


def patches():
    shape = IMAGES.shape[1:]
    backbone = models.ViTBackbone(shape, patch_size=(16, 16), mlp_dim=16, **SIZES)
    return trained(models.ViTImageClassifier(backbone, 2), IMAGES, CLASSES[:2])


def detection():
    levels = {"min_level": 3, "max_level": 4, "use_p5": False}
    shape = IMAGES.shape[1:]
    backbone = models.RetinaNetBackbone(resnet(), **levels, image_shape=shape)
    model = models.RetinaNetObjectDetector(
        backbone, 2, bounding_box_format="xyxy", pre_logits_num_conv_layers=1
    )
    focal = keras.losses.BinaryFocalCrossentropy(from_logits=True, reduction="sum")
    huber = keras.losses.Huber(reduction="sum")
    return trained(model, IMAGES, BOXES, classification_loss=focal, box_loss=huber)


def tuned():
    def build(choices):
        set_policy()  # the search clears the session, and with it the policy
        hidden = keras.layers.Dense(choices.Int("units", 2, 8), "relu")
        model = keras.Sequential([hidden, keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    with tempfile.TemporaryDirectory() as folder:
        goal = keras_tuner.Objective("loss", "min")
        search = keras_tuner.RandomSearch(build, goal, 2, seed=0, directory=folder)
        search.search(ROWS, CLASSES, epochs=2, shuffle=False, verbose=0)
        [best] = search.get_best_models()
    best(ROWS)
    return [trial.score for trial in search.oracle.trials.values()], best, ROWS


def recommended():
    rows, items = keras.Input((6,)), keras.Input((8,), dtype="int32")
    crossed = keras_rs.layers.FeatureCross(projection_dim=4)(rows, rows)
    looked_up = keras_rs.layers.EmbedReduce(50, 6)(items)
    dots = keras_rs.layers.DotInteraction()([crossed, looked_up])
    model = keras.Model([rows, items], keras.layers.Dense(2)(dots))
    return trained(model, [ROWS, TOKENS], CLASSES)


def inferred():
    import bayesflow  # with torch, it turns gradients off for whoever asks for none

    flow = bayesflow.networks.CouplingFlow(depth=1, subnet_kwargs={"widths": (8,)})
    data = {"theta": ROWS[:, :2], "x": ROWS[:, 2:]}
    names = {"inference_variables": ["theta"], "inference_conditions": ["x"]}
    workflow = bayesflow.BasicWorkflow(inference_network=flow, **names)
    run = workflow.fit_offline(data, epochs=3, batch_size=4, verbose=0)
    return run.history["loss"], workflow.approximator, data


CASES = {
    "keras-hub: BERT, a classifier of texts": text,
    "keras-hub: Whisper": speech,
    "keras-hub: ResNet, a classifier of images": image,
    "keras-hub: ViT, a classifier of images": patches,
    "keras-hub: RetinaNet, a detector": detection,
    "keras-tuner: two trials": tuned,
    "keras-rs: crossed features and embeddings": recommended,
    "bayesflow: a coupling flow": inferred,
}


def predictions(model, x):
    """Return what a model predicts, as nested lists."""
    predict = getattr(model, "log_prob", None)
    found = predict(x) if predict else model.predict(x, verbose=0)
    return [np.asarray(own).tolist() for own in keras.tree.flatten(found)]


def outcome(make, own, other):
    """Return what training, saving and opening a model gives, as JSON has it."""
    keras.utils.set_random_seed(0)
    set_policy()
    found = {}
    try:
        found["losses"], model, x = make()
        found["optimizer"] = type(model.optimizer).__name__
        found["scale"] = float(getattr(model.optimizer, "dynamic_scale", 0))
        model.save(own)
        found["predictions"] = predictions(model, x)
        found["opened"] = predictions(keras.saving.load_model(own), x)
        found["opened the other"] = predictions(keras.saving.load_model(other), x)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return found


def main(package, own, other):
    importlib.import_module(package)
    found = {}
    for case, make in CASES.items():
        paths = (Path(folder, f"{make.__name__}.keras") for folder in (own, other))
        found[case] = outcome(make, *paths)
    Path(own, "outcomes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
