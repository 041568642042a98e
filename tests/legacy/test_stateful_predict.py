"""What docs/legacy-layers.md says of stateful layers in plain Keras, between calls."""

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()
# Policy -> call -> the backends on which it goes on where the last call ended.
GOES_ON = {
    ("float32", "predict"): {"tensorflow", "torch"},
    ("float32", "call"): {"jax", "tensorflow", "torch"},
    ("mixed_float16", "predict"): {"tensorflow"},
    ("mixed_float16", "call"): {"jax", "tensorflow"},
}


@pytest.mark.each_backend("stock Keras differs")
@pytest.mark.parametrize(("policy", "name"), GOES_ON, ids="-".join)
def test_a_second_call_goes_on_where_the_first_ended(policy, name):
    layer = keras.layers.LSTM(3, stateful=True, dtype=policy)
    model = keras.Sequential([keras.Input(batch_shape=(2, 3, 4)), layer])
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(2, 3, 4)

    def result():
        if name == "predict":
            return model.predict(x, verbose=0)
        return keras.ops.convert_to_numpy(model(x))

    goes_on = not np.array_equal(result(), result())
    assert goes_on == (BACKEND in GOES_ON[policy, name])
