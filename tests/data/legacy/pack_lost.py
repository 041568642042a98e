"""Packs what write_lost.py and write_exported.py wrote, for the tests.

    python pack_lost.py OUTDIR [TABLE]

The archive of a release is `lost/<release>.tar.xz`; of the older releases it holds the
cases in `TAKEN`. `OUTDIR/2.4.4/stale_metadata/` is made here: the case `scale`, beside
the `keras_metadata.pb` of another model, as a folder has that was saved to twice.

With a TABLE, `idioms`, `examples`, `faults`, `loops`, `bends`, `training` or `gradients`, the archive
is `lost/<release>-<TABLE>.tar.xz`, and holds the cases in `TAKEN` under this name; OUTDIR
has the cases of that table alone.
"""

import pathlib
import shutil
import sys

from pack import by_kind, pack

FOLDER = pathlib.Path(__file__).parent / "lost"
TAKEN = {
    "2.0.0": """
affine any_length bare_variable clip_constraint compiled_adam condition conv_inside
dense_inside-mixed_float16 einsum force gru_inside image_spectrum in_nested in_sequential
lambda_distance lambda_normalize lambda_one_hot lambda_scale mapped_steps masked nested
own_activation own_attention own_conv2d own_lookup positions quantized sampling scale
scanned_steps sequential_inside shared_two_shapes slope subclassed subclassed_blocks
subclassed_dict subclassed_functionals subclassed_list subclassed_nested switch_case
unrolled_loop where_gather_one_hot while_loop
""",
    "2.9.3": """
affine_with_config any_length attention_inside attention_pool clip_constraint
compiled_adam condition conv_inside dense_inside-mixed_float16 einsum encoder fused_norm
gated in_nested in_sequential lambda_distance lambda_resize lambda_scale lstm_inside
masked moving_mean nested own_activation own_cell own_conv2d_transpose own_depthwise
positions prints_and_assertions sampling scale-mixed_bfloat16 shared
shared_inside_two_shapes subclassed subclassed_blocks subclassed_dict
subclassed_functionals subclassed_list subclassed_nested tied while_loop
""",
    "2.0.0-idioms": """
anchors causal_by_range_any graph_mean lambda_cast_of_half lambda_squeeze_of_constants
lambda_stack_of_filled layer_linspace_of_constants multi_gpu_model pyramid_any
tensordot_two_any
""",
    "2.0.0-loops": "capsules mapped_two_inputs",
    "2.4.4-loops": "capsules mapped_any_length mapped_dtypes mapped_layer running_sums",
    "2.9.3-loops": "capsules_by_scan mapped_in_reverse mapped_ranks mapped_shapes",
    "2.4.4-examples": """
batch_from_heads_any beam_search chunks_any derivatives dilated_computed_kernels_any
lengths_that_meet_any mask_emitted mask_handed_on name_of_the_layer_inside
namesakes_and_masks tied_in_lost_layer tied_logits tied_logits-mixed_float16 yolo_head
""",
    "2.4.4-faults": """
decoder_mask_square keywords_and_a_number mask_read_from_a_tensor monte_carlo
own_layer_normalization own_orthogonal_kernel own_rms_normalization_inside padding_mask
sequential_of_numbers siamese_of_keywords unsorted_outputs
""",
    "2.4.4-idioms": """
alibi_bias_any causal_by_gpt2_any causal_by_range chosen_by_index constant_columns_any
four_parts graph_attention graph_max lambda_gather_by_batch lambda_join_of_constants
layer_resized_to_other layer_segments_by_shape layer_stack_of_filled scatter_into_shape
t5_bias_any tensordot_outer yolo_grid_any
""",
}


def mix(outdir):
    """Write the folder that two saves wrote."""
    source, folder = outdir / "2.4.4" / "scale", outdir / "2.4.4" / "stale_metadata"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    stale = outdir / "2.9.3" / "dense_inside" / "model" / "keras_metadata.pb"
    shutil.copy(stale, folder / "model")


def main(outdir, table=None):
    outdir = pathlib.Path(outdir)
    if table is None:
        mix(outdir)
    FOLDER.mkdir(exist_ok=True)
    for release in sorted(path for path in outdir.iterdir() if path.is_dir()):
        name = f"{release.name}-{table}" if table else release.name
        taken = TAKEN.get(name, "").split()
        cases = [release / case for case in taken] or release.iterdir()
        found = [path for case in cases for path in case.rglob("*") if path.is_file()]
        pack(FOLDER / f"{name}.tar.xz", sorted(found, key=by_kind), outdir)


if __name__ == "__main__":
    main(*sys.argv[1:])
