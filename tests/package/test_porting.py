import json
import re
import warnings

import porting
import pytest

OLD = json.loads((porting.DATA / "porting.json").read_text())
SECTIONS = {section.title: section for section in porting.sections()}
ROWS = [row for section in SECTIONS.values() for row in section.rows]
NEW = [row for row in ROWS if row.new]
# What gives another value than the old line gave: the new line, and its value.
DIFFERENT = [
    ("len(lso.variables)", 6.0),
    ("len(opt.variables)", 6.0),
    ("[int(lso.iterations), float(lso.loss_scale)]", [0.0, 16384.0]),
]


def old_results(row):
    return OLD[row.section][row.old]


def ids(rows):
    return [f"{row.section}-{row.old.splitlines()[-1][:60]}" for row in rows]


@pytest.mark.parametrize("row", NEW, ids=ids(NEW))
def test_each_new_line_gives_what_the_old_one_gave_or_says_why_not(row):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The '.*_float32_vars' policy is deprecated")
        value = porting.plain(porting.run(SECTIONS[row.section].new, row.new))
    old = [value for done, value in old_results(row).values() if done]
    last = row.new.splitlines()[-1]
    if any(value != each for each in old):
        assert (last, value) in DIFFERENT
        assert row.differs
    assert old


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (["2.0", "2.1", "2.2"], "2.0 to 2.2"),
        (["2.4"], "2.4"),
        (["2.0", "2.4", "2.10"], "2.0, 2.4, 2.10"),
        ([], ""),
    ],
)
def test_releases_are_told_as_a_span(releases, expected):
    assert porting.span(releases) == expected


def test_readme_links_to_the_guide():
    readme = (porting.GUIDE.parent / "README.md").read_text()
    assert re.search(r"\[PORTING.md\]\(PORTING.md\)", readme)
