"""Op layers of real legacy files, each TensorFlow function alone, predict as they did.

Written by write_ops.py: the NodeDefs of TensorFlow 2.3.4, the function names of 2.15.1.
"""

import base64
import inspect
import json
import pathlib
import re

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies.legacy.ops import (
    gradients,
    helper_ops,
    linalg,
    nn,
    node_def,
    registry,
    table,
)

ARCHIVES = pathlib.Path(__file__).parents[1] / "data" / "legacy" / "ops"
RELEASES = "2.3.4", "2.15.1"
# What keras.ops has no counterpart for: refused, with the name of the function.
UNKNOWN_IN_BOTH = """
bitcast erosion2d linalg_qr linalg_svd math_bessel_i0 math_cumulative_logsumexp
math_digamma math_lgamma math_ndtri ragged_to_tensor unique
"""
DRAWS = """
k_random_normal random_noise random_uniform vae_sampling vae_with_losses
"""
UNKNOWN = {
    "2.3.4": "",
    "2.15.1": """
confusion_matrix dct image_rgb_to_yuv k_ctc_batch_cost k_dropout k_sparse_categorical
linalg_expm losses_hinge losses_sparse_categorical losses_squared_hinge math_polyval
meshgrid nn_dropout psnr ragged_lengths ragged_properties random_flip resize_with_pad
ssim yolo_boxes
""",
}
# What is called in a way that cannot be known before the model runs, or that tf.keras
# did not write down.
REFUSED_IN_BOTH = """
complex math_bincount pad_by_shape
"""
REFUSED = {
    "2.3.4": """
boolean_mask k_dropout nn_dropout random_flip repeat_each signal_rfft slice_mask
sparse_to_dense sparse_values where_indices
""",
    "2.15.1": """
boolean_mask causal_attention einsum einsum_constant einsum_ellipsis einsum_one
gather_nd linalg_einsum op_equal op_not_equal slice_mask where_indices
""",
}
# ops.image.hsv_to_rgb and the like, which 3.8 does not have.
OLD_KERAS = "this Keras has no keras.ops", "which this Keras cannot read from a config"


SLOW = pytest.mark.slow("files of an older release", one_of=3)


def names(release):
    parts = legacy_files.parts_of(ARCHIVES / f"{release}.tar.xz")
    return sorted(case for _, case, file in parts if file == "model.h5")


def cases():
    return [
        pytest.param(
            *(release, name),
            id=f"{release}/{name}",
            marks=() if release == legacy_files.NEWEST else SLOW,
        )
        for release in RELEASES
        if release == legacy_files.NEWEST or legacy_files.IS_THOROUGH
        for name in names(release)
    ]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    archives = [ARCHIVES / f"{release}.tar.xz" for release in RELEASES]
    return legacy_files.unpacked(tmp_path_factory.mktemp("ops"), archives)


def is_unknown(release, name):
    return name in f"{UNKNOWN_IN_BOTH} {UNKNOWN[release]}".split()


def is_refused(release, name):
    return name in f"{REFUSED_IN_BOTH} {REFUSED[release]}".split()


def tolerance(name):
    return 5e-3 if name.endswith("float16") else 2e-5


def reduces_over_axes():
    """Return whether ops.all takes two axes: that of 3.12 fails on torch."""
    try:
        keras.ops.all(keras.ops.ones((2, 3, 4), "bool"), axis=(1, 2))
    except IndexError:
        return False
    return True


def opened(path):
    """Return the model, or None if this Keras cannot make one like it."""
    try:
        return keras_policies.load_model(path, compile=False)
    except keras_policies.LegacyModelError as error:
        is_for_inputs = legacy_files.is_for_unused_inputs(error)
        if is_for_inputs or any(reason in str(error) for reason in OLD_KERAS):
            return None
        raise


@pytest.mark.each_backend("functions of keras.ops")
@pytest.mark.parametrize(("release", "name"), cases())
@pytest.mark.filterwarnings("ignore:.*were left out")
# jax without x64 says so for every cast to int64 or float64.
@pytest.mark.filterwarnings("ignore:(?s).*Explicitly requested dtype")
def test_every_function_gives_what_was_recorded(release, name, folder):
    path = folder / release / name / "model.h5"
    if is_unknown(release, name):
        with pytest.raises(keras_policies.LegacyModelError, match="counterpart in ker"):
            keras_policies.load_model(path)
        return
    if is_refused(release, name):
        reason = "has no counterpart for"
        with pytest.raises(keras_policies.LegacyModelError, match=reason):
            keras_policies.load_model(path)
        return
    model = opened(path)
    if model is None or (name == "reduce_all_axis" and not reduces_over_axes()):
        return
    stored = dict(np.load(path.parent / "expected.npz"))
    inputs = legacy_files.one(legacy_files.in_order(stored, "x_"))
    found = legacy_files.called(model, inputs)
    if name in DRAWS.split():  # nothing is recorded: other numbers in each call
        drawn = [model(inputs, training=True) for _ in range(8)]  # two may be equal
        drawn = [map(keras.ops.convert_to_numpy, keras.tree.flatten(d)) for d in drawn]
        assert any(np.ptp(draws, axis=0).any() for draws in zip(*drawn, strict=True))
        return
    wanted = legacy_files.in_order(stored, "y_")
    for output, expected in zip(found, wanted, strict=True):
        assert output.shape == expected.shape
        np.testing.assert_allclose(
            np.asarray(output, "float64"),
            np.asarray(expected, "float64"),
            rtol=tolerance(name),
            atol=tolerance(name),
        )


def test_the_lists_of_what_is_refused_name_real_cases():
    for release in RELEASES:
        lists = UNKNOWN_IN_BOTH, REFUSED_IN_BOTH, UNKNOWN[release], REFUSED[release]
        listed = " ".join(lists).split()
        assert len(listed) == len(set(listed))
        assert set(listed) <= set(names(release))


@pytest.mark.filterwarnings("ignore:.*were left out")
def test_converted_models_open_in_a_process_without_this_package(
    folder, tmp_path, plain_keras
):
    compared = 0
    for name in names("2.15.1")[::6]:
        if is_unknown("2.15.1", name) or is_refused("2.15.1", name):
            continue
        if name in DRAWS.split():
            continue
        case = folder / "2.15.1" / name
        model = opened(case / "model.h5")
        if model is not None:
            model.save(tmp_path / "model.keras")
            stored = dict(np.load(case / "expected.npz"))
            inputs = [stored[f"x_{i}"] for i in range(len(model.inputs))]
            found, _ = plain_keras(
                tmp_path / "model.keras", inputs if len(inputs) > 1 else inputs[0]
            )
            for i, output in enumerate(found):
                limit = 5e-3 if name.endswith("float16") else 2e-5
                np.testing.assert_allclose(
                    np.asarray(output, "float64"),
                    np.asarray(stored[f"y_{i}"], "float64"),
                    limit,
                    limit,
                    err_msg=name,
                )
            compared += 1
    assert compared > 80


def test_bits_of_a_number_open_in_plain_keras(folder, tmp_path):
    path = folder / "2.15.1" / "bitwise_number"
    opened(path / "model.h5").save(tmp_path / "new.keras")
    stored = dict(np.load(path / "expected.npz"))
    model = keras.models.load_model(tmp_path / "new.keras")
    (found,) = legacy_files.called(model, stored["x_0"])
    np.testing.assert_array_equal(found, stored["y_0"])


def changed(folder, tmp_path, name, edit):
    """Return a copy of a case with its first op layer's config and nodes edited."""
    path = tmp_path / "model.h5"
    path.write_bytes((folder / name / "model.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        edit(next(x for x in config["config"]["layers"] if "function" in x["config"]))
        file.attrs["model_config"] = json.dumps(config)
    return path


def set_argument(**arguments):
    def edit(layer):
        layer["inbound_nodes"][0][3].update(arguments)

    return edit


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("reduce_mean", {"axis": "last"}, "axis: expected an integer, found 'last'"),
        ("reduce_mean", {"keepdims": 1}, "keepdims: expected True or False, found '1'"),
        ("reduce_mean", {"weights": 2}, "unexpected keyword argument 'weights'"),
        ("math_cumsum", {"axis": 1.5}, "axis: expected an integer, found '1.5'"),
        ("nn_softmax", {"axis": True}, "axis: expected an integer, found 'True'"),
    ],
)
def test_an_attribute_of_the_wrong_kind_is_refused(
    name, arguments, message, folder, tmp_path
):
    name = name if name in names("2.15.1") else name.removeprefix("math_")
    path = changed(folder / "2.15.1", tmp_path, name, set_argument(**arguments))
    with pytest.raises(keras_policies.LegacyModelError, match=message) as caught:
        keras_policies.load_model(path)
    assert "calls tf." in str(caught.value)


def test_a_function_outside_the_table_is_named_with_its_layer(folder, tmp_path):
    path = changed(
        folder / "2.15.1",
        tmp_path,
        "nn_relu",
        lambda layer: layer["config"].update(function="raw_ops.Bucketize"),
    )
    expected = r"tf\.raw_ops\.Bucketize \(layers 'tf\.nn\.relu'\)"
    with pytest.raises(keras_policies.LegacyModelError, match=expected):
        keras_policies.load_model(path)


def test_operations_are_called_after_the_layers_they_were(folder):
    path = folder / "2.15.1" / "attention" / "model.h5"
    model = keras_policies.load_model(path)
    called = [operation.name for operation in model.operations]
    assert "tf_linalg_matmul" in called
    assert len(set(called)) == len(called)
    modules = {
        type(operation).__module__.split(".")[0] for operation in model.operations
    }
    assert modules == {"keras"}


def test_a_layer_for_a_loss_is_left_out_with_a_warning(folder):
    path = folder / "2.15.1" / "add_loss_add_metric" / "model.h5"
    with pytest.warns(UserWarning, match="'add_loss', a loss or a metric of a tensor"):
        keras_policies.load_model(path)


@pytest.mark.parametrize("rank", [3, 4])
def test_a_bias_of_channels_first_is_added_to_the_channels(rank):
    # As long as the last axis: Keras on TensorFlow would add it there.
    inputs = keras.Input((3,) * (rank - 1))
    bias = np.array([1.0, 10.0, 100.0], "float32")
    layout = {3: "NCW", 4: "NCHW"}[rank]
    outputs = table.call("nn.bias_add", [inputs, bias], {"data_format": layout})
    zeros = np.zeros((1,) + (3,) * (rank - 1), "float32")
    found = keras.ops.convert_to_numpy(keras.Model(inputs, outputs)(zeros))
    wanted = np.broadcast_to(bias.reshape((3,) + (1,) * (rank - 2)), zeros.shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["DepthToSpace", "SpaceToDepth"])
def test_a_node_with_channels_first_is_refused_where_only_last_is_known(name):
    layout = {"s": base64.b64encode(b"NCHW").decode()}
    node = {"op": name, "attr": {"block_size": {"i": "2"}, "data_format": layout}}
    with pytest.raises(ValueError, match="channels_first.*; expected channels_last"):
        node_def.call(node, [keras.Input((4, 6, 8))], {})


def test_every_parameter_of_every_function_has_a_kind():
    for name, op in registry.FUNCTIONS.items():
        assert op.checks.keys() == op.signature.parameters.keys(), name
        assert set(op.renamed.values()) <= op.checks.keys(), name


def test_nodes_set_parameters_that_their_functions_have():
    for name, (op, raw) in registry.NODES.items():
        inputs = {parameter.removeprefix("*") for parameter in raw.inputs.split()}
        assert inputs | raw.parameters().keys() <= op.checks.keys(), name


# Names directly under tf, and those of namespaces too small for a module.
IN_ARRAY = {"", "__operators__", "bitwise", "dtypes", "quantization"}


# The first name in `op("nn.silu nn.swish")`, or in a row: `"nn.relu Relu: relu"` or
# `(_reduce, "math.reduce_all All")`.
FIRST_NAME = re.compile(
    r'\bop\(\s*"([a-z][\w.]*)|,\s+"([a-z]\w+\.[\w.]+)[^"]*: |\(\w+, "([a-z]\w+\.[\w.]+)'
)


# Each network has a namespace of its own, of one function.
NETWORK = re.compile(r"^(keras\.applications)\.\w+$")


@pytest.mark.parametrize(
    "module",
    [
        module
        for module in vars(table).values()
        if inspect.ismodule(module) and module not in (helper_ops, gradients)
    ],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_a_function_is_in_the_module_of_its_namespace(module):
    names = map("".join, FIRST_NAME.findall(inspect.getsource(module)))
    found = {name.removeprefix("compat.v1.").rpartition(".")[0] for name in names}
    found = {NETWORK.sub(r"\1", name) for name in found}
    starts = {"array" if name in IN_ARRAY else name.replace(".", "_") for name in found}
    (start,) = starts
    assert f"{module.__name__}_".rpartition(".")[2].startswith(f"{start}_")


def test_a_name_is_entered_once():
    with pytest.raises(ValueError, match=r"\['nn.gelu'\] are already registered"):
        registry.op("nn.gelu")(nn.silu)


@pytest.mark.parametrize(
    ("dtype", "options", "match"),
    [
        ("uint8", {}, "x: uint8, expected floating-point numbers"),
        ("float32", {"mode": "other"}, r"mode: 'other', expected one of \['caffe'"),
        ("float32", {"data_format": "channels_first"}, "expected 'channels_last'"),
    ],
)
def test_images_that_would_be_scaled_otherwise_are_refused(dtype, options, match):
    x = keras.Input((4, 4, 3), dtype=dtype)
    with pytest.raises(ValueError, match=match):
        table.call("keras.applications.imagenet_utils.preprocess_input", [x], options)


def test_arguments_go_by_the_order_that_tensorflow_has():
    inputs = keras.Input((3,))
    found = table.call("gather", [inputs, [2, 0], None, 1], {})
    assert found.shape == (None, 2)
    targets = keras.Input((), dtype="int32")
    assert table.call("math.in_top_k", [targets, inputs, 2], {}).shape == (None,)


@legacy_files.once
@pytest.mark.parametrize("takes_batches", [True, False])
@pytest.mark.parametrize("offset", [-1, 0, 2])
@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 4), (5, 1, 4, 2)])
def test_both_forms_of_a_diagonal_agree(shape, offset, takes_batches, monkeypatch):
    monkeypatch.setattr(linalg, "_takes_batches", lambda: takes_batches)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    expected = [np.diagonal(x, offset, -2, -1), np.trace(x, 0, -2, -1)]
    inputs = keras.Input(shape[1:])
    outputs = [linalg.diag_part(inputs, k=offset), linalg.trace(inputs)]
    found = keras.Model(inputs, outputs).predict_on_batch(x)
    constant = [linalg.diag_part(x, k=offset), linalg.trace(x)]
    for each in zip(found, constant, expected, strict=True):
        np.testing.assert_array_equal(each[0], each[2])
        np.testing.assert_array_equal(each[1], each[2])
