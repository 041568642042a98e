"""Count the models that agree with the graph in their own file, and measure the time.

    KERAS_BACKEND=torch python tools/checked.py tests/data/legacy

Opens every SavedModel in the archives and folders below a path with `verify=True`, and
prints how many agree, are refused, or are not compared, and why; the largest
differences; and the median times of opening and of the comparison.
"""

import argparse
import collections
import pathlib
import statistics
import tarfile
import tempfile
import time
import warnings

from keras_policies import LegacyModelError
from keras_policies.legacy import loading
from keras_policies.legacy.assembly import checking


def saved_models(path, folder):
    """Return the SavedModels below a path, those in archives unpacked to a folder."""
    for number, archive in enumerate(sorted(path.rglob("*.tar.xz"))):
        with tarfile.open(archive) as opened:
            opened.extractall(folder / str(number), filter="data")
    found = [*folder.rglob("saved_model.pb"), *path.rglob("saved_model.pb")]
    return [file.parent for file in sorted(found)]


def checked(path):
    """Return `(outcome, difference, seconds to open, seconds to compare)`."""
    start = time.perf_counter()
    try:
        options = loading.checked_options("rebuild", safe_mode=False)
        built = loading.rebuild(path, None, options, compile=False)
    except LegacyModelError:
        return "refused", None, None, None
    opened = time.perf_counter()
    try:
        check = checking.check(built.model, built.plan, None)
    except LegacyModelError:
        return "differs", None, None, None
    seconds = opened - start, time.perf_counter() - opened
    if check.difference is None:
        return f"not compared: {check.reason.split(' (')[0]}", None, *seconds
    return "agrees", check.difference, *seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, differences, times = collections.Counter(), [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in saved_models(arguments.path, pathlib.Path(folder)):
            outcome, difference, *seconds = checked(path)
            counts[outcome] += 1
            if outcome == "differs":
                print("differs:", path)
            if difference is not None:
                differences.append(difference)
                times.append(seconds)
    for outcome, count in counts.most_common():
        print(f"{count:5} {outcome}")
    opening, comparing = (
        statistics.median(column) for column in zip(*times, strict=True)
    )
    print(f"median of opening {opening:.3f} s, of comparing {comparing:.3f} s")
    print(f"largest differences {sorted(differences)[-5:]}")


if __name__ == "__main__":
    main()
