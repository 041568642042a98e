"""Models with padding, whose masks Keras 3 handles otherwise; by write_masks.py."""

import json
import re
import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import keras_internals
from keras_policies.legacy.assembly.keras_differences import masks

ARCHIVE = legacy_files.FOLDER / "masks.tar.xz"
ALL = legacy_files.names(ARCHIVE)
# Means of all positions that plain Keras cannot give: at padding, and over a grid.
MEANS, GRID = "2.15.1/flattened/", "/heads_over_a_grid/"
CASES = [name for name in ALL if not name.startswith(MEANS) and GRID not in name]
NAMES = legacy_files.on_this_backend(CASES, each_release=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("masks"), [ARCHIVE])


def check(model, path):
    x = legacy_files.one(legacy_files.arrays(path, "x_"))
    found = legacy_files.called(model, x)
    for output, wanted in zip(found, legacy_files.arrays(path, "y_"), strict=True):
        np.testing.assert_allclose(output, wanted, atol=1e-5)


UNRECORDED = "/nested|^keras-"  # a file cannot record these: docs/legacy-models.md


# Keras warns that a model inside of another hands on no mask; when it runs, it does.
@pytest.mark.filterwarnings("ignore:Layer 'model' .* does not support masking")
@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")  # Keras 3.16
@pytest.mark.parametrize("name", NAMES)
def test_padding_is_treated_as_in_tensorflow_also_in_the_converted_file(
    name, folder, tmp_path
):
    try:
        model = keras_policies.load_model(folder / name)
    except keras_policies.LegacyModelError as error:
        if legacy_files.is_for_unused_inputs(error):
            return
        raise
    check(model, folder / name)
    if not re.search(UNRECORDED, name):
        model.save(tmp_path / "new.keras")
        check(keras.models.load_model(tmp_path / "new.keras"), folder / name)


@legacy_files.needs_unused_inputs
@pytest.mark.once("no backend differs")
def test_no_new_operation_has_the_name_of_a_layer_in_the_file(folder):
    path = folder / "2.15.1/softmax_that_sees_nothing/model.h5"
    with keras_internals.fresh_names():
        model = keras_policies.load_model(path)
        names = [operation.name for operation in model.operations]
        assert names.count("softmax") == names.count("softmax_1") == 1
        assert keras.layers.SimpleRNN(1).name == "simple_rnn"
    check(model, path)


@legacy_files.needs_unused_inputs
@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")
@pytest.mark.once("no backend differs")
@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_means_at_padding_that_become_data_are_told(form, folder):
    with pytest.warns(match="the mean that 'multi_head_attention' returned at padding"):
        keras_policies.load_model(folder / MEANS / form)
    with pytest.warns(match="gradients of the scores of 'multi_head_attention' at pad"):
        keras_policies.load_model(folder / MEANS / form)


@legacy_files.needs_unused_inputs
@pytest.mark.once("no backend differs")
@pytest.mark.parametrize("release", ["2.4.4", "2.15.1"])
def test_means_over_a_grid_are_told(release, folder):
    told = "'multi_head_attention' returned where a mask hides all positions"
    with pytest.warns(match=told):
        keras_policies.load_model(f"{folder}/{release}{GRID}model.h5")


@legacy_files.needs_unused_inputs
@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")
@pytest.mark.once("no backend differs")
def test_a_signature_that_uses_masks_is_compared_on_every_example(folder):
    """Its functions use none, and agree with layers that are rebuilt from them."""
    differs = pytest.raises(
        keras_policies.LegacyModelError,
        match="gives other numbers than its own graph .* 'multi_head_attention'",
    )
    gives_means = keras.__version__.startswith("3.8.")
    with pytest.warns(match="the mean that") if gives_means else differs:
        keras_policies.load_model(folder / MEANS / "saved_model")


@pytest.mark.once("no backend differs")
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0, 1, 1], [False, True, True]),
        ([1, 1, 1], [True, True, True]),
        # tf.keras adds (1 - mask) * -1e9 to the scores, which are lost in rounding.
        ([2, 2, 2], [False, False, False]),
        ([0, 0, 0], [False, False, False]),
    ],
    ids=str,
)
def test_a_mask_of_numbers_chooses_the_largest_of_a_row(row, expected):
    mask = keras.Input((1, 3))
    model = keras.Model(mask, masks.chosen(mask, 1))
    (found,) = legacy_files.called(model, np.array([[row]], "float32"))
    assert found.tolist() == [[expected]]


@pytest.mark.once("no backend differs")
@pytest.mark.parametrize(("version", "is_told"), [("2.4.0", True), ("2.15.0", False)])
def test_statistics_that_counted_padding_are_told(version, is_told, tmp_path):
    layers = [
        ("InputLayer", {"batch_input_shape": [None, 3, 2], "name": "x"}),
        ("Masking", {"mask_value": 0.0, "name": "masking"}),
        ("BatchNormalization", {"name": "norm", "axis": [2]}),
        ("Flatten", {"name": "flat"}),
        ("BatchNormalization", {"name": "after", "axis": [1]}),
    ]
    listed = [{"class_name": name, "config": config} for name, config in layers]
    config = {"name": "model", "layers": listed}
    text = {"class_name": "Sequential", "config": config, "keras_version": version}
    (tmp_path / "model.json").write_text(json.dumps(text), "utf8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        keras_policies.load_model(tmp_path / "model.json")
    said = " ".join(str(each.message) for each in caught)
    assert ("that 'norm' counted padding in the statistics" in said) == is_told
    assert "'after'" not in said


@pytest.mark.filterwarnings("ignore:Layer 'gate' .* does not support masking")
@pytest.mark.once("no backend differs")
@pytest.mark.parametrize(
    ("rebuilt", "trainable", "found"),
    [
        (["gate"], True, ["that 'inside' counted padding"]),
        (["outer/after"], True, ["that 'after' counted padding"]),
        (["gate"], False, []),  # it moves no statistics
        ([], True, []),  # tf.keras leaves padding out, as Keras 3 does
    ],
    ids=["model", "layer", "frozen", "recorded"],
)
def test_a_rebuilt_layer_counted_padding_in_every_release(rebuilt, trainable, found):
    x, inner = keras.Input((3, 2)), keras.Input((3, 2))
    y = keras.layers.BatchNormalization(name="inside", trainable=trainable)(inner)
    gate = keras.Model(inner, y, name="gate")
    y = keras.layers.BatchNormalization(name="after")(keras.layers.Masking()(x))
    model = keras.Model(x, gate(y))
    said = [*masks.counting_padding(model, (2, 15), rebuilt)]
    assert [text.partition(" in the")[0] for text in said] == found
