"""While one thread opens a legacy file, the others have the Keras that they had."""

import threading
from concurrent.futures import ThreadPoolExecutor

import keras
import keras_attributes
import legacy_files
import numpy as np
import pytest

import keras_policies as mp

SOURCE = str(legacy_files.folder("more") / "2.4.4/custom_layer/model.h5")
HANGS = 300  # seconds
# What the reader replaces while it builds a model.
REPLACED = [
    "keras.src.backend.common.variables.Variable.__init__",
    "keras.src.layers.layer.Layer.__init__",
    "keras.src.layers.rnn.rnn.RNN.get_initial_state",
]


class Opening:
    """Opens a file in a thread, which waits while it builds a layer of the model."""

    def __init__(self):
        self.is_building, self.may_go_on = threading.Event(), threading.Event()

    def __enter__(self):
        self._pool = ThreadPoolExecutor(1)
        objects = {"Scale": self._waiting_class()}
        self._model = self._pool.submit(
            mp.load_model, SOURCE, custom_objects=objects, verify=False
        )
        self._model.add_done_callback(lambda _: self.is_building.set())  # an error
        assert self.is_building.wait(HANGS)
        if self._model.done():
            self._model.result()
        return self

    def __exit__(self, *_):
        self.may_go_on.set()
        self._pool.shutdown()

    def model(self):
        self.may_go_on.set()
        return self._model.result(HANGS)

    def _waiting_class(self):
        opening = self

        class Scale(keras.layers.Layer):
            def __init__(self, factor, **kwargs):
                super().__init__(**kwargs)
                self.factor = factor
                opening.is_building.set()
                assert opening.may_go_on.wait(HANGS)

            def build(self, shape):
                self.offset = self.add_weight(shape=(shape[-1],), name="offset")

            def call(self, x):
                return x * self.factor + self.offset

        return Scale


def stock_program():
    """Return what a program of stock Keras makes, trains and saves, and its errors."""
    keras.utils.set_random_seed(3)
    x = keras.Input((3, 2), name="x")
    shared = keras.layers.Dense(2, name="shared")
    y = keras.layers.LSTM(2, dtype="float32", name="lstm")(shared(shared(x)))
    model = keras.Model(x, keras.layers.Dense(1, name="last")(y), name="stock")
    drawn = [value.tolist() for value in model.get_weights()]
    model.compile(keras.optimizers.Adam(0.1, name="adam"), "mse")
    inputs = np.arange(24.0, dtype="float32").reshape(4, 3, 2) / 10
    losses = model.fit(inputs, np.ones((4, 1)), epochs=2, verbose=0).history["loss"]
    copied = keras.Model.from_config(model.get_config())
    with pytest.raises(ValueError, match="incompatible") as caught:
        keras.layers.Dense(2, name="refused")(keras.KerasTensor(()))
    return {
        "attributes": [sorted(vars(layer)) for layer in model.layers],
        "copied": copied.to_json(),
        "drawn": drawn,
        "error": (type(caught.value), str(caught.value)),
        "losses": losses,
        "slots": [variable.numpy().tolist() for variable in model.optimizer.variables],
        "states": [state.shape for state in keras.layers.LSTM(2).get_initial_state(5)],
        "written": model.to_json(),
    }


def test_a_thread_beside_one_that_opens_a_file_has_stock_keras():
    alone = stock_program()
    before = keras_attributes.every()
    with Opening() as opening:
        assert set(REPLACED) <= set(keras_attributes.changed(before))
        beside = stock_program()
        model = opening.model()
    assert np.abs(alone["drawn"][0]).min() > 0
    assert beside == alone
    assert model.count_params() == 14


def test_what_the_reader_replaces_is_put_back():
    with Opening() as opening:
        opening.model()  # Keras has imported what it needs
    before = keras_attributes.every()
    with Opening() as first, Opening() as second:
        first.model()
        assert set(REPLACED) <= set(keras_attributes.changed(before))
        second.model()
    assert not set(REPLACED) & set(keras_attributes.changed(before))


def test_what_somebody_else_puts_there_meanwhile_stays(monkeypatch):
    made = []
    with Opening() as opening:
        ours = keras.layers.Layer.__init__

        def __init__(self, *args, **kwargs):
            made.append(type(self))
            ours(self, *args, **kwargs)

        monkeypatch.setattr(keras.layers.Layer, "__init__", __init__)
        opening.model()
    assert keras.layers.Layer.__init__ is __init__
    before = len(made)
    assert keras.layers.Dense(2, name="other").name == "other"
    assert made[before:] == [keras.layers.Dense]
