"""The classes of the models that `write_numbers.py` writes."""


def classes(keras):
    """Return `{name: class}`, of tf.keras or Keras 3."""
    layers = keras.layers

    class Net(keras.Model):
        """Attributes before and after `layers` in the alphabet, in another order."""

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.z = layers.Dense(3, activation="tanh")
            self.blocks = [layers.Dense(3) for _ in range(2)]
            self.a = layers.Dense(3)
            self._first = layers.Dense(3)

        def call(self, inputs):
            x = self.a(self.z(self._first(inputs)))
            for block in self.blocks:
                x = block(x)
            return x

    class Listed(keras.Model):
        """A Functional model with attributes of its own."""

        def __init__(self, **kwargs):
            x = keras.Input((3,))
            first, last = layers.Dense(3), layers.Dense(3, activation="tanh")
            y = layers.Dense(3)(last(layers.Dense(3)(first(x))))
            super().__init__(x, y, **kwargs)
            self.zero, self.before = first, last

        def get_config(self):
            return {"name": self.name}

        @classmethod
        def from_config(cls, config):
            return cls(**config)

    def made(config, key):
        """Return a model in a config; tf.keras 2.13 has deserialized it already."""
        model = config[key]
        return layers.deserialize(model) if isinstance(model, dict) else model

    class Coder(layers.Layer):
        """Functional models as attributes, under the same names in its config."""

        def __init__(self, encoder, decoder, **kwargs):
            super().__init__(**kwargs)
            self.encoder, self.decoder = encoder, decoder
            self.between = layers.Dense(3)

        def call(self, inputs):
            return self.decoder(self.between(self.encoder(inputs)))

        def get_config(self):
            names = "encoder", "decoder"
            models = {name: layers.serialize(getattr(self, name)) for name in names}
            return {**super().get_config(), **models}

        @classmethod
        def from_config(cls, config):
            models = {name: made(config, name) for name in ("encoder", "decoder")}
            return cls(**{**config, **models})

    class Around(layers.Layer):
        """A Functional model as an attribute, under another name in its config."""

        def __init__(self, model, **kwargs):
            super().__init__(**kwargs)
            self.inner, self.after = model, layers.Dense(3)

        def call(self, inputs):
            return self.after(self.inner(inputs))

        def get_config(self):
            return {**super().get_config(), "model": layers.serialize(self.inner)}

        @classmethod
        def from_config(cls, config):
            return cls(**{**config, "model": made(config, "model")})

    return {cls.__name__: cls for cls in (Net, Listed, Coder, Around)}
