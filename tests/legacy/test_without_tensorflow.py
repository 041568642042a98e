"""Nothing of TensorFlow is imported, even where it is installed."""

import os
import subprocess
import sys

import keras
import legacy_files
import pytest

CODE = """
import sys

# Importing either raises from here on.
sys.modules["tensorflow"] = sys.modules["tf_keras"] = None
import keras_policies

for path in sys.argv[1:]:
    model = keras_policies.load_model(path)
    assert model.compiled, path
    keras_policies.inspect_model(path)
loaded = {name for name, module in sys.modules.items() if module is not None}
assert not any(name.startswith(("tensorflow", "tf_keras")) for name in loaded), loaded
print("opened", len(sys.argv) - 1, "on", model.optimizer.__module__)
"""


@pytest.mark.slow("a process that opens every format")
@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="Keras itself imports TensorFlow"
)
def test_every_format_opens_where_importing_tensorflow_raises():
    paths = [
        path
        for path in legacy_files.artifacts(legacy_files.CORPUS)
        if path.parts[-3] in ("2.4.4", "2.15.1")
    ]
    assert {path.name for path in paths} == set(legacy_files.FORMS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, *map(str, paths)],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"opened {len(paths)}" in done.stdout
