"""TensorFlow: sparse gradients, graphs, and distribution strategies."""

import collections
import contextlib

import keras
import tensorflow as tf
from keras import ops

from keras_policies.backends.eager import place, update

__all__ = [
    "all_finite",
    "place",
    "read_once",
    "run_if",
    "unscale",
    "unscaled",
    "update",
]

SMALL = 1024  # elements


def unscale(gradients, scale):
    """Return each gradient divided by `scale`; Keras promotes it to float32."""
    return _unstacked(_divided(gradients, scale))


@contextlib.contextmanager
def unscaled(gradients, variables, scale, check):
    """Yield each gradient divided by `scale`, and the check if asked for."""
    divided = _divided(gradients, scale)
    finite = _are_finite(divided.values()) if check and divided else None
    yield _unstacked(divided), finite


def all_finite(gradients):
    """Return a bool scalar, whether every element of every gradient is finite."""
    return _are_finite(_stacked(gradients).values())


def _stacked(gradients):
    """Return `{indices: tensor}`: small gradients of one shape as a single tensor.

    An operation on a scalar takes as long as one on a thousand numbers.
    """
    groups = collections.defaultdict(list)
    for i, gradient in enumerate(gradients):
        kind = (gradient.dtype, *gradient.shape) if _is_small(gradient) else i
        groups[kind].append(i)
    return {
        tuple(group): tf.stack([gradients[i] for i in group])
        if len(group) > 1
        else gradients[group[0]]
        for group in groups.values()
    }


def _is_small(gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return False
    size = gradient.shape.num_elements()
    return size is not None and size <= SMALL


def _unstacked(stacks):
    gradients = {}
    for indices, values in stacks.items():
        parts = tf.unstack(values, len(indices)) if len(indices) > 1 else [values]
        gradients.update(zip(indices, parts, strict=True))
    return [gradients[i] for i in range(len(gradients))]


def _divided(gradients, scale):
    stacks = _stacked(gradients).items()
    return {indices: ops.divide(values, scale) for indices, values in stacks}


def _are_finite(tensors):
    """Return a bool scalar, whether every element of every tensor is finite.

    `x - x` is zero for a finite number, and NaN for any other: its sum takes a quarter
    of the time of `tf.reduce_all`.
    """
    dense = [x.values if isinstance(x, tf.IndexedSlices) else x for x in tensors]
    zeros = [tf.cast(tf.reduce_sum(x - x), "float32") for x in dense]
    return tf.math.is_finite(tf.add_n(zeros))


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


class _ReadOnce(keras.StatelessScope):
    """Gives known values of variables; what is assigned is assigned at once."""

    def add_update(self, update):
        variable, value = update
        self.state_mapping.pop(id(variable), None)
        variable.value.assign(tf.cast(value, variable.dtype))


def read_once(variables):
    """Read variables once until they are written.

    An optimizer reads its learning rate and its iterations anew for each variable that
    it updates, and TensorFlow takes no two reads of a variable for the same.
    """
    return _ReadOnce([(v, tf.identity(v.value)) for v in variables])
