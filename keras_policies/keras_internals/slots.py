"""The slots of optimizers: the variables kept for each weight that is trained.

The accessors are in `optimizers`.
"""

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
# The averages of weights that every optimizer keeps if it is told to.
AVERAGES = {"average": "_model_variables_moving_average"}
