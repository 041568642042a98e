"""Files that are no model, broken or not to be trusted end in one clear error."""

import contextlib
import itertools
import json
import pathlib
import random
import re
import shutil
import warnings
import zipfile

import h5py
import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import (
    LegacyModelError,
    convert_model,
    inspect_model,
    load_model,
    load_weights,
)
from keras_policies.legacy.assembly import build, explanations
from keras_policies.legacy.guards import guarded_hdf5
from keras_policies.legacy.plan.report import Report
from keras_policies.legacy.readers.checkpoint import protos

SOURCE = legacy_files.CORPUS / "2.15.1" / "seq_dense"


def test_the_error_is_a_value_error():
    assert issubclass(LegacyModelError, ValueError)


def test_what_is_not_there(tmp_path):
    for call in load_model, inspect_model:
        for kind in LegacyModelError, FileNotFoundError:
            with pytest.raises(kind, match="nothing: there is no such file or folder"):
                call(tmp_path / "nothing")


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(LegacyModelError, match=r"a folder without saved_model.pb"):
        load_model(tmp_path)


@pytest.mark.parametrize("content", [b"PK", b"hello world", b"\x89HDF"])
def test_a_foreign_file(tmp_path, content):
    path = tmp_path / "model.h5"
    path.write_bytes(content)
    with pytest.raises(LegacyModelError, match="no model: it begins with"):
        load_model(path)


def test_a_tf_lite_file_is_named(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3\x14\0 \0")
    problem = "a TensorFlow Lite model, which cannot be trained. Pass the model that it"
    with pytest.raises(LegacyModelError, match=problem):
        load_model(path)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    "name",
    ["model.h5", "model.keras", "saved_model.pb", "variables/variables.index"],
)
def test_a_pointer_of_git_lfs_is_named(name, tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    (tmp_path / name).write_bytes(POINTER)
    path = tmp_path if "/" in name or name.endswith(".pb") else tmp_path / name
    last = re.escape(pathlib.PurePath(name).name)
    with pytest.raises(
        LegacyModelError, match=f"{last} is a Git LFS pointer.*Run git lfs pull"
    ) as caught:
        load_model(path)
    assert caught.value.code == "KP106"


@pytest.mark.parametrize("name", ["weights.h5", "ckpt.index"])
def test_weights_that_are_a_pointer_of_git_lfs_are_named(name, tmp_path):
    (tmp_path / name).write_bytes(POINTER)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(LegacyModelError, match="Git LFS pointer"):
        load_weights(model, tmp_path / name.removesuffix(".index"))


def without_functions(meta_graph):
    graph = meta_graph.object_graph_def
    children, nodes = graph.nodes[0].children, graph.nodes
    for number in reversed(range(len(children))):
        is_function = nodes[children[number].node_id].HasField("function")
        if is_function or children[number].local_name == "signatures":
            del children[number]


def without_traces(meta_graph):
    for node in meta_graph.object_graph_def.nodes:
        if node.HasField("function"):
            node.function.ClearField("concrete_functions")
    children = meta_graph.object_graph_def.nodes[0].children
    for number in reversed(range(len(children))):
        if children[number].local_name == "signatures":
            del children[number]


def without_objects(meta_graph):
    del meta_graph.object_graph_def.nodes[:]
    del meta_graph.signature_def[:]


@pytest.mark.parametrize("release", ["1.15.5", "2.4.4"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_functions, "without Keras metadata and without functions.*load_weig"),
        (without_traces, "without Keras metadata and without functions.*load_weig"),
        (without_objects, "without objects, as TensorFlow 1 wrote it, and without sig"),
    ],
)
def test_a_saved_model_with_nothing_to_rebuild(tmp_path, release, change, message):
    path = tmp_path / "saved_model"
    shutil.copytree(legacy_files.CORPUS / release / "no_metadata" / "saved_model", path)
    file = path / "saved_model.pb"
    parsed = protos.parse("SavedModel", file.read_bytes())
    change(parsed.meta_graphs[0])
    file.write_bytes(parsed.SerializeToString())
    with pytest.raises(LegacyModelError, match=message):
        load_model(path)


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file(tmp_path, form, share):
    whole = (SOURCE / form).read_bytes()
    path = tmp_path / form
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(LegacyModelError, match="truncated|corrupt|not a re") as caught:
        load_model(path)
    assert re.match("Copy (the file|it) again", caught.value.hint)


@pytest.mark.parametrize("name", ["saved_model.pb", "keras_metadata.pb"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_a_truncated_saved_model(tmp_path, name, share):
    folder = tmp_path / "saved_model"
    shutil.copytree(SOURCE / "saved_model", folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(len(whole) * share)])
    problem = re.escape(str(folder)) + ".* Copy the file again"
    with pytest.raises(LegacyModelError, match=problem):
        load_model(folder)


def test_the_index_or_the_shard_of_a_saved_model_is_missing(tmp_path):
    for name in "variables.index", "variables.data-00000-of-00001":
        folder = tmp_path / name
        shutil.copytree(SOURCE / "saved_model", folder)
        (folder / "variables" / name).unlink()
        with pytest.raises(LegacyModelError, match=f"{name} is missing"):
            load_model(folder)


def edited_h5(tmp_path, edit):
    """Return a copy of an H5 model with its model_config edited."""
    path = shutil.copy(SOURCE / "model.h5", tmp_path / "edited.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        edit(config, file)
        file.attrs["model_config"] = json.dumps(config)
    return path


def test_missing_classes_are_all_named_with_their_layers(tmp_path):
    def edit(config, file):
        layers = config["config"]["layers"]
        layers[1]["class_name"] = "Cosine"
        layers[3]["class_name"] = "pkg>Blur"
        layers[4]["class_name"] = "Cosine"

    with pytest.raises(LegacyModelError) as caught:
        load_model(edited_h5(tmp_path, edit))
    text = str(caught.value)
    assert "Cosine (layers 'fc1', 'fc2')" in text
    assert "pkg>Blur (layers 'drop')" in text
    assert "custom_objects={'Cosine': ...}" in text
    found = inspect_model(tmp_path / "edited.h5")
    assert found.missing == ("Cosine", "pkg>Blur")


def test_a_class_without_a_counterpart_is_named(tmp_path):
    def edit(config, file):
        config["config"]["layers"][1]["class_name"] = "RandomHeight"

    with pytest.raises(
        LegacyModelError, match="'fc1': its class is RandomHeight; Keras 3"
    ):
        load_model(edited_h5(tmp_path, edit))


def test_a_setting_that_keras_3_cannot_do_is_named(tmp_path):
    def edit(config, file):
        config["config"]["layers"][2]["config"]["virtual_batch_size"] = 4

    with pytest.raises(
        LegacyModelError, match="'bn': .*virtual_batch_size=4, which Keras 3 cannot"
    ):
        load_model(edited_h5(tmp_path, edit))


@pytest.mark.parametrize("bad", [3, "x", None, [1]])
def test_what_is_no_config_of_a_layer_is_named(tmp_path, bad):
    path = edited_h5(
        tmp_path, lambda config, file: config["config"]["layers"].insert(1, bad)
    )
    with pytest.raises(LegacyModelError, match="expected the config of a layer, found"):
        load_model(path)


def edited_keras(folder, edit):
    """Return the path of a `.keras` file whose config a function changed."""
    path = folder / "model.keras"
    with (
        zipfile.ZipFile(SOURCE / "model.keras") as old,
        zipfile.ZipFile(path, "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                config = json.loads(content)
                edit(config)
                content = json.dumps(config)
            new.writestr(name, content)
    return path


def test_what_is_no_config_of_a_layer_is_named_in_an_archive(tmp_path):
    path = edited_keras(
        tmp_path, lambda config: config["config"]["layers"].insert(1, 3)
    )
    with pytest.raises(LegacyModelError, match="expected the config of a layer, found"):
        load_model(path)


@pytest.mark.parametrize(
    ("registered_name", "module", "shown"),
    [
        ("Dense", None, "Custom>Dense"),
        ("Custom>Dense", None, "Custom>Dense"),
        ("Addons>Dense", "tensorflow_addons.layers.dense", "Addons>Dense"),
        ("keras_nlp>Dense", "keras_nlp.layers.dense", "keras_nlp>Dense"),
    ],
)
def test_a_class_that_has_only_the_name_of_one_of_keras_is_missing(
    tmp_path, registered_name, module, shown
):
    def edit(config):
        layers = config["config"]["layers"]
        (layer, *_) = (each for each in layers if each["class_name"] == "Dense")
        layer |= {"registered_name": registered_name, "module": module}

    path = edited_keras(tmp_path, edit)
    with pytest.raises(LegacyModelError, match=f"not have:\n  {shown} "):
        load_model(path)
    dense = {shown.rpartition(">")[2]: keras.layers.Dense}
    x = np.ones((2, *load_model(SOURCE / "model.keras").input_shape[1:]), "float32")
    found = load_model(path, custom_objects=dense).predict(x, verbose=0)
    expected = load_model(SOURCE / "model.keras").predict(x, verbose=0)
    np.testing.assert_array_equal(found, expected)


LOOKAHEAD = {
    "class_name": "Lookahead",
    "module": "tensorflow_addons.optimizers.lookahead",
    "registered_name": "Addons>Lookahead",
    "config": {
        "name": "Lookahead",
        "optimizer": {
            "class_name": "RectifiedAdam",
            "module": "tensorflow_addons.optimizers.rectified_adam",
            "registered_name": "Addons>RectifiedAdam",
            "config": {"name": "RectifiedAdam"},
        },
    },
}
SUM_OF_LOSSES = {
    "class_name": "SumOfLosses",
    "module": "segmentation_models.base.objects",
    "registered_name": "SumOfLosses",
    "config": "binary_crossentropy_plus_jaccard_loss",
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("optimizer", LOOKAHEAD, "optimizers: 'Addons>Lookahead', pass custom_obj"),
        ("loss", SUM_OF_LOSSES, "losses: 'Custom>SumOfLosses', pass custom_obj"),
    ],
)
def test_an_unknown_object_that_holds_others_or_a_text_is_left_out(
    tmp_path, key, value, message
):
    path = edited_keras(
        tmp_path, lambda config: config["compile_config"].update({key: value})
    )
    with pytest.warns(UserWarning, match=message):
        model = load_model(path)
    assert not model.compiled


def test_an_unknown_policy_is_named(tmp_path):
    def edit(config, file):
        policy = {"class_name": "Policy", "config": {"name": "mixed_float99"}}
        config["config"]["layers"][1]["config"]["dtype"] = policy

    with pytest.raises(LegacyModelError, match="'fc1': its dtype is .*mixed_float99"):
        load_model(edited_h5(tmp_path, edit))


def test_a_weight_that_does_not_fit_names_both_shapes(tmp_path):
    def edit(config, file):
        group = file["model_weights/fc1/fc1"]
        name = next(name for name in group if name.startswith("kernel"))
        del group[name]
        group[name] = np.zeros((10, 17), "float32")

    match = (
        r"'fc1' has weights of the shapes \[\(any, 16\), .*holds \[.*\(10, 17\) of fl"
    )
    path = edited_h5(tmp_path, edit)
    with pytest.raises(LegacyModelError, match=match) as told:
        load_model(path)
    found = inspect_model(path)
    assert (found.problem, found.code) == (told.value.problem, "KP402")


def without_layers(group):
    group.attrs["layer_names"] = []


def without_weights(group):
    for name in group.attrs["layer_names"]:
        group[name].attrs["weight_names"] = []


def without_one(group):
    group["fc1"].attrs["weight_names"] = []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (without_layers, "'fc1', 'bn', 'fc2'"),
        (without_weights, "'fc1', 'bn', 'fc2'"),
        (without_one, "'fc1'"),
    ],
)
def test_layers_whose_weights_are_not_in_the_file_are_named(tmp_path, change, named):
    path = edited_h5(tmp_path, lambda config, file: change(file["model_weights"]))
    with pytest.raises(LegacyModelError, match=f"no weights of {named}.*again") as told:
        load_model(path)
    found = inspect_model(path)
    assert (found.problem, found.code) == (told.value.problem, "KP402")


def test_a_missing_weight_names_the_layer(tmp_path):
    def edit(config, file):
        group = file["model_weights/bn"]
        group.attrs["weight_names"] = list(group.attrs["weight_names"])[:3]

    with pytest.raises(LegacyModelError, match="'bn' has weights .* the file holds"):
        load_model(edited_h5(tmp_path, edit))


def test_links_out_of_the_file_are_not_followed(tmp_path):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["kernel"] = np.ones((10, 16), "float32")

    def edit(config, file):
        group = file["model_weights/fc1/fc1"]
        name = next(name for name in group if name.startswith("kernel"))
        del group[name]
        group[name] = h5py.ExternalLink(str(secret), "kernel")

    with pytest.raises(LegacyModelError, match="is a link to somewhere else"):
        load_model(edited_h5(tmp_path, edit))


def test_broken_code_in_a_file_is_refused(tmp_path):
    def edit(config, file):
        config["config"]["layers"][3] = {
            "class_name": "Lambda",
            "config": {
                "name": "evil",
                "function": ["4wEAAAA=", None, None],
                "function_type": "lambda",
            },
        }

    with pytest.raises(
        LegacyModelError, match="the layer 'evil': corrupt: its code: expected"
    ):
        load_model(edited_h5(tmp_path, edit))


def test_json_that_is_too_deep_or_no_object(tmp_path):
    for text in "[" * 100_000, "[1]", "{", "null":
        path = shutil.copy(SOURCE / "model.keras", tmp_path / "deep.keras")
        rewritten = tmp_path / "rewritten.keras"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(rewritten, "w") as new:
            for name in old.namelist():
                new.writestr(name, text if name == "config.json" else old.read(name))
        with pytest.raises(LegacyModelError, match=r"config\.json: "):
            load_model(rewritten)


def test_a_zip_that_is_no_model(tmp_path):
    path = tmp_path / "a.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(LegacyModelError, match=r"no model in it: no saved_model.pb"):
        load_model(path)


def test_weights_alone_are_no_model():
    folder = legacy_files.folder("more") / "2.4.4" / "amsgrad"
    for name in "weights.h5", "checkpoint/weights":
        with pytest.raises(LegacyModelError, match=r"keras_policies\.load_weights"):
            load_model(folder / name)


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model"])
def test_a_model_of_keras_3_is_not_legacy(tmp_path, name):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    path = tmp_path / name
    if path.suffix:
        model.save(path)
    else:
        model.save(tmp_path / "model.zip.keras")
        with zipfile.ZipFile(tmp_path / "model.zip.keras") as archive:
            archive.extractall(path)
    assert load_model(path).count_params() == 9
    with pytest.raises(LegacyModelError, match="dtype_policy is for legacy models"):
        load_model(path, dtype_policy="float32")
    with pytest.raises(
        LegacyModelError, match="written by Keras 3, which opens it as it is"
    ):
        inspect_model(path)
    with pytest.raises(
        LegacyModelError, match="written by Keras 3, which opens it as it is"
    ):
        convert_model(path, tmp_path / "new.keras")
    assert not (tmp_path / "new.keras").exists()


@pytest.mark.parametrize("form", ["model.h5", "model.keras"])
def test_a_file_is_opened_once(form, monkeypatch):
    opened, stock = [], guarded_hdf5.h5py.File
    monkeypatch.setattr(
        guarded_hdf5.h5py, "File", lambda *args: opened.append(args) or stock(*args)
    )
    load_model(SOURCE / form)
    assert len(opened) == 1


def test_a_dtype_policy_that_is_none():
    with pytest.raises(TypeError, match="dtype_policy must be the name"):
        load_model(SOURCE / "model.h5", dtype_policy=16)
    with pytest.raises(ValueError, match="float99"):
        load_model(SOURCE / "model.h5", dtype_policy="float99")


def small():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(hidden))


@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
@pytest.mark.parametrize("name", ["weights.h5", "checkpoint/weights", "model.h5"])
def test_load_weights_into_a_model_built_in_code(release, name):
    folder = legacy_files.folder("more") / release / "amsgrad"
    model = small()
    load_weights(model, folder / name)
    (found,) = legacy_files.outputs(model, folder / "model.h5")
    wanted = legacy_files.arrays(folder / "model.h5", "y_")[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("release", ["2.0.0", "2.4.4", "2.15.1"])
@pytest.mark.parametrize("name", ["weights.h5", "checkpoint/weights", "saved_model"])
def test_load_weights_into_a_subclassed_model(release, name):
    folder = legacy_files.folder("more") / release / "subclassed"
    model = legacy_files.Net()
    model(legacy_files.inputs(folder / "saved_model"))
    load_weights(model, folder / name)
    (found,) = legacy_files.outputs(model, folder / "saved_model")
    wanted = legacy_files.arrays(folder / "saved_model", "y_")[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["weights.h5", "checkpoint/weights"])
def test_load_weights_changes_all_or_nothing(name):
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    before = [np.array(weight) for weight in model.get_weights()]
    path = legacy_files.folder("more") / "2.4.4" / "amsgrad" / name
    with pytest.raises(LegacyModelError, match=r"\(5, 3\), the file's .*\(5, 2\)"):
        load_weights(model, path)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


AMSGRAD = legacy_files.folder("more") / "2.4.4" / "amsgrad"
DECAY = legacy_files.folder("more") / "2.4.4" / "sgd_decay" / "saved_model"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (AMSGRAD / "checkpoint", AMSGRAD / "checkpoint" / "weights"),
        (AMSGRAD / "checkpoint" / "checkpoint", AMSGRAD / "checkpoint" / "weights"),
        (AMSGRAD / "checkpoint" / "weights.index", AMSGRAD / "checkpoint" / "weights"),
        (
            AMSGRAD / "checkpoint" / "weights.data-00000-of-00001",
            AMSGRAD / "checkpoint" / "weights",
        ),
        (DECAY / "saved_model.pb", DECAY),
        (DECAY / "variables", DECAY),
    ],
    ids=lambda path: path.name,
)
def test_a_part_of_a_model_names_the_path_that_was_meant(tmp_path, path, meant):
    text = (
        f"did you mean {str(meant)!r}" if meant != DECAY else f"folder {str(DECAY)!r}"
    )
    if path.name == "checkpoint":  # a folder, and the list in it: the latest is meant
        load_weights(small(), path)
    else:
        with pytest.raises(LegacyModelError, match=re.escape(text)):
            load_weights(small(), path)
    text = text.replace("did you mean ", "load_weights(model, ")
    for call in load_model, inspect_model:
        with pytest.raises(LegacyModelError, match=re.escape(text)):
            call(path)
    with pytest.raises(LegacyModelError, match=re.escape(text)):
        convert_model(path, tmp_path / "new.keras")


@pytest.mark.parametrize("name", [".index", ".data-00000-of-00001"])
def test_a_file_that_is_only_an_ending_is_no_part_of_a_checkpoint(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"text")
    for call in load_model, inspect_model:
        with pytest.raises(LegacyModelError, match=rf"{name}: no model: it begins"):
            call(path)
    with pytest.raises(LegacyModelError, match=rf"{name}: not an HDF5 file"):
        load_weights(small(), path)
    with pytest.raises(LegacyModelError, match=r"a folder without saved_model\.pb"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["weights.h5", "checkpoint/weights"])
def test_a_layer_too_many_is_named_whatever_the_layers_are_called(name):
    inputs = keras.Input((4,))
    x = keras.layers.Dense(5, name="one")(inputs)
    x = keras.layers.Dense(5, name="two")(x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="three")(x))
    match = (
        r"has 3 layers with weights, the file 2, .* first that differ: 'two' with "
        r"\[\(5, 5\), \(5,\)\], in the file '.*' with \[\(5, 2\), \(2,\)\]"
    )
    with pytest.raises(LegacyModelError, match=match) as caught:
        load_weights(model, AMSGRAD / name)
    assert "Pass by_name=True to load the layers whose names are in" in str(
        caught.value
    )


def test_a_dict_of_names_is_asked_for_as_custom_objects():
    with pytest.raises(TypeError, match="custom_objects must be a dict of names"):
        load_model(SOURCE / "model.h5", [keras.layers.Dense])


def test_a_class_that_goes_by_the_name_of_a_stock_layer_is_asked_for(tmp_path):
    def edit(config, file):
        config["config"]["layers"][1]["class_name"] = "Attention"

    match = r"Keras also has a layer Attention: .*={'Attention': \.\.\.}"
    with pytest.raises(LegacyModelError, match=match):
        load_model(edited_h5(tmp_path, edit))


def test_load_weights_wants_a_built_model():
    path = legacy_files.folder("more") / "2.4.4" / "subclassed" / "weights.h5"
    with pytest.raises(LegacyModelError, match="has no weights yet"):
        keras_policies.load_weights(legacy_files.Net(), path)


def _places(value, path=()):
    """Yield the path of every value in a nest."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, item in inner:
        yield from _places(item, (*path, key))


def _with(value, path, new):
    """Return a nest with another value at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(copy[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(
    "new", [None, 7, "x", [], {}, [[]], {"class_name": 3}], ids=str
)
@pytest.mark.parametrize("attribute", ["model_config", "training_config"])
def test_a_config_with_anything_anywhere_opens_or_is_refused(tmp_path, attribute, new):
    source = legacy_files.CORPUS / "2.1.4" / "nested_model" / "model.h5"
    path = shutil.copy(source, tmp_path / "model.h5")
    with h5py.File(path) as file:
        config = json.loads(file.attrs[attribute])
    for place in list(_places(config))[::11]:
        with h5py.File(path, "r+") as file:
            file.attrs[attribute] = json.dumps(_with(config, place, new))
        with contextlib.suppress(LegacyModelError):  # and no other error
            inspect_model(path)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        pytest.param(1 + 2j, r"fc1/bias .*\(16,\)", id="complex"),
        pytest.param(b"abc", "bias:0' has the dtype .S3, which no w", id="text"),
        pytest.param(3, r"fc1/bias .*\(16,\)", id="int"),
    ],
)
def test_a_weight_of_another_kind_of_number_is_refused(tmp_path, value, match):
    def edit(config, file):
        group = file["model_weights/fc1/fc1"]
        name = next(name for name in group if name.startswith("bias"))
        del group[name]
        group[name] = np.full((16,), value)

    path = edited_h5(tmp_path, edit)
    model = load_model(SOURCE / "model.h5")
    before = [np.array(weight) for weight in model.get_weights()]
    for call in load_model, lambda path: load_weights(model, path):
        with pytest.raises(LegacyModelError, match=match):
            call(path)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


def my_sigmoid(x):
    return keras.ops.sigmoid(x)


def test_an_activation_that_changed_is_that_of_tf_keras(tmp_path):
    def edit(config, file):
        config["config"]["layers"][1]["config"]["activation"] = "hard_sigmoid"

    path = edited_h5(tmp_path, edit)
    x = np.array([-3.0, -2.4, -1.0, 0.0, 2.0, 2.6], "float32")
    wanted = [0.0, 0.02, 0.3, 0.5, 0.9, 1.0]
    found = load_model(path).get_layer("fc1").activation(x)
    # fc1 computes in float16.
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, atol=1e-3)
    model = load_model(path, {"hard_sigmoid": my_sigmoid})
    assert model.get_layer("fc1").activation is my_sigmoid
    converted = keras_policies.convert_model(path, tmp_path / "new.keras")
    again = keras.models.load_model(tmp_path / "new.keras", compile=False)
    found = again.get_layer("fc1").activation(x)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, atol=1e-3)
    # Keras 3.8 takes no layers for an activation.
    needs_us = keras.__version__.startswith("3.8.")
    assert ("keras_policies" in json.dumps(again.get_config())) == needs_us
    assert any("opens only after" in note for note in converted.parts) == needs_us


def of_h5(folder):
    """Return a copy of a model, its training configuration, and what puts another."""
    path = shutil.copy(SOURCE / "model.h5", folder)
    with h5py.File(path) as file:
        written = json.loads(file.attrs["training_config"])

    def put(new):
        with h5py.File(path, "r+") as file:
            file.attrs["training_config"] = json.dumps(new)

    return path, written, put


def of_saved_model(folder):
    path = shutil.copytree(SOURCE / "saved_model", folder / "saved_model")
    parsed = protos.parse("KerasMetadata", (path / METADATA).read_bytes())
    root = next(node for node in parsed.nodes if node.node_id == 0)
    written = json.loads(root.metadata)

    def put(new):
        root.metadata = json.dumps({**written, "training_config": new})
        (path / METADATA).write_bytes(parsed.SerializeToString())

    return path, written["training_config"], put


def of_archive(folder):
    path = folder / "model.keras"
    with zipfile.ZipFile(SOURCE / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])

    def put(new):
        changed = json.dumps({**config, "compile_config": new})
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in {**parts, "config.json": changed}.items():
                archive.writestr(name, part)

    return path, config["compile_config"], put


METADATA = "keras_metadata.pb"
ANYTHING = (
    *(None, 7, -1.5, True, "x", "", "mse", [], {}, [[]], ["a", "b"], float("nan")),
    *({"class_name": 3}, {"class_name": "Adam"}, {"a": {"b": [None]}}, 10**400),
    {"class_name": "LossScaleOptimizer", "config": {"inner_optimizer": 3}},
)


@pytest.mark.parametrize("copied", [of_h5, of_saved_model, of_archive])
def test_no_training_config_stops_a_model_from_opening(tmp_path, copied):
    path, written, put = copied(tmp_path)
    put(written)
    wanted = load_model(path).get_weights()
    changes = [((), None), *itertools.product(_places(written), ANYTHING)]
    for place, new in random.Random(0).sample(changes, 40):
        put(_with(written, place, new))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            weights = load_model(path).get_weights()
        for found, weight in zip(weights, wanted, strict=True):
            np.testing.assert_array_equal(found, weight)


@pytest.mark.parametrize(
    ("part", "new", "told"),
    [
        ("config", ["a"], "training_config, which cannot be read"),
        ("config", True, "training_config, which cannot be read"),
        ("class_name", {}, "optimizers: '{}'"),
        ("class_name", ["a"], "optimizers: \"\\['a'\\]\""),
    ],
)
def test_an_optimizer_that_cannot_be_read_is_left_out(tmp_path, part, new, told):
    path, written, put = of_archive(tmp_path)
    put(_with(written, ("optimizer", part), new))
    with pytest.warns(UserWarning, match=told):
        model = load_model(path)
    assert not model.compiled


def test_a_layer_with_other_weights_is_known_before_a_build(tmp_path, monkeypatch):
    """Its class is named Dense, and computes 8 numbers where a Dense of Keras has 7."""
    path = shutil.copytree(SOURCE / "saved_model", tmp_path / "saved_model")
    parsed = protos.parse("KerasMetadata", (path / METADATA).read_bytes())
    for node in parsed.nodes:
        node.metadata = node.metadata.replace('"units": 8', '"units": 7')
    (path / METADATA).write_bytes(parsed.SerializeToString())
    plans, stock = [], build.build
    monkeypatch.setattr(build, "build", lambda *x: plans.append(x) or stock(*x))
    with pytest.warns(UserWarning, match=r"rebuilt from the graph: .*'fc2' \(Dense\)"):
        model = load_model(path)
    assert len(plans) == 1
    (found,) = legacy_files.outputs(model, SOURCE / "saved_model")
    (wanted,) = legacy_files.arrays(SOURCE / "saved_model", "y_")
    np.testing.assert_allclose(found, wanted, atol=5e-3)


WRAPPER = {"loss_scale": "nonsense", "optimizer": {}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"loss_weights": "x"}, "the model is not compiled"),
        (
            {
                "optimizer_config": {
                    "class_name": "LossScaleOptimizer",
                    "config": WRAPPER,
                }
            },
            "cannot be read .ValueError: .*nonsense.*the model is not compiled",
        ),
        ("{", "training_config, which cannot be read"),
    ],
    ids=["loss-weights", "loss-scale", "no-json"],
)
def test_a_training_config_that_cannot_be_read_is_left_out(tmp_path, change, told):
    path = shutil.copy(SOURCE / "model.h5", tmp_path / "model.h5")
    with h5py.File(path, "r+") as file:
        written = file.attrs["training_config"]
        if isinstance(change, dict):
            change = json.dumps({**json.loads(written), **change})
        file.attrs["training_config"] = change
    with pytest.warns(UserWarning, match=told):
        model = load_model(path)
    assert not model.compiled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if change == "{" else "error", UserWarning)
        assert not load_model(path, compile=False).compiled


def test_metrics_that_cannot_be_read_are_left_out_alone(tmp_path):
    path = shutil.copy(SOURCE / "model.h5", tmp_path / "model.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["training_config"])
        config["metrics"] = [[3]]
        file.attrs["training_config"] = json.dumps(config)
    with pytest.warns(UserWarning, match="metrics, which cannot be read .TypeError"):
        model = load_model(path)
    assert model.compiled
    assert int(model.optimizer.iterations) > 0


def test_a_refusal_that_has_no_remedy_of_its_own_says_to_load_the_weights(tmp_path):
    def edit(config, file):
        config["config"]["layers"][1]["config"]["activity_regularizer"] = -1

    path = edited_h5(tmp_path, edit)
    with pytest.raises(LegacyModelError, match="be built from its config") as caught:
        load_model(path)
    call = f"keras_policies.load_weights(model, {str(path)!r})"
    assert caught.value.hint == f"Build the model in code, and call {call}."


def test_a_name_that_is_no_text_is_refused(tmp_path):
    def edit(config, file):
        config["config"]["layers"][1]["config"]["name"] = "\ud800x"

    with pytest.raises(LegacyModelError, match="lone surrogate"):
        inspect_model(edited_h5(tmp_path, edit))


def test_an_input_that_no_layer_uses_needs_another_keras():
    stock = ValueError("`inputs` not connected to `outputs`")  # Keras 3.10 to 3.13
    error = explanations.explained("it could not be built", stock)
    assert "Install Keras 3.14 or newer" in str(error)


def test_inspect_counts_the_weights_of_inner_layers():
    path = legacy_files.CORPUS / "2.1.4" / "nested_model" / "model.h5"
    found = inspect_model(path)
    counts = {layer.path: layer.parameters for layer in found.layers}
    assert counts["inner"] == 168
    assert counts["inner/inner_1"] == 72
    assert counts["inner/inner_bn"] == 36
    assert found.parameters == 209


MANY = [f"layer {n}" for n in range(60)]


@pytest.mark.parametrize(
    ("report", "match"),
    [
        pytest.param(
            Report(without_vocabulary=dict.fromkeys(MANY, "it is empty")),
            r"'layer 49': it is empty\n  and 10 more$",
            id="empty-layers",
        ),
        pytest.param(
            Report(missing=tuple(("Mine", name) for name in MANY)),
            r"Mine \(layers 'layer 0', .*, 'layer 49', and 10 more\)",
            id="one-class",
        ),
        pytest.param(
            Report(missing=tuple((name, "x") for name in MANY)),
            r"layer 53 \(layers 'x'\)\n  and 10 more",
            id="many-classes",
        ),
    ],
)
def test_a_list_of_layers_in_an_error_is_cut(report, match):
    with pytest.raises(LegacyModelError, match=match):
        report.raise_if_missing("model.h5")
