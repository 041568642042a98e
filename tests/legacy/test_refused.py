"""What tf.keras opens and this package once refused, written by write_refused.py."""

import json
import re
import shutil
import warnings

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError
from keras_policies.cli.main import main
from keras_policies.legacy.assembly import build

ARCHIVE = legacy_files.FOLDER / "refused.tar.xz"
layers = keras.layers
once = pytest.mark.once("no backend matters")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("refused"), [ARCHIVE])


def data(case):
    stored = dict(np.load(case / "data.npz"))
    return [stored[key] for key in sorted(stored) if key.startswith("x")], stored["y"]


def assert_predicts(model, case, inputs=None):
    x, y = data(case)
    found = model.predict_on_batch(inputs or (x if len(x) > 1 else x[0]))
    found = keras.tree.flatten(found)[0]
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)


def opened(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return keras_policies.load_model(path, **options)


@pytest.mark.parametrize(
    "name",
    [
        *("nested_list/model.h5", "nested_list/model.keras", "nested_list/saved_model"),
        *("nested_list_and_another/model.h5", "split_into_one/saved_model"),
        *("table_saved_twice/saved_model", "renorm/model.h5", "renorm/model.keras"),
        *("addons/model.h5", "addons/model.keras", "weight_normalization/model.h5"),
        *("quantized/model.h5", "quantized_in_a_row/model.h5"),
    ],
)
def test_a_model_that_was_refused_predicts(folder, name):
    assert_predicts(opened(folder / name), (folder / name).parent)


@once
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("weight_normalization", r"now trained with .* 'inner/weight_normalization"),
        (
            "quantized_in_a_row",
            r"ranges of quantization.* in 'quantize_layer', 'quant_r",
        ),
    ],
)
def test_what_a_wrapper_did_in_training_is_told(folder, name, told):
    with pytest.warns(UserWarning, match=told):
        keras_policies.load_model(folder / name / "model.h5")


@once
def test_a_layer_that_its_first_batch_would_scale_is_refused(folder):
    told = "'scaled' was never called: tf.keras scales it by its first batch"
    with pytest.raises(LegacyModelError, match=told):
        opened(folder / "never_called" / "model.h5")


@once
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Default8BitQuantizeConfig", "MyConfig", "'.*' is quantized by MyConfig"),
        ("AllValuesQuantizer", "Mine", "'quantize_layer' is quantized by Mine, expec"),
    ],
)
def test_quantization_by_other_code_is_refused(folder, tmp_path, old, new, told):
    def change(config):
        config.update(json.loads(json.dumps(config).replace(old, new)))

    source, path = folder / "quantized_in_a_row" / "model.h5", tmp_path / "model.h5"
    legacy_files.edited(source, path, "model_config", change)
    with pytest.raises(LegacyModelError, match=told):
        opened(path)


@once
def test_quantization_without_its_range_is_refused(folder, tmp_path):
    """Without it, the numbers would be those of a model that rounds nothing."""
    path = shutil.copy(folder / "quantized_in_a_row" / "model.h5", tmp_path)
    with h5py.File(path, "a") as file:
        attributes = file["model_weights/quantize_layer"].attrs
        names = attributes["weight_names"].tolist()
        attributes["weight_names"] = [x for x in names if not x.endswith("_min:0")]
        assert len(attributes["weight_names"]) == len(names) - 1
    told = "'quantize_layer' has no weight 'quantize_layer_min'"
    with pytest.raises(LegacyModelError, match=told):
        opened(path)


@once
def test_a_nested_dict_of_inputs_is_read_by_its_keys(folder):
    case = folder / "nested_dicts"
    (c, a, b), _ = data(case)
    model = opened(case / "model.h5")
    # In the order of the model: see `Functional` in docs/keras-faults.md.
    assert_predicts(model, case, {"z": {"b": b, "a": a}, "c": c})


def test_crossentropy_as_a_metric_is_that_of_the_loss(folder):
    case = folder / "weighted_crossentropy"
    model = opened(case / "model.keras")
    found = model.evaluate(data(case)[0][0], np.arange(4) % 3, verbose=0)
    np.testing.assert_allclose(found, np.load(case / "data.npz")["losses"], rtol=1e-5)


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_a_model_with_a_loss_of_one_output_trains_on_targets_of_that(folder, form):
    case = folder / "loss_of_one_output"
    model = opened(case / form)
    x = data(case)[0][0]
    (total, own) = np.load(case / "data.npz")["losses"]
    found = model.evaluate(x, {"p": x[:, :2]}, verbose=0)
    assert np.ravel(found)[0] == pytest.approx(total)
    assert total == own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the other gets no gradient
        model.fit(x, {"p": x[:, :2]}, verbose=0)


@once
@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("model.h5", "that of sequential/dense/kernel and 5 others, which are frozen"),
        ("model.keras", "the model trained 6 weights, and now 0"),
    ],
)
def test_state_of_frozen_weights_is_told(folder, form, told):
    with pytest.warns(UserWarning, match=f"the optimizer's state: {told}"):
        keras_policies.load_model(folder / "frozen_discriminator" / form)


@once
def test_iterations_may_be_a_float(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = keras_policies.load_model(folder / "iterations" / "model.h5")
    assert int(model.optimizer.iterations) == 1
    assert any(np.any(value.numpy()) for value in model.optimizer.variables[2:])


@once
def test_a_class_with_the_arguments_of_another_is_known_before_a_build(
    folder, monkeypatch
):
    monkeypatch.setattr(build, "build", lambda *args: pytest.fail("a model is built"))
    told = "Keras also has a layer MultiHeadAttention: .*={'MultiHeadAttention': "
    with pytest.raises(LegacyModelError, match=told):
        opened(folder / "another_multi_head_attention" / "model.h5")


@once
def test_layers_of_a_checkpoint_may_have_numbers_alone(folder):
    model = keras.Sequential(
        [
            layers.GaussianNoise(0.1),
            layers.GRU(3, return_sequences=True),
            layers.Dropout(0.2),
            layers.TimeDistributed(layers.Dense(1)),
        ]
    )
    x = data(folder / "late")[0][0]
    model(x)
    keras_policies.load_weights(model, folder / "late" / "late")
    assert_predicts(model, folder / "late")


def autoencoder():
    x = keras.Input((4,))
    parts = [layers.Dense(4, name=name)(x) for name in ("z_mean", "z_log_var")]
    encoder = keras.Model(x, parts, name="encoder")
    x = keras.Input((4,))
    return keras.Model(x, encoder(x)[0] - 3 * encoder(x)[1])


@once
@pytest.mark.parametrize("by_name", [False, True], ids=["by-order", "by-name"])
def test_a_name_with_a_number_behind_it_is_that_name(folder, by_name):
    model = autoencoder()
    file = folder / "rerun" / "weights.h5"
    keras_policies.load_weights(model, file, by_name=by_name)
    assert_predicts(model, folder / "rerun")


def nested(first="tanh"):
    x = keras.Input((4,))
    parts = layers.Dense(4, activation=first), layers.Dense(4)
    inner = keras.Model(x, parts[1](parts[0](x)), name="inner")
    x = keras.Input((4,))
    return keras.Model(x, inner(x))


@once
@pytest.mark.parametrize("frozen", [None, 1, 2], ids=["none", "first", "second"])
def test_automatic_numbers_tell_which_layer_was_frozen(folder, frozen):
    model = nested()
    file = folder / "numbered" / f"numbered_{frozen}.h5"
    keras_policies.load_weights(model, file)
    stored = dict(np.load(file.with_suffix(".npz")))
    np.testing.assert_allclose(model.predict_on_batch(stored["x0"]), stored["y"], 1e-5)


@once
def test_frozen_says_which_order_the_weights_have(folder):
    stored = dict(np.load(folder / "numbered" / "numbered_1.npz"))
    x = keras.Input((4,))
    parts = [layers.Dense(4, "tanh", name="one"), layers.Dense(4, name="two")]
    inner = keras.Model(x, parts[1](parts[0](x)), name="inner")
    x = keras.Input((4,))
    model = keras.Model(x, inner(x))
    file = folder / "numbered" / "numbered_1.h5"
    with pytest.raises(LegacyModelError, match=r"load_weights\(\.\.\., frozen="):
        keras_policies.load_weights(model, file)
    keras_policies.load_weights(model, file, frozen=["one"])
    np.testing.assert_allclose(model.predict_on_batch(stored["x0"]), stored["y"], 1e-5)
    keras_policies.load_weights(model, file, frozen=[])
    assert not np.allclose(model.predict_on_batch(stored["x0"]), stored["y"])
    with pytest.raises(ValueError, match="frozen must be names of layers"):
        keras_policies.load_weights(model, file, frozen=["three"])


SHAPES = {"x": (None, 6, 4)}


@pytest.mark.parametrize("name", ["loop_over_any_length", "loop_in_a_functional"])
def test_a_loop_over_any_length_has_rounds_for_a_given_length(folder, name):
    case = folder / name
    told = r"pass input_shapes=\{\"x\": \(None, 60, 3\)\} with its length"
    with pytest.raises(LegacyModelError, match=told):
        opened(case / "saved_model")
    model = opened(case / "saved_model", input_shapes=SHAPES)
    assert_predicts(model, case)
    assert model.input_shape == (None, 6, 4)


def test_an_input_of_any_rank_has_the_given_shape(folder):
    case = folder / "any_rank"
    with pytest.raises(LegacyModelError, match="of any rank, .* Pass its shape"):
        opened(case / "saved_model")
    model = opened(case / "saved_model", input_shapes={"x": (None, 4)})
    assert_predicts(model, case)


@once
@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        (
            {"x": (None, 6, 5)},
            r"\(None, 6, 5\), and the file has \(None, None, 4",
        ),
        ({"x": (None, 4)}, "only sizes that are None there can be given"),
        ({"x": (None, 6, 4), "z": (2,)}, r"has \['z'\]; the model's inputs are"),
    ],
    ids=["size", "rank", "name"],
)
def test_shapes_that_contradict_a_file_are_refused(folder, shapes, told):
    with pytest.raises(LegacyModelError, match=told):
        opened(folder / "loop_in_a_functional" / "saved_model", input_shapes=shapes)


@once
def test_shapes_must_be_shapes(folder):
    with pytest.raises(TypeError, match="input_shapes must be a dict of names"):
        opened(folder / "any_rank" / "saved_model", input_shapes={"x": 4})


@once
def test_the_command_takes_shapes(folder, tmp_path, capsys):
    source = str(folder / "any_rank" / "saved_model")
    target = str(tmp_path / "new.keras")
    command = ["convert", source, target, "--no-plain", "-q"]
    assert main([*command, "--input-shape", "x=None,4"]) == 0
    with pytest.raises(SystemExit):
        main([*command, "--overwrite", "--input-shape", "x=a"])
    assert "expected NAME=SIZES" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["ties/model.h5", "ties/model.keras", "ties_in_a_layer/saved_model"]
)
def test_a_step_at_ties_is_that_of_tensorflow(folder, name):
    case = folder / name
    model = opened(case)
    assert_predicts(model, case.parent)
    (x,), _ = data(case.parent)
    model.train_on_batch(x, np.ones((8, 1)))
    found = sorted(map(np.ravel, model.get_weights()), key=np.size)
    expected = np.load(case.parent / "data.npz")["losses"]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5, atol=1e-6)


@once
@pytest.mark.parametrize(
    "name", ["hub", "folded", "called_three_times", "2.4.4/hub", "2.4.4/folded"]
)
def test_batch_normalization_in_a_missing_class_trains(folder, name):
    case = folder / name
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = keras_policies.load_model(case / "saved_model")
    assert "in training was not all recognized" not in " ".join(
        str(each.message) for each in told
    )
    assert_predicts(model, case)
    (x,), _ = data(case)
    model.train_on_batch(x, np.ones((8, 1)))
    found = np.sort(np.concatenate([*map(np.ravel, model.get_weights())]))
    # FusedBatchNorm moves its variance to that of 72 numbers, divided by 71.
    expected = np.load(case / "data.npz")["losses"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@once
def test_a_variance_that_moves_to_that_of_no_call_is_told(folder):
    with pytest.warns(UserWarning, match="it assigned .*moving_variance"):
        model = keras_policies.load_model(folder / "spread" / "saved_model")
    assert_predicts(model, folder / "spread")


@once
def test_an_error_offers_the_signature_that_opens(folder):
    case = folder / "agent"
    told = (
        "(?s)Multinomial .*: it chooses by random numbers, which Keras draws in "
        "training only.* opens: pass signature='serving_default'"
    )
    with pytest.raises(LegacyModelError, match=told):
        opened(case / "saved_model")
    assert_predicts(opened(case / "saved_model", signature="serving_default"), case)


@once
@pytest.mark.parametrize("lost", ["rebuild", "numbers"])
def test_a_number_that_becomes_a_text_is_named(folder, lost):
    with pytest.raises(LegacyModelError) as raised:
        opened(folder / "number_to_text" / "saved_model", lost=lost)
    told = r"AsString \(layers '.*'\): it makes texts of numbers"
    assert re.search(told, raised.value.reason.split(". ")[0])


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="others have them")
def test_a_sparse_input_is_named(folder):
    with pytest.raises(LegacyModelError, match="sparse=True. is not supported"):
        opened(folder / "sparse_input" / "saved_model")
