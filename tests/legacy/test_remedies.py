"""Follows each advice of an error, from the file to a model that can be called."""

import base64
import importlib.util
import marshal
import pathlib
import re
import shutil
import sys
import warnings

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import LegacyModelError, convert_model, load_model, load_weights
from keras_policies.cli.main import main
from keras_policies.legacy.plan import lambdas

CUSTOM = legacy_files.folder("more") / "2.4.4" / "custom_layer"
AMSGRAD = legacy_files.folder("more") / "2.4.4" / "amsgrad" / "model.h5"
DENSE = legacy_files.CORPUS / "2.15.1" / "seq_dense"
CHECKPOINTS = legacy_files.FOLDER / "checkpoints.tar.xz"
pytestmark = pytest.mark.once("errors are the same on each backend")


def is_called(model):
    """Return whether a model gives finite numbers for ones."""
    shapes = [(2, *(size or 3 for size in x.shape[1:])) for x in model.inputs]
    arrays = [np.ones(shape, "float32") for shape in shapes]
    found = model(arrays if len(arrays) > 1 else arrays[0])
    outputs = map(keras.ops.convert_to_numpy, keras.tree.flatten(found))
    return all(np.isfinite(each.astype("float32")).all() for each in outputs)


def advice(call):
    """Return the error of a call, which has to give advice."""
    with pytest.raises(LegacyModelError) as caught:
        call()
    assert caught.value.hint
    return str(caught.value)


def test_a_missing_class_is_passed_under_the_name_in_the_error():
    path = CUSTOM / "model.h5"
    (name,) = re.findall(
        r"custom_objects=\{'(\w+)': ", advice(lambda: load_model(path))
    )
    assert is_called(load_model(path, {name: legacy_files.Scale}))


def test_a_class_that_shares_the_name_of_one_of_keras_is_passed(tmp_path):
    path = legacy_files.edited(
        AMSGRAD, tmp_path / "edited.h5", "model_config", legacy_files.as_other_class
    )
    said = advice(lambda: load_model(path))
    found = keras_policies.inspect_model(path)
    assert found.code == "KP303"
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", said)
    assert name in found.problem

    class Mine(keras.layers.Dense):
        def __init__(self, gain, **kwargs):
            super().__init__(**kwargs)

    assert is_called(load_model(path, {name: Mine}, compile=False))


def test_an_architecture_takes_its_weights(tmp_path):
    model = load_model(AMSGRAD, compile=False)
    with h5py.File(AMSGRAD) as file:
        (tmp_path / "model.json").write_text(file.attrs["model_config"])
    shutil.copy(AMSGRAD, tmp_path / "weights.h5")
    source, new = tmp_path / "model.json", tmp_path / "new.keras"
    said = advice(lambda: convert_model(source, new, plain=False))
    assert 'weights="weights.h5"' in said
    weights = tmp_path / "weights.h5"
    convert_model(source, new, plain=False, weights=weights)
    opened = keras.models.load_model(new, compile=False)
    for one, other in zip(opened.weights, model.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_weights_that_do_not_fit_are_skipped_and_nothing_tried_is_advised():
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(3, name="other")])
    said = advice(lambda: load_weights(model, AMSGRAD))
    assert "by_name=True" in said
    assert "skip_mismatch=True" in said
    said = advice(lambda: load_weights(model, AMSGRAD, skip_mismatch=True))
    assert "skip_mismatch" not in said
    both = {"by_name": True, "skip_mismatch": True}
    said = advice(lambda: load_weights(model, AMSGRAD, **both))
    assert said.endswith(
        "Build the model with the layers, names and shapes of the file."
    )
    same = keras.models.clone_model(load_model(AMSGRAD, compile=False))
    load_weights(same, AMSGRAD)
    assert is_called(same)


def test_weights_are_loaded_from_a_keras_file():
    path = next(DENSE.glob("*.keras"))
    wanted = load_model(path, compile=False)
    model = keras.models.clone_model(wanted)
    load_weights(model, path)
    for one, other in zip(model.weights, wanted.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert is_called(model)


def test_a_folder_of_checkpoints_is_its_latest(tmp_path):
    for name in "ckpt-1", "ckpt-2":
        for ending in ".index", ".data-00000-of-00001":
            (tmp_path / f"{name}{ending}").touch()
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/old/ckpt-1"\n')
    latest = str(tmp_path / "ckpt-1")
    for path in tmp_path, tmp_path / "checkpoint":
        assert f"load_weights(model, {latest!r})" in advice(
            lambda p=path: load_model(p)
        )


def test_a_part_of_a_model_is_exchanged_for_the_whole():
    folder = CUSTOM / "saved_model"
    said = advice(lambda: load_model(folder / "saved_model.pb"))
    (named,) = re.findall("Pass the folder '(.*)'", said)
    assert pathlib.Path(named) == folder
    with pytest.warns(keras_policies.OutcomeWarning, match="were rebuilt from"):
        assert is_called(load_model(named))


def test_a_file_that_exists_is_replaced(tmp_path):
    new = tmp_path / "new.keras"
    new.touch()
    said = advice(lambda: convert_model(AMSGRAD, new, plain=False))
    assert "overwrite=True" in said
    convert_model(AMSGRAD, new, plain=False, overwrite=True)
    assert is_called(keras.models.load_model(new, compile=False))


def test_a_lost_loss_is_passed_under_the_name_in_the_warning(tmp_path):
    path = legacy_files.edited(
        AMSGRAD,
        tmp_path / "edited.h5",
        "training_config",
        lambda w: w.update(loss="my_loss"),
    )
    with pytest.warns(keras_policies.OutcomeWarning) as caught:
        assert not load_model(path).compiled
    (told,) = (w.message for w in caught if hasattr(w.message, "parts"))
    assert told.outcome is keras_policies.Outcome.LOST
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", str(told))
    model = load_model(path, {name: keras.losses.mean_squared_error})
    assert model.compiled
    assert is_called(model)


def test_the_shell_is_advised_in_its_own_words(tmp_path, capsys):
    new = str(tmp_path / "new.keras")
    assert main(["convert", str(CUSTOM / "model.h5"), new]) == 1
    (option,) = re.findall(r"--custom-objects \w+=MODULE:NAME", capsys.readouterr().err)
    given = option.split()[1].replace("MODULE:NAME", "legacy_files:Scale")
    source = str(CUSTOM / "model.h5")
    assert main(["convert", source, new, "--custom-objects", given, "--no-plain"]) == 0
    capsys.readouterr()
    assert main(["convert", source, new, "--custom-objects", given]) == 1
    assert "--overwrite" in capsys.readouterr().err


def lambda_of_here(written):
    """Let the last layer be a Lambda whose code, of this Python, is not followed."""
    code = marshal.dumps((lambda x: x.__mul__(2.0)).__code__)
    function = [base64.b64encode(code).decode(), None, None]
    layer = written["config"]["layers"][-1]
    layer["class_name"] = "Lambda"
    name = layer["config"]["name"]
    layer["config"] = {"name": name, "function": function, "function_type": "lambda"}


def without_weights_of(path, layer):
    """Take the weights of a layer and the training state out of an H5 file."""
    with h5py.File(path, "r+") as file:
        file["model_weights"][layer].attrs["weight_names"] = []
        del file.attrs["training_config"], file["optimizer_weights"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with models that open only with an argument."""
    folder = tmp_path_factory.mktemp("remedies")
    chosen = {
        "refused": ("any_rank", "loop_in_a_functional", "agent", "number_to_text"),
        "tables": ("tables/2.15.1/labels",),
        "texts": ("texts/2.15.1/sentiment",),
    }
    for archive, names in chosen.items():
        legacy_files.unpacked_models(folder, archive, names)
    path = folder / "lambda.h5"
    legacy_files.edited(AMSGRAD, path, "model_config", lambda_of_here)
    without_weights_of(path, "out")
    return folder


HERE = lambdas.runs_here("{}.{}".format(*sys.version_info))
RUNS = pytest.mark.skipif(not HERE, reason="tf.keras wrote no code of this Python")


@pytest.mark.parametrize(
    ("path", "first", "told", "then"),
    [
        pytest.param(
            "lambda.h5", {}, "pass safe_mode=False", {"safe_mode": False},
            id="trusted-code", marks=RUNS,
        ),
        pytest.param(
            "lambda.h5", {}, r"pass custom_objects=\{'out': function\}",
            {"custom_objects": {"out": keras.ops.abs}}, id="code-written-anew",
        ),
        pytest.param(
            "any_rank/saved_model", {}, r"Pass its shape, such as input_shapes=\{",
            {"input_shapes": {"x": (None, 4)}}, id="any-rank",
        ),
        pytest.param(
            "loop_in_a_functional/saved_model", {}, r"pass input_shapes=\{.* length",
            {"input_shapes": {"x": (None, 6, 4)}}, id="rounds-of-a-loop",
        ),
        pytest.param(
            "agent/saved_model", {}, "opens: pass signature='serving_default'",
            {"signature": "serving_default"}, id="served-function",
        ),
        pytest.param(
            "tables/2.15.1/labels/model", {}, "Pass lost='numbers' for the numbers",
            {"lost": "numbers"}, id="returned-texts",
        ),
        pytest.param(
            DENSE / "model.h5", {"signature": "served"}, "Leave the signature out",
            {}, id="no-functions",
        ),
        pytest.param(
            CUSTOM / "saved_model", {"signature": "served"}, "or leave the signature",
            {"signature": "serving_default"}, id="another-signature",
        ),
        pytest.param(
            CUSTOM / "saved_model", {"lost": "refuse"}, r"custom_objects=\{'Scale'",
            {"custom_objects": legacy_files.CUSTOM_OBJECTS}, id="refused-classes",
        ),
    ],
)  # fmt: skip
def test_an_argument_that_is_advised_opens_the_model(path, first, told, then, folder):
    path = folder / path
    assert re.search(told, advice(lambda: load_model(path, **first)), re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert is_called(load_model(path, **then))


def test_lost_classes_are_named_and_written_again(folder):
    class Written(keras.layers.Layer):
        def call(self, x):
            near = [keras.ops.abs(x - value) < 0.05 for value in (0.5, 1.5)]
            other = keras.ops.where(near[1], 2.0, 0.0)
            return keras.ops.where(near[0], 1.0, other)

    path = folder / "number_to_text/saved_model"
    said = advice(lambda: load_model(path))
    assert "Write the classes of these layers again, and pass them (custom_obj" in said
    assert "with lost='refuse', the error names each missing class" in said
    assert "custom_objects" in advice(lambda: load_model(path, lost="numbers"))
    said = advice(lambda: load_model(path, lost="refuse"))
    (name,) = re.findall(r"custom_objects=\{'(\w+)': ", said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert is_called(load_model(path, {name: Written}))


def test_a_class_is_given_the_arguments_that_are_advised():
    class Scale(legacy_files.Scale):
        def __init__(self, factor=2.0):
            super().__init__(factor)

    path = CUSTOM / "model.h5"
    said = advice(lambda: load_model(path, {"Scale": Scale}))
    assert "Give Scale.__init__ these arguments, and **kwargs" in said
    assert is_called(load_model(path, {"Scale": legacy_files.Scale}))


def test_weights_alone_are_loaded_into_a_model_in_code(tmp_path):
    path = tmp_path / "weights.h5"
    with h5py.File(AMSGRAD) as source, h5py.File(path, "w") as file:
        for name, group in source["model_weights"].items():
            source.copy(group, file, name)
        file.attrs.update(source["model_weights"].attrs)
    said = advice(lambda: load_model(path))
    assert f"call keras_policies.load_weights(model, {str(path)!r})" in said
    model = keras.models.clone_model(load_model(AMSGRAD, compile=False))
    load_weights(model, path)
    assert is_called(model)


def test_layers_are_loaded_by_their_names_as_advised():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, name="hidden")])
    assert "by_name=True" in advice(lambda: load_weights(model, AMSGRAD))
    with pytest.warns(UserWarning, match="'out' is no layer of the model"):
        load_weights(model, AMSGRAD, by_name=True)
    wanted = load_model(AMSGRAD, compile=False).get_layer("hidden").get_weights()
    np.testing.assert_array_equal(model.get_weights()[0], wanted[0])
    assert is_called(model)


def test_one_of_several_models_in_a_folder_is_passed(tmp_path):
    for name in "a.h5", "b.h5":
        shutil.copy(AMSGRAD, tmp_path / name)
    said = advice(lambda: load_model(tmp_path))
    assert "Pass the path of one; convert --output-dir DIR converts all" in said
    assert is_called(load_model(tmp_path / "a.h5", compile=False))
    new = str(tmp_path / "new")
    command = ["convert", str(tmp_path), "--output-dir", new, "--jobs", "1"]
    assert main([*command, "--no-plain"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        *("a.keras", "b.keras")
    ]


def test_weights_for_another_file_are_loaded_by_load_weights():
    said = advice(lambda: load_model(AMSGRAD, weights=AMSGRAD))
    assert "Call keras_policies.load_weights for those of another file" in said
    model = load_model(AMSGRAD, compile=False)
    load_weights(model, AMSGRAD)
    assert is_called(model)


def test_a_model_of_keras_3_is_opened_without_a_policy(tmp_path):
    path = tmp_path / "new.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]).save(path)
    said = advice(lambda: load_model(path, dtype_policy="float32"))
    assert "Load it without dtype_policy" in said
    assert is_called(load_model(path))
    said = advice(lambda: convert_model(path, tmp_path / "other.keras"))
    assert "Open it with keras.models.load_model" in said
    assert is_called(keras.models.load_model(path))


def test_an_architecture_of_keras_3_is_opened_by_keras(tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    (tmp_path / "model.json").write_text(model.to_json())
    said = advice(lambda: load_model(tmp_path / "model.json"))
    assert "Open it with keras.models.model_from_json" in said
    text = (tmp_path / "model.json").read_text()
    assert is_called(keras.models.model_from_json(text))


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")  # of jax
def test_inputs_that_are_texts_are_read_outside_as_advised(folder):
    path = folder / "texts/2.15.1/sentiment/model.keras"
    if importlib.util.find_spec("tensorflow"):
        with pytest.warns(UserWarning, match="To call the model, pass texts='outside'"):
            load_model(path, compile=False)
    else:
        said = advice(lambda: load_model(path))
        assert "With texts='outside', text inputs do not need it" in said
    model = load_model(path, texts="outside", compile=False)
    numbers = keras_policies.text_inputs(model)(["The cat!"])
    assert np.isfinite(keras.ops.convert_to_numpy(model(numbers))).all()
