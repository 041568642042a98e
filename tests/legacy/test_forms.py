"""What Keras computes wrongly on some backend is right in plain Keras, once converted.

TensorFlow 2.15.1 wrote models of one layer, with outputs for batches of 3 and of 1.
"""

import contextlib
import functools
import itertools

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies as kp
from keras_policies.legacy import plain_keras
from keras_policies.legacy.assembly.keras_differences import forms
from keras_policies.legacy.values import alike

ARCHIVE = legacy_files.FOLDER / "forms-2.15.1.tar.xz"
# Where plain Keras 3.15.1 gave other numbers, or none, in each of these files.
MODELS = {
    "43": "torch, AveragePooling1D(4, 2)",
    "47": "torch, AveragePooling3D((3, 3, 4))",
    "63": "torch, AveragePooling2D, channels first",
    "403": "torch, AveragePooling2D in a Sequential",
    "1222": "torch, AveragePooling3D in a Sequential",
    "1378": "torch, AveragePooling2D in a TimeDistributed",
    "243": "torch, LayerNormalization of whole numbers along the first axis",
    "292": "torch, LayerNormalization along the first axis",
    "507": "torch, LayerNormalization of uint8 in a Sequential",
    "862": "torch, LayerNormalization along the second axis in a Sequential",
    "73": "tensorflow, EinsumDense abcd,de->aebc with a bias along e",
    "902": "tensorflow, EinsumDense abc,cde->abde with a bias along d",
    "177": "tensorflow, DepthwiseConv2D, channels first, in a Sequential",
    "623": "tensorflow, Conv2D, channels first",
    "782": "tensorflow, DepthwiseConv2D, channels first",
    "887": "tensorflow, DepthwiseConv1D, channels first",
    "571": "tensorflow, Average of (3, 1, 2) and (1, 1)",
    "947": "tensorflow, Add of int32 of (2, 2) and (2, 1)",
    "989": "tensorflow, Average of int32",
    "1241": "tensorflow, Add of (1, 3), (3, 1) and (1, 1)",
    "5": "none, LayerNormalization with axes in another order",
    "365": "none, LayerNormalization with axes in another order",
    "967": "none, LayerNormalization of whole numbers",
}


@pytest.mark.once("no backend matters here")
@pytest.mark.parametrize(
    ("lengths", "size"), [((4,), 4), ((4, 4), 4), ((4, 8), None), ((4, 8, 4), None)]
)
def test_an_open_size_is_the_one_that_all_calls_have(lengths, size):
    layer = keras.layers.EinsumDense("abc,cd->abd", (None, 6))
    sizes = forms.OpenSizes(layer)
    for length in lengths:
        sizes.take([keras.Input((length, 3))])
    assert layer.get_config()["output_shape"] == (size, 6)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = (
        legacy_files.unpacked(tmp_path_factory.mktemp("forms"), [ARCHIVE]) / "forms"
    )
    for name in MODELS:
        kp.convert_model(folder / f"{name}.h5", folder / f"{name}.keras", plain=False)
    return folder


@pytest.fixture(scope="module")
def plain(request):
    with contextlib.closing(plain_keras.Process(request.param)) as call:
        yield call


# What torch converts is called on all; what another backend converts, on that one.
OTHER = pytest.mark.slow("it needs this backend beside torch")
OWN = keras.backend.backend()
BACKENDS = (
    [pytest.param(each, marks=OTHER) for each in ("jax", "tensorflow")] + [OWN]
    if legacy_files.IS_THOROUGH
    else [OWN]
)


def check(call, path, recorded, tolerance=2e-4):
    """Compare what plain Keras gives for a file with what was recorded."""
    for batch in ("b3", "b1"):
        inputs, wanted = (
            [recorded[key] for key in recorded.files if f"{batch}_{kind}" in key]
            for kind in "xy"
        )
        found, _ = call(path, inputs if len(inputs) > 1 else inputs[0])
        assert [x.shape for x in found] == [x.shape for x in wanted]
        for pair in zip(found, wanted, strict=True):
            np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("plain", BACKENDS, indirect=True)
@pytest.mark.parametrize("name", MODELS)
def test_a_converted_layer_is_right_in_plain_keras_on_every_backend(
    converted, plain, name
):
    check(plain, converted / f"{name}.keras", np.load(converted / f"{name}.npz"))


CASES = legacy_files.FOLDER / "forms.tar.xz"
# Also among the tests that are not slow: one for each row of docs/keras-faults.md.
QUICK = [
    *("2.15.1/pooled/model.h5", "2.15.1/columns/model.h5", "2.15.1/norm/model.h5"),
    *("2.15.1/dense_and_a_constant/model.h5", "2.15.1/lost/saved_model"),
    *("2.15.1/norm_of_whole_numbers/model.h5", "2.15.1/masked_columns/model.h5"),
]
SLOW = pytest.mark.slow(
    "another release, format, or place of the same layers", one_of=3
)
WEEKLY = pytest.mark.slow("the same on another backend", weekly=True)
OTHERS = [
    pytest.param(each, marks=WEEKLY)
    for each in ("jax", "tensorflow")
    if legacy_files.IS_THOROUGH
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a function that converts a model by its name, once."""
    folder = legacy_files.unpacked(tmp_path_factory.mktemp("cases"), [CASES])

    @functools.cache
    def write(name):
        new = folder / f"{name.replace('/', '-')}.keras"
        kp.convert_model(folder / name, new, plain=False)
        return new, np.load((folder / name).with_name("expected.npz"))

    return write


def cases():
    names = legacy_files.names(CASES) if legacy_files.IS_THOROUGH else QUICK
    return [pytest.param(name, marks=() if name in QUICK else SLOW) for name in names]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # jax
@pytest.mark.parametrize("plain", [*OTHERS, OWN], indirect=True)
@pytest.mark.parametrize("name", cases())
def test_it_is_right_wherever_it_stands(written, plain, name):
    check(plain, *written(name), tolerance=5e-3 if "half" in name else 2e-4)


@legacy_files.once
def test_a_form_has_the_name_of_its_layer(converted):
    model = kp.load_model(converted / "1241.h5")
    assert type(model.get_layer("it")).__name__ == "Functional"
    assert [layer.name for layer in kp.load_model(converted / "403.h5").layers] == [
        "it"
    ]


@legacy_files.once
def test_attention_with_keys_of_one_number_is_refused_for_tensorflow(converted):
    path = converted / "attention.h5"
    with pytest.raises(
        kp.LegacyModelError, match=r"the bias in it, of the shape \(3, 1\)"
    ):
        kp.load_model(path)
    model = kp.load_model(path, backends=["jax", "torch"])
    assert isinstance(model.layers[-1], keras.layers.MultiHeadAttention)
    with pytest.raises(ValueError, match="backends must be among"):
        kp.load_model(path, backends=["theano"])


def added_by_stock(shape, other):
    """Return the axis of a bias for which TensorFlow takes `other`, or None."""
    long = [n for n in other if n > 1]
    if len(long) == 1 and len(shape) > 1 and long[0] in (shape[1], shape[-1]):
        return len(shape) - 1 if shape[-1] == long[0] else 1
    return None


def is_right(shape, other):
    axis = added_by_stock(shape, other)
    if axis is None:
        return True
    (wanted,) = (i for i, n in enumerate(other) if n > 1)
    return len(other) <= len(shape) and axis == wanted - len(other) + len(shape)


def instances(shape):
    return itertools.product(*((1, 3, 4) if n is None else (n,) for n in shape))


def meet(*shapes):
    try:
        return np.broadcast_shapes(*shapes) is not None
    except ValueError:
        return False


@legacy_files.once
@pytest.mark.parametrize("rank", range(4))
def test_shapes_are_added_alike_exactly_if_tensorflow_is_right_for_all_lengths(rank):
    options = None, 1, 3, 4
    for other_rank in range(4):
        for shape in itertools.product(options, repeat=rank):
            for other in itertools.product(options, repeat=other_rank):
                pairs = itertools.product(instances(shape), instances(other))
                fitting = [pair for pair in pairs if meet(*pair)]
                if fitting:
                    wanted = all(itertools.starmap(is_right, fitting))
                    assert alike.is_added_alike(shape, other) == wanted, (shape, other)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "bool"])
def test_a_sum_by_subtraction_has_the_same_bits(dtype):
    numbers = (
        np.array([[0, 1, 2, 127]]).astype(dtype),
        np.array([[3], [250]]).astype(dtype),
    )
    inputs = [keras.Input(batch_shape=(None, n), dtype=dtype) for n in (4, 1)]
    x, y = (keras.ops.convert_to_tensor(each) for each in numbers)
    model = keras.Model(inputs, alike.added(*inputs))
    found = keras.ops.convert_to_numpy(model([keras.ops.tile(x, [2, 1]), y]))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, numbers[0] + numbers[1])
    assert found.dtype == dtype
    assert not alike.is_added_alike((None, 4), (None, 1))
