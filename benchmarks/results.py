"""Rows of results: printed, written as JSON, and compared with their targets."""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from benchmarks import timing, works


class Row(NamedTuple):
    """A ratio and its largest allowed value, or None if there is no target."""

    question: str
    what: str
    ratio: timing.Ratio
    target: float | None

    def verdict(self):
        """Return PASS or FAIL, or an empty text if there is no target."""
        if self.target is None:
            return ""
        # Compared to two decimals, as shown: two runs differ by more than the rest.
        return "PASS" if round(self.ratio.median, 2) <= self.target else "FAIL"

    def cells(self):
        """Return the texts of the cells of the row in a table."""
        spread = f"{self.ratio.low:.2f} to {self.ratio.high:.2f}"
        target = "" if self.target is None else f"{self.target:.2f}"
        numbers = f"{self.ratio.median:.2f}", spread, target
        return works.BACKEND, self.question, self.what, *numbers, self.verdict()


class Figure(NamedTuple):
    """A number by itself, as text."""

    question: str
    what: str
    number: str

    def cells(self):
        """Return the texts of the cells of the row in a table."""
        return works.BACKEND, *self, "", "", ""


def run(main, description):
    """Run a benchmark from the command line; print its rows and write them as JSON."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few and short rounds")
    parser.add_argument("--long", action="store_true", help="the largest sizes too")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--works", help="letters of the models to run")
    parser.add_argument("--json", type=Path, help="a file to add the rows to")
    arguments = parser.parse_args()
    rows = []
    for row in main(arguments):
        rows.append(row.cells())
        print(" | ".join(row.cells()), flush=True)
        if arguments.json:  # at once: whoever runs this may have to stop it
            arguments.json.write_text(json.dumps(rows, indent=1))
