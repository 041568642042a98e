"""A model of every layer class of tf.keras 2.0, 2.4, 2.10 and 2.15 opens, or is known.

The archives were made by write_layers.py and pack_layers.py; `layer_results.py` does
the same with all that write_layers.py writes, for the table in docs/tested-files.md.
"""

import pathlib
import re

import legacy_files
import legacy_layers
import pytest

ARCHIVES = sorted(
    (pathlib.Path(__file__).parents[1] / "data/legacy/layers").glob("*.xz")
)


def artifacts():
    """Return `release/case/form` of what is opened on this backend."""
    found = [name for path in ARCHIVES for name in legacy_files.names(path)]
    newest = [name for name in found if name.startswith(legacy_files.NEWEST)]
    return found if legacy_files.IS_THOROUGH else legacy_files.on_this_backend(newest)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("layers"), ARCHIVES)


@pytest.mark.parametrize("name", legacy_files.by_release(artifacts()))
# Of jax without x64, of what is left out, and of what layers say of their settings.
@pytest.mark.filterwarnings("ignore")
def test_every_layer_class_predicts_what_was_recorded(name, folder):
    known = legacy_layers.expectation(name)
    found = legacy_layers.outcome(folder / name)
    assert re.match(known.outcome if known else "ok$", found), found


@pytest.mark.skipif(not legacy_files.IS_THOROUGH, reason="torch opens all releases")
def test_each_known_exception_is_one_of_some_class():
    names = artifacts()
    for known in legacy_layers.KNOWN:
        pattern = known.names.replace("keras$", "")  # another form may have been taken
        assert any(re.search(pattern, name) for name in names), known.names
