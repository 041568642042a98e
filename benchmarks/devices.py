"""The device that a backend computes on: its name, its memory, and waits for it."""

import contextlib
import resource
import warnings

import keras

BACKEND = keras.backend.backend()
SYNCHRONIZING = "called a synchronizing CUDA operation"  # torch's warning


def gpu():
    """Return the name of the GPU that the backend computes on, or None."""
    if BACKEND == "jax":
        import jax

        device = jax.devices()[0]
        return None if device.platform == "cpu" else device.device_kind
    if BACKEND == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else None
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details
    return details(found[0])["device_name"] if found else None


def peak_bytes():
    """Return the most memory that was in use: of the GPU, or else of the process."""
    if gpu() is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if BACKEND == "jax":
        import jax

        return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    if BACKEND == "torch":
        import torch

        return torch.cuda.max_memory_allocated()
    import tensorflow as tf

    return tf.config.experimental.get_memory_info("GPU:0")["peak"]


def wait():
    """Wait until torch's GPU has done what it was given."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextlib.contextmanager
def waits():
    """Yield a list that gets an item whenever the host waits for the GPU.

    torch counts its synchronizing operations. jax raises at the first value that it
    copies to the host unasked. TensorFlow has no such count.
    """
    found = []
    if gpu() is None or BACKEND == "tensorflow":
        raise RuntimeError("waits are counted on a GPU, by jax and torch.")
    if BACKEND == "jax":
        import jax

        with jax.transfer_guard_device_to_host("disallow"):
            yield found
        return
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")
    found += [item for item in caught if SYNCHRONIZING in str(item.message)]
