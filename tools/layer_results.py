"""Write the table of every layer class into docs/tested-files.md.

    python tools/layer_results.py OUTDIR

OUTDIR is the folder that write_layers.py wrote under all releases. All files are opened
on jax, except string layers, which need TensorFlow.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import _helpers  # noqa: F401 - finds them
import readme_table

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "tested-files.md"
FORMS = {"saved_model": "SavedModel", "model.h5": "H5", "model.keras": ".keras"}
BACKENDS = "jax", "tensorflow"


def collect(outdir, backend):
    """Print a line of JSON for each file that this backend opens."""
    import legacy_layers

    for release in sorted(
        pathlib.Path(outdir).iterdir(), key=lambda p: _version(p.name)
    ):
        for path in legacy_layers.written(release):
            of_strings = re.match(legacy_layers.STRINGS, path.parent.name) is not None
            if of_strings == (backend == "tensorflow"):
                name = f"{release.name}/{path.parent.name}/{path.name}"
                found = legacy_layers.outcome(path)
                known = legacy_layers.expectation(name)
                fits = known is not None and re.match(known.outcome, found)
                why = known.why if fits else None
                line = {"name": name, "outcome": found[:200], "why": why}
                print(f"RESULT {json.dumps(line)}", flush=True)


def _version(release):
    return [int(part) for part in release.split(".")]


def _results(outdir):
    for backend in BACKENDS:
        command = [sys.executable, __file__, outdir, backend]
        env = {**os.environ, "KERAS_BACKEND": backend}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{backend}: stopped with {done.returncode}")
        for line in done.stdout.splitlines():
            if line.startswith("RESULT "):
                yield json.loads(line.removeprefix("RESULT "))


def table(results):
    """Yield the lines of the table, then the reasons for the failures in it."""
    counts = collections.defaultdict(lambda: [0, 0])
    reasons = collections.defaultdict(list)
    for result in results:
        release, case, form = result["name"].split("/")
        cell = counts[case.partition("-")[0], (release, form)]
        cell[0] += result["outcome"] == "ok"
        cell[1] += 1
        if result["outcome"] != "ok":
            why = result["why"] or f"UNEXPLAINED: {result['outcome']}"
            reasons[why].append((release, case.rpartition("-")[0]))
    good, total = (sum(cell[i] for cell in counts.values()) for i in range(2))
    yield f"{total} files, {good} predict what was recorded.\n"
    order = list(FORMS)
    columns = sorted(
        {column for _, column in counts},
        key=lambda column: (_version(column[0]), order.index(column[1])),
    )
    titles = [f"{release} {FORMS[form]}" for release, form in columns]
    yield "| class | " + " | ".join(titles) + " |"
    yield "|---" * (len(titles) + 1) + "|"
    whole = []  # classes whose files are all good: one line for all
    for name in sorted({name for name, _ in counts}):
        cells = [counts.get((name, column)) for column in columns]
        present = [cell for cell in cells if cell is not None]
        if all(good == of for good, of in present):
            whole.append(f"{name} ({sum(good for good, _ in present)})")
            continue
        texts = ["" if cell is None else f"{cell[0]}/{cell[1]}" for cell in cells]
        yield f"| {name} | " + " | ".join(texts) + " |"
    yield (
        "\nAll files of these classes open and predict what was recorded (the number "
        "of files):\n"
    )
    yield f"{', '.join(whole)}."
    yield "\nWhat does not open, or predicts something else, and why:\n"
    for why, found in sorted(reasons.items()):
        cases = ", ".join(sorted({case for _, case in found}))
        releases = ", ".join(sorted({release for release, _ in found}, key=_version))
        yield f"- {cases} ({releases}; {len(found)} files): {why}."


def main(outdir):
    """Write the table between its marks in docs/tested-files.md."""
    lines = list(table(list(_results(outdir))))
    readme_table.write(PAGE, "python tools/layer_results.py", lines)
    print("\n".join(line for line in lines if "UNEXPLAINED" in line) or "all explained")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        collect(*sys.argv[1:])
    else:
        main(*sys.argv[1:])
