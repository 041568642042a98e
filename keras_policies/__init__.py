"""Dtype policies with loss scales for Keras 3, and a reader of legacy models.

Importing the package makes stock Keras obey its policies: see `Policy`.
"""

import importlib as _importlib
import typing as _typing

from keras_policies import backend_missing as _first  # noqa: F401
from keras_policies import compile as _compile
from keras_policies import experimental
from keras_policies import infer as _infer
from keras_policies import loss_scale_optimizer as _loss_scale_optimizer
from keras_policies import origins as _origins
from keras_policies import serialization as _serialization
from keras_policies.callbacks import LossScaleLogger
from keras_policies.global_policy import global_policy, policy_scope, set_policy
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from keras_policies.loss_scale_optimizer import LossScaleOptimizer
from keras_policies.policy import Policy
from keras_policies.version import __version__

if _typing.TYPE_CHECKING:
    from keras_policies.legacy.base.errors import LegacyModelError
    from keras_policies.legacy.conversion import convert_model
    from keras_policies.legacy.inspection import inspect_model
    from keras_policies.legacy.loading import load_model, load_weights
    from keras_policies.plots import plot_gradients, plot_loss_scale
    from keras_policies.summaries import summary

set_global_policy = set_policy  # its name in TF 2.4

# Imported when first used: training needs neither readers nor tables.
_LATER = {
    "LegacyModelError": "legacy.base.errors",
    "convert_model": "legacy.conversion",
    "inspect_model": "legacy.inspection",
    "load_model": "legacy.loading",
    "load_weights": "legacy.loading",
    "plot_gradients": "plots",
    "plot_loss_scale": "plots",
    "summary": "summaries",
}

# Names of tf.keras -> what replaces them.
_FORMER = {
    "enable_mixed_precision_graph_rewrite": 'set_policy("mixed_float16")',
    "get_layer_policy": "layer.dtype_policy",
}

for _module in _infer, _compile, _serialization, _origins, _loss_scale_optimizer:
    _module.install()

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LegacyModelError",
    "LossScale",
    "LossScaleLogger",
    "LossScaleOptimizer",
    "Policy",
    "__version__",
    "convert_model",
    "experimental",
    "global_policy",
    "inspect_model",
    "load_model",
    "load_weights",
    "plot_gradients",
    "plot_loss_scale",
    "policy_scope",
    "set_global_policy",
    "set_policy",
    "summary",
]


def __dir__() -> list[str]:
    # Includes the names that are imported later; omits the modules imported here.
    return sorted(__all__)


def __getattr__(name: str) -> _typing.Any:
    if name in _FORMER:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}. What tf.keras called "
            f"{name} is {_FORMER[name]} here. Every old name is in PORTING.md."
        )
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"keras_policies.{_LATER[name]}")
    return getattr(module, name)
