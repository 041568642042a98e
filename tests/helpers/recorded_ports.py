"""What the programs of tests/ports gave under the old releases: write_ports.py."""

import json
import pathlib

import numpy as np

DATA = pathlib.Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "ports.json").read_text("utf8"))
RELEASES = ["2.0", "2.2", "2.3", "2.4"]
# float16 rounds to 5e-4, and a sum in float16 depends on the order of its terms. The
# old releases differ from each other by up to 1.3e-3 in a loss, and in a weight by up
# to 0.9 % of the largest change in the run; we differ from them by 9e-4 and 0.8 %. One
# step less changes a weight by 14 % or more.
LOSS_TOLERANCE = 2e-3  # relative to the loss, or to 1 if the loss is smaller
WEIGHT_TOLERANCE = 0.02  # relative to the largest change of a recorded weight
# Before 2.4 a momentum that was set through the wrapper did nothing.
SINCE = {"nvidia_unet_warmup": "2.4"}


def ran(name):
    """Return the records of the releases that could run it, the newest last."""
    releases = RELEASES[RELEASES.index(SINCE.get(name, RELEASES[0])) :]
    records = [RECORDED[name][release] for release in releases]
    return [record for record in records if "error" not in record]


def flat(numbers):
    if isinstance(numbers, list):
        return [value for each in numbers for value in flat(each)]
    return [np.nan if numbers is None else numbers]


def assert_same_training(found, expected):
    assert found["scales"] == expected["scales"]
    losses, truth = np.array(flat(found["losses"])), np.array(flat(expected["losses"]))
    np.testing.assert_array_equal(np.isnan(losses), np.isnan(truth))
    size = np.maximum(1.0, np.nan_to_num(np.abs(truth)))
    assert np.nanmax(np.abs(losses - truth) / size) < LOSS_TOLERANCE
    start = np.array(flat(expected["start"]))
    np.testing.assert_allclose(flat(found["start"]), start, rtol=1e-3)
    weights = np.array(flat(expected["weights"]))
    change = np.abs(weights - start).max()
    assert np.abs(flat(found["weights"]) - weights).max() < WEIGHT_TOLERANCE * change
