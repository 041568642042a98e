"""Each private name is taken away in turn: what needs it fails, the rest works."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import pytest

from keras_policies.keras_internals import private_api

# The process forks for each name, which takes a tenth of the time on jax.
pytestmark = [
    pytest.mark.once("the names are those of Keras", backend="jax"),
    pytest.mark.posix("it forks"),
]

SCRIPT = pathlib.Path(__file__).with_name("without_private_api.py")
ROOT = SCRIPT.parents[2]
LISTED = {
    str(place).removesuffix(".fget")
    for own in private_api.PRIVATE_API.values()
    for place in own
}
# What leans on another capability as well.
ALSO = {
    private_api.UNPICKLING: {private_api.LOSS_SCALING, private_api.SAVING},
    private_api.GRAPHS: {private_api.WEIGHTS},
    private_api.WEIGHTS: {private_api.GRAPHS},
    private_api.READING: {private_api.WEIGHTS},
}


@pytest.fixture(scope="module")
def outcomes():
    """Return `{place: {use: outcome}}`, each place in a process of its own."""
    done = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "PYTHONPATH": str(ROOT),
        },
    )
    return json.loads(done.stdout)


def test_every_place_is_taken_away(outcomes):
    assert outcomes.keys() == LISTED


def lost_without(name):
    """Return the capabilities that lean on a place."""
    return {
        capability
        for capability, own in private_api.PRIVATE_API.items()
        if name in {str(place).removesuffix(".fget") for place in own}
    }


@pytest.mark.parametrize("name", sorted(LISTED))
def test_without_a_place_only_what_leans_on_it_fails(name, outcomes):
    found = dict(outcomes[name])
    lost = lost_without(name)
    said = "UnsupportedKerasError: keras_policies cannot do this with Keras "
    imported = found.pop("import")
    if private_api.POLICIES in lost:
        assert imported.startswith(f"{said}{keras.__version__}: policies. Expected")
        assert name in imported
        assert imported.endswith("Still working: nothing.")
        return
    assert imported == "works"
    failed = {use for use, outcome in found.items() if outcome != "works"}
    assert failed == {use for use in found if lost & {use, *ALSO.get(use, ())}}, found
    for use in failed:
        assert found[use].startswith(f"{said}{keras.__version__}: ")
        assert name in found[use]
        assert "Keras 3.8 to 3.16 are known to work" in found[use]
        works = found[use].partition("Still working: ")[2]
        assert (
            works
            == ", ".join(n for n in private_api.PRIVATE_API if n not in lost) + "."
        )
