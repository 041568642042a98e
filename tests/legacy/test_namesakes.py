"""Objects named like those of Keras, written by write_namesakes.py."""

import inspect
import json
import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError
from keras_policies._common import keras_names
from keras_policies.legacy.plan import classes

ARCHIVE = legacy_files.FOLDER / "namesakes.tar.xz"
OLD, NEW = "2.4.4", "2.15.1"
pytestmark = pytest.mark.once("no backend matters")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("namesakes"), [ARCHIVE])


class L2(keras.regularizers.Regularizer):
    def __init__(self, l2=0.1):
        self.l2 = l2

    def __call__(self, weights):
        return l2(weights) * self.l2

    def get_config(self):
        return {"l2": self.l2}


def l2(weights):
    return 100 * keras.ops.sum(keras.ops.square(weights))


class ReLU(keras.layers.ReLU):
    def call(self, inputs):
        return super().call(inputs) * 2


def relu(x):
    return 10 * keras.ops.relu(x)


def mse(true, predicted):
    return keras.ops.sum(keras.ops.square(true - predicted), -1)


class MeanSquaredError(keras.losses.Loss):
    call = staticmethod(mse)


def loss_of(model, case):
    data = dict(np.load(case / "data.npz"))
    found = model.evaluate(data["x"], data["x"][:, :3], verbose=0)
    return found, float(data["loss"].ravel()[0])


def test_the_arguments_of_each_layer_are_known_without_importing_keras():
    for name, cls in vars(keras.layers).items():
        if isinstance(cls, type) and issubclass(cls, keras.Layer):
            parameters = inspect.signature(cls.__init__).parameters.values()
            taken = {x.name for x in parameters if x.kind is not x.VAR_KEYWORD}
            passes_on = any(x.kind is x.VAR_KEYWORD for x in parameters)
            taken |= {"name", "dtype", "trainable"} if passes_on else set()
            assert taken - {"self"} <= keras_names.accepted(name), name


@pytest.mark.parametrize(
    ("case", "told"),
    [
        pytest.param(f"{release}/{name}", told, id=f"{release}-{name}")
        for release in (OLD, NEW)
        for name, told in {
            "regularizer/model.h5": "the missing regularizer My>L2",
            "constraint/model.h5": "the missing constraint My>NonNeg",
            "loss/model.h5": "losses: 'My>MeanSquaredError'",
            "loss_function/model.h5": "losses: 'My>mse'",
            "metric/model.h5": "metrics: 'My>MeanAbsoluteError'",
            "metric_function/model.h5": "metrics: 'My>mse'",
            "schedule/model.h5": "optimizers: 'My>ExponentialDecay'",
            "unregistered_regularizer_function/model.h5": "missing regularizer l2",
            "new_loss/model.h5": "losses: 'tversky', pass",
            "new_metric/model.h5": "metrics: 'tversky', pass",
            "new_optimizer/model.h5": "optimizers: 'Lamb', pass",
            **(
                {
                    "regularizer/model.keras": "the missing regularizer My>L2",
                    "regularizer_function/model.h5": "the missing regularizer l2",
                    "regularizer_function/model.keras": "the missing regularizer l2",
                    "constraint/model.keras": "the missing constraint My>NonNeg",
                    "loss/model.keras": "losses: 'My>MeanSquaredError'",
                    "loss_function/model.keras": "losses: 'mse', pass",
                    "metric/model.keras": "metrics: 'My>MeanAbsoluteError'",
                    "metric_function/model.keras": "metrics: 'mse', pass",
                    "schedule/model.keras": "optimizers: 'My>ExponentialDecay'",
                    "unregistered_loss/model.keras": "'Custom>MeanSquaredError'",
                    "unregistered_loss_function/model.keras": "losses: 'mse', pass",
                    "unregistered_metric/model.keras": "Custom>MeanAbsoluteError",
                    "new_loss/model.keras": "losses: 'tversky', pass",
                    "new_metric/model.keras": "metrics: 'tversky', pass",
                }
                if release == NEW
                else {"regularizer_function/model.h5": "missing regularizer My>l2"}
            ),
        }.items()
    ],
)
def test_what_a_file_registered_is_never_keras_s_own_object(folder, case, told):
    with pytest.warns(UserWarning, match=f"left out: .*{told}"):
        keras_policies.load_model(folder / case)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (f"{NEW}/activation_layer/model.h5", "My>ReLU"),
        (f"{NEW}/activation_layer/model.keras", "My>ReLU"),
        (f"{OLD}/activation_layer/model.h5", "My>ReLU"),
        (f"{OLD}/activation/model.h5", "My>relu"),
        (f"{OLD}/new_activation/model.h5", "squareplus"),
        (f"{NEW}/new_activation/model.h5", "squareplus"),
        (f"{NEW}/new_activation/model.keras", "squareplus"),
        (f"{OLD}/new_layer/model.h5", "RMSNormalization"),
    ],
)
def test_an_activation_that_a_file_registered_is_missing(folder, case, name):
    with pytest.raises(LegacyModelError, match=f"does not have:\n  {name} "):
        keras_policies.load_model(folder / case)


OWN = {
    "regularizer": L2,
    "regularizer_function": l2,
    "activation_layer": ReLU,
    "loss": MeanSquaredError,
}


def takes_functions():
    """Return whether this Keras takes functions as regularizers; 3.8 does not."""
    try:
        keras.layers.Dense(1, kernel_regularizer=l2).build((None, 2))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("package", ["My>", ""], ids=["with-package", "without"])
@pytest.mark.parametrize(
    ("case", "form"),
    [
        *((f"{NEW}/{name}", form) for name in OWN for form in ("h5", "keras")),
        *((f"{OLD}/{name}", "h5") for name in OWN),
        (f"{NEW}/loss_function", "keras"),
        (f"{OLD}/activation", "h5"),
    ],
)
def test_custom_objects_give_what_a_file_registered(folder, case, form, package):
    name = case.partition("/")[2]
    own = {**OWN, "loss_function": mse, "activation": relu}[name]
    # Without a package, these are not found, or recorded: the message has their name.
    package = {"loss": "My>", "loss_function": ""}.get(name, package)
    package = "" if case == f"{NEW}/regularizer_function" else package
    passed = {f"{package}{own.__name__}": own}
    if own is l2 and not takes_functions():
        with pytest.raises(LegacyModelError, match="Invalid value .* `regularizer`"):
            keras_policies.load_model(folder / case / f"model.{form}", passed)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = keras_policies.load_model(folder / case / f"model.{form}", passed)
    found, expected = loss_of(model, folder / case)
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_name_without_a_package_is_that_of_keras(folder):
    """tf.keras 2.15 wrote the bare names of activations: docs/troubleshooting.md."""
    case = folder / NEW / "activation"
    model = keras_policies.load_model(case / "model.keras")
    found, expected = loss_of(model, case)
    assert found == pytest.approx(0.49942696)
    assert expected == pytest.approx(1.6216482)


# Names of TensorFlow or of other modules of tf.keras, and some that are in no file.
AS_IN_TENSORFLOW = {
    "activations": {"leaky_relu", "log_sigmoid", "log_softmax", "relu6", "silu"},
    "layers": {"FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"},
    "losses": set(),
    "metrics": {"categorical_hinge", "huber"},
    "optimizers": {"LossScaleOptimizer", "OptimizerMap"},
}


@pytest.mark.parametrize("module", AS_IN_TENSORFLOW)
def test_each_name_that_only_keras_3_has_is_listed(module, folder):
    old = (folder / release / "names.json" for release in (OLD, NEW))
    known = {name for path in old for name in json.loads(path.read_text())[module]}
    new = {name for name in dir(getattr(keras, module)) if not name.startswith("_")}
    listed = {*classes.NOT_IN_TF_KERAS.get(f"keras.{module}", ())}
    assert known & listed == set()
    assert new - known - AS_IN_TENSORFLOW[module] <= listed
