"""Train models of other libraries under our and under stock policies, and compare.

    python tools/libraries.py [--backends jax]

It needs `pip install keras-hub keras-tuner tensorboard keras-rs bayesflow`. On each
backend, a process with this package trains small models under "mixed_float16", and then
a process without it. Losses, loss scales and predictions must be equal, also after
saving, and plain Keras must open the files that were saved with this package. Otherwise
the exit status is 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from all_backends import BACKENDS

OURS = Path(__file__).parents[1]
MODELS = Path(__file__).with_name("library_models.py")


def outcomes(backend):
    """Return `{case: outcome}` of a backend with this package, and without it."""
    found = []
    paths = str(OURS), os.environ.get("PYTHONPATH")
    variables = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with tempfile.TemporaryDirectory() as folder:
        ours, stock = Path(folder, "keras_policies"), Path(folder, "keras")
        for own in ours, stock:
            own.mkdir()
            command = [sys.executable, MODELS, own.name, own, ours]
            subprocess.run(command, env=variables, check=True)
            found.append(json.loads((own / "outcomes.json").read_text()))
    return found


def verdict(ours, stock):
    """Return what the table says of two outcomes of a case."""
    ours, stock = {**ours}, {**stock}
    we_fail, stock_fails = ours.pop("error", None), stock.pop("error", None)
    if we_fail and (not stock_fails or stock.keys() - ours.keys()):
        return "FAILS"
    if any(ours[key] != stock[key] for key in ours.keys() & stock.keys()):
        return "DIFFERS"
    if stock_fails:
        return f"same, until {'both fail' if we_fail else 'stock Keras fails'}"
    return "same"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    backends = parser.parse_args().backends
    rows = {}
    for backend in backends:
        with_us, without = outcomes(backend)
        for case, ours in with_us.items():
            stock = without[case]
            rows.setdefault(case, []).append(verdict(ours, stock))
            for key in ours.keys() | stock.keys():
                if "error" in key or ours.get(key) != stock.get(key):
                    print(backend, case, key, sep=": ")
                    print(f"  with us {ours.get(key)}\n  stock   {stock.get(key)}")
    print(f"| model | {' | '.join(backends)} |\n|{'---|' * (len(backends) + 1)}")
    for case, cells in rows.items():
        print(f"| {case} | {' | '.join(cells)} |")
    sys.exit(any({"FAILS", "DIFFERS"} & {*cells} for cells in rows.values()))


if __name__ == "__main__":
    main()
