"""Symbolic dimensions are what integers are, at whatever lengths the input has."""

import contextlib
import functools
import operator
import sys

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest

from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.values import (
    axis_lengths,
    computed,
    dim_tensors,
    dims,
    ratios,
)
from keras_policies.legacy.values.dims import UndecidedError, evaluate, extreme

INPUT = keras.Input(batch_shape=(None, None))
BATCH, LENGTH = axis_lengths.batch(INPUT), axis_lengths.axis_length(INPUT, 1)
KEYS = [axis.key for size in (BATCH, LENGTH) for axis in axis_lengths.axes_in(size)]
LENGTHS = [dict(zip(KEYS, (i, j), strict=True)) for i in range(1, 8) for j in (1, 2, 9)]
NUMBERS = st.integers(-6, 6)
DIVISORS = st.integers(-6, 6).filter(bool)
RELATIONS = operator.lt, operator.le, operator.gt, operator.ge
# Operator on integers -> on dimensions, if it is another.
OPERATORS = {operator.add: None, operator.sub: None, operator.mul: None} | {
    function: lambda a, b, kind=function.__name__: extreme(kind, a, b)
    for function in (max, min)
}
DIMS = st.recursive(
    st.one_of(NUMBERS, st.sampled_from([BATCH, LENGTH])),
    lambda inner: st.one_of(
        st.builds(
            lambda function, a, b: (OPERATORS[function] or function)(a, b),
            st.sampled_from([*OPERATORS]),
            *(inner, inner),
        ),
        st.builds(operator.floordiv, inner, DIVISORS),
        st.builds(operator.mod, inner, DIVISORS),
    ),
    max_leaves=5,
)

# A busy machine is slow, and any draw may be a rare one.
STEADY = hypothesis.settings(
    deadline=None, suppress_health_check=[*hypothesis.HealthCheck]
)


def values(dim):
    """Return what a dimension is at every two lengths."""
    return [evaluate(dim, lengths) for lengths in LENGTHS]


@STEADY
@hypothesis.given(DIMS, DIMS)
def test_sums_products_and_bounds_are_those_of_integers(one, other):
    pairs = [*zip(values(one), values(other), strict=True)]
    for function, on_dims in OPERATORS.items():
        try:
            found = (on_dims or function)(one, other)
        except ValueError as error:
            if "a size of more than 200 numbers and axes" not in str(error):
                raise
            hypothesis.reject()
        assert values(found) == [function(a, b) for a, b in pairs]


@STEADY
@hypothesis.given(DIMS, st.one_of(DIVISORS, DIMS))
def test_quotients_and_remainders_are_those_of_integers(one, divisor):
    hypothesis.assume(0 not in values(divisor))
    pairs = [*zip(values(one), values(divisor), strict=True)]
    for function in (operator.floordiv, operator.mod):
        assert values(function(one, divisor)) == [function(a, b) for a, b in pairs]


@STEADY
@hypothesis.given(DIMS, DIMS)
def test_equal_dimensions_are_equal_at_every_length(one, other):
    if one == other:
        assert hash(one) == hash(other)
        assert values(one) == values(other)
    assert one + other - other == one
    assert other * 3 + one - other * 3 == one


@STEADY
@hypothesis.given(DIMS, DIMS, st.sampled_from(RELATIONS))
def test_a_comparison_that_is_decided_holds_at_every_length(one, other, relation):
    outcomes = {relation(*ab) for ab in zip(values(one), values(other), strict=True)}
    with contextlib.suppress(UndecidedError):
        assert {relation(one, other)} == outcomes


@STEADY
@hypothesis.given(DIMS, DIMS)
def test_a_difference_that_is_decided_holds_at_every_length(one, other):
    outcomes = {a != b for a, b in zip(values(one), values(other), strict=True)}
    with contextlib.suppress(UndecidedError):
        assert {dims.not_equal(one, other)} == outcomes


def test_a_comparison_that_the_input_decides_names_both_sides():
    with pytest.raises(UndecidedError, match=r"2\*batch < batch \+ 4 depends on the m"):
        2 * BATCH < BATCH + 4  # noqa: B015
    with pytest.raises(UndecidedError, match="batch != 3 depends on the model's input"):
        dims.not_equal(BATCH, 3)
    assert BATCH + 1 > BATCH
    assert dims.not_equal(BATCH + 2, BATCH)


def in_a_model(build, dim, lengths):
    """Return what a model gives whose input has these lengths."""
    function = keras.Function(INPUT, build(dim))
    found = function(np.zeros([lengths[key] for key in KEYS], "float32"))
    return keras.ops.convert_to_numpy(found)


@hypothesis.settings(STEADY, max_examples=40)
@hypothesis.given(DIMS, st.sampled_from(LENGTHS))
def test_a_model_computes_the_same_number(dim, lengths):
    hypothesis.assume(isinstance(dim, dims.Dim))
    assert in_a_model(dim_tensors.scalar, dim, lengths) == evaluate(dim, lengths)


@hypothesis.settings(STEADY, max_examples=40)
@hypothesis.given(DIMS, st.sampled_from(LENGTHS))
def test_a_line_of_ones_is_as_long_or_refused(dim, lengths):
    hypothesis.assume(isinstance(dim, dims.Dim))
    with contextlib.suppress(ValueError):
        found = in_a_model(lambda d: dim_tensors.ones(d, "float16"), dim, lengths)
        assert found.tolist() == [1] * max(evaluate(dim, lengths), 0)


@pytest.mark.parametrize(
    ("dim", "length"),
    [
        (2 * BATCH - 1, 11),
        (BATCH // 2, 3),
        (-((BATCH + 1) // -2), 4),
        (-(-BATCH // 4) + (BATCH - 1) // 2, 4),
        (BATCH * LENGTH + 3 * BATCH + 2, 50),
        ((BATCH + LENGTH) // 4 * 2, 4),
        (extreme("min", BATCH, 4), 4),
        (extreme("min", 2 * BATCH, 40), 12),
        (extreme("max", BATCH - 2, -1), 4),
        (extreme("max", BATCH - 8, -1), 0),
        (extreme("min", BATCH - 2, -1), 0),
    ],
    ids=str,
)
def test_lines_of_ones_at_batch_6_and_length_5(dim, length):
    lengths = dict(zip(KEYS, (6, 5), strict=True))
    found = in_a_model(lambda d: dim_tensors.ones(d, "int32"), dim, lengths)
    assert found.tolist() == [1] * length


@pytest.mark.parametrize(
    ("dim", "message"),
    [
        (2 * BATCH - LENGTH, "a length of 2*.*, which subtracts a size"),
        (BATCH + extreme("min", BATCH - LENGTH, 4), "a part of which may be negative"),
        (extreme("max", BATCH, LENGTH), r"a length of max\("),
        (100 // BATCH, "needs a divisor that is known"),
    ],
)
def test_a_line_that_no_node_makes_is_refused(dim, message):
    with pytest.raises(ValueError, match=message):
        dim_tensors.ones(dim, "int32")


def test_a_size_that_is_too_large_for_a_model_is_refused():
    with pytest.raises(ValueError, match="a size of more than 200 numbers and axes"):
        functools.reduce(lambda size, _: size * size, range(60), BATCH)
    with pytest.raises(ValueError, match="a size with a number above 184467"):
        BATCH * 2**33 * 2**33
    with pytest.raises(ValueError, match="a size divided by more than 184467"):
        functools.reduce(operator.mul, [0.5] * 70, ratios.Ratio(BATCH))


def test_both_spellings_of_rounding_up_are_one_dimension():
    assert -(-BATCH // 2) == (BATCH + 1) // 2
    assert str(-(-BATCH // 2)) == "((batch + 1) // (2))"


def test_a_range_of_unknown_length_has_steps():
    found = computed.arange(0, LENGTH, 2), computed.arange(LENGTH, 0, -2)
    model = keras.Function(INPUT, found)
    rows = model(np.zeros((6, 5), "float32"))
    assert [keras.ops.convert_to_numpy(row).tolist() for row in rows] == [
        [0, 2, 4],
        [5, 3, 1],
    ]


def test_a_length_is_filled_up_to_a_multiple():
    assert computed.multiple_after(LENGTH, -LENGTH % 4) == 4
    assert computed.multiple_after(LENGTH + 1, -(LENGTH + 1) % 3) == 3
    assert computed.multiple_after(LENGTH, LENGTH // 4) is None
    assert computed.multiple_after(LENGTH, -BATCH % 4) is None


# Programs of sizes: an operator, and how far back its operands are.
BACK = st.integers(1, 4)
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from([*OPERATORS, operator.floordiv, operator.mod]), BACK, BACK
    ),
    min_size=1,
    max_size=30,
)


def computed_sizes(program):
    """Yield what each step of a program gives, until one is refused."""
    sizes = [3, LENGTH, BATCH, BATCH * LENGTH + 1]
    for function, one, other in program:
        operands = sizes[-one], sizes[-other]
        with contextlib.suppress(UndecidedError, ValueError, ZeroDivisionError):
            size = (OPERATORS.get(function) or function)(*operands)
            sizes.append(size % 7 if isinstance(size, int) else size)
            str(size)
        yield sizes[-1]


def cost(function):
    """Return how many functions a function calls, and the work that is charged."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event.endswith("call")

    with budget.anew(0):
        before = budget._work.get()
        sys.setprofile(count)
        try:
            function()
        finally:
            sys.setprofile(None)
        return calls, before - budget._work.get()


@hypothesis.settings(STEADY, max_examples=200)
@hypothesis.example([(operator.add, 1, 2), (operator.floordiv, 1, 3)] * 15)
@hypothesis.example([(operator.mul, 1, 1)] * 30)
@hypothesis.given(PROGRAMS)
def test_sizes_that_name_each_other_stay_small_and_cost_what_is_charged(program):
    calls, charged = cost(lambda: [*computed_sizes(program)])
    assert calls <= 10 * (charged + 100 * len(program))
    for size in computed_sizes(program):
        assert dims.parts(size) <= limits.DIM_PARTS
        assert len(str(size)) <= 60 * limits.DIM_PARTS


def test_a_truncated_quotient_of_a_length_stays_a_length():
    half = computed.truncated_quotient(LENGTH, 2)
    assert isinstance(half, dims.Dim)
    assert evaluate(half, LENGTHS[-1]) == LENGTHS[-1][KEYS[1]] // 2
