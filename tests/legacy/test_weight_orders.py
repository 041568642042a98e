"""Every weight of a model with frozen parts is where it was, or its file is refused."""

import keras
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.build import weight_orders


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
