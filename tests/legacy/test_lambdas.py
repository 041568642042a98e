"""Lambda layers: refused, run if asked to, or replaced by a function of the user's."""

import base64
import json
import marshal
import sys

import h5py
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, inspect_model, load_model
from keras_policies.legacy.plan import bytecode

SOURCE = legacy_files.CORPUS / "2.4.4" / "explicit_lso" / "model.h5"
# base64 of marshal.dumps of `lambda x: x * 2.0 + 1.0`, by Python 3.7.16 and 3.8.18.
OF_3_7 = (
    "4wEAAAAAAAAAAQAAAAIAAABDAAAAcwwAAAB8AGQBFABkAhcAUwApA07nAAAAAAAAAEDnAAAAAAAA8D+p"
    "ACkB2gF4cgMAAAByAwAAAPoHPHN0ZGluPtoIPGxhbWJkYT4BAAAA8wAAAAA="
)
OF_3_8 = (
    "4wEAAAAAAAAAAAAAAAEAAAACAAAAQwAAAHMMAAAAfABkARQAZAIXAFMAKQNO5wAAAAAAAABA5wAAAAAA"
    "APA/qQApAdoBeHIDAAAAcgMAAAD6BzxzdGRpbj7aCDxsYW1iZGE+AQAAAPMAAAAA"
)
RUNS = sys.version_info[:2] in ((3, 10), (3, 11))  # tf.keras ran on none later


def written(function):
    """Return a function as tf.keras wrote it."""
    code = base64.b64encode(marshal.dumps(function.__code__)).decode()
    return [code, list(function.__defaults__ or ()) or None, None]


def file_with(tmp_path, function, kind="lambda", **settings):
    """Return an H5 file in which a Lambda layer is the second layer."""
    path = tmp_path / "model.h5"
    path.write_bytes(SOURCE.read_bytes())
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        layer = {
            "name": "twice",
            "trainable": True,
            "dtype": "float32",
            "function": function,
            "function_type": kind,
            "module": "__main__",
            "output_shape": None,
            "output_shape_type": "raw",
            "output_shape_module": None,
            "arguments": {},
            **settings,
        }
        config["config"]["layers"].insert(
            1, {"class_name": "Lambda", "config": layer, "name": "twice"}
        )
        file.attrs["model_config"] = json.dumps(config)
    return path


def test_code_in_a_file_is_refused_with_the_name_of_the_layer(tmp_path):
    path = file_with(tmp_path, written(lambda x: x * 2.0))
    with pytest.raises(
        LegacyModelError, match="the layer 'twice': this Lambda layer holds code"
    ) as caught:
        load_model(path)
    assert ("safe_mode=False (--unsafe)" in str(caught.value)) == RUNS
    assert "custom_objects={'twice': function}" in str(caught.value)
    assert "(--custom-objects twice=module:function)" in str(caught.value)


def test_what_this_python_cannot_run_is_not_said_to_be_run_by_safe_mode(tmp_path):
    path = file_with(tmp_path, [OF_3_7, None, None])
    match = "code that Python 3.7 or earlier compiled, which is not run from a file. "
    with pytest.raises(
        LegacyModelError, match=f"{match}To replace the code, write the function"
    ) as caught:
        load_model(path)
    assert "safe_mode" not in str(caught.value)


def test_inspect_lists_a_lambda_that_cannot_run_here(tmp_path):
    found = inspect_model(file_with(tmp_path, [OF_3_7, None, None]))
    assert found.missing == ("twice",)
    layer = found.layers[1]
    assert (layer.class_name, layer.becomes) == ("Lambda", None)
    (note,) = found.notes
    assert (
        "the layer 'twice': this Lambda layer holds code that Python 3.7 or earlier"
        in note
    )


def test_inspect_takes_no_code_out_of_a_file(tmp_path, monkeypatch):
    code = base64.b64encode(marshal.dumps((lambda x: x * 2).__code__)).decode()
    path = file_with(tmp_path, [code, None, None])
    monkeypatch.setattr(bytecode.marshal, "loads", pytest.fail)
    found = inspect_model(path)
    assert found.missing == ("twice",)
    assert "which is not run from a file" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "versions"), [(OF_3_7, "3.7 or earlier"), (OF_3_8, "3.8 to 3.10")]
)
def test_code_of_another_python_is_an_error_that_says_which(text, versions, tmp_path):
    assert bytecode.written_by(base64.b64decode(text)) == versions
    if versions == "3.8 to 3.10" and sys.version_info[:2] == (3, 10):
        return  # whose line table, and not its layout, tells it from its own
    path = file_with(tmp_path, [text, None, None])
    with pytest.raises(LegacyModelError, match=f"code that Python {versions} compiled"):
        load_model(path, safe_mode=False)


def test_code_of_the_running_python_is_told_from_that_of_others():
    code = marshal.dumps((lambda x, y=1: np.sum(x) + y).__code__)
    expected = {(3, 10): "3.8 to 3.10", (3, 11): "3.11"}.get(sys.version_info[:2])
    if expected is not None:
        assert bytecode.written_by(code) == expected


@pytest.mark.skipif(not RUNS, reason="tf.keras wrote no code of this Python")
def test_code_of_this_python_runs_where_it_is_trusted(tmp_path):
    path = file_with(
        tmp_path, written(lambda x, factor=3.0: np.float32(2) * x * factor)
    )
    model = load_model(path, safe_mode=False)
    layer = model.get_layer("twice")
    x = keras.ops.convert_to_tensor(np.array([[1.0, -2.0]], "float32"))
    found = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_array_equal(found, [[6.0, -12.0]])


@pytest.mark.skipif(not RUNS, reason="tf.keras wrote no code of this Python")
def test_names_that_code_takes_from_its_module_are_asked_for(tmp_path):
    path = file_with(tmp_path, written(lambda x: backend_of_2019.abs(x)))  # noqa: F821
    expected = (
        "'twice': this Lambda layer uses backend_of_2019, which the file does not hold"
    )
    with pytest.raises(LegacyModelError, match=expected):
        load_model(path, safe_mode=False)
    given = {"backend_of_2019": keras.ops}
    layer = load_model(path, given, safe_mode=False).get_layer("twice")
    x = keras.ops.convert_to_tensor(np.array([[1.0, -2.0]], "float32"))
    found = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_array_equal(found, [[1.0, 2.0]])


@keras.saving.register_keras_serializable("lambdas")
def halved(x):
    return x / 2


@pytest.mark.parametrize("text", [OF_3_7, "no code at all"])
def test_a_function_takes_the_place_of_a_lambda_by_its_name(text, tmp_path):
    path = file_with(tmp_path, [text, None, None])
    model = load_model(path, {"twice": halved})
    x = keras.ops.convert_to_tensor(np.array([[1.0, -2.0]], "float32"))
    found = keras.ops.convert_to_numpy(model.get_layer("twice")(x))
    np.testing.assert_array_equal(found, [[0.5, -1.0]])
    model.save(tmp_path / "new.keras")
    again = keras.models.load_model(tmp_path / "new.keras", compile=False)
    assert again.get_layer("twice").function is halved


def test_what_is_no_function_does_not_replace_a_lambda(tmp_path):
    path = file_with(tmp_path, [OF_3_7, None, None])
    with pytest.raises(
        LegacyModelError, match="expected a function of the layer's input"
    ):
        load_model(path, {"twice": keras.layers.Dense})


def test_a_function_by_name_is_asked_for(tmp_path):
    path = file_with(tmp_path, "rescale_2019", "function")
    with pytest.raises(LegacyModelError, match=r"rescale_2019 \(layers 'twice'\)"):
        load_model(path)
    model = load_model(path, {"rescale_2019": halved})
    assert model.get_layer("twice").function is halved


@pytest.mark.parametrize(
    "function",
    [["!!", None, None], [base64.b64encode(b"c" * 80).decode(), None, None], [], [3]],
)
def test_what_is_no_code_is_ours(function, tmp_path):
    path = file_with(tmp_path, function)
    with pytest.raises(LegacyModelError):
        load_model(path, safe_mode=False)
