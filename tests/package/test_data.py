"""Recordings agree with each other and with the porting reference.

No fault of the package fails these tests: they check data, the text and what was
recorded under old releases. What the package does is compared with the same data
elsewhere.
"""

import json

import porting
import pytest
import recorded_ports

pytestmark = pytest.mark.once("data alone", for_all_keras=True)
NAMES = json.loads((porting.DATA / "legacy_names.json").read_text("utf8"))
OLD = json.loads((porting.DATA / "porting.json").read_text("utf8"))
SECTIONS = {section.title: section for section in porting.sections()}
ROWS = [row for section in SECTIONS.values() for row in section.rows]
OPTIMIZER, POLICIES = "LossScaleOptimizer, experimental", "Policies"
SCALES, REST = "Loss scales", "Graph rewrite and TF 1 optimizers"
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


def test_every_old_name_is_explained():
    assert set(NAMES) == set(EXPLAINED)
    for module, titles in EXPLAINED.items():
        rows = [row for title in titles for row in SECTIONS[title].rows]
        explained = {name for row in rows for name in row.names}
        assert set(NAMES[module]) - explained == set(), module


def test_no_name_is_explained_that_there_never_was():
    known = {name for names in NAMES.values() for name in names}
    assert {name for row in ROWS for name in row.names} <= known


def test_the_reference_is_what_the_tool_writes():
    text = porting.REFERENCE.read_text(encoding="utf8")
    _, _, rest = text.partition("<!-- table: python tools/porting.py -->\n")
    table, end, _ = rest.partition("\n<!-- end of table -->")
    assert end
    assert table.split("\n") == porting.generated()


@pytest.mark.parametrize(
    "row", ROWS, ids=[row.old.splitlines()[-1][:60] for row in ROWS]
)
def test_each_old_line_was_asked_in_all_releases_and_ran_in_one(row):
    ran = [release for release, (done, _) in OLD[row.section][row.old].items() if done]
    assert porting.span(ran) != ""
    assert set(OLD[row.section][row.old]) == set(porting.RELEASES)


def test_what_has_no_new_line_says_why():
    missing = [row for row in ROWS if not row.new]
    assert [row.names for row in missing] == [["PythonState"]]
    assert "nothing to do with precision" in missing[0].differs


@pytest.mark.parametrize("name", sorted(recorded_ports.RECORDED))
def test_the_old_releases_agree_on_a_program(name):
    *earlier, newest = recorded_ports.ran(name)
    for record in earlier:
        recorded_ports.assert_same_training(record, newest)


def test_the_scale_of_segmentation_grows_skips_and_is_halved():
    scales = [64, 128, 128, 256, 128, 128, 256, 256]
    newest = recorded_ports.ran("segmentation")[-1]
    assert recorded_ports.flat(newest["scales"]) == scales
