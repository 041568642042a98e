"""What Keras computes wrongly on some backends is right, compared with NumPy."""

import importlib
import inspect
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_policies.keras_internals import private_api
from keras_policies.legacy.values import evaluator


def shapes(ranks):
    for rank in ranks:
        yield from itertools.product((1, 3), repeat=rank)


def numbers(shape):
    return np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype("float32")


# 72 of these 465 were wrong, or refused, in Keras 3.15.1 on TensorFlow.
@pytest.mark.parametrize("rank", range(5))
def test_sums_are_those_of_numpy(rank):
    for a, b in itertools.product(shapes([rank]), shapes(range(4))):
        found = ops.convert_to_numpy(ops.add(numbers(a), numbers(b)))
        np.testing.assert_array_equal(found, numbers(a) + numbers(b), f"{a} {b}")


def pooled(x, size, stride):
    """Return the means of an array along axis 1, of the numbers under each pool."""
    length = x.shape[1]
    outputs = -(-length // stride)
    before = max((outputs - 1) * stride + size - length, 0) // 2
    starts = [i * stride - before for i in range(outputs)]
    means = [x[:, max(at, 0) : at + size].mean(1) for at in starts]
    return np.stack(means, 1)


# 23 of these 105 were wrong in Keras 3.15.1 on torch.
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_average_pooling_counts_no_padding(size):
    for length, stride in itertools.product(range(1, 8), (1, 2, 3)):
        x = numbers((2, length, 3)) ** 2
        found = ops.average_pool(x, size, stride, "same", "channels_last")
        wanted = pooled(x, size, stride)
        np.testing.assert_allclose(ops.convert_to_numpy(found), wanted, rtol=1e-5)


@pytest.mark.parametrize("rank", [2, 3])
def test_average_pooling_of_images_counts_no_padding(rank):
    x = numbers((2, 4, 6, 5, 3) if rank == 3 else (2, 4, 6, 3))
    sizes, strides = (3, 2, 3)[:rank], (2, 3, 1)[:rank]
    layer = getattr(keras.layers, f"AveragePooling{rank}D")
    wanted = x
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True), 1):
        rows = pooled(np.swapaxes(wanted, 1, axis), size, stride)
        wanted = np.swapaxes(rows, 1, axis)
    found = layer(sizes, strides, padding="same", data_format="channels_last")(x)
    np.testing.assert_allclose(ops.convert_to_numpy(found), wanted, rtol=1e-5)


AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations((1, 2, 3), n)]


@pytest.mark.parametrize("axes", AXES)
def test_layer_normalization_normalizes_the_axes_that_it_is_given(axes):
    x = numbers((2, 3, 3, 3)) ** 2
    layer = keras.layers.LayerNormalization(axis=[*axes], epsilon=1e-3)
    layer.build(x.shape)
    shape = (3,) * len(axes)
    layer.set_weights([numbers(shape), numbers(shape) * 100])
    own_shape = [3 if axis in axes else 1 for axis in range(4)]
    gamma, beta = (
        ops.convert_to_numpy(w).reshape(own_shape) for w in (layer.gamma, layer.beta)
    )
    centered = x - x.mean(axes, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-3)
    found = ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(found, wanted * gamma + beta, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("LayerNormalization", [-0.998006, 0.998006]),  # ±0.5 / √(0.25 + 0.001)
        ("UnitNormalization", [0, 0.707107]),
    ],
)
def test_whole_numbers_are_normalized_as_floats(name, row, dtype):
    layer = getattr(keras.layers, name)()
    inputs = keras.Input((4,), dtype=dtype)
    model = keras.Model(inputs, layer(inputs))
    found = ops.convert_to_numpy(model(np.array([[0, 1, 0, 1]], dtype)))
    np.testing.assert_allclose(found, [row * 2], atol=1e-5)
    assert model.output.dtype == "float32"


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
    module = importlib.import_module(f"keras.src.{private_api.BACKEND_OPS}.numpy")
    monkeypatch.setattr(module, "add", inspect.unwrap(module.add))
    inputs = [keras.Input(batch_shape=each) for each in (shape, other)]
    model = keras.Model(inputs, evaluator.ops.add(*inputs))
    arrays = [numbers([1 if n is None else n for n in each]) for each in (shape, other)]
    np.testing.assert_array_equal(ops.convert_to_numpy(model(arrays)), sum(arrays))
