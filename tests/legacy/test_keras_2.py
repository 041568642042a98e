"""Files of Keras 2.0 to 2.3, no part of TensorFlow: written by `write_keras_2.py`."""

import json
import re
import warnings

import h5py
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import (
    LegacyModelError,
    keras_internals,
    load_model,
    load_weights,
)

ARCHIVE = legacy_files.FOLDER / "keras_2.tar.xz"
NAMES = (
    *("adadelta", "adagrad", "adam", "adamax", "amsgrad", "frozen", "nadam"),
    *("plain_sgd", "recurrent", "rmsprop", "sgd"),
)
CASES = [
    f"{release}/{name}"
    for release in ("2.1.2", "2.2.4", "2.3.1")
    for name in NAMES
    if (release, name) != ("2.1.2", "amsgrad")
]
# Those of the other releases race: a layer's gradient may see the weights after it, and
# so did Adam, Adamax and Nadam of 2.3.1 with the count of iterations.
EXACT = "adadelta", "adagrad", "frozen", "plain_sgd", "rmsprop", "sgd"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("keras_2"), [ARCHIVE])


def opened(path):
    """Return the model of a file, and what was recorded beside it, by kind."""
    stored = dict(np.load(path.with_suffix(".npz")))
    recorded = {
        kind: [stored[n] for n in stored if re.fullmatch(rf"{kind}_\d+", n)]
        for kind in "xow"
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="(?s).*schedule of Nadam")
        model = load_model(path)
    if len(model.inputs) == 1:
        (recorded["x"],) = recorded["x"]
    return model, {**stored, **recorded}


def variable(model, name):
    """Return the variable with a name of Keras 2, such as `dense/kernel:0`."""
    layer, weight = name.removesuffix(":0").split("/")
    return next(v for v in model.get_layer(layer).weights if v.name == weight)


@pytest.mark.parametrize("case", CASES)
def test_a_file_predicts_what_it_did(folder, case):
    model, recorded = opened(folder / f"{case}.h5")
    found = model.predict(recorded["x"], verbose=0)
    np.testing.assert_allclose(found, recorded["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [case for case in CASES if "recurrent" not in case])
def test_the_numbered_slots_are_those_of_their_variables(folder, case):
    model, recorded = opened(folder / f"{case}.h5")
    # Without amsgrad, Adam has a vhat of the shape (1,) for each weight.
    arrays = [value for value in recorded["o"] if value.shape not in ((), (1,))]
    trained = recorded["trained"]
    assert {variable(model, name).path for name in trained} == {
        own.path for own in model.trainable_variables
    }
    kinds = keras_internals.slot_names(model.optimizer)
    every = [keras_internals.slots(model.optimizer, kind) for kind in kinds]
    for number, name in enumerate(trained):
        own = id(variable(model, name))
        found = [of_kind[own] for of_kind in every if of_kind.get(own) is not None]
        slots = {id(slot): slot for slot in found}  # some have two names
        values = [] if "plain" in case else arrays[number :: len(trained)]
        for slot, value in zip(slots.values(), values, strict=True):
            np.testing.assert_array_equal(slot.numpy(), value, err_msg=slot.path)
    written = recorded["o"][0] if not recorded["o"][0].ndim else 0
    assert int(model.optimizer.iterations) == written


@pytest.mark.parametrize("name", EXACT)
def test_the_next_step_is_that_of_keras_2(folder, name):
    model, recorded = opened(folder / f"2.3.1/{name}.h5")
    before = [np.array(variable(model, one)) for one in recorded["trained"]]
    model.train_on_batch(recorded["x"], recorded["target"])
    for one, old, new in zip(recorded["trained"], before, recorded["w"], strict=True):
        moved = np.abs(new - old).max()
        assert moved > 0
        error = np.abs(np.array(variable(model, one)) - new).max()
        assert error <= 0.01 * moved, one


def edited(folder, tmp_path, case, edit):
    path = tmp_path / "model.h5"
    path.write_bytes((folder / f"{case}.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        edit(file)
    return path


def without_last_slot(file):
    names = file["optimizer_weights"].attrs["weight_names"]
    file["optimizer_weights"].attrs["weight_names"] = names[:-1]


def with_more_trained(file):
    config = json.loads(file.attrs["model_config"])
    for layer in config["config"]["layers"]:
        layer["config"]["trainable"] = True
    file.attrs["model_config"] = json.dumps(config)


@pytest.mark.parametrize(
    ("case", "edit"), [("sgd", without_last_slot), ("frozen", with_more_trained)]
)
def test_slots_that_do_not_fit_the_weights_start_anew(folder, tmp_path, case, edit):
    path = edited(folder, tmp_path, f"2.2.4/{case}", edit)
    with pytest.warns(UserWarning, match="the optimizer's state.*no value for"):
        model = load_model(path)
    assert int(model.optimizer.iterations) == 0


def test_a_cell_without_settings_is_refused_and_its_weights_go_into_code(folder):
    path = folder / "2.1.2/cell.h5"
    with pytest.raises(LegacyModelError, match="gru_cell_1': .*2.1.2 did not record"):
        load_model(path)
    rnn = keras.layers.RNN(
        keras.layers.GRUCell(3, recurrent_activation=hard_sigmoid, reset_after=False),
        name="rnn_1",
    )
    model = keras.Sequential([keras.Input((5, 4)), rnn, keras.layers.Dense(2)])
    load_weights(model, path)
    stored = dict(np.load(path.with_suffix(".npz")))
    found = model.predict(stored["x_0"], verbose=0)
    np.testing.assert_allclose(found, stored["y"], rtol=1e-5, atol=1e-6)


def hard_sigmoid(x):
    return keras.ops.clip(0.2 * x + 0.5, 0, 1)
