"""Training steps as `Model.fit` runs them, without the rest of `fit`."""

import itertools

import keras

from benchmarks import devices, works


def stepper(work, variant):
    """Return `run(n)`, which calls the train function n times and waits for it."""
    model, x, y = works.compiled(work, variant)
    model.train_on_batch(x, y)
    make = {"jax": _on_jax, "tensorflow": _on_tensorflow, "torch": _on_torch}
    run = make[works.BACKEND](model, *map(keras.ops.convert_to_tensor, (x, y)))
    run(3)
    return run


def _on_jax(model, *batch):
    import jax

    model.make_train_function()
    batches = itertools.repeat(batch)
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    # A copy, because the train function reuses the memory of its state.
    state = jax.tree.map(jax.numpy.copy, [[v.value for v in group] for group in groups])

    def run(n):
        nonlocal state
        for _ in range(n):
            _, state = model.train_function(state, batches)
        jax.block_until_ready(state)

    return run


def _on_tensorflow(model, *batch):
    import tensorflow as tf

    model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(batch).cache().repeat())

    def run(n):
        for _ in range(n):
            logs = model.train_function(batches)
        for value in logs.values():
            float(value)

    return run


def _on_torch(model, *batch):
    model.make_train_function()

    def run(n):
        for _ in range(n):
            model.train_function([batch])
        devices.wait()

    return run
