import json
import re
import warnings

import keras
import numpy as np
import porting
import pytest

import keras_policies

OLD = json.loads((porting.DATA / "porting.json").read_text("utf8"))
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


def test_readme_links_to_the_guide_and_the_guide_to_the_reference():
    readme = (porting.ROOT / "README.md").read_text("utf8")
    assert re.search(r"\[PORTING.md\]\(PORTING.md\)", readme)
    assert "(docs/porting-reference.md)" in porting.GUIDE.read_text("utf8")


class Casts(keras.layers.Layer):
    """Records the dtypes of its two arguments and of its two weights."""

    def build(self, *shapes):
        self.kept = self.add_weight(autocast=False)
        self.cast = self.add_weight()

    def call(self, x, y):
        tensors = x, y, *map(keras.ops.convert_to_tensor, (self.kept, self.cast))
        self.dtypes = [keras.backend.standardize_dtype(t.dtype) for t in tensors]
        return x


@pytest.mark.parametrize(
    ("autocast", "expected"),
    [
        pytest.param(True, ["float16", "float16", "float32", "float16"], id="all"),
        pytest.param(False, ["float32", "float32", "float32", "float16"], id="none"),
    ],
)
def test_all_arguments_are_cast_and_autocast_turns_it_off(autocast, expected):
    layer = Casts(dtype=keras_policies.Policy("mixed_float16"), autocast=autocast)
    layer(np.ones((2,), "float32"), y=np.ones((2,), "float32"))
    assert layer.dtypes == expected
