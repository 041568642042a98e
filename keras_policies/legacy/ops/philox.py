"""Philox, TensorFlow's random number generator, in numpy.

Its state is a key of one word and a counter of two words of 64 bits. Each count gives a
block of four words of 32 bits. Sources: philox_random.h and random_distributions.h in
tensorflow/core/lib/random, random_op_cpu.h and stateless_random_ops.cc in
tensorflow/core/kernels.
"""

import math

import numpy as np

from keras_policies.legacy.base.weights import Array

ROUNDS = 10
FACTORS = np.array([0xD2511F53, 0xCD9E8D57], "uint64")
STEPS = np.array([0x9E3779B9, 0xBB67AE85], "uint64")
# The key for mixing the words of a seed.
SEED_KEY = np.array([0x02461E293EC8F720], "uint64")
SMALLEST = np.float32(1e-7)  # argument of a logarithm
# Blocks that a group of four truncated numbers may use, and those that are searched:
# in one of 10^35 groups, fewer than four of 32 normal numbers lie between -2 and 2.
RESERVED, USED = 256, 8
# Upper bounds for each drawn number: bytes of memory, numbers computed.
BYTES, COST = 200, 200


def key_and_counter(seed: Array) -> tuple[Array, Array]:
    """Return the state for a seed of two numbers."""
    mixed = _blocks(SEED_KEY, seed.astype("int64").view("uint64"), np.arange(1))
    key, high = mixed.view("uint64")[0]
    return np.array([key]), np.array([0, high], "uint64")


def words(key: Array, counter: Array, count: int) -> Array:
    """Return `count` words of 32 bits."""
    return _blocks(key, counter, np.arange(-(-count // 4))).ravel()[:count]


def long_words(key: Array, counter: Array, count: int) -> Array:
    """Return `count` words of 64 bits."""
    return words(key, counter, 2 * count).view("<u8")


def uniform(key: Array, counter: Array, count: int) -> Array:
    """Return uniform numbers from 0 to below 1."""
    return _uniform(words(key, counter, count))


def normal(key: Array, counter: Array, count: int) -> Array:
    """Return normally distributed numbers."""
    return _normal(words(key, counter, count + count % 2))[:count]


def truncated_normal(key: Array, counter: Array, count: int) -> Array:
    """Return normally distributed numbers between -2 and 2."""
    groups = np.arange(-(-count // 4))[:, np.newaxis]
    blocks = _blocks(key, counter, (groups * RESERVED + np.arange(USED)).ravel())
    numbers = _normal(blocks.ravel()).reshape(-1, 4 * USED)
    first = np.argsort(np.abs(numbers) >= 2, axis=1, kind="stable")[:, :4]
    return np.take_along_axis(numbers, first, 1).ravel()[:count]


def _blocks(key: Array, counter: Array, numbers: Array) -> Array:
    """Return the words of some blocks, `(numbers, 4)`."""
    low = counter[0] + numbers.astype("uint64")
    high = counter[1] + (low < counter[0]).astype("uint64")
    (a, b), (c, d), (k, m) = _halves(low), _halves(high), _halves(key)
    for _ in range(ROUNDS):
        (lower, upper), (under, over) = _halves(a * FACTORS[0]), _halves(c * FACTORS[1])
        a, b, c, d = over ^ b ^ k, under, upper ^ d ^ m, lower
        k, m = _halves(k + STEPS[0])[0], _halves(m + STEPS[1])[0]
    return np.stack([a, b, c, d], -1).astype("<u4")


def _halves(word: Array) -> tuple[Array, Array]:
    """Return the low and the high half of words of 64 bits."""
    return word & np.uint64(0xFFFFFFFF), word >> np.uint64(32)


def _uniform(bits: Array) -> Array:
    mantissa = bits & np.uint32(0x7FFFFF)
    from_1_to_2 = (mantissa | np.uint32(0x3F800000)).view("<f4")
    from_0_to_1: Array = from_1_to_2 - np.float32(1)
    return from_0_to_1


def _normal(bits: Array) -> Array:
    """Return normal numbers by the method of Box and Muller, two for two words."""
    first, second = _uniform(bits).reshape(-1, 2).T
    angle = (2 * math.pi * second.astype("float64")).astype("float32")
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(first, SMALLEST)))
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1).ravel()
