"""What threads do at the same time: each as if it were alone."""

import ast
import gc
import threading
import time

import keras
import numpy as np
import pytest
from semantics import DATA

import keras_policies as mp
from keras_policies import DynamicLossScale
from keras_policies._common import syntax

HANGS = 300  # seconds
CODE = "x = [a + b * (c - 1) for a in range(9)]\n" * 50
POLICIES = "mixed_float16", "float16", "mixed_bfloat16", "bfloat16"


def at_once(functions):
    """Run `function(wait)` in a thread each; return the results.

    `wait()` comes back when all threads are there, so that what follows interleaves.
    """
    barrier, results = threading.Barrier(len(functions)), [None] * len(functions)

    def run(place, function):
        try:
            results[place] = function(lambda: barrier.wait(HANGS))
        except Exception as error:
            barrier.abort()
            results[place] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    failed = [result for result in results if isinstance(result, Exception)]
    # The others only tell that a thread did not come.
    failed.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    for error in failed:
        raise error
    return results


def test_a_new_thread_begins_with_the_default_policy():
    with mp.policy_scope("mixed_float16"):
        names = at_once([lambda wait: mp.global_policy().name] * 3)
        assert mp.global_policy().name == "mixed_float16"
    assert names == ["float32"] * 3


def test_nested_scopes_of_threads_that_alternate_restore_their_own():
    def nest(policy):
        def work(wait):
            seen = []
            mp.set_policy(policy)
            for inner in "float16", None, policy:
                wait()
                with mp.policy_scope(inner):
                    wait()
                    seen.append(mp.global_policy().name)
                    wait()
                seen.append(mp.global_policy().name)
            return seen

        return work

    found = at_once([nest(policy) for policy in POLICIES])
    assert found == [["float16", p, "float32", p, p, p] for p in POLICIES]
    assert mp.global_policy().name == "float32"


class Slow(keras.layers.Layer):
    """A layer with a part, that waits for the other threads while it builds."""

    def __init__(self, wait):
        super().__init__()
        self.wait = wait
        self.part = keras.layers.Dense(2, dtype=mp.Policy("infer"))

    def build(self, input_shape):
        self.wait()
        self.part.build(input_shape)
        self.wait()
        self.bias = self.add_weight(shape=(2,))

    def call(self, x):
        return self.part(x) + self.bias


def test_layers_settle_on_the_layers_of_their_own_thread():
    def build(policy):
        def work(wait):
            with mp.policy_scope(policy):
                layer = Slow(wait)
            layer.build((None, 3))
            return layer.part.compute_dtype, layer.bias.dtype

        return work

    # The part is not called: it takes the dtype of the layer that builds it.
    assert at_once([build(policy) for policy in POLICIES]) == [
        ("float16", "float32"),
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("bfloat16", "bfloat16"),
    ]


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_a_shared_policy_that_waits_settles_for_each_layer(dtype):
    policy = mp.Policy("infer")

    def call(own):
        def work(wait):
            layer = keras.layers.Dense(2, dtype=policy)
            wait()
            layer(keras.ops.ones((1, 3), own))
            return layer.dtype_policy.name

        return work

    found = at_once([call(d) for d in (dtype, "float32", "bfloat16")])
    assert found == [
        "float16" if dtype == "float16" else "float32",
        "float32",
        "bfloat16",
    ]
    assert policy.is_deferred


def model_of(rule):
    """Return a compiled model of a policy with a loss scale, always the same."""
    with mp.policy_scope(mp.Policy("mixed_float16", rule)):
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(4, activation="tanh"),
                keras.layers.Dense(1),
            ]
        )
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


def train(model, bad_step, wait=lambda: None):
    """Train eight steps; return scale, skipped steps and weights after each."""
    rng = np.random.default_rng(0)
    seen = []
    for step in range(8):
        x = rng.normal(size=(8, 4)).astype("float32")
        y = x[:, :1] * 2
        y[-1] = np.inf if step == bad_step else 1.0
        wait()
        model.train_on_batch(x, y)
        optimizer = model.optimizer
        counts = float(optimizer.loss_scale), int(optimizer.skipped_steps)
        seen.append((*counts, [w.tolist() for w in model.get_weights()]))
    return seen


def test_models_train_in_threads_as_they_do_alone():
    jobs = [(DynamicLossScale(1024, 3), 2), (DynamicLossScale(64, 2), 5), (128, None)]
    alone = [train(model_of(rule), bad_step) for rule, bad_step in jobs]
    found = at_once(
        [lambda wait, job=job: train(model_of(job[0]), job[1], wait) for job in jobs]
    )
    assert found == alone
    scales = [[scale for scale, _, _ in steps] for steps in found]
    assert scales == [
        [1024, 1024, 512, 512, 512, 1024, 1024, 1024],
        [64, 128, 128, 256, 256, 128, 128, 256],
        [128] * 8,
    ]


def test_legacy_models_open_in_threads_each_with_its_own_policy():
    path = DATA / "legacy/corpus/2.4.4/func_conv_fixed/saved_model"

    def opened(policy):
        def work(wait):
            wait()
            model = mp.load_model(str(path), dtype_policy=policy)
            layer = model.get_layer("conv_a")
            return layer.compute_dtype, layer.variable_dtype, model.get_weights()

        return work

    found = at_once([opened(p) for p in ("mixed_float16", "mixed_bfloat16", None)])
    assert [dtypes for *dtypes, _ in found] == [
        ["float16", "float32"],
        ["bfloat16", "float32"],
        ["float16", "float32"],
    ]
    for *_, weights in found[1:]:
        for weight, first in zip(weights, found[0][-1], strict=True):
            np.testing.assert_array_equal(weight, first)
    assert mp.global_policy().name == "float32"


def test_python_code_is_parsed_in_threads_that_alternate():
    # Until Python 3.11.7, the garbage collector runs in the middle of `ast.parse`.
    gc.callbacks.append(lambda *_: time.sleep(0.0001))
    before = gc.get_threshold()
    gc.set_threshold(50)
    try:
        found = at_once([lambda wait: [wait(), syntax.parse(CODE)]] * 4)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.pop()
    assert {ast.dump(tree) for _, tree in found} == {ast.dump(ast.parse(CODE))}
