"""Lambda layers: rebuilt from their code, refused, or replaced by a user's function."""

import base64
import json
import marshal
import pathlib
import struct
import sys
import zipfile

import costs
import h5py
import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, inspect_model, load_model
from keras_policies.legacy.base.programs import Argument, FunctionStep, StepOutput
from keras_policies.legacy.bytecode import marshalled, values
from keras_policies.legacy.bytecode.follow import follow
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan import lambdas

CALLS, BYTES = 500_000, 10**7  # what hostile code may cost, at most
SOURCE = legacy_files.CORPUS / "2.4.4" / "explicit_lso" / "model.h5"
ARCHIVE = legacy_files.FOLDER / "lambdas.tar.xz"
# Folder of the archive -> the key in `VERSIONS` of the Python that wrote it.
WRITERS = {
    "2.7-keras-2.0.6": "2.7",
    "2.7-keras-2.2.4": "2.7",
    "3.6-keras-2.0.6": "3.6",
    "3.6-keras-2.2.4": "3.6",
    "3.7": "3.6",
    "3.8": "3.8",
    "3.10": "3.10",
    "3.11": "3.11",
    "3.12": "3.12",
}
# Each backend opens those of the oldest and the newest Python, torch all of them.
TRIED = WRITERS if legacy_files.IS_THOROUGH else ("2.7-keras-2.0.6", "3.12")
NEW_FORMAT = "3.11", "3.12"
MODELS = "many", "driving", "wrapped"
# base64 of marshal.dumps of `lambda x: x * 2.0 + 1.0`, by Python 3.7.16 and 3.8.18.
OF_3_7 = (
    "4wEAAAAAAAAAAQAAAAIAAABDAAAAcwwAAAB8AGQBFABkAhcAUwApA07nAAAAAAAAAEDnAAAAAAAA8D+p"
    "ACkB2gF4cgMAAAByAwAAAPoHPHN0ZGluPtoIPGxhbWJkYT4BAAAA8wAAAAA="
)
OF_3_8 = (
    "4wEAAAAAAAAAAAAAAAEAAAACAAAAQwAAAHMMAAAAfABkARQAZAIXAFMAKQNO5wAAAAAAAABA5wAAAAAA"
    "APA/qQApAdoBeHIDAAAAcgMAAAD6BzxzdGRpbj7aCDxsYW1iZGE+AQAAAPMAAAAA"
)
OF_3_13 = (
    "4wEAAAAAAAAAAAAAAAIAAAADAAAA8wwAAACVAFUAUwEtBQAAJAApAk7pAgAAAKkAKQHaAXhzAQAAACDa"
    "CDxzdHJpbmc+2gg8bGFtYmRhPnIGAAAAAQAAAHMIAAAAgACIIYhhiiXzAAAAAA=="
)
# Of `lambda x: x + K.reshape(K.stack([K.zeros((3,)), K.ones((3,))], axis=1), (6,))`, by
# Python 3.8.18: K.zeros makes a variable, so tf.keras 2 saves no Lambda that calls it.
STACK_OF_ZEROS = (
    "4wEAAAAAAAAAAAAAAAEAAAAIAAAAQwAAAHMqAAAAfAB0AKABdABqAnQAoANkAaEBdACgBGQBoQFnAmQC"
    "ZAONAmQEoQIXAFMAKQVOKQHpAwAAAOkBAAAAKQFaBGF4aXMpAekGAAAAKQXaAUtaB3Jlc2hhcGVaBXN0"
    "YWNrWgV6ZXJvc1oEb25lcykB2gF4qQByBgAAAPoHPHN0ZGluPtoIPGxhbWJkYT4BAAAA8wAAAAA="
)
RUNS = sys.version_info[:2] in ((3, 10), (3, 11))  # tf.keras ran on none later
# Instructions of Python 3.8 for `assembled`.
POP, DUP, POWER, MULTIPLY, ADD, SUBSCRIPT, SHIFT = 1, 4, 19, 20, 23, 25, 62
RETURN, CONST, TUPLE, ATTR, JUMP, GLOBAL, FAST, STORE = (
    83,
    100,
    102,
    106,
    113,
    116,
    124,
    125,
)
CALL = 131


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("lambdas"), [ARCHIVE])


def paths(models=MODELS, writers=TRIED):
    """Return `writer/model/file` of models in the archive."""
    return [
        f"{writer}/{model}/model.{form}"
        for writer in writers
        for model in models
        for form in ("h5", *["keras"] * (writer in NEW_FORMAT))
    ]


def assembled(*instructions, constants=(None,), names=(), local=("x",), python="3.8"):
    """Return the marshalled code of `(opcode, argument)` pairs, of one parameter."""
    if python == "3.5":
        code = b"".join(
            struct.pack("<BH", *pair) if pair[0] >= 90 else bytes(pair[:1])
            for pair in instructions
        )
    else:
        code = b"".join(bytes(pair) for pair in instructions)
    numbers = (1, 0, 1, 2, 67) if python == "3.5" else (1, 0, 0, 1, 2, 67)
    # Version 2 of the format, whose objects do not refer to each other.
    fields = code, constants, names, local, (), (), "file", "<lambda>"
    parts = [b"c", *(struct.pack("<i", n) for n in numbers)]
    parts += [marshal.dumps(field, 2) for field in fields]
    return b"".join([*parts, struct.pack("<i", 1), marshal.dumps(b"", 2)])


def text(code):
    return base64.b64encode(code).decode()


def scaled(number=2.0):
    """Return the code of `lambda x: x * number`."""
    steps = (FAST, 0), (CONST, 0), (MULTIPLY, 0), (RETURN, 0)
    return [text(assembled(*steps, constants=(number,))), None, None]


def with_global(name="helper_of_2019"):
    """Return the code of `lambda x: helper_of_2019(x)`."""
    steps = (GLOBAL, 0), (FAST, 0), (CALL, 1), (RETURN, 0)
    return [text(assembled(*steps, names=(name,))), None, None]


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


def outputs(model, path):
    """Return `[(name, found, recorded), ...]` of a model in the archive."""
    stored = legacy_files.expected(path)
    given = legacy_files.one([stored[f"x_{i}"] for i in range(len(model.inputs))])
    found = model.predict(given, verbose=0)
    found = found if isinstance(found, list) else [found]
    recorded = sorted(name for name in stored if name.startswith("y_"))
    return [(n, y, stored[n]) for n, y in zip(recorded, found, strict=True)]


def layer_output(model, name, x):
    layer = model.get_layer(name)
    tensor = keras.ops.convert_to_tensor(np.array(x, "float32"))
    return keras.ops.convert_to_numpy(layer(tensor))


@pytest.mark.parametrize("name", paths())
def test_lambdas_of_each_python_predict_what_was_recorded(name, folder):
    path = pathlib.Path(folder) / name
    model = load_model(path, compile=False)
    for case, found, recorded in outputs(model, path):
        np.testing.assert_allclose(
            found, recorded, rtol=1e-5, atol=1e-5 * np.abs(recorded).max(), err_msg=case
        )


@pytest.mark.parametrize("name", paths(writers=["2.7-keras-2.0.6", "3.12"]))
def test_the_saved_model_opens_in_plain_keras(name, folder, tmp_path):
    path = pathlib.Path(folder) / name
    model = load_model(path, compile=False)
    model.save(tmp_path / "new.keras")
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        config = archive.read("config.json").decode()
    assert "keras_policies" not in config
    assert '"Lambda"' not in config
    again = keras.models.load_model(tmp_path / "new.keras")
    for case, found, recorded in outputs(again, path):
        np.testing.assert_allclose(found, recorded, rtol=1e-5, atol=1e-4, err_msg=case)


def test_a_sequential_stays_one_and_its_lambdas_keep_their_names(folder):
    path = folder / "3.6-keras-2.0.6/driving/model.h5"
    model = load_model(path, compile=False)
    assert isinstance(model, keras.Sequential)
    expected = ["scale", "cropping2d_1", "conv", "pad", "flatten_1", "angle", "radians"]
    assert [layer.name for layer in model.layers] == expected


def test_a_rebuilt_model_goes_on_training(folder):
    model = load_model(folder / "3.8/driving/model.h5")
    x = np.random.default_rng(1).uniform(0, 255, (8, 4, 6, 3)).astype("float32")
    before = [weight.copy() for weight in model.get_weights()]
    model.fit(x, np.ones((8, 1)), verbose=0)
    after = model.get_weights()
    assert all((old != new).any() for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("global", "the name 'unknown_helper', which its author's program defined"),
        ("method", "the attribute 'scaled' of a value that is computed"),
        ("function", "'tf.cond', which has no counterpart in keras.ops"),
        ("branch", "a branch on a value that is computed"),
    ],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_the_first_thing_that_is_not_understood_is_named(writer, name, what, folder):
    with pytest.raises(LegacyModelError) as caught:
        load_model(folder / writer / "refused" / f"{name}.h5")
    assert what in caught.value.reason
    assert caught.value.layer == name
    assert f"custom_objects={{{name!r}: function}}" in caught.value.hint


@pytest.mark.parametrize("writer", WRITERS)
def test_the_python_that_compiled_code_is_told(writer, folder):
    with h5py.File(folder / writer / "refused/global.h5") as file:
        config = json.loads(file.attrs["model_config"])
    held = config["config"]["layers"][1]["config"]["function"]
    held = held["config"]["code"] if isinstance(held, dict) else held[0]
    assert lambdas.read(held).python == WRITERS[writer]


@pytest.mark.parametrize(
    ("writer", "is_base64"), [("2.7-keras-2.0.6", False), ("2.7-keras-2.2.4", True)]
)
def test_code_is_a_text_of_bytes_in_old_keras(writer, is_base64, folder):
    with h5py.File(folder / writer / "refused/global.h5") as file:
        config = json.loads(file.attrs["model_config"])
    held = config["config"]["layers"][1]["config"]["function"][0]
    assert ("\0" not in held) == is_base64
    assert lambdas.read(held).name == "<lambda>"


def test_code_of_python_3_5_is_followed():
    steps = (FAST, 0), (CONST, 0), (27, 0), (CONST, 1), (24, 0), (RETURN, 0)
    code = marshalled.read(assembled(*steps, constants=(127.5, 1.0), python="3.5"))
    assert code.python == "3.5"
    assert follow(code, {}).steps == (
        FunctionStep("python.binary", ("/", Argument(0), 127.5)),
        FunctionStep("python.binary", ("-", StepOutput(0), 1.0)),
    )


def test_inspect_says_what_a_layer_is_rebuilt_from(folder):
    found = inspect_model(folder / "3.8/driving/model.h5")
    assert found.missing == ()
    becomes = {layer.path: layer.becomes for layer in found.layers}
    assert becomes["scale"] == becomes["radians"] == "rebuilt from its bytecode"
    assert becomes["conv"] == "Conv2D"


def test_a_global_name_is_taken_from_custom_objects(tmp_path):
    steps = (FAST, 0), (GLOBAL, 0), (MULTIPLY, 0), (RETURN, 0)
    held = [text(assembled(*steps, names=("factor",))), None, None]
    model = load_model(file_with(tmp_path, held), {"factor": 3.5})
    assert layer_output(model, "twice", [[1.0, -2.0, 0, 0, 0, 0]])[0, :2].tolist() == [
        3.5,
        -7,
    ]


def test_a_function_that_code_calls_is_taken_from_custom_objects(tmp_path):
    path = file_with(tmp_path, with_global())
    model = load_model(path, {"helper_of_2019": keras.ops.square})
    assert layer_output(model, "twice", [[1.0, -2.0, 0, 0, 0, 0]])[0, :2].tolist() == [
        1,
        4,
    ]


def test_a_lambda_computes_in_the_dtype_of_its_policy(tmp_path):
    policy = {"class_name": "Policy", "config": {"name": "mixed_float16"}}
    path = file_with(tmp_path, scaled(2.0), dtype=policy)
    model = load_model(path)
    assert model.get_layer("twice").output.dtype == "float16"


@pytest.mark.filterwarnings("ignore:.*all weights are new")
@pytest.mark.parametrize("has_mask", [False, True])
def test_a_lambda_over_time_is_called_on_each_step(has_mask, tmp_path):
    steps = (GLOBAL, 0), (ATTR, 1), (FAST, 0), (CONST, 0), (CALL, 2), (RETURN, 0)
    code = text(assembled(*steps, constants=(1,), names=("K", "sum")))  # K.sum(x, 1)
    function = {"function": [code, None, None], "function_type": "lambda"}
    shape = {"batch_input_shape": [None, 2, 3], "name": "x"}
    inner = {"class_name": "Lambda", "config": {"name": "sum", **function}}
    layers = [{"class_name": "InputLayer", "config": shape}]
    layers += [{"class_name": "Masking", "config": {"name": "masked"}}] * has_mask
    over_time = {"name": "sums", "layer": inner}
    layers += [{"class_name": "TimeDistributed", "config": over_time}]
    config = {"name": "model", "layers": layers}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"class_name": "Sequential", "config": config}))
    x = np.float32([[[1, 2, 3], [4, 5, 6]]])
    found = keras.ops.convert_to_numpy(load_model(path)(x))
    np.testing.assert_array_equal(found, [[6, 15]])


def test_random_numbers_are_drawn_anew_in_training(tmp_path):
    names = "K", "random_normal", "shape"
    steps = [(FAST, 0), (GLOBAL, 0), (ATTR, 1), (GLOBAL, 0), (ATTR, 2), (FAST, 0)]
    steps += [(CALL, 1), (CALL, 1), (ADD, 0), (RETURN, 0)]
    held = [text(assembled(*steps, names=names)), None, None]
    model = load_model(file_with(tmp_path, held))
    layer = model.get_layer("twice")
    x = keras.ops.zeros((500, 6))
    one, other, still = (
        keras.ops.convert_to_numpy(layer(x, training=training))
        for training in (True, True, None)
    )
    assert (one != other).all()
    assert abs(one.mean()) < 0.1
    assert 0.9 < one.std() < 1.1
    np.testing.assert_array_equal(still, 0)


def nested(levels):
    """Return the marshalled tuple of a tuple, and so on."""
    return b")\x01" * levels + b"N"


def code_with(constants):
    """Return code whose constants are these marshalled bytes."""
    plain = assembled((CONST, 0), (RETURN, 0), constants=("here",))
    return plain.replace(marshal.dumps(("here",), 2), constants)


def doubled(levels):
    """Return a tuple of a tuple twice, and so on: 2 ** levels items in few bytes."""
    shared = b"\xa9\x01N"  # a tuple that is kept as reference 0
    for number in range(levels):
        shared = b"\xa9\x02" + shared + b"r" + struct.pack("<i", levels - number)
    return shared


GROWING = [
    pytest.param([(SHIFT, 0)], (1, 10**9), id="shift"),
    pytest.param([(POWER, 0)], (10, 10**9), id="power"),
    pytest.param([(MULTIPLY, 0)], ("a", 10**9), id="text"),
    pytest.param([(MULTIPLY, 0)], ((1, 2), 10**9), id="tuple"),
    pytest.param([(22, 0)], ("%1000000000d", 1), id="format"),
]


@pytest.mark.parametrize(("steps", "constants"), GROWING)
def test_nothing_large_is_computed_from_constants(steps, constants):
    code = assembled((CONST, 0), (CONST, 1), *steps, (RETURN, 0), constants=constants)
    refused = pytest.raises(LegacyModelError, match=r"sequence|bits|text|parameter")
    with costs.at_most(calls=CALLS, size=BYTES), refused:
        follow(marshalled.read(code), {})


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(JUMP, 0)], id="endless loop"),
        pytest.param([(FAST, 0), *[(DUP, 0), (TUPLE, 2)] * 60], id="doubling tuple"),
        pytest.param([(CONST, 1), *[(DUP, 0), (MULTIPLY, 0)] * 60], id="squares"),
        pytest.param([(POP, 0)], id="empty stack"),
        pytest.param([(CONST, 9)], id="no such constant"),
        pytest.param([(GLOBAL, 9)], id="no such name"),
        pytest.param([(FAST, 9)], id="no such variable"),
        pytest.param([(JUMP, 3)], id="jump into an instruction"),
        pytest.param([(TUPLE, 200)], id="tuple of nothing"),
        pytest.param([(255, 0)], id="unknown instruction"),
        pytest.param([(FAST, 0), (93, 0)], id="loop over a tensor"),
        pytest.param([], id="no instructions"),
    ],
)
def test_hostile_instructions_are_refused(steps):
    code = assembled(*steps, (RETURN, 0), constants=(None, 3)) if steps else assembled()
    with costs.at_most(calls=CALLS, size=BYTES), pytest.raises(LegacyModelError):
        follow(marshalled.read(code), {})


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code_with(nested(100_000)), id="deep"),
        pytest.param(code_with(doubled(40)), id="shared"),
        pytest.param(code_with(b"(\xff\xff\xff\x7f"), id="length"),
        pytest.param(code_with(b"(\xff\xff\xff\xff"), id="negative length"),
        pytest.param(code_with(b")\x01r\xff\xff\xff\x7f"), id="reference to nothing"),
        pytest.param(code_with(b"\xa9\x01r\x00\x00\x00\x00"), id="cycle"),
        pytest.param(code_with(b")\x01l\xff\xff\xff\x7f"), id="long number"),
        pytest.param(code_with(b")\x01l\x00\x00\x00\x80"), id="least long number"),
        pytest.param(code_with(b")\x01s\xff\xff\xff\x7f"), id="long text"),
        pytest.param(b"c" * 80, id="no fields"),
        pytest.param(b"\xe3", id="only the type"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"(" + bytes(4), id="no code"),
        pytest.param(b"c" + bytes(2_000_000), id="too long"),
    ],
)
def test_hostile_marshalled_bytes_are_refused(code):
    with costs.at_most(calls=CALLS, size=BYTES), pytest.raises(LegacyModelError):
        marshalled.read(code)


@pytest.mark.parametrize(
    "attribute", ["__globals__", "__class__", "shape", "get_shape"]
)
def test_code_reaches_nothing_inside_a_given_function(attribute, tmp_path):
    names = "helper_of_2019", attribute
    steps = (GLOBAL, 0), (ATTR, 1), (FAST, 0), (CALL, 1), (RETURN, 0)
    held = [text(assembled(*steps, names=names)), None, None]
    path = file_with(tmp_path, held)
    with pytest.raises(LegacyModelError, match=f"the attribute '{attribute}' of a"):
        load_model(path, {"helper_of_2019": halved})


def called(module, function, constants):
    """Return the code of `lambda x: x + module.function(*constants)`."""
    loads = [(CONST, i) for i in range(len(constants))]
    steps = [(FAST, 0), (GLOBAL, 0), (ATTR, 1), *loads, (CALL, len(constants))]
    code = assembled(
        *steps, (ADD, 0), (RETURN, 0), constants=constants, names=(module, function)
    )
    return [text(code), None, None]


@pytest.mark.parametrize(
    ("module", "function", "constants"),
    [
        ("np", "zeros", (10**12,)),
        ("np", "ones", (1, "S2000000000")),
        ("np", "arange", (0, 1, 1e-12)),
        ("np", "linspace", (0, 1, 10**12)),
        ("np", "power", ((10**300,), 10**9)),
        ("K", "constant", (1.0, "float32", (10**6, 10**6))),
        ("K", "arange", (10**12,)),
        ("math", "pow", (10.0, 10**9)),
    ],
)
def test_no_function_of_constants_fills_memory(module, function, constants, tmp_path):
    path = file_with(tmp_path, called(module, function, constants))
    with costs.at_most(calls=CALLS, size=BYTES), pytest.raises(LegacyModelError):
        load_model(path)


def test_rounding_to_many_digits_is_refused():
    steps = (GLOBAL, 0), (CONST, 0), (CONST, 1), (CALL, 2), (RETURN, 0)
    code = assembled(*steps, constants=(5, -(10**9)), names=("round",))
    with pytest.raises(LegacyModelError, match="-1000000000 digits"):
        follow(marshalled.read(code), {})


def test_a_long_function_is_refused_after_a_number_of_steps():
    steps = [(FAST, 0), *[(DUP, 0), (POP, 0)] * limits.CODE_STEPS, (RETURN, 0)]
    with pytest.raises(LegacyModelError, match="more than 5000 steps"):
        follow(marshalled.read(assembled(*steps)), {})


def test_a_value_has_a_limited_number_of_parts():
    values.check_size((1,) * (limits.CODE_ITEMS - 1))
    with pytest.raises(LegacyModelError, match="more than 1000 values"):
        values.check_size((1,) * limits.CODE_ITEMS)


@pytest.mark.parametrize("function", [text(b"c" * 80), "!!", "c\0\x01", "é\0", 3, None])
def test_a_text_that_is_no_code_is_an_error_of_ours(function, tmp_path):
    path = file_with(tmp_path, [function, None, None])
    with pytest.raises(LegacyModelError):
        load_model(path)


def test_code_of_a_newer_python_is_said_to_be_that(tmp_path):
    path = file_with(tmp_path, [OF_3_13, None, None])
    match = "the layer 'twice': its code is of a Python after 3.12, which is not"
    with pytest.raises(LegacyModelError, match=match) as caught:
        load_model(path)
    assert "custom_objects={'twice': function}" in str(caught.value)


def test_code_in_a_file_is_refused_with_the_name_of_the_layer(tmp_path):
    path = file_with(tmp_path, written(lambda x: helper_of_2019(x)))  # noqa: F821
    with pytest.raises(LegacyModelError, match="the layer 'twice'") as caught:
        load_model(path)
    assert ("safe_mode=False" in str(caught.value)) == RUNS
    assert "custom_objects={'twice': function}" in str(caught.value)


def test_what_this_python_cannot_run_is_not_said_to_be_run_by_safe_mode(tmp_path):
    path = file_with(tmp_path, with_global())
    match = "code that Python 3.8 or 3.9 compiled, which is not run from a file. Its "
    with pytest.raises(LegacyModelError, match=match) as caught:
        load_model(path)
    assert "To replace the code, write the function" in str(caught.value)
    assert "safe_mode" not in str(caught.value)


def test_inspect_lists_a_lambda_that_cannot_be_followed(tmp_path):
    found = inspect_model(file_with(tmp_path, with_global()))
    assert found.missing == ("twice",)
    layer = found.layers[1]
    assert (layer.class_name, layer.becomes) == ("Lambda", None)
    (note,) = found.notes
    assert "the layer 'twice': this Lambda layer holds code that Python 3.8" in note
    assert "'helper_of_2019'" in note


@pytest.mark.parametrize("function", [scaled(), with_global()])
def test_nothing_in_a_file_is_unmarshalled_by_python(function, tmp_path, monkeypatch):
    path = file_with(tmp_path, function)
    monkeypatch.setattr(lambdas.marshal, "loads", pytest.fail)
    inspect_model(path)


@pytest.mark.parametrize(("code", "python"), [(OF_3_7, "3.6"), (OF_3_8, "3.8")])
def test_a_lambda_becomes_a_model_of_its_operations(code, python, tmp_path):
    assert lambdas.read(code).python == python
    model = load_model(file_with(tmp_path, [code, None, None]))
    layer = model.get_layer("twice")
    assert isinstance(layer, keras.Model)
    assert layer_output(model, "twice", [[1.0, -2.0, 0, 0, 0, 0]])[0, :2].tolist() == [
        3,
        -3,
    ]
    names = [type(operation).__name__ for operation in layer.operations]
    assert names == ["InputLayer", "Multiply", "Add"]


def test_zeros_and_ones_are_stacked_along_the_second_axis(tmp_path):
    model = load_model(file_with(tmp_path, [STACK_OF_ZEROS, None, None]))
    found = layer_output(model, "twice", [[0.0] * 6])
    assert found.tolist() == [[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]


def test_code_of_another_python_does_not_run(tmp_path):
    path = file_with(tmp_path, with_global())
    expected = "code that Python 3.8 or 3.9 compiled, which this Python"
    with pytest.raises(LegacyModelError, match=expected):
        load_model(path, safe_mode=False)


@pytest.mark.skipif(not RUNS, reason="tf.keras wrote no code of this Python")
def test_code_of_this_python_runs_where_it_is_trusted(tmp_path):
    path = file_with(tmp_path, written(lambda x, factor=3.0: x.__mul__(factor)))
    model = load_model(path, safe_mode=False)
    assert isinstance(model.get_layer("twice"), keras.layers.Lambda)
    assert layer_output(model, "twice", [[1.0, -2.0]]).tolist() == [[3.0, -6.0]]


@pytest.mark.skipif(not RUNS, reason="tf.keras wrote no code of this Python")
def test_names_that_code_takes_from_its_module_are_asked_for(tmp_path):
    path = file_with(tmp_path, written(lambda x: backend_of_2019.abs(x)))  # noqa: F821
    expected = (
        "'twice': this Lambda layer uses backend_of_2019, which the file does not hold"
    )
    with pytest.raises(LegacyModelError, match=expected):
        load_model(path, safe_mode=False)


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
