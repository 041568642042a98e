"""Makes Keras obey this package, and holds the public names that need Keras for it."""

# mypy: implicit-reexport
# ruff: noqa: F401

from keras_policies._common import backend_missing  # isort: skip (says what Keras cannot)
from keras_policies import experimental
from keras_policies.legacy.assembly.keras_differences import rnn_states
from keras_policies.loss_scaling import compile
from keras_policies.loss_scaling.callbacks import LossScaleLogger
from keras_policies.loss_scaling.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer
from keras_policies.policies import deferred, serialization
from keras_policies.policies.global_policy import (
    global_policy,
    policy_scope,
    set_policy,
)
from keras_policies.policies.policy import Policy

set_global_policy = set_policy  # in TF 2.4
rnn_states.install()
