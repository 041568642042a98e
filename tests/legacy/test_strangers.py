"""Models as people's files have them, written by write_strangers.py."""

import pathlib
import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "strangers.tar.xz"
FORMS = "model.h5", "saved_model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("strangers"), [ARCHIVE])


@pytest.fixture
def of(folder):
    """A function that returns the folder of a case."""
    return lambda name: next(folder.glob(f"*/{name}"))


def opened(path, **options):
    """Open a model; any warning is an error, except the true one about batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", ".*so that batch normalization takes the st")
        return keras_policies.load_model(path, compile=False, **options)


def batches(case: pathlib.Path):
    """Return `[(inputs, outputs)]`, as tf.keras recorded them."""
    stored = dict(np.load(case / "data.npz"))
    numbers = range(len({key.split("_")[0] for key in stored if key[0] == "x"}))
    return [
        [
            [stored[key] for key in sorted(stored) if key.startswith(f"{kind}{n}_")]
            for kind in "xy"
        ]
        for n in numbers
    ]


def assert_predicts(model, case):
    """Check that a model predicts what tf.keras did."""
    for inputs, outputs in batches(case):
        found = model.predict_on_batch(inputs if len(inputs) > 1 else inputs[0])
        for one, other in zip(keras.tree.flatten(found), outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# The batches have 1, 5, 7 and 12 rows.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name",
    [
        *("two_parts", "three_parts", "four_parts", "three_parts_of_two_inputs"),
        "four_parts_of_a_sequential",
    ],
)
def test_a_model_on_several_devices_becomes_the_model_on_one(of, name, form):
    case = of(name)
    model = opened(case / form)
    assert_predicts(model, case)
    kinds = {type(layer) for layer in model.layers}
    assert kinds <= {
        *(keras.layers.InputLayer, keras.layers.Activation),
        *(keras.Sequential, keras.models.Model, type(model)),
    }


@pytest.mark.once("no backend matters")
def test_parts_of_a_batch_are_not_joined_where_a_layer_looks_at_other_rows(of):
    path = of("three_parts_of_a_mean_over_the_batch") / "model.h5"
    with pytest.raises(LegacyModelError, match="which subtracts a size"):
        opened(path)


def test_a_model_that_is_called_by_other_keys_takes_them_in_order(of):
    case = of("called_by_other_keys")
    assert_predicts(opened(case / "model.h5"), case)


@pytest.mark.parametrize(
    "name",
    [
        *("lambda_of_a_function_of_tensorflow", "lambda_of_a_field"),
        *("lambda_of_a_dispatched_function", "lambda_of_a_generated_function"),
    ],
)
def test_a_lambda_layer_opens(of, name):
    case = of(name)
    assert_predicts(opened(case / "model.h5"), case)


@pytest.mark.parametrize(
    "policy",
    [
        "float32",
        "mixed_bfloat16",
        keras.DTypePolicy("float32"),
        keras_policies.Policy("mixed_float16", loss_scale=8.0),
        keras.dtype_policies.DTypePolicyMap(default_policy="float32"),
    ],
    ids=["name", "mixed", "object", "loss-scale", "map"],
)
@pytest.mark.parametrize(
    "name", ["mixed_activations/model.h5", "mixed_lost_layer/saved_model"]
)
def test_a_model_with_another_policy_can_be_saved_and_cloned(
    of, tmp_path, name, policy
):
    """Keras raised NotImplementedError for some (tensorflow/similarity#303)."""
    case, form = name.split("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = keras_policies.load_model(
            of(case) / form, dtype_policy=policy, compile=False
        )
    keras.models.clone_model(model)
    model.save(tmp_path / "new.keras")
    again = keras.models.load_model(tmp_path / "new.keras", compile=False)
    ((inputs, outputs),) = batches(of(case))
    found = keras.ops.convert_to_numpy(model(inputs[0]))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again(inputs[0])), found)
    np.testing.assert_allclose(found, outputs[0], atol=0.05 * abs(outputs[0]).max())


@pytest.mark.parametrize("form", FORMS)
def test_a_metric_that_is_in_no_list_is_the_model_s(of, form):
    case = of("metric_alone")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = keras_policies.load_model(case / form)
    assert_predicts(model, case)
    assert int(model.optimizer.iterations) == 1
    (((x,), (y,)),) = batches(case)
    found = model.evaluate(x, np.ones_like(y), verbose=0, return_dict=True)
    assert found["found"] == pytest.approx(np.mean(y > 0.5))


def test_a_policy_that_draws_names_its_greedy_signature(of):
    case = of("policy")
    told = (
        "model's own function: calls Less .* a choice by random numbers.* "
        "Pass signature='greedy' to open another function of the file"
    )
    with pytest.raises(LegacyModelError, match=told):
        opened(case / "saved_model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = keras_policies.load_model(case / "saved_model", signature="greedy")
    assert_predicts(model, case)


def test_a_function_that_was_saved_by_itself_opens(of):
    case = of("function")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = keras_policies.load_model(case / "saved_model")
    assert_predicts(model, case)


@pytest.mark.parametrize(
    "name",
    [
        *("dense_without_its_sigmoid", "recurrent_without_its_relu"),
        *(
            pytest.param(name, marks=legacy_files.needs_transposes)
            for name in (
                "decoder_without_its_sigmoid",
                "newer_decoder_without_its_sigmoid",
            )
        ),
    ],
)
def test_a_config_that_its_own_graph_contradicts_is_not_believed(of, name):
    case = of(name)
    message = "graph computes something else than the configs of these layers"
    with pytest.warns(UserWarning, match=message):
        model = keras_policies.load_model(case / "saved_model", compile=False)
    assert_predicts(model, case)
    other = opened(case / "saved_model", verify=False)
    with pytest.raises(AssertionError):
        assert_predicts(other, case)
