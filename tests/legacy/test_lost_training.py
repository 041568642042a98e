"""Layers whose classes are lost train as they did: losses, regularizers, dropout."""

import functools
import types
import warnings

import keras
import legacy_files
import lost_files
import numpy as np
import pytest

from keras_policies import convert_model, keras_internals, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy.base.traced_functions import Function, Node
from keras_policies.legacy.plan.reconstruction import in_training

# Of jax, which has no int64: labels of a CTC loss have it.
pytestmark = pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
RELEASES = [
    release
    for release in ("2.15.1", "2.4.4")
    if legacy_files.IS_THOROUGH or release == legacy_files.NEWEST
]
TABLES = "-training", "-gradients"
# What each case adds on the recorded inputs, where that is not what TensorFlow added.
OTHER_LOSSES = {
    "loss_in_training_only": 0.399452,  # in inference, too
    "loss_by_an_unknown_op": 0.0,  # which is said
    "negative_loss": 0.438788,  # its gradients have the right sign
}


def named(*names):
    """Return the cases of each release."""
    return [
        f"{release}/{name}"
        for release in RELEASES
        for name in lost_files.names(release, tables=TABLES)
        if name in names or not names
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for name in RELEASES for path in lost_files.archives(name, TABLES)]
    return legacy_files.unpacked(tmp_path_factory.mktemp("training"), archives)


def opened_anew(folder, name):
    """Return a case, its model, and what the warnings say."""
    case = lost_files.of(folder, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(case.model, verify=True)
    return case, model, " ".join(str(warning.message) for warning in caught)


opened = functools.cache(opened_anew)  # several tests look at one model


@pytest.mark.parametrize("name", named())
def test_a_model_adds_the_losses_that_tensorflow_added(folder, name):
    case, model, said = opened(folder, name)
    found = keras.tree.flatten(model(case.inputs(), training=False))
    total = sum(map(float, map(keras.ops.convert_to_numpy, model.losses)))
    short = name.rpartition("/")[2]
    expected = OTHER_LOSSES.get(short, float(case.stored["losses"].sum()))
    assert total == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert "losses that its layers add" not in said
    if not case.about["random_outputs"]:
        for one, other in zip(found, case.arrays("y_"), strict=True):
            found = keras.ops.convert_to_numpy(one)
            np.testing.assert_allclose(found, other, atol=1e-5)


TRAINED = [
    name
    for name in named()
    if not name.endswith(
        (
            "_by_ops",
            "_inside",
            "_a_switch",
            "_hand",
            "_only",
            "_twice",
            "autoencoder",
            "binary_dense",
            "gradient_clipped",
            "gradient_reversal",
            "unknown_op",
        )
    )
    and "encoder" not in name
]


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_with_its_losses_moves_each_weight_as_tensorflow_did(folder, name):
    case, model, _ = opened(folder, name)
    x, (target,) = case.inputs(), case.arrays("t_")
    before, after = case.arrays("w_"), case.arrays("a_")
    variables, others = model.trainable_variables, model.non_trainable_variables
    target = keras.ops.convert_to_tensor(target)

    def loss(values):
        y, _, losses = model.stateless_call(
            values, [v.value for v in others], x, training=True, return_losses=True
        )
        return keras.ops.mean(keras.ops.square(y - target)) + sum(losses)

    gradients = backend.gradients(loss, [v.value for v in variables])
    assert len(variables) == len(case.about["trainable"])
    for variable, gradient in zip(variables, gradients, strict=True):
        own = variable.numpy()
        (number,) = (
            i for i, w in enumerate(before) if np.array_equal(w.ravel(), own.ravel())
        )
        moved = max(float(np.max(np.abs(after[number] - before[number]))), 1e-3)
        found, expected = own - 0.1 * gradient, after[number].reshape(own.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4 * moved)


# Case -> the layers that draw, with their rate and the shape of the draws.
DRAWN = {
    "bernoulli_dropout_and_a_switch": {("Dropout", 0.25, None)},
    "drop_path_by_ops": {("Dropout", 0.3, (None, 1, 1))},
    "dropout_by_ops": {("Dropout", 0.4, None)},
    "dropout_inside": {("Dropout", 0.5, None)},
    "dropout_of_rows_by_ops": {("Dropout", 0.4, (None, 1, None))},
    "encoder_with_dropout": {("Dropout", 0.25, None), ("Dropout", 0.5, None)},
    "gaussian_noise_by_ops": {("GaussianNoise", None, None)},
    "generator_noise_by_ops": {("GaussianNoise", None, None)},
}


@pytest.mark.parametrize("name", named(*DRAWN))
def test_dropout_by_ops_becomes_the_layer(folder, name):
    case, model, said = opened(folder, name)
    layers = keras_internals.sublayers(model)
    configs = [(type(layer).__name__, layer.get_config()) for layer in layers]
    found = {
        (kind, config.get("rate"), config.get("noise_shape"))
        for kind, config in configs
        if kind in ("Dropout", "GaussianNoise")
    }
    found = {(kind, rate, shape and tuple(shape)) for kind, rate, shape in found}
    assert found == DRAWN[name.rpartition("/")[2]]
    assert "in training was not all recognized" not in said
    (x,) = case.arrays("x_")
    drawn = [keras.ops.convert_to_numpy(model(x, training=True)) for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


def test_a_random_change_of_images_is_the_stock_layer(folder):
    case, model, said = opened(folder, "2.15.1/random_flip_inside")
    layers = [type(layer).__name__ for layer in keras_internals.sublayers(model)]
    assert "RandomFlip" in layers
    assert "in training was not all recognized" not in said
    (x,) = case.arrays("x_")
    many = np.tile(x[:1], (50, 1, 1, 1))
    found = keras.ops.convert_to_numpy(model(many, training=True))
    plain = keras.ops.convert_to_numpy(model(many[:1], training=False))
    is_same = np.abs(found - plain).max((1, 2, 3)) < 1e-5
    is_flipped = np.abs(found - plain[:, :, ::-1]).max((1, 2, 3)) < 1e-5
    assert np.all(is_same | is_flipped)
    assert 5 < is_flipped.sum() < 45


# RandomFlip of 2.4 held no generator: nothing tells its nodes from others.
NAMED = {*named("random_crop_inside", "random_flip_inside")}


@pytest.mark.parametrize("name", sorted(NAMED - {"2.15.1/random_flip_inside"}))
def test_other_random_changes_are_left_out_of_training_and_named(folder, name):
    _, _, said = opened(folder, name)
    assert "what these layers did in training was not all recognized" in said


# Case -> the layer that is named, whose gradient was that of another function.
OWN_GRADIENTS = {
    "binary_dense": "'binary_dense'",
    "gradient_clipped": "'clipped'",
    "gradient_reversal": "'reversal'",
    "swish_dense": None,
    "bernoulli_dropout_and_a_switch": None,
}


# The result's gradient times a function: kept where it is recorded.
RECORDED = ("gradient_reversal",)


@pytest.mark.parametrize("name", named(*OWN_GRADIENTS))
def test_a_gradient_of_its_own_is_named_where_keras_computes_another(folder, name):
    _, _, said = opened(folder, name)
    release, _, case = name.partition("/")
    is_kept = case in RECORDED and release == "2.15.1"
    layer = None if is_kept else OWN_GRADIENTS[case]
    told = "had a gradient of their own, and train with the gradient of their formula"
    assert (told in said) == (layer is not None)
    assert layer is None or f"{told}: {layer}" in said


@pytest.mark.parametrize("name", named("loss_by_an_unknown_op"))
def test_a_loss_that_cannot_be_had_is_called_a_loss(folder, name):
    _, _, said = opened(folder, name)
    assert "counterpart in Keras 3, and the model trains without them: 'beta'" in said
    assert "in training was not all recognized" not in said


@pytest.mark.parametrize("name", named("function_as_initializer"))
def test_functions_that_only_training_needs_are_left_out_and_named(folder, name):
    _, _, said = opened(folder, name)
    assert "the missing initializer drawn of 'dense'" in said


@pytest.mark.parametrize("name", named("attention_over_steps"))
def test_the_output_of_a_rebuilt_layer_is_reached_as_the_page_says(folder, name):
    case, model, _ = opened(folder, name)
    output = keras.Operation.output.fget(model.get_layer("attention"))
    features = keras.Model(model.input, output)(case.inputs())
    (y,) = case.arrays("y_")
    found = keras.ops.convert_to_numpy(model.layers[-1](features))
    np.testing.assert_allclose(found, y, atol=1e-5)


@pytest.mark.parametrize("name", named("dropout_by_ops"))
def test_the_share_that_is_dropped_is_the_recorded_one(folder, name):
    case, model, _ = opened(folder, name)
    (x,) = case.arrays("x_")
    many = np.tile(x, (500, 1, 1))
    kept = keras.ops.convert_to_numpy(model(many, training=True)) != many
    assert np.mean(kept) == pytest.approx(0.6, abs=0.01)  # x + dropout(dense(x), 0.4)


@pytest.mark.parametrize("name", named("normalization_by_hand"))
def test_batch_normalization_by_hand_becomes_the_layer(folder, name):
    case, model, said = opened_anew(folder, name)
    layer = model.get_layer("moving_statistics")
    assert isinstance(layer, keras.layers.BatchNormalization)
    assert (layer.momentum, layer.epsilon) == (0.9, 0.001)
    assert "in training was not all recognized" not in said
    (x,) = case.arrays("x_")
    before = [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
    model(x, training=True)
    found = [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
    for old, new, batch in zip(before, found, (x.mean(0), x.var(0)), strict=True):
        np.testing.assert_allclose(new, 0.9 * old + 0.1 * batch, rtol=1e-5)


@pytest.mark.parametrize("name", named("vector_quantizer", "regularized_by_both"))
def test_a_converted_file_adds_the_same_losses_in_plain_keras(
    folder, name, tmp_path, plain_keras
):
    case = lost_files.of(folder, name)
    convert_model(case.model, tmp_path / "model.keras")
    _, losses = plain_keras(tmp_path / "model.keras", case.inputs())
    expected = float(case.stored["losses"].sum())
    assert sum(map(float, losses)) == pytest.approx(expected, rel=1e-5)


def test_other_losses_than_those_of_the_graph_are_named(folder, monkeypatch):
    monkeypatch.setattr(
        "keras_policies.legacy.plan.reconstruction.losses.added",
        lambda steps, outputs, losses: outputs,
    )
    *_, said = opened_anew(folder, f"{legacy_files.NEWEST}/vector_quantizer")
    assert "losses that its layers add in training differ: they are 0 on inputs" in said


@pytest.mark.parametrize("name", named("regularized_by_both"))
def test_a_regularizer_is_the_stock_one_with_its_factors(folder, name):
    _, model, _ = opened(folder, name)
    (weight,) = model.trainable_variables
    config = weight.regularizer.get_config()
    assert config == {"l1": pytest.approx(0.1), "l2": pytest.approx(0.2)}


@pytest.mark.parametrize("name", named("regularized_by_mean"))
def test_a_mean_over_a_weight_is_no_stock_regularizer(folder, name):
    _, model, _ = opened(folder, name)
    assert model.trainable_variables[0].regularizer is None
    kinds = {type(layer).__name__ for layer in keras_internals.sublayers(model)}
    assert "ActivityRegularization" in kinds


def test_looking_for_random_ops_is_charged_by_the_nodes_looked_at(monkeypatch):
    """As much as a step of a program costs, it took half of the limit of a file."""
    charged = []
    monkeypatch.setattr(in_training.budget, "work", charged.append)
    nodes = {name: Node(name, "Relu", (), {}) for name in ("a", "b", "c", "d")}
    function = Function("layer", (), nodes, ())
    traced = types.SimpleNamespace(functions={"layer": function})
    assert in_training.bodies(traced, "layer") == [nodes]
    assert charged == [4 * 0.5]
