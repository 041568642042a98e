"""The programs of `programs/` train as they did under the old releases.

Each run is compared with the newest old release that could run it
(`tests/data/write_ports.py`). A warning fails a test, so none of them gives a false
alarm. Two scripts cannot train as they did, and are warned.
"""

import pathlib

import keras
import programs
import pytest
from recorded_ports import assert_same_training, ran

HERE = pathlib.Path(__file__).parent
HERE_RUN = [
    name
    for name, port in sorted(programs.PORTS.items())
    if keras.backend.backend() in port.backends
]
AGREE = [name for name in HERE_RUN if not programs.PORTS[name].warning]
WARNED = [name for name in HERE_RUN if programs.PORTS[name].warning]


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
