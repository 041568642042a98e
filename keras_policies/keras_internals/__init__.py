"""The one place that touches private Keras: seams, and small accessors.

A seam makes Keras call a hook; an accessor reads what has no public name. Each names
the Keras file that it leans on. Nothing here imports other rooms of the package.

`places` comes first: it checks everything that the other modules lean on.
"""

from keras_policies.keras_internals import places
from keras_policies.keras_internals.building import build_for, first_dtype, flatten
from keras_policies.keras_internals.creation import after_layer_init
from keras_policies.keras_internals.kept_names import keeps_its_name
from keras_policies.keras_internals.layers import (
    enclosing_layers,
    no_automatic_dependency_tracking,
    own_attributes,
    own_variables,
    parts,
    parts_never_called,
    sublayers,
)
from keras_policies.keras_internals.operations import (
    calls_before,
    is_functional,
    keeps_first_axis,
    maker_of,
    op_calls,
    record_call,
    recorded_calls,
)
from keras_policies.keras_internals.optimizers import (
    create_instead,
    shared_variables,
    step_count,
    update_instead,
    updated_variables,
)
from keras_policies.keras_internals.places import UnsupportedKerasError
from keras_policies.keras_internals.policies import (
    held_policy,
    own_policy,
    set_own_policy,
)
from keras_policies.keras_internals.saving import (
    after_deepcopy,
    around_load_from_hdf5,
    before_model_from_config,
    custom_object_scope,
    is_saving_weights_only,
    keep_policies_in_memory,
    mark_saving_of_weights,
    read_policy_class,
    read_quantized_name,
    read_unnamed_policy,
    save_class_as,
)
from keras_policies.keras_internals.seams import (
    after_bidirectional_init,
    before_layer_call,
    before_sequential_build,
    before_weight,
)
from keras_policies.keras_internals.slots import nadam_product, slot, slot_names
from keras_policies.keras_internals.trainers import (
    around_compile,
    before_training,
    build_for_batch,
    is_compiled_by_a_file,
    record_no_auto_scale_loss,
)
from keras_policies.keras_internals.variables import blank_variables, raw_value

__all__ = [
    "UnsupportedKerasError",
    "after_bidirectional_init",
    "after_deepcopy",
    "after_layer_init",
    "around_compile",
    "around_load_from_hdf5",
    "before_layer_call",
    "before_model_from_config",
    "before_sequential_build",
    "before_training",
    "before_weight",
    "blank_variables",
    "build_for",
    "build_for_batch",
    "calls_before",
    "create_instead",
    "custom_object_scope",
    "enclosing_layers",
    "first_dtype",
    "flatten",
    "held_policy",
    "is_compiled_by_a_file",
    "is_functional",
    "is_saving_weights_only",
    "keep_policies_in_memory",
    "keeps_first_axis",
    "keeps_its_name",
    "maker_of",
    "mark_saving_of_weights",
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
    "read_quantized_name",
    "read_unnamed_policy",
    "record_call",
    "record_no_auto_scale_loss",
    "recorded_calls",
    "save_class_as",
    "set_own_policy",
    "shared_variables",
    "slot",
    "slot_names",
    "step_count",
    "sublayers",
    "update_instead",
    "updated_variables",
]
