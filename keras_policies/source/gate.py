"""What code of a model may consist of: the last check before it runs.

It reads the text that is returned, and knows nothing of how that was written. Kinds of
nodes, names and modules are on closed lists, so a fault elsewhere is an error here.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from keras import ops

from keras_policies._common import syntax
from keras_policies.source import live
from keras_policies.source.errors import SourceError
from keras_policies.source.tree import Node

EXPRESSIONS = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.keyword, ast.Subscript),
    *(ast.List, ast.Tuple, ast.Dict, ast.Slice, ast.JoinedStr, ast.FormattedValue),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.USub, ast.cmpop),
    *(ast.Load, ast.Store),
)
STATEMENTS = ast.Assign, ast.Return, ast.For, ast.Expr
BUILTINS = {"range", "float", "slice"}
SHORT = {"layers", "ops"}  # imported from keras
IMPORTS = {
    *("import keras", "import pathlib", "import numpy as np"),
    *("from keras import layers", "from keras import ops"),
    "from keras import layers, ops",
}
METHODS = {"model.add", "model.compile", "model.trainable", "np.array"}
NOT_ALLOWED = "KP406"


def check(text: str, tree: Collection[ast.stmt], own: Mapping[Any, str]) -> None:
    """Raise SourceError unless a text is a tree, and builds models and nothing else.

    `own` has the classes that it may import besides Keras, `(module, name)`, and their
    names in the module. They are those of live objects.
    """
    try:
        found = syntax.parse(text)
    except (SyntaxError, MemoryError) as error:
        raise _refused(f"Python cannot read it ({error})") from error
    if ast.dump(found) != ast.dump(ast.Module([*tree], [])):
        raise _refused("its text is another tree than the one it was made of")
    functions = (x.name for x in found.body if isinstance(x, ast.FunctionDef))
    names = {*BUILTINS, *SHORT, *own.values(), *functions}
    imports = IMPORTS | {
        f"from {module} import {name}" + f" as {new}" * (new != name)
        for (module, name), new in own.items()
    }
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            _check_function(node, {*names, "keras", "np", "DTYPE", "CONSTANTS"})
        elif not (_is_head(node) or ast.unparse(node) in imports):
            raise _refused(f"it has {ast.unparse(node)[:80]!r}")


def reading(file: str) -> ast.stmt:
    """Return the statement that reads constants from a file beside the module."""
    path = f"pathlib.Path(__file__).with_name({file!r})"
    text = f"with np.load({path}) as file:\n    CONSTANTS = dict(file)"
    return syntax.parse(text).body[0]


def _is_head(node: ast.stmt) -> bool:
    """Return whether a statement may be before the functions."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(
            targets=[ast.Name(id="DTYPE")], value=ast.Constant(value=str())
        ):
            return True
        case ast.With():
            files = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
            return len(files) == 1 and _equal(node, reading(str(files[0])))
    return False


def _check_function(function: ast.FunctionDef, names: set[str]) -> None:
    arguments = function.args
    plain = ast.arguments([], arguments.args, None, [], [], None, [])
    has_types = any([function.returns, *(each.annotation for each in arguments.args)])
    if not _equal(arguments, plain) or has_types or function.decorator_list:
        raise _refused(f"{function.name} has more than names of arguments")
    stored = {each.arg for each in arguments.args}
    found = [x for each in function.body for x in nodes(each)]
    stored |= {
        x.id for x in found if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
    }
    if wrong := stored & names or {x for x in stored if x.startswith("__")}:
        raise _refused(f"it assigns to {sorted(wrong)}")
    for node in found:
        _check_node(node, names | stored)


def _equal(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def nodes(node: Node) -> Iterator[Node]:
    """Yield the nodes below a statement; an attribute is one node with its module."""
    waiting = [node]
    while waiting:
        yield (each := waiting.pop())
        if not (isinstance(each, ast.Attribute) and _dotted(each)):
            waiting += ast.iter_child_nodes(each)


def _check_node(node: Node, names: set[str]) -> None:
    if not isinstance(node, (*EXPRESSIONS, *STATEMENTS)):
        raise _refused(f"it has a {type(node).__name__}")
    match node:
        case ast.Name(id=name):
            if name not in names or name in ("keras", "np", *SHORT):
                raise _refused(f"it has the name {name!r}")
        case ast.Attribute(
            ast.Subscript(ast.Name("CONSTANTS"), ast.Constant()), "tolist"
        ):
            pass  # a constant as a list
        case ast.Subscript(ctx=ast.Store()):
            raise _refused("it assigns to an item")
        case ast.Attribute():
            name = _dotted(node)
            is_read = isinstance(node.ctx, ast.Load) and _is_public(name)
            if not (name in METHODS or is_read):
                raise _refused(f"it has the attribute {ast.unparse(node)[:80]!r}")
        case ast.keyword(arg=None):
            raise _refused("it has keywords without names")
        case ast.Expr(value=value) if not isinstance(value, ast.Call):
            raise _refused("it has a statement without effect")


def _is_public(name: str) -> bool:
    """Return whether a name is that of a class or a function in the listed modules."""
    first, *others = name.split(".")
    if first == "ops" and len(others) <= 2 and all(x[:1] != "_" for x in others):
        thing: Any = ops
        for each in others:
            thing = getattr(thing, each, None)
        return callable(thing)
    full = f"keras.{name}" if first in SHORT else name
    return full in live.public_names()


def _dotted(node: ast.expr) -> str:
    """Return a name with dots, or "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""


def _refused(reason: str) -> SourceError:
    return SourceError(
        f"The code is not run, because {reason}, which no code of a model needs. "
        "Report the error, and convert the model to a .keras file instead.",
        NOT_ALLOWED,
    )
