"""Models that were rebuilt wrongly without a word: what their outputs do not show."""

import warnings

import keras
import legacy_files
import lost_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, load_model

RELEASES = [
    release
    for release in ("2.15.1", "2.4.4")
    if legacy_files.IS_THOROUGH or release == legacy_files.NEWEST
]
DRAWS = 300


def named(*names):
    """Return the parameters of a test: these cases, of each release that has them."""
    return [
        f"{release}/{name}"
        for release in RELEASES
        for name in names
        if name in lost_files.names(release)
    ]


# What is still refused. A case that is mended has to leave the list.
REFUSED = ("sequential_of_features",)  # SparseToDense
DRAWN = "monte_carlo"  # no single draw can be compared
# These cannot be rebuilt.
SECOND_CALL, MASK = "name_of_a_second_call", "mask_read_from_a_tensor"
# Choices by random numbers, and the classes that make them.
CHOICES = {"mask_of_random_numbers": "Flipped", "order_of_random_numbers": "Kept"}


@pytest.fixture(autouse=True)
def known_faults(request):
    """Expect the cases of the lists to fail."""
    _, _, name = request.node.callspec.params["name"].partition("/")
    if name in REFUSED:
        reason = "an op without a counterpart in keras.ops"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.mark.filterwarnings("ignore:.*does not support masking")
@pytest.mark.parametrize(
    "name",
    [
        f"{release}/{name}"
        for release in RELEASES
        for name in lost_files.names(release, tables=("-faults",))
        if not name.startswith((DRAWN, SECOND_CALL, MASK, *CHOICES))
    ],
)
def test_a_model_predicts_what_tensorflow_did(folder, name):
    case, model, _ = opened(folder, name)
    for x, expected in case.batches():
        found = legacy_files.called(model, x)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", named(SECOND_CALL))
def test_a_layer_is_not_taken_for_the_second_call_of_another_one(folder, name):
    told = "ImageProjectiveTransformV3.*gain_1.*Write the classes of these layers again"
    with pytest.raises(LegacyModelError, match=f"(?s){told}"):
        load_model(lost_files.of(folder, name).model)


@pytest.mark.parametrize("name", named(*CHOICES))
def test_a_choice_by_random_numbers_is_refused_with_the_class_to_pass(folder, name):
    case = lost_files.of(folder, name)
    passed = f"custom_objects={{'{CHOICES[case.folder.name]}': ...}}"
    with pytest.raises(LegacyModelError, match=f"choice by random numbers.*{passed}"):
        load_model(case.model)


@pytest.mark.filterwarnings("ignore:.*does not support masking")
@pytest.mark.parametrize("name", named(MASK))
def test_a_layer_that_reads_a_mask_itself_needs_the_signature(folder, name):
    case = lost_files.of(folder, name)
    with pytest.raises(LegacyModelError, match="reads the mask.*'serving_default'"):
        load_model(case.model)
    with pytest.warns(UserWarning, match="rebuilt from the functions"):
        model = load_model(case.model, signature="serving_default")
    for x, (expected,) in case.batches():
        (found,) = legacy_files.called(model, x)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for name in RELEASES for path in lost_files.archives(name)]
    return legacy_files.unpacked(tmp_path_factory.mktemp("faults"), archives)


def opened(folder, name):
    """Return the case, its model, and the texts of the warnings."""
    case = lost_files.of(folder, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(case.model)
    return case, model, [str(one.message) for one in caught]


def to_numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


@pytest.mark.parametrize(
    "name",
    named(
        "monte_carlo",
        "monte_carlo_inside",
        "monte_carlo_of_class",
        "monte_carlo_of_functions",
    ),
)
def test_dropout_that_always_drops_is_drawn_or_named(folder, name):
    case, model, texts = opened(folder, name)
    x = case.inputs()
    draws = np.array([to_numpy(model(x, training=False)) for _ in range(DRAWS)])
    mean, std = case.stored["mean_0"], case.stored["std_0"]
    # Six times the deviation of a mean, the one of TensorFlow's 2,000 draws included.
    allowed = 6 * std * (1 / DRAWS + 1 / 2000) ** 0.5
    assert np.all(np.abs(draws.mean(axis=0) - mean) <= allowed)
    if np.all(draws == draws[0]):
        assert any("training=True" in text for text in texts)
    else:
        np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.3)


@pytest.mark.parametrize(
    "name", named("own_orthogonal_regularizer", "own_orthogonal_kernel")
)
def test_a_regularizer_of_a_stock_name_adds_what_it_added_or_is_left_out(folder, name):
    case, model, texts = opened(folder, name)
    model(case.inputs())
    found = [float(to_numpy(loss)) for loss in model.losses]
    if found:
        np.testing.assert_allclose(found, case.stored["losses"], rtol=1e-4)
    else:
        assert any("OrthogonalRegularizer" in text for text in texts)


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        (name, class_name)
        for case, class_name in [
            ("own_attention_layer", "Attention"),
            ("own_layer_normalization", "LayerNormalization"),
            ("own_multi_head_attention", "MultiHeadAttention"),
            ("own_rms_normalization", "LayerNormalization"),
        ]
        for name in named(case)
    ],
)
def test_a_layer_of_a_stock_name_that_is_another_is_listed(folder, name, class_name):
    _, _, texts = opened(folder, name)
    (text,) = (text for text in texts if "configs of these layers" in text)
    assert f"({class_name})" in text


@pytest.mark.parametrize(
    "name",
    named(
        "unsorted_outputs",
        "unsorted_outputs_of_lost_layer",
        "unsorted_outputs_of_class",
        "unsorted_inputs_and_outputs",
    ),
)
def test_outputs_keep_their_names(folder, name):
    case, model, _ = opened(folder, name)
    y = case.arrays("y_")
    for found in model(case.inputs()), model.predict(case.inputs(), verbose=0):
        assert set(found) == set(case.about["output_keys"])
        for key, number in case.about["outputs"].items():
            np.testing.assert_allclose(to_numpy(found[key]), y[number], 1e-5, 1e-5)


@pytest.mark.parametrize(
    "name",
    named(
        "unsorted_outputs",
        "unsorted_outputs_of_lost_layer",
        "unsorted_inputs_and_outputs",
    ),
)
def test_outputs_of_a_functional_model_keep_their_order(folder, name):
    case, model, _ = opened(folder, name)
    assert list(model.output) == case.about["output_keys"]


@pytest.mark.parametrize(
    "name", named("sequential_of_numbers", "sequential_of_features")
)
def test_a_sequential_of_features_takes_a_dict_in_any_order(folder, name):
    case, model, _ = opened(folder, name)
    x = dict(reversed(case.inputs().items()))
    found = model.predict(x, verbose=0)
    np.testing.assert_allclose(found, case.arrays("y_")[0], 1e-5, 1e-5)
