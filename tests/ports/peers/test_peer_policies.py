"""tf.keras's tests of policies."""

import keras
import numpy as np
import pytest
from peer import documented, stands_for

import keras_policies as mp
from keras_policies.experimental import get_layer_policy

DTYPES = "int32", "bool", "float16", "float32"


@stands_for("policy_test", "test_dtype_attributes")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_is_a_policy(dtype):
    policy = mp.Policy(dtype)
    assert (policy.name, policy.compute_dtype, policy.variable_dtype) == (dtype,) * 3


@stands_for("policy_test", "test_dtype_attributes")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_mixed_policy_has_float32_variables(dtype):
    policy = mp.Policy(f"mixed_{dtype}")
    assert policy.name == f"mixed_{dtype}"
    assert (policy.compute_dtype, policy.variable_dtype) == (dtype, "float32")


@stands_for("policy_test", "test_dtype_attributes")
@pytest.mark.parametrize("name", ["infer", "_infer"])
def test_an_infer_policy_has_no_dtypes(name):
    policy = mp.Policy(name)
    assert (policy.compute_dtype, policy.variable_dtype) == (None, None)


@stands_for("policy_test", "test_dtype_attributes")
@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("infer_with_float32_vars", (None, "float32")),
        ("float16_with_float32_vars", ("float16", "float32")),
        ("bfloat16_with_float32_vars", ("bfloat16", "float32")),
        ("int8_with_float32_vars", ("int8", "float32")),
    ],
)
def test_policies_with_float32_variables_of_2_0(name, dtypes):
    with pytest.warns(DeprecationWarning, match="deprecated"):
        policy = mp.Policy(name)
    assert (policy.compute_dtype, policy.variable_dtype) == dtypes


@stands_for("policy_test", "test_repr")
@pytest.mark.parametrize("name", ["float32", "int8", "mixed_bfloat16", "infer"])
def test_repr(name):
    assert repr(mp.Policy(name)) == f'<Policy "{name}", loss_scale=None>'


@stands_for("policy_test", "test_repr")
def test_repr_with_a_loss_scale():
    policy = mp.Policy("float16", loss_scale=2)
    assert repr(policy) == '<Policy "float16", loss_scale=FixedLossScale(2.0)>'
    begin = '<Policy "mixed_float16", loss_scale=DynamicLossScale('
    assert repr(mp.Policy("mixed_float16")).startswith(begin)


@stands_for("policy_test", "test_repr")
@documented("Names that are shortened")
def test_repr_of_the_alias_of_infer():
    assert repr(mp.Policy("_infer")) == '<Policy "_infer", loss_scale=None>'


@stands_for("policy_test", "test_policy_errors")
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("abc", ValueError, "Cannot convert value abc to a mixed precision Policy."),
        (5, TypeError, "'name' must be a string, but got: 5"),
        (np.float16, TypeError, "'name' must be a string"),
    ],
)
def test_policy_errors(name, error, words):
    with pytest.raises(error, match=words):
        mp.Policy(name)


@stands_for("policy_test", "test_policy_errors")
@documented("`infer`")
@pytest.mark.filterwarnings("ignore:The '.*' policy is deprecated")
@pytest.mark.parametrize(
    "name",
    ["infer_float32_vars", "float16_with_float32_vars", "int8_with_float32_vars"],
)
def test_names_that_2_1_removed_are_refused(name):
    with pytest.raises(ValueError, match="have been removed"):
        mp.Policy(name)


@stands_for("policy_test", "test_loss_scale")
@pytest.mark.parametrize("name", ["float32", "mixed_bfloat16", "float16"])
def test_only_mixed_float16_has_a_loss_scale_by_itself(name):
    assert mp.Policy(name).loss_scale is None
    assert mp.Policy("mixed_float16").loss_scale == mp.DynamicLossScale()
    assert mp.Policy("mixed_float16", loss_scale=None).loss_scale is None


@stands_for("policy_test", "test_loss_scale")
def test_a_loss_scale_that_is_given_is_kept():
    scale = mp.DynamicLossScale()
    assert mp.Policy("float16", loss_scale=scale).loss_scale is scale
    assert mp.Policy("float16", loss_scale="dynamic").loss_scale == scale


@stands_for("policy_test", "test_global_policy")
def test_global_policy():
    assert mp.global_policy().name == "float32"
    mp.set_policy("mixed_float16")
    assert mp.global_policy().name == "mixed_float16"
    mp.set_policy("infer")
    assert mp.global_policy().name == "infer"
    policy = mp.Policy("mixed_bfloat16")
    mp.set_policy(policy)
    assert mp.global_policy() is policy
    mp.set_policy(None)
    assert mp.global_policy().name == "float32"


@stands_for("policy_test", "test_global_policy_dtype_error")
@pytest.mark.parametrize("name", ["int32", "complex64"])
@pytest.mark.parametrize("make", [str, mp.Policy])
def test_a_global_policy_is_floating_point(name, make):
    words = (
        "set_policy can only be used to set the global policy to floating-point "
        'policies, such as "float32" and "mixed_float16", but got policy: ' + name
    )
    if name == "complex64":
        name, words = "int8", words.replace("complex64", "int8")  # Keras 3 has none
    with pytest.raises(ValueError, match=words):
        mp.set_policy(make(name))


@stands_for("policy_test", "test_loss_scale_warning")
def test_a_loss_scale_of_a_float32_policy_is_warned_of():
    words = (
        "Creating a Policy with a loss scale is only useful for float16 policies. You "
        "passed loss_scale=2.0 for policy float32. Consider not passing any "
    )
    with pytest.warns(UserWarning, match=words):
        mp.Policy("float32", loss_scale=2.0)
    for name in "float16", "mixed_float16":
        mp.Policy(name, loss_scale=2.0)  # a warning would fail the test


@stands_for("policy_test", "test_policy_scope")
def test_policy_scope():
    with mp.policy_scope("mixed_float16"):
        assert mp.global_policy().name == "mixed_float16"
        with mp.policy_scope("infer"):
            assert mp.global_policy().name == "infer"
        assert mp.global_policy().name == "mixed_float16"
    assert mp.global_policy().name == "float32"


@stands_for("policy_test", "test_config")
@pytest.mark.parametrize(
    "name", ["float16", "float32", "int16", "mixed_float16", "mixed_bfloat16"]
)
def test_config(name):
    policy = mp.Policy(name)
    assert mp.Policy.from_config(policy.get_config()) == policy


@stands_for("policy_test", "test_config", "test_serialization")
@documented("What is saved")
@pytest.mark.filterwarnings("ignore:Creating a Policy with a loss scale")
@pytest.mark.parametrize(
    ("name", "loss_scale"),
    [("float32", 2.0), ("mixed_float16", 2.0), ("mixed_float16", None)],
)
def test_a_config_keeps_the_loss_scale(name, loss_scale):
    policy = mp.Policy(name, loss_scale=loss_scale)
    assert mp.Policy.from_config(policy.get_config()) == policy


@stands_for("policy_test", "test_serialization")
@pytest.mark.parametrize("name", ["float16", "float32", "int8", "bool"])
def test_serialization(name):
    config = keras.dtype_policies.serialize(mp.Policy(name))
    assert config["config"] == {"name": name}
    assert keras.dtype_policies.deserialize(config).name == name


@stands_for("policy_test", "test_serialization")
@documented("What is saved")
@pytest.mark.parametrize("name", ["float16", "float32"])
def test_a_policy_is_serialized_as_its_name(name):
    assert keras.dtype_policies.serialize(mp.Policy(name)) == name


@stands_for("policy_test", "test_serialization")
@pytest.mark.parametrize("class_name", ["Policy", "PolicyV1"])
@pytest.mark.parametrize("loss_scale", [None, {"class_name": "FixedLossScale"}])
def test_the_configs_of_the_old_classes_are_read(class_name, loss_scale):
    config = {"name": "mixed_float16", "loss_scale": loss_scale}
    read = keras.dtype_policies.deserialize(
        {"class_name": class_name, "config": config}
    )
    assert read == keras.DTypePolicy("mixed_float16")


@stands_for("policy_test", "test_device_compatibility_warning")
@documented("Removed warnings")
def test_mixed_float16_on_a_cpu_is_warned_of():
    with pytest.warns(UserWarning, match="compatibility check"):
        mp.Policy("mixed_float16")


@stands_for("policy_test", "test_error_if_graph_rewrite_enabled")
@documented("Removed by Keras 3", raises=AttributeError)
def test_the_graph_rewrite_excludes_policies():
    mp.experimental.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())


@stands_for("get_layer_policy_test", "test_get_layer_policy")
def test_get_layer_policy():
    layer = keras.layers.Dense(4)
    assert get_layer_policy(layer).name == "float32"
    policy = mp.Policy("mixed_bfloat16")
    layer = keras.layers.Dense(4, dtype=policy)
    assert get_layer_policy(layer) is policy


@stands_for("get_layer_policy_test", "test_error")
def test_the_policy_of_what_is_no_layer():
    with pytest.raises(ValueError, match="policy can only be called on a layer, but"):
        get_layer_policy(1)
