"""`Policy`: the dtypes of a layer, and a loss scale."""

import copy

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Tensor
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.loss_scale import LossScale, LossScaleLike
from keras_policies.policies import names as policy_names
from keras_policies.policies.names import AUTO, auto


@keras_internals.keeps_its_name
class Policy(keras.DTypePolicy):  # type: ignore[misc]
    """A `keras.DTypePolicy` with a loss scale, as tf.keras 2.0 to 2.3 had it.

    Pass it to `dtype=` of any layer, to `set_policy`, or put it into a
    `keras.dtype_policies.DTypePolicyMap`. `Model.compile` wraps the optimizer
    in a `LossScaleOptimizer` when the model's own policy has a loss scale. A
    saved model holds the plain `keras.DTypePolicy`; the loss scale is dropped.

    A deferred policy (`"infer"`, `"infer_with_float32_vars"`) has no compute
    dtype yet: each layer takes its dtype from the first tensor that it is called on,
    and keeps it. The policy object itself never changes, so layers can share it.

    Args:
        name: str, a dtype name such as `"float32"`; `"mixed_float16"` or
            `"mixed_bfloat16"`; or one of the deprecated names `"infer"`,
            `"infer_with_float32_vars"`, `"<dtype>_with_float32_vars"`.
        loss_scale: `"auto"` (dynamic for `"mixed_float16"`, else `None`),
            `"dynamic"`, `None`, a number of at least 1 for a fixed
            scale, a `LossScale`, or the config dict of one.

    Raises:
        TypeError: if `name` is not a string.
        ValueError: if `name` or `loss_scale` is not one of the above.

    Example:
    >>> policy = Policy("mixed_float16", loss_scale=128)
    >>> policy
    <Policy "mixed_float16", loss_scale=FixedLossScale(128.0)>
    >>> policy.compute_dtype, policy.variable_dtype
    ('float16', 'float32')
    >>> keras.layers.Dense(2, dtype=policy).compute_dtype
    'float16'
    """

    quantization_mode = None

    def __init__(self, name: str, loss_scale: LossScaleLike = "auto") -> None:
        if not isinstance(name, str):
            raise policy_names.not_a_string(name)
        self._own_name = policy_names.full_name(name)
        self._dtypes = policy_names.dtypes_of(self._own_name)
        is_auto = isinstance(loss_scale, str) and loss_scale in AUTO
        self.has_own_scale = not is_auto
        self._loss_scale = loss_scales.get(auto(self.name) if is_auto else loss_scale)
        if self.loss_scale is not None and self.compute_dtype not in ("float16", None):
            warn(
                "Creating a Policy with a loss scale is only useful for float16 "
                f"policies. You passed loss_scale={loss_scale!r} for policy "
                f"{self.name}. Consider not passing any loss_scale instead."
            )
        policy_names.warn_if_deprecated(self._own_name)

    @property
    def name(self) -> str:
        """str, the policy's name."""
        return self._own_name

    @property
    def compute_dtype(self) -> str | None:
        """str, the dtype of a layer's computations; None while deferred."""
        return self._dtypes.compute

    @property
    def variable_dtype(self) -> str | None:
        """str, the dtype of a layer's weights; None for `"infer"`."""
        return self._dtypes.variable

    @property
    def should_cast_variables(self) -> bool:
        """bool, whether weights are cast to the compute dtype when used."""
        return self.variable_dtype != self.compute_dtype

    @property
    def loss_scale(self) -> LossScale | None:
        """The `LossScale` that `Model.compile` obeys, or None."""
        return self._loss_scale

    @property
    def is_deferred(self) -> bool:
        """bool, whether the compute dtype waits for a layer's first input."""
        return self.compute_dtype is None

    def resolve(self, dtype: str) -> "Policy":
        """Return this deferred policy, settled on the dtype of a first input.

        Args:
            dtype: str, the dtype name of a layer's first input.

        Returns:
            A `Policy` with the same loss scale; `self` if it is not deferred.

        Example:
        >>> Policy("infer").resolve("float16")
        <Policy "float16", loss_scale=None>
        """
        if not self.is_deferred:
            return self
        name = dtype
        # Keras cannot run a layer whose float weights autocast to an integer.
        if self.variable_dtype is not None and keras.backend.is_float_dtype(dtype):
            name += policy_names.WITH_FLOAT32_VARS
        settled = copy.copy(self)
        settled._own_name = policy_names.full_name(name)
        settled._dtypes = policy_names.dtypes_of(settled._own_name)
        return settled

    def convert_input(self, x: Tensor, autocast: bool, dtype: str | None) -> Tensor:
        """Convert one input of a layer, as `keras.DTypePolicy` does.

        A policy that is deferred, or has an integer or boolean compute dtype, never
        casts: that would destroy a floating-point input.
        """
        casts = keras.backend.is_float_dtype(self.compute_dtype or "bool")
        return super().convert_input(x, autocast and casts, dtype)

    @keras_internals.needs(keras_internals.SAVING)
    def get_config(self) -> Config:
        """Return `{"name": …}`, which a stock `keras.DTypePolicy` accepts.

        The loss scale is left out. The name of a deferred policy is None: Keras then
        follows its global policy.
        """
        return plain_config(self)

    @classmethod
    def from_config(cls, config: Config) -> "Policy":
        """Return the policy of `{"name": str}`, with the loss scale of its name.

        If the name is None, as for a deferred policy, return the global policy.
        """
        if config["name"] is not None:
            return cls(**config)
        policy = keras.config.dtype_policy()
        return policy if isinstance(policy, cls) else cls(policy.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return False
        state, others = ((type(p), p.name, p.loss_scale) for p in (self, other))
        return state == others

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.loss_scale))

    def __repr__(self) -> str:
        return f'<Policy "{self.name}", loss_scale={self.loss_scale!r}>'


def plain_config(policy: Policy) -> Config:
    """Return the config of the stock policy that a file holds for a `Policy`."""
    dtypes = policy_names.Dtypes(policy.compute_dtype, policy.variable_dtype)
    return {"name": policy_names.stock_name(policy.name, dtypes)}
