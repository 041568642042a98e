"""Optimizers, losses, metrics and loss scales of legacy files come back."""

import dataclasses
import json
import shutil
import warnings

import h5py
import keras
import legacy_files
import legacy_layers
import numpy as np
import pytest

import keras_policies
from keras_policies import DynamicLossScale, FixedLossScale, load_model
from keras_policies.legacy.assembly import build, compiling
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.plan import parts, plan
from keras_policies.legacy.readers import readers


def corpus(case, form):
    return legacy_files.CORPUS / case / form


def more(case, form="model.h5"):
    return legacy_files.folder("more") / case / form


def opened(path):
    with warnings.catch_warnings():  # test_steps.py expects them
        warnings.filterwarnings("ignore", message=".*Nadam's momentum|.*ignored clip")
        return load_model(path)


@pytest.mark.parametrize(
    ("case", "form", "scale", "good_steps"),
    [
        pytest.param("2.1.4/explicit_lso", "saved_model", 32768.0, 5, id="2.1"),
        pytest.param("2.4.4/explicit_lso", "saved_model", 32768.0, 5, id="2.4"),
        pytest.param("2.15.1/explicit_lso", "saved_model", 32768.0, 5, id="2.15"),
        pytest.param("2.4.4/explicit_lso", "model.h5", 32768.0, 0, id="2.4-h5"),
        pytest.param("2.9.3/explicit_lso", "model.h5", 32768.0, 0, id="2.9-h5"),
        pytest.param("2.15.1/explicit_lso", "model.keras", 32768.0, 0, id="2.15-keras"),
    ],
)
def test_an_explicit_loss_scale_optimizer_comes_back(case, form, scale, good_steps):
    model = load_model(corpus(case, form))
    optimizer = model.optimizer
    assert type(optimizer) is keras_policies.LossScaleOptimizer
    assert optimizer.rule == DynamicLossScale(32768.0, 2000, 2.0)
    assert float(optimizer.loss_scale) == scale
    assert int(optimizer.step_counter) == good_steps
    assert isinstance(optimizer.inner_optimizer, keras.optimizers.SGD)
    assert optimizer.inner_optimizer.momentum == pytest.approx(0.9)
    assert int(optimizer.iterations) == 5
    assert int(optimizer.skipped_steps) == 0


def test_the_current_scale_of_an_explicit_optimizer_comes_back(tmp_path):
    # The corpus has none whose scale moved: move it, as a raised policy scale did.
    path = corpus("2.4.4/explicit_lso", "saved_model")
    with readers.read(path) as legacy:
        state = dataclasses.replace(legacy.optimizer, loss_scale=4096.0, good_steps=7)
        moved = dataclasses.replace(legacy, optimizer=state)
        model = build.build(plan.make(moved)).model
    assert float(model.optimizer.loss_scale) == 4096.0
    assert int(model.optimizer.step_counter) == 7


@pytest.mark.parametrize(
    ("written_by", "loss", "accuracy"),
    [
        pytest.param("Keras 2.2.4-tf", "binary_crossentropy", 0.375, id="2.0-and-2.1"),
        pytest.param("TensorFlow 2.1.4", "binary_crossentropy", 0.375, id="2.1"),
        pytest.param("Keras 2.3.0-tf", "binary_crossentropy", 0.5, id="2.2"),
        pytest.param("Keras 2.4.0", "binary_crossentropy", 0.5, id="2.4"),
        pytest.param("Keras 2.2.4-tf", "mse", 0.5, id="another-loss"),
    ],
)
def test_accuracy_is_that_of_its_release(written_by, loss, accuracy):
    # The numbers that TensorFlow 2.0.0, 2.1.4 and 2.4.4 give.
    x = {"name": "x", "batch_input_shape": [None, 4]}
    layers = [
        {"class_name": "InputLayer", "config": x},
        {
            "class_name": "Activation",
            "config": {"name": "y", "activation": "sigmoid"},
        },
    ]
    compiled = {
        "loss": loss,
        "metrics": ["accuracy"],
        "weighted_metrics": ["acc"],
        "optimizer_config": {"class_name": "SGD", "config": {"learning_rate": 0.01}},
    }
    legacy = LegacyModel(
        path="model",
        format="H5",
        written_by=written_by,
        config={"class_name": "Sequential", "config": {"name": "m", "layers": layers}},
        records_policies=True,
        weights={},
        training_config=compiled,
        optimizer=LegacyOptimizerState(),
    )
    model = build.build(plan.make(legacy)).model
    numbers = np.array([[-1, 0.25, 0.75, 2], [1, -2, 3, -0.5]])
    targets = np.array([[1, 0, 1, 0], [0, 0, 1, 1]])
    found = model.evaluate(numbers, targets, verbose=0, return_dict=True)
    assert (found["accuracy"], found["acc"]) == (accuracy, accuracy)


# Source: `categorical_crossentropy` in keras/losses.py of Keras 2.13, 2.14 and 2.15.
@pytest.mark.parametrize(
    ("written_by", "axis", "smoothing", "told"),
    [
        ("TensorFlow 2.15.1", 1, 0.1, ["the label smoothing over axis 1"]),
        ("TensorFlow 2.14.0", -2, 0.1, ["the label smoothing over axis -2"]),
        ("TensorFlow 2.15.1", -1, 0.1, []),
        ("TensorFlow 2.15.1", 1, 0.0, []),
        ("TensorFlow 2.13.1", 1, 0.1, []),
    ],
)
def test_label_smoothing_over_another_axis_is_told(written_by, axis, smoothing, told):
    config = {"label_smoothing": smoothing, "axis": axis}
    loss = {"class_name": "CategoricalCrossentropy", "config": config}
    legacy = LegacyModel(
        path="model",
        format="H5",
        written_by=written_by,
        config={},
        records_policies=True,
        weights={},
        training_config={"loss": {"y": [loss]}},
        optimizer=LegacyOptimizerState(),
    )
    assert [text.partition(",")[0] for text in parts.changes(legacy, [])] == told


@pytest.mark.parametrize(
    ("case", "form"),
    [
        ("2.4.4/func_conv_fixed", "saved_model"),
        ("2.4.4/func_conv_fixed", "model.h5"),
        ("2.4.4/rnn_dynamic", "model.h5"),
        ("2.1.4/nested_model", "saved_model"),
        ("2.3.4/seq_dense", "model.h5"),
    ],
)
def test_the_loss_scale_of_a_policy_is_dropped(case, form):
    model = load_model(corpus(case, form))
    # As stock Keras 3 scales every mixed_float16 model: nothing of it is the file's.
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert model.optimizer.rule == DynamicLossScale(2.0**15, 2000, 2.0)
    assert float(model.optimizer.dynamic_scale) == 2.0**15
    assert int(model.optimizer.step_counter) == 0
    assert type(model.dtype_policy) is keras.DTypePolicy
    assert model.dtype_policy.name == "mixed_float16"


def test_the_loss_scale_of_a_float32_policy_is_dropped():
    model = load_model(corpus("2.3.4/float32_loss_scale", "model.h5"))
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    assert model.dtype_policy.name == "float32"


def test_tf_2_0_recorded_no_policy_so_its_loss_scale_is_kept():
    for form in "model.h5", "saved_model":
        model = load_model(corpus("2.0.0/float32_loss_scale", form))
        assert model.optimizer.rule == FixedLossScale(16.0)
    model = load_model(corpus("2.0.0/rnn_dynamic", "model.h5"))
    assert model.optimizer.rule == DynamicLossScale(1024.0, 3, 2.0)


def test_an_optimizer_that_did_not_scale_does_not_scale_now():
    for form in "saved_model", "model.h5":
        model = load_model(corpus("2.4.4/func_multi_io", form))
        assert isinstance(model.optimizer, keras.optimizers.Adam)
        assert model.dtype_policy.name == "float32"
    model = load_model(corpus("2.4.4/seq_dense_bf16", "model.h5"))
    assert isinstance(model.optimizer, keras.optimizers.Adam)


def test_another_policy_replaces_the_models_own_and_no_other():
    path = corpus("2.4.4/func_conv_fixed", "saved_model")
    model = load_model(path, dtype_policy="float32")
    assert {layer.dtype_policy.name for layer in model.layers} == {"float32"}
    assert model.dtype_policy.name == "float32"
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = load_model(path, dtype_policy=policy)
    assert model.get_layer("conv_a").dtype_policy == policy
    assert model.get_layer("softmax").dtype_policy.name == "float32"
    # This model's own policy is float32; its mixed layers were made so one by one.
    path = corpus("2.4.4/func_multi_io", "saved_model")
    model = load_model(path, dtype_policy="float32")
    assert model.get_layer("shared").dtype_policy.name == "mixed_float16"


def test_a_policy_map_replaces_the_models_own():
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    policies["conv_a"] = keras.DTypePolicy("mixed_bfloat16")
    path = corpus("2.4.4/func_conv_fixed", "saved_model")
    model = load_model(path, compile=False, dtype_policy=policies)
    assert model.get_layer("conv_a").compute_dtype == "bfloat16"
    assert model.get_layer("conv_b").compute_dtype == "float32"


@pytest.mark.parametrize("policy", ["float16", keras.DTypePolicy("float16")], ids=str)
def test_a_half_policy_leaves_batch_normalization_its_variables(policy):
    model = load_model(corpus("2.15.1/seq_dense", "model.h5"), dtype_policy=policy)
    kinds = keras.layers.BatchNormalization, keras.layers.Dense
    for kind, dtype in zip(kinds, ("float32", "float16"), strict=True):
        layer = next(layer for layer in model.layers if isinstance(layer, kind))
        assert layer.compute_dtype == "float16"
        assert {weight.dtype for weight in layer.weights} == {dtype}


def test_a_policy_of_ours_brings_its_loss_scale():
    policy = keras_policies.Policy("mixed_float16", loss_scale=64)
    path = corpus("2.4.4/func_conv_fixed", "saved_model")
    model = load_model(path, dtype_policy=policy)
    assert model.dtype_policy is policy
    assert model.optimizer.rule == FixedLossScale(64.0)
    assert legacy_files.step_error(model, path) <= 0.03


def test_a_float32_model_opens_under_a_mixed_policy():
    path = corpus("2.0.0/seq_dense", "model.h5")
    model = load_model(path, dtype_policy="mixed_float16")
    assert model.get_layer("fc1").dtype_policy.name == "mixed_float16"
    (found,) = legacy_files.outputs(model, path)
    np.testing.assert_allclose(found, legacy_files.arrays(path, "y_")[0], atol=5e-3)


@pytest.mark.parametrize(
    ("name", "plain", "dtypes"),
    [
        ("infer", "float16", ("float16", "float16")),
        ("_infer", "float16", ("float16", "float16")),
        ("infer_with_float32_vars", "mixed_float16", ("float16", "float32")),
        ("float16_with_float32_vars", "mixed_float16", ("float16", "float32")),
        ("bfloat16_with_float32_vars", "mixed_bfloat16", ("bfloat16", "float32")),
        ("float64", "float64", ("float64", "float64")),
    ],
)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_deprecated_policies_become_plain_ones(tmp_path, name, plain, dtypes):
    path = shutil.copy(more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        image, hidden, _ = config["config"]["layers"]
        image["config"]["dtype"] = "float16"
        hidden["config"]["dtype"] = {"class_name": "Policy", "config": {"name": name}}
        file.attrs["model_config"] = json.dumps(config)
    layer = load_model(path, compile=False).get_layer("hidden")
    assert type(layer.dtype_policy) is keras.DTypePolicy
    assert layer.dtype_policy.name == plain
    assert (layer.compute_dtype, layer.variable_dtype) == dtypes


def test_a_registered_class_needs_no_custom_objects():
    with keras.saving.custom_object_scope({"Scale": legacy_files.Scale}):
        model = load_model(more("2.4.4/custom_layer"))
    assert isinstance(model.get_layer("scale"), legacy_files.Scale)
    assert model.get_layer("scale").factor == 3.0


@pytest.mark.parametrize(
    ("case", "name", "settings"),
    [
        ("sgd_nesterov", "SGD", {"momentum": 0.9, "nesterov": True}),
        ("rmsprop_centered", "RMSprop", {"momentum": 0.5, "centered": True}),
        ("amsgrad", "Adam", {"amsgrad": True}),
        ("adagrad", "Adagrad", {"initial_accumulator_value": 0.2}),
        ("adadelta", "Adadelta", {"rho": 0.95}),
        ("adamax", "Adamax", {"beta_1": 0.9}),
        ("nadam", "Nadam", {"beta_2": 0.999}),
        ("ftrl", "Ftrl", {"l1_regularization_strength": 0.001}),
    ],
)
@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
def test_optimizers_come_back_with_their_settings(release, case, name, settings):
    optimizer = opened(more(f"{release}/{case}")).optimizer
    assert type(optimizer).__name__ == name
    assert float(optimizer.learning_rate) == pytest.approx(0.05)
    assert int(optimizer.iterations) == 3
    for setting, value in settings.items():
        assert getattr(optimizer, setting) == pytest.approx(value), setting


@pytest.mark.parametrize("form", ["model.h5", "saved_model", "model.keras"])
def test_an_optimizer_that_compile_was_given_as_a_string_comes_back(form):
    path = more("2.15.1/by_string", form)
    expected = dict(np.load(more("2.15.1/by_string", "expected.npz")))
    model = load_model(path)
    assert isinstance(model.optimizer, keras.optimizers.RMSprop)
    assert int(model.optimizer.iterations) == 3
    model.train_on_batch(expected["x_0"], expected["ty_0"])
    for number, weight in enumerate(model.get_weights()):
        np.testing.assert_allclose(weight, expected[f"after/{number}"], rtol=1e-5)


def test_weight_decay_and_clipping_come_back():
    assert load_model(more("2.15.1/adamw")).optimizer.weight_decay == 0.01
    for form in "model.h5", "saved_model", "model.keras":
        optimizer = load_model(more("2.15.1/clipped", form)).optimizer
        assert optimizer.clipnorm == 0.01
    assert load_model(more("2.4.4/clipped")).optimizer.clipnorm == 0.01


@pytest.mark.parametrize("release", ["2.0.0", "2.4.4"])
@pytest.mark.parametrize("form", ["model.h5", "saved_model"])
def test_decay_becomes_a_schedule(release, form):
    path = more(f"{release}/sgd_decay", form)
    rate = load_model(path).optimizer.learning_rate
    assert float(rate) == pytest.approx(0.05 / (1 + 0.1 * 3), rel=1e-5)


@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
def test_a_schedule_comes_back(release):
    optimizer = load_model(more(f"{release}/schedule")).optimizer
    schedule = optimizer._learning_rate
    assert isinstance(schedule, keras.optimizers.schedules.ExponentialDecay)
    assert float(optimizer.learning_rate) == pytest.approx(0.1 * 0.5**1.5, rel=1e-5)


# Of TensorFlow 2.15.1, after seven steps of `fit`.
@pytest.mark.parametrize(
    ("weights", "product"), [(1, 2.0689e-2), (2, 3.8494e-4), (4, 1.0347e-7)]
)
def test_the_product_of_nadam_is_that_of_the_graph(weights, product):
    state = LegacyOptimizerState(iterations=7, slots=())
    found = compiling.product_of_momenta(0.9, state, weights)
    assert found == pytest.approx(product, rel=1e-4)


@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
def test_the_slots_and_the_product_of_nadam_come_back(release):
    path = more(f"{release}/nadam")
    optimizer = opened(path).optimizer
    with h5py.File(path) as file:
        group = file["optimizer_weights"]
        names = [
            name.decode() if isinstance(name, bytes) else name
            for name in group.attrs["weight_names"]
        ]
        stored = {name: group[name][()] for name in names}
    kernel = next(
        stored[name]
        for name in names
        if "hidden/kernel" in name and "/v" not in name.replace("/v/", "/v")
    )
    found = [np.asarray(variable) for variable in optimizer._momentums]
    np.testing.assert_array_equal(found[0], kernel)
    product = [value for name, value in stored.items() if "momentum_cache" in name]
    # TensorFlow 2.15 multiplied it again for each of the four weights.
    wanted = product[0] if product else (0.468 * 0.48528 * 0.5018688) ** 4
    assert float(optimizer._u_product.numpy()) == pytest.approx(float(wanted), rel=1e-6)


@legacy_files.needs_auc
@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
def test_losses_metrics_regularizers_constraints_and_frozen_layers(release):
    path = more(f"{release}/losses_by_name")
    model = load_model(path)
    assert set(model.loss) == {"one", "two"}
    assert model.loss["one"].label_smoothing == pytest.approx(0.1)
    labels = legacy_files.arrays(path, "ty_")
    found = model.evaluate(
        legacy_files.inputs(path), labels, verbose=0, return_dict=True
    )
    assert {"one_accuracy", "one_auc", "two_mae"} <= set(found)
    body, frozen = model.get_layer("body"), model.get_layer("frozen")
    assert float(body.kernel_regularizer.l2) == pytest.approx(0.02)
    assert isinstance(body.bias_constraint, keras.constraints.MaxNorm)
    assert body.bias_constraint.max_value == 1.5
    assert body.kernel_initializer.stddev == pytest.approx(0.3)
    assert body.activation is keras.activations.relu
    assert (body.trainable, frozen.trainable) == (True, False)


def test_compile_false_leaves_the_model_uncompiled():
    model = load_model(corpus("2.4.4/explicit_lso", "model.h5"), compile=False)
    assert not model.compiled
    assert model.dtype_policy.name == "mixed_float16"


def edited(tmp_path, edit, source=None):
    """Return a copy of an H5 file with its training_config edited."""
    path = shutil.copy(source or more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["training_config"])
        edit(config)
        file.attrs["training_config"] = json.dumps(config)
    return path


def load_with_one_warning(path, match):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(path)
    texts = [
        str(item.message)
        for item in caught
        if issubclass(item.category, keras_policies.KerasPoliciesWarning)
    ]
    assert len(texts) == 1
    for part in match:
        assert part in texts[0]
    return model


def test_a_list_of_metrics_is_that_of_every_output(tmp_path):
    def edit(config):
        config["metrics"] = ["mae", "mse"]

    source = more("2.4.4/some_losses")
    model = load_model(edited(tmp_path, edit, source))
    written = model.get_compile_config()
    assert written["metrics"] == [["mae", "mse"], ["mae", "mse"]]


def test_what_no_longer_exists_is_left_out_with_one_warning(tmp_path):
    def edit(config):
        config["loss"] = "my_loss"
        config["metrics"] = ["mae", "my_metric"]

    path = edited(tmp_path, edit)
    expected = [
        "losses: 'my_loss'",
        "metrics: 'my_metric'",
        "the model is not compiled",
    ]
    model = load_with_one_warning(path, [*expected, "custom_objects={'my_loss': ...}"])
    assert not model.compiled
    with pytest.raises(ValueError, match=r"must call `compile\(\)`"):
        model.fit(np.zeros((2, 4)), np.zeros((2, 2)))
    assert keras_policies.inspect_model(path).missing == ("my_loss", "my_metric")
    losses = keras.losses
    custom = {
        "my_loss": losses.mean_squared_error,
        "my_metric": losses.mean_absolute_error,
    }
    model = load_model(path, custom)
    assert model.loss is not None
    assert int(model.optimizer.iterations) == 3


@pytest.mark.parametrize(
    ("written", "expected"),
    [("logcosh", 0.4337808), ("kullback_leibler_divergence", 32.23619)],
)
def test_functions_that_keras_3_renamed_are_found(written, expected, tmp_path):
    def edit(config):
        config["loss"], config["metrics"] = written, [written]

    model = load_model(edited(tmp_path, edit))
    loss = model.compute_loss(y=np.ones((1, 2)), y_pred=np.zeros((1, 2)))
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("AUC", "auc"),
        ("RootMeanSquaredError", "root_mean_squared_error"),
        ("kullback_leibler_divergence", "kullback_leibler_divergence"),
        ("logcosh", "logcosh"),
        ("MAE", "MAE"),
        ("Accuracy", "Accuracy"),  # of the largest outputs, not of equal numbers
    ],
)
def test_a_metric_by_the_name_of_a_class_is_reported_as_in_tf_keras(
    written, expected, tmp_path
):
    """Callbacks look for these names, such as `monitor="val_auc"`."""

    def edit(config):
        config["metrics"] = [written]

    model = load_model(edited(tmp_path, edit))
    x = np.ones((2, *model.input_shape[1:]))
    found = model.evaluate(x, np.eye(2), verbose=0, return_dict=True)
    assert {*found} == {"loss", expected}
    if expected == "Accuracy":
        assert found[expected] == 0.5


@pytest.mark.parametrize("written", ["AUC", "Precision", "logcosh"])
def test_a_metric_of_tensorflow_2_0_has_the_name_that_it_was_given(written, tmp_path):
    def edit(config):
        config["metrics"] = [written]

    model = load_model(edited(tmp_path, edit, more("2.0.0/amsgrad")))
    x = np.ones((2, *model.input_shape[1:]))
    found = model.evaluate(x, np.eye(2), verbose=0, return_dict=True)
    assert {*found} == {"loss", written}


@pytest.mark.parametrize("number", [None, 2, 7])
def test_a_metric_of_more_numbers_than_there_are_takes_all(number, tmp_path):
    """As in tf.keras; on torch, Keras 3 raises an error in `fit` and `evaluate`."""
    name = "top_k_categorical_accuracy"

    def edit(config):
        settings = {"name": "top", "dtype": "float32", "k": number}
        written = {"class_name": "TopKCategoricalAccuracy", "config": settings}
        config["metrics"] = [written if number else name]

    model = load_model(edited(tmp_path, edit))
    assert model.output_shape[-1] == 2
    x, y = np.ones((3, *model.input_shape[1:])), np.eye(2)[[0, 1, 1]]
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    assert found["top" if number else name] == 1.0


@pytest.mark.parametrize("name", ["top_k_categorical_accuracy", "AUC", "crossentropy"])
def test_a_metric_of_the_user_is_used_whatever_its_name(name, tmp_path):
    def edit(config):
        config["metrics"] = [name]

    def seven(true, predicted):
        return keras.ops.zeros_like(predicted[:, 0]) + 7

    model = load_model(edited(tmp_path, edit), {name: seven})
    x = np.ones((2, *model.input_shape[1:]))
    found = model.evaluate(x, np.eye(2), verbose=0, return_dict=True)
    assert 7.0 in found.values()


def test_a_metric_that_ignores_targets_is_left_out(tmp_path):
    """Its mean is over those that count; Keras 3 divides by the number of all."""
    name = "SparseCategoricalCrossentropy"

    def edit(config):
        settings = {"name": "it", "dtype": "float32", "ignore_class": ignored}
        config["metrics"] = [{"class_name": name, "config": settings}]

    ignored = 0
    path = edited(tmp_path, edit)
    model = load_with_one_warning(path, [f"metrics: '{name}'", "pass custom_objects"])
    assert model.compiled
    assert keras_policies.inspect_model(path).missing == (name,)

    class Own(keras.metrics.Mean):
        def __init__(self, ignore_class, **settings):
            super().__init__(**settings)
            self.ignore_class = ignore_class

        def get_config(self):
            return {**super().get_config(), "ignore_class": self.ignore_class}

    model = load_model(path, {name: Own})  # as advised; a warning is an error
    assert model.get_compile_config()["metrics"][0]["config"]["ignore_class"] == 0
    ignored = None
    model = load_model(edited(tmp_path, edit))
    assert model.get_compile_config()["metrics"][0]["config"]["name"] == "it"


def test_a_metric_that_is_not_known_does_not_keep_a_model_from_training(tmp_path):
    def edit(config):
        config["metrics"] = ["mae", "my_metric"]

    model = load_with_one_warning(edited(tmp_path, edit), ["metrics: 'my_metric'"])
    assert model.compiled
    assert int(model.optimizer.iterations) == 3


def test_a_class_of_loss_that_is_not_known_is_missing(tmp_path):
    def edit(config):
        config["loss"] = {"class_name": "addons>Focal", "config": {"gamma": 2.0}}

    path = edited(tmp_path, edit)
    assert keras_policies.inspect_model(path).missing == ("addons>Focal",)
    assert not load_with_one_warning(path, ["losses: 'addons>Focal'"]).compiled


class Unfinished(keras.losses.Loss):
    """Cannot be made, and does not say why."""

    def __init__(self, **kwargs):
        raise NotImplementedError


def test_a_loss_that_cannot_be_made_is_left_out_even_if_it_gives_no_reason(tmp_path):
    def edit(config):
        config["loss"] = {"class_name": "Unfinished", "config": {}}

    match = r"losses: 'Unfinished' \(NotImplementedError\); so the model is not"
    with pytest.warns(UserWarning, match=match):
        model = load_model(edited(tmp_path, edit), {"Unfinished": Unfinished})
    assert not model.compiled


def test_the_loss_scale_of_a_mixed_model_goes_with_its_float16():
    path = corpus("2.4.4/explicit_lso", "saved_model")
    model = load_model(path, dtype_policy="float32")
    assert isinstance(model.optimizer, keras.optimizers.SGD)
    assert int(model.optimizer.iterations) == 5
    model = load_model(path, dtype_policy="float16")
    assert float(model.optimizer.loss_scale) == 32768.0


def test_an_unknown_optimizer_leaves_the_model_uncompiled(tmp_path):
    def edit(config):
        config["optimizer_config"]["class_name"] = "Addons>RectifiedAdam"

    model = load_with_one_warning(edited(tmp_path, edit), ["Addons>RectifiedAdam"])
    assert not model.compiled


def test_slots_that_do_not_fit_are_left_out_whole(tmp_path):
    path = shutil.copy(more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        group = file["optimizer_weights"]
        name = next(
            name for name in group.attrs["weight_names"] if b"hidden/kernel/v:" in name
        )
        del group[name]
        group[name] = np.zeros((2, 2), "float32")
    model = load_with_one_warning(path, ["the optimizer's state", "(2, 2)", "(4, 5)"])
    assert int(model.optimizer.iterations) == 0
    assert not any(np.any(np.asarray(slot)) for slot in model.optimizer._momentums)


def test_slots_that_are_missing_are_named(tmp_path):
    path = shutil.copy(more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        group = file["optimizer_weights"]
        kept = [name for name in group.attrs["weight_names"] if b"bias/m:" not in name]
        group.attrs["weight_names"] = kept
    model = load_with_one_warning(path, ["no value for", "hidden", "out"])
    assert int(model.optimizer.iterations) == 0


def test_a_model_that_was_never_trained_is_complete(tmp_path):
    path = shutil.copy(more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        del file["optimizer_weights"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_model(path).compiled
    found = keras_policies.inspect_model(path)
    assert found.outcome is keras_policies.Outcome.COMPLETE
    assert [part.code for part in found.parts] == ["KP603"]


def test_a_restored_model_saves_and_opens_in_keras_alone(tmp_path):
    path = corpus("2.4.4/func_conv_fixed", "saved_model")
    model = load_model(path)
    model.save(tmp_path / "new.keras")
    again = keras.models.load_model(tmp_path / "new.keras")
    np.testing.assert_array_equal(
        legacy_files.outputs(again, path)[0], legacy_files.outputs(model, path)[0]
    )
    assert int(again.optimizer.iterations) == 5


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [("Huber", "delta", 0.25), ("CosineSimilarity", "axis", 0)],
)
def test_what_keras_does_not_save_of_a_loss_is_in_new_files(
    tmp_path, name, argument, value
):
    # TensorFlow 2.15 writes these configs.
    settings = {"reduction": "auto", "name": "it", argument: value, "fn": "lower"}
    metric = {"name": "c", "dtype": "float32", "axis": 0}

    def edit(config):
        config["loss"] = {"class_name": name, "config": settings}
        config["metrics"] = [[{"class_name": "CosineSimilarity", "config": metric}]]

    model = load_model(edited(tmp_path, edit))
    model.save(tmp_path / "new.keras")
    keras_policies.convert_model(tmp_path / "edited.h5", tmp_path / "made.keras")
    cls, rows = getattr(keras.losses, name), np.arange(8.0, dtype="float32") + 1
    truth, values = rows.reshape(4, 2), rows.reshape(4, 2) ** 0.5
    wanted = cls(**{argument: value})(truth, values)
    assert wanted != cls()(truth, values)
    for path in tmp_path.glob("*.keras"):
        again = keras.models.load_model(path)
        assert again.loss(truth, values) == wanted
        x = np.eye(4, dtype="float32")
        found = again.evaluate(x, truth, verbose=0, return_dict=True)["c"]
        same = keras.metrics.CosineSimilarity(axis=0)(truth, again(x))
        np.testing.assert_allclose(found, float(same), rtol=1e-5)


# Activation -> the loss, the targets, and what TensorFlow 2.15 computed for errors that
# a model with the weights 30 (and -30) is sure of: the loss, and the bias after a step.
SURE = {
    "sigmoid": ("Binary", [[0], [0], [1], [1]], 30.0121, [-0.0238]),
    "softmax": ("SparseCategorical", [[1], [1], [0], [0]], 60.0006, [-0.0249, 0.0249]),
}


@pytest.mark.each_backend("they differ")
@pytest.mark.parametrize("activation", SURE)
def test_a_crossentropy_of_logits_trains_on_errors_as_tf_keras_did(activation):
    name, targets, loss, bias = SURE[activation]
    make = getattr(keras.losses, f"{name}Crossentropy")
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(len(bias), activation)]
    )
    weights = [np.float32([[30.0, -30.0][: len(bias)]]), np.zeros(len(bias))]
    x, y = np.float32([[1], [2], [-1], [0.1]]), np.float32(targets)

    def trained(**options):
        model.set_weights(weights)
        model.compile(keras.optimizers.SGD(0.1), make(**options))
        before = model.evaluate(x, y, verbose=0)
        model.train_on_batch(x, y)
        return before, model.get_weights()[1]

    before, after = trained()
    if keras.backend.backend() == "tensorflow":
        np.testing.assert_allclose(before, loss, rtol=1e-4)
        np.testing.assert_allclose(after, bias, atol=1e-4)
    else:  # three of four are not learned from
        assert before < 13
        assert np.abs(after).max() < 2e-3
    model.layers[-1].activation = None
    before, after = trained(from_logits=True)
    np.testing.assert_allclose(before, loss, rtol=1e-4)
    np.testing.assert_allclose(after, bias, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_training_in_a_graph_is_kept_or_said_to_be_overridden(tmp_path, training):
    source = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "model.h5"
    path = shutil.copy(source, tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        layers = {layer["name"]: layer for layer in config["config"]["layers"]}
        for name in "conv_a", "bn_a":  # a convolution does the same in training
            layers[name]["inbound_nodes"][0][0][3] = {"training": training}
        file.attrs["model_config"] = json.dumps(config)
    if legacy_layers.KERAS < (3, 16):
        load_with_one_warning(path, [f"training={training} in the calls of 'bn_a', "])
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(path)


@pytest.mark.parametrize("value", [-3, 2**63 - 1, 1.5, float("nan"), True])
def test_an_impossible_count_of_iterations_is_left_out(tmp_path, value):
    path = shutil.copy(more("2.4.4/amsgrad"), tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        group = file["optimizer_weights"]
        name = next(name for name in group.attrs["weight_names"] if b"iter" in name)
        del group[name]
        group[name] = value
    model = load_with_one_warning(path, ["it has made", "iterations"])
    assert int(model.optimizer.iterations) == 0
