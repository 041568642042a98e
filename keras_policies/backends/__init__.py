"""What each backend does its own way, behind three functions.

- `all_finite(gradients)`: bool scalar, whether no element is NaN or infinite.
- `run_if(condition, step, variables)`: run `step()`, which assigns to
  `variables` and to nothing else, only where `condition` holds.
- `place(array)`: a copy of a numpy array, as a variable takes it without compiling.
"""

import importlib

import keras

_MODULES = {"jax": "jax", "tensorflow": "tensorflow"}

_module = importlib.import_module(
    f"keras_policies.backends.{_MODULES.get(keras.backend.backend(), 'eager')}"
)
all_finite = _module.all_finite
run_if = _module.run_if
place = _module.place
