"""The one place that touches private Keras: seams, and small accessors.

`places` comes first: it looks at everything that the others lean on.

Each function names the Keras file that it leans on, and imports nothing of ours: a
seam takes a hook.
"""

from keras_policies.keras_internals import places
from keras_policies.keras_internals.creation import (
    after_layer_init,
    build_for_batch,
    held_policy,
    maker_of,
    op_calls,
    parts,
)
from keras_policies.keras_internals.kept_names import keeps_its_name
from keras_policies.keras_internals.layers import (
    build_for,
    calls_before,
    enclosing_layers,
    first_dtype,
    flatten,
    is_functional,
    no_automatic_dependency_tracking,
    own_attributes,
    own_policy,
    own_variables,
    parts_never_called,
    set_own_policy,
    sublayers,
)
from keras_policies.keras_internals.optimizers import (
    shared_variables,
    step_count,
    updated_variables,
)
from keras_policies.keras_internals.places import UnsupportedKerasError
from keras_policies.keras_internals.saving import (
    around_load_from_hdf5,
    before_model_from_config,
    custom_object_scope,
    read_policy_class,
    read_unnamed_policy,
    save_class_as,
)
from keras_policies.keras_internals.seams import (
    after_bidirectional_init,
    around_compile,
    before_layer_call,
    before_sequential_build,
    before_weight,
    record_no_auto_scale_loss,
)
from keras_policies.keras_internals.variables import (
    blank_variables,
    nadam_product,
    raw_value,
    slot,
)

__all__ = [
    "UnsupportedKerasError",
    "after_bidirectional_init",
    "after_layer_init",
    "around_compile",
    "around_load_from_hdf5",
    "before_layer_call",
    "before_model_from_config",
    "before_sequential_build",
    "before_weight",
    "blank_variables",
    "build_for",
    "build_for_batch",
    "calls_before",
    "custom_object_scope",
    "enclosing_layers",
    "first_dtype",
    "flatten",
    "held_policy",
    "is_functional",
    "keeps_its_name",
    "maker_of",
    "nadam_product",
    "no_automatic_dependency_tracking",
    "op_calls",
    "own_attributes",
    "own_policy",
    "own_variables",
    "parts",
    "parts_never_called",
    "places",
    "raw_value",
    "read_policy_class",
    "read_unnamed_policy",
    "record_no_auto_scale_loss",
    "save_class_as",
    "set_own_policy",
    "shared_variables",
    "slot",
    "step_count",
    "sublayers",
    "updated_variables",
]
