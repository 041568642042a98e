"""The source code of models, run by Keras alone."""

import pickle

import keras
import legacy_files
import numpy as np
import pytest
import source_code
import source_models
from keras import ops

import keras_policies
from keras_policies.backends.running import backend

# Said by Keras 3.8 of models whose only input is in a list.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The structure of `inputs` doesn't match"),
    pytest.mark.filterwarnings("ignore:Exception encountered when calling Functional"),
]


def examples(model):
    """Return inputs of a model at batch sizes 3 and 1, or at its own."""
    rng = np.random.default_rng(0)
    for batch in 3, 1:
        arrays = []
        for x in model.inputs:
            shape = [5 if n is None else n for n in x.shape]
            shape[:1] = [x.shape[0] or batch] if shape else []
            values = (
                rng.normal(size=shape)
                if "float" in x.dtype
                else rng.integers(0, 2, shape)
            )
            arrays.append(values.astype(x.dtype))
        yield keras.tree.pack_sequence_as(
            0 if isinstance(model, keras.Sequential) else model.input, arrays
        )


def write(model, folder):
    """Write what `source_code.answers` reads; return the model's outputs."""
    folder.mkdir(parents=True)
    text = keras_policies.to_source(model, constants=folder / source_code.CONSTANTS)
    (folder / source_code.MODULE).write_text(text, "utf-8")
    model.save_weights(folder / source_code.WEIGHTS)
    inputs = [*examples(model)]
    (folder / "inputs.pkl").write_bytes(pickle.dumps(inputs))
    return [
        [
            ops.convert_to_numpy(ops.cast(y, "float32"))
            for y in backend.outputs(model, x)
        ]
        for x in inputs
    ]


def test_plain_keras_builds_each_model_and_computes_the_same(tmp_path):
    """One test, since plain Keras starts once for all models, and jax compiles them."""
    keras.utils.set_random_seed(0)
    models = {name: make() for name, make in source_models.MODELS.items()}
    expected = {name: write(model, tmp_path / name) for name, model in models.items()}
    found = source_code.run(str(tmp_path), keras.backend.backend())
    assert found.keys() == models.keys()
    for name in models:
        assert not isinstance(found[name], str), f"{name}: {found[name]}"
        for wanted, outputs in zip(expected[name], found[name], strict=True):
            assert len(wanted) == len(outputs) > 0
            for one, other in zip(wanted, outputs, strict=True):
                np.testing.assert_allclose(
                    other, one, rtol=2e-3, atol=1e-5, err_msg=name
                )


# Application -> height and width of its images.
APPLICATIONS = {
    "DenseNet121": 32,
    "EfficientNetB0": 32,
    "MobileNetV3Small": 32,
    "InceptionV3": 75,
    "ResNet50": 32,
    "Xception": 71,
}


def application(name):
    """Return a model of keras.applications, with random weights and ten classes."""
    shape = (APPLICATIONS[name], APPLICATIONS[name], 3)
    make = getattr(keras.applications, name)
    return make(weights=None, input_shape=shape, classes=10)


@pytest.mark.slow("six models of up to 700 layers", weekly=True)
@pytest.mark.skipif(
    legacy_files.IS_LOWEST_KERAS,
    reason="jaxlib 0.4.38 compiles DenseNet121 to an illegal instruction",
)
def test_six_kinds_of_applications_compute_the_same_from_their_code(tmp_path):
    expected = {
        name: write(application(name), tmp_path / name) for name in APPLICATIONS
    }
    found = source_code.run(str(tmp_path), keras.backend.backend())
    assert found.keys() == APPLICATIONS.keys()
    for name, batches in expected.items():
        assert not isinstance(found[name], str), found[name]
        for (wanted,), (outputs,) in zip(batches, found[name], strict=True):
            np.testing.assert_allclose(outputs, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.slow("files of all releases")
@pytest.mark.filterwarnings("ignore::keras_policies.KerasPoliciesWarning")
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")  # of jax
def test_the_files_of_the_corpus_compute_the_same_from_their_code(tmp_path):
    names = [*map(legacy_files.name_of, legacy_files.artifacts(legacy_files.CORPUS))]
    expected = {}
    for number, name in enumerate(legacy_files.on_this_backend(names)):
        path = legacy_files.CORPUS / name
        reason, outputs = source_code.written(str(path), tmp_path / f"{number:03}")
        assert reason is None, f"{name}: {reason}"
        expected[f"{number:03}"] = outputs
    found = source_code.run(str(tmp_path), keras.backend.backend())
    outcomes = {
        each: source_code.compared(found[each], expected[each]) for each in found
    }
    assert len(outcomes) == len(expected) > 5
    assert {*outcomes.values()} == {"agrees at 2 batch sizes"}
