"""Read porting.txt, and write docs/porting-reference.md: `python tools/porting.py`.

Reading also works on Python 3.7, on which the old releases run the old lines.
"""

import collections
import itertools
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
GUIDE, REFERENCE = ROOT / "PORTING.md", ROOT / "docs" / "porting-reference.md"
DATA = ROOT / "tests" / "data"
RELEASES = ["2.0", "2.1", "2.2", "2.3", "2.4", "2.10", "2.15"]

ALL_NAMES = [
    "The same object often had several names. These are the names up to 2.4, as",
    "`dir()` of each module lists them.",
]
Row = collections.namedtuple("Row", "section names old new differs")
Section = collections.namedtuple("Section", "title about before old new rows")


def _marked(lines, mark):
    """Return the text of the lines after a mark, or None if no line has it."""
    found = [line[len(mark) + 1 :] for line in lines if line.split(" ")[0] == mark]
    return "\n".join(found) if found else None


def _text(lines):
    return "\n".join(line for line in lines if line[:1] not in ("<", ">", ""))


def _row(title, names, *lines):
    old, new = _marked(lines, "<"), _marked(lines, ">")
    new = old if new is None else new
    return Row(title, names.split(", "), old, new, _text(lines))


def sections():
    """Return the sections.

    `before` has the lines that run first in a section alone, and `old` and `new` all
    lines to run before each of its rows.
    """
    text = (ROOT / "tools" / "porting.txt").read_text(encoding="utf8")
    head, *parts = re.split(r"^== ", text, flags=re.MULTILINE)
    marks = "<<", ">>"
    first = [_marked(head.splitlines(), mark) + "\n" for mark in marks]
    result = []
    for part in parts:
        about, *rows = re.split(r"^-- ", part, flags=re.MULTILINE)
        title, *lines = about.splitlines()
        own = [_marked(lines, mark) or "" for mark in marks]
        rows = [_row(title, *row.splitlines()) for row in rows]
        old, new = first[0] + own[0], first[1] + own[1]
        result.append(Section(title, _text(lines), own, old, new, rows))
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


def _span_of(row, results):
    """Return the releases in which an old line ran, of those that were asked."""
    ran = results[row.section][row.old].items()
    return span([release for release, (done, _) in ran if done])


def _block(*lines):
    return ["```py", *filter(None, lines), "```", ""]


def _unchanged(rows, results):
    """Yield the table of the rows whose line is the same here."""
    if rows:
        yield from ("These lines are the same here:", "", "| line | releases |")
        yield "|---|---|"
    for row in rows:
        code = "<br>".join(f"`{line}`" for line in row.old.splitlines())
        yield f"| {code} | {_span_of(row, results)} |"
    yield ""


def _changed(rows, results):
    """Yield the rows that differ, below a heading for each name."""
    for names, same_names in itertools.groupby(rows, lambda row: row.names):
        yield from ("### " + ", ".join(f"`{name}`" for name in names), "")
        for row in same_names:
            releases = f"# TensorFlow {_span_of(row, results)}"
            if row.old == row.new:
                yield from _block(f"{releases}, and here", row.old)
            else:
                here = "# here" if row.new else "# here: nothing"
                yield from _block(releases, row.old, here, row.new)
            if row.differs:
                yield from (row.differs, "")


def _section(section, results):
    yield from (f"## {section.title}", "", section.about, "")
    if any(section.before):
        yield "These lines run first, the old and the new ones:"
        yield ""
        for code in section.before:
            yield from _block(code)
    same = [row for row in section.rows if row.old == row.new and not row.differs]
    yield from _unchanged(same, results)
    yield from _changed([row for row in section.rows if row not in same], results)


def names():
    """Yield the table of all public names of each module."""
    yield from ("| module | releases | names |", "|---|---|---|")
    known = json.loads((DATA / "legacy_names.json").read_text())
    for module, releases in sorted(known.items()):
        spans = {}
        for name in sorted(name for name in releases if "." not in name):
            spans.setdefault(span(releases[name]), []).append(f"`{name}`")
        for told, found in sorted(spans.items()):
            yield f"| `{module}` | {told} | {', '.join(found)} |"


def generated():
    """Return the lines of the page below its hand-written head."""
    results = json.loads((DATA / "porting.json").read_text())
    lines = [line for each in sections() for line in _section(each, results)]
    lines += ["## All names", "", *ALL_NAMES, "", *names()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(["", *lines]))
    return text.split("\n")


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
        compiled = compile(last, "porting.txt", "eval")
    except SyntaxError:
        exec(last, names)
        return None
    return eval(compiled, names)


if __name__ == "__main__":
    import readme_table

    readme_table.write(REFERENCE, "python tools/porting.py", generated())
