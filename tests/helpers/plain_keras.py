"""Calls saved models in a process that has Keras alone, without this package.

The process is started for the first model and takes all others, too: to start Keras
takes longer than to call most of them.

    with plain_keras.Process() as call:
        outputs, losses = call("model.keras", np.ones((2, 3)))
"""

import functools
import os
import pickle
import subprocess
import sys
import traceback


class Process:
    """The process; its call returns `(outputs, losses)`, lists of arrays of a model.

    Args:
        environment: strings, the variables of its environment that are not inherited.
    """

    def __init__(self, **environment):
        self._environment = environment
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._process.communicate()

    def __call__(self, path, inputs):
        """Open a model and call it.

        Args:
            path: str or path of a `.keras` or an H5 file.
            inputs: array, or a nest of arrays.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **self._environment},
            )
        pickle.dump((str(path), inputs), self._process.stdin)
        self._process.stdin.flush()
        answer, error = pickle.load(self._process.stdout)
        assert error is None, error
        return answer


def called(path, inputs):
    """Return `(outputs, losses)` of a model."""
    import keras

    model = opened(path, os.stat(path).st_mtime_ns)
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    if keras.backend.backend() == "jax":  # compiles it as a whole, sooner than by ops
        import jax

        call = functools.partial(model.stateless_call, return_losses=True)
        outputs, _, losses = jax.jit(call)(*model_state(model), inputs)
    else:
        outputs, losses = model(inputs), model.losses
    assert not any(name.startswith("keras_policies") for name in sys.modules)
    return [[*map(array, keras.tree.flatten(nest))] for nest in (outputs, losses)]


@functools.lru_cache(maxsize=1)
def opened(path, _):
    """Return the model at a path, and the same one again until the file changes."""
    import keras

    return keras.models.load_model(path, compile=False)


def model_state(model):
    """Return the values of the trainable and of the other variables."""
    every = model.trainable_variables, model.non_trainable_variables
    return [[variable.value for variable in variables] for variables in every]


def array(tensor):
    """Return a tensor as an array, half precision as float32."""
    import keras

    is_half = keras.backend.standardize_dtype(tensor.dtype).endswith("float16")
    tensor = keras.ops.cast(tensor, "float32") if is_half else tensor
    return keras.ops.convert_to_numpy(tensor)


def main():
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps what libraries print out of the answers
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = called(*request), None
        except Exception:
            answer = None, traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
