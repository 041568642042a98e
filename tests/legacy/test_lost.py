"""Models whose classes are lost are made of the functions that the file recorded."""

import json
import pathlib
import subprocess
import sys

import keras
import legacy_files
import lost_files
import numpy as np
import pytest
from legacy_files import once

import keras_policies
from keras_policies import inspect_model, load_model
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LegacyModelError

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(classes of these layers|left out of its training)"
)
RELEASES = [
    release
    for release in lost_files.RELEASES
    if legacy_files.IS_THOROUGH or release in ("2.15.1", "keras-3.15.1")
]
NAMES = [
    f"{release}/{name}" for release in RELEASES for name in lost_files.names(release)
]
REFUSED = {
    "own_cell": "While",  # a cell in a loop over a time of any length
    "export_text": "While",  # an LSTM without its layer
}
TOLERANCE = {"float32": 1e-5, "mixed_float16": 1e-2, "mixed_bfloat16": 2e-2}
# The assignment that moved the statistics came before their use.
OTHER_STEP = ("moving_mean",)
PLAIN = """
import sys, json, pathlib, keras, numpy as np
found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.keras")):
    model = keras.models.load_model(path, compile=False)
    x = keras.tree.pack_sequence_as(
        json.loads(path.with_suffix(".json").read_text()),
        [np.load(file) for file in sorted(path.parent.glob(f"{path.stem}-x_*.npy"))],
    )
    for i, y in enumerate(keras.tree.flatten(model(x))):
        y = keras.ops.convert_to_numpy(keras.ops.cast(y, "float32"))
        np.save(path.parent / f"{path.stem}-found_{i}.npy", y)
assert not any(name.startswith("keras_policies") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    archives = [path for path in lost_files.archives() if stem(path) in RELEASES]
    return legacy_files.unpacked(tmp_path_factory.mktemp("lost"), archives)


def stem(path):
    return path.name.removesuffix(".tar.xz")


@pytest.fixture
def of(folder):
    """A function that returns the case of a name."""
    return lambda name: lost_files.Lost(folder / name)


@pytest.fixture(params=NAMES)
def case(request, of):
    name = request.param.rpartition("/")[2]
    if name in REFUSED:
        pytest.skip("refused; see test_what_cannot_be_had_is_named")
    return of(request.param)


def opened(case):
    """Return `[(model, x, outputs as recorded)]` of a case, one for each signature."""
    if "signatures" not in case.about:
        return [(load_model(case.model), case.inputs(), case.arrays("y_"))]
    found = []
    for name, signature in case.about["signatures"].items():
        x = {key: case.stored[f"x_{n}"] for key, n in signature["inputs"].items()}
        x = x if len(x) > 1 else next(iter(x.values()))
        y = [
            case.stored[f"y_{signature['outputs'][key]}"]
            for key in sorted(signature["outputs"])
        ]
        found.append((load_model(case.model, signature=name), x, y))
    return found


def outputs(model, x, training=False):
    found = keras.tree.flatten(model(x, training=training))
    found = [keras.ops.stop_gradient(keras.ops.cast(y, "float32")) for y in found]
    return [keras.ops.convert_to_numpy(y) for y in found]


def assert_close(found, expected, tolerance):
    assert found.shape == expected.shape
    largest = max(float(np.max(np.abs(expected), initial=0)), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def test_a_model_without_its_code_predicts_what_tensorflow_did(case):
    policy = case.about.get("policy", "float32")
    for model, x, expected in opened(case):
        found = outputs(model, x)
        assert len(found) == len(expected)
        for number, (own, other) in enumerate(zip(found, expected, strict=True)):
            if number not in case.about.get("random_outputs", ()):
                assert_close(own, other.astype("float32"), TOLERANCE[policy])
