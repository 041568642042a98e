"""Random models of all kinds whose weights are saved alone, for tf.keras and Keras 3.

`write_weights_files.py` writes `.weights.h5` files under TensorFlow 2.12 to 2.15;
`test_weights_files.py` builds the models again in code and finds each weight.
"""

import random

import numpy as np
import random_models

ROOTS = "chain", "branches", "net"
NAMES = ["First", "blocks", "_inner", "last", "main", "norms", "other", "zip"]
X = np.random.RandomState(0).rand(3, 4, 4).astype("float32")


def _array(variable):
    """Return a variable of tf.keras or Keras 3 as an array."""
    value = getattr(variable, "value", variable)  # of tf.keras, a method
    value = value() if callable(value) else value
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


class Built:
    """A model, and the layers that were made for it, in order."""

    def __init__(self, keras, seed, release):
        self.keras, self.release = keras, release
        self.draw = random.Random(seed)
        self.maker = random_models.Maker(keras)
        self.made = []
        self.root = self.draw.choice(ROOTS)
        self.model = getattr(self, f"_{self.root}")()
        self.model(X)

    def variables(self):
        """Yield `(path, variable)` for the weights of all layers."""
        for number, layer in enumerate(self.made):
            yield from random_models.variables(layer, f"{number}/")

    def train(self):
        """Compile the model, and train it for one step."""
        self.model.compile("adam", "mse", run_eagerly=True)
        y = np.zeros(self.model(X).shape, "float32")
        self.model.train_on_batch(X, y)

    def momenta(self):
        """Return `{path: array}`, the first slot of Adam of each trained weight."""
        optimizer = self.model.optimizer
        slots = getattr(optimizer, "_momentums", [])
        trained = self.model.trainable_variables
        paths = {id(variable): path for path, variable in self.variables()}
        pairs = zip(trained, slots)  # noqa: B905 (tf.keras)
        return {
            paths[id(variable)]: _array(slot)
            for variable, slot in pairs
            if id(variable) in paths
        }

    def _layer(self):
        while True:
            spec = random_models.drawn(self.draw, self.release, depth=2)
            if "local1d" not in str(spec):  # Keras 3 has none
                break
        flat = self.maker._layer(spec)
        flat = flat if isinstance(flat, list) else [flat]
        self.made += [each for each in flat if type(each).__name__ != "Reshape"]
        return flat

    def _call(self, flat, x):
        for layer in flat:
            several = random_models.takes_several(layer)
            x = layer(x, x) if several == 2 else layer([x, x]) if several else layer(x)
        return x

    def _rows(self):
        rows = [self._layer() for _ in range(self.draw.randint(2, 5))]
        self.draw.shuffle(rows)
        return rows

    def _chain(self):
        inputs = x = self.keras.Input((4, 4))
        for row in self._rows():
            x = self._call(row, x)
        return self.keras.Model(inputs, x)

    def _branches(self):
        inputs = self.keras.Input((4, 4))
        rows, tensors = self._rows(), [inputs]
        rows += self.draw.sample(rows, 1)  # called again
        for row in rows:
            tensors.append(self._call(row, self.draw.choice(tensors)))
        self.draw.shuffle(tensors)
        added = self.keras.layers.Add()(tensors)
        return self.keras.Model(inputs, added)

    def _net(self):
        outer, draw = self, self.draw
        names = draw.sample(NAMES, draw.randint(2, 5))

        class Net(self.keras.Model):
            def __init__(self):
                super().__init__()
                for name in names:
                    kind = draw.choice(["layer", "layer", "list", "dict", "tuple"])
                    rows = [outer._layer() for _ in range(1 if kind == "layer" else 2)]
                    outer_rows.extend(rows)
                    layers = [each for row in rows for each in row]
                    if kind == "layer" and len(layers) == 1:
                        setattr(self, name, layers[0])
                    elif kind == "dict":
                        keys = [f"k{n}" for n in range(len(layers))]
                        draw.shuffle(keys)
                        setattr(self, name, dict(zip(keys, layers)))  # noqa: B905
                    else:
                        setattr(
                            self, name, tuple(layers) if kind == "tuple" else layers
                        )
                self.unused = outer.keras.layers.Dense(2)

            def call(self, x):
                for row in outer_rows:
                    x = outer._call(row, x)
                return x

        outer_rows = []
        return Net()
