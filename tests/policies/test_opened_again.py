"""Models that are saved, copied and opened again keep their loss scale and state."""

import copy
import pickle

import keras
import numpy as np
import pytest

import keras_policies as mp
from keras_policies.legacy import keras_files

BACKEND = keras.backend.backend()
X = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
Y = X[:, :1] * 2


@keras.saving.register_keras_serializable("tests")
class OwnFromConfig(keras.Model):
    """As the tasks and backbones of keras-hub."""

    def __init__(self, units=4, dtype=None, **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        self.units, self.dense = units, keras.layers.Dense(1, dtype="float32")

    def call(self, x):
        return self.dense(x)

    def get_config(self):
        dtype = keras.saving.serialize_keras_object(self.dtype_policy)
        return {"units": self.units, "dtype": dtype}

    @classmethod
    def from_config(cls, config):
        dtype = keras.saving.deserialize_keras_object(config["dtype"])
        return cls(**{**config, "dtype": dtype})


def through_file(model, folder):
    model.save(folder / "m.keras")
    return mp.load_model(folder / "m.keras")


def through_keras(model, folder):
    model.save(folder / "m.keras")
    return keras.saving.load_model(folder / "m.keras")


def through_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


def through_deepcopy(model, folder):
    return copy.deepcopy(model)


@pytest.mark.parametrize(
    "way",
    [through_file, through_keras, through_pickle, through_deepcopy],
    ids=lambda way: way.__name__,
)
def test_a_scale_survives_a_class_with_a_from_config_of_its_own(way, tmp_path):
    mp.set_policy(mp.Policy("mixed_float16", 1024))
    model = OwnFromConfig()
    model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    again = way(model, tmp_path)
    assert again.optimizer.rule == mp.FixedLossScale(1024)
    again.fit(X, Y, verbose=0)
    assert float(again.optimizer.loss_scale) == 1024.0


@pytest.mark.parametrize("policy", ["mixed_float16", "float32"])
def test_a_model_saved_before_its_first_step_has_lost_nothing(policy, tmp_path):
    mp.set_policy(policy)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.learning_rate = 0.125
    model.save(tmp_path / "m.keras")
    again = mp.load_model(tmp_path / "m.keras")  # a warning is an error
    assert float(again.optimizer.learning_rate) == 0.125


def test_an_orbax_state_is_restored_where_its_paths_begin_with_the_models_name():
    layers = [keras.Input((2,)), keras.layers.Dense(1, name="d")]
    config = keras.Sequential(layers, name="m").get_config()
    model = keras.Sequential.from_config(config)
    kernel, bias = np.array([[1.0], [2.0]]), np.array([3.0])
    variables = {"m": {"d": {"kernel": kernel, "bias": bias}}}
    stock = keras.Model.set_state_tree
    keras_files._restore(stock, model, {"trainable_variables": variables})
    assert model.get_weights()[0].tolist() == [[1.0], [2.0]]
    del variables["m"]["d"]["bias"]
    variables["m"]["e"] = {"bias": bias}
    with pytest.raises(mp.LegacyModelError, match="1 weights.*'e/bias'"):
        keras_files._restore(stock, model, {"trainable_variables": variables})


@pytest.mark.slow("writes with Orbax, which needs jax", weekly=True)
@pytest.mark.filterwarnings("ignore:Sharding info not provided:UserWarning")
@pytest.mark.skipif(BACKEND == "tensorflow", reason="Orbax restores arrays of jax")
def test_an_orbax_folder_opens_with_its_weights(tmp_path):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = keras.callbacks.OrbaxCheckpoint(
        str(tmp_path), save_freq="epoch", save_weights_only=False
    )
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[callback])
    again = mp.load_model(tmp_path)
    assert again.get_weights()[0].tolist() == model.get_weights()[0].tolist()
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
