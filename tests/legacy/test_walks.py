"""Walks over graphs, which files may make deep, wide and cyclic."""

import pytest

from keras_policies import LegacyModelError
from keras_policies.legacy.base import walks
from keras_policies.legacy.base.traced_functions import Function, Node, Output

pytestmark = pytest.mark.once("it walks over plain values")
EDGES = {"a": "bc", "b": "d", "c": "e", "d": "a", "e": "", "f": "a"}


@pytest.mark.parametrize(
    ("nearest_first", "expected"),
    [
        pytest.param(False, "abdce", id="depth-first"),
        pytest.param(True, "abcde", id="breadth-first"),
    ],
)
def test_a_walk_comes_once_to_each_item_of_a_cyclic_graph(nearest_first, expected):
    walk = walks.reachable("a", EDGES.get, nearest_first=nearest_first)
    assert "".join(walk) == expected


def test_dependencies_come_first_and_in_the_order_of_the_ends():
    edges = {"x": "", "y": "x", "z": "yx", "end": "zy"}
    assert walks.topological_order(["end", "y"], edges.get) == ["x", "y", "z", "end"]
    assert walks.topological_order(["y", "end"], edges.get) == ["x", "y", "z", "end"]
    assert walks.topological_order("ba", {"a": "", "b": ""}.get) == ["b", "a"]


def test_a_cycle_names_the_items_in_it():
    with pytest.raises(walks.CycleError, match="'a', 'b', 'd', 'a'"):
        walks.topological_order("a", EDGES.get)


def test_a_chain_may_be_deeper_than_calls_of_python():
    order = walks.topological_order([0], lambda n: [n + 1] if n < 50_000 else [])
    assert (order[0], order[-1], len(order)) == (50_000, 0, 50_001)


def node(name, *inputs):
    return Node(name, "Add", tuple(map(Output, inputs)), {})


NODES = {n.name: n for n in (node("p", "x"), node("q", "p", "x"), node("r", "q"))}


def test_nodes_that_no_output_needs_are_left_out():
    function = Function("f", ("x",), NODES, (Output("q"), Output("x")))
    assert [*walks.needed_nodes(function, function.outputs)] == ["p", "q"]


def test_a_node_that_is_not_there_is_named():
    function = Function("f", (), NODES, (Output("q"),))
    with pytest.raises(LegacyModelError, match="corrupt: f has no node 'x'"):
        walks.needed_nodes(function, function.outputs)


def test_ancestors_are_nodes_and_no_arguments():
    assert [n.name for n in walks.ancestors(NODES, "r")] == ["r", "q", "p"]
    assert [*walks.ancestors(NODES, "x")] == []
