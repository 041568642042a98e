"""A file is described without Keras, which may not even have its backend."""

import json
import os
import subprocess
import sys

import legacy_files
import pytest

from keras_policies.legacy.base import errors

# Modules may be looked up, and their source read. To import one raises.
REFUSE = """
import importlib.machinery, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("keras", "jax", "torch", "tensorflow"):
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = self
            return spec

    def create_module(self, spec):
        raise ImportError(f"{spec.name} is imported")

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Refused())
"""
DESCRIBE = """
import json, sys
import keras_policies_cli
keras_policies_cli.create_package()
from keras_policies.legacy import inspection

found = {}
for path in json.load(sys.stdin):
    try:
        found[path] = str(inspection.inspect_model(path).as_dict())
    except Exception as error:
        found[path] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def described(paths, start):
    """Return `{path: what is said about the file}` by a process that starts so."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start + DESCRIBE],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Return the paths of all models in tests/data/legacy, without those of layers."""
    folder = tmp_path_factory.mktemp("models")
    for archive in sorted(legacy_files.FOLDER.rglob("*.tar.xz")):
        if archive.parent.name != "layers":
            own = folder / archive.parent.name / archive.name
            legacy_files.unpacked(own, [archive])
    found = [
        path
        for root in (legacy_files.FOLDER, folder)
        for form in ("*.h5", "*.keras", "saved_model.pb")
        for path in sorted(root.rglob(form))
    ]
    return [str(p.parent if p.suffix == ".pb" else p) for p in found]


@pytest.mark.slow("1,900 files, twice", weekly=True)
@pytest.mark.once("a process without Keras")
def test_a_description_is_the_same_where_importing_keras_raises(paths):
    found, wanted = described(paths, REFUSE), described(paths, "import keras")
    assert len(found) > 1900
    assert {path: text for path, text in found.items() if text != wanted[path]} == {}


def test_a_module_that_is_missing_is_no_fault_of_the_file():
    missing = pytest.raises(ImportError, match="no module of this name")
    with missing, errors.corrupt("model.h5"):
        raise ImportError("no module of this name")
