"""What commands and `load_model` say of a folder with models of every kind."""

import json
import pathlib
import re
import shutil
import sys
import warnings

import h5py
import keras
import legacy_files
import pytest

import keras_policies
from keras_policies.cli.main import main
from keras_policies.legacy.plan import fixed_training as plan_of_training

CORPUS, MORE = legacy_files.CORPUS / "2.4.4", legacy_files.folder("more") / "2.4.4"
CONV, AMSGRAD = CORPUS / "func_conv_fixed/model.h5", MORE / "amsgrad/model.h5"
pytestmark = pytest.mark.once("they say the same on every backend")

# Model or other file -> what is said of it, by `inspect` and by `convert`.
COMPLETE, DIFFERENTLY = "complete", "trains differently"
EXPECTED = {
    "bfloat16.h5": (COMPLETE, COMPLETE),
    "clash.h5": ("opens_if", "failed"),
    "class.h5": ("opens_if", "failed"),
    "conv.h5": (COMPLETE, COMPLETE),
    "cut.h5": ("failed", "failed"),
    "empty.h5": ("failed", "failed"),
    "frozen.h5": (COMPLETE, COMPLETE),
    "loss.h5": ("lost", "lost"),
    "metric.h5": ("lost", "lost"),
    "model.keras": (COMPLETE, COMPLETE),
    "new.keras": ("keras_3", "keras_3"),
    "pointer.h5": ("failed", "failed"),
    "rebuilt": ("rebuilt", "rebuilt"),
    "saved": (COMPLETE, COMPLETE),
    "thawed.h5": (DIFFERENTLY, DIFFERENTLY),
    "untrained.h5": (COMPLETE, COMPLETE),
    **dict.fromkeys(
        [
            *("deep/archive.zip", "deep/architecture.json", "deep/none"),
            *("deep/lite.tflite", "deep/unpacked", "gan/ckpt-1", "pointer.tflite"),
        ],
        ("passed_over", "passed_over"),
    ),
}
COUNTS = {
    *{COMPLETE: 6, "rebuilt": 1, DIFFERENTLY: 1, "lost": 2}.items(),
    *{"opens if …": 2, "passed over": 7, "Keras 3": 1, "failed": 3}.items(),
}


def without_training(path):
    with h5py.File(path, "r+") as file:
        del file.attrs["training_config"], file["optimizer_weights"]


def fixed_training(*, trainable):
    def change(written):
        layers = {each["name"]: each for each in written["config"]["layers"]}
        layers["bn_a"]["inbound_nodes"][0][0][3] = {"training": False}
        layers["bn_a"]["config"]["trainable"] = trainable

    return change


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """Return a folder of models, and of what is none."""
    zoo = tmp_path_factory.mktemp("told") / "zoo"
    for name in "deep/none/inner", "deep/unpacked", "gan":
        (zoo / name).mkdir(parents=True)
    shutil.copy(CONV, zoo / "conv.h5")
    shutil.copy(CORPUS / "seq_dense_bf16/model.h5", zoo / "bfloat16.h5")
    shutil.copy(MORE / "custom_layer/model.h5", zoo / "class.h5")
    shutil.copytree(MORE / "custom_layer/saved_model", zoo / "rebuilt")
    shutil.copytree(CORPUS / "func_conv_fixed/saved_model", zoo / "saved")
    keras_2 = legacy_files.CORPUS / "2.15.1" / "seq_dense"
    shutil.copy(next(keras_2.glob("*.keras")), zoo / "model.keras")
    legacy_files.edited(
        AMSGRAD, zoo / "clash.h5", "model_config", legacy_files.as_other_class
    )
    change = lambda written: written.update(loss="my_loss")  # noqa: E731
    legacy_files.edited(AMSGRAD, zoo / "loss.h5", "training_config", change)
    change = lambda written: written.update(metrics=["my_metric"])  # noqa: E731
    legacy_files.edited(AMSGRAD, zoo / "metric.h5", "training_config", change)
    for name, trainable in ("frozen.h5", False), ("thawed.h5", True):
        change = fixed_training(trainable=trainable)
        without_training(legacy_files.edited(CONV, zoo / name, "model_config", change))
    shutil.copy(AMSGRAD, zoo / "untrained.h5")
    with h5py.File(zoo / "untrained.h5", "r+") as file:
        del file["optimizer_weights"]
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(zoo / "new.keras")
    (zoo / "cut.h5").write_bytes(AMSGRAD.read_bytes()[:3000])
    (zoo / "empty.h5").touch()
    for name in "pointer.h5", "pointer.tflite":
        (zoo / name).write_text("version https://git-lfs.github.com/spec/v1\noid x\n")
    (zoo / "deep/lite.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    shutil.make_archive(str(zoo / "deep/archive"), "zip", zoo / "saved")
    (zoo / "deep/architecture.json").write_text('{"class_name": "Sequential"}')
    for name in "config.json", "metadata.json":
        (zoo / "deep/unpacked" / name).write_text("{}")
    for name in "ckpt-1", "ckpt-2":
        for ending in ".index", ".data-00000-of-00001":
            (zoo / "gan" / f"{name}{ending}").touch()
    (zoo / "gan/checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    return zoo


def said(zoo, printed):
    """Return `{path: kind}` of the rows that a command printed."""
    rows = [json.loads(line) for line in printed.splitlines()]
    return {
        pathlib.Path(row["path"]).relative_to(zoo).as_posix(): (
            row["outcome"] or row["status"]
        )
        for row in rows
    }


def opened(path):
    """Return the outcome of opening a model, as the warning of `load_model` has it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        keras_policies.load_model(path)
    messages = [each.message for each in caught]
    told = [x for x in messages if isinstance(x, keras_policies.OutcomeWarning)]
    return max((x.outcome.value for x in told), default=COMPLETE)


def test_a_layer_that_is_never_called_is_known_before_building(tmp_path):
    def change(written):
        written["config"]["layers"][-1]["inbound_nodes"] = []

    path = legacy_files.edited(CONV, tmp_path / "edited.h5", "model_config", change)
    with pytest.raises(keras_policies.LegacyModelError, match="takes the ten") as told:
        keras_policies.load_model(path)
    assert keras_policies.inspect_model(path).problem.startswith(told.value.reason)


def test_inspect_convert_and_load_model_say_the_same(zoo, tmp_path, capsys):
    assert main(["inspect", str(zoo), "--recursive", "--json"]) == 1
    printed = capsys.readouterr().out
    inspected = said(zoo, printed)
    assert inspected == {path: kinds[0] for path, kinds in EXPECTED.items()}
    convert = ["convert", str(zoo), "--recursive", "--output-dir", str(tmp_path)]
    assert main([*convert, "--json", "--no-plain", "--jobs", "1"]) == 1
    also = capsys.readouterr().out
    assert "run git lfs pull" in printed.lower()
    assert also.count("pointer.h5 is a Git LFS pointer") == 1
    converted = said(zoo, also)
    assert converted == {path: kinds[1] for path, kinds in EXPECTED.items()}
    for path, (kind, _) in EXPECTED.items():
        if kind in ("opens_if", "failed"):
            with pytest.raises(keras_policies.LegacyModelError):
                keras_policies.load_model(zoo / path)
        elif kind not in ("keras_3", "passed_over"):
            assert opened(zoo / path) == kind, path


def test_a_report_has_the_counts_and_what_was_passed_over(zoo, tmp_path, capsys):
    for ending in "json", "md":
        report = tmp_path / f"report.{ending}"
        assert main(["inspect", str(zoo), "--recursive", "--report", str(report)]) == 1
    printed = capsys.readouterr().out
    counted = re.findall(r"^ *(\d+)  (\w.*?)(?:  .*)?$", printed, re.MULTILINE)
    assert {(kind, int(number)) for number, kind in counted} == COUNTS
    written = json.loads((tmp_path / "report.json").read_text("utf8"))
    assert sum(written["counts"].values()) == len(written["models"]) == len(EXPECTED)
    text = (tmp_path / "report.md").read_text("utf8")
    assert text.startswith("# Models\n\n| models | result | code | what to do |\n")
    assert "a checkpoint. Build the model in code, and call keras" in text
    assert "a Git LFS pointer. Run git lfs pull in the clone." in text
    assert main(["inspect", str(zoo), "--report", "report.txt"]) == 2
    assert "expected a name that ends in '.json' or '.md'" in capsys.readouterr().err
    (tmp_path / "folder.md").mkdir()
    folder = str(tmp_path / "folder.md")
    assert main(["inspect", str(zoo), "--report", folder]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_a_model_with_the_name_of_a_checkpoint_beside_it_is_told(tmp_path, capsys):
    zoo = tmp_path / "zoo"
    shutil.copytree(CORPUS / "func_conv_fixed/saved_model", zoo / "model")
    shutil.copy(CONV, zoo / "other.h5")
    for ending in ".index", ".data-00000-of-00001":
        (zoo / f"model{ending}").touch()
    assert main(["inspect", str(zoo), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(pathlib.Path(row["path"]).name, row["status"]) for row in rows}
    models = {("model", "opens"), ("other.h5", "opens")}
    assert found == {("model", "passed_over"), *models}
    assert main(["inspect", str(zoo)]) == 0
    assert "2  complete     KP620" in capsys.readouterr().out


def test_links_to_themselves_and_names_that_are_too_long_end_no_command(
    tmp_path, capsys
):
    if sys.platform == "win32":
        pytest.skip("Windows allows no such names")
    zoo, long = tmp_path / "zoo", "n" * 252
    (zoo / long).mkdir(parents=True)
    (zoo / long / "saved_model.pb").touch()
    (zoo / "loop.json").symlink_to("loop.json")
    shutil.copy(CONV, zoo / "other.h5")
    (tmp_path / "new").mkdir()
    new = "--output-dir", str(tmp_path / "new"), "--skip-existing", "--dry-run"
    assert main(["convert", str(zoo), *new, "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {pathlib.Path(row["path"]).name: row["status"] for row in rows}
    assert found == {long: "failed", "other.h5": "planned"}
    shutil.rmtree(zoo / long)
    shutil.copytree(CORPUS / "func_conv_fixed/saved_model", zoo / long)
    assert keras_policies.inspect_model(zoo / long).outcome.value == COMPLETE
    with pytest.raises(keras_policies.LegacyModelError, match="cannot be read|no such"):
        keras_policies.load_model(zoo / (long + long))


@pytest.mark.parametrize("frozen", ["a", "b"])
def test_layers_of_one_name_in_two_models_are_both_asked(frozen, monkeypatch):
    def layer(class_name, name, inputs=(), **config):
        node = {"class_name": class_name, "name": name, "inbound_nodes": [*inputs]}
        return {**node, "config": {"name": name, **config}}

    def inner(name):
        call = [["i", 0, 0, {"training": False}]]
        normalization = "BatchNormalization", "bn", [call]
        bn = layer(*normalization, trainable=name != frozen)
        return layer("Functional", name, layers=[bn])

    monkeypatch.setattr(plan_of_training, "KEEPS", (99, 0))
    model = layer("Functional", "m", layers=[inner("a"), inner("b")])
    (part,) = plan_of_training.parts(model)
    assert part.outcome is keras_policies.Outcome.TRAINS_DIFFERENTLY


def test_only_the_results_are_on_stdout(zoo, tmp_path, monkeypatch, capsys):
    (tmp_path / "talking.py").write_text("print('hello')\nfrom legacy_files import *\n")
    monkeypatch.syspath_prepend(tmp_path)
    given = "--custom-objects", "Scale=talking:Scale"
    new = str(tmp_path / "new.keras")
    command = ["convert", str(zoo / "class.h5"), new, *given, "--json", "--no-plain"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["outcome"] == COMPLETE
    assert "hello" in printed.err


def test_a_layer_that_had_to_be_renamed_is_told_also_by_get_layer(tmp_path):
    path = shutil.copy(AMSGRAD, tmp_path / "renamed.h5")
    without_training(path)
    with h5py.File(path, "r+") as file:
        text = file.attrs["model_config"].replace('"hidden"', '"hid.den/1"')
        file.attrs["model_config"] = text
        group = file["model_weights"]
        names = [name.decode() for name in map(bytes, group.attrs["layer_names"])]
        renamed = {"hidden": "hid.den/1"}
        group.attrs["layer_names"] = [renamed.get(name, name) for name in names]
        group.move("hidden", "hid.den/1")
    (part,) = keras_policies.inspect_model(path).parts
    assert part == "the layer 'hid.den/1' is named 'hid_den_1' now"
    assert (part.code, part.outcome) == ("KP612", keras_policies.Outcome.COMPLETE)
    model = keras_policies.load_model(path)
    assert model.get_layer("hid_den_1").units
    with pytest.raises(
        ValueError, match=r"'hid\.den/1' of the file is named 'hid_den_"
    ):
        model.get_layer("hid.den/1")
    with pytest.raises(ValueError, match="No such layer: nothing"):
        model.get_layer("nothing")
    model.save(tmp_path / "new.keras")
    again = keras.models.load_model(tmp_path / "new.keras")
    assert [layer.name for layer in again.layers] == [x.name for x in model.layers]
