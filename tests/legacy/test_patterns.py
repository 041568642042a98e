"""Patterns of ops: what the names in them stand for, and where they do not match."""

import pytest

from keras_policies.legacy.base.patterns import matches

OPS = {
    "y": ("Mul", ("scaled", "mask")),
    "scaled": ("RealDiv", ("x", "keep")),
    "mask": ("Floor", ("sum",)),
    "sum": ("AddV2", ("draw", "keep")),
}


@pytest.mark.once("no backend computes")
@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        pytest.param(("Floor", "a"), "mask", [{"a": "sum"}], id="one-op"),
        pytest.param(
            ("RealDiv", "a", "b"), "scaled", [{"a": "x", "b": "keep"}], id="in-order"
        ),
        pytest.param(
            ("Add", "a", "b"),
            "sum",
            [{"a": "draw", "b": "keep"}, {"a": "keep", "b": "draw"}],
            id="a-sum-in-both-orders",
        ),
        pytest.param(
            ("Mul", ("Floor", "a"), ("RealDiv", "b", "c")),
            "y",
            [{"a": "sum", "b": "x", "c": "keep"}],
            id="a-product-the-other-way-round",
        ),
        pytest.param(
            ("Floor", ("Add", "a", "b")),
            "mask",
            [{"a": "draw", "b": "keep"}, {"a": "keep", "b": "draw"}],
            id="the-older-op",
        ),
        pytest.param(
            ("RealDiv", "a"), "scaled", [{"a": "x"}], id="the-first-input-alone"
        ),
        pytest.param(("Floor", "a", "b"), "mask", [], id="an-input-too-many"),
        pytest.param(("Floor", ("Mul", "a", "b")), "mask", [], id="another-op-inside"),
        pytest.param(("Floor", "a"), "x", [], id="made-by-no-op"),
    ],
)
def test_a_pattern_yields_what_its_names_stand_for(pattern, value, expected):
    assert list(matches(pattern, value, OPS.get)) == expected
