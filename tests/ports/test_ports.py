"""The programs of `programs/` train as they did under the old releases.

Each run is compared with the newest old release that could run it
(`tests/data/write_ports.py`). A warning fails a test, so none of them gives a false
alarm. Two scripts cannot train as they did, and are warned.
"""

import json
import pathlib

import keras
import numpy as np
import programs
import pytest

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE.parent / "data" / "ports.json").read_text())
RELEASES = ["2.0", "2.2", "2.3", "2.4"]
# float16 rounds to 5e-4, and a sum in float16 depends on the order of its terms. The
# old releases differ from each other by up to 1.3e-3 in a loss, and in a weight by up
# to 0.9 % of the largest change in the run; we differ from them by 9e-4 and 0.8 %. One
# step less changes a weight by 14 % or more.
LOSS_TOLERANCE = 2e-3  # relative to the loss, or to 1 if the loss is smaller
WEIGHT_TOLERANCE = 0.02  # relative to the largest change of a recorded weight
# Before 2.4 a momentum that was set through the wrapper did nothing.
SINCE = {"nvidia_unet_warmup": "2.4"}
HERE_RUN = [
    name
    for name, port in sorted(programs.PORTS.items())
    if keras.backend.backend() in port.backends
]
AGREE = [name for name in HERE_RUN if not programs.PORTS[name].warning]
WARNED = [name for name in HERE_RUN if programs.PORTS[name].warning]


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


@pytest.mark.parametrize("name", AGREE)
def test_a_port_has_the_losses_scales_and_weights_of_the_old_release(name):
    assert_same_training(programs.run(name), ran(name)[-1])


@pytest.mark.parametrize("name", WARNED)
def test_a_port_that_cannot_train_as_it_did_is_warned_at_its_own_line(name):
    match = f"(?s){programs.PORTS[name].warning}"
    with pytest.warns(UserWarning, match=match) as caught:
        found = programs.run(name)
    program = HERE / "programs" / f"{programs.PORTS[name].program}.py"
    assert [warning.filename for warning in caught] == [str(program)]
    with pytest.raises(AssertionError):
        assert_same_training(found, ran(name)[-1])


@pytest.mark.parametrize("name", sorted(programs.PORTS))
def test_the_old_releases_agree_on_a_program(name):
    *earlier, newest = ran(name)
    for record in earlier:
        assert_same_training(record, newest)


def test_the_scale_of_segmentation_grows_skips_and_is_halved():
    scales = [64, 128, 128, 256, 128, 128, 256, 256]
    assert flat(ran("segmentation")[-1]["scales"]) == scales


def test_there_are_seventeen_programs_and_all_are_recorded():
    assert len({port.program for port in programs.PORTS.values()}) == 17
    assert set(RECORDED) == set(programs.PORTS)
