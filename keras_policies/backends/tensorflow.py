"""TensorFlow: sparse gradients, graphs, and distribution strategies."""

import collections
import contextlib
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_policies._common.types import Tensor, Tensors, Variables
from keras_policies.backends.protocol import (
    Backend,
    Floats,
    GetVariables,
    Rule,
    ScalarFunction,
    Step,
    StepGradients,
    is_small,
)

# Positions of gradients in a list -> those gradients, as one tensor.
Stacks: TypeAlias = dict[tuple[int, ...], Tensor]


class TensorflowBackend(Backend):
    """TensorFlow: graphs and replicas; small gradients of one shape are stacked."""

    def unscale(self, gradients: Tensors, scale: Tensor) -> list[Tensor]:
        return _unstacked(_divided(_stacked(gradients), scale))

    def all_finite(self, gradients: Tensors) -> Tensor:
        return _are_finite(_stacked(gradients).values())

    def unscaled_in_step(
        self, gradients: Tensors, variables: Variables, scale: Tensor, check: bool
    ) -> AbstractContextManager[StepGradients]:
        # On a CPU the step divides, so that nothing is held in memory before. Elsewhere
        # Keras compiles with XLA, which would divide again for each slot it updates.
        if not _is_cpu():
            return super().unscaled_in_step(gradients, variables, scale, check)
        stacks = _stacked(gradients)
        finite = _are_finite_divided(stacks, scale) if check and gradients else None
        return contextlib.nullcontext(
            StepGradients(lambda: _unstacked(_divided(stacks, scale)), finite)
        )

    def run_if(self, condition: Tensor, step: Step, variables: GetVariables) -> Tensor:
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                "apply_gradients() must be called in a replica context: in the "
                "function that is passed to strategy.run()."
            )
        if tf.distribute.has_strategy():
            return _run_on_replicas_if(condition, step)
        _cond(condition, step)
        return condition

    def update(self, variables: Variables, rule: Rule) -> None:
        if not _never_merges():
            super().update(variables, rule)
            return
        values = rule(*map(ops.convert_to_tensor, variables))
        for variable, value in zip(variables, values, strict=True):
            _assign_on_replica(variable, value)

    def is_traced(self, tensor: Tensor) -> bool:
        return not tf.executing_eagerly()

    def read_once(self, variables: GetVariables) -> AbstractContextManager[Any]:
        # An optimizer reads its learning rate and its iterations again for each
        # variable that it updates, and TensorFlow merges no two reads of a variable.
        return _ReadOnce([(v, tf.identity(v.value)) for v in variables()])

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        values = [tf.identity(value) for value in values]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            result = function(values)
        gradients = tape.gradient(result, values, unconnected_gradients="zero")
        # `convert_to_tensor` makes sparse ones dense.
        return [tf.cast(tf.convert_to_tensor(g), "float32").numpy() for g in gradients]


backend: Backend = TensorflowBackend()


def _is_cpu() -> bool:
    return all(d.device_type == "CPU" for d in tf.config.list_logical_devices())


def _stacked(gradients: Tensors) -> Stacks:
    """Stack small gradients of one shape: an operation on fewer takes as long."""
    groups: dict[Hashable, list[int]] = collections.defaultdict(list)
    for i, gradient in enumerate(gradients):
        kind = (gradient.dtype, *gradient.shape) if _is_small(gradient) else i
        groups[kind].append(i)
    stacks = {}
    for group in groups.values():
        tensors = [gradients[i] for i in group]
        stacks[tuple(group)] = tf.stack(tensors) if len(tensors) > 1 else tensors[0]
    return stacks


def _is_small(gradient: Tensor) -> bool:
    if isinstance(gradient, tf.IndexedSlices):
        return False
    return gradient.shape.is_fully_defined() and is_small(gradient)


def _unstacked(stacks: Stacks) -> list[Tensor]:
    gradients: dict[int, Tensor] = {}
    for indices, values in stacks.items():
        parts = tf.unstack(values, len(indices)) if len(indices) > 1 else [values]
        gradients.update(zip(indices, parts, strict=True))
    return [gradients[i] for i in range(len(gradients))]


def _divided(stacks: Stacks, scale: Tensor) -> Stacks:
    return {i: _quotient(values, scale) for i, values in stacks.items()}


def _quotient(gradient: Tensor, scale: Tensor) -> Tensor:
    if not _is_float16_slices(gradient):
        return ops.divide(gradient, scale)
    wide = tf.IndexedSlices(
        tf.cast(gradient.values, "float32"), gradient.indices, gradient.dense_shape
    )
    summed = _summed(ops.divide(wide, scale))
    # As in a dense gradient, what is too large for float16 is infinite.
    too_large = tf.abs(summed.values) > tf.float16.max
    values = tf.where(too_large, float("inf"), summed.values)
    return tf.IndexedSlices(values, summed.indices, summed.dense_shape)


def _is_float16_slices(gradient: Tensor) -> bool:
    return isinstance(gradient, tf.IndexedSlices) and gradient.dtype == tf.float16


def _summed(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Return slices with one for each index: the sum of those of the same index.

    The optimizer adds them up in the variable, where a sum may overflow in float16.
    """
    indices, segments = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, segments, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def _are_finite_divided(stacks: Stacks, scale: Tensor) -> Tensor:
    """Return a bool scalar, whether every element is finite once divided by `scale`.

    A sum of numbers is finite only if they all are, and dividing by 1 or more makes
    none larger. Where the sum does not decide, the quotients are looked at.
    """
    decides = tf.logical_and(scale >= 1, _is_finite_sum(map(_numbers, stacks.values())))
    return ops.cond(
        decides,
        lambda: tf.constant(True),
        lambda: _are_finite(_divided(stacks, scale).values()),
    )


def _are_finite(tensors: Iterable[Tensor]) -> Tensor:
    """Return a bool scalar, whether every element of every tensor is finite.

    `x - x` is zero for a finite number, and NaN for any other: its sum takes a quarter
    of the time of `tf.reduce_all`.
    """
    return _is_finite_sum(x - x for x in map(_numbers, tensors))


def _is_finite_sum(tensors: Iterable[Tensor]) -> Tensor:
    sums = [tf.cast(tf.reduce_sum(x), "float32") for x in tensors]
    return tf.math.is_finite(tf.add_n(sums))


def _numbers(gradient: Tensor) -> Tensor:
    if _is_float16_slices(gradient):
        gradient = _summed(gradient)
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _cond(condition: Tensor, step: Callable[[], object]) -> None:
    """Run `step()` if a condition holds; in a graph, under `tf.cond`."""

    def run_step() -> None:
        step()

    ops.cond(condition, run_step, lambda: None)


def _run_on_replicas_if(condition: Tensor, step: Step) -> Tensor:
    """Run the step of each replica if the condition holds on all of them.

    The gradients of a replica are its own: Keras adds them up within the step. There
    the replicas meet, which they cannot do inside a condition of one replica, so the
    condition is evaluated across replicas.
    """
    replica = tf.distribute.get_replica_context()
    if _never_merges():
        condition = _on_all_replicas(replica, condition)
        _cond(condition, step)
        return condition

    # Called for the first replica alone: what each replica has comes as an argument.
    def across_replicas(
        strategy: tf.distribute.Strategy, conditions: Any, steps: Any
    ) -> Tensor:
        condition = tf.reduce_all(strategy.experimental_local_results(conditions))
        each = strategy.extended.call_for_each_replica
        _cond(condition, lambda: each(lambda step: step(), (steps,)))
        return condition

    if len(replica.strategy.extended.worker_devices) < replica.num_replicas_in_sync:
        condition = _on_all_replicas(replica, condition)  # other workers have some
    return replica.merge_call(across_replicas, (condition, step))


def _never_merges() -> bool:
    """Return whether each replica is compiled alone, as XLA does on GPUs.

    There the replicas meet by collectives only, and `merge_call` fails
    (https://github.com/keras-team/keras/issues/21366).
    """
    supports = tf.__internal__.distribute.strategy_supports_no_merge_call
    return tf.distribute.has_strategy() and bool(supports())


def _assign_on_replica(variable: keras.Variable, value: Tensor) -> None:
    """Assign a value that is the same on all replicas, without merging them.

    `variable.assign` would merge where the first replica's value counts.
    """
    extended = tf.distribute.get_strategy().extended
    value = tf.cast(value, variable.dtype)
    extended.update(variable.value, lambda v, x: v.assign(x), (value,), group=False)


def _on_all_replicas(
    replica: tf.distribute.ReplicaContext, condition: Tensor
) -> Tensor:
    """Return whether a condition holds on all replicas, those of all workers."""
    failed = tf.cast(tf.logical_not(condition), "float32")
    return tf.equal(replica.all_reduce(tf.distribute.ReduceOp.SUM, failed), 0.0)


class _ReadOnce(keras.StatelessScope):  # type: ignore[misc]
    """Gives known values of variables; an assignment happens at once."""

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        variable, value = update
        self.state_mapping.pop(id(variable), None)
        if _never_merges():
            _assign_on_replica(variable, value)
        else:
            variable.value.assign(tf.cast(value, variable.dtype))
