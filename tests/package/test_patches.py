"""What the import changes in Keras is what the table says."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import keras_attributes
import pytest

import keras_policies as mp
from keras_policies import keras_internals

# Prints the attributes of Keras's modules and classes that the import changes.
CENSUS = """
import json, warnings
warnings.simplefilter("ignore")
import keras
import keras.models, keras.saving  # Keras 3.8 makes modules of them
import keras.src.models, keras.src.legacy.saving.serialization
import keras_attributes

before, names = keras_attributes.every(), keras_attributes.names_in_tables()
import keras_policies
from keras_policies import keras_internals
changed = keras_attributes.changed(before)
expected = set()
for patch in keras_internals.patches():
    holders, attribute = keras_internals.owners(patch.place)
    for owner in holders:
        if isinstance(owner, type):
            expected.add(f"{owner.__module__}.{owner.__qualname__}.{attribute}")
        else:
            expected.add(f"{owner.__name__}.{attribute}")
learned = {
    table: sorted(now - names[table])
    for table, now in keras_attributes.names_in_tables().items()
    if table in names and now != names[table]
}
print(json.dumps([changed, sorted(expected), learned]))
"""
OPTIMIZERS = "LossScaleOptimizerV1", "LossScaleOptimizerV3"
# Table of Keras -> the names that it learns.
LEARNED = {
    "keras.src.api_export.REGISTERED_NAMES_TO_OBJS": [
        "keras.dtype_policies.Policy",
        "keras.dtype_policies.PolicyV1",
        "keras.mixed_precision.Policy",
        "keras.mixed_precision.PolicyV1",
        *(f"keras.optimizers.{name}" for name in OPTIMIZERS),
    ],
    "keras.src.api_export.REGISTERED_OBJS_TO_NAMES": [
        "keras_policies.experimental.LossScaleOptimizer",
        "keras_policies.loss_scaling.compile.LegacyLossScaleOptimizer",
        "keras_policies.loss_scaling.optimizer.LossScaleOptimizer",
        "keras_policies.policies.policy.Policy",
        "keras_policies.policies.serialization.Policy21",
        "keras_policies.policies.serialization.PolicyV1",
    ],
    "keras.src.dtype_policies.ALL_OBJECTS_DICT": ["Policy", "PolicyV1"],
    "keras.src.optimizers.ALL_OBJECTS_DICT": [name.lower() for name in OPTIMIZERS],
    "keras.src.saving.object_registration.GLOBAL_CUSTOM_NAMES": [
        "keras_policies.policies.serialization.hard_sigmoid"
    ],
    "keras.src.saving.object_registration.GLOBAL_CUSTOM_OBJECTS": [
        "keras_policies>hard_sigmoid"
    ],
}


@pytest.fixture(scope="module")
def census():
    paths = [os.path.dirname(keras_attributes.__file__), os.environ.get("PYTHONPATH")]
    done = subprocess.run(
        [sys.executable, "-c", CENSUS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    changed, expected, learned = json.loads(done.stdout.splitlines()[-1])
    return set(changed), set(expected), learned


def test_the_import_changes_what_the_table_lists_and_nothing_else(census):
    changed, expected, _ = census
    assert changed - expected == set()
    assert expected - changed == set()


def test_keras_learns_no_other_names(census):
    *_, learned = census
    assert learned == LEARNED


def test_there_are_at_most_twenty_rows():
    rows = keras_internals.patches()
    assert len(rows) <= 20
    assert {row.place for row in rows} == set(keras_internals.TABLE)
    assert all(all(row) for row in rows)


def test_private_places_are_looked_for_before_they_are_replaced():
    listed = {
        str(place)
        for places in keras_internals.PRIVATE_API.values()
        for place in places
    }
    private = [place for place in keras_internals.TABLE if ".src." in place]
    assert len(private) == 5
    assert {*private} <= listed


def test_the_page_has_the_rows_of_the_table():
    page = (pathlib.Path(__file__).parents[2] / "docs/patches.md").read_text("utf8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{row.place}` | {row.what} | {row.why} | {row.since} |"
        for row in mp.patches()
    ]


def test_an_error_of_stock_keras_keeps_its_class_and_message():
    config = {"inner_optimizer": {"class_name": "No", "config": {}}, "dynamic": False}
    with pytest.raises(TypeError, match="Could not locate class 'No'") as caught:
        keras.optimizers.LossScaleOptimizer.from_config(config)
    (note,) = caught.value.__notes__
    assert note.startswith("keras_policies cannot read it either: ")
