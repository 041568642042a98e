"""tf.keras's tests of layers with policies."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from peer import (
    BACKEND,
    Add,
    Identity,
    documented,
    dtype_of,
    minimize,
    numbers,
    stands_for,
    tensor,
)

import keras_policies as mp
from keras_policies import LossScaleOptimizer
from keras_policies.experimental import get_layer_policy


@pytest.fixture
def x():
    return tensor([1.0])


@stands_for("layer_test", "test_mixed_policies_")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_policies(dtype, x):
    with mp.policy_scope(f"mixed_{dtype}"):
        layer = Add()
    for _ in range(2):
        y = layer(x)
        assert layer.seen == (dtype, dtype)
        assert (layer.dtype, layer.variable_dtype) == ("float32", "float32")
        assert layer.compute_dtype == dtype_of(y) == dtype
        assert layer.v.dtype == "float32"
        assert get_layer_policy(layer).name == f"mixed_{dtype}"
        assert isinstance(layer.dtype_policy, mp.Policy)
        assert numbers(ops.cast(y, "float32")) == [2.0]


@stands_for("layer_test", "test_layer_with_int_variable")
def test_an_integer_variable_is_not_cast(x):
    class Counting(keras.layers.Layer):
        def build(self, shape):
            self.v = self.add_weight(shape=(), dtype="int32", trainable=False)

        def call(self, x):
            return ops.cast(x, "int32") + self.v

    assert dtype_of(Counting(dtype=mp.Policy("mixed_float16"))(x)) == "int32"


@stands_for("layer_test", "test_layer_with_non_autocast_variable")
def test_a_variable_that_is_not_cast_stays_float32(x):
    layer = Add(autocast_weight=False, dtype=mp.Policy("mixed_float16"))
    y = layer(x)
    assert layer.seen == ("float16", "float32")
    assert (layer.v.dtype, dtype_of(y), numbers(y)) == ("float32", "float16", [2.0])


@stands_for("layer_test", "test_layer_calling_tf_function")
@pytest.mark.skipif(BACKEND == "torch", reason="a compiled function")
def test_a_layer_that_calls_a_compiled_function(x):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        add = tf.function(lambda a, b: a + b)
    else:
        import jax

        add = jax.jit(lambda a, b: a + b)

    class Compiled(Add):
        def call(self, x):
            return add(x, ops.convert_to_tensor(self.v))

    layer = Compiled(dtype=mp.Policy("mixed_float16"))
    y = layer(x)
    assert (layer.v.dtype, dtype_of(y), numbers(y)) == ("float32", "float16", [2.0])


@stands_for("layer_test", "test_layer_regularizer_runs_in_var_dtype")
@pytest.mark.parametrize("autocast", [True, False])
def test_a_regularizer_computes_in_the_dtype_of_the_variable(autocast, x):
    layer = Add(Identity(), autocast, dtype=mp.Policy("mixed_float16"))
    layer(x)
    (loss,) = layer.losses
    assert (dtype_of(loss), numbers(loss)) == ("float32", 1.0)


@stands_for("layer_test", "test_passing_policy_to_layer")
def test_a_policy_that_is_passed_overrides_the_global_one():
    x = tensor([1.0], "float16")
    assert Add(dtype=mp.Policy("mixed_float16")).dtype == "float32"
    with mp.policy_scope("mixed_float16"):
        layer = Add(dtype=mp.Policy("bfloat16"))
    assert dtype_of(layer(x)) == "bfloat16"
    assert (layer.dtype_policy.name, layer.compute_dtype) == ("bfloat16", "bfloat16")
    assert (layer.dtype, layer.v.dtype) == ("bfloat16", "bfloat16")


@stands_for("layer_test", "test_error_passing_policy_string_to_layer")
@documented("Names of policies")
def test_the_name_of_a_mixed_policy_is_no_dtype():
    with pytest.raises(TypeError, match="Cannot convert value 'mixed_float16'"):
        Add(dtype="mixed_float16")


@stands_for("layer_test", "test_gradient")
def test_the_update_is_made_in_float32(x):
    layer = Add(dtype=mp.Policy("mixed_float16"))
    layer(x)
    # A float16 variable of 1 would not change by so little.
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(2**-14), 1)
    minimize(optimizer, lambda: layer(x), [layer.v])
    assert float(layer.v.numpy()) == 1 - 2**-14


@stands_for("layer_test", "test_checkpointing_layer_weights")
@pytest.mark.parametrize("saved", ["mixed_float16", "float32"])
@pytest.mark.parametrize("loaded", ["mixed_float16", "float32"])
def test_weights_go_from_one_policy_to_another(saved, loaded, tmp_path, x):
    def model(policy, value):
        with mp.policy_scope(policy):
            layer = Add()
            made = keras.Sequential([keras.Input((1,)), layer])
        made.set_weights([np.array(value)])
        return made

    model(saved, 100.0).save_weights(tmp_path / "m.weights.h5")
    other = model(loaded, 200.0)
    assert numbers(ops.cast(other(x[None]), "float32")) == [[201.0]]
    other.load_weights(tmp_path / "m.weights.h5")
    assert numbers(ops.cast(other(x[None]), "float32")) == [[101.0]]
    assert [float(w) for w in other.get_weights()] == [100.0]


@stands_for("layer_test", "test_config", "test_config_policy_v1")
@pytest.mark.parametrize(
    ("dtype", "computes", "holds"),
    [
        (None, "float32", "float32"),
        ("bfloat16", "bfloat16", "bfloat16"),
        (mp.Policy("float16"), "float16", "float16"),
        (mp.Policy("mixed_float16"), "float16", "float32"),
        (mp.Policy("mixed_float16", loss_scale=None), "float16", "float32"),
        (mp.Policy("float16", loss_scale=2.0), "float16", "float16"),
    ],
)
def test_a_layer_made_from_its_config_has_the_same_dtypes(dtype, computes, holds):
    layer = Add.from_config(Add(dtype=dtype).get_config())
    assert dtype_of(layer(tensor([1.0], "float16"))) == computes
    assert (layer.dtype, layer.v.dtype) == (holds, holds)


@stands_for("layer_test", "test_config")
@documented("What is saved")
@pytest.mark.parametrize("name", ["float16", "float32"])
def test_a_config_holds_the_name_of_the_dtype(name):
    assert Add(dtype=mp.Policy(name)).get_config()["dtype"] == name


@stands_for("layer_test", "test_config")
def test_an_infer_layer_from_a_config_follows_the_global_policy():
    layer = Add.from_config(Add(dtype=mp.Policy("infer")).get_config())
    assert dtype_of(layer(tensor([1.0], "float16"))) == "float32"


@stands_for("layer_test", "test_config")
def test_an_infer_layer_that_goes_through_json_follows_the_global_policy():
    config = json.loads(json.dumps(Add(dtype=mp.Policy("infer")).get_config()))
    layer = Add.from_config(config)
    assert dtype_of(layer(tensor([1.0], "float16"))) == "float32"


@stands_for("layer_test", "test_delete_variable")
def test_a_variable_is_deleted():
    layer = keras.layers.Layer(dtype=mp.Policy("mixed_float16"))
    layer.x = layer.add_weight(shape=())
    assert layer.trainable_weights == [layer.x]
    del layer.x
    assert layer.trainable_weights == []


@stands_for("layer_test", "test_build_and_call_layer_in_function")
@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.function creates variables")
def test_a_layer_is_built_and_called_in_a_function():
    import tensorflow as tf

    layer = Add(dtype=mp.Policy("mixed_float16"))
    y = tf.function(lambda: layer(tf.constant([1.0])))()
    assert (dtype_of(y), layer.v.dtype, numbers(y)) == ("float16", "float32", [2.0])


@stands_for("layer_test", "test_passing_policy_to_layer")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.filterwarnings("ignore:The 'infer_with_float32_vars' policy is deprecated")
def test_infer_with_float32_variables_of_2_0(dtype, built):
    layer = Add(dtype=mp.Policy("infer_with_float32_vars"))
    if built:
        layer.build(())
    assert dtype_of(layer(tensor([1.0], dtype))) == dtype
    assert layer.v.dtype == "float32"


@stands_for(
    "jmp.policy_test", "test_policy_cast_to_param", "test_policy_cast_to_compute"
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("make", [np.ones, ops.ones])
def test_inputs_are_cast_to_the_compute_dtype(dtype, make):
    layer = Add(dtype=mp.Policy(dtype))
    assert dtype_of(layer(make((2,), "float32"))) == dtype
    assert layer.v.dtype == dtype


@stands_for("jmp.policy_test", "test_get_policy", "test_get_policy_mixed")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_policy_by_its_name(dtype):
    assert mp.Policy(dtype).variable_dtype == dtype
    mixed = mp.Policy(f"mixed_{dtype}")
    assert (mixed.compute_dtype, mixed.variable_dtype) == (dtype, "float32")


@stands_for("jmp.policy_test", "test_get_policy_almost_dtype")
def test_what_is_almost_a_dtype_is_no_policy():
    with pytest.raises(
        ValueError, match="Cannot convert value compute_float16 to a mix"
    ):
        mp.Policy("compute_float16")


@stands_for("jmp.policy_test", "test_cast_to_half", "test_cast_to_full")
def test_integers_are_not_cast():
    layer = keras.layers.Identity(dtype=mp.Policy("mixed_float16"))
    half, whole = layer([tensor([1.0]), tensor([1], "int16")])
    assert (dtype_of(half), dtype_of(whole)) == ("float16", "int16")
