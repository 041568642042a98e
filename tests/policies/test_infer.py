import copy
import json
import warnings

import keras
import numpy as np
import pytest
from keras import ops
from semantics import SEMANTICS

import keras_policies as mp

LAYER = SEMANTICS["2.0.0"]["infer"]["layer"]
BACKEND = keras.backend.backend()
# torch and numpy know float64 inputs; JAX makes them float32.
DTYPES = ["float16", "float32"] + ([] if BACKEND == "jax" else ["float64"])


@pytest.fixture
def infer():
    return mp.Policy("infer")


@pytest.fixture
def infer32():
    with pytest.warns(DeprecationWarning, match="mixed_float16"):
        return mp.Policy("infer_with_float32_vars")


def ones(shape, dtype):
    return ops.ones(shape, dtype=dtype)


def dtype_of(x):
    return keras.backend.standardize_dtype(x.dtype)


# Recorded name -> (layer, input shapes), for the layers that tf.keras 2.0 settled.
RECORDED = {
    "Activation": (lambda p: keras.layers.Activation("relu", dtype=p), [(2, 3)]),
    "Dense": (lambda p: keras.layers.Dense(2, dtype=p), [(2, 3)]),
    "Flatten": (lambda p: keras.layers.Flatten(dtype=p), [(2, 3)]),
    "Dropout": (lambda p: keras.layers.Dropout(0.5, dtype=p), [(2, 3)]),
    "BatchNormalization": (
        lambda p: keras.layers.BatchNormalization(dtype=p),
        [(2, 3)],
    ),
    "Conv2D": (lambda p: keras.layers.Conv2D(2, 2, dtype=p), [(2, 4, 4, 1)]),
    "Add": (lambda p: keras.layers.Add(dtype=p), [(2, 3), (2, 3)]),
    "Multiply": (lambda p: keras.layers.Multiply(dtype=p), [(2, 3), (2, 3)]),
    "Concatenate": (lambda p: keras.layers.Concatenate(dtype=p), [(2, 3), (2, 3)]),
}


def recorded_cases():
    for name, (make, shapes) in RECORDED.items():
        for key, truth in LAYER[name].items():
            dtypes = [d.removeprefix("tf ") for d in key.split(", ")]
            known = [d for d in dtypes if d in DTYPES]
            if "policy" in truth and known == dtypes and len(dtypes) == len(shapes):
                yield pytest.param(make, shapes, dtypes, truth, id=f"{name}-{key}")


@pytest.mark.parametrize(("make", "shapes", "dtypes", "truth"), list(recorded_cases()))
def test_layers_settle_as_recorded(make, shapes, dtypes, truth, infer):
    layer = make(infer)
    assert layer.dtype_policy == infer
    inputs = [ones(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    layer(inputs if len(inputs) > 1 else inputs[0])
    assert layer.dtype_policy.name == truth["policy"]
    assert layer.compute_dtype == truth["compute_dtype"]
    assert layer.variable_dtype == truth["variable_dtype"]


def test_enough_recorded_cases_are_replayed():
    assert len(list(recorded_cases())) >= 20


@pytest.mark.parametrize("as_input", ["eager", "numpy", "symbolic"])
def test_first_input_decides(as_input, infer, infer32):
    x = {
        "eager": lambda: ones((2, 3), "float16"),
        "numpy": lambda: np.ones((2, 3), "float16"),
        "symbolic": lambda: keras.Input((3,), dtype="float16"),
    }[as_input]()
    layer, layer32 = (
        keras.layers.Dense(2, dtype=infer),
        keras.layers.Dense(2, dtype=infer32),
    )
    assert dtype_of(layer(x)) == dtype_of(layer32(x)) == "float16"
    assert layer.dtype_policy.name == "float16"
    assert layer.kernel.dtype == "float16"
    assert layer32.dtype_policy.name == "float16_with_float32_vars"
    assert layer32.kernel.dtype == "float32"


def test_the_dtype_is_kept(infer):
    layer = keras.layers.Dense(2, dtype=infer)
    layer(ones((2, 3), "float16"))
    assert dtype_of(layer(ones((2, 3), "float32"))) == "float16"


def test_one_policy_serves_many_layers(infer):
    a, b = keras.layers.Dense(2, dtype=infer), keras.layers.Dense(2, dtype=infer)
    a(ones((2, 3), "float16"))
    b(ones((2, 3), "float32"))
    assert (a.dtype_policy.name, b.dtype_policy.name) == ("float16", "float32")
    assert infer.name == "infer"
    assert infer.compute_dtype is None


def test_infer_as_the_global_policy(infer):
    mp.set_policy(infer)
    a, b = keras.layers.Dense(2), keras.layers.Dense(2)
    a(ones((2, 3), "float16"))
    b(ones((2, 3), "float32"))
    assert (a.kernel.dtype, b.kernel.dtype) == ("float16", "float32")
    assert mp.global_policy() is infer


def test_infer_assigned_to_a_layer(infer):
    layer = keras.layers.Dense(2)
    layer.dtype_policy = infer
    layer(ones((2, 3), "float16"))
    assert layer.kernel.dtype == "float16"


@pytest.mark.parametrize("where", ["default", "pattern"])
def test_infer_in_a_policy_map(where, infer):
    entries = {"b.*": infer} if where == "pattern" else {}
    default = infer if where == "default" else keras.DTypePolicy("float32")
    policies = keras.dtype_policies.DTypePolicyMap(default, dict(entries))
    layers = [keras.layers.Dense(2, dtype=policies, name=n) for n in ("b1", "b2", "c")]
    for layer, dtype in zip(layers, ["float16", "float32", "float32"], strict=True):
        layer(ones((2, 3), dtype))
    assert [x.compute_dtype for x in layers] == ["float16", "float32", "float32"]
    assert [x.kernel.dtype for x in layers] == ["float16", "float32", "float32"]
    assert dict(policies) == entries


def test_first_tensor_counts_and_the_others_are_cast(infer):
    layer = keras.layers.Add(dtype=infer)
    y = layer([ones((2, 3), "float16"), ones((2, 3), "float32")])
    assert dtype_of(y) == "float16"


class Reverse(keras.layers.Layer):
    def call(self, x, other=None, flag=2.0):
        return x + other * flag


def test_keyword_tensors_come_after_positional_ones(infer):
    layer = Reverse(dtype=infer)
    layer(ones((2,), "float16"), other=ones((2,), "float32"))
    assert layer.dtype_policy.name == "float16"


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_integers_settle_a_layer_without_weights(dtype, infer, infer32):
    for policy in infer, infer32:
        layer = keras.layers.Flatten(dtype=policy)
        assert dtype_of(layer(ones((2, 3), dtype))) == dtype
        assert layer.dtype_policy.name == dtype


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda p: keras.layers.Embedding(4, 2, dtype=p), id="embedding"),
        pytest.param(lambda p: keras.layers.Dense(2, dtype=p), id="dense"),
        pytest.param(
            lambda p: keras.layers.TimeDistributed(
                keras.layers.Embedding(4, 2, dtype=p), dtype=p
            ),
            id="time-distributed",
        ),
    ],
)
def test_integers_settle_a_layer_with_weights_on_floatx(make, infer, infer32):
    for policy, name in (infer, "float32"), (infer32, "float32"):
        layer = make(policy)
        layer(ones((2, 3, 4), "int32"))
        assert layer.dtype_policy.name == name
        assert {w.dtype for w in layer.weights} == {"float32"}


class Scaled(keras.layers.Layer):
    def build(self, ids_shape, x_shape):
        self.w = self.add_weight(shape=(), initializer="ones")

    def call(self, ids, x):
        assert dtype_of(x) == self.compute_dtype
        return self.w * x


def test_floats_after_integers_are_cast_from_the_first_call_on(infer):
    layer = Scaled(dtype=infer)
    y = layer(ones((2,), "int32"), ones((2,), "float16"))
    assert dtype_of(y) == "float32"


COMPOSITES = {
    "mha": lambda p: keras.layers.MultiHeadAttention(2, 2, dtype=p),
    "gru": lambda p: keras.layers.GRU(2, recurrent_initializer="zeros", dtype=p),
    "rnn-cell": lambda p: keras.layers.RNN(
        keras.layers.SimpleRNNCell(2, recurrent_initializer="zeros", dtype=p), dtype=p
    ),
    "stacked-cells": lambda p: keras.layers.RNN(
        keras.layers.StackedRNNCells(
            [
                keras.layers.SimpleRNNCell(2, recurrent_initializer="zeros", dtype=p)
                for _ in range(2)
            ],
            dtype=p,
        ),
        dtype=p,
    ),
    "time-distributed": lambda p: keras.layers.TimeDistributed(
        keras.layers.Dense(2, dtype=p), dtype=p
    ),
    "spectral": lambda p: keras.layers.SpectralNormalization(
        keras.layers.Dense(2, dtype=p), dtype=p
    ),
}


@pytest.mark.parametrize("where", ["global", "own"])
def test_the_copies_of_a_bidirectional_follow_the_global_policy(where, infer):
    mp.set_policy(infer if where == "global" else None)
    rnn = keras.layers.SimpleRNN(2, recurrent_initializer="zeros", dtype=infer)
    layer = keras.layers.Bidirectional(rnn, dtype=infer)
    layer(ones((2, 3, 4), "float16"))
    expected = "float16" if where == "global" else "float32"
    assert layer.forward_layer.compute_dtype == expected
    assert layer.backward_layer.compute_dtype == expected


def call_composite(layer, x):
    return (
        layer(x, x) if isinstance(layer, keras.layers.MultiHeadAttention) else layer(x)
    )


@pytest.mark.parametrize("name", COMPOSITES)
def test_parts_settle_with_the_layer_that_builds_them(name, infer, infer32):
    for policy, settled, variable in (
        (infer, "float16", "float16"),
        (infer32, "float16_with_float32_vars", "float32"),
    ):
        layer = COMPOSITES[name](policy)
        assert dtype_of(call_composite(layer, ones((2, 3, 4), "float16"))) == "float16"
        names = {p.dtype_policy.name for p in layer._flatten_layers()}
        # Parts that Keras neither builds nor calls may go on waiting.
        assert names <= {settled, policy.name}
        assert layer.dtype_policy.name == settled
        floats = {w.dtype for w in layer.weights if "float" in w.dtype}
        assert floats == {variable}


class Composite(keras.layers.Layer):
    def __init__(self, policy, **kwargs):
        super().__init__(dtype=policy, **kwargs)
        self.inner = keras.layers.Dense(2, dtype=policy)

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        return self.inner(x)


def test_part_built_by_a_layer_with_a_dtype_of_its_own(infer):
    layer = Composite(infer)
    layer.dtype_policy = "bfloat16"
    layer.build((None, 3))
    assert layer.inner.kernel.dtype == "bfloat16"


def test_layer_built_by_hand_settles_on_floatx(infer):
    layer = Composite(infer)
    layer.build((None, 3))
    assert layer.dtype_policy.name == layer.inner.dtype_policy.name == "float32"
    flat = keras.layers.Flatten(dtype=infer)
    flat.build((None, 3))
    assert flat.dtype_policy.name == "infer"


@pytest.mark.parametrize(
    ("dtype", "compute"), [("float16", "float16"), ("int32", "float32")]
)
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(lambda p: keras.layers.Dense(2, dtype=p), (1, 3), id="dense"),
        pytest.param(lambda p: Composite(p), (1, 3), id="parts"),
        pytest.param(lambda p: keras.layers.GRU(2, dtype=p), (1, 3, 4), id="cell"),
    ],
)
def test_float32_variables_wait_for_the_call_of_a_built_layer(
    make, shape, dtype, compute, infer32
):
    layer = make(infer32)
    layer.build(shape)
    assert layer.dtype_policy.name == "infer_with_float32_vars"
    assert dtype_of(layer(ones(shape, dtype))) == compute
    assert layer.compute_dtype == compute
    assert {w.dtype for w in layer.trainable_weights} == {"float32"}
    parts = [getattr(layer, name, layer) for name in ("cell", "inner")]
    assert {part.compute_dtype for part in parts} == {compute}


def test_weight_in_the_constructor_settles_on_floatx(infer):
    class Early(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.counter = self.add_weight(shape=(), dtype="int32", trainable=False)
            before = self.dtype_policy.name
            self.w = self.add_weight(shape=())
            self.seen = before

    layer = Early(dtype=infer)
    assert (layer.seen, layer.dtype_policy.name, layer.w.dtype) == (
        "infer",
        "float32",
        "float32",
    )


def test_sequential_and_functional_models_under_infer(infer):
    mp.set_policy(infer)
    x = ones((2, 3), "float16")
    sequential = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    assert dtype_of(sequential(x)) == "float16"
    assert [w.dtype for w in sequential.weights] == ["float16"] * 4
    inputs = keras.Input((3,), dtype="float16")
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Dense(2)(inputs)))
    assert dtype_of(model(x)) == "float16"
    assert dtype_of(model.predict(np.ones((2, 3), "float16"), verbose=0)) == "float16"


def test_subclassed_model_trains_under_infer(infer):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.b = keras.layers.Dense(4), keras.layers.Dense(1)

        def call(self, x):
            return self.b(self.a(x))

    mp.set_policy(infer)
    model = Model()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(np.ones((4, 3), "float32"), np.ones((4, 1), "float32"), verbose=0)
    assert {w.dtype for w in model.weights} == {"float32"}


def compiled(function):
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function)
    return function


def test_settles_inside_compiled_code(infer):
    layer = keras.layers.Activation("relu", dtype=infer)
    assert dtype_of(compiled(layer)(ones((2,), "float16"))) == "float16"
    assert layer.dtype_policy.name == "float16"


def test_settles_inside_a_scan(infer):
    layer = keras.layers.Activation("relu", dtype=infer)
    steps = ops.ones((3, 2), dtype="float16")
    ops.scan(lambda c, x: (layer(c + x), x), steps[0], steps)
    assert layer.dtype_policy.name == "float16"


def test_layer_without_tensors_goes_on_waiting(infer):
    class Constant(keras.layers.Layer):
        def call(self, x=None):
            return ops.ones((1,))

    layer = Constant(dtype=infer)
    layer()
    assert layer.dtype_policy == infer


def test_super_init_not_called_is_told_as_by_keras():
    class Bad(keras.layers.Layer):
        def __init__(self):
            pass

        def call(self, x):
            return x

    with pytest.raises(RuntimeError, match="forgot to call"):
        Bad()(ones((2,), "float32"))
    with pytest.raises(RuntimeError, match="forgot to call"):
        Bad().add_weight(shape=())


def rebuilt(layer):
    return type(layer).from_config(layer.get_config())


def from_dict(layer):
    config = keras.saving.serialize_keras_object(layer)
    return keras.saving.deserialize_keras_object(config)


def cloned_in_a_model(layer):
    model = keras.models.clone_model(keras.Sequential([layer]))
    return model.layers[0]


COPIES = copy.deepcopy, rebuilt, from_dict, cloned_in_a_model


@pytest.mark.parametrize("name", ["infer", "infer_with_float32_vars"])
@pytest.mark.parametrize("copied", COPIES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "wrapped"])
@pytest.mark.parametrize("where", ["global", "own"])
def test_copies_of_an_unsettled_layer_follow_the_global_policy_as_files_do(
    name, copied, wrapped, where
):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = mp.Policy(name, loss_scale=8)
    mp.set_policy(policy if where == "global" else None)
    layer = keras.layers.Dense(2, dtype=None if where == "global" else policy)
    if wrapped:
        layer = keras.layers.TimeDistributed(layer, dtype=layer.dtype_policy)
    again = copied(layer)
    assert again is not layer
    inner = again.layer if wrapped else again
    assert inner.dtype_policy == again.dtype_policy == keras.config.dtype_policy()
    again(np.ones((1, 3, 4), "float16"))
    expected = "float16" if where == "global" else "float32"
    assert inner.compute_dtype == expected


def test_a_settled_layers_copy_is_settled():
    layer = keras.layers.Dense(2, dtype=mp.Policy("infer"))
    layer(np.ones((1, 4), "float16"))
    for copied in copy.deepcopy, rebuilt:
        assert copied(layer).dtype_policy.name == "float16"


def test_the_file_of_an_unsettled_layer_follows_the_global_policy():
    layer = keras.layers.Dense(2, dtype=mp.Policy("infer"))
    text = json.dumps(layer.get_config())
    assert '"config": {"name": null}' in text
    assert keras.layers.Dense.from_config(json.loads(text)).dtype_policy.name == (
        "float32"
    )
    mp.set_policy("infer")
    read = keras.layers.Dense.from_config(json.loads(text))
    assert read.dtype_policy is mp.global_policy()
