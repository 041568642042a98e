"""Run the benchmarks of loss scaling on each backend and write the table in results.md.

    python -m benchmarks            # about 25 minutes on 2 cores
    python -m benchmarks --long     # the largest sizes too: about 40 minutes, and 8 GB
    python -m benchmarks --quick    # a few minutes; nothing is written
    python -m benchmarks --gpu      # on a GPU, within 9 minutes; installs nothing

Each question runs in its own process. FAIL is a result, not an error.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import on_gpu, pictures
from tools import readme_table
from tools.all_backends import BACKENDS

QUESTIONS = "step", "call", "compile", "memory", "growth"
HEAD = (
    "| backend | what | ratio | median | quartiles | target | | measured |",
    "|---|---|---|---|---|---|---|---|",
)
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"  # the last run of each question


def _rows(question, backend, options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", f"benchmarks.bench_{question}", "--json", path]
        environment = {
            **os.environ,
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        subprocess.run([*command, *options], env=environment, check=True)
        return json.loads(path.read_text())


def _keep(question, rows):
    """Replace the stored rows of a question, and write the table of results.md."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found[question] = {"date": str(datetime.date.today()), "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    lines = [f"On {readme_table.machine()}.", "", *HEAD]
    for question in filter(found.get, QUESTIONS):
        date = found[question]["date"]
        lines += [f"| {' | '.join([*row, date])} |" for row in found[question]["rows"]]
    readme_table.write(readme_table.BENCHMARKS, "python -m benchmarks", lines)
    if "growth" in found:
        pictures.draw_growth(found["growth"]["rows"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--questions", nargs="*", default=QUESTIONS, choices=QUESTIONS)
    parser.add_argument("--gpu", action="store_true", help=on_gpu.__doc__)
    parser.add_argument("--table", type=Path, help="with --gpu: a file for the table")
    arguments = parser.parse_args()
    if arguments.gpu:
        return on_gpu.main(arguments.table)
    options = [f"--{name}" for name in ("quick", "long") if getattr(arguments, name)]
    for question in arguments.questions:
        rows = [row for name in BACKENDS for row in _rows(question, name, options)]
        failed = [row for row in rows if row[-1] == "FAIL"]
        print(f"{question}: {len(rows)} results, {len(failed)} over their target.")
        if not arguments.quick:
            _keep(question, rows)


if __name__ == "__main__":
    main()
