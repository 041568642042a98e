import threading

import keras
import numpy as np
import pytest

from keras_policies import (
    Policy,
    global_policy,
    policy_scope,
    set_global_policy,
    set_policy,
)


def test_set_policy_takes_a_name_a_policy_or_none():
    set_policy("float16")
    assert global_policy() == Policy("float16")
    policy = Policy("mixed_float16", 8)
    assert set_policy(policy) is None
    assert global_policy() is policy
    assert keras.config.dtype_policy() is policy
    assert keras.layers.Dense(2).dtype_policy is policy
    set_policy(None)
    assert global_policy() == Policy("float32")


def test_none_follows_floatx():
    keras.config.set_floatx("float64")
    set_policy(None)
    assert global_policy() == Policy("float64")


def test_global_policy_of_stock_code_is_a_policy():
    keras.config.set_dtype_policy("mixed_float16")
    assert global_policy() == Policy("mixed_float16", "dynamic")


def test_global_policy_that_no_policy_stands_for_comes_as_it_is():
    policy = keras.dtype_policies.DTypePolicyMap()
    keras.config.set_dtype_policy(policy)
    assert global_policy() is policy


@pytest.mark.parametrize("name", ["int32", "bool", "complex64", "string"])
def test_policy_that_is_not_floating_is_refused(name):
    set_policy("float16")
    with pytest.raises(
        ValueError, match=f"floating-point policies.*got policy: {name}"
    ):
        set_policy(name)
    assert global_policy() == Policy("float16")


@pytest.mark.parametrize(
    ("policy", "error"),
    [("abc", ValueError), (16, TypeError), (np.float16, TypeError), ("", ValueError)],
)
def test_bad_policy_leaves_the_global_one(policy, error):
    set_policy("float64")
    with pytest.raises(error, match="Cannot convert value|must be a string"):
        set_policy(policy)
    scope = policy_scope(policy)
    with pytest.raises(error, match="Cannot convert value|must be a string"):
        scope.__enter__()
    assert global_policy() == Policy("float64")


def test_scopes_nest_and_restore():
    seen = []
    with policy_scope("mixed_float16"):
        seen.append(global_policy().name)
        with policy_scope("float64"):
            seen.append(global_policy().name)
            with policy_scope(None):
                seen.append(global_policy().name)
            seen.append(global_policy().name)
        seen.append(global_policy().name)
    seen.append(global_policy().name)
    assert seen == [
        "mixed_float16",
        "float64",
        "float32",
        "float64",
        "mixed_float16",
        "float32",
    ]


def test_scope_restores_the_very_object_after_an_exception():
    stock = keras.DTypePolicy("bfloat16")
    keras.config.set_dtype_policy(stock)
    with pytest.raises(KeyError, match="inside"), policy_scope("float64"):
        raise KeyError("inside")
    assert keras.config.dtype_policy() is stock


def test_scope_restores_over_a_set_policy_inside():
    with policy_scope("float64"):
        set_policy("float16")
    assert global_policy() == Policy("float32")


def test_threads_do_not_see_each_others_scopes():
    seen = {}

    def work(name):
        with policy_scope(name):
            barrier.wait()
            seen[name] = global_policy().name
            barrier.wait()
        seen[name, "after"] = global_policy().name

    barrier = threading.Barrier(3, timeout=300)
    threads = [threading.Thread(target=work, args=(n,)) for n in ("float16", "float64")]
    with policy_scope("bfloat16"):
        for thread in threads:
            thread.start()
        barrier.wait()
        assert global_policy().name == "bfloat16"
        barrier.wait()
        for thread in threads:
            thread.join()
    assert seen == {
        "float16": "float16",
        "float64": "float64",
        ("float16", "after"): "float32",
        ("float64", "after"): "float32",
    }


def test_the_name_of_tensorflow_2_4_sets_the_global_policy():
    set_global_policy("mixed_float16")
    assert global_policy().name == "mixed_float16"
