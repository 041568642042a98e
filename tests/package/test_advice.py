"""Each advice in the errors about legacy files has a test that follows it."""

import ast
import pathlib
import re

import pytest

import keras_policies

ROOT = pathlib.Path(__file__).parents[1]
LEGACY = pathlib.Path(keras_policies.__file__).parent / "legacy"
pytestmark = pytest.mark.once("reads source code")
# What an advice begins with.
VERBS = (
    "Build|Call|Check|Choose|Convert|Copy|Create|Download|Give|Install|Leave|Load|Make"
    "|Open|Pass|Rename|Run|Save|Set|Unpack|Verify|Write"
)
ADVICE = re.compile(rf"(?:^|[.:;] |, or )(?:{VERBS}|pass|build) [a-z{{`'\"A-Z(]")
# How an advice begins -> how the name of the test begins that follows it.
FOLLOWED = {
    "\n{} writes numbers as texts": "lost_classes_are_named_and_written_again",
    " The function that the model served opens": "an_argument_that_is_advised_opens",
    "Build the model in code, and assign": "weights_that_are_also_elsewhere",
    "Build the model in code, and call load_weights": "a_layer_for_two_ranks_is_called",
    "Build the model in code, and call {}": "weights_alone_are_loaded_into_a_model",
    "Build the model in code, and pass load_weights": "frozen_says_which_order",
    "Build the model in code, with that padded": "a_ragged_constant_is_padded_in_code",
    "Build the model in code, with the attributes": "a_model_whose_table_is_lost_is",
    "Build the model with the layers, names": "weights_that_do_not_fit_are_skipped",
    "Call it on a batch, or model.build": "a_model_without_weights_is_called",
    "Call keras_policies.load_weights for those": "weights_for_another_file_are",
    "Check the address and your access": "what_a_host_refuses_is_asked_for_otherwise",
    "Choose another name.": "a_file_is_written_under_another_name",
    "Choose another name, or pass": "a_file_that_exists_is_replaced",
    "Choose one of them, or leave the signature": "an_argument_that_is_advised_opens",
    "Copy": "a_broken_part_is_copied_again",
    "Create it first": "a_file_is_written_under_another_name",
    "Create it with the num_oov_indices": "a_look_up_made_in_code_is_created_as",
    "Download it yourself": "what_a_host_refuses_is_asked_for_otherwise",
    "Give {}.__init__ **kwargs": "a_class_takes_the_arguments_of_its_layer",
    "Give {}.__init__ {}": "a_class_is_given_the_arguments_that_are_advised",
    "Install TensorFlow": "a_layer_that_needs_tensorflow_opens",
    "Leave by_name out": "layers_are_loaded_by_their_names_as_advised",
    "Leave the signature out": "an_argument_that_is_advised_opens",
    "Leave {} out, and set KERAS_BACKEND": "a_function_of_the_user_that_standardizes",
    "Load it without {}": "a_model_of_keras_3_is_opened_without_a_policy",
    "Open it with keras.models.load_model": "a_model_of_keras_3_is_opened_without",
    "Open it with keras.models.model_from_json": "an_architecture_of_keras_3_is_open",
    "Open it with mode": "what_is_no_path_is_passed_as_one",
    "Pass a class of your own": "a_class_that_shares_the_name_of_one_of_keras",
    "Pass a path, an address": "what_is_no_path_is_passed_as_one",
    "Pass a signature that takes numbers": "what_else_reads_the_texts_of_a_sequential",
    "Pass io.BytesIO": "what_is_no_path_is_passed_as_one",
    "Pass it as a str": "what_a_host_refuses_is_asked_for_otherwise",
    "Pass its .file": "what_is_no_path_is_passed_as_one",
    "Pass its classes": "a_model_unlike_its_graph_opens_unverified",
    "Pass its regularizer": "a_regularizer_is_passed_under_the_name",
    "Pass its shape": "an_argument_that_is_advised_opens",
    "Pass os.fsdecode": "what_is_no_path_is_passed_as_one",
    "Pass skip_mismatch=True": "a_layer_that_the_model_does_not_have_is_named",
    "Pass the address of the file": "the_address_of_an_archive_is_passed_by_itself",
    "Pass the file with its weights": "an_architecture_takes_its_weights",
    "Pass the folder": "a_part_of_a_model_is_exchanged_for_the_whole",
    "Pass the model that it was converted": "a_model_is_passed_in_place_of_what",
    "Pass the one you mean, as root": "of_two_equal_models_the_root_tells_which",
    "Pass the path of a checkpoint": "a_checkpoint_is_named_without_its_ending",
    "Pass the path of one; convert": "one_of_several_models_in_a_folder_is_passed",
    "Pass them: {}": "a_missing_class_is_passed_under_the_name_in_the_error",
    "Pass {} for the numbers": "an_argument_that_is_advised_opens",
    "Pass {} for what it does": "functions_unlike_the_signature_open_as_either",
    "Pass {} if the model is not for": "a_backend_that_computes_otherwise",
    "Pass {} to open another function": "a_signature_of_the_tensors_after_the_parser",
    "Pass {}.": "names_that_trusted_code_uses_are_passed",
    "Run git lfs pull": "a_broken_part_is_copied_again",
    "Run pip install fsspec": "what_needs_another_package_is_downloaded",
    "Run pip install huggingface_hub": "what_needs_another_package_is_downloaded",
    "Run pip install pyyaml": "an_architecture_in_yaml_is_written_as_json",
    "Unpack it (tar -xf": "several_streams_of_xz_are_unpacked_by_hand",
    "Unpack it under another name": "an_archive_is_unpacked_by_hand",
    "Unpack it with `h5repack": "weights_with_other_filters_are_unpacked",
    "Unpack it with its password": "an_encrypted_archive_is_unpacked",
    "Unpack it, and pass the path": "an_archive_is_unpacked_by_hand",
    "Verify it there": "recorded_texts_are_compared_outside_as_advised",
    "Write the classes of these layers": "lost_classes_are_named_and_written_again",
    "Write the model as JSON": "an_architecture_in_yaml_is_written_as_json",
    "all weights are new": "an_architecture_takes_its_weights",
    "the model takes a dict": "a_dict_of_texts_and_numbers_becomes_a_dict",
    "the model, or pass {}": "inputs_that_are_texts_are_read_outside_as_advised",
    "{}; pass texts as np.array": "recordings_are_written_as_advised",
}
# Advice that no test follows -> why.
OTHERS = {
    "Call the model on a batch in tf.keras": "needs an old TensorFlow",
    "Create the model with your code, and restore": "is about a program with Orbax",
    "Keras 3.10 to 3.13 refuse inputs": "is about another Keras",
    "Load it in TensorFlow 1": "needs an old TensorFlow",
    "Open it again when no other program": "is about the same file a moment later",
    "Open it with the release that wrote it": "needs an old TensorFlow",
    "Pass it: {}": "no file is known that other checks do not refuse before",
    "Save the model as a SavedModel in tf.keras": "needs an old TensorFlow",
    "the largest number determines the size": "is about the code of a model",
    "the layer {}: its activation is a layer": "is about another Keras",
    "the model predicts as recorded, but the losses": "no file is known",
}


def advice():
    """Return `{text: place}` of each advice, `{}` for what is filled in."""
    found = {}
    for path in sorted(LEGACY.rglob("*.py")):
        if path.name == "codes.py":  # the remedies of `explain`, of many errors each
            continue
        tree = ast.parse(path.read_text("utf8"))
        bodies = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes = [node for node in ast.walk(tree) if isinstance(node, bodies)]
        left_out = {
            id(node.body[0].value) for node in nodes if hasattr(node.body[0], "value")
        }
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        left_out |= {id(part) for text in texts for part in text.values}
        texts += [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        for node in texts:
            text = written(node)
            if id(node) not in left_out and ADVICE.search(text):
                found[text] = f"{path.relative_to(LEGACY)}:{node.lineno}"
    return found


def written(node):
    """Return a text as it is written, with `{}` for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(written(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "{}"


def rows(text):
    """Return the longest beginnings in the tables that a text has."""
    fitting = [row for row in (*FOLLOWED, *OTHERS) if text.startswith(row)]
    return sorted(fitting, key=len)[-1:]


def test_each_advice_has_a_row():
    missing = {text: place for text, place in advice().items() if not rows(text)}
    assert missing == {}


def test_each_row_is_about_an_advice():
    used = {row for text in advice() for row in rows(text)}
    assert {*FOLLOWED, *OTHERS} - used == set()


def test_each_test_that_follows_an_advice_exists():
    code = "\n".join(path.read_text("utf8") for path in ROOT.glob("*/test_*.py"))
    missing = [name for name in FOLLOWED.values() if f"def test_{name}" not in code]
    assert missing == []
