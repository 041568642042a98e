"""Every weight of a model with frozen parts is where it was, or its file is refused.

write_orders.py wrote 52 random models, in which each kind of layer occurs.
"""

import json

import keras
import legacy_files
import pytest
import written_orders

from keras_policies import LegacyModelError
from keras_policies.legacy.build import weight_orders

ARCHIVE = legacy_files.FOLDER / "orders.tar.xz"
# How many files of a form there are, and those that do not record what was frozen.
FORMS = {
    "model.h5": (46, set()),
    "weights.h5": (37, set()),
    "checkpoint": (14, set()),
    "model.keras": (6, set()),
    "saved_model": (4, set()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("orders"), [ARCHIVE])


@pytest.mark.once("no backend matters here")
@pytest.mark.filterwarnings("ignore:.*left out of it")  # what is not about weights
@pytest.mark.parametrize("form", FORMS)
def test_each_weight_of_a_random_model_is_where_it_was(form, folder):
    cases, refused = 0, set()
    for path in sorted(folder.glob(f"*/*/{form}*")):
        if path.suffix.startswith(".data"):
            continue
        case = path.parent
        spec = json.loads((case / "spec.json").read_text())["spec"]
        if not written_orders.is_open(form, spec):
            continue
        cases += 1
        name = f"{case.parent.name}/{case.name}"
        model = written_orders.opened(case / form, spec)
        if model is None:
            refused.add(name)
        else:
            assert written_orders.wrong(model, case) == [], name
    assert (cases, refused) == FORMS[form]


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
