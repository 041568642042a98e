import json
import re
import warnings

import porting
import pytest

NAMES = json.loads((porting.DATA / "legacy_names.json").read_text())
OLD = json.loads((porting.DATA / "porting.json").read_text())
SECTIONS = {section.title: section for section in porting.sections()}
ROWS = [row for section in SECTIONS.values() for row in section.rows]

OPTIMIZER, POLICIES = "LossScaleOptimizer, experimental", "Policies"
SCALES, REST = "Loss scales", "Graph rewrite and TF 1 optimizers"
NEW = [row for row in ROWS if row.new]
# What gives another value than the old line gave: the new line, and its value.
DIFFERENT = [
    ("len(lso.variables)", 6.0),
    ("len(opt.variables)", 6.0),
    ("[int(lso.iterations), float(lso.loss_scale)]", [0.0, 16384.0]),
]
# Where the names of a module are explained; the others are the same objects.
EXPLAINED = {
    "tf.keras.mixed_precision": ["Policies of 2.4", "LossScaleOptimizer of 2.4"],
    "tf.compat.v1.keras.mixed_precision": ["LossScaleOptimizer of 2.4"],
    "tf.keras.mixed_precision.experimental": [POLICIES, OPTIMIZER],
    "tf.compat.v1.keras.mixed_precision.experimental": [POLICIES, OPTIMIZER],
    "tf.mixed_precision.experimental": [SCALES],
    "tf.compat.v1.mixed_precision.experimental": [SCALES],
    "tf.train.experimental": [SCALES, REST],
    "tf.compat.v1.train.experimental": [SCALES, REST],
    "tf.compat.v1.mixed_precision": [SCALES, REST],
}


def old_results(row):
    return OLD[row.section][row.old]


def ids(rows):
    return [f"{row.section}-{row.old.splitlines()[-1][:60]}" for row in rows]


def test_every_old_name_is_explained():
    assert set(NAMES) == set(EXPLAINED)
    for module, titles in EXPLAINED.items():
        rows = [row for title in titles for row in SECTIONS[title].rows]
        explained = {name for row in rows for name in row.names}
        assert set(NAMES[module]) - explained == set(), module


def test_no_name_is_explained_that_there_never_was():
    known = {name for names in NAMES.values() for name in names}
    assert {name for row in ROWS for name in row.names} <= known


def test_the_names_are_as_many_as_were_recorded():
    assert sum(map(len, NAMES.values())) == 221


def test_where_each_name_was_is_told():
    lines = []
    for module, names in sorted(NAMES.items()):
        spans = {}
        for name in sorted(name for name in names if "." not in name):
            spans.setdefault(porting.span(names[name]), []).append(f"`{name}`")
        for span, found in sorted(spans.items()):
            lines.append(f"| `{module}` | {span} | {', '.join(found)} |")
    table = porting.GUIDE.read_text(encoding="utf8").split("## All names")[1]
    assert [line for line in table.splitlines() if line.startswith("| `")] == lines


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_each_old_line_ran_in_just_the_releases_that_are_told(row):
    ran = [release for release, (done, _) in old_results(row).items() if done]
    assert row.releases == porting.span(ran) != ""
    assert set(old_results(row)) == set(porting.RELEASES)


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


def test_what_has_no_new_line_says_why():
    missing = [row for row in ROWS if not row.new]
    assert [row.names for row in missing] == [["PythonState"]]
    assert "nothing to do with precision" in missing[0].differs


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
