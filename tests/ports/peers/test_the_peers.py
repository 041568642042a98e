"""Each test of this folder names what it stands for, and what differs says where."""

import ast
import pathlib
import re

import peer

HERE = pathlib.Path(__file__).parent
PORTING = (HERE.parents[2] / "PORTING.md").read_text("utf8")


def ports():
    """Return `[(name of the file, test, its decorators as calls)]`."""
    return [
        (
            path.name,
            node.name,
            [d for d in node.decorator_list if isinstance(d, ast.Call)],
        )
        for path in sorted(HERE.glob("test_peer_*.py"))
        for node in ast.parse(path.read_text("utf8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def called(decorators, name):
    """Return the string arguments of the calls of a decorator."""
    calls = [call for call in decorators if ast.unparse(call.func) == name]
    return [[ast.literal_eval(argument) for argument in call.args] for call in calls]


def test_every_test_names_a_suite_and_a_method():
    suites = set()
    for file, test, decorators in ports():
        named = called(decorators, "stands_for")
        assert named, f"{file}: {test} stands for nothing"
        for suite, *methods in named:
            assert methods, f"{file}: {test} names no method"
            suites.add(suite)
    assert suites == {*peer.SUITES}


def test_what_differs_is_in_the_guide():
    places = {
        place
        for _, _, decorators in ports()
        for (place,) in called(decorators, "documented")
    }
    items = {*re.findall(r"^- \*\*(.*?)\.\*\*", PORTING, re.MULTILINE)}
    assert places <= items, places - items
    assert len(places) > 9


def test_nothing_is_expected_to_fail_without_the_place_that_says_so():
    for path in HERE.glob("test_peer_*.py"):
        assert "xfail" not in path.read_text("utf8"), path.name
