"""The next step is that of TensorFlow, or a warning tells; by write_steps.py."""

import re

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "steps.tar.xz"
NAMES = legacy_files.on_this_backend(legacy_files.names(ARCHIVE))
# The models that train otherwise, and the warning.
TOLD = {
    "2.0.0/clipped": "that TensorFlow 2.0 and 2.1 ignored clipnorm: Keras 3 obeys it",
    "2.4.4/rows": "that SGD moved only those rows of 'table' that are in the batch",
    "2.4.4/ftrl": "the slots 'linear' of Ftrl: TensorFlow 2.4 multiplied them",
    "2.4.4/nadam": "the slow schedule of Nadam's momentum",
    "2.15.1/adafactor/model.keras": "nothing tells its variables in the file apart",
    "activity_attention": "the activity regularizer of 'multi_head_attention'",
    "activity_simple_rnn": "the activity regularizer of 'bidirectional/simple_rnn'",
}
if not legacy_files.DIVIDES_BY_BATCH:
    TOLD |= {"over_steps": "left out: the activity regularizer of"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("steps"), [ARCHIVE])


def told(name):
    return next((text for part, text in TOLD.items() if part in name), None)


@pytest.mark.parametrize("name", [name for name in NAMES if not told(name)])
def test_the_next_step_is_that_of_tensorflow(name, folder, tmp_path):
    stored = legacy_files.expected(folder / name)
    model = keras_policies.load_model(folder / name)
    before = model.get_weights()
    model.save(tmp_path / "new.keras")
    targets = legacy_files.one(legacy_files.arrays(folder / name, "t_"))
    after = legacy_files.arrays(folder / name, "after_")
    largest = max(np.max(np.abs(a - b)) for a, b in zip(after, before, strict=True))
    both = model, keras.models.load_model(tmp_path / "new.keras")
    is_nadam = "nadam" in name  # of which a file of Keras lacks the product
    for each in both[:1] if is_nadam else both:
        loss = np.ravel(each.train_on_batch(stored["x"], targets))[0]
        if "unreduced" not in name:  # of which TensorFlow shows a mean
            np.testing.assert_allclose(loss, stored["loss"], rtol=1e-5)
        # TensorFlow changes the product of Nadam's momenta within a step, too.
        atol = (0.03 if is_nadam else 1e-3) * largest
        for weight, wanted in zip(each.get_weights(), after, strict=True):
            np.testing.assert_allclose(weight, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("name", [name for name in NAMES if told(name)])
def test_a_model_that_trains_otherwise_is_told(name, folder):
    with pytest.warns(UserWarning, match=re.escape(told(name))):
        keras_policies.load_model(folder / name)
