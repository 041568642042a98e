"""`convert --dry-run` says what `convert` does with the same options."""

import base64
import json
import marshal
import shutil
import sys

import h5py
import legacy_files
import pytest

import keras_policies
from keras_policies.cli.main import main
from keras_policies.legacy.plan import lambdas

CORPUS, MORE = legacy_files.CORPUS / "2.4.4", legacy_files.folder("more") / "2.4.4"
CONV, AMSGRAD = CORPUS / "func_conv_fixed/model.h5", MORE / "amsgrad/model.h5"
CUSTOM = MORE / "custom_layer"
RUNS = lambdas.runs_here("{}.{}".format(*sys.version_info))
pytestmark = pytest.mark.once("they say the same on every backend")


def with_lambda(written):
    """Let a layer become a Lambda of code that is not followed, of this Python."""
    code = marshal.dumps((lambda x: x.__mul__(2.0)).__code__)
    function = [base64.b64encode(code).decode(), None, None]
    layer = written["config"]["layers"][-1]
    layer["class_name"] = "Lambda"
    settings = {"function": function, "function_type": "lambda"}
    layer["config"] = {"name": layer["config"]["name"], **settings}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with models that need options."""
    folder = tmp_path_factory.mktemp("dry")
    legacy_files.unpacked_models(folder, "refused", ("any_rank",))
    legacy_files.unpacked_models(folder, "tables", ("tables/2.15.1/labels",))
    with h5py.File(AMSGRAD) as file:
        (folder / "model.json").write_text(file.attrs["model_config"])
    path = legacy_files.edited(
        AMSGRAD, folder / "lambda.h5", "model_config", with_lambda
    )
    with h5py.File(path, "r+") as file:
        del file["model_weights/out/out"], file.attrs["training_config"]
        del file["optimizer_weights"]
        file["model_weights/out"].attrs["weight_names"] = []
    shutil.copytree(CUSTOM / "saved_model", folder / "rebuilt")
    return folder


def said(command, new, capsys):
    """Return the exit code, the row and the error of a command."""
    code = main([*command, "--output-dir", str(new), "--json", "--jobs", "1"])
    (line,) = capsys.readouterr().out.splitlines()
    return code, json.loads(line)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param("rebuilt", "", id="rebuilt"),
        pytest.param("rebuilt", "--strict", id="strict"),
        pytest.param("rebuilt", "--lost refuse", id="refuse"),
        pytest.param("rebuilt", "--signature serving_default", id="signature"),
        pytest.param("rebuilt", "--signature none", id="another-signature"),
        pytest.param(CUSTOM / "model.h5", "", id="missing-class"),
        pytest.param(
            CUSTOM / "model.h5",
            "--custom-objects Scale=legacy_files:Scale",
            id="class",
        ),
        pytest.param(
            CUSTOM / "model.h5",
            "--custom-objects Other=legacy_files:Scale",
            id="other-class",
        ),
        pytest.param(CONV, "--policy float32", id="policy"),
        pytest.param("any_rank/saved_model", "", id="any-rank"),
        pytest.param("any_rank/saved_model", "--input-shape x=None,4", id="rank"),
        pytest.param("any_rank/saved_model", "--input-shape y=4,4", id="no-input"),
        pytest.param("tables/2.15.1/labels/model", "", id="returns-texts"),
        pytest.param("tables/2.15.1/labels/model", "--lost numbers", id="numbers"),
        pytest.param("lambda.h5", "", id="code"),
        pytest.param(
            "lambda.h5",
            "--unsafe",
            id="unsafe",
            marks=pytest.mark.skipif(not RUNS, reason="no code of tf.keras runs here"),
        ),
        pytest.param("model.json", "", id="no-weights"),
        pytest.param(AMSGRAD, "--lost numbers --texts outside", id="nothing-to-do"),
    ],
)
def test_a_dry_run_says_what_a_conversion_does(
    source, options, folder, tmp_path, capsys
):
    command = ["convert", str(folder / source), *options.split(), "--no-plain"]
    rehearsed, planned = said([*command, "--dry-run"], tmp_path, capsys)
    assert not [*tmp_path.iterdir()]
    done, converted = said(command, tmp_path, capsys)
    assert rehearsed == done
    assert planned["code"] == converted["code"]
    assert planned["outcome"] == converted["outcome"]
    assert planned["error"] == converted["error"]
    if converted["code"] is None:
        assert (planned["status"], converted["status"]) == ("planned", "converted")
        assert planned["parts"] == converted["parts"]


def test_a_dry_run_takes_the_weights_of_an_architecture(folder, tmp_path, capsys):
    source, new = str(folder / "model.json"), str(tmp_path / "new.keras")
    command = ["convert", source, new, "--json", "--no-plain", "--weights"]
    rows = []
    for more in ["--dry-run"], []:
        assert main([*command, str(AMSGRAD), *more]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    assert [row["outcome"] for row in rows] == ["complete", "complete"]
    lost = legacy_files.edited(
        AMSGRAD,
        tmp_path / "lost.h5",
        "training_config",
        lambda written: written.update(loss="my_loss"),
    )
    new = str(tmp_path / "lost.keras")
    assert main(["convert", str(lost), new, "--dry-run", "--strict"]) == 3
    printed = capsys.readouterr().out
    assert "would convert" in printed
    assert "lost: KP602: losses: 'my_loss'" in printed


def test_an_architecture_alone_has_new_weights(folder, capsys):
    path = folder / "model.json"
    with pytest.warns(keras_policies.OutcomeWarning, match="all weights are new") as w:
        keras_policies.load_model(path)
    (told,) = [each.message for each in w]
    assert told.outcome is keras_policies.Outcome.NEW_WEIGHTS
    assert keras_policies.inspect_model(path).outcome is told.outcome
    assert main(["inspect", str(path), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["status"], row["outcome"]) == ("opens", "new weights")
    (part,) = row["parts"]
    assert part["code"] == "KP607"
    assert "pass --weights weights.h5" in part["text"]
