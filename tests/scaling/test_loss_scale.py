import dataclasses

import keras
import numpy as np
import pytest
from keras import ops
from semantics import SEMANTICS

from keras_policies import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)
from keras_policies.loss_scaling.loss_scale import FLOAT32_MAX, get, in_short

ROWS = [row for version in SEMANTICS.values() for row in version["rows"]]
# What tf.keras took and we refuse: a scale that overflow would raise, no period.
REFUSED = [row for row in ROWS if row["args"][1:2] == [0] or row["args"][2:] == [0.5]]


def walk(rule, events):
    scale, good_steps = np.float32(rule.initial_loss_scale), 0
    for event in events:
        scale, good_steps = rule.after_step(scale, good_steps, event == "F")
        yield [float(scale), int(good_steps), event == "F"]


def row_id(row):
    return f"{row['args']}-{row['events'][:12]}"


@pytest.mark.parametrize("row", [r for r in ROWS if r not in REFUSED], ids=row_id)
def test_recorded_trajectories_hold_step_for_step(row):
    assert len(row["states"]) == len(row["events"]) > 2
    assert list(walk(DynamicLossScale(*row["args"]), row["events"])) == row["states"]


@pytest.mark.parametrize("row", REFUSED, ids=row_id)
def test_recorded_arguments_that_make_no_sense_are_refused(row):
    with pytest.raises(ValueError, match="increment_period|multiplier"):
        DynamicLossScale(*row["args"])


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param("FF", [8.0, 8.0], id="one-short-of-the-period"),
        pytest.param("FFF", [8.0, 8.0, 24.0], id="period-reached"),
        pytest.param("FFNFFF", [8.0, 8.0, 4.0, 4.0, 4.0, 12.0], id="overflow-resets"),
        pytest.param("NN", [4.0, 4.0], id="floor"),
        pytest.param("FFFFFF", [8.0, 8.0, 24.0, 24.0, 24.0, 50.0], id="ceiling"),
    ],
)
def test_scale_moves_by_the_rule(events, expected):
    rule = DynamicLossScale(8, 3, 3.0, minimum=4, maximum=50)
    assert [state[0] for state in walk(rule, events)] == expected


def test_minimum_may_be_below_one():
    rule = DynamicLossScale(0.04, 2, 2.0, minimum=0.01)
    scales = [state[0] for state in walk(rule, "NNNFF")]
    assert scales == pytest.approx([0.02, 0.01, 0.01, 0.01, 0.02])


def test_scale_never_leaves_float32():
    rule = DynamicLossScale(2.0**126, 1, 4.0)
    assert [state[0] for state in walk(rule, "FF")] == [2.0**126, 2.0**126]


def test_fixed_scale_never_moves():
    rule = FixedLossScale(8)
    assert rule.after_step(8.0, 0, False) == (8.0, 0)
    assert rule.initial_loss_scale == 8.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        pytest.param({"initial_loss_scale": 0}, "positive and finite", id="zero"),
        pytest.param({"initial_loss_scale": -4}, "positive and finite", id="negative"),
        pytest.param({"initial_loss_scale": 1e39}, "finite in float32", id="too-large"),
        pytest.param(
            {"initial_loss_scale": "8"}, "must be a Python int or float", id="str"
        ),
        pytest.param({"initial_loss_scale": None}, "must be a Python int", id="none"),
        pytest.param({"multiplier": float("nan")}, "must be a Python int", id="nan"),
        pytest.param({"multiplier": 0.5}, "at least 1", id="shrinking"),
        pytest.param({"increment_period": 0}, "1 or more", id="no-period"),
        pytest.param({"increment_period": 2.7}, "must be an integer", id="half-period"),
        pytest.param({"increment_period": float("inf")}, "1 or more", id="never"),
        pytest.param({"minimum": 0.0}, "scale of 0 never grows", id="no-floor"),
        pytest.param({"minimum": 8, "maximum": 4}, "maximum must not", id="crossed"),
        pytest.param({"maximum": 4}, "initial_loss_scale=32768.0", id="above-ceiling"),
        pytest.param({"minimum": 2.0**16}, "maximum must not.*and init", id="below"),
        pytest.param(
            {"initial_loss_scale": 8, "minimum": 1024},
            "and initial_loss_scale must be between them.*minimum=1024.0",
            id="overflow-would-raise-it",
        ),
        pytest.param({"minimum": -1}, "minimum must be positive", id="negative-floor"),
        pytest.param({"maximum": float("inf")}, "maximum must be", id="inf-ceiling"),
        pytest.param({"initial_loss_scale": True}, "must be a Python int", id="true"),
        pytest.param({"initial_loss_scale": np.ones(1)}, "be a Python", id="array"),
        pytest.param({"increment_period": True}, "be an integer", id="true-period"),
        pytest.param({"multiplier": 10**400}, "must be a Python int", id="huge"),
    ],
)
def test_dynamic_arguments_are_validated(arguments, match):
    with pytest.raises(ValueError, match=match):
        DynamicLossScale(**arguments)


@pytest.mark.parametrize("period", [3.0, np.float64(3), np.int64(3)])
def test_a_period_may_be_any_number_of_integral_value(period):
    rule = DynamicLossScale(increment_period=period)
    assert repr(rule.increment_period) == "3"


@pytest.mark.parametrize("kind", [int, float, np.float16, np.float32, np.int64])
def test_a_scale_may_be_a_number_of_python_or_numpy(kind):
    for rule in get(kind(128)), FixedLossScale(kind(128)):
        assert repr(rule) == "FixedLossScale(128.0)"
    assert repr(DynamicLossScale(kind(128)).initial_loss_scale) == "128.0"


def test_an_overflow_never_raises_a_scale_below_the_minimum():
    scales = [state[0] for state in walk(DynamicLossScale(0.5, 2), "NFFFFN")]
    assert scales == [0.5, 0.5, 1.0, 1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "value",
    [0, -3, 0.99, "8", None, True, np.ones(2), float("inf"), float("nan"), 10**400],
)
def test_fixed_argument_is_validated(value):
    with pytest.raises(ValueError, match="loss_scale_value"):
        FixedLossScale(value)


@pytest.mark.parametrize(
    "rule",
    [FixedLossScale(3.5), DynamicLossScale(64, 5, 3.0, minimum=0.25, maximum=4096)],
    ids=repr,
)
def test_config_round_trips(rule):
    copied = type(rule).from_config(rule.get_config())
    assert copied == rule
    assert hash(copied) == hash(rule)
    assert repr(copied) == repr(rule)
    identifier = {"class_name": type(rule).__name__, "config": rule.get_config()}
    assert get(identifier) == rule


def test_reprs_show_what_is_set():
    assert repr(FixedLossScale(8)) == "FixedLossScale(8.0)"
    assert repr(DynamicLossScale(8, 3, minimum=0.5)) == (
        "DynamicLossScale(initial_loss_scale=8.0, increment_period=3, "
        "multiplier=2.0, minimum=0.5)"
    )


def test_loss_scales_differ_by_each_setting():
    rules = [
        FixedLossScale(8),
        DynamicLossScale(8),
        DynamicLossScale(8, 3),
        DynamicLossScale(8, multiplier=3),
        DynamicLossScale(8, minimum=0.5),
        DynamicLossScale(8, maximum=9),
    ]
    assert len(set(rules)) == len(rules)
    assert DynamicLossScale(8).maximum == FLOAT32_MAX
    assert FixedLossScale(8) != 8


def test_settings_are_frozen():
    with pytest.raises(AttributeError, match="cannot assign"):
        DynamicLossScale().multiplier = 3


class Steps(LossScale):
    initial_loss_scale = 4.0

    def after_step(self, scale, good_steps, finite):
        return scale + ops.where(finite, 1.0, -1.0), good_steps

    def get_config(self):
        return {}


def test_a_subclass_brings_its_own_rule():
    assert [s[0] for s in walk(Steps(), "FFN")] == [5.0, 6.0, 5.0]
    assert get(Steps()) == Steps()


def test_a_rule_need_not_have_a_period_or_a_minimum():
    assert (Steps().increment_period, Steps().minimum) == (None, None)
    fixed = FixedLossScale(8)
    assert (fixed.increment_period, fixed.minimum) == (None, None)
    dynamic = DynamicLossScale(8, 7, minimum=2)
    assert (dynamic.increment_period, dynamic.minimum) == (7, 2.0)


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        pytest.param(DynamicLossScale(2.0**20), None, "dynamic, 1048576", id="dynamic"),
        pytest.param(DynamicLossScale(), 0.25, "dynamic, 0.25", id="moved"),
        pytest.param(FixedLossScale(128), None, "fixed, 128", id="fixed"),
        pytest.param(Steps(), 3.0, "Steps, 3", id="own"),
    ],
)
def test_a_loss_scale_is_told_in_short(rule, value, expected):
    assert in_short(rule, value) == expected


def test_a_registered_subclass_is_read_from_its_config():
    with keras.saving.custom_object_scope({"Steps": Steps}):
        assert get({"class_name": "Steps", "config": {}}) == Steps()


@pytest.mark.parametrize(
    "identifier",
    [
        "abc",
        "auto",
        [],
        {},
        {"class_name": "Adam", "config": {}},
        True,
        np.bool_(False),
        np.array([1.0, 2.0]),
        np.array(8.0),
        {"class_name": "FixedLossScale"},
        {"class_name": "FixedLossScale", "config": {"value": 8}},
    ],
    ids=repr,
)
def test_anything_else_is_not_understood(identifier):
    with pytest.raises(
        ValueError,
        match="Could not interpret loss scale identifier.*at least 1 for a fixed scale",
    ):
        get(identifier)


@pytest.mark.parametrize("scale", [FixedLossScale(8), DynamicLossScale(8)])
class TestWhatTfKerasHad:
    def test_update_is_answered_with_what_replaces_it(self, scale):
        with pytest.raises(AttributeError, match=r"'update'.*optimizer.loss_scale\)"):
            scale.update([])
        assert not hasattr(scale, "update")

    def test_calling_a_loss_scale_is_answered_with_what_replaces_it(self, scale):
        with pytest.raises(TypeError, match=r"not callable.*optimizer.loss_scale\)"):
            scale()

    def test_any_other_name_is_missing_as_usual(self, scale):
        with pytest.raises(AttributeError, match="no attribute 'value'.$"):
            _ = scale.value


@dataclasses.dataclass(frozen=True)
class Limited(DynamicLossScale):
    limit: float | None = 5.0


def test_a_setting_of_a_subclass_that_is_none_is_in_its_config():
    rule = Limited(limit=None)
    assert Limited.from_config(rule.get_config()) == rule
