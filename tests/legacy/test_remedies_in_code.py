"""Follows the advice to build a model in code, or to pass own objects to one."""

import json
import sys
import warnings
import zipfile

import h5py
import keras
import legacy_files
import numpy as np
import pytest
from keras import layers

from keras_policies import LegacyModelError, load_model, load_weights

ARCHIVE = legacy_files.CORPUS / "2.15.1" / "seq_dense" / "model.keras"
CHOSEN = {
    "configs": tuple(
        f"2.15.1/{name}"
        for name in ("conv1d_twice", "ragged_constant", "locally_connected_channels")
    ),
    "suite": ("suite/in_both",),
    "layers/2.15.1": ("2.15.1/SimpleRNN-held-float32",),
}
pytestmark = pytest.mark.once("advice is the same on each backend")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in_code")
    for archive, names in CHOSEN.items():
        legacy_files.unpacked_models(folder, archive, names)
    return folder


def refused(advice, path, *args, **options):
    """Open a path, which has to end in an error with this advice; return the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(LegacyModelError, match=advice) as caught:
            load_model(path, *args, **options)
    return caught.value


def agrees(model, path):
    """Return whether a model computes what TensorFlow recorded beside a file."""
    stored = dict(np.load(path.parent / "expected.npz"))
    x, y = ([stored[n] for n in stored if n.startswith(c)] for c in "xy")
    found = keras.tree.flatten(model(x if len(x) > 1 else x[0]))
    pairs = zip(map(keras.ops.convert_to_numpy, found), y, strict=True)
    return all(np.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in pairs)


def written(path, layers, weights, shape):
    """Write an H5 file of a Sequential of `(class, config)`; return its path.

    The weights are `{layer: {name: array}}`.
    """
    first = {"batch_input_shape": [None, *shape], "dtype": "float32", "name": "x"}
    configs = [("InputLayer", first), *layers]
    inner = [{"class_name": name, "config": config} for name, config in configs]
    config = {"name": "model", "layers": inner}
    with h5py.File(path, "w") as file:
        whole = {"class_name": "Sequential", "config": config}
        file.attrs["model_config"] = json.dumps(whole)
        file.attrs["keras_version"], file.attrs["backend"] = "2.15.0", "tensorflow"
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [config["name"] for _, config in configs]
        group.attrs["keras_version"], group.attrs["backend"] = "2.15.0", "tensorflow"
        for _, config in configs:
            arrays = weights.get(config["name"], {})
            own = group.create_group(config["name"])
            own.attrs["weight_names"] = [*arrays] or np.zeros(0)
            for name, array in arrays.items():
                own[name] = array
    return path


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_a_layer_for_two_ranks_is_called_in_code_on_one(folder, form):
    path = folder / "2.15.1" / "conv1d_twice" / form
    refused("tensors of different ranks.* Build the model in code, and call", path)
    conv = layers.Conv1D(2, 2, name="conv")
    x, y = keras.Input((5, 3)), keras.Input((4, 5, 3))
    rows = conv(keras.ops.reshape(y, (-1, 5, 3)))
    model = keras.Model([x, y], [conv(x), keras.ops.reshape(rows, (-1, 4, 4, 2))])
    load_weights(model, path)
    assert agrees(model, path)


def test_a_layer_that_is_in_two_models_is_built_in_code(folder):
    path = folder / "suite" / "in_both" / "model.h5"
    refused("which is not a layer of this model.* Build the model in code, and", path)
    shared = layers.Dense(4, name="shared")
    x, y = keras.Input((4,)), keras.Input((4,))
    inner = keras.Model(x, shared(x), name="inner")
    model = keras.Model(y, inner(shared(y)))
    load_weights(model, path)
    assert agrees(model, path)


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_a_ragged_constant_is_padded_in_code(folder, form):
    path = folder / "2.15.1" / "ragged_constant" / form
    refused("Build the model in code, with that padded, and call load_weights", path)
    x = keras.Input((4,))
    rows = np.array([[1.0, 0.0], [2.0, 3.0]], "float32")
    model = keras.Model(x, keras.ops.multiply(rows, keras.ops.sum(x)))
    load_weights(model, path)
    found = keras.ops.convert_to_numpy(model(np.ones((1, 4), "float32")))
    assert found.tolist() == [[4.0, 0.0], [8.0, 12.0]]
    other = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    with pytest.raises(LegacyModelError, match="the weights do not fit the model"):
        load_weights(other, path)  # which has none


def test_a_model_without_weights_is_called_as_advised():
    kernel = load_model(ARCHIVE, compile=False).layers[0].kernel
    model = load_model(ARCHIVE, compile=False)
    new = keras.Sequential([keras.layers.deserialize(x) for x in configs(model)])
    with pytest.raises(LegacyModelError, match="Call it on a batch, or model.build"):
        load_weights(new, ARCHIVE)
    new(np.ones((1, kernel.shape[0]), "float32"))
    load_weights(new, ARCHIVE)
    found, expected = map(keras.ops.convert_to_numpy, (new.layers[0].kernel, kernel))
    assert found.tolist() == expected.tolist()


def configs(model):
    """Return the layers of a model as configs, without their shapes."""
    layers = [keras.layers.serialize(layer) for layer in model.layers]
    return [{k: v for k, v in each.items() if k != "build_config"} for each in layers]


class LocallyConnected1D(layers.Layer):
    """Windows of one column of (channels, columns); a softmax over columns."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(4, 3, 2), name="kernel")
        self.bias = self.add_weight(shape=(4, 2), name="bias")

    def call(self, x):
        y = keras.ops.einsum("bcl,lcf->bfl", x, self.kernel)
        return keras.ops.softmax(y + keras.ops.transpose(self.bias))


def test_a_softmax_over_an_axis_of_images_is_built_in_code(tmp_path):
    kernel = np.arange(24, dtype="float32").reshape(4, 3, 2)
    config = {
        **{"name": "local", "filters": 2, "kernel_size": [1], "strides": [1]},
        **{"padding": "valid", "data_format": "channels_first", "use_bias": True},
        **{"activation": "softmax", "implementation": 1},
    }
    weights = {"local/kernel:0": kernel, "local/bias:0": np.ones((4, 2), "float32")}
    path = written(
        tmp_path / "model.h5",
        [("LocallyConnected1D", config)],
        {"local": weights},
        (3, 4),
    )
    refused("softmax over an axis.* Build the model in code, and call load", path)
    model = keras.Sequential([keras.Input((3, 4)), LocallyConnected1D(name="local")])
    load_weights(model, path)
    assert model.get_weights()[0].tolist() == kernel.tolist()
    assert model(np.ones((2, 3, 4), "float32")).shape == (2, 2, 4)


def test_weights_that_are_also_elsewhere_are_assigned_by_hand(tmp_path):
    path, weights = tmp_path / "model.keras", tmp_path / "weights.h5"
    with zipfile.ZipFile(ARCHIVE) as old, zipfile.ZipFile(path, "w") as new:
        weights.write_bytes(old.read("model.weights.h5"))
        with h5py.File(weights, "a") as file:
            file.copy("layers/dense", "layers/dense_3")
        new.writestr("config.json", old.read("config.json"))
        new.writestr("metadata.json", old.read("metadata.json"))
        new.write(weights, "model.weights.h5")
    refused("weights of 4: .* assign what h5py finds in the file", path)
    shape = load_model(ARCHIVE, compile=False).layers[0].kernel.shape
    model = keras.Sequential([keras.Input(shape[:1]), layers.Dense(shape[1])])
    with zipfile.ZipFile(path) as archive, archive.open("model.weights.h5") as file:
        found = h5py.File(file)["layers/dense/vars"]
        model.set_weights([found["0"][()], found["1"][()]])
    assert model(np.ones((2, shape[0]), "float32")).shape == (2, shape[1])


def test_an_architecture_in_yaml_is_written_as_json(tmp_path, monkeypatch):
    inner = [
        {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 3]}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 2}},
    ]
    config = {"name": "model", "layers": inner}
    path, model = (
        tmp_path / "model.yaml",
        {"class_name": "Sequential", "config": config},
    )
    path.write_text("class_name: !!python/object:os.system Sequential\n")
    refused(r"it is not read. Write the model as JSON \(model.to_json\(\)\)", path)
    path.write_text("class_name: Sequential\n")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "yaml", None)
        refused("Run pip install pyyaml, or write the model as JSON", path)
    path.with_suffix(".json").write_text(json.dumps(model))
    with pytest.warns(UserWarning, match="all weights are new"):
        model = load_model(path.with_suffix(".json"))
    assert model(np.ones((4, 3), "float32")).shape == (4, 2)


class Doubled(keras.regularizers.L2):
    """A regularizer of a user, which the file has under the name of Keras's."""

    def __call__(self, x):
        return 2 * super().__call__(x)


def test_a_regularizer_is_passed_under_the_name_in_the_error(folder):
    path = folder / "2.15.1" / "SimpleRNN-held-float32" / "saved_model"
    told = r"its Doubled gives '.*' the loss .* Pass its regularizer \(custom_objects\)"
    error = refused(told, path, {"L2": Doubled})
    assert error.code == "KP501"
    assert "verify=False opens it as it is" in error.hint
    for chosen, options in (Doubled, {"verify": False}), (keras.regularizers.L2, {}):
        model = load_model(path, {"L2": chosen}, **options)
        x = np.ones((2, *model.input_shape[1:]), "float32")
        assert np.isfinite(keras.ops.convert_to_numpy(model(x))).all()
