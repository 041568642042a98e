"""Opens the random models of `write_orders.py`, and compares each weight."""

import keras
import numpy as np
import random_models

import keras_policies
from keras_policies import LegacyModelError

OBJECTS = random_models.classes(keras)
# Keras 3 has no such layers to build in code.
WITHOUT_COUNTERPART = "local1d"


def kinds(spec):
    """Yield the kind of a spec and of all that are in it."""
    yield spec[0]
    for inner in spec[3]:
        yield from kinds(inner)


def is_open(form, spec):
    """Return whether Keras 3 can have the model for a file of a form."""
    return form.startswith(("model", "saved")) or WITHOUT_COUNTERPART not in kinds(spec)


def opened(path, spec):
    """Return the model of a file, or one built from its spec; None if it is refused."""
    keras.utils.clear_session()
    try:
        if path.name.startswith(("model", "saved")):
            return keras_policies.load_model(path, OBJECTS, compile=False)
        model = random_models.Maker(keras).model(spec)
        keras_policies.load_weights(model, path)
    except LegacyModelError as error:
        if "which parts of" not in str(error):
            raise
        return None
    return model


def wrong(model, case):
    """Return the paths of weights that are not those of tf.keras."""
    found = dict(random_models.variables(model))
    with np.load(case / "expected.npz") as stored:
        return [
            path
            for path in stored
            if path not in found
            or not np.array_equal(
                keras.ops.convert_to_numpy(found[path]).ravel(), stored[path].ravel()
            )
        ]
