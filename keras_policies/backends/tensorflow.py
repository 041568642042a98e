"""TensorFlow: sparse gradients, graphs, and distribution strategies."""

import tensorflow as tf
from keras import ops

from keras_policies.backends import eager
from keras_policies.backends.eager import place

__all__ = ["all_finite", "place", "run_if"]


def all_finite(gradients):
    """Return a bool scalar, whether every element of every gradient is finite."""
    return eager.all_finite(
        [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    )


def run_if(condition, step, variables):
    """Run `step()` if `condition`, in a graph under `tf.cond`.

    A strategy that merges its replicas cannot do so inside a condition of one
    replica, so there the condition is taken across replicas: on all of them.
    """
    if tf.distribute.in_cross_replica_context():
        raise ValueError(
            "The optimizer was applied outside a replica. Apply it in the function "
            "that is passed to strategy.run()."
        )
    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        ops.cond(condition, lambda: _ignore(step), lambda: None)
        return

    def across_replicas(strategy, condition):
        conditions = strategy.experimental_local_results(condition)
        ops.cond(
            tf.reduce_all(tf.stack(conditions)),
            lambda: _ignore(lambda: strategy.extended.call_for_each_replica(step)),
            lambda: None,
        )

    tf.distribute.get_replica_context().merge_call(across_replicas, (condition,))


def _ignore(step):
    step()
