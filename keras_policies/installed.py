"""Makes Keras obey this package, and holds the public names that need Keras for it."""

# mypy: implicit-reexport
# ruff: noqa: F401

from keras_policies import backend_missing  # isort: skip (says what Keras cannot)
from keras_policies import (
    compile,
    experimental,
    infer,
    loss_scale_optimizer,
    origins,
    rnn_states,
    serialization,
)
from keras_policies.callbacks import LossScaleLogger
from keras_policies.global_policy import global_policy, policy_scope, set_policy
from keras_policies.global_policy import set_policy as set_global_policy  # in TF 2.4
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from keras_policies.loss_scale_optimizer import LossScaleOptimizer
from keras_policies.policy import Policy

INSTALLED = (infer, compile, serialization, origins, loss_scale_optimizer, rnn_states)
for module in INSTALLED:
    module.install()
