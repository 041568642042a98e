"""What goes wrong only in the long run: a million steps, and memory that grows."""

import gc
import itertools
import sys

import keras
import numpy as np
import pytest
from keras import ops
from oracle import Machine, Settings

from keras_policies import DynamicLossScale, Policy

BACKEND = keras.backend.backend()
MILLION = 1_000_000
RULE = {"initial_loss_scale": 2.0**15, "increment_period": 200, "multiplier": 2.0}


@pytest.fixture(scope="module")
def truth():
    """Return for each of a million steps: is it finite, scale, good steps."""
    finite = np.random.default_rng(0).random(MILLION) > 0.004
    machine = Machine(Settings(**RULE), [])
    scales, counts = np.empty(MILLION, "float32"), np.empty(MILLION, "int32")
    for i, is_finite in enumerate(finite):
        machine.move_scale(is_finite)
        scales[i], counts[i] = machine.scale, machine.good_steps
    assert scales.min() < RULE["initial_loss_scale"] < scales.max()
    return finite, scales, counts


@pytest.mark.slow("a million steps")
def test_a_million_steps_on_the_host(truth):
    finite, scales, counts = truth
    rule = DynamicLossScale(**RULE)
    scale, good_steps = np.float32(rule.initial_loss_scale), np.int32(0)
    found = np.empty(MILLION, "float32"), np.empty(MILLION, "int32")
    for i in range(MILLION):
        scale, good_steps = rule.after_step(scale, good_steps, finite[i])
        scale, good_steps = np.float32(scale), np.int32(good_steps)
        found[0][i], found[1][i] = scale, good_steps
    np.testing.assert_array_equal(found[0], scales)
    np.testing.assert_array_equal(found[1], counts)


def on_jax(rule, finite):
    import jax

    def step(state, is_finite):
        state = rule.after_step(*state, is_finite)
        return state, state

    first = np.float32(rule.initial_loss_scale), np.int32(0)
    return jax.jit(lambda x: jax.lax.scan(step, first, x))(finite)[1]


def on_tensorflow(rule, finite):
    import tensorflow as tf

    def step(state, is_finite):
        return rule.after_step(*state, is_finite)

    first = tf.constant(rule.initial_loss_scale), tf.constant(0)
    scan = tf.function(lambda x: tf.scan(step, x, first), jit_compile=True)
    return scan(tf.constant(finite))


@pytest.mark.skipif(
    BACKEND not in ("jax", "tensorflow"), reason="there it runs on the host"
)
def test_a_million_compiled_steps(truth):
    finite, scales, counts = truth
    run = {"jax": on_jax, "tensorflow": on_tensorflow}[BACKEND]
    found = run(DynamicLossScale(**RULE), finite)
    np.testing.assert_array_equal(ops.convert_to_numpy(found[0]), scales)
    np.testing.assert_array_equal(ops.convert_to_numpy(found[1]), counts)


class Memory(keras.callbacks.Callback):
    """Notes the objects that live, and the resident memory, at some steps."""

    def __init__(self, steps):
        self.steps, self.seen = steps, {}

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 in self.steps:
            gc.collect()
            self.seen[batch + 1] = len(gc.get_objects()), resident()


def resident():
    """Return the resident memory, in MiB: now on Linux, else at its peak."""
    import resource  # POSIX

    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@pytest.mark.posix("it asks the system for the memory of the process")
@pytest.mark.slow("2,000 steps")
@pytest.mark.each_backend("each keeps its own tensors")
def test_two_thousand_steps_with_an_overflow_every_fifty_need_no_more_memory():
    x = np.ones((2000, 8), "float32")
    x[49::50] = np.inf
    keras.config.set_dtype_policy(
        Policy("mixed_float16", loss_scale=DynamicLossScale(2.0**10, 30))
    )
    layers = [keras.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    memory = Memory((500, 1000, 1500, 2000))
    model.fit(
        x,
        np.zeros((2000, 1)),
        batch_size=1,
        shuffle=False,
        verbose=0,
        callbacks=[memory],
    )
    objects, mebibytes = zip(*(memory.seen[i] for i in memory.steps), strict=True)
    assert int(model.optimizer.skipped_steps) == 40
    assert objects[-1] - objects[0] < 100  # in 1,500 steps
    # A leak grows in each 500 steps; the system gives and takes pages now and then.
    grown = [after - before for before, after in itertools.pairwise(mebibytes)]
    assert min(grown) < 8 / 3, grown
