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

from keras_policies.legacy.plan import build_order


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
    answer = server.ask(json.dumps([action, str(path)]), hostile_costs.MAX_WAIT + 60)
    found = json.loads(answer)
    assert hostile_costs.problem(found, hostile_costs.size_of(folder)) is None
    if match == "":  # either
        return
    if match is None or found["outcome"] == "refused":
        assert re.search(match or "^[0-9a-f]{64}$", found["detail"])
    else:
        assert action == "inspect", "it opens"  # which looks at less


# Layers in their order -> the tries of Keras that are charged: counted by hand.
TRIES = {
    # b takes a, c takes b, each once: all are made in the first round.
    "in_order": ({"x": [], "a": [[("x", 0)]], "b": [[("a", 0)]]}, 0),
    # Then c, b and a once more, backwards: one more is made in each round, while the
    # second calls of the layers before it fail: 2 in the first round, 1 in the next.
    "there_and_back": (
        {
            "x": [],
            "a": [[("x", 0)], [("b", 1)]],
            "b": [[("a", 0)], [("c", 1)]],
            "c": [[("b", 0)], [("c", 0)]],
        },
        3,
    ),
    # A call that is never made is tried in the round that makes a, and in one more,
    # in which nothing is made.
    "never": ({"x": [], "a": [[("x", 0)]], "b": [[("a", 7)]]}, 2),
}


@pytest.mark.once("no Keras", for_all_keras=True)
@pytest.mark.parametrize("name", TRIES)
def test_the_calls_that_keras_tries_in_vain_are_charged(name, monkeypatch):
    calls, expected = TRIES[name]
    charged = []
    monkeypatch.setattr(build_order.budget, "work", charged.append)
    build_order._charge(calls)
    assert sum(charged) == expected * build_order.budget.RETRY
