"""TensorFlow: sparse gradients, graphs, and distribution strategies."""

import collections

import tensorflow as tf
from keras import ops

from keras_policies.backends.eager import place, unscale, unscaled_by, update

__all__ = ["all_finite", "place", "run_if", "unscale", "unscaled", "update"]

SMALL = 1024  # elements


def all_finite(gradients):
    """Return a bool scalar, whether every element of every gradient is finite.

    `x - x` is zero for a finite number, and NaN for any other: its sum takes a quarter
    of the time of `tf.reduce_all`, and small gradients of one shape are summed at once.
    """
    groups = collections.defaultdict(list)
    for i, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices):
            gradient = gradient.values
        size = gradient.shape.num_elements()
        is_small = size is not None and size <= SMALL
        key = (gradient.dtype, *gradient.shape) if is_small else i
        groups[key].append(gradient)
    joined = [
        group[0] if len(group) == 1 else tf.stack(group) for group in groups.values()
    ]
    zeros = [tf.cast(tf.reduce_sum(values - values), "float32") for values in joined]
    return tf.math.is_finite(tf.add_n(zeros))


unscaled = unscaled_by(unscale, all_finite)


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
        return condition

    def across_replicas(strategy, condition):
        conditions = strategy.experimental_local_results(condition)
        ops.cond(
            tf.reduce_all(tf.stack(conditions)),
            lambda: _ignore(lambda: strategy.extended.call_for_each_replica(step)),
            lambda: None,
        )

    tf.distribute.get_replica_context().merge_call(across_replicas, (condition,))
    return condition


def _ignore(step):
    step()
