"""Checkpoints beside their code, written by write_checkpoints.py.

A model is built in code, as its user would, and compiled as it was.
"""

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError

ARCHIVE = legacy_files.FOLDER / "checkpoints.tar.xz"
RELEASES = "2.4.4", "2.15.1"


class Task(keras.layers.Layer):
    """A layer with a metric in it, as write_checkpoints.py has it."""

    def __init__(self):
        super().__init__()
        self.mean = keras.metrics.Mean(name="mean")

    def call(self, inputs):
        return inputs


class Net(keras.Model):
    """The model of write_checkpoints.py, without the optimizer in it."""

    def __init__(self, units=3, use_bias=True):
        super().__init__()
        self.first = keras.layers.Dense(units, activation="tanh")
        self.last = keras.layers.Dense(2, use_bias=use_bias)
        self.task = Task()
        self.seen = self.add_weight(name="seen", shape=(), trainable=False)

    def call(self, inputs):
        return self.task(self.last(self.first(inputs)))


def net(*options):
    model = Net(*options)
    model(np.zeros((1, 4), "float32"))
    return model


def sequential(dtype="float32"):
    first = keras.layers.Dense(3, activation="tanh", dtype=dtype)
    return keras.Sequential([keras.Input((4,)), first, keras.layers.Dense(2)])


def scaled():
    return keras_policies.LossScaleOptimizer(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras_policies.DynamicLossScale(1024.0, 2),
    )


# Case -> the model, and the optimizer that it was compiled with.
CASES = {
    "net": (net, lambda: keras.optimizers.Adam(0.05)),
    "scaled": (lambda: sequential("mixed_float16"), scaled),
    "tracked": (sequential, lambda: keras.optimizers.Adam(0.05)),
    "tracked_net": (net, lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("checkpoints"), [ARCHIVE])


def load(model, case, is_net):
    if not is_net:
        keras_policies.load_weights(model, case / "checkpoint")
        return
    with pytest.warns(UserWarning, match="which is no weight of 'net"):
        keras_policies.load_weights(model, case / "checkpoint")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CASES)
def test_a_compiled_model_goes_on_training_as_it_would_have(release, name, folder):
    make, optimizer = CASES[name]
    model, tolerance = make(), 5e-3 if name == "scaled" else 1e-5
    model.compile(optimizer(), "mse")
    load(model, folder / release / name, "net" in name)
    with np.load(folder / release / name / "expected.npz") as stored:
        found = model.predict(stored["x"], verbose=0)
        np.testing.assert_allclose(found, stored["y"], tolerance, tolerance)
        assert int(model.optimizer.iterations) == 2
        if name == "scaled":
            assert float(model.optimizer.loss_scale) == float(stored["scale"]) == 8192
        model.train_on_batch(stored["x"], stored["ty"])
        for number, weight in enumerate(model.trainable_weights):
            wanted, weight = (
                stored[f"after_{number}"],
                keras.ops.convert_to_numpy(weight),
            )
            np.testing.assert_allclose(weight, wanted, tolerance, tolerance)


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_no_weight_of_the_model_is_listed(release, folder):
    with pytest.warns(UserWarning, match=r"without .*task/mean/total \(\), which is"):
        keras_policies.load_weights(net(), folder / release / "net" / "checkpoint")


def test_a_layer_of_another_size_is_refused(folder):
    with pytest.raises(LegacyModelError, match=r"\(4, 5\), the file's .* \(4, 3\)"):
        keras_policies.load_weights(net(5), folder / "2.15.1" / "net" / "checkpoint")


def test_a_layer_without_one_of_its_weights_is_refused(folder):
    path = folder / "2.15.1" / "net" / "checkpoint"
    with pytest.raises(LegacyModelError, match=r"the file holds .*last/bias \(2,\)"):
        keras_policies.load_weights(net(3, False), path)


def test_another_optimizer_starts_anew_with_a_warning(folder):
    model = sequential()
    model.compile("sgd", "mse")
    with pytest.warns(
        UserWarning, match="the state of the optimizer: there is no slot"
    ):
        keras_policies.load_weights(model, folder / "2.4.4" / "tracked" / "checkpoint")
    assert int(model.optimizer.iterations) == 0


def test_a_checkpoint_called_checkpoint_holds_no_model(folder):
    path = folder / "2.15.1" / "tracked" / "checkpoint"
    with pytest.raises(LegacyModelError, match=r"load_weights\(model, .*checkpoint'\)"):
        keras_policies.load_model(path)


def test_a_layer_that_is_also_in_a_model_beside_it_gets_its_weights(tmp_path):
    shared, x = keras.layers.Dense(2, name="shared"), keras.Input((2,))
    inner = keras.Model(x, shared(x), name="inner")
    y = keras.Input((2,))
    model = keras.Model(y, inner(shared(y)))
    kernel, bias = np.array([[1, 2], [3, 4]], "float32"), np.array([5, 6], "float32")
    with h5py.File(tmp_path / "weights.h5", "w") as file:  # as save_weights wrote it
        file.attrs["layer_names"] = [b"input_2", b"shared", b"inner"]
        file.attrs["backend"] = b"tensorflow"
        file.attrs["keras_version"] = b"2.15.0"
        names = "shared/kernel:0", "shared/bias:0"
        for layer in "input_2", "shared", "inner":
            group, held = file.create_group(layer), layer != "input_2"
            group.attrs["weight_names"] = [name.encode() for name in names] * held
            for name, value in zip(names, (kernel, bias), strict=True):
                if held:
                    group[name] = value
    keras_policies.load_weights(model, tmp_path / "weights.h5")
    found = keras.ops.convert_to_numpy(model(np.ones((1, 2), "float32")))
    np.testing.assert_allclose(found, [[9 * 1 + 12 * 3 + 5, 9 * 2 + 12 * 4 + 6]])


def test_layers_whose_names_differ_by_a_point_get_their_own_weights(tmp_path):
    """torch holds no such names: only the file has them there."""
    stored = ["a.b", "a_c"]
    names = ["a_b" if keras.backend.backend() == "torch" else "a.b", "a_c"]
    if keras.backend.backend() != "torch":
        stored, names = [*stored, "a_b"], [*names, "a_b"]
    model = keras.Sequential(
        [keras.Input((1,)), *(keras.layers.Dense(1, name=name) for name in names)]
    )
    with h5py.File(tmp_path / "weights.h5", "w") as file:  # as save_weights wrote it
        file.attrs["layer_names"] = [name.encode() for name in stored]
        file.attrs["backend"] = b"tensorflow"
        file.attrs["keras_version"] = b"2.15.0"
        for number, name in enumerate(stored):
            group = file.create_group(name)
            group.attrs["weight_names"] = [b"kernel:0", b"bias:0"]
            group["kernel:0"] = np.full((1, 1), number + 2.0, "float32")
            group["bias:0"] = np.full(1, number, "float32")
    keras_policies.load_weights(model, tmp_path / "weights.h5")
    for number, layer in enumerate(model.layers):
        kernel, bias = layer.get_weights()
        assert (kernel.item(), bias.item()) == (number + 2, number)


def test_a_checkpoint_may_have_a_layer_more_or_another_last_one(folder):
    path = folder / "2.15.1" / "tracked" / "checkpoint"
    first = keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((4,)), first, keras.layers.Dense(5)])
    with pytest.raises(
        LegacyModelError, match=r"(?s)\(3, 5\), .* has \(3, 2\).*skip_mis"
    ):
        keras_policies.load_weights(model, path)
    with pytest.warns(UserWarning, match=r"without these: .*kernel .* \(3, 5\)"):
        keras_policies.load_weights(model, path, skip_mismatch=True)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    with pytest.warns(UserWarning, match="'layer_with_weights-1' is no layer of the"):
        keras_policies.load_weights(model, path, skip_mismatch=True)
    for kernel, other in zip(first.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(kernel, other)


def test_a_saved_model_has_names_and_a_checkpoint_has_none(folder):
    stored = legacy_files.CORPUS / "2.15.1" / "seq_dense" / "saved_model"
    layers = keras.layers.Dense(8, name="fc2"), keras.layers.Dense(3, name="probs")
    model = keras.Sequential([keras.Input((16,)), *layers])
    with pytest.warns(UserWarning, match="'probs' is no layer of the file; 'fc1' is"):
        keras_policies.load_weights(model, stored, by_name=True)
    whole = keras_policies.load_model(stored, compile=False)
    kernel, expected = layers[0].kernel, whole.get_layer("fc2").kernel
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (kernel, expected)))
    path = folder / "2.15.1" / "tracked" / "checkpoint"
    with pytest.raises(LegacyModelError, match="has no names of layers.*skip_mismatch"):
        keras_policies.load_weights(model, path, by_name=True)
