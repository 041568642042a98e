"""Regular expressions take linear time: each is fed long runs of its own characters.

The expressions are found in the source code, so a new one is tested, too.
"""

import ast
import functools
import importlib
import itertools
import pathlib
import re
import warnings

import costs
import pytest

import keras_policies

ROOT = pathlib.Path(keras_policies.__file__).parent
FUNCTIONS = {
    *("compile", "findall", "finditer", "fullmatch", "match", "search", "split"),
    *("sub", "subn"),
}
# Characters of a text: a linear search takes some 1 ms, and a quadratic one seconds.
LENGTH = 30_000


def module_of(path):
    """Return the name of a module by its path."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def is_call(node):
    """Return whether a node calls a function of `re` on an expression."""
    function = node.func if isinstance(node, ast.Call) else None
    is_of_re = isinstance(function, ast.Attribute) and function.attr in FUNCTIONS
    return (
        is_of_re and isinstance(function.value, ast.Name) and function.value.id == "re"
    )


def text_of(node, path, tree):
    """Return the expression in a node: a constant, an f-string or a name.

    What else a part of an f-string may be stands for a name of one letter.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", part) for part in node.values)
        texts = (x if isinstance(x, str) else text_of(x, path, tree) for x in parts)
        return "".join(texts)
    if isinstance(node, ast.Name):
        module = importlib.import_module(module_of(path))
        if isinstance(text := getattr(module, node.id, None), str | bytes):
            return text
        for each in ast.walk(tree):
            is_it = isinstance(each, ast.Assign) and node.id == ast.unparse(
                each.targets[0]
            )
            if is_it:
                return text_of(each.value, path, tree)
    return "x"


def found_in(path):
    """Yield `(expression, flags, function)` for each use of `re` in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if is_call(node):
            flags = [name for name in ("DOTALL", "MULTILINE") if name in ast.dump(node)]
            text = text_of(node.args[0], path, tree)
            yield text, sum(getattr(re, name) for name in flags), node.func.attr


@functools.cache
def patterns():
    """Return `{name: compiled expression}` for all of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        for number, (text, flags, use) in enumerate(found_in(path)):
            found[f"{module_of(path)}-{number}"] = re.compile(text, flags), use
    return found


def _pieces(parsed):
    """Yield short texts that match parts of a parsed expression."""
    texts = [""]
    for kind, value in parsed:
        here = [*_piece(str(kind), value)] or [""]
        texts = [one + two for one in texts[:4] for two in here[:4]]
        yield from here
    yield from texts


def _piece(kind, value):
    if kind in ("LITERAL", "NOT_LITERAL"):
        yield chr(value if kind == "LITERAL" else value + 1)
    elif kind == "ANY":
        yield "a"
    elif kind == "IN":
        yield from itertools.chain(*map(_of_set, value))
    elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        yield from _pieces(value[2])
    elif kind == "SUBPATTERN":
        yield from _pieces(value[3])
    elif kind == "BRANCH":
        for branch in value[1]:
            yield from _pieces(branch)


def _of_set(item):
    kind, value = str(item[0]), item[1]
    if kind == "LITERAL":
        yield chr(value)
    elif kind == "RANGE":
        yield from map(chr, {*value})
    elif kind == "CATEGORY":
        samples = {"DIGIT": "1", "SPACE": " ", "WORD": "a"}
        yield next((samples[key] for key in samples if str(value).endswith(key)), "-")
    elif kind == "NEGATE":
        yield "~"


def parsed_of(pattern):
    """Return an expression as Python parses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = getattr(re, "_parser", None) or importlib.import_module("sre_parse")
    return parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)


def sampled(pieces):
    """Return the pieces of more than one character, and one of each other kind."""
    kinds = {(x.isalpha(), x.isupper(), x.isdigit(), x.isspace()): x for x in pieces}
    signs = [x for x in pieces if not (x.isalnum() or x.isspace())]
    return [*kinds.values(), *signs[:8], *[x for x in pieces if len(x) > 1][-6:]]


def starts_for(pattern):
    """Yield what long texts that nearly match begin with, and what they repeat."""
    pieces = {piece for piece in _pieces(parsed_of(pattern)) if piece}
    shortest = sorted(pieces, key=lambda piece: (len(piece), piece))
    return itertools.product(["", *shortest[-2:]], sampled(shortest))


def slow_for(pattern, use):
    """Return the beginnings of texts in which a search does not take linear time."""
    return [
        start + piece
        for start, piece in starts_for(pattern)
        if not costs.is_linear(
            functools.partial(search, pattern, use, start, piece), LENGTH
        )
    ]


def search(pattern, use, start, piece, length):
    """Search in a text of a length."""
    text = start + piece * (length // len(piece)) + "~"
    if isinstance(pattern.pattern, bytes):
        text = text.encode("latin-1")
    if use not in ("match", "fullmatch"):
        for _ in pattern.finditer(text):
            pass
    pattern.fullmatch(text)


def test_the_expressions_are_found():
    found = patterns()
    assert r"message (\w+) \{(.*?)\}" in {one.pattern for one, _ in found.values()}
    assert len(found) > 30


@pytest.mark.once("no Keras")
@pytest.mark.parametrize("name", patterns())
def test_a_regular_expression_takes_linear_time(name):
    assert slow_for(*patterns()[name]) == []


@pytest.mark.once("no Keras")
def test_what_once_took_quadratic_time_is_noticed():
    once = re.compile(r"\w*Tracer\((\w+\[[\d, ]*\])\)")
    work = functools.partial(search, once, "search", "", "T")
    assert not costs.is_linear(work, 4_000, unnoticed=0)
