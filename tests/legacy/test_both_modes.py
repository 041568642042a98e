"""The walk over traced functions, which the interpreter and tracing share."""

import numpy as np
import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Function,
    Node,
    Output,
    TensorSpec,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.guards import budget
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.concrete_functions import Layers
from keras_policies.legacy.plan.reconstruction.frozen import Frozen
from keras_policies.legacy.plan.reconstruction.lookup_tables import Tables
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)
from keras_policies.legacy.plan.reconstruction.tracing import Tracing

pytestmark = pytest.mark.once("it follows nodes")
SPEC = TensorSpec((2,), "float32", "x")
X = np.float32([1, 3])


def const(name, value):
    return Node(name, "Const", (), {"value": value})


def function(name, inputs, nodes, outputs):
    return Function(name, inputs, {node.name: node for node in nodes}, outputs)


def times(name, factor):
    """Return a function that multiplies by a constant."""
    mul = Node("mul", "Mul", (Output("x"), Output("factor", "output")), {})
    nodes = const("factor", np.float32(factor)), mul
    return function(name, ("x",), nodes, (Output("mul", "z"),))


def with_node(node, *constants, others=()):
    """Return a file whose function `main(x)` returns the output of a node."""
    main = function("main", ("x",), (*constants, node), (Output(node.name, "output"),))
    layer = TracedLayer("Lost", {}, False, "lost", {}, (), (), ())
    functions = {each.name: each for each in (main, *others)}
    return TracedFunctions({0: layer}, {}, {}, functions, {})


def interpreted(traced):
    trace = ConcreteFunction("main", ((SPEC,), {}), SPEC, ())
    with budget.anew(0):
        (result,) = Interpreter(traced).run(trace, [X])
    return result.tolist()


def factors(traced):
    """Return the factors of the `Mul` steps that tracing adds, in order."""
    tracing = Tracing(
        traced=traced,
        layers=Layers(traced),
        specs=[SPEC],
        spec_of=lambda number: None,
        limit=Limit(1000, "nodes"),
        tables=Tables(traced, keeps_texts=True),
        frozen=Frozen(traced),
    )
    with budget.anew(0):
        tracing.follow("main", [ir.Argument(0)])
    assert {step.op for step in tracing.steps} <= {"Mul"}
    return [float(step.inputs[1].value) for step in tracing.steps]


BRANCHES = times("twice", 2), times("thrice", 3), times("five_times", 5)
IF = {"then_branch": "twice", "else_branch": "thrice"}
CASE = {"branches": ("twice", "thrice", "five_times")}


@pytest.mark.parametrize(
    ("op", "attributes", "value", "factor"),
    [
        pytest.param("If", IF, np.bool_(True), 2, id="true"),
        pytest.param("StatelessIf", IF, np.bool_(False), 3, id="false"),
        pytest.param("Case", CASE, np.int32(0), 2, id="first"),
        pytest.param("StatelessCase", CASE, np.int32(1), 3, id="second"),
        pytest.param("Case", CASE, np.int32(7), 5, id="out-of-range"),
    ],
)
def test_a_known_condition_is_one_branch(op, attributes, value, factor):
    node = Node("one", op, (Output("value", "output"), Output("x")), attributes)
    traced = with_node(node, const("value", value), others=BRANCHES)
    assert interpreted(traced) == [factor, 3 * factor]
    assert factors(traced) == [factor]


def test_the_rounds_of_a_loop_follow_one_another():
    less = Node("less", "Less", (Output("i"), Output("n", "output")), {})
    add = Node("add", "AddV2", (Output("i"), Output("one", "output")), {})
    mul = Node("mul", "Mul", (Output("x"), Output("factor", "output")), {})
    names = "i", "x"
    condition = const("n", np.int32(3)), less
    body = const("one", np.int32(1)), const("factor", np.float32(2)), add, mul
    ends = Output("add", "z"), Output("mul", "z")
    others = (
        function("cond", names, condition, (Output("less", "z"),)),
        function("body", names, body, ends),
    )
    inputs = Output("start", "output"), Output("x")
    loop = Node("loop", "While", inputs, {"cond": "cond", "body": "body"})
    last = Node("last", "Identity", (Output("loop", "output", 1),), {})
    traced = with_node(last, const("start", np.int32(0)), loop, others=others)
    assert interpreted(traced) == [8, 24]
    assert factors(traced) == [2, 2, 2]


def call(name, *inputs):
    return Node("call", "PartitionedCall", inputs, {"f": name})


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        pytest.param(call("other", Output("x")), "no function 'other'", id="missing"),
        pytest.param(
            call("twice"), "twice takes 1 arguments, it is called with 0", id="inputs"
        ),
        pytest.param(
            call("main", Output("x")), "call each other more than 60", id="endless"
        ),
        pytest.param(
            Node("end", "Identity", (Output("x", "", 1),), {}),
            "'x' has no output",
            id="output",
        ),
    ],
)
def test_both_modes_refuse_what_is_not_there(node, reason):
    traced = with_node(node, others=BRANCHES)
    with pytest.raises(NotInterpretedError, match=reason):
        interpreted(traced)
    with pytest.raises(LegacyModelError, match=reason):
        factors(traced)
