"""What a new file is worth is found out in a process that has plain Keras alone."""

import contextlib
import os
import re
import sys

import keras
import legacy_files
import numpy as np
import pytest

from keras_policies import LegacyModelError, convert_model
from keras_policies._common import process
from keras_policies.cli.main import main
from keras_policies.legacy import plain_keras

FLOAT32 = legacy_files.folder("more") / "2.4.4" / "amsgrad" / "model.h5"
FLOAT16 = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed" / "saved_model"
CUSTOM = legacy_files.folder("more") / "2.4.4" / "custom_layer" / "model.h5"
MASKS = legacy_files.FOLDER / "masks.tar.xz"


@pytest.fixture
def saved(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


@pytest.mark.parametrize(
    ("source", "allowed"), [(FLOAT32, 1e-5), (FLOAT16, 5e-3)], ids=["h5", "saved-model"]
)
def test_a_new_file_is_called_in_plain_keras(tmp_path, source, allowed):
    found = convert_model(source, tmp_path / "new.keras")
    assert 0 <= found.plain_difference < allowed
    assert found.not_plain is None
    assert re.fullmatch(
        r"opened in plain Keras: largest difference [\de.-]+ of the largest output",
        found.plain,
    )


def scaled_when_saved(monkeypatch):
    """Let the file get other weights than the model has, as a fault of ours would."""
    stock = keras.Model.save

    def save(self, path, **options):
        weights = self.get_weights()
        self.set_weights([1.5 * weight for weight in weights])
        stock(self, path, **options)
        self.set_weights(weights)

    monkeypatch.setattr(keras.Model, "save", save)


@pytest.mark.parametrize("source", [FLOAT32, FLOAT16], ids=["h5", "saved-model"])
def test_a_file_that_plain_keras_computes_otherwise_is_not_written(
    tmp_path, monkeypatch, source
):
    scaled_when_saved(monkeypatch)
    match = r"plain Keras, the new file gives other outputs: .* Nothing was written"
    with pytest.raises(LegacyModelError, match=match):
        convert_model(source, tmp_path / "new.keras")
    assert list(tmp_path.iterdir()) == []
    found = convert_model(source, tmp_path / "new.keras", plain=False)
    assert (found.plain_difference, found.not_plain) == (None, "it was not requested")
    assert (tmp_path / "new.keras").exists()


@pytest.mark.filterwarnings("ignore:Layer 'model' .* does not support masking")
@legacy_files.once
@legacy_files.needs_unused_inputs
def test_masks_that_a_file_cannot_record_are_noticed(tmp_path):
    folder = legacy_files.unpacked(tmp_path, [MASKS])
    for name in "nested", "nested_both_ways", "nested_decoder":
        source, new = folder / "2.15.1" / name / "model.h5", tmp_path / "new.keras"
        with pytest.raises(
            LegacyModelError, match="plain Keras, the new file gives other outputs"
        ):
            convert_model(source, new)


def test_classes_of_the_user_cannot_be_had_there(tmp_path):
    custom = {"Scale": legacy_files.Scale}
    found = convert_model(CUSTOM, tmp_path / "new.keras", custom)
    assert found.not_plain == "it needs code that Keras does not have: Scale"
    assert found.plain_difference is None


def test_a_folder_takes_one_process(tmp_path, monkeypatch, capsys):
    started = []
    counted = plain_keras.Process()
    stock = counted._started
    monkeypatch.setattr(counted, "_started", lambda: started.append(1) or stock())
    monkeypatch.setattr(plain_keras, "shared", counted)
    sources = [str(FLOAT32), str(FLOAT32.parents[1] / "sgd_decay" / "model.h5")]
    new = tmp_path / "new"
    with contextlib.closing(counted):
        command = ["convert", *sources, "--jobs", "1", "--output-dir", str(new)]
        assert main(command) == 0
        written = str(new / "amsgrad" / "model.keras")
        for model in written, str(FLOAT32):
            assert main(["verify", model, str(FLOAT32.parent / "expected.npz")]) == 0
    assert "not compared" not in capsys.readouterr().out
    assert started == [1]


def test_the_command_can_do_without_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plain_keras, "shared", None)
    new = str(tmp_path / "new.keras")
    assert main(["convert", str(FLOAT32), new, "--no-plain"]) == 0
    printed = capsys.readouterr().out
    assert "not compared in plain Keras: it was not requested\n" in printed
    outputs = str(FLOAT32.parent / "expected.npz")
    assert main(["verify", new, outputs, "--no-plain"]) == 0
    assert main(["verify", str(FLOAT32), outputs, "--no-plain"]) == 0


def test_a_process_that_ends_is_an_error_with_its_last_words(saved, monkeypatch):
    code = "import os, sys; sys.stderr.write('no memory'); os._exit(7)"
    monkeypatch.setattr(process, "START", code)
    match = r"ended with the code 7 \(too little memory\?\): no memory"
    with pytest.raises(process.EndedError, match=match):
        plain_keras.Process()(saved)
    monkeypatch.setattr(plain_keras, "shared", plain_keras.Process())
    match = r"the code 7 .* plain=False writes the file .* Nothing was"
    with pytest.raises(LegacyModelError, match=match):
        convert_model(FLOAT32, saved.with_name("new.keras"))
    assert os.listdir(saved.parent) == ["model.keras"]


def test_a_process_that_hangs_is_ended(saved, monkeypatch):
    monkeypatch.setattr(process, "START", "import time; time.sleep(3600)")
    monkeypatch.setattr(plain_keras, "SECONDS", 0.5)
    with pytest.raises(process.EndedError, match="ended with the code"):
        plain_keras.Process()(saved)


def test_libraries_in_the_process_find_an_empty_stdin(tmp_path):
    answers = tmp_path / "answers.py"
    answers.write_text("import sys\nstart = lambda: lambda: sys.stdin.read()\n")
    call = process.Process(str(answers), seconds=60)
    with contextlib.closing(call):
        assert [call.ask(), call.ask()] == ["", ""]


@pytest.mark.slow("it starts two processes")
def test_what_is_printed_and_what_lies_in_the_folder_do_no_harm(
    tmp_path, monkeypatch, capfd, saved
):
    """A new process starts after a pause."""
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    inputs = keras.Input((3,))
    noisy = keras.layers.Lambda(lambda x: [print("noise"), x][1])
    keras.Model(inputs, noisy(inputs)).save("noisy.keras")
    capfd.readouterr()
    with contextlib.closing(plain_keras.Process()) as call:
        (output,), losses = call("noisy.keras", np.ones((2, 3)), safe_mode=False)
        assert (output.tolist(), losses) == ([[1.0] * 3] * 2, [])
        with pytest.raises(plain_keras.PlainKerasError, match="cannot be opened in pl"):
            call("noisy.keras")
        with pytest.raises(plain_keras.PlainKerasError, match=r"shapes \[\(2, 4\)\]"):
            call(saved, np.ones((2, 4)))
        first = call._process.pid
        assert call(saved) == ([], [])
        assert call._process.pid == first
        monkeypatch.setattr(process, "IDLE", -60)
        assert call(saved) == ([], [])
        assert call._process.pid != first
    assert capfd.readouterr() == ("", "")


def test_layers_that_augment_do_nothing_there(tmp_path, plain_keras):
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.RandomZoom(0.9)])
    model.save(tmp_path / "model.keras")
    x = np.arange(32, dtype="float32").reshape(2, 4, 4, 1)
    (found,), _ = plain_keras(tmp_path / "model.keras", x)
    np.testing.assert_array_equal(found, x)


def test_a_frozen_program_starts_no_other(saved, monkeypatch):
    assert plain_keras.obstacle(saved) is None
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert plain_keras.obstacle(saved) == "this program cannot start another Python"
