"""The one place that touches private Keras: seams, and small accessors.

A seam makes Keras call a hook; an accessor reads what has no public name. `places`
comes first: it checks everything that the other modules lean on. The names imported
here are the room's public ones. Nothing here imports other rooms of the package.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from keras_policies.keras_internals import faults, places
from keras_policies.keras_internals.layers import (
    enclosing_layers,
    held_policy,
    keeps_its_name,
    own_attributes,
    own_policy,
    own_variables,
    parts,
    parts_never_called,
    set_own_policy,
    sublayers,
)
from keras_policies.keras_internals.operations import (
    LayerCall,
    calls_before,
    checking_shapes,
    inputs_of,
    is_functional,
    maker_of,
    mask_of,
    op_calls,
    output_shape,
    set_mask,
    shapes_in,
)
from keras_policies.keras_internals.optimizers import (
    create_instead,
    nadam_product,
    read_class_as,
    shared_variables,
    slot_names,
    slots,
    step_count,
    update_instead,
    updated_variables,
)
from keras_policies.keras_internals.places import (
    INFER,
    LOSS_SCALING,
    READING,
    SAVING,
    UnsupportedKerasError,
    installs,
    needs,
)
from keras_policies.keras_internals.saving import (
    after_deepcopy,
    around_load_from_hdf5,
    before_model_from_config,
    custom_object_scope,
    explain_refused,
    importing_no_tensorflow,
    is_saving_weights_only,
    keep_names_in_maps,
    keep_policies_in_memory,
    read_policy_class,
    read_quantized_name,
    read_unnamed_policy,
    save_class_as,
)
from keras_policies.keras_internals.seams import (
    after_layer_init,
    before_layer_call,
    before_sequential_build,
    before_weight,
    build_for,
    first_dtype,
    layer_calls,
    texts_as_inputs,
)
from keras_policies.keras_internals.trainers import (
    after_additional_loss,
    around_compile,
    before_training,
    is_compiled_by_a_file,
    record_no_auto_scale_loss,
)
from keras_policies.keras_internals.variables import blank_variables, raw_value
