"""Replace a table between its marks in a page."""

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks" / "results.md"


def write(readme, command, lines):
    """Replace the table of a command.

    Args:
        readme: `pathlib.Path` of a text with the marks `<!-- table: COMMAND -->` and
            `<!-- end of table -->`.
        command: str, the command that writes the table, as in the mark.
        lines: list of str, the new table.
    """
    start, end = f"<!-- table: {command} -->\n", "<!-- end of table -->\n"
    before, _, rest = readme.read_text("utf8").partition(start)
    _, _, after = rest.partition(end)
    readme.write_text(before + start + "\n".join(lines) + "\n" + end + after, "utf8")


def machine():
    """Return what a table was measured on."""
    return (
        f"{os.cpu_count()} CPU cores, Python {platform.python_version()}, "
        f"Keras {metadata.version('keras')}"
    )


def report(command, head, rows, to_readme):
    """Print rows of texts as a table, and write it to benchmarks/results.md."""
    about = f"Measured on {datetime.date.today()} on {machine()}."
    lines = [about, "", *head]
    print(*lines, sep="\n")
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if to_readme:
        write(BENCHMARKS, command, lines)
