"""Every weight of a model with frozen parts is where it was, or its file is refused.

write_orders.py wrote 52 random models, in which each kind of layer occurs.
"""

import json

import keras
import legacy_files
import pytest
import written_orders

from keras_policies import LegacyModelError
from keras_policies.legacy.assembly import weight_orders

ARCHIVE = legacy_files.FOLDER / "orders.tar.xz"
OLD = pytest.mark.slow("files of older releases", one_of=3)
# Release and form -> how many files there are; all record what was frozen.
FILES = {
    ("2.0.0", "model.h5"): 8,
    ("2.0.0", "weights.h5"): 7,
    ("2.0.0", "checkpoint"): 4,
    ("2.0.0", "saved_model"): 1,
    ("2.4.4", "model.h5"): 11,
    ("2.4.4", "weights.h5"): 7,
    ("2.4.4", "checkpoint"): 3,
    ("2.4.4", "saved_model"): 1,
    ("2.9.3", "model.h5"): 11,
    ("2.9.3", "weights.h5"): 10,
    ("2.9.3", "checkpoint"): 5,
    ("2.9.3", "saved_model"): 1,
    ("2.15.1", "model.h5"): 16,
    ("2.15.1", "weights.h5"): 13,
    ("2.15.1", "checkpoint"): 2,
    ("2.15.1", "model.keras"): 6,
    ("2.15.1", "saved_model"): 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("orders"), [ARCHIVE])


@pytest.mark.once("no backend matters here")
# What is not about weights.
@pytest.mark.filterwarnings("ignore:.*(were left out|it trains differently|is frozen)")
@pytest.mark.parametrize(
    ("release", "form"),
    [pytest.param(*k, marks=() if k[0] == legacy_files.NEWEST else OLD) for k in FILES],
)
def test_each_weight_of_a_random_model_is_where_it_was(release, form, folder):
    cases = 0
    for path in sorted(folder.glob(f"{release}/*/{form}*")):
        if path.suffix.startswith(".data"):
            continue
        case = path.parent
        spec = json.loads((case / "spec.json").read_text("utf8"))["spec"]
        if not written_orders.is_open(form, spec):
            continue
        cases += 1
        if not legacy_files.TRANSPOSES and "transposed" in str(spec):
            continue  # torch refuses some sizes
        model = written_orders.opened(case / form, spec)
        assert model is not None, case.name
        assert written_orders.wrong(model, case) == [], case.name
    assert cases == FILES[release, form]


def lists(count):
    """Return a layer with so many lists of one layer each."""
    layer = keras.layers.Layer()
    for number in range(count):
        made = keras.layers.Dense(1)
        made.build((None, 1))
        setattr(layer, f"list_{number}", [made])
    return layer


@pytest.mark.once("no backend matters here")
def test_a_layer_may_have_made_its_lists_in_at_most_a_thousand_orders():
    assert len(weight_orders.orders(lists(6))) == 720
    with pytest.raises(LegacyModelError, match="more possible orders than 1000"):
        weight_orders.orders(lists(7))
