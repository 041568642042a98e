"""Read the tables of PORTING.md and the lines before them. Runs on Python 3.7 too."""

import collections
import pathlib
import re

GUIDE = pathlib.Path(__file__).resolve().parent.parent / "PORTING.md"
DATA = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data"
COLUMNS = ["name", "old", "releases", "new", "what differs"]
RELEASES = ["2.0", "2.1", "2.2", "2.3", "2.4", "2.10", "2.15"]

Row = collections.namedtuple("Row", "section names old releases new differs")
Section = collections.namedtuple("Section", "title old new rows")


def _code(cell):
    """Return the code in a cell: one line for each span in backticks."""
    return "\n".join(re.findall(r"`([^`]*)`", cell))


def _rows(title, text):
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|---"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:2] == COLUMNS[:2] or len(cells) != len(COLUMNS):
            continue
        names, old, releases, new, differs = cells
        found = re.findall(r"`([^`]*)`", names)
        yield Row(title, found, _code(old), releases, _code(new), differs)


def sections():
    """Return the sections; `old` and `new` are the lines to run before each row."""
    _, *parts = re.split(r"^## ", GUIDE.read_text(encoding="utf8"), flags=re.MULTILINE)
    result, before = [], ["", ""]
    for part in parts:
        title = part.splitlines()[0]
        blocks = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
        rows = list(_rows(title, part))
        if not rows and len(blocks) == 2:  # the lines before all
            before = blocks
            continue
        old, new = blocks if len(blocks) == 2 else ("", "")
        result.append(Section(title, before[0] + old, before[1] + new, rows))
    return result


def span(releases):
    """Return `"2.0 to 2.3"` for the list of releases in which a line ran."""
    known = [release for release in RELEASES if release in releases]
    if not known:
        return ""
    first, last = RELEASES.index(known[0]), RELEASES.index(known[-1])
    if RELEASES[first : last + 1] != known:
        return ", ".join(known)
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def plain(value):
    """Return a value for JSON, with numbers to six digits, or None if it has none."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return float(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None


def run(before, code):
    """Run lines; return the value of the last line if it is an expression."""
    names = {}
    exec(before, names)
    *lines, last = code.splitlines()
    exec("\n".join(lines), names)
    try:
        compiled = compile(last, "PORTING.md", "eval")
    except SyntaxError:
        exec(last, names)
        return None
    return eval(compiled, names)
