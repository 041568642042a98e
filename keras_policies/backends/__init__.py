"""What each backend does its own way, behind nine functions.

- `unscale(gradients, scale)`: new tensors, each gradient divided by the loss scale, in
  float32 or wider, where neither the scale nor the result is out of range.
- `unscaled(gradients, variables, scale, check)`: context manager, gives a function
  that returns the gradients of variables so divided, to be called in a step before the
  context ends; and, if `check`, whether they are finite.
- `all_finite(gradients)`: bool scalar, whether no element is NaN or infinite.
- `run_if(condition, step, variables)`: run `step()`, which assigns to
  `variables()` and to nothing else, only where `condition` holds, on every replica;
  return whether it does, a bool of NumPy if its value is known by then.
- `update(variables, rule)`: assign to variables what `rule` makes of their values.
- `is_constant(variable, tensor)`: whether the compiled code that makes a tensor has a
  variable's value of this moment in it, and not the variable.
- `read_once(variables)`: context manager; inside, `variables()` are read once until
  they are written, where each read is an operation of a graph.
- `gradients(function, values)`: float32 numpy arrays, the gradients of the scalar
  `function(values)`; left out where it does not depend on a value.
- `place(array)`: a copy of a numpy array, as a variable takes it without compiling.
"""

import importlib

import keras

from keras_policies.backend_missing import BACKENDS
from keras_policies.backends import eager

_name = keras.backend.backend()
_is_known = _name in BACKENDS
_own = importlib.import_module(
    f"keras_policies.backends.{_name if _is_known else 'eager'}"
)


def _of_backend(name):
    """Return a function of the backend, or the one that the others share."""
    return getattr(_own, name, None) or getattr(eager, name)


all_finite = _of_backend("all_finite")
gradients = _of_backend("gradients")
is_constant = _of_backend("is_constant")
run_if = _of_backend("run_if")
place = _of_backend("place")
read_once = _of_backend("read_once")
unscale = _of_backend("unscale")
unscaled = _of_backend("unscaled")
update = _of_backend("update")
