"""Imports Keras, or says what to do where its backend is not installed."""

from keras_policies.backends import NAMES

try:
    import keras  # noqa: F401 - the first import of it
except ModuleNotFoundError as error:
    if error.name not in NAMES:
        raise
    raise ModuleNotFoundError(
        f"Keras is set to the backend {error.name!r}, which is not installed. Install "
        f"it, or set the environment variable KERAS_BACKEND to one of {NAMES} that is "
        "installed, before Python starts: export KERAS_BACKEND=jax",
        name=error.name,
    ) from None
