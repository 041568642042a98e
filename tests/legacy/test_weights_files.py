"""`.weights.h5` files of TensorFlow 2.12 to 2.15, written by write_weights_files.py."""

import warnings

import h5py
import keras
import legacy_files
import numpy as np
import pytest
import weights_models

import keras_policies
from keras_policies import LegacyModelError, keras_internals

ARCHIVE = legacy_files.FOLDER / "weights_files.tar.xz"
RELEASES = "2.12.1", "2.13.1", "2.15.1"
layers, as_array = keras.layers, keras.ops.convert_to_numpy
pytestmark = pytest.mark.once("no backend matters")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("weights"), [ARCHIVE])


def written():
    """Return `release/seed` of the random models in the archive."""
    paths = {parts[1:3] for parts in legacy_files.parts_of(ARCHIVE) if len(parts) > 3}
    return sorted("/".join(path) for path in paths if path[1].isdecimal())


# Some random models have a layer that nothing calls, or none of whose outputs matters.
@pytest.mark.filterwarnings(
    "ignore:.build... was called on layer:UserWarning",
    "ignore:Gradients do not exist for variables:UserWarning",
)
@pytest.mark.parametrize("name", written())
def test_each_weight_goes_to_its_variable(folder, name):
    release, seed = name.split("/")
    number = int("".join(release.split(".")[:2]))
    keras.backend.clear_session()
    try:
        built = weights_models.Built(keras, int(seed), number)
    except (UserWarning, ValueError) as error:
        if legacy_files.is_for_transposes(error):
            return
        raise
    stored = dict(np.load(folder / name / "expected.npz"))
    has_state = any(path.startswith("m ") for path in stored)
    if has_state:
        built.train()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        keras_policies.load_weights(built.model, folder / name / "x.weights.h5")
    told = [str(each.message) for each in told if "x.weights.h5" in str(each.message)]
    found = {path: as_array(variable) for path, variable in built.variables()}
    stored = dict(stored)
    if has_state and any(map(is_in_code, keras_internals.sublayers(built.model))):
        assert "without these: the state of the optimizer: the file numbers" in told[0]
        stored = {path: stored[path] for path in found}
    else:
        assert told == []
    if any(path.startswith("m ") for path in stored):
        assert int(built.model.optimizer.iterations) == 1
        found |= {f"m {path}": value for path, value in built.momenta().items()}
    assert found.keys() == {*stored}
    for path, value in found.items():
        np.testing.assert_allclose(value, stored[path].reshape(value.shape), rtol=1e-6)


def is_in_code(layer):
    """Return whether a layer's class is not Keras's, so that its order is not sure."""
    return not type(layer).__module__.startswith("keras.")


def plain():
    inputs = keras.Input((4, 4))
    x = layers.LayerNormalization(axis=1)(layers.Dense(4, activation="relu")(inputs))
    x = layers.Bidirectional(layers.LSTM(2, return_sequences=True))(x)
    x = layers.LayerNormalization()(layers.Dense(4)(x) + x)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


@pytest.mark.parametrize("release", RELEASES)
def test_an_architecture_opens_with_its_weights(folder, release):
    case = folder / release / "plain"
    weights, data = case / "x.weights.h5", dict(np.load(case / "expected.npz"))
    model = keras_policies.load_model(case / "model.json", weights=weights)
    np.testing.assert_allclose(
        model.predict_on_batch(data["x"]), data["y"], rtol=1e-4, atol=1e-5
    )


def test_an_optimizer_with_other_slots_starts_anew_and_is_told(folder):
    model = plain()
    model.compile("rmsprop", "mse")
    case = folder / "2.15.1" / "plain"
    weights = case / "x.weights.h5"
    with pytest.warns(UserWarning, match="the state of the optimizer"):
        keras_policies.load_weights(model, weights)
    # Not the outputs: plain Keras on torch normalizes the last axis (keras-faults.md).
    right = keras_policies.load_model(case / "model.json", weights=weights)
    assert len(model.weights) == len(right.weights) == 16
    for found, expected in zip(model.weights, right.weights, strict=True):
        np.testing.assert_array_equal(as_array(found), as_array(expected))


def test_a_count_of_slots_that_no_optimizer_has_is_told(folder):
    model = plain()
    model.compile(keras.optimizers.Ftrl(use_ema=True), "mse")
    file = folder / "2.15.1" / "plain" / "x.weights.h5"
    with pytest.warns(UserWarning, match="its 33 variables are not those of Ftrl"):
        keras_policies.load_weights(model, file)


@pytest.mark.parametrize("release", RELEASES)
def test_a_layer_that_the_model_does_not_have_is_named(folder, release):
    file = folder / release / "plain" / "x.weights.h5"
    inputs = keras.Input((4, 4))
    x = layers.LayerNormalization(axis=1)(layers.Dense(4)(inputs))
    model = keras.Model(inputs, x)
    with pytest.raises(LegacyModelError, match="weights of 5 layers that are not in"):
        keras_policies.load_weights(model, file)
    with pytest.warns(UserWarning, match="loaded, without these: .*bidirectional"):
        keras_policies.load_weights(model, file, skip_mismatch=True)


def test_a_file_without_names_cannot_be_loaded_by_name(folder):
    file = folder / "2.15.1" / "plain" / "x.weights.h5"
    with pytest.raises(LegacyModelError, match="it has no names of layers"):
        keras_policies.load_weights(plain(), file, by_name=True)


def test_a_shape_that_differs_is_told_with_both_shapes(folder):
    file = folder / "2.15.1" / "plain" / "x.weights.h5"
    model = plain()
    inner = keras.Model(model.inputs, layers.Dense(3)(model.layers[-2].output))
    with pytest.raises(LegacyModelError, match=r"the shape \(16, 3\), the file's"):
        keras_policies.load_weights(inner, file)


def test_a_weights_file_is_no_model(folder):
    file = folder / "2.13.1" / "plain" / "x.weights.h5"
    with pytest.raises(LegacyModelError, match="it has weights, but no model"):
        keras_policies.inspect_model(file)


def test_two_rules_that_both_fit_must_agree(folder, tmp_path):
    """2.12 counts a layer that is already stored, 2.14 does not: here, no matter."""

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.b = [layers.Dense(4), layers.Dense(4)], [layers.Dense(4)]
            self.b.append(self.a[0])

        def call(self, x):
            return self.a[1](self.b[0](self.a[0](x)))

    model = Net()
    model(np.zeros((1, 4)))
    paths = "a/dense", "a/dense_1", "b/dense"
    with h5py.File(tmp_path / "x.weights.h5", "w") as file:
        file.create_group("vars")
        for number, path in enumerate(paths):
            group = file.create_group(f"{path}/vars")
            group["0"] = np.full((4, 4), float(number), "float32")
            group["1"] = np.full(4, float(number), "float32")
    keras_policies.load_weights(model, tmp_path / "x.weights.h5")
    assert [float(as_array(layer.bias)[0]) for layer in (*model.a, model.b[0])] == [
        0,
        1,
        2,
    ]
