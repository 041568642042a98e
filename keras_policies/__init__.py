"""Dtype policies with loss scales for Keras 3, and a reader of legacy models.

Once it is imported, Keras's own layers and `compile` obey its policies: see `patches`.
"""

import importlib as _importlib
import typing as _typing

from keras_policies._installed import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleLogger,
    LossScaleOptimizer,
    Policy,
    experimental,
    global_policy,
    policy_scope,
    set_global_policy,
    set_policy,
)
from keras_policies.version import __version__

if _typing.TYPE_CHECKING:
    from keras_policies._common.warnings import KerasPoliciesWarning
    from keras_policies.diagnostics.plots import plot_gradients, plot_loss_scale
    from keras_policies.diagnostics.summary import summary
    from keras_policies.keras_internals.patches import patches
    from keras_policies.legacy.base.errors import LegacyModelError
    from keras_policies.legacy.base.outcomes import LeftOut, Outcome, OutcomeWarning
    from keras_policies.legacy.conversion import Converted, convert_model
    from keras_policies.legacy.descriptions import LayerDescription, ModelDescription
    from keras_policies.legacy.inspection import inspect_model
    from keras_policies.legacy.loading import load_model, text_inputs
    from keras_policies.legacy.texts.inputs import TextInputs
    from keras_policies.legacy.weights_loading import load_weights
    from keras_policies.source.source import to_source

# Name -> its module, imported when first used: training needs no readers or tables.
_LATER = {
    "Converted": "legacy.conversion",
    "KerasPoliciesWarning": "_common.warnings",
    "LayerDescription": "legacy.descriptions",
    "LeftOut": "legacy.base.outcomes",
    "LegacyModelError": "legacy.base.errors",
    "ModelDescription": "legacy.descriptions",
    "Outcome": "legacy.base.outcomes",
    "OutcomeWarning": "legacy.base.outcomes",
    "TextInputs": "legacy.texts.inputs",
    "convert_model": "legacy.conversion",
    "inspect_model": "legacy.inspection",
    "load_model": "legacy.loading",
    "load_weights": "legacy.weights_loading",
    "patches": "keras_internals.patches",
    "plot_gradients": "diagnostics.plots",
    "plot_loss_scale": "diagnostics.plots",
    "summary": "diagnostics.summary",
    "text_inputs": "legacy.loading",
    "to_source": "source.source",
}

# Names of tf.keras -> what replaces them.
_FORMER = {
    "enable_mixed_precision_graph_rewrite": 'set_policy("mixed_float16")',
    "get_layer_policy": "layer.dtype_policy",
}

__all__ = [
    "Converted",
    "DynamicLossScale",
    "FixedLossScale",
    "KerasPoliciesWarning",
    "LayerDescription",
    "LeftOut",
    "LegacyModelError",
    "LossScale",
    "LossScaleLogger",
    "LossScaleOptimizer",
    "ModelDescription",
    "Outcome",
    "OutcomeWarning",
    "Policy",
    "TextInputs",
    "__version__",
    "convert_model",
    "experimental",
    "global_policy",
    "inspect_model",
    "load_model",
    "load_weights",
    "patches",
    "plot_gradients",
    "plot_loss_scale",
    "policy_scope",
    "set_global_policy",
    "set_policy",
    "summary",
    "text_inputs",
    "to_source",
]


def __dir__() -> list[str]:
    # Includes the names that are imported later; omits the modules imported here.
    return sorted(__all__)


def __getattr__(name: str) -> _typing.Any:
    if name in _FORMER:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}. In this package, "
            f"tf.keras's {name} is {_FORMER[name]}. docs/porting-reference.md lists "
            "every old name."
        )
    if name in _LATER:
        module = _importlib.import_module(f"{__name__}.{_LATER[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
