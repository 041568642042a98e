"""Files of Keras 1.2.2 open: written by `write_keras_1.py`."""

import json

import h5py
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import load_model
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.readers import keras_1

# Keras 1 names the variables of an optimizer by numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*the optimizer's state")
ARCHIVE = legacy_files.FOLDER / "keras_1.tar.xz"
NAMES = "channels_first", "convolutions", "more_convolutions", "nested", "sequences"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("keras_1"), [ARCHIVE])


@pytest.mark.each_backend("layouts of convolutions")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_keras_1_predicts_what_it_did(folder, name):
    stored = dict(np.load(folder / f"{name}.npz"))
    model = load_model(folder / f"{name}.h5")
    if name == "channels_first" and keras.backend.backend() == "tensorflow":
        # TensorFlow's own kernels have this layout on some processors only; XLA on all
        model.compile(jit_compile=True)
    found = model.predict(stored["x"], verbose=0)
    np.testing.assert_allclose(found, stored["y"], rtol=1e-5, atol=1e-5)


def test_arguments_of_keras_1_keep_their_meaning(folder):
    model = load_model(folder / "convolutions.h5")
    first, second = (x for x in model.layers if isinstance(x, keras.layers.Conv2D))
    assert (first.filters, first.kernel_size, first.strides) == (4, (3, 2), (2, 1))
    assert float(first.kernel_regularizer.l2) == pytest.approx(0.01)
    assert (second.padding, second.use_bias) == ("same", False)
    assert type(second.kernel_initializer).__name__ == "HeNormal"
    (dropout,) = (x for x in model.layers if isinstance(x, keras.layers.Dropout))
    assert dropout.rate == 0.3
    assert type(model.optimizer).__name__ == "Adam"
    assert model.loss == "mse"


def test_a_constraint_of_keras_1_keeps_its_norm(folder):
    layer = load_model(folder / "channels_first.h5").get_layer("convolution2d_4")
    assert layer.kernel_constraint.max_value == 2
    assert layer.data_format == "channels_first"


def edited(folder, tmp_path, edit):
    """Return a copy of a file with the layers of its config edited."""
    path = tmp_path / "model.h5"
    path.write_bytes((folder / "more_convolutions.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        edit({layer["name"]: layer["config"] for layer in config["config"]["layers"]})
        file.attrs["model_config"] = json.dumps(config)
    return path


def test_a_merge_by_a_function_is_refused(folder, tmp_path):
    path = edited(folder, tmp_path, lambda layers: layers["merge_1"].update(mode="cos"))
    with pytest.raises(LegacyModelError, match="'merge_1'.*Merge, with the mode 'cos'"):
        load_model(path)


def test_statistics_of_each_batch_are_refused():
    layer = {"class_name": "BatchNormalization", "config": {"name": "b", "mode": 2}}
    with pytest.raises(LegacyModelError, match="normalizes in the mode 2, which Keras"):
        keras_1.as_keras_2({"class_name": "Sequential", "config": [layer]}, {})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(None, True, id="none"),
        pytest.param("1.2.2", True, id="keras-1"),
        pytest.param("2.0.0", False, id="keras-2"),
        pytest.param("2.2.4-tf", False, id="tf-keras"),
    ],
)
def test_the_version_tells_files_of_keras_1(version, expected):
    assert keras_1.is_written_by(version) is expected


@pytest.mark.once("no backend matters")
@pytest.mark.parametrize("version", ["1.0.8", "1.2.2"])
def test_a_line_of_one_channel_has_the_layout_of_its_release(tmp_path, version):
    """Keras 1.0 wrote kernels as (filters, channels, length, 1)."""
    kernel = np.arange(6, dtype="float32").reshape(3, 1, 2)
    config = {"nb_filter": 2, "filter_length": 3, "border_mode": "valid", "name": "c"}
    config |= {"batch_input_shape": [None, 5, 1], "activation": "linear"}
    layer = {"class_name": "Convolution1D", "config": config}
    with h5py.File(tmp_path / "model.h5", "w") as file:
        model = {"class_name": "Sequential", "config": [layer]}
        file.attrs["model_config"] = json.dumps(model)
        file.attrs["keras_version"] = version
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"c"]
        group = weights.create_group("c")
        group.attrs["weight_names"] = [b"c_W", b"c_b"]
        is_old = version == "1.0.8"
        group["c_W"] = kernel.T[..., None] if is_old else kernel[:, None]
        group["c_b"] = np.zeros(2, "float32")
    x = np.float32([1, 0, 0, 0, 2]).reshape(1, 5, 1)
    found = load_model(tmp_path / "model.h5").predict(x, verbose=0)
    np.testing.assert_array_equal(found, [[[0, 1], [0, 0], [8, 10]]])
