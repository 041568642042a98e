"""Open every artifact of a corpus on every backend and write a table of the results.

    python tools/legacy_table.py [CORPUS ...]

The default CORPUS is that in tests/data/legacy. The table is in docs/tested-files.md.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import _helpers  # noqa: F401 - finds them
import readme_table
from all_backends import BACKENDS

TESTS = Path(__file__).parents[1] / "tests"
PAGE = TESTS.parent / "docs" / "tested-files.md"


def check(path):
    """Return `ok`, or what is wrong with an artifact that was opened."""
    import legacy_files
    import numpy as np

    import keras_policies

    model = keras_policies.load_model(path)
    outputs = legacy_files.outputs(model, path)
    for found, wanted in zip(outputs, legacy_files.arrays(path, "y_"), strict=True):
        found, wanted = np.asarray(found, "float64"), np.asarray(wanted, "float64")
        limit = legacy_files.tolerance(path)
        if not np.allclose(found, wanted, rtol=limit, atol=limit / 2):
            return f"outputs differ by {np.max(np.abs(found - wanted)):.1g}"
    for name, found in legacy_files.layer_weights(model).items():
        wanted = legacy_files.expected(path)[name].astype("float64")
        if not np.allclose(found, wanted, rtol=1e-7, atol=0):
            return f"weight {name} differs"
    if not model.compiled:
        return "ok, no optimizer in the file"
    if legacy_files.step_error(model, path) > 0.03:
        return "the next step differs"
    return "ok"


def refusal(path):
    """Return `refused` if the file, which holds no Keras model, is refused."""
    import keras_policies

    try:
        keras_policies.load_model(path)
    except keras_policies.LegacyModelError:
        return "refused"
    return "opened, but should not"


def worker(corpora):
    """Print the results of one backend as JSON."""
    import warnings

    import legacy_files

    warnings.simplefilter("ignore")
    results = {}
    for folder in map(Path, corpora):
        for path in legacy_files.artifacts(folder):
            results[legacy_files.name_of(path)] = _result(check, path)
        for path in sorted(folder.glob("*/no_metadata/saved_model")):
            results[legacy_files.name_of(path)] = _result(refusal, path)
    print(json.dumps(results))


def _result(function, path):
    try:
        return function(path)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"


def _run(backend, corpora):
    command = [sys.executable, __file__, "--worker", *corpora]
    env = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def _release(name):
    return [int(part) for part in name.partition("/")[0].split(".")]


def table(results):
    """Return the lines of the table, a row for each artifact."""
    names = sorted(results[BACKENDS[0]], key=lambda name: (_release(name), name))
    lines = [f"| TensorFlow | case | file | {' | '.join(BACKENDS)} |", "|---" * 6 + "|"]
    for name in names:
        cells = name.split("/") + [results[backend][name] for backend in BACKENDS]
        lines.append(f"| {' | '.join(cells)} |")
    good = sum(
        found.startswith(("ok", "refused"))
        for of_backend in results.values()
        for found in of_backend.values()
    )
    total = len(names) * len(BACKENDS)
    return [f"{len(names)} artifacts, {good} of {total} results good.", "", *lines]


def main(corpora):
    corpora = corpora or [str(TESTS / "data" / "legacy" / "corpus")]
    results = {backend: _run(backend, corpora) for backend in BACKENDS}
    lines = table(results)
    readme_table.write(PAGE, "python tools/legacy_table.py", lines)
    print(lines[0])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2:])
    else:
        main(sys.argv[1:])
