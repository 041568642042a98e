"""The global policy of `keras.config`, under the names of tf.keras 2."""

import contextlib
from collections.abc import Iterator

import keras

from keras_policies._common.types import PolicyLike
from keras_policies.policies.policy import Policy

PLAIN = keras.DTypePolicy, keras.dtype_policies.FloatDTypePolicy


def set_policy(policy: PolicyLike | None) -> None:
    """Set the policy of layers that are created without `dtype=`.

    This is Keras's own global policy, one per thread. Under "mixed_float16",
    `Model.compile` scales the loss dynamically. For another loss scale, pass a
    `Policy(name, loss_scale=...)`.

    Args:
        policy: a `Policy` or its name; None for the default, the policy of
            `keras.config.floatx()`; or a stock `keras.DTypePolicy`, under which stock
            `compile` decides whether to scale the loss.

    Raises:
        TypeError, ValueError: as from `Policy`.
        ValueError: if the policy's compute dtype is not floating-point.

    Example:
    >>> set_policy("mixed_float16")
    >>> keras.layers.Dense(2).compute_dtype
    'float16'
    >>> set_policy(Policy("mixed_float16", loss_scale=1024))
    >>> global_policy().loss_scale
    FixedLossScale(1024.0)
    >>> set_policy(None)
    """
    if policy is None:
        policy = keras.DTypePolicy(keras.config.floatx())
    is_policy = isinstance(policy, keras.DTypePolicy)
    chosen: keras.DTypePolicy = policy if is_policy else Policy(policy)
    dtype = chosen.compute_dtype
    if dtype is not None and not keras.backend.is_float_dtype(dtype):
        raise ValueError(
            "set_policy can only be used to set the global policy to "
            'floating-point policies, such as "float32" and "mixed_float16", but '
            f"got policy: {chosen.name}. Pass it to dtype= of a layer instead."
        )
    keras.config.set_dtype_policy(chosen)


def global_policy() -> keras.DTypePolicy:
    """Return the global policy, as a `Policy`.

    A policy that stock code set is returned as the `Policy` of that name, with the
    loss scale that plain Keras would use. A `DTypePolicyMap` or a quantized policy
    has no such `Policy` and is returned unchanged.

    Example:
    >>> global_policy()
    <Policy "float32", loss_scale=None>
    """
    policy = keras.config.dtype_policy()
    if type(policy) in PLAIN:
        return Policy(policy.name)
    return policy


def with_its_loss_scale(policy: keras.DTypePolicy) -> keras.DTypePolicy:
    """Return the global `Policy` for a plain policy of its dtypes, else `policy`."""
    chosen = keras.config.dtype_policy()
    dtypes, expected = ((p.compute_dtype, p.variable_dtype) for p in (policy, chosen))
    is_plain = type(policy) in PLAIN and isinstance(chosen, Policy)
    return chosen if is_plain and dtypes == expected else policy


@contextlib.contextmanager
def policy_scope(policy: PolicyLike | None) -> Iterator[None]:
    """Set the global policy inside a `with` block; scopes nest.

    Args:
        policy: as for `set_policy`.

    Raises:
        TypeError, ValueError: as from `set_policy`.

    Example:
    >>> with policy_scope("float16"):
    ...     layer = keras.layers.Dense(2)
    >>> layer.dtype_policy
    <Policy "float16", loss_scale=None>
    """
    before = keras.config.dtype_policy()
    set_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
