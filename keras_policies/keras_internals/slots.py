"""The slots of optimizers: the variables kept for each weight that is trained."""

import keras

# Optimizer -> {slot name in tf.keras: attribute in Keras 3}. Names of tf.keras up to
# 2.10 stand beside those from 2.11 on. `places` checks that Keras sets the attributes.
SLOTS = {
    "SGD": {"momentum": "momentums", "m": "momentums"},
    "RMSprop": {
        "rms": "_velocities",
        "velocity": "_velocities",
        "momentum": "_momentums",
        "mg": "_average_gradients",
        "average_gradient": "_average_gradients",
    },
    "Adam": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "Adagrad": {"accumulator": "_accumulators"},
    "Adadelta": {
        "accum_grad": "_accumulated_grads",
        "accum_var": "_accumulated_delta_vars",
        "accumulated_grad": "_accumulated_grads",
        "accumulated_delta_var": "_accumulated_delta_vars",
    },
    "Adamax": {"m": "_m", "v": "_u", "u": "_u"},
    "Nadam": {"m": "_momentums", "v": "_velocities"},
    "Ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
    "Lion": {"m": "_momentums"},
}


def slot_names(optimizer: keras.optimizers.Optimizer) -> list[str]:
    """Return the names in tf.keras of an optimizer's slots; none if it is not known."""
    return list(_attributes(optimizer))


def slot(
    optimizer: keras.optimizers.Optimizer, name: str, variable: keras.Variable
) -> keras.Variable | None:
    """Return a built optimizer's slot for a variable, or None if it keeps none.

    Keras: src/optimizers/*.py keep the slots in lists, which are empty or missing where
    a setting, such as a momentum of 0, makes them useless.
    """
    slots = getattr(optimizer, _attributes(optimizer)[name], None)
    return slots[optimizer._get_variable_index(variable)] if slots else None


def nadam_product(optimizer: keras.optimizers.Nadam) -> keras.Variable:
    """Return the variable in which Nadam keeps the product of its momenta."""
    return optimizer._u_product


def _attributes(optimizer: keras.optimizers.Optimizer) -> dict[str, str]:
    classes = (base.__name__ for base in type(optimizer).__mro__)
    return next((SLOTS[name] for name in classes if name in SLOTS), {})
