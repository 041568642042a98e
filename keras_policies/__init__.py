"""Dtype policies with loss scales for Keras 3, and legacy models rescued.

Importing the package makes stock Keras obey it: see `Policy`.
"""

from keras_policies import compile as _compile
from keras_policies import infer as _infer
from keras_policies import serialization as _serialization
from keras_policies.callbacks import LossScaleLogger
from keras_policies.global_policy import global_policy, policy_scope, set_policy
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from keras_policies.loss_scale_optimizer import LossScaleOptimizer
from keras_policies.policy import Policy
from keras_policies.version import __version__

for _module in _infer, _compile, _serialization:
    _module.install()

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleLogger",
    "LossScaleOptimizer",
    "Policy",
    "__version__",
    "global_policy",
    "policy_scope",
    "set_policy",
]
