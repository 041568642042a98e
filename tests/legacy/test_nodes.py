"""Ops of TensorFlow graphs, each alone, as write_nodes.py recorded them."""

import keras
import legacy_files
import numpy as np
import pytest
from recorded_nodes import CASES, TOLERANCE, arrays_of, model_of

from keras_policies.legacy.ops import converters, node_def, table

# The output of these models is their input.
IDENTITIES = "identity_n", "check_numerics"
KNOWN = [
    pytest.param(name, marks=legacy_files.needs_unused_inputs)
    if name in IDENTITIES
    else name
    for name in CASES
]

pytestmark = pytest.mark.each_backend("functions of keras.ops")


@pytest.mark.parametrize("name", KNOWN)
def test_a_node_gives_what_tensorflow_recorded(name):
    case = CASES[name]
    limit = TOLERANCE.get(case["dtypes"][0], 2e-5)
    model = model_of(case)
    found = legacy_files.called(model, arrays_of(case))
    for symbolic, output, wanted in zip(
        model.outputs, found, case["outputs"], strict=False
    ):
        output = np.asarray(output, "float64")
        assert output.shape == np.shape(wanted)
        assert len(symbolic.shape) == output.ndim
        for said, size in zip(symbolic.shape, output.shape, strict=True):
            assert said in (None, size)
        np.testing.assert_allclose(output, wanted, limit, limit)


def test_shapes_are_broadcast_together_where_the_larger_is_known():
    batch = table.call("shape", [keras.Input((4,))], {})
    found = table.call("broadcast_dynamic_shape", [[3, 1, 1], batch], {})
    assert found.tolist() == [3, batch[0], 4]
    with pytest.raises(ValueError, match="batch == 2 depends on the model's"):
        table.call("broadcast_dynamic_shape", [batch, [2, 4]], {})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("truncatediv", [16777217, -16777217, 715827882, -3, -3, 0]),
        ("compat.v1.div", [16777217, -16777217, 715827882, -3, -3, 0]),
        ("truncatemod", [0, 0, 1, -1, 1, -7]),
    ],
)
def test_quotients_of_whole_numbers_are_exact(name, expected):
    """As TensorFlow 2.15 computes them; float32 has 24 bits."""
    numbers = np.int32([[2**24 + 1, -(2**24) - 1, 2**31 - 1, -7, 7, -7]])
    x, divisors = keras.Input((6,), dtype="int32"), np.int32([[1, 1, 3, 2, -2, 9]])
    model = keras.Model(x, table.call(name, [x, divisors], {}))
    assert keras.ops.convert_to_numpy(model(numbers)).tolist() == [expected]
    assert table.call(name, [numbers, divisors], {}).tolist() == [expected]


def test_means_of_whole_numbers_are_exact():
    x = keras.Input((2,), dtype="int32")
    model = keras.Model(x, table.call("math.reduce_mean", [x, 1], {}))
    numbers = np.int32([[2**24 + 1, 2**24 + 1], [-3, 2]])
    assert keras.ops.convert_to_numpy(model(numbers)).tolist() == [16777217, 0]


def test_two_batch_sizes_of_a_model_are_the_same_size():
    one, other = keras.Input((4,)), keras.Input((4,))
    shapes = [table.call("shape", [x], {}) for x in (one, keras.ops.relu(other))]
    found = table.call("broadcast_dynamic_shape", shapes, {})
    assert found.tolist() == [shapes[0][0], 4]


def test_a_tensor_is_filled_to_a_product_of_sizes():
    x = keras.Input((None, 4))
    length = table.call("math.reduce_prod", [table.call("shape", [x], {})[:2]], {})
    model = keras.Model(x, table.call("fill", [[length], 2.5], {}))
    found = keras.ops.convert_to_numpy(model(np.zeros((2, 3, 4), "float32")))
    np.testing.assert_array_equal(found, [2.5] * 6)


def test_functions_that_do_not_know_complex_numbers_refuse_them():
    x = keras.Input((4,))
    z = table.call("complex", [x, x], {})
    with pytest.raises(ValueError, match="a tensor or numbers, found '<complex numb"):
        table.call("math.atan", [z], {})


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("math.sqrt", [], np.sqrt),
        ("math.pow", [np.complex64(2)], np.square),
        ("math.pow", [np.complex64(1.5)], lambda z: z**1.5),
    ],
)
def test_roots_and_powers_of_complex_numbers(name, more, expected):
    numbers = np.array([0, 4, -4, 3 + 4j, -3 + 4j, -3 - 4j, 1e-3j], "complex64")
    x, y = keras.Input((7,)), keras.Input((7,))
    found = table.call(name, [table.call("complex", [x, y], {}), *more], {})
    parts = [table.call(f"math.{part}", [found], {}) for part in ("real", "imag")]
    model = keras.Model([x, y], parts)
    real, imag = model([numbers.real[None], numbers.imag[None]])
    to_numpy = keras.ops.convert_to_numpy
    np.testing.assert_allclose(
        to_numpy(real) + 1j * to_numpy(imag), expected(numbers)[None], 1e-5, 1e-6
    )


def test_complex_powers_of_complex_numbers_are_refused():
    x = keras.Input((4,))
    z = table.call("complex", [x, x], {})
    with pytest.raises(ValueError, match="to a power that is not a real number"):
        table.call("math.pow", [z, np.complex64(1j)], {})


def test_the_gradient_of_an_absolute_value_is_0_at_0():
    x = keras.Input((2,))
    z = table.call("complex", [x, table.call("zeros_like", [x], {})], {})
    dense = keras.layers.Dense(2, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), dense])
    model.add(keras.Model(x, table.call("math.abs", [z], {})))
    model.compile("sgd", "mse")
    model.fit(np.ones((1, 2)), np.ones((1, 2)), verbose=0)
    np.testing.assert_array_equal(dense.get_weights()[0], np.zeros((2, 2)))


@pytest.mark.parametrize("columns", [4, 5])
def test_transforms_of_real_images(columns):
    images = np.random.default_rng(2).uniform(-1, 1, (2, 3, columns)).astype("float32")
    x = keras.Input((3, columns))
    found = table.call("signal.rfft2d", [x], {})
    parts = [table.call(f"math.{part}", [found], {}) for part in ("real", "imag")]
    back = table.call("signal.irfft2d", [found, [3, columns]], {})
    real, imag, again = keras.Model(x, [*parts, back])(images)
    to_numpy = keras.ops.convert_to_numpy
    wanted = np.fft.rfft2(images)
    np.testing.assert_allclose(to_numpy(real), wanted.real, atol=1e-5)
    np.testing.assert_allclose(to_numpy(imag), wanted.imag, atol=1e-5)
    np.testing.assert_allclose(to_numpy(again), images, atol=1e-5)


def test_numbers_are_counted_up_to_a_known_one():
    x = keras.Input((3,), dtype="int32")
    sizes = {"minlength": 4, "maxlength": 4}
    rows = table.call("math.bincount", [x], {**sizes, "axis": -1})
    every = table.call("math.bincount", [x], sizes)
    found = keras.Model(x, [rows, every])(np.array([[1, 1, 3], [0, 9, 1]], "int32"))
    rows, every = map(keras.ops.convert_to_numpy, found)
    assert rows.tolist() == [[0, 2, 0, 1], [1, 1, 0, 0]]
    assert every.tolist() == [1, 3, 0, 1]


# Of the seed (0, 30), whose first normal number is below -2: what TensorFlow 2.15 drew.
@pytest.mark.parametrize(
    ("node", "bounds", "dtype", "expected"),
    [
        ("RandomNormal", (), "DT_FLOAT", [-2.163154, 0.064800, 1.779203, 1.628661]),
        ("RandomNormal", (), "DT_HALF", [-2.1640625]),
        ("TruncatedNormal", (), "DT_FLOAT", [0.064800, 1.779203, 1.628661, 0.816120]),
        ("RandomUniform", (), "DT_FLOAT", [0.0961623, 0.7547662, 0.0545275]),
        ("RandomUniformInt", (-5, 17), "DT_INT32", [-3, -5, 13, 0, -2]),
        ("RandomUniformInt", (-(2**63), 2**62), "DT_INT64", [-5196982247302082804]),
        ("RandomUniformFullInt", (), "DT_INT32", [1301040908, 937466926, -108594494]),
        (
            "RandomUniformFullInt",
            (),
            "DT_INT64",
            [4026389789552693004],
        ),
    ],
)
@pytest.mark.parametrize("form", ["", "V2"])
def test_a_seed_stands_for_the_numbers_that_tensorflow_drew(
    node, bounds, dtype, expected, form
):
    (key, counter, alg) = node_def.call(
        {"op": "StatelessRandomGetKeyCounterAlg"}, [np.array([0, 30])], {}
    )
    source = [key, counter, np.int32(alg)] if form else [np.array([0, 30])]
    definition = {"op": f"Stateless{node}{form}", "attr": {"dtype": {"type": dtype}}}
    shape = np.array([len(expected)])
    found = node_def.call(definition, [shape, *source, *map(np.int64, bounds)], {})
    expected = np.array(expected, converters.dtype(dtype))
    assert found.dtype == expected.dtype
    tolerance = 2e-6 if dtype == "DT_FLOAT" else 0
    np.testing.assert_allclose(found, expected, tolerance)


IDS, BOXES = keras.Input((4,), dtype="int32"), keras.Input((4,))
SIZES, MATRICES = table.call("shape", [BOXES], {}), keras.Input((4, 4))


@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("math.bincount", [IDS], "pass minlength and maxlength"),
        ("dynamic_partition", [BOXES, IDS, 2], "the sizes depend on the data"),
        ("dynamic_stitch", [[IDS], [BOXES]], "the positions depend on the data"),
        ("dynamic_stitch", [[np.array([2, 0])], [BOXES]], "indices: none is 1"),
        ("image.crop_and_resize", [BOXES, BOXES, IDS, [2, 2], "bicubic"], "method"),
        ("signal.rfft2d", [keras.Input((4, 4)), [3, 4]], "of other rows"),
        ("random.stateless_normal", [SIZES, [1, 2]], "with a known batch size"),
        ("random.stateless_uniform", [[3], IDS], "expected two known numbers"),
        ("image.adjust_hue", [keras.Input((2, 2, 3), dtype="int32"), 0.1], "floating"),
        ("searchsorted", [[0.5], BOXES, "middle"], "side: expected left or right"),
        ("linalg.set_diag", [MATRICES, BOXES, 1], "k: expected the main diagonal"),
        (
            "quantization.fake_quant_with_min_max_args",
            [BOXES, -1.0, 1.0, 2**40],
            "num_bits: expected 1 to 63, found 1099511627776",
        ),
        (
            "quantization.quantize_and_dequantize_v2",
            [BOXES, -1.0, 1.0, True, 1],
            "num_bits: expected 1 to 63, found 0",
        ),
    ],
)
def test_what_depends_on_the_data_is_refused(name, arguments, match):
    with pytest.raises(ValueError, match=match):
        table.call(name, arguments, {})


def test_an_image_that_is_moved_as_it_is_resized_is_refused():
    constants = {"1": [4, 4], "2": np.float32([2, 2]), "3": np.float32([0, 1])}
    with pytest.raises(ValueError, match="and no translation"):
        node_def.call({"op": "ScaleAndTranslate"}, [keras.Input((2, 2, 1))], constants)


def test_boxes_that_are_not_padded_are_refused():
    node = {"op": "NonMaxSuppressionV4", "attr": {}}
    constants = {"2": 3, "3": 0.5, "4": 0.1}
    with pytest.raises(ValueError, match="depends on the data: pad them"):
        node_def.call(node, [BOXES, keras.Input(())], constants)


@pytest.mark.parametrize(
    "name", ["math.sign", "argsort", "math.argmax", "math.greater"]
)
def test_a_choice_by_random_numbers_is_refused_but_not_by_noisy_data(name):
    x = keras.Input((4,))
    others = [np.float32(0.5)] if name == "math.greater" else []
    drawn = table.call("random.uniform", [table.call("shape", [x], {})], {})
    with pytest.raises(ValueError, match="a choice by random numbers"):
        table.call(name, [drawn + 1, *others], {})
    noisy = keras.layers.GaussianNoise(0.1)(x)
    for values in (noisy, x + drawn):
        found = table.call(name, [values, *others], {})
        assert isinstance(found, keras.KerasTensor)


def test_no_gradient_goes_through_an_assignment():
    """The variable trains by that of its new value, as in TensorFlow."""
    h = keras.Input((1,))
    new = node_def.call({"op": "_Assigned"}, [h, 2 * h], {})
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((1,)), dense, keras.Model(h, new)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    np.testing.assert_allclose(model.predict(np.ones((1, 1)), verbose=0), [[2.0]])
    model.fit(np.ones((1, 1)), np.zeros((1, 1)), verbose=0)
    # 0.1 times the gradient of mse at 2, which is 4; through `2 * h` it would be 8.
    np.testing.assert_allclose(dense.get_weights()[0], [[0.6]], rtol=1e-6)
