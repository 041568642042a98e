"""What docs/security.md promises about commands, texts and signals."""

import json
import signal

import hostile_exploits
import hostile_worker
import keras
import legacy_files
import pytest

from keras_policies import LegacyModelError, TextInputs, convert_model, load_model
from keras_policies.cli.main import main

MODEL = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "model.h5"
TOUCH = "__import__('pathlib').Path('it_ran').touch()"


@pytest.mark.parametrize("is_old", [True, False], ids=["old", "new"])
@pytest.mark.parametrize("kind", ["legacy", "keras"])
def test_diff_runs_no_code_of_a_file(tmp_path, monkeypatch, capsys, kind, is_old):
    monkeypatch.chdir(tmp_path)
    if kind == "legacy":
        files = hostile_exploits.code_in_a_call()
        hostile_worker.write(files, tmp_path)
        evil = tmp_path / next(iter(files))
    else:
        evil = tmp_path / "evil.keras"
        code = keras.layers.Lambda(lambda x: (eval(TOUCH), x)[1], output_shape=(2,))
        keras.Sequential([keras.Input((2,)), code]).save(evil)
        (tmp_path / "it_ran").unlink(missing_ok=True)  # when it was made
    pair = [str(evil), str(MODEL)]
    assert main(["diff", *(pair if is_old else pair[::-1])]) == 1
    assert "ambda" in (error := capsys.readouterr().err) or "code" in error
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.once("no backend matters")
def test_the_json_of_texts_names_no_other_class():
    layer = {"name": "a", "class_name": "Lambda", "config": {"function": TOUCH}}
    values = {"keras_policies_texts": 1, "sources": [["x", [None, 1]]]}
    values |= {"targets": [["x", 0, 0]], "layers": [layer], "is_dict": False}
    with pytest.raises(LegacyModelError, match="corrupt: the texts of a model|Lambda"):
        TextInputs.from_json(json.dumps(values))


@pytest.mark.once("no backend matters")
def test_no_signal_handler_is_changed(tmp_path):
    numbers = sorted(signal.valid_signals())
    before = [signal.getsignal(number) for number in numbers]
    load_model(MODEL)
    convert_model(MODEL, tmp_path / "new.keras")
    assert [signal.getsignal(number) for number in numbers] == before
