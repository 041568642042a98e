"""Run Keras's own tests with this package imported, and print what it breaks.

    python tools/keras_own_tests.py CHECKOUT [FOLDER...] [--backends jax] [--jobs 2]

CHECKOUT is a clone of Keras at the tag to test; its Keras replaces the installed one.
FOLDER is a folder below its `keras/src`, such as `trainers`; by default, all are tested
except `applications`, which Keras's own CI runs separately. The packages that the tests
need are in the clone's requirements-common.txt. A test that fails with the package runs
again without it. If it passes then, both runs are repeated, because some tests fail now
and then by themselves. The exit status is 1 if the package breaks a test.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from all_backends import BACKENDS

OURS = Path(__file__).parents[1]
PYTEST = "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"
PLUGIN = "-p", "keras_policies"  # pytest imports it before it collects the tests
OUTCOMES = "passed", "failed", "skipped"
HEAD = (
    "| backend | with: passed | failed | skipped "
    "| of those not passed, without: passed | failed | skipped | broken |",
    "|---|---|---|---|---|---|---|---|",
)


def _outcome(case):
    """Return how a case of a JUnit report ended, and the first line of the reason."""
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            lines = child.get("message", "").splitlines()
            is_skipped = child.tag == "skipped"
            return "skipped" if is_skipped else "failed", lines[0] if lines else ""
    return "passed", ""


def _test(case):
    """Return the class and the name of a case, without the addresses of objects."""
    name = re.sub(r" at 0x\w+", "", case.get("name"))
    return case.get("classname"), name


def outcomes(checkout, backend, with_us, options):
    """Run pytest in the checkout; return `{(class, test): (outcome, reason)}`."""
    paths = [str(checkout), str(OURS), os.environ.get("PYTHONPATH")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", *PYTEST, f"--junitxml={report}"]
        command += [*(PLUGIN if with_us else ()), *options]
        run = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True
        )
        if not report.exists():
            print(
                f"pytest wrote no report: {command}\n{run.stdout[-2000:]}{run.stderr}"
            )
            return {(options[0], "the whole folder"): ("failed", "no report")}
        cases = ElementTree.parse(report).iter("testcase")
        return {_test(case): _outcome(case) for case in cases}


def not_passed(run):
    """Return the tests of a run that failed or were skipped."""
    return {test for test, (outcome, _) in run.items() if outcome != "passed"}


def compare(checkout, backend, folder):
    """Return `{test: (outcome, reason)}` with us and without, and what we break."""
    run = partial(outcomes, checkout, backend)
    ours = run(True, [folder])
    suspects = not_passed(ours)
    if not suspects:
        return ours, {}, set()
    names = sorted({re.match(r"[\w.]*", name)[0] for _, name in suspects})
    options = [folder, "-k", " or ".join(names)]
    stock = {t: found for t, found in run(False, options).items() if t in suspects}
    broken = suspects - not_passed(stock)
    if broken:
        broken &= not_passed(run(True, options)) - not_passed(run(False, options))
    return ours, stock, broken


def row(backend, compared):
    """Print the tests of a backend that we break; return how many, and a table row."""
    counts = collections.Counter(), collections.Counter()
    total = 0
    for *runs, broken in compared:
        for count, run in zip(counts, runs, strict=True):
            count.update(outcome for outcome, _ in run.values())
        for test in sorted(broken):
            print(backend, "::".join(test), *runs[0][test], sep=": ")
        total += len(broken)
    cells = [count[outcome] for count in counts for outcome in OUTCOMES]
    return total, f"| {' | '.join(map(str, [backend, *cells, total]))} |"


def folders_in(checkout):
    """Return the folders of tests, those with the most tests first."""
    source = checkout / "keras/src"
    sizes = collections.Counter()
    for path in source.rglob("*_test.py"):
        sizes[path.relative_to(source).parts[0]] += path.stat().st_size
    return [folder for folder, _ in sizes.most_common() if folder != "applications"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    places = [f"keras/src/{f}" for f in given.folders or folders_in(checkout)]
    rows = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for backend in given.backends:
            compared = pool.map(partial(compare, checkout, backend), places)
            rows.append(row(backend, compared))
    print(*HEAD, *(text for _, text in rows), sep="\n")
    sys.exit(any(broken for broken, _ in rows))


if __name__ == "__main__":
    main()
