"""Fair timing on a noisy machine: turns, ratios within a round, medians.

The order within a round is random. Each turn leaves its caches to the next one; in a
fixed order, the same function would always inherit the same caches.
"""

import time
from typing import NamedTuple

import numpy as np


class Ratio(NamedTuple):
    """The time of one function divided by that of another: median and quartiles."""

    median: float
    low: float
    high: float


def by_turns(runs, rounds, seconds):
    """Time functions in turns.

    Args:
        runs: `{name: run}`; `run(n)` does one unit of work n times and waits for it.
        rounds: int, the number of turns of each function.
        seconds: float, the approximate length of a turn.

    Returns:
        `{name: array of the seconds that one unit of work took, for each round}`.
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
    """Return the `Ratio` of two arrays that `by_turns` returned."""
    return Ratio(*(float(q) for q in np.percentile(times / others, [50, 25, 75])))
