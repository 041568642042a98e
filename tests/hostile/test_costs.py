"""Files cost no more time and memory than their sizes explain.

Each is opened in a process of its own, and measured; see hostile_costs.py.
"""

import functools
import json
import re

import hostile
import hostile_costs
import hostile_folds
import hostile_sessions
import hostile_sizes
import hostile_worker
import pytest


@pytest.fixture(scope="module")
def server():
    started = hostile.Worker("numpy", hostile_costs.__file__)  # it starts soonest
    yield started
    started.close()


# A file is described without Keras.
INSPECTED = pytest.mark.once("no Keras", for_all_keras=True)
CASES = [
    pytest.param(
        action,
        make,
        match,
        id=f"{name}-{action}",
        marks=[
            *([INSPECTED] if action == "inspect" else []),
            pytest.mark.slow("236 processes", one_of=8),
            pytest.mark.posix("the server forks"),
        ],
    )
    for name, (actions, make, match) in {
        **hostile_sizes.COSTS,
        **hostile_folds.COSTS,
        **hostile_sessions.COSTS,
    }.items()
    for action in actions
]


@functools.lru_cache(maxsize=1)  # the actions on a file follow each other
def files_of(make):
    return make()


@pytest.mark.once("a process on numpy")
@pytest.mark.parametrize(("action", "make", "match"), CASES)
def test_a_file_costs_what_its_size_explains(server, tmp_path, action, make, match):
    files, folder = files_of(make), tmp_path / "input"
    folder.mkdir()
    (tmp_path / "canary").touch()
    hostile_worker.write(files, folder)
    is_file = action != "weights" and len(files) == 1
    path = folder / next(iter(files)) if is_file else folder
    answer = server.ask(json.dumps([action, str(path)]), 3 * hostile_costs.MAX_WAIT)
    found = json.loads(answer)
    assert hostile_costs.problem(found, hostile_costs.size_of(folder)) is None
    if match == "":  # either
        return
    if match is None or found["outcome"] == "refused":
        assert re.search(match or "^[0-9a-f]{64}$", found["detail"])
    else:
        assert action == "inspect", "it opens"  # which looks at less
