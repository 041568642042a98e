"""What the import changes in Keras is what the table says."""

import json
import pathlib
import subprocess
import sys

import keras
import pytest

import keras_policies as mp
from keras_policies import keras_internals

# Prints the attributes of Keras's modules and classes that the import changes. Patches
# of the reader of legacy files are those of `READER`.
CENSUS = """
import importlib, json, pkgutil, sys, types, warnings
warnings.simplefilter("ignore")
import keras
import keras.src.models, keras.src.legacy.saving.serialization

def attributes():
    found = {}
    for name, module in list(sys.modules.items()):
        if name != "keras" and not name.startswith("keras."):
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and value.__module__.startswith("keras."):
                owner = f"{value.__module__}.{value.__qualname__}"
                found.update({(owner, k): v for k, v in list(vars(value).items())})
    return found

before = attributes()
modules = set(sys.modules)
import keras_policies
from keras_policies import keras_internals
IGNORED = "__builtins__", "_abc_impl", "__doc__"
changed = [
    key for key, value in attributes().items()
    if before.get(key, None) is not value
    and key[0] in {owner for owner, _ in before} and key[1] not in IGNORED
    and not isinstance(value, types.ModuleType)  # imported later
]
expected = set()
for patch in keras_internals.patches():
    holders, attribute = keras_internals.owners(patch.place)
    for owner in holders:
        if isinstance(owner, type):
            expected.add((f"{owner.__module__}.{owner.__qualname__}", attribute))
        else:
            expected.add((owner.__name__, attribute))
print(json.dumps([sorted(map(".".join, changed)), sorted(map(".".join, expected))]))
"""
# In place for the reader of legacy files; they move into contexts of their own.
READER = {
    "keras.src.backend.common.keras_tensor.KerasTensor.__init__",
    "keras.src.backend.common.variables.Variable.__init__",
    "keras.src.layers.rnn.rnn.RNN.get_initial_state",
    "keras.src.models.functional.deserialize_node",
}


@pytest.fixture(scope="module")
def census():
    done = subprocess.run(
        [sys.executable, "-c", CENSUS], capture_output=True, text=True, check=True
    )
    changed, expected = json.loads(done.stdout.splitlines()[-1])
    return set(changed), set(expected)


def test_the_import_changes_what_the_table_lists_and_nothing_else(census):
    changed, expected = census
    assert changed - expected - READER == set()
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
