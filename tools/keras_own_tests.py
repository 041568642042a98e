"""Run Keras's own tests with and without this package, and print what differs.

    python tools/keras_own_tests.py CHECKOUT [FOLDER...] [--backends jax] [--jobs 2]

CHECKOUT is a clone of Keras at the tag to test; its Keras takes the place of the
installed one. FOLDER is one below its `keras/src`, such as `trainers`; by default all
tests run. What they need is in the clone's requirements-common.txt. The exit status is
1 if a test ends differently with this package, twice in a row.
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from all_backends import BACKENDS

OURS = Path(__file__).parents[1]
PYTEST = "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"
PLUGIN = "-p", "keras_policies"  # pytest imports it before it collects the tests
HEAD = (
    "| backend | without: passed | failed | skipped "
    "| with: passed | failed | skipped | differ |",
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


def outcomes(checkout, options, backend, jobs, with_us):
    """Run pytest in the checkout; return `{(class, test): (outcome, reason)}`."""
    paths = [str(checkout), str(OURS), os.environ.get("PYTHONPATH")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONHASHSEED": "0",  # some are drawn from sets; all processes need one order
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", *PYTEST, "-n", str(jobs)]
        command += [f"--junitxml={report}", *(PLUGIN if with_us else ()), *options]
        run = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True
        )
        if not report.exists():
            sys.exit(f"pytest wrote no report:\n{run.stdout}{run.stderr}")
        cases = ElementTree.parse(report).iter("testcase")
        return {(c.get("classname"), c.get("name")): _outcome(c) for c in cases}


def different(without, ours):
    """Return the tests of two runs that ended differently, sorted."""
    none = "not run", ""
    every = without.keys() | ours.keys()
    return sorted(t for t in every if without.get(t, none)[0] != ours.get(t, none)[0])


def compare(checkout, folders, backend, jobs):
    """Compare the runs of a backend; return the tests that differ and a table row."""
    places = [f"keras/src/{folder}" for folder in folders] or ["keras/src"]
    runs = [
        outcomes(checkout, places, backend, jobs, with_us) for with_us in (False, True)
    ]
    found = different(*runs)
    if found:  # some tests of Keras fail now and then by themselves
        names = " or ".join({name.partition("[")[0] for _, name in found})
        again = [
            outcomes(checkout, [*places, "-k", names], backend, jobs, with_us)
            for with_us in (False, True)
        ]
        found = [test for test in found if test in different(*again)]
    for test in found:
        print("::".join(test))
        for who, run in zip(("without", "with"), runs, strict=True):
            print(f"  {who:8}{': '.join(filter(None, run.get(test, ('not run',))))}")
    counts = [collections.Counter(outcome for outcome, _ in r.values()) for r in runs]
    cells = [n[outcome] for n in counts for outcome in ("passed", "failed", "skipped")]
    return found, f"| {' | '.join(map(str, [backend, *cells, len(found)]))} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--jobs", default="auto", help="processes, as of pytest -n")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    compared = [
        compare(checkout, given.folders, backend, given.jobs)
        for backend in given.backends
    ]
    print(*HEAD, *(row for _, row in compared), sep="\n")
    sys.exit(any(found for found, _ in compared))


if __name__ == "__main__":
    main()
