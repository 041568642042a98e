"""The classes of the models in data/legacy/inner, for Keras 3."""

import keras


class Block(keras.layers.Layer):
    """The layer of write_inner.py, for Keras 3."""

    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.first = keras.layers.Dense(units, activation="relu", name="first")
        self.exact = keras.layers.Dense(units, dtype="float32", name="exact")

    def build(self, input_shape):
        self.late = keras.layers.Dense(self.units, name="late")
        self.late.build(input_shape)
        self.first.build(input_shape)
        self.exact.build(input_shape)

    def call(self, inputs):
        exact = keras.ops.cast(self.exact(inputs), self.compute_dtype)
        return inputs + self.late(self.first(inputs)) + exact

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class Tower(keras.Model):
    """The model of write_inner.py, for Keras 3."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = keras.layers.Dense(4)
        self.blocks = [Block(4)]

    def call(self, inputs):
        x = self.head(inputs)
        for block in self.blocks:
            x = block(x)
        return x


class ClosedTower(Tower):
    """Takes no **kwargs, as many an old model did not."""

    def __init__(self):
        super().__init__()
