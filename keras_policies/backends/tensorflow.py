"""TensorFlow: sparse gradients, graphs, and distribution strategies."""

import collections
import contextlib

import keras
import tensorflow as tf
from keras import ops

from keras_policies.backends import eager


def unscale(gradients, scale):
    """Return each gradient divided by `scale`; Keras promotes it to float32."""
    return _unstacked(_divided(_stacked(gradients), scale))


@contextlib.contextmanager
def unscaled(gradients, variables, scale, check):
    """Yield what gives the divided gradients, and the check if asked for.

    On a CPU they are divided within the step, and take no memory before. Elsewhere
    Keras compiles with XLA, which would divide anew for each slot that is updated.
    """
    stacks = _stacked(gradients)
    check = check and bool(gradients)
    if _is_cpu():
        finite = _are_finite_divided(stacks, scale) if check else None
        yield lambda: _unstacked(_divided(stacks, scale)), finite
        return
    divided = _divided(stacks, scale)
    unstacked = _unstacked(divided)
    yield lambda: unstacked, _are_finite(divided.values()) if check else None


def _is_cpu():
    return all(d.device_type == "CPU" for d in tf.config.list_logical_devices())


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
    return size is not None and size <= eager.SMALL


def _unstacked(stacks):
    gradients = {}
    for indices, values in stacks.items():
        parts = tf.unstack(values, len(indices)) if len(indices) > 1 else [values]
        gradients.update(zip(indices, parts, strict=True))
    return [gradients[i] for i in range(len(gradients))]


def _divided(stacks, scale):
    return {indices: ops.divide(values, scale) for indices, values in stacks.items()}


def _are_finite_divided(stacks, scale):
    """Return a bool scalar, whether all is finite when it is divided by `scale`.

    A sum of numbers is finite only if they are, and they are no larger when divided by
    1 or more. Where that does not tell, the quotients are looked at.
    """
    tells = tf.logical_and(scale >= 1, _is_finite_sum(map(_numbers, stacks.values())))
    return ops.cond(
        tells,
        lambda: tf.constant(True),
        lambda: _are_finite(_divided(stacks, scale).values()),
    )


def _are_finite(tensors):
    """Return a bool scalar, whether every element of every tensor is finite.

    `x - x` is zero for a finite number, and NaN for any other: its sum takes a quarter
    of the time of `tf.reduce_all`.
    """
    return _is_finite_sum(x - x for x in map(_numbers, tensors))


def _is_finite_sum(tensors):
    sums = [tf.cast(tf.reduce_sum(x), "float32") for x in tensors]
    return tf.math.is_finite(tf.add_n(sums))


def _numbers(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def run_if(condition, step, variables):
    """Run `step()` if `condition` holds on every replica, in a graph under `tf.cond`.

    The gradients of a replica are its own: Keras adds them up within the step. There
    replicas meet, which they cannot do inside a condition of one replica, and so the
    condition is taken across replicas.
    """
    if tf.distribute.in_cross_replica_context():
        raise ValueError(
            "The optimizer was applied outside a replica. Apply it in the function "
            "that is passed to strategy.run()."
        )
    if not tf.distribute.has_strategy():
        ops.cond(condition, lambda: _ignore(step), lambda: None)
        return condition

    # Called for the first replica alone: what is of each comes as an argument.
    def across_replicas(strategy, conditions, steps):
        condition = tf.reduce_all(strategy.experimental_local_results(conditions))
        each = strategy.extended.call_for_each_replica
        ops.cond(
            condition,
            lambda: _ignore(lambda: each(lambda step: step(), (steps,))),
            lambda: None,
        )
        return condition

    replica = tf.distribute.get_replica_context()
    condition = _on_all_workers(replica, condition)
    return replica.merge_call(across_replicas, (condition, step))


def _on_all_workers(replica, condition):
    """Return whether `condition` holds on all replicas, if some are elsewhere."""
    if len(replica.strategy.extended.worker_devices) == replica.num_replicas_in_sync:
        return condition
    failed = tf.cast(tf.logical_not(condition), "float32")
    return tf.equal(replica.all_reduce(tf.distribute.ReduceOp.SUM, failed), 0.0)


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
    return _ReadOnce([(v, tf.identity(v.value)) for v in variables()])


def gradients(function, values):
    """Return the gradients of `function(values)`, sparse ones made dense."""
    values = [tf.identity(value) for value in values]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        result = function(values)
    taken = [g for g in tape.gradient(result, values) if g is not None]
    return [tf.cast(tf.convert_to_tensor(g), "float32").numpy() for g in taken]
