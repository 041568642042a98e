"""Sums on TensorFlow, of all small shapes that NumPy broadcasts."""

import importlib
import inspect
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_policies.legacy.values import evaluator


def shapes(ranks):
    for rank in ranks:
        yield from itertools.product((1, 2, 3), repeat=rank)


def numbers(shape):
    return np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype("float32")


def fit(a, b):
    return all(1 in pair or len({*pair}) == 1 for pair in zip(a[::-1], b[::-1]))  # noqa: B905


# 292 of these were wrong, or refused, in Keras 3.15.1 on TensorFlow.
@pytest.mark.parametrize("rank", range(5))
def test_sums_are_those_of_numpy(rank):
    for a, b in itertools.product(shapes([rank]), shapes(range(4))):
        if fit(a, b):
            found = ops.convert_to_numpy(ops.add(numbers(a), numbers(b)))
            np.testing.assert_array_equal(found, numbers(a) + numbers(b), f"{a} {b}")


def test_a_sum_has_the_dtype_that_keras_gives_it():
    x, y = ops.ones((2, 3, 3), "float16"), ops.ones((3, 1), "float32")
    assert keras.backend.standardize_dtype(ops.add(x, y).dtype) == "float32"


def test_a_layer_adds_rows_and_columns_at_batch_size_1():
    inputs = keras.Input((4, 1)), keras.Input((1, 4))
    model = keras.Model(inputs, keras.layers.Add()(inputs))
    rows, columns = numbers((1, 4, 1)), numbers((1, 1, 4))
    found = model.predict([rows, columns], verbose=0)
    np.testing.assert_array_equal(found, rows + columns)


def test_attention_with_keys_of_one_number_adds_a_bias_to_each_head():
    layer = keras.layers.MultiHeadAttention(num_heads=3, key_dim=1)
    layer.build((1, 3, 1), (1, 3, 1))
    kernel, bias = np.float32([[[1], [1], [1]]]), np.float32([[10], [20], [30]])
    query, key, value, output = kernel * 0, kernel * 0, kernel, np.ones((3, 1, 1))
    zeros = bias * 0
    layer.set_weights([query, zeros, key, zeros, value, bias, output, np.zeros(1)])
    # The mean over three steps, once per head, and each head's bias.
    found = layer(np.float32([[[1], [2], [3]]]), np.float32([[[1], [2], [3]]]))
    np.testing.assert_allclose(ops.convert_to_numpy(found), np.full((1, 3, 1), 66))


# None stands for the batch, which is 1, and for the other numbers that fit.
@pytest.mark.parametrize("shape", [(None, 3, 1), (None, 1, 3), (None, 3, 3), (None, 3)])
@pytest.mark.parametrize("other", [(None, 3, 1), (None, 1, 3), (3, 1), (1, 3), (3,)])
def test_sums_in_converted_models_are_right_in_plain_keras(shape, other, monkeypatch):
    module = importlib.import_module(
        f"keras.src.backend.{keras.backend.backend()}.numpy"
    )
    monkeypatch.setattr(module, "add", inspect.unwrap(module.add))
    inputs = [keras.Input(batch_shape=each) for each in (shape, other)]
    model = keras.Model(inputs, evaluator.ops.add(*inputs))
    arrays = [numbers([1 if n is None else n for n in each]) for each in (shape, other)]
    np.testing.assert_array_equal(ops.convert_to_numpy(model(arrays)), sum(arrays))
