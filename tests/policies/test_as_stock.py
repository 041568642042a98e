"""What people do with models: as stock Keras does it, whoever made the policy.

Each test does the same to two models, one with our policies and one with those of stock
Keras, which begin with equal weights.
"""

import copy
import pickle
import warnings

import keras
import numpy as np
import pytest

import keras_policies

# The name of ours -> the stock policy that it is like, on float32 inputs.
PAIRS = {
    "mixed_float16": "mixed_float16",
    "bfloat16_with_float32_vars": "mixed_bfloat16",
    "infer": "float32",
}
# Keras 3.8 has no int4.
MODES = ["float8"] if keras.__version__.startswith("3.8.") else ["float8", "int4"]
X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
Y = np.ones((4, 2), "float32")


def network(policy):
    outputs = inputs = keras.Input((6,))
    outputs = keras.layers.Dense(4, "relu", dtype=policy, name="hidden")(outputs)
    outputs = keras.layers.LayerNormalization(dtype=policy, name="normal")(outputs)
    outputs = keras.layers.Dense(2, dtype=policy, name="last")(outputs)
    return keras.Model(inputs, outputs)


@pytest.fixture(params=PAIRS.items(), ids=PAIRS)
def models(request):
    """Return a model with our policies, and one with stock ones."""
    name, stock = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        policy = keras_policies.Policy(name, loss_scale=None)
    ours, stock = network(policy), network(stock)
    draw = np.random.default_rng(1)
    values = [draw.normal(size=weight.shape) for weight in ours.weights]
    for model in ours, stock:
        model.set_weights(values)
    return ours, stock


def same(ours, stock):
    """Compare policies, weights and outputs."""
    for own, other in zip(ours.layers, stock.layers, strict=True):
        assert own.compute_dtype == other.compute_dtype
        assert own.variable_dtype == other.variable_dtype
        assert own.quantization_mode == other.quantization_mode
    assert [w.path for w in ours.weights] == [w.path for w in stock.weights]
    for own, other in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_array_equal(own, other)
    results = [model.predict(X, verbose=0) for model in (ours, stock)]
    assert np.any(results[0])
    np.testing.assert_array_equal(*results)


def quantize(model, mode):
    for name in "hidden", "last":
        model.get_layer(name).quantize(mode)


@pytest.mark.slow("quantizing")
@pytest.mark.each_backend("stock quantizing is compared")
def test_int8_does_not_go_with_float16(models):
    for model in models:
        if model.get_layer("last").compute_dtype == "float16":
            with pytest.raises(ValueError, match="work well with compute_dtype"):
                quantize(model, "int8")
        else:
            quantize(model, "int8")
    same(*models)


@pytest.mark.slow("quantizing")
@pytest.mark.each_backend("stock quantizing is compared")
@pytest.mark.parametrize("mode", MODES)
def test_quantized(models, mode):
    for model in models:
        quantize(model, mode)
    assert models[0].get_layer("last").quantization_mode == mode
    same(*models)


def test_quantized_saved_and_read(models, tmp_path):
    read = []
    for model, name in zip(models, ("ours", "stock"), strict=True):
        quantize(model, "float8")
        model.save(tmp_path / f"{name}.keras")
        read.append(keras.models.load_model(tmp_path / f"{name}.keras"))
    assert read[0].get_layer("last").quantization_mode == "float8"
    same(*read)


def test_trained_with_lora(models):
    for model in models:
        for number, layer in enumerate((model.layers[1], model.layers[3])):
            layer.enable_lora(2)
            drawn = np.random.default_rng(number).normal(size=layer.lora_kernel_a.shape)
            layer.lora_kernel_a.assign(drawn)
        model.compile(keras.optimizers.SGD(0.01), "mse")
        before = model.get_layer("last").lora_kernel_b.numpy()
        model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
        assert np.any(model.get_layer("last").lora_kernel_b.numpy() != before)
    same(*models)


def test_cloned(models):
    clones = [keras.models.clone_model(model) for model in models]
    for clone, model in zip(clones, models, strict=True):
        clone.set_weights(model.get_weights())
    same(*clones)
    same(clones[0], models[0])


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["deepcopy", "pickle"],
)
def test_copied(models, copied):
    same(*map(copied, models))
    same(copied(models[0]), models[0])


def test_exported(models, tmp_path):
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() == "torch":  # stock Keras 3.15 cannot, with torch 2.13
        for model in models:
            with pytest.raises(Exception, match="dynamic_shapes"):
                model.export(tmp_path / "x", format="tf_saved_model", verbose=False)
        return
    results = []
    for model, name in zip(models, ("ours", "stock"), strict=True):
        path = str(tmp_path / name)
        model.export(path, format="tf_saved_model", verbose=False)
        loaded = tf.saved_model.load(path)
        results.append(loaded.serve(X).numpy())
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], models[0].predict(X, verbose=0), atol=0.05)
