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
import keras.src.models, keras.src.legacy.saving.serialization
import keras_attributes

before = keras_attributes.every()
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
print(json.dumps([changed, sorted(expected)]))
"""


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
    changed, expected = json.loads(done.stdout.splitlines()[-1])
    return set(changed), set(expected)


def test_the_import_changes_what_the_table_lists_and_nothing_else(census):
    changed, expected = census
    assert changed - expected == set()
    assert expected - changed == set()


def test_there_are_at_most_twenty_rows():
    rows = keras_internals.patches()
    assert len(rows) <= 20
    assert {row.place for row in rows} == set(keras_internals.TABLE)
    assert all(all(row) for row in rows)


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
