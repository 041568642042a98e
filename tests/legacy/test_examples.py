"""Masks that a model makes without its data are known when it is built."""

import keras
import numpy as np
import pytest

from keras_policies.legacy.ops import array_indexing
from keras_policies.legacy.values import computed, examples
from keras_policies.legacy.values.evaluator import ops

LOWER = np.tril(np.ones((3, 3), bool))


def mask_like(x):
    return ops.cast(ops.tril(ops.ones_like(x)), "bool")


def test_a_mask_made_of_ones_is_the_same_in_each_example():
    mask = mask_like(keras.Input((3, 3)))
    np.testing.assert_array_equal(examples.one_of(mask), LOWER[None])
    rows = examples.one_of(computed.reshape(mask, [-1]))
    np.testing.assert_array_equal(rows, LOWER.ravel())


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(lambda x: ops.greater(x, 0), id="of_data"),
        pytest.param(lambda x: ops.logical_and(mask_like(x), x > 0), id="with_data"),
        pytest.param(
            lambda x: ops.less(ops.cumsum(ops.ones_like(x), axis=0), 3), id="of_place"
        ),
        pytest.param(lambda x: mask_like(x[0]), id="without_batch"),
    ],
)
def test_any_other_mask_is_not(mask):
    assert examples.one_of(mask(keras.Input((3, 3)))) is None


def test_a_mask_of_unknown_length_is_not():
    assert examples.one_of(mask_like(keras.Input((None, 3)))) is None


def test_the_positions_of_trues_are_those_in_each_example():
    x = keras.Input((3, 3))
    found = array_indexing.positions(mask_like(x))
    at = keras.Model(x, found)(np.zeros((2, 3, 3), "float32"))
    expected = np.argwhere(np.stack([LOWER, LOWER]))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(at), expected)
