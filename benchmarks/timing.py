"""Fair timing on a noisy machine: by turns, ratios within a round, medians.

The order of a round is drawn by chance: each turn leaves the caches to the next, and in
a fixed order always to the same.
"""

import time
from typing import NamedTuple

import numpy as np


class Ratio(NamedTuple):
    """How long one thing takes, of the time of another: median and quartiles."""

    median: float
    low: float
    high: float


def by_turns(runs, rounds, seconds):
    """Time functions by turns.

    Args:
        runs: `{name: run}`; `run(n)` does its work n times and waits for it.
        rounds: int, how often each has its turn.
        seconds: float, about how long a turn is.

    Returns:
        `{name: array of seconds per work, one for each round}`.
    """
    first = next(iter(runs.values()))
    start = time.perf_counter()
    first(3)
    count = max(1, round(3 * seconds / (time.perf_counter() - start)))
    times = {name: np.empty(rounds) for name in runs}
    order = np.random.default_rng(0)
    for number in range(rounds):
        for name in order.permutation(list(runs)):
            start = time.perf_counter()
            runs[name](count)
            times[name][number] = (time.perf_counter() - start) / count
    return times


def ratio(times, others):
    """Return the `Ratio` of two arrays of `by_turns`."""
    return Ratio(*(float(q) for q in np.percentile(times / others, [50, 25, 75])))
