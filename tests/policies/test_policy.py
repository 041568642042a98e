import contextlib
import copy
import pickle
import re
import warnings

import keras
import numpy as np
import pytest
from semantics import SEMANTICS

from keras_policies import DynamicLossScale, FixedLossScale, Policy
from keras_policies.loss_scaling.loss_scale import get

TF20 = SEMANTICS["2.0.0"]["policy_names"]
TF24 = SEMANTICS["2.4.4"]["policy_names"]
# The value of a recorded loss scale had state; ours is settings alone.
STATE = re.compile(r"current_loss_scale=[^,]*, num_good_steps=\d+, ")
OURS = {  # where the package says otherwise than tf.keras 2.0
    "_infer": ("infer", None, None),
}


def literal_names(table):
    return [k for k in table if k.startswith("'")]


def recorded(name):
    old = TF20[name]
    return old if "_with_float32_vars" in name or "infer" in name else TF24[name]


@contextlib.contextmanager
def collected_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@pytest.mark.parametrize("quoted", sorted(literal_names(TF20)))
def test_names_are_as_recorded(quoted):
    name, truth = quoted[1:-1], recorded(quoted)
    if name in OURS:
        policy = Policy(name)
        assert (policy.name, policy.compute_dtype, policy.variable_dtype) == OURS[name]
        return
    if "raises" in truth:
        with pytest.raises(ValueError, match="Cannot convert value") as error:
            Policy(name)
        for valid in "mixed_float16", "mixed_bfloat16", "float32", "infer":
            assert f"'{valid}'" in str(error.value)
        return
    with collected_warnings() as caught:
        policy = Policy(name)
    assert policy.name == truth["name"]
    assert policy.compute_dtype == truth["compute_dtype"]
    assert policy.variable_dtype == truth["variable_dtype"]
    assert policy.should_cast_variables == TF20[quoted]["should_cast_variables"]
    assert STATE.sub("", repr(policy)) == STATE.sub(
        "", truth["repr"].replace("PolicyV1", "Policy")
    )
    expected = [
        w.removeprefix("WARNING: ").replace("will be removed", "was removed")
        for w in truth.get("warnings", [])
        if "with_float32_vars" in w
    ]
    assert [str(w.message) for w in caught] == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param(16, "a string such as", id="int"),
        pytest.param(None, "keras.config.floatx", id="none"),
        pytest.param(np.float16, "its name, 'float16'", id="numpy-dtype"),
        pytest.param(b"float16", "a string such as", id="bytes"),
        pytest.param(Policy("float64"), "the policy itself", id="policy"),
    ],
)
def test_a_name_that_is_no_string_is_refused(name, hint):
    with pytest.raises(TypeError, match=f"'name' must be a string.*{hint}"):
        Policy(name)


def test_every_dtype_of_keras_is_a_name():
    for dtype in "float8_e4m3fn", "uint8", "complex128", "bfloat16":
        policy = Policy(dtype)
        assert (policy.compute_dtype, policy.variable_dtype) == (dtype, dtype)


def arguments():
    tf24 = SEMANTICS["2.4.4"]["loss_scale_argument"]
    for name in "float16", "float32", "mixed_bfloat16", "mixed_float16":
        for argument, truth in tf24[name].items():
            yield pytest.param(name, argument, truth, id=f"{name}-{argument}")


ARGUMENTS = {  # recorded as Python source; these names stand in it
    "DynamicLossScale": DynamicLossScale,
    "FixedLossScale": FixedLossScale,
    "np": np,
    "default": "auto",
}
# 'USE_DEFAULT' is of 2.0 and 2.1; inf scales every loss away; True was a fixed scale of
# 1, and numbers of NumPy were errors.
SAY_OTHERWISE = [
    *("'USE_DEFAULT'", "float('inf')", "True", "np.float32(8)", "np.int64(8)"),
]


@pytest.mark.parametrize(("name", "argument", "truth"), list(arguments()))
def test_loss_scale_arguments_are_as_recorded(name, argument, truth):
    if argument in SAY_OTHERWISE:
        return
    value = eval(argument, dict(ARGUMENTS))
    with collected_warnings() as caught:
        if "raises" in truth:
            with pytest.raises(ValueError, match="loss scale|loss_scale_value"):
                Policy(name, value)
            return
        policy = Policy(name, value)
    assert repr(policy.loss_scale) == STATE.sub("", truth["loss_scale"] or "None")
    useless = policy.loss_scale is not None and "float16" not in name.split("_")
    assert [w for w in caught if "only useful for float16" in str(w.message)] == (
        caught if useless else []
    )
    assert bool(caught) == useless


@pytest.mark.parametrize("number", [np.float32(8), np.int64(8), np.float64(8), 8])
def test_a_number_of_numpy_is_a_fixed_loss_scale(number):
    assert repr(Policy("mixed_float16", number).loss_scale) == "FixedLossScale(8.0)"


@pytest.mark.parametrize(
    "argument",
    [True, False, np.array([1.0, 2.0]), np.array(8.0), [8], (), {}],
    ids=repr,
)
def test_other_loss_scales_are_refused_with_what_is_expected(argument):
    with pytest.raises(ValueError, match="Could not interpret .*Expected 'dynamic', N"):
        Policy("mixed_float16", argument)


def test_default_loss_scale_is_dynamic_for_mixed_float16_alone():
    assert Policy("mixed_float16").loss_scale == DynamicLossScale(2**15, 2000, 2.0)
    assert Policy("mixed_float16", "USE_DEFAULT") == Policy("mixed_float16")
    for name in "float16", "mixed_bfloat16", "infer", "float32":
        assert Policy(name).loss_scale is None


def test_infinite_loss_scale_is_refused():
    with pytest.raises(ValueError, match="finite in float32"):
        Policy("mixed_float16", float("inf"))


def test_loss_scale_without_float16_warns():
    with pytest.warns(
        UserWarning, match="only useful for float16.*loss_scale=8.*float32"
    ) as caught:
        Policy("float32", loss_scale=8)
    assert caught[0].filename == __file__


def test_policies_are_equal_by_type_name_and_loss_scale():
    class Other(Policy):
        pass

    policies = [
        Policy("mixed_float16"),
        Policy("mixed_float16", None),
        Policy("mixed_float16", 8),
        Policy("mixed_bfloat16"),
        Other("mixed_float16"),
    ]
    assert len(set(policies)) == len(policies)
    for policy in policies:
        assert policy == copy.copy(policy) != keras.DTypePolicy("mixed_float16")
        assert keras.DTypePolicy(policy.name) != policy


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize(
    "policy",
    [
        Policy("mixed_float16", DynamicLossScale(64, 5, 3.0, minimum=0.5)),
        Policy("infer", 8),
    ],
    ids=repr,
)
def test_policies_copy(policy, copied):
    assert copied(policy) == policy
    assert hash(copied(policy)) == hash(policy)
    assert copied(policy).loss_scale == policy.loss_scale


def test_policy_cannot_be_changed():
    policy = Policy("mixed_float16", 8)
    for attribute in "name", "loss_scale", "compute_dtype":
        with pytest.raises(AttributeError):
            setattr(policy, attribute, None)


def test_config_dict_is_read_and_left_alone():
    config = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 8.0}}
    before = copy.deepcopy(config)
    assert Policy("mixed_float16", config).loss_scale == get(8)
    assert config == before


def test_settled_policy_keeps_the_loss_scale():
    assert Policy("infer", 8).resolve("float16") == Policy("float16", 8)
    with pytest.warns(DeprecationWarning, match="'mixed_float16' or") as caught:
        deferred = Policy("infer_with_float32_vars")
    assert caught[0].filename == __file__
    assert deferred.resolve("float16").name == "float16_with_float32_vars"
    assert deferred.resolve("float32").name == "float32"
    assert deferred.resolve("int32").name == "int32"


def test_integer_policy_never_casts_a_float():
    # tf.keras: Flatten(dtype=int32) on float32 gives float32.
    layer = keras.layers.Flatten(dtype=Policy("int32"))
    y = layer(np.float32([[0.5]]))
    assert keras.backend.standardize_dtype(y.dtype) == "float32"
    assert float(y[0, 0]) == 0.5


# Keras 3.8 has no int4.
MODES = ["float8"] if keras.__version__.startswith("3.8.") else ["float8", "int4"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["float16_with_float32_vars", "settled"])
def test_layers_with_an_old_policy_name_are_quantized_as_mixed_float16(mode, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settles = Policy("infer_with_float32_vars")
        policy = settles if name == "settled" else Policy(name)
    old, new = (keras.layers.Dense(4, dtype=d) for d in (policy, "mixed_float16"))
    x = np.ones((2, 4), "float16")
    for layer in old, new:
        layer(x)
    new.set_weights(old.get_weights())
    for layer in old, new:
        layer.quantize(mode)
    assert old.dtype_policy == new.dtype_policy
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (old(x), new(x))))
